//! Opens the socket of `bowline serve`, and says how hosts reach it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bowline::Server;
use bowline::config::Transport;
use bowline_gateway::{HttpListener, HttpSettings};
use tokio::net::TcpListener;

#[cfg(unix)]
use super::activation::{self, GivenSocket};
use super::configured;
use super::limits;
use super::oauth;
use super::views::{self, ViewMap};
use crate::args::ListenArgs;
use crate::failure::{Failure, Outcome};
use crate::print::units;
#[cfg(unix)]
use crate::private_socket::{SocketFile, bind_private};
use crate::serve_sessions;
use crate::serve_token;
use crate::settings::Settings;

/// A socket that hosts can connect to.
pub(super) struct Listener {
    pub(super) http: HttpListener,
    pub(super) kind: SocketKind,
    /// Removes the file of a Unix socket at the end.
    #[cfg(unix)]
    _socket_file: Option<SocketFile>,
}

/// Who can connect to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketKind {
    /// Everybody, so that tokens are needed.
    Tcp,
    /// Programs of the same user.
    #[cfg(unix)]
    Unix,
}

/// Binds a TCP socket. After a kill, a child that the last process was about to start may hold the socket
/// for a moment.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let until = Instant::now() + BIND_WAIT;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                tokio::time::sleep(BIND_RETRY_DELAY).await;
            }
            bound => return bound,
        }
    }
}

/// How long an address that is in use is tried again.
const BIND_WAIT: Duration = Duration::from_millis(500);
const BIND_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Opens the socket.
pub(super) async fn open(
    args: &ListenArgs,
    settings: &Settings,
    (servers, views): (&[Server], &ViewMap),
) -> Outcome<Listener> {
    let served = &units::count(servers.len(), "server");
    let has_processes = servers.iter().any(|server| matches!(server.transport, Transport::Stdio(_)));
    let mut http = http_settings(args, has_processes);
    if let Some(sessions) = serve_sessions::open(settings).await {
        http = http.with_session_store(sessions);
    }
    #[cfg(unix)]
    {
        let given = activation::take(&*settings.env).map_err(|error| {
            Failure::usage(format!("the socket of the service manager cannot be used: {error}"))
        })?;
        match given {
            Some(GivenSocket::Tcp(socket)) => {
                return serve_tcp(args, http.with_inherited_socket(), settings, (served, views), Ok(socket))
                    .await;
            }
            Some(GivenSocket::Unix(socket)) => {
                let path =
                    socket.local_addr().ok().and_then(|address| Some(address.as_pathname()?.to_owned()));
                // It need not have a path.
                let path = path.filter(|path| !path.as_os_str().is_empty());
                let path = path.unwrap_or_else(|| "of the service manager".into());
                let configured = configure(args, settings, (views, SocketKind::Unix), http)?;
                let http = HttpListener::unix(socket, configured.http.with_inherited_socket());
                note_socket(settings, (served, views), &path);
                return Ok(Listener { http, kind: SocketKind::Unix, _socket_file: None });
            }
            None => {}
        }
        if let Some(path) = &args.socket {
            let configured = configure(args, settings, (views, SocketKind::Unix), http)?;
            return open_unix(configured.http, settings, (served, views), path);
        }
    }
    serve_tcp(args, http, settings, (served, views), Err(args.address)).await
}

fn http_settings(args: &ListenArgs, has_processes: bool) -> HttpSettings {
    let settings =
        HttpSettings::new().with_sse("/sse", "/messages").with_allowed_hosts(args.allow_host.iter().cloned());
    let settings = settings.with_idle_timeout(args.session_idle);
    // A daemon has hosts on pipes, whose fronts relay them.
    let settings = if args.is_daemon() { settings.with_relayed_pipes() } else { settings };
    if has_processes { settings.with_max_sessions(MAX_SESSIONS_WITH_PROCESSES) } else { settings }
}

/// Most sessions if servers are processes, of which each session has its own.
const MAX_SESSIONS_WITH_PROCESSES: usize = 100;

/// Settings of a listener, as the configuration has them.
struct ConfiguredSettings {
    http: HttpSettings,
    /// The file of the general token.
    token_path: Option<PathBuf>,
    /// Each view, with where its token is.
    view_notes: Vec<(String, String)>,
    /// Where hosts get other tokens.
    oauth_note: Option<String>,
}

/// The settings of a listener that a reload can change: limits, views, tokens and issuers.
pub(super) fn reloaded_settings(
    args: &ListenArgs,
    settings: &Settings,
    (views, kind): (&ViewMap, SocketKind),
) -> Outcome<HttpSettings> {
    let http = HttpSettings::new().with_allowed_hosts(args.allow_host.iter().cloned());
    Ok(configure(args, settings, (views, kind), http)?.http)
}

