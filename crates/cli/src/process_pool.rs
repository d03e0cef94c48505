//! [`ProcessPool`]: processes of servers that `bowline serve` keeps running for the commands of its user, so that a
//! slow server starts once and not for every command.
//!
//! A command has a process for itself while it runs, and speaks with it as if it had started it. After that the
//! process waits for the next command that would start the same one. One that a command has left in the middle of
//! something is ended, as the command would have ended its own.
//!
//! Only programs of the user can connect to the socket of a pool, and they can start these servers themselves: so what
//! views and filters hide from hosts does not matter here. Hosts cannot reach it.
//!
//! ```text
//!   attach          the end of the command: it looks for a pool, and asks it for a process
//!   lease           the other end: which process a command gets, and what passes
//!   pooled_process  one process, and the command that uses it at the moment
//!   session_record  what of a session the next command can go on with; pure
//!   process_key     whether a process is the one that a command would start
//! ```

mod attach;
mod lease;
mod pooled_process;
mod process_key;
mod session_record;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline::config::{Program, Share};
use bowline::{Fault, RpcError, Server};
use bowline_store::private::{create_folder, refuse_shared_folder};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::private_socket::{MAX_SOCKET_PATH, SocketFile, bind_private, is_same_user};
use crate::settings::Settings;
pub(crate) use attach::{PoolUse, attach};
use pooled_process::PooledProcess;
use process_key::ProcessKey;
use session_record::SessionRecord;

/// The processes that `bowline serve` keeps for commands. [`shut_down`](Self::shut_down) ends them in good order; they
/// do not outlive this process in any case.
pub(crate) struct ProcessPool {
    shared: Arc<Shared>,
    /// Removed when no more commands are accepted.
    socket: Mutex<Option<SocketFile>>,
    accepting: AbortOnDropHandle<()>,
    _sweeping: AbortOnDropHandle<()>,
}

struct Shared {
    /// Folder for the records of processes.
    process_records: Option<PathBuf>,
    state: Mutex<State>,
    /// How many commands use a process.
    leases: watch::Sender<usize>,
    /// Tasks that end processes, or that find out whether a process has to be ended.
    closing: TaskTracker,
    /// Canceled when the pool is closed.
    closed: CancellationToken,
    /// Canceled when commands are no longer waited for.
    ended: CancellationToken,
}

struct State {
    /// The servers that can be used.
    servers: HashMap<ProcessKey, PooledServer>,
    /// The processes that wait for a command.
    idle: Vec<IdleProcess>,
    /// When a process was last used by a command.
    last_use: Instant,
    is_closed: bool,
}

/// A server whose processes are kept.
#[derive(Clone)]
struct PooledServer {
    name: String,
    program: Program,
    /// How many bytes a message of the server may have.
    message_limit: usize,
    /// How long a process waits for the next command.
    linger: Duration,
}

/// Which process a command can use: one that was started like this, in this folder, of these files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PoolSlot {
    key: ProcessKey,
    folder: Option<PathBuf>,
    /// A hash of the files of the program.
    files: String,
}

struct IdleProcess {
    slot: PoolSlot,
    process: Arc<PooledProcess>,
    since: Instant,
}

/// Counts a command while it lives.
struct LeaseGuard(Arc<Shared>);

// === impl ProcessPool ===

impl ProcessPool {
    /// Opens the pool of this process, in which commands find these servers. Fails if it can have no socket.
    pub(crate) fn open(settings: &Settings, servers: &[Server]) -> io::Result<Self> {
        let (socket, file) = open_socket(settings)?;
        let shared = Arc::new(Shared::new(settings.folders().process_records));
        let accepting = tokio::spawn(accept(socket, Arc::clone(&shared)));
        let sweeping = tokio::spawn(sweep(Arc::downgrade(&shared)));
        let pool = Self {
            shared,
            socket: Mutex::new(Some(file)),
            accepting: AbortOnDropHandle::new(accepting),
            _sweeping: AbortOnDropHandle::new(sweeping),
        };
        pool.set_servers(servers);
        Ok(pool)
    }

