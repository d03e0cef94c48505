//! [`ServerProbe`]: looks at the steps of a connection one by one, for diagnosis: the proxy, the
//! name, TCP and TLS. A real connection takes the same steps with the same settings.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_config::{Http, Tls};
use bowline_proto::fault::{Cause, Fault, Limit};
use http::Uri;
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::dial::{Dialer, HandshakeError, ResolverConfig};
use super::failure;
use super::proxy::{Proxies, Route};
use super::resolve::AddressLookup;
use super::target::Target;
use super::tls::{self, OfferedVersions, TlsSettings};
use super::tls_error::{self, TlsProblem};

/// Looks at the steps of a connection to one server. Each step is bounded by a time that the caller
/// gives, sends no request, and closes what it opened.
pub struct ServerProbe {
    target: Target,
    proxies: Proxies,
    route: Route,
    tls: Tls,
    socket: Option<std::path::PathBuf>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerRoute {
    /// Directly.
    Direct,
    /// On a Unix socket.
    Socket(std::path::PathBuf),
    /// Through the proxy at this address, which has no credentials in it. The proxy resolves names.
    Proxy(String),
    /// Through a proxy with a protocol that is not supported.
    UnsupportedProxy(String),
}

/// What a TLS handshake showed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TlsProbeReport {
    /// The certificates that the server presented, its own first, in DER. Empty if it presented
    /// none before the handshake failed. At most eight. Untrusted.
    pub certificates: Vec<Vec<u8>>,
    /// The version of TLS and of HTTP that was agreed on, or why there is none.
    pub outcome: Result<String, TlsProbeError>,
}

/// Why a TLS handshake failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TlsProbeError {
    /// The handshake failed, for this reason and with this description.
    Handshake(TlsProblem, String),
    /// A file of the TLS settings cannot be used.
    Settings(Fault),
    /// The connection failed before or during the handshake.
    Connection(Fault),
}

impl ServerProbe {
    /// Creates a probe. Nothing is contacted yet.
    pub fn new(http: &Http, proxies: Proxies) -> Result<Self, Fault> {
        let target = Target::new(http.url.clone())?;
        let route = if http.socket.is_some() { Route::Direct } else { proxies.route(&target.absolute) };
        Ok(Self { target, proxies, route, tls: http.tls.clone(), socket: http.socket.clone() })
    }

    /// Returns how the server is reached.
    pub fn route(&self) -> ServerRoute {
        match (&self.socket, &self.route) {
            (Some(path), _) => ServerRoute::Socket(path.clone()),
            (None, Route::Direct) => ServerRoute::Direct,
            (None, Route::Unusable(proxy)) => ServerRoute::UnsupportedProxy(display_proxy(proxy.uri())),
            (None, Route::Forward(proxy) | Route::Tunnel(proxy) | Route::Socks(proxy)) => {
                ServerRoute::Proxy(display_proxy(proxy.uri()))
            }
        }
    }

    /// Returns host and port that are contacted from here: those of the proxy, if there is one.
    pub fn address(&self) -> (String, u16) {
        let (uri, default) = match self.route.proxy() {
            Some(proxy) => (proxy.uri(), proxy_port(proxy.uri())),
            None => (&self.target.absolute, if self.target.is_https() { 443 } else { 80 }),
        };
        let host = uri.host().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        (bare.to_owned(), uri.port_u16().unwrap_or(default))
    }

    /// Resolves the name that is contacted from here, the way a connection does.
    pub async fn resolve(&self, limit: Duration) -> Result<Vec<IpAddr>, Fault> {
        let (host, _) = self.address();
        if let Ok(ip) = host.parse() {
            return Ok(vec![ip]);
        }
        let dns = |why: String| Fault::before_sending(Cause::Dns).with_note(why);
        match timeout(limit, AddressLookup::System.resolve(&host)).await {
            Ok(Ok(found)) if found.is_empty() => Err(dns("the name has no address".to_owned())),
            Ok(Ok(found)) => Ok(found.iter().map(SocketAddr::ip).collect()),
            Ok(Err(error)) => Err(dns(error.to_string())),
            Err(_) => Err(Fault::before_sending(Cause::Timeout(Limit::Connect))),
        }
    }