/// Adds limits, views, tokens and issuers to the settings of a listener.
fn configure(
    args: &ListenArgs,
    settings: &Settings,
    (views, kind): (&ViewMap, SocketKind),
    http: HttpSettings,
) -> Outcome<ConfiguredSettings> {
    let serve = configured::read(settings)?;
    let http = limits::apply(http, &serve.limits);
    let mut configured =
        ConfiguredSettings { http, token_path: None, view_notes: Vec::new(), oauth_note: None };
    let needs_tokens = match kind {
        SocketKind::Tcp => true,
        #[cfg(unix)]
        SocketKind::Unix => false,
    };
    if let Some(oauth) = serve.oauth.as_ref().filter(|_| needs_tokens) {
        configured.http = oauth::accept_tokens(configured.http, oauth)?;
        configured.oauth_note = Some(oauth::describe(oauth));
    }
    if needs_tokens && !args.no_token {
        let path = token_path(args, settings)?;
        configured.http = configured.http.with_bearer_token(&load_token(&path)?);
        configured.token_path = Some(path);
    }
    for view in views.keys() {
        let path = configured.token_path.as_ref().map(|general| views::token_path(general, view));
        let token = path.as_deref().map(load_token).transpose()?;
        configured.http = configured.http.with_view(view, token.as_deref());
        let token = path.map(|path| format!(", with the token in {}", path.display())).unwrap_or_default();
        configured.view_notes.push((view.clone(), token));
    }
    Ok(configured)
}

/// Serves hosts on a socket that is open, or on one for this address.
async fn serve_tcp(
    args: &ListenArgs,
    http: HttpSettings,
    settings: &Settings,
    (served, views): (&str, &ViewMap),
    socket: Result<TcpListener, SocketAddr>,
) -> Outcome<Listener> {
    let address = match &socket {
        Ok(socket) => socket.local_addr().unwrap_or(args.address),
        Err(address) => *address,
    };
    if !address.ip().is_loopback() && !args.allow_remote {
        return Err(Failure::usage_hint(
            format!("other machines can reach {address}, and nothing is encrypted"),
            "use 127.0.0.1, or say --allow-remote and put a proxy with TLS in front",
        ));
    }
    let configured = configure(args, settings, (views, SocketKind::Tcp), http)?;
    let ConfiguredSettings { http, token_path, view_notes, oauth_note } = configured;
    let socket = match socket {
        Ok(socket) => socket,
        Err(address) => bind(address).await.map_err(|error| busy_address(address, &error))?,
    };
    let http = HttpListener::tcp(socket, http);
    let address = http.local_addr().unwrap_or(address);
    let printer = &settings.printer;
    printer.note(&format!("serving {served} at http://{address}/mcp; Ctrl-C ends it"));
    match token_path {
        Some(path) => printer.note(&format!(
            "hosts need the header `Authorization: Bearer TOKEN` with the token in {}",
            path.display()
        )),
        None if oauth_note.is_some() => {}
        None => printer.note("no token is required: every program on this machine can call your tools"),
    }
    if let Some(note) = oauth_note {
        printer.note(&note);
    }
    for (view, token) in view_notes {
        printer.note(&format!("the view `{view}` is at http://{address}/mcp/{view}{token}"));
    }
    Ok(Listener {
        http,
        kind: SocketKind::Tcp,
        #[cfg(unix)]
        _socket_file: None,
    })
}

fn load_token(path: &Path) -> Outcome<String> {
    let failure = |error| Failure::usage(format!("the token in {} cannot be used: {error}", path.display()));
    serve_token::load_or_create(path).map_err(failure)
}

fn busy_address(address: SocketAddr, error: &io::Error) -> Failure {
    let message = format!("cannot listen on {address}: {error}");
    if error.kind() == io::ErrorKind::AddrInUse {
        return Failure::usage_hint(message, "it may be running already; choose another port with --listen");
    }
    Failure::usage(message)
}

fn token_path(args: &ListenArgs, settings: &Settings) -> Outcome<PathBuf> {
    if let Some(path) = &args.token_file {
        return Ok(path.clone());
    }
    settings.state().map(|state| state.join("serve-token")).ok_or_else(|| {
        Failure::usage_hint("there is no folder for the token of hosts", "name a file with --token-file")
    })
}

#[cfg(unix)]
fn open_unix(
    http: HttpSettings,
    settings: &Settings,
    (served, views): (&str, &ViewMap),
    path: &Path,
) -> Outcome<Listener> {
    let failure = |error: &io::Error| {
        let message = format!("cannot listen on {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                Failure::usage_hint(message, "it may be running already; choose another path with --socket")
            }
            _ => Failure::usage(message),
        }
    };
    let socket = bind_private(path).map_err(|error| failure(&error))?;
    let file = SocketFile::new(path);
    let http = HttpListener::unix(socket, http);
    note_socket(settings, (served, views), path);
    Ok(Listener { http, kind: SocketKind::Unix, _socket_file: Some(file) })
}

#[cfg(unix)]
fn note_socket(settings: &Settings, (served, views): (&str, &ViewMap), path: &Path) {
    settings.printer.note(&format!("serving {served} on the socket {}; Ctrl-C ends it", path.display()));
    for view in views.keys() {
        settings.printer.note(&format!("the view `{view}` is at /mcp/{view}"));
    }
    if settings.layers().is_ok_and(|layers| layers.serve().oauth.is_some()) {
        settings.printer.note("[serve.oauth] is not used on a socket: only your programs can connect to it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child of the process before may hold the socket for a moment.
    #[tokio::test]
    async fn an_address_that_is_in_use_for_a_moment_is_bound() {
        let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap();
        let release = async {
            // The first attempt has failed by then.
            assert_eq!(TcpListener::bind(address).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
            drop(holder);
        };
        let (bound, ()) = tokio::join!(bind(address), release);
        assert_eq!(bound.unwrap().local_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn an_address_that_stays_in_use_is_an_error() {
        let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = bind(holder.local_addr().unwrap()).await;
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
