//! Makes a connection: name, TCP or a Unix socket, proxy, TLS, and which version of HTTP is spoken over it.

use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_proto::fault::{Cause, Fault};
use http::Uri;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, ProtocolVersion};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::failure;
use super::http1_connection::Http1Connection;
use super::http2_connection::{self, Http2Driver, Http2Sender};
use super::proxy::{Intercept, Route};
use super::resolve::{AddressFilter, AddressLookup, FilteredResolver};
use super::socket::{OpenSockets, Socket, SocketControl};
use super::target::Target;
use super::tls::TlsSettings;

/// The byte stream of a connection, whatever it goes through.
pub(super) type ByteStream = Box<dyn ReadWrite>;

pub(super) trait ReadWrite: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> ReadWrite for T {}

/// A connection that was just made.
pub(super) enum NewConnection {
    /// HTTP/1.1: driven by the exchange that uses it.
    Exclusive(Box<Http1Connection>),
    /// HTTP/2: shared by many exchanges, so it needs its own task.
    Shared(Http2Sender, Box<Http2Driver>),
}

/// Makes connections to one server.
pub(super) struct Dialer {
    connector: HttpConnector<FilteredResolver>,
    route: Route,
    /// Scheme, host and port of the server.
    server: Uri,
    /// TLS settings for an `https` server, or an `https` proxy.
    trust: Arc<TlsSettings>,
    https: bool,
    /// The Unix socket on which the server is reached; `None` for TCP.
    unix_path: Option<PathBuf>,
    sockets: OpenSockets,
}

/// What a TLS handshake agreed on.
pub(super) struct TlsFacts {
    pub(super) version: Option<ProtocolVersion>,
    pub(super) is_http2: bool,
}

/// Why a TLS handshake failed.
pub(super) enum HandshakeError {
    /// There was no connection.
    Connect(Fault),
    Tls(io::Error),
}

/// How names are resolved.
#[derive(Clone, Debug, Default)]
pub(super) struct ResolverConfig {
    pub(super) lookup: AddressLookup,
    /// Which addresses may be connected to; `None` allows all.
    pub(super) filter: Option<Arc<AddressFilter>>,
}

impl Dialer {
    pub(super) fn new(
        target: &Target,
        route: Route,
        trust: Arc<TlsSettings>,
        naming: ResolverConfig,
    ) -> Result<Self, Fault> {
        let https = target.is_https();
        let server = with_port(&target.absolute, if https { 443 } else { 80 })?;
        // The user chose where the proxy is; where the server is, only the proxy finds out.
        let pass = if route.proxy().is_none() { naming.filter } else { None };
        let mut tcp = HttpConnector::new_with_resolver(FilteredResolver::new(naming.lookup, pass));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Detects a dead peer while a response is awaited, and keeps a quiet event stream alive in
        // address translators.
        tcp.set_keepalive(Some(KEEPALIVE_IDLE));
        tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        // Probes are sent only when nothing is unacknowledged, so a request that a dead peer never
        // acknowledges needs its own limit. Other systems give up on it after their own number of
        // retransmissions.
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
        Ok(Self {
            connector: tcp,
            route,
            server,
            trust,
            https,
            unix_path: None,
            sockets: OpenSockets::default(),
        })
    }

    /// Reaches the server on a Unix socket, if a path is given.
    pub(super) fn with_unix_socket(self, path: Option<&Path>) -> Self {
        Self { unix_path: path.map(Path::to_owned), ..self }
    }

    /// Whether one connection may turn out to serve all requests.
    pub(super) fn may_share(&self) -> bool {
        self.https && cfg!(feature = "http2")
    }