    /// Takes over other servers. Processes of those that are gone are ended when their commands are done.
    pub(crate) fn set_servers(&self, servers: &[Server]) {
        self.shared.set_servers(servers);
    }

    /// Whether no command has used a process for this long.
    pub(crate) fn is_idle_for(&self, limit: Duration) -> bool {
        *self.shared.leases.borrow() == 0 && self.shared.state.lock().last_use.elapsed() >= limit
    }

    /// Waits until no command has used a process for this long.
    pub(crate) async fn wait_until_idle_for(&self, limit: Duration) {
        let mut leases = self.shared.leases.subscribe();
        while !self.is_idle_for(limit) {
            let _ = leases.wait_for(|leases| *leases == 0).await;
            let since = self.shared.state.lock().last_use.elapsed();
            sleep(limit.saturating_sub(since)).await;
        }
    }

    /// Accepts no more commands, lets those that are here go on for at most `limit`, and ends all processes.
    pub(crate) async fn shut_down(&self, limit: Duration) {
        *self.socket.lock() = None;
        self.accepting.abort();
        let idle = {
            let mut state = self.shared.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.idle)
        };
        self.shared.closed.cancel();
        for waiting in idle {
            self.shared.spawn_close(waiting.process);
        }
        let mut leases = self.shared.leases.subscribe();
        let _ = timeout(limit, leases.wait_for(|leases| *leases == 0)).await;
        // Each gives its process back, which is ended in order.
        self.shared.ended.cancel();
        let _ = timeout(LEASE_END_TIMEOUT, leases.wait_for(|leases| *leases == 0)).await;
        self.shared.closing.close();
        let _ = timeout(CLOSE_TIMEOUT, self.shared.closing.wait()).await;
    }
}

/// The program of a server whose processes can be kept, with its key. One of which each host is to have its own is
/// not kept for the next command either.
fn pooled_program(server: &Server) -> Option<(&Program, ProcessKey)> {
    let program = server.transport.program().filter(|_| server.share != Share::Session)?;
    Some((program, ProcessKey::new(server, program)))
}

