//! Owns the loopback listener that the browser is redirected to, for the duration of one login.
//!
//! | request | response |
//! |---|---|
//! | GET of the redirect's path | the result of the login |
//! | anything else, such as `/favicon.ico` | 404 |
//! | any, with a foreign `Host` | 421, as a defense against DNS rebinding |

mod result_page;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bowline_config::Redirect;
use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::{Host, Url};

use crate::error::{AuthError, AuthErrorKind};

pub(crate) use result_page::ResultPage;

/// The path of redirects that are not configured.
const CALLBACK_PATH: &str = "/callback";
/// The largest request head, in bytes. Codes can be long.
const MAX_HEAD_SIZE: usize = 64 * 1024;
/// How long a request head may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the browser may take to receive its page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many connections may be open. Browsers open a few in advance.
const MAX_CONNECTIONS: usize = 32;

/// Listens for the browser. Dropping it closes the sockets and all connections.
#[derive(Debug)]
pub(crate) struct Listener {
    sockets: Vec<TcpListener>,
    connections: JoinSet<()>,
    endpoint: Arc<CallbackEndpoint>,
    visits: mpsc::Receiver<CallbackVisit>,
}

/// What all connections share.
#[derive(Debug)]
struct CallbackEndpoint {
    path: String,
    port: u16,
    visits: mpsc::Sender<CallbackVisit>,
}

/// A browser that has followed the redirect and waits for a page.
#[derive(Debug)]
pub(crate) struct CallbackVisit {
    /// The query of the redirect.
    pub(crate) query: String,
    page: oneshot::Sender<ResultPage>,
    /// Closed when the connection ends.
    sent: oneshot::Receiver<Infallible>,
}

/// Returns the redirect URL, and a listener if that URL is on this machine.
///
/// `port` is preferred where any port will do: the one that was registered last time.
pub(crate) async fn open(
    redirect: &Redirect,
    port: Option<u16>,
) -> Result<(Url, Option<Listener>), AuthError> {
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    match redirect {
        Redirect::AnyPort => match bind_any_port(v4, port).await {
            Some((socket, port)) => {
                Ok((loopback_redirect(port), Some(Listener::new(vec![socket], CALLBACK_PATH, port))))
            }
            // Without a listener, a person can still paste what the browser received.
            None => Ok((redirect_without_listener(redirect), None)),
        },
        Redirect::Port(port) => {
            let socket = bind(v4, *port).await.map_err(|error| listen_error(*port, &error))?;
            Ok((loopback_redirect(*port), Some(Listener::new(vec![socket], CALLBACK_PATH, *port))))
        }
        Redirect::Uri(uri) => {
            let Some((first, more)) = listen_addresses(uri) else { return Ok((uri.clone(), None)) };
            let port = uri.port_or_known_default().unwrap_or(80);
            let mut sockets = vec![bind(first, port).await.map_err(|error| listen_error(port, &error))?];
            if let Some(address) = more {
                match bind(address, port).await {
                    Ok(socket) => sockets.push(socket),
                    // A browser may try this address first, and another program would receive the
                    // code.
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                        return Err(listen_error(port, &error));
                    }
                    // The machine may lack IPv6.
                    Err(_) => {}
                }
            }
            Ok((uri.clone(), Some(Listener::new(sockets, uri.path(), port))))
        }
    }
}

/// The redirect URL of a login without a listener, such as one where a person pastes the code.
pub(crate) fn redirect_without_listener(redirect: &Redirect) -> Url {
    match redirect {
        Redirect::AnyPort => loopback_redirect(UNUSED_PORT),
        Redirect::Port(port) => loopback_redirect(*port),
        Redirect::Uri(uri) => uri.clone(),
    }
}

/// The redirect URL of a login without a listener, where the browser must keep the address on
/// screen until it is copied: if any port will do, one that no program listens on.
///
/// `port` is preferred, as in [`open`].
pub(crate) async fn unused_redirect(redirect: &Redirect, port: Option<u16>) -> Url {
    match redirect {
        Redirect::AnyPort => {
            let free = bind_any_port(IpAddr::V4(Ipv4Addr::LOCALHOST), port.or(Some(UNUSED_PORT))).await;
            loopback_redirect(free.map_or(UNUSED_PORT, |(_, port)| port))
        }
        Redirect::Port(_) | Redirect::Uri(_) => redirect_without_listener(redirect),
    }
}

/// A port that is usually unused.
const UNUSED_PORT: u16 = 8976;

fn loopback_redirect(port: u16) -> Url {
    Url::parse(&format!("http://127.0.0.1:{port}{CALLBACK_PATH}")).expect("an address")
}

/// The addresses to listen on for a redirect: one, and a second for `localhost`. Returns `None`
/// unless it is plain `http` on this machine.
fn listen_addresses(uri: &Url) -> Option<(IpAddr, Option<IpAddr>)> {
    if uri.scheme() != "http" {
        return None;
    }
    match uri.host()? {
        Host::Ipv4(address) if address.is_loopback() => Some((address.into(), None)),
        Host::Ipv6(address) if address.is_loopback() => Some((address.into(), None)),
        Host::Domain(name) if name.eq_ignore_ascii_case("localhost") => {
            Some((Ipv4Addr::LOCALHOST.into(), Some(Ipv6Addr::LOCALHOST.into())))
        }
        _ => None,
    }
}

