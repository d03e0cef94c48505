//! Owns where a browser comes back to: a socket of this machine, for one login, and no longer than that.
//!
//! | request | answer |
//! |---|---|
//! | GET of the redirect's path | whatever the login comes to |
//! | anything else, such as the icon that browsers ask for | 404 |
//! | any, for another host than the redirect's | 421: a name that somebody points here is not ours |

mod page;

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

pub(crate) use page::Page;

/// The path of redirects that the configuration does not name.
const PATH: &str = "/callback";
/// The longest head of a request that is read. Codes can be long.
const HEAD: usize = 64 * 1024;
/// How long a head may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a browser may take to receive its page.
const FAREWELL: Duration = Duration::from_secs(5);
/// The most connections at once. A browser opens a few ahead of need.
const CONNECTIONS: usize = 32;

/// A socket that waits for a browser. Dropped, it is closed, with every connection to it.
#[derive(Debug)]
pub(crate) struct Listener {
    sockets: Vec<TcpListener>,
    connections: JoinSet<()>,
    site: Arc<Site>,
    visits: mpsc::Receiver<Visit>,
}

/// What every connection knows.
#[derive(Debug)]
struct Site {
    path: String,
    port: u16,
    found: mpsc::Sender<Visit>,
}

/// A browser that came back, and waits for a page.
#[derive(Debug)]
pub(crate) struct Visit {
    /// What it brought: the query of the redirect.
    pub(crate) query: String,
    page: oneshot::Sender<Page>,
    /// Ends with the connection.
    sent: oneshot::Receiver<Infallible>,
}

/// The address that a configured redirect comes to, and a socket if it is on this machine and can be listened on.
///
/// `port` is the one to have where any will do, if it is free: the one that was registered last time.
pub(crate) async fn open(
    redirect: &Redirect,
    port: Option<u16>,
) -> Result<(Url, Option<Listener>), AuthError> {
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    match redirect {
        Redirect::AnyPort => match any_port(v4, port).await {
            Some((socket, port)) => Ok((local(port), Some(Listener::new(vec![socket], PATH, port)))),
            // Where nothing can be listened on, a person can still bring what the browser got.
            None => Ok((unheard(redirect), None)),
        },
        Redirect::Port(port) => {
            let socket = bind(v4, *port).await.map_err(|error| cannot_listen(*port, &error))?;
            Ok((local(*port), Some(Listener::new(vec![socket], PATH, *port))))
        }
        Redirect::Uri(uri) => {
            let Some((first, more)) = addresses(uri) else { return Ok((uri.clone(), None)) };
            let port = uri.port_or_known_default().unwrap_or(80);
            let mut sockets = vec![bind(first, port).await.map_err(|error| cannot_listen(port, &error))?];
            if let Some(address) = more {
                match bind(address, port).await {
                    Ok(socket) => sockets.push(socket),
                    // A browser may try this one first, and somebody else would get the code.
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                        return Err(cannot_listen(port, &error));
                    }
                    // A machine need not have it.
                    Err(_) => {}
                }
            }
            Ok((uri.clone(), Some(Listener::new(sockets, uri.path(), port))))
        }
    }
}

/// The address that a configured redirect comes to when nobody listens, as when a code is brought by a person.
pub(crate) fn unheard(redirect: &Redirect) -> Url {
    match redirect {
        Redirect::AnyPort => local(UNHEARD),
        Redirect::Port(port) => local(*port),
        Redirect::Uri(uri) => uri.clone(),
    }
}

/// The same, where what the browser gets there is to stay on its screen until it is copied: a port that is to be had
/// by anybody is one that nobody has at the moment.
///
/// `port` is the one to have if that is so, as in [`open`].
pub(crate) async fn unheard_now(redirect: &Redirect, port: Option<u16>) -> Url {
    match redirect {
        Redirect::AnyPort => {
            let free = any_port(IpAddr::V4(Ipv4Addr::LOCALHOST), port.or(Some(UNHEARD))).await;
            local(free.map_or(UNHEARD, |(_, port)| port))
        }
        Redirect::Port(_) | Redirect::Uri(_) => unheard(redirect),
    }
}

/// A port that is listened on by nobody, as a rule.
const UNHEARD: u16 = 8976;

