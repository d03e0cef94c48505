//! A gateway that stops at one entry of the journal of its sessions, as a process that is killed there does.

use std::fmt;
use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_gateway::{
    Gateway, HttpSettings, RecordCheck, SessionFiles, SessionIdKey, SessionStore, SessionStoreFuture,
    StoredSession,
};
use bowline_testkit::HttpServer;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::gateway::at;
use crate::gateway::http_host::{ServedGateway, serve_with_settings};
use crate::support::TEST_TIMEOUT;

/// Where a gateway stops, counted in the entries that it appends to journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillPoint {
    /// Nothing of this entry is written.
    Before(usize),
    /// The entry is written, and nothing is done after that.
    After(usize),
    /// It does not stop by itself.
    Never,
}

/// A gateway in front of one server, with a runtime of its own, so that nothing of it goes on when it is killed.
pub(super) struct KilledGateway {
    /// `None` once it was killed.
    runtime: Option<Runtime>,
    served: ServedGateway,
    store: SteppedStore,
}

impl KilledGateway {
    pub(super) async fn start(folder: &Path, server: &HttpServer, kill_point: KillPoint) -> Self {
        let store = SteppedStore::open(folder, kill_point);
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
        let settings = HttpSettings::new().with_session_store(Arc::new(store.clone()));
        let gateway = Gateway::builder([at("one", server)]).build();
        let listening =
            runtime.spawn(async move { serve_with_settings(&gateway, TEST_TIMEOUT, settings).await });
        Self { served: listening.await.expect("it listens"), runtime: Some(runtime), store }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.served.address
    }

    /// Waits until it has stopped at its point.
    pub(super) async fn wait_for_kill_point(&self) {
        let mut stopped = self.store.0.has_stopped.subscribe();
        let waiting = stopped.wait_for(|has_stopped| *has_stopped);
        timeout(TEST_TIMEOUT, waiting).await.expect("it stops in time").expect("the store is there");
    }

    /// Waits until this many entries were appended by this gateway, and returns for each what it is, `o` for a request
    /// and `r` for a response, with the id of its message.
    pub(super) async fn wait_for_entries(&self, count: usize) -> Vec<String> {
        let mut entries = self.store.0.entries.subscribe();
        let waiting = entries.wait_for(|entries| entries.len() >= count);
        let entries = timeout(TEST_TIMEOUT, waiting).await.expect("they are appended in time");
        let describe = |entry: &Entry| format!("{}{}", entry.kind, entry.message["id"]);
        entries.expect("the store is there").iter().map(describe).collect()
    }

    /// The response to this request that was recorded.
    pub(super) fn recorded_answer(&self, id: u64) -> Value {
        let entries = self.store.0.entries.borrow();
        let mut answers = entries.iter().filter(|entry| entry.kind == 'r' && entry.message["id"] == id);
        let (Some(answer), None) = (answers.next(), answers.next()) else { panic!("there is one response") };
        answer.message.clone()
    }

    /// Ends it as a kill does: from now on nothing more is recorded, and other processes may have its sessions.
    pub(super) async fn kill(mut self) {
        self.store.0.is_dead.store(true, Ordering::SeqCst);
        let runtime = self.runtime.take().expect("it is killed once");
        if *self.store.0.has_stopped.borrow() {
            // The thread that has stopped would be waited for. It has the only call that is open.
            runtime.shutdown_background();
        } else {
            let shutting_down = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(TEST_TIMEOUT));
            shutting_down.await.expect("no panic");
        }
        // The operating system releases the lock of a process that has ended. What was written before stays written.
        self.store.0.files.release();
        self.store.0.files.flush().await.expect("everything is written");
    }
}

impl Drop for KilledGateway {
    fn drop(&mut self) {
        // A runtime must not be waited for here.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Files of sessions that stop whoever appends a certain entry. Clones share everything.
#[derive(Clone, Debug)]
struct SteppedStore(Arc<Steps>);

struct Steps {
    files: SessionFiles,
    kill_point: KillPoint,
    has_stopped: watch::Sender<bool>,
    /// Set when the process counts as killed: nothing is stored any more.
    is_dead: AtomicBool,
    /// What was to be appended by now, also if it was not written.
    entries: watch::Sender<Vec<Entry>>,
}

/// An entry of a journal.
struct Entry {
    /// Its first letter: `o` for a request, `r` for a response, `c` for the end of one without.
    kind: char,
    message: Value,
}

impl SteppedStore {
    fn open(folder: &Path, kill_point: KillPoint) -> Self {
        Self(Arc::new(Steps {
            files: SessionFiles::open(folder).expect("a folder"),
            kill_point,
            has_stopped: watch::Sender::new(false),
            is_dead: AtomicBool::new(false),
            entries: watch::Sender::default(),
        }))
    }
}

impl Steps {
    /// Does something unless the process counts as killed. It never completes then.
    fn unless_dead<T: Send + 'static>(
        &self,
        action: impl FnOnce(&SessionFiles) -> SessionStoreFuture<T>,
    ) -> SessionStoreFuture<T> {
        if self.is_dead.load(Ordering::SeqCst) { Box::pin(pending()) } else { action(&self.files) }
    }

    /// Takes note of an entry, and returns its number.
    fn count(&self, entry: &[u8]) -> usize {
        let text = String::from_utf8_lossy(entry);
        let (head, message) = text.split_once(' ').expect("an entry");
        let kind = head.chars().next().expect("a letter");
        let message = serde_json::from_str(message).unwrap_or_default();
        let mut number = 0;
        self.entries.send_modify(|entries| {
            number = entries.len();
            entries.push(Entry { kind, message });
        });
        number
    }

    /// Ends the work of this thread for ever. The runtime gives the other tasks of the thread to another one, also the
    /// next one, which nobody could take from it otherwise.
    fn stop_here(&self) -> ! {
        tokio::task::block_in_place(|| {
            self.has_stopped.send_replace(true);
            loop {
                std::thread::park();
            }
        })
    }
}

impl SessionStore for SteppedStore {
    fn id_key(&self) -> SessionIdKey {
        self.0.files.id_key()
    }

    fn save(&self, session: &str, record: Vec<u8>, lifetime: Duration) -> SessionStoreFuture<()> {
        self.0.unless_dead(|files| files.save(session, record, lifetime))
    }

    fn append(&self, session: &str, entry: Vec<u8>, lifetime: Duration) -> SessionStoreFuture<()> {
        let number = self.0.count(&entry);
        if self.0.kill_point == KillPoint::Before(number) {
            self.0.stop_here();
        }
        let appended = self.0.unless_dead(|files| files.append(session, entry, lifetime));
        if self.0.kill_point == KillPoint::After(number) {
            // It is written when this is dropped, or by the thread of the files.
            drop(appended);
            self.0.stop_here();
        }
        appended
    }

    fn touch(&self, session: &str, lifetime: Duration) {
        if !self.0.is_dead.load(Ordering::SeqCst) {
            self.0.files.touch(session, lifetime);
        }
    }

    fn remove(&self, session: &str) -> SessionStoreFuture<()> {
        self.0.unless_dead(|files| files.remove(session))
    }

    fn load(&self, session: &str, accepts: RecordCheck) -> SessionStoreFuture<Option<StoredSession>> {
        self.0.unless_dead(|files| files.load(session, accepts))
    }

    fn flush(&self) -> SessionStoreFuture<()> {
        self.0.unless_dead(SessionStore::flush)
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("kill_point", &self.kill_point).finish_non_exhaustive()
    }
}
