//! [`HttpListener`]: accepts hosts over HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::connection::serve_connection;
use super::control::HttpControl;
use super::idle_watch::IdleWatch;
use super::settings::HttpSettings;
use super::site::Site;
use super::socket::ListenSocket;
use crate::host::Host;
use crate::stateless::StatelessRequests;

/// Accepts hosts over Streamable HTTP: one [`Host`] per session.
///
/// # Behavior
/// - A session begins with a POST of `initialize`, and ends when its host deletes it, when it is
///   idle for too long, when its [`Host`] is dropped, or when `initialize` is refused.
/// - A connection that breaks cancels nothing. The host may resume its streams as long as a bounded
///   log has them.
/// - Hosts of 2026-07-28 have no session, and are served if [`HttpListener::accept_stateless`] is
///   called before [`HttpListener::accept`]; requests that come before both wait. A connection of
///   theirs that breaks cancels its request.
/// - Requests are refused unless they address the listener by an allowed name, come from an allowed
///   web page or from none, and carry the token if one is set. A token is not encrypted: beyond
///   this machine, put a proxy with TLS in front.
/// - Dropping the listener closes its socket and its connections, and ends its sessions.
#[derive(Debug)]
pub struct HttpListener {
    site: Arc<Site>,
    hosts: mpsc::Receiver<Host>,
    local_addr: Option<SocketAddr>,
    connections: TaskTracker,
    /// Ends the socket, and each connection with its last response.
    closing: CancellationToken,
    /// Ends everything at once.
    _stopped: DropGuard,
}

/// How many new sessions may wait to be accepted. Further ones wait with their connection.
const MAX_WAITING_HOSTS: usize = 64;
/// How long connections may take to write what is left after their sessions have ended.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait after a connection could not be accepted, mostly for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