fn local(port: u16) -> Url {
    Url::parse(&format!("http://127.0.0.1:{port}{PATH}")).expect("an address")
}

/// Where to listen for a redirect: there, and perhaps there as well. `None`: it is not plain `http` on this machine.
fn addresses(uri: &Url) -> Option<(IpAddr, Option<IpAddr>)> {
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

/// A socket on the port that is wished for, or else on any.
async fn any_port(address: IpAddr, wish: Option<u16>) -> Option<(TcpListener, u16)> {
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

fn cannot_listen(port: u16, error: &io::Error) -> AuthError {
    let (what, hint) = if error.kind() == io::ErrorKind::AddrInUse {
        let hint = format!(
            "end the program that uses port {port}, or configure another redirect that is registered"
        );
        (format!("port {port} is in use, so that a browser cannot come back to it"), hint)
    } else {
        let hint = "configure another redirect that is registered".to_owned();
        (format!("port {port} cannot be listened on: {error}"), hint)
    };
    AuthError::new(AuthErrorKind::Setup, what).hint(hint)
}

impl Listener {
    fn new(sockets: Vec<TcpListener>, path: &str, port: u16) -> Self {
        let (found, visits) = mpsc::channel(1);
        let site = Arc::new(Site { path: path.to_owned(), port, found });
        Self { sockets, connections: JoinSet::new(), site, visits }
    }

    /// The next browser that comes back. Dropping the future loses none.
    pub(crate) async fn visit(&mut self) -> Visit {
        loop {
            let room = self.connections.len() < CONNECTIONS;
            tokio::select! {
                Some(visit) = self.visits.recv() => return visit,
                Some(_) = self.connections.join_next() => {}
                stream = accept(&self.sockets), if room => {
                    self.connections.spawn(serve(stream, Arc::clone(&self.site)));
                }
            }
        }
    }

    /// Shows a browser its page, and listens no more. The socket is closed first, the page is sent whole.
    pub(crate) async fn end(mut self, visit: Visit, page: Page) {
        self.sockets.clear();
        let Visit { page: shown, sent, .. } = visit;
        if shown.send(page).is_ok() {
            let _ = timeout(FAREWELL, sent).await;
        }
    }
}

impl Visit {
    /// Shows the browser a page; somebody else is still waited for.
    pub(crate) fn show(self, page: Page) {
        // If it has gone, it has gone.
        let _ = self.page.send(page);
    }
}

/// The next connection. One that fails while it is made is the browser's loss, not ours.
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
            // Such as no more descriptors: that does not pass by asking at once.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Answers one request on one connection.
async fn serve(stream: TcpStream, site: Arc<Site>) {
    // Kept until the connection is over, which is when the page has been sent.
    let (over, sent) = oneshot::channel();
    let sent = std::sync::Mutex::new(Some(sent));
    let service = service_fn(|request: Request<Incoming>| {
        let sent = sent.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(answer(&request, &site, sent).await) }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    drop::<oneshot::Sender<Infallible>>(over);
}

async fn answer(
    request: &Request<Incoming>,
    site: &Site,
    sent: Option<oneshot::Receiver<Infallible>>,
) -> Response<Full<Bytes>> {
    if !site.is_ours(request) {
        let mut response = Page::Nothing.response();
        *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
        return response;
    }
    let (true, Some(sent)) = (request.method() == Method::GET && request.uri().path() == site.path, sent)
    else {
        return Page::Nothing.response();
    };
    let (page, shown) = oneshot::channel();
    let query = request.uri().query().unwrap_or_default().to_owned();
    if site.found.send(Visit { query, page, sent }).await.is_err() {
        return Page::Unknown.response();
    }
    // Nobody shows one: another visit was the one.
    shown.await.unwrap_or(Page::Unknown).response()
}

impl Site {
    fn is_ours(&self, request: &Request<Incoming>) -> bool {
        let mut hosts = request.headers().get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(url) = Url::parse(&format!("http://{}/", host.to_str().unwrap_or("?"))) else { return false };
        url.port_or_known_default() == Some(self.port)
            && url.username().is_empty()
            && addresses(&url).is_some()
    }
}

#[cfg(test)]
mod tests;