/// Binds the preferred port, or else any.
async fn bind_any_port(address: IpAddr, wish: Option<u16>) -> Option<(TcpListener, u16)> {
    for port in wish.into_iter().chain([0]) {
        if let Ok(socket) = bind(address, port).await
            && let Ok(bound) = socket.local_addr()
        {
            return Some((socket, bound.port()));
        }
    }
    None
}

async fn bind(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::new(address, port)).await
}

fn listen_error(port: u16, error: &io::Error) -> AuthError {
    let (what, hint) = if error.kind() == io::ErrorKind::AddrInUse {
        let hint = format!(
            "end the program that uses port {port}, or configure another redirect that is registered"
        );
        (format!("port {port} is in use, so the browser cannot be redirected to it"), hint)
    } else {
        let hint = "configure another redirect that is registered".to_owned();
        (format!("port {port} cannot be listened on: {error}"), hint)
    };
    AuthError::new(AuthErrorKind::Setup, what).hint(hint)
}

impl Listener {
    fn new(sockets: Vec<TcpListener>, path: &str, port: u16) -> Self {
        let (sender, visits) = mpsc::channel(1);
        let endpoint = Arc::new(CallbackEndpoint { path: path.to_owned(), port, visits: sender });
        Self { sockets, connections: JoinSet::new(), endpoint, visits }
    }

    /// Waits for the next browser visit. Dropping the future loses none.
    pub(crate) async fn next_visit(&mut self) -> CallbackVisit {
        loop {
            let room = self.connections.len() < MAX_CONNECTIONS;
            tokio::select! {
                Some(visit) = self.visits.recv() => return visit,
                Some(_) = self.connections.join_next() => {}
                stream = accept(&self.sockets), if room => {
                    self.connections.spawn(serve(stream, Arc::clone(&self.endpoint)));
                }
            }
        }
    }

    /// Closes the sockets, then sends the browser its page and waits until it is delivered.
    pub(crate) async fn close_with_page(mut self, visit: CallbackVisit, page: ResultPage) {
        self.sockets.clear();
        let CallbackVisit { page: shown, sent, .. } = visit;
        if shown.send(page).is_ok() {
            let _ = timeout(PAGE_TIMEOUT, sent).await;
        }
    }
}

impl CallbackVisit {
    /// Sends the browser a page, while the listener keeps waiting for another visit.
    pub(crate) fn show(self, page: ResultPage) {
        // The browser may have gone.
        let _ = self.page.send(page);
    }
}

/// Accepts the next connection. Failed ones are ignored.
async fn accept(sockets: &[TcpListener]) -> TcpStream {
    loop {
        let accepted = match sockets {
            [one] => one.accept().await,
            [one, two, ..] => tokio::select! {
                accepted = one.accept() => accepted,
                accepted = two.accept() => accepted,
            },
            [] => std::future::pending().await,
        };
        match accepted {
            Ok((stream, _)) => return stream,
            // Such as no free descriptors, which does not improve immediately.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Serves one request on one connection.
async fn serve(stream: TcpStream, site: Arc<CallbackEndpoint>) {
    // Dropped when the connection has ended, which is when the page has been sent.
    let (over, sent) = oneshot::channel();
    let sent = parking_lot::Mutex::new(Some(sent));
    let service = service_fn(|request: Request<Incoming>| {
        let sent = sent.lock().take();
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(respond(&request, &site, sent).await) }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_SIZE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    drop::<oneshot::Sender<Infallible>>(over);
}

async fn respond(
    request: &Request<Incoming>,
    site: &CallbackEndpoint,
    sent: Option<oneshot::Receiver<Infallible>>,
) -> Response<Full<Bytes>> {
    if !site.is_own_host(request) {
        let mut response = ResultPage::NotFound.response();
        *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
        return response;
    }
    let (true, Some(sent)) = (request.method() == Method::GET && request.uri().path() == site.path, sent)
    else {
        return ResultPage::NotFound.response();
    };
    let (page, shown) = oneshot::channel();
    let query = request.uri().query().unwrap_or_default().to_owned();
    if site.visits.send(CallbackVisit { query, page, sent }).await.is_err() {
        return ResultPage::UnknownLogin.response();
    }
    // No page is sent because another visit completed the login.
    shown.await.unwrap_or(ResultPage::UnknownLogin).response()
}

impl CallbackEndpoint {
    fn is_own_host(&self, request: &Request<Incoming>) -> bool {
        let mut hosts = request.headers().get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(url) = Url::parse(&format!("http://{}/", host.to_str().unwrap_or("?"))) else { return false };
        url.port_or_known_default() == Some(self.port)
            && url.username().is_empty()
            && listen_addresses(&url).is_some()
    }
}

#[cfg(test)]
mod tests;