    /// Connects to the first of these addresses that accepts, and returns it. With several, each has
    /// an equal part of the time.
    pub async fn connect(&self, addresses: &[IpAddr], limit: Duration) -> Result<SocketAddr, Fault> {
        let (_, port) = self.address();
        let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        let mut failed = Fault::before_sending(Cause::Dns);
        for address in addresses.iter().map(|ip| SocketAddr::new(*ip, port)) {
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(_)) => return Ok(address),
                Ok(Err(error)) => failed = failure::connect_fault(&error),
                Err(_) => failed = Fault::before_sending(Cause::Timeout(Limit::Connect)),
            }
        }
        Err(failed)
    }

    /// Connects to the Unix socket of the server.
    #[cfg(unix)]
    pub async fn connect_socket(&self, path: &Path, limit: Duration) -> Result<(), Fault> {
        match timeout(limit, UnixStream::connect(path)).await {
            Ok(connected) => connected.map(drop).map_err(|error| failure::unix_connect_fault(&error)),
            Err(_) => Err(Fault::before_sending(Cause::Timeout(Limit::Connect))),
        }
    }

    /// Fails: there are no Unix sockets on this system.
    #[cfg(not(unix))]
    pub async fn connect_socket(&self, _path: &Path, _limit: Duration) -> Result<(), Fault> {
        std::future::ready(Err(Fault::before_sending(Cause::Unreachable))).await
    }

    /// Performs a TLS handshake with the server; `None` if its URL is not `https`.
    pub async fn handshake(&self, limit: Duration) -> Option<TlsProbeReport> {
        if !self.target.is_https() {
            return None;
        }
        let seen = Arc::new(Mutex::new(Vec::new()));
        let outcome = match timeout(limit, self.handshake_recorded(&seen)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(TlsProbeError::Connection(Fault::before_sending(Cause::Timeout(Limit::Connect)))),
        };
        let certificates = std::mem::take(&mut *seen.lock());
        Some(TlsProbeReport { certificates, outcome })
    }

    async fn handshake_recorded(&self, seen: &Arc<Mutex<Vec<Vec<u8>>>>) -> Result<String, TlsProbeError> {
        let (tls, recorded) = (self.tls.clone(), Arc::clone(seen));
        // The trust store of the system consists of many files, so it is read on a blocking thread.
        let config = tokio::task::spawn_blocking(move || {
            tls::configure_with(&tls, |inner| Arc::new(RecordingVerifier { inner, seen: recorded }))
        });
        let config = config.await.map_err(|_| TlsProbeError::Settings(Fault::new(Cause::Closed)))?;
        let config = config.map_err(TlsProbeError::Settings)?;
        let trust = Arc::new(TlsSettings::new(self.tls.clone(), OfferedVersions::Any));
        let route = self.proxies.route(&self.target.absolute);
        let dialer = Dialer::new(&self.target, route, trust, ResolverConfig::default());
        let dialer = dialer.map_err(TlsProbeError::Connection)?;
        match dialer.handshake(config).await {
            Ok(facts) => {
                let version = facts.version.and_then(|version| version.as_str().map(str::to_owned));
                let version = version.unwrap_or_else(|| "TLS".to_owned()).replace("TLSv1_", "TLS 1.");
                Ok(format!("{version}, HTTP/{}", if facts.is_http2 { "2" } else { "1.1" }))
            }
            Err(HandshakeError::Connect(fault)) => Err(TlsProbeError::Connection(fault)),
            Err(HandshakeError::Tls(error)) => Err(match failure::find_tls_error(&error) {
                Some(error) => {
                    TlsProbeError::Handshake(tls_error::classify(error), tls_error::describe(error))
                }
                None => TlsProbeError::Connection(failure::connect_fault(&error)),
            }),
        }
    }
}

/// Shows the server without the path and the query, and no credentials of a proxy.
impl fmt::Debug for ServerProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerProbe").field("address", &self.address()).field("route", &self.route()).finish()
    }
}

/// Records the certificates of a server, and leaves the decision to another verifier.
struct RecordingVerifier {
    inner: Arc<dyn ServerCertVerifier>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let all = std::iter::once(end_entity).chain(intermediates);
        *self.seen.lock() = all.take(MAX_CERTIFICATES).map(|certificate| certificate.to_vec()).collect();
        self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

impl fmt::Debug for RecordingVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingVerifier").finish_non_exhaustive()
    }
}

/// How many certificates of a chain are kept.
const MAX_CERTIFICATES: usize = 8;

/// Scheme, host and port of a proxy.
fn display_proxy(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().unwrap_or_else(|| proxy_port(uri));
    format!("{}://{host}:{port}", uri.scheme_str().unwrap_or("http"))
}

fn proxy_port(uri: &Uri) -> u16 {
    match uri.scheme_str() {
        Some("https") => 443,
        Some("http") => 80,
        _ => 1080,
    }
}