    /// Whether connections are encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.https
    }

    /// Breaks every connection that was made, also one that is still being made.
    pub(super) fn cut_all(&self) {
        self.sockets.cut_all();
    }

    pub(super) async fn open(&self) -> Result<NewConnection, Fault> {
        let (stream, socket) = self.open_stream().await?;
        if !self.https {
            return handshake_http1(stream, socket).await;
        }
        let tls = TlsConnector::from(self.trust.config().await?);
        let name = server_name(&self.server)?;
        let stream =
            tls.connect(name, TokioIo::new(stream)).await.map_err(|error| failure::connect_fault(&error))?;
        let shared = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream: ByteStream = Box::new(TokioIo::new(stream));
        if !shared {
            return handshake_http1(stream, socket).await;
        }
        let (sender, driver) = http2_connection::handshake(stream).await?;
        Ok(NewConnection::Shared(sender, driver))
    }

    /// Connects to the server, directly or through the proxy, without TLS.
    async fn open_stream(&self) -> Result<(ByteStream, SocketControl), Fault> {
        match self.route.proxy() {
            None => self.direct().await,
            Some(proxy) => self.connect_through_proxy(proxy).await.map_err(|fault| {
                let why = fault.evidence.note.clone().unwrap_or_default();
                fault.with_note(format!("proxy {}: {why}", proxy.uri()))
            }),
        }
    }

    /// Connects and performs a TLS handshake with this configuration. Nothing is sent over it.
    pub(super) async fn handshake(&self, config: Arc<ClientConfig>) -> Result<TlsFacts, HandshakeError> {
        let (stream, _socket) = self.open_stream().await.map_err(HandshakeError::Connect)?;
        let name = server_name(&self.server).map_err(HandshakeError::Connect)?;
        let stream = TlsConnector::from(config).connect(name, TokioIo::new(stream)).await;
        let stream = stream.map_err(HandshakeError::Tls)?;
        let connection = stream.get_ref().1;
        Ok(TlsFacts {
            version: connection.protocol_version(),
            is_http2: connection.alpn_protocol() == Some(b"h2"),
        })
    }

    async fn connect_through_proxy(&self, proxy: &Intercept) -> Result<(ByteStream, SocketControl), Fault> {
        let default_port = match proxy.uri().scheme_str() {
            Some("https") => 443,
            Some("http") => 80,
            _ => 1080,
        };
        let address = with_port(proxy.uri(), default_port)?;
        if matches!(self.route, Route::Unusable(_)) {
            return Err(
                Fault::before_sending(Cause::Unreachable).with_note("this kind of proxy is not supported")
            );
        }
        let (mut stream, socket) = self.tcp(&address).await?;
        if proxy.uri().scheme_str() == Some("https") {
            let tls = TlsConnector::from(self.trust.proxy_config().await?);
            let name = server_name(&address)?;
            let secured = tls.connect(name, TokioIo::new(stream)).await;
            stream = Box::new(TokioIo::new(secured.map_err(|error| failure::connect_fault(&error))?));
        }
        let made = ExistingStream(Some(stream));
        let stream = match self.route {
            Route::Tunnel(_) => {
                let mut tunnel = Tunnel::new(address, made);
                if let Some(auth) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                tunnel.call(self.server.clone()).await.map_err(|error| failure::connect_fault(&error))?
            }
            Route::Socks(_) => {
                let mut socks = SocksV5::new(address, made);
                if let Some((user, password)) = proxy.raw_auth() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                socks.call(self.server.clone()).await.map_err(|error| failure::connect_fault(&error))?
            }
            Route::Direct | Route::Forward(_) | Route::Unusable(_) => made.take(),
        };
        Ok((stream, socket))
    }

    async fn direct(&self) -> Result<(ByteStream, SocketControl), Fault> {
        match &self.unix_path {
            Some(path) => self.unix(path).await,
            None => self.tcp(&self.server).await,
        }
    }

    #[cfg(unix)]
    async fn unix(&self, path: &Path) -> Result<(ByteStream, SocketControl), Fault> {
        let stream = UnixStream::connect(path).await;
        let stream = stream.map_err(|error| failure::unix_connect_fault(&error))?;
        let (socket, control) = Socket::new(TokioIo::new(stream));
        self.sockets.insert(&control);
        Ok((Box::new(socket), control))
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_async, reason = "the signature is that on Unix")]
    async fn unix(&self, _path: &Path) -> Result<(ByteStream, SocketControl), Fault> {
        let note = "there are no Unix sockets on this system";
        Err(Fault::before_sending(Cause::Unreachable).with_note(note))
    }

    async fn tcp(&self, address: &Uri) -> Result<(ByteStream, SocketControl), Fault> {
        let (socket, control) = self.connect(address).await?;
        Ok((Box::new(socket), control))
    }

    async fn connect(&self, address: &Uri) -> Result<(Socket<TcpStream>, SocketControl), Fault> {
        let stream = self.connector.clone().call(address.clone()).await;
        let (socket, control) = Socket::new(stream.map_err(|error| failure::connect_fault(&error))?);
        self.sockets.insert(&control);
        Ok((socket, control))
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("server", &self.server)
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

async fn handshake_http1(stream: ByteStream, socket: SocketControl) -> Result<NewConnection, Fault> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_READ_BUFFER);
    let (sender, connection) =
        builder.handshake(stream).await.map_err(|error| failure::connect_fault(&error))?;
    Ok(NewConnection::Exclusive(Box::new(Http1Connection::new(sender, connection, socket))))
}

/// Largest buffer in which a connection reads, and so the most that an idle one keeps after a large
/// response. A response's headers have to fit into it.
const MAX_READ_BUFFER: usize = 64 * 1024;

/// Together the first three give up after 30 s on a peer that answers no probe, the same time as
/// for one that does not acknowledge what was sent. Linux takes the larger of the two for both.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(30);

/// Scheme, host and port of a URI, with an explicit port.
fn with_port(uri: &Uri, default: u16) -> Result<Uri, Fault> {
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().unwrap_or(default);
    Uri::builder()
        .scheme(uri.scheme_str().unwrap_or("http"))
        .authority(format!("{host}:{port}"))
        .path_and_query("/")
        .build()
        .map_err(|error| Fault::before_sending(Cause::Closed).with_note(error.to_string()))
}

fn server_name(uri: &Uri) -> Result<ServerName<'static>, Fault> {
    let host = uri.host().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned())
        .map_err(|error| Fault::before_sending(Cause::Tls).with_note(format!("{bare}: {error}")))
}

/// Hands an existing stream to the proxy protocols, which want to connect by themselves.
struct ExistingStream(Option<ByteStream>);

impl ExistingStream {
    fn take(self) -> ByteStream {
        self.0.expect("not called yet")
    }
}

impl Service<Uri> for ExistingStream {
    type Response = ByteStream;
    type Error = Infallible;
    type Future = Ready<Result<ByteStream, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        ready(Ok(self.0.take().expect("called once")))
    }
}

#[cfg(test)]
mod tests {
    use bowline_config::Tls;
    use tokio::net::TcpListener;

    use super::super::tls::OfferedVersions;
    use super::*;

    #[tokio::test]
    async fn a_dead_peer_is_given_up_within_half_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let target = Target::new(url.parse().unwrap()).unwrap();
        let trust = Arc::new(TlsSettings::new(Tls::default(), OfferedVersions::Any));
        let dialer = Dialer::new(&target, Route::Direct, trust, ResolverConfig::default()).unwrap();
        let (socket, _) = dialer.connect(&dialer.server).await.unwrap();
        let socket = socket.system();
        assert!(socket.keepalive().unwrap());
        #[cfg(any(target_os = "linux", target_os = "macos"))]
        {
            assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(15));
            assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(5));
            assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        }
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(30)));
    }
}