impl HttpListener {
    /// Listens on a TCP socket.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn tcp(socket: TcpListener, settings: HttpSettings) -> Self {
        Self::new(ListenSocket::Tcp(socket), settings)
    }

    /// Listens on a Unix socket. By which name a host addresses it does not matter. Connections of other
    /// users than the one of this process, and the administrator, are closed, whatever the permissions
    /// of the socket are.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[cfg(unix)]
    pub fn unix(socket: UnixListener, settings: HttpSettings) -> Self {
        Self::new(ListenSocket::Unix(socket), settings)
    }

    fn new(socket: ListenSocket, settings: HttpSettings) -> Self {
        let (sender, hosts) = mpsc::channel(MAX_WAITING_HOSTS);
        let local_addr = socket.local_addr();
        let site = Arc::new(Site::new(settings, socket.is_addressed_by_name(), sender));
        let (closing, stopped) = (CancellationToken::new(), CancellationToken::new());
        let connections = TaskTracker::new();
        let listening =
            listen(Arc::clone(&site), socket, connections.clone(), closing.clone(), stopped.clone());
        tokio::spawn(listening);
        Self { site, hosts, local_addr, connections, closing, _stopped: stopped.drop_guard() }
    }

    /// The address it listens on. `None` for a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }

    /// Returns a watch that tells when the listener has had no hosts for some time. It may outlive the
    /// listener.
    pub fn idle_watch(&self) -> IdleWatch {
        IdleWatch::new(self.site.sessions.open())
    }

    /// Returns what changes the settings of the listener while hosts are served.
    pub fn control(&self) -> HttpControl {
        HttpControl::new(&self.site)
    }

    /// Answers `GET /status` with what `report` returns, a JSON text, on a Unix socket. On a TCP socket nothing is at that
    /// path: what it says is for the user of this process alone. Only the first call has an effect.
    pub fn report_status(&self, report: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.site.status_report.set(Box::new(report));
    }

    /// Waits for the next session. `None` once no more are accepted.
    ///
    /// Dropping the future loses no session.
    pub async fn accept(&mut self) -> Option<Host> {
        self.site.started.cancel();
        tokio::select! {
            biased;
            () = self.site.draining.cancelled() => None,
            host = self.hosts.recv() => host,
        }
    }

    /// Serves hosts of revision 2026-07-28 as well, whose requests the caller takes from what this
    /// returns. Without it they are told to begin a session. A later call replaces the earlier one.
    pub fn accept_stateless(&self) -> StatelessRequests {
        let (sender, requests) = mpsc::channel(MAX_WAITING_HOSTS);
        *self.site.stateless.lock() = Some(sender);
        self.site.started.cancel();
        StatelessRequests::new(requests, self.site.draining.clone())
    }

    /// Accepts no more sessions: `initialize` is refused with 503, as are requests of hosts without a
    /// session, and `/readyz` says so. Sessions that exist go on.
    pub fn drain(&self) {
        self.site.draining.cancel();
    }

    /// Accepts no more sessions, waits at most `drain_timeout` until all requests of hosts have
    /// their responses, then ends all sessions and closes everything. A request over Streamable HTTP that has no
    /// response by then is answered with an error, unless it came from a process that relays a pipe and retries it. Hosts
    /// over HTTP+SSE see the end of their stream only.
    ///
    /// Dropping the future closes everything at once.
    pub async fn shut_down(mut self, drain_timeout: Duration) {
        self.drain();
        if let Some(journal) = self.site.journal.as_ref().filter(|_| self.site.settings().is_socket_inherited)
        {
            // From here on hosts reach the next process.
            journal.release();
        }
        self.hosts.close();
        // Hosts that nobody accepted.
        while self.hosts.recv().await.is_some() {}
        self.site.open_posts.close();
        if timeout(drain_timeout, self.site.open_posts.wait()).await.is_err() {
            tracing::info!("requests of hosts were still open at the end");
        }
        // Before the socket is closed, so that whoever listens on it next finds the sessions.
        if let Some(journal) = &self.site.journal {
            journal.release();
            journal.flush().await;
        }
        self.closing.cancel();
        if self.site.settings().relays_pipes {
            // The processes that relay pipes retry what is harmless, at the next process.
            self.site.sessions.leave_all_to_relays();
        } else {
            self.site.sessions.give_up_all();
        }
        self.connections.close();
        if timeout(FLUSH_TIMEOUT, self.connections.wait()).await.is_err() {
            tracing::debug!("hosts did not read all that was said");
        }
        if let Some(journal) = &self.site.journal {
            journal.flush().await;
        }
    }
}

impl Drop for HttpListener {
    fn drop(&mut self) {
        self.site.draining.cancel();
        self.site.sessions.end_all();
    }
}

/// Accepts connections until `closing`, and ends idle sessions until `stopped`.
async fn listen(
    site: Arc<Site>,
    socket: ListenSocket,
    connections: TaskTracker,
    closing: CancellationToken,
    stopped: CancellationToken,
) {
    let idle_timeout = site.settings().idle_timeout;
    let sessions = Arc::clone(&site.sessions);
    tokio::spawn(stopped.clone().run_until_cancelled_owned(async move {
        sessions.end_idle(idle_timeout).await;
    }));
    let permits = Arc::new(Semaphore::new(site.settings().max_connections.clamp(1, Semaphore::MAX_PERMITS)));
    let accepting = async {
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            match socket.accept().await {
                Ok(connection) => {
                    let serving = serve_connection(Arc::clone(&site), connection, closing.clone());
                    let serving = stopped.clone().run_until_cancelled_owned(Box::pin(serving));
                    connections.spawn(async move {
                        serving.await;
                        drop(permit);
                    });
                }
                // It was accepted, and is closed. Others need not wait for that.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    tracing::warn!("a connection of another user was refused");
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    };
    let left_to_others = async {
        if site.settings().is_socket_inherited {
            site.draining.cancelled().await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = accepting => {}
        () = closing.cancelled() => {}
        () = stopped.cancelled() => {}
        () = left_to_others => {}
    }
}