fn open_socket(settings: &Settings) -> io::Result<(UnixListener, SocketFile)> {
    let mut reason = io::Error::other("there is no folder for its socket");
    for folder in settings.socket_folders() {
        let path = folder.join(format!("{}.{SOCKET_EXTENSION}", std::process::id()));
        let open = || {
            if path.as_os_str().len() > MAX_SOCKET_PATH {
                return Err(io::Error::other("the path of the socket would be too long"));
            }
            create_folder(&folder)?;
            refuse_shared_folder(&folder)?;
            bind_private(&path)
        };
        match open() {
            Ok(socket) => return Ok((socket, SocketFile::new(&path))),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

async fn accept(socket: UnixListener, pool: Arc<Shared>) {
    loop {
        match socket.accept().await {
            Ok((stream, _)) if !is_same_user(&stream) => {
                tracing::warn!("a process of another user tried to use the processes of servers");
            }
            Ok((stream, _)) => {
                tokio::spawn(lease::serve(Arc::clone(&pool), stream));
            }
            Err(error) => {
                tracing::debug!(%error, "a command could not be accepted");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

async fn sweep(pool: Weak<Shared>) {
    let mut ticks = interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(pool) = pool.upgrade() else { return };
        pool.close_idle();
    }
}

// === impl Shared ===

impl Shared {
    fn new(process_records: Option<PathBuf>) -> Self {
        let state =
            State { servers: HashMap::new(), idle: Vec::new(), last_use: Instant::now(), is_closed: false };
        Self {
            process_records,
            state: Mutex::new(state),
            leases: watch::Sender::new(0),
            closing: TaskTracker::new(),
            closed: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    /// Takes over other servers, and ends the waiting processes of those that are gone.
    fn set_servers(&self, servers: &[Server]) {
        let mut known = HashMap::new();
        for server in servers {
            let Some((program, key)) = pooled_program(server) else { continue };
            let pooled = PooledServer {
                name: server.name.clone(),
                program: program.clone(),
                message_limit: server.message_limit,
                linger: server.idle_stop.map_or(MAX_LINGER, |limit| limit.min(MAX_LINGER)),
            };
            known.insert(key, pooled);
        }
        let mut state = self.state.lock();
        state.servers = known;
        let State { idle, servers, .. } = &mut *state;
        let gone = idle.extract_if(.., |waiting| !servers.contains_key(&waiting.slot.key));
        gone.for_each(|waiting| self.spawn_close(waiting.process));
    }

    /// Counts a command. `None` if there are too many, or the pool is closed.
    fn begin_lease(self: &Arc<Self>) -> Option<LeaseGuard> {
        if self.state.lock().is_closed {
            return None;
        }
        let has_room = self.leases.send_if_modified(|leases| {
            let has_room = *leases < MAX_LEASES;
            *leases += usize::from(has_room);
            has_room
        });
        has_room.then(|| LeaseGuard(Arc::clone(self)))
    }

    /// Whether another command can be counted.
    fn has_room(&self) -> bool {
        *self.leases.borrow() < MAX_LEASES
    }

    /// The server of a slot, if it can be used: not after the pool was closed, since nobody would end a process that
    /// is started then.
    fn server(&self, slot: &PoolSlot) -> Option<PooledServer> {
        let state = self.state.lock();
        if state.is_closed {
            return None;
        }
        let server = state.servers.get(&slot.key)?;
        // A folder is given if and only if the program depends on where it is started.
        let has_folder = server.program.cwd.as_deref().is_none_or(Path::is_relative);
        let is_valid = slot.folder.as_deref().is_none_or(Path::is_absolute);
        (has_folder == slot.folder.is_some() && is_valid).then(|| server.clone())
    }

    /// Whether a process waits for a command with this slot.
    fn has_idle(&self, slot: &PoolSlot) -> bool {
        self.state.lock().idle.iter().any(|waiting| waiting.is_for(slot))
    }

    /// Ends the waiting processes that commands with this slot would use, were they not outdated.
    fn close_outdated(&self, slot: &PoolSlot) {
        let mut state = self.state.lock();
        let outdated = state.idle.extract_if(.., |waiting| {
            let PoolSlot { key, folder, files } = &waiting.slot;
            *key == slot.key && *folder == slot.folder && *files != slot.files
        });
        outdated.for_each(|waiting| self.spawn_close(waiting.process));
    }

    /// Starts a process.
    async fn start(self: &Arc<Self>, slot: &PoolSlot) -> Result<Arc<PooledProcess>, Option<Fault>> {
        let server = self.server(slot).ok_or(None)?;
        PooledProcess::start(self, &server, slot.folder.as_deref()).await.map_err(Some)
    }

    /// Takes the process that waits shortest of those that are fit. One that does not answer is set aside.
    async fn take(
        self: &Arc<Self>,
        slot: &PoolSlot,
        is_fit: impl Fn(&PooledProcess) -> bool,
    ) -> Option<Arc<PooledProcess>> {
        loop {
            let process = {
                let mut state = self.state.lock();
                let mut found = state.idle.iter().enumerate().rev();
                let (at, _) = found.find(|(_, waiting)| waiting.is_for(slot) && is_fit(&waiting.process))?;
                state.idle.remove(at).process
            };
            // One that was just started may take its time.
            if process.with_record(SessionRecord::was_used) && !process.answers_within(PROBE_TIMEOUT).await {
                tracing::debug!("a process does not answer, and is not used for now");
                self.set_aside(slot.clone(), process);
            } else if process.with_record(SessionRecord::is_reusable) {
                return Some(process);
            } else {
                self.spawn_close(process);
            }
        }
    }

    /// Keeps a process that does not answer until it does, and ends it if it does not for [`BUSY_TIMEOUT`]. A server
    /// with one thread that works on a task does not answer, and would lose the task if it were ended.
    fn set_aside(self: &Arc<Self>, slot: PoolSlot, process: Arc<PooledProcess>) {
        let pool = Arc::clone(self);
        self.closing.spawn(async move {
            let answers = tokio::select! {
                answers = process.answers_within(BUSY_TIMEOUT) => answers,
                () = pool.closed.cancelled() => false,
            };
            if answers {
                pool.keep(&slot, process);
            } else {
                process.close().await;
            }
        });
    }

    /// Keeps a process for the next command, or ends it if there can be none. If too many wait, the one that has
    /// waited longest is ended.
    fn keep(&self, slot: &PoolSlot, process: Arc<PooledProcess>) {
        let mut state = self.state.lock();
        // A process that ends after this is removed by `forget`, which waits for the lock.
        let is_usable = !state.is_closed && state.servers.contains_key(&slot.key) && !process.has_ended();
        if !is_usable {
            drop(state);
            return self.spawn_close(process);
        }
        let oldest = (state.idle.len() >= MAX_IDLE).then(|| state.idle.remove(0).process);
        state.idle.push(IdleProcess { slot: slot.clone(), process, since: Instant::now() });
        drop(state);
        if let Some(oldest) = oldest {
            self.spawn_close(oldest);
        }
    }

    /// The error with which a server refused to be asked for modern revisions, if a process with a session waits.
    fn discover_refusal(&self, slot: &PoolSlot) -> Option<RpcError> {
        let state = self.state.lock();
        let mut waiting = state.idle.iter().filter(|waiting| waiting.slot == *slot);
        waiting.find_map(|waiting| waiting.process.with_record(|record| record.discover_refusal().cloned()))
    }

    /// Forgets a process that has ended.
    fn forget(&self, process: &Arc<PooledProcess>) {
        self.state.lock().idle.retain(|waiting| !Arc::ptr_eq(&waiting.process, process));
    }

    /// Ends the processes that have waited too long for a command, or that no command can use any more.
    fn close_idle(&self) {
        let mut state = self.state.lock();
        let State { idle, servers, .. } = &mut *state;
        let old = idle.extract_if(.., |waiting| {
            let linger = servers.get(&waiting.slot.key).map_or(Duration::ZERO, |server| server.linger);
            waiting.since.elapsed() >= linger || !waiting.process.with_record(SessionRecord::is_reusable)
        });
        old.for_each(|waiting| self.spawn_close(waiting.process));
    }

    fn spawn_close(&self, process: Arc<PooledProcess>) {
        self.closing.spawn(async move { process.close().await });
    }
}

impl IdleProcess {
    /// Whether a command with this slot can use it.
    fn is_for(&self, slot: &PoolSlot) -> bool {
        self.slot == *slot && self.process.with_record(SessionRecord::is_reusable)
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.0.state.lock().last_use = Instant::now();
        self.0.leases.send_modify(|leases| *leases -= 1);
    }
}

/// How the sockets of pools are called, after the ids of their processes.
const SOCKET_EXTENSION: &str = "pool";
/// How long a process waits for the next command, unless its entry has a shorter `idle_stop`.
const MAX_LINGER: Duration = Duration::from_secs(5 * 60);
/// How many processes wait for commands.
const MAX_IDLE: usize = 32;
/// How long a server that no command uses may take to answer before a command gets another process.
const PROBE_TIMEOUT: Duration = Duration::from_millis(2500);
/// How long a server may take to answer before it is ended.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
/// How many commands use processes at once. More start their own.
const MAX_LEASES: usize = 64;
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long commands may take to give their processes back.
const LEASE_END_TIMEOUT: Duration = Duration::from_secs(1);
/// Longer than the shutdown of a process takes: stdin closed, then TERM, then KILL.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);
