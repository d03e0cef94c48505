//! Records the sessions of a listener, in order and without holding up what they do.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::server::event_streams::StreamId;
use bowline_proto::server::session_journal::{JournalEntry, SessionRecord};
use bowline_proto::wire::{Json, method};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::session::SessionId;
use crate::audience::Audience;
use crate::session_store::{SessionStore, StoredSession};

/// Records the sessions of a listener.
#[derive(Clone)]
pub(crate) struct Journal {
    store: Arc<dyn SessionStore>,
    commands: mpsc::Sender<Command>,
    lifetime: Duration,
    /// Until when the store is not waited for.
    suspended_until: Arc<Mutex<Option<Instant>>>,
}

/// Records one session.
pub(crate) struct SessionJournal {
    journal: Journal,
    /// What the session is called in the store.
    name: Arc<str>,
    audience: Audience,
    state: Mutex<State>,
}

struct State {
    /// `None` before `initialize`.
    record: Option<SessionRecord>,
    /// When the lifetime of what is stored began.
    touched: Instant,
    /// How many entries were appended so far.
    appended: u64,
    /// The requests without a response, by stream, and when they were appended.
    open: BTreeMap<StreamId, (Vec<u8>, u64)>,
}

/// What is to be stored.
#[derive(Debug)]
enum Command {
    Save {
        session: Arc<str>,
        record: Vec<u8>,
    },
    Append {
        session: Arc<str>,
        entry: Vec<u8>,
        stored: Option<oneshot::Sender<()>>,
    },
    Touch {
        session: Arc<str>,
    },
    Remove {
        session: Arc<str>,
    },
    /// Says when everything before it was carried out.
    Flush {
        _done: oneshot::Sender<()>,
    },
}

/// How many commands may wait for the store. Then requests wait that have to be recorded, and the
/// rest is dropped.
const MAX_QUEUED_COMMANDS: usize = 4 * 1024;
/// How many commands are carried out together.
const MAX_BATCH: usize = 256;
/// After how many further entries an open request is appended again.
const MAX_ENTRY_AGE: u64 = 256;
/// How long nothing is recorded after the store did not answer in time: calls must not wait for it one
/// after the other.
const SUSPENSION: Duration = Duration::from_secs(30);
/// How long a request waits until it is recorded. A store that hangs must not stop everything.
const STORE_TIMEOUT: Duration = Duration::from_secs(3);

impl Journal {
    /// Records sessions in `store`, and forgets each after `lifetime` without a sign of it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(store: Arc<dyn SessionStore>, lifetime: Duration) -> Self {
        let (commands, receiver) = mpsc::channel(MAX_QUEUED_COMMANDS);
        tokio::spawn(write(Arc::clone(&store), receiver, lifetime));
        Self { store, commands, lifetime, suspended_until: Arc::default() }
    }

    fn is_suspended(&self) -> bool {
        self.suspended_until.lock().is_some_and(|until| Instant::now() < until)
    }

    fn suspend(&self) {
        tracing::warn!("the store of sessions does not answer; calls are not recorded for a while");
        *self.suspended_until.lock() = Some(Instant::now() + SUSPENSION);
    }

    /// Records a session that begins.
    pub(crate) fn begin(&self, id: &SessionId, audience: &Audience) -> SessionJournal {
        self.session(id, audience.clone(), None)
    }

    /// Loads a session that another process has recorded, and goes on recording it.
    pub(crate) async fn load(
        &self,
        id: &SessionId,
    ) -> Option<(SessionJournal, SessionRecord, Vec<JournalEntry>)> {
        if self.is_suspended() {
            return None;
        }
        let name = name_of(id);
        let loaded = timeout(STORE_TIMEOUT, self.store.load(&name)).await;
        let StoredSession { record, journal } = match loaded {
            Ok(Ok(stored)) => stored?,
            Ok(Err(error)) => {
                tracing::warn!(%error, "a session could not be loaded");
                return None;
            }
            Err(_) => {
                self.suspend();
                return None;
            }
        };
        let record: SessionRecord = serde_json::from_slice(&record).ok()?;
        record.revision.as_ref()?;
        let entries = journal.iter().filter_map(|entry| JournalEntry::decode(entry)).collect();
        let audience = Audience::recorded(record.principal.as_deref(), record.view.as_deref());
        Some((self.session(id, audience, Some(record.clone())), record, entries))
    }

    /// Waits until everything is stored that was recorded so far.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let flush = async {
            if self.commands.send(Command::Flush { _done: done }).await.is_ok() {
                // The sender is dropped when it is done.
                let _ = flushed.await;
            }
        };
        let _ = timeout(STORE_TIMEOUT, flush).await;
    }

    fn session(&self, id: &SessionId, audience: Audience, record: Option<SessionRecord>) -> SessionJournal {
        let state = State { record, touched: Instant::now(), appended: 0, open: BTreeMap::new() };
        let state = Mutex::new(state);
        SessionJournal { journal: self.clone(), name: name_of(id).into(), audience, state }
    }
}

impl SessionJournal {
    /// Takes note of a request that changes the state of the session.
    pub(crate) fn note_request(&self, asked: &str, params: Option<&Json>) {
        let mut state = self.state.lock();
        let record = match &mut state.record {
            Some(record) => record,
            None if *asked == *method::INITIALIZE => {
                let params = params.cloned().unwrap_or_else(Json::empty_object);
                let mut record = SessionRecord::new(params);
                record.view = self.audience.view().map(str::to_owned);
                record.principal = self.audience.principal().map(str::to_owned);
                state.record = Some(record);
                return;
            }
            None => return,
        };
        if record.note_request(asked, params) && record.revision.is_some() {
            let record = serde_json::to_vec(record);
            drop(state);
            self.save(record.ok());
        }
    }

    /// Takes note of the revision that was agreed on. From here on the session is known.
    pub(crate) fn note_revision(&self, revision: &str) {
        let mut state = self.state.lock();
        let Some(record) = &mut state.record else { return };
        if record.revision.as_deref() != Some(revision) {
            record.revision = Some(revision.to_owned());
            let record = serde_json::to_vec(record);
            drop(state);
            self.save(record.ok());
        }
    }

    /// Records an entry, and waits until it is stored. Returns whether it is.
    pub(crate) async fn append(&self, entry: &JournalEntry) -> bool {
        if self.journal.is_suspended() {
            return false;
        }
        let (stored, waiter) = oneshot::channel();
        let encoded = self.count_entry(entry);
        let command =
            Command::Append { session: Arc::clone(&self.name), entry: encoded, stored: Some(stored) };
        let appended = async { self.journal.commands.send(command).await.is_ok() && waiter.await.is_ok() };
        timeout(STORE_TIMEOUT, appended).await.unwrap_or_else(|_| {
            self.journal.suspend();
            false
        })
    }

    /// Records an entry after all earlier ones, without waiting for it to be stored.
    pub(crate) fn append_later(&self, entry: &JournalEntry) {
        let entry = self.count_entry(entry);
        self.send(Command::Append { session: Arc::clone(&self.name), entry, stored: None });
    }

    /// Encodes an entry, and appends requests again that are open for so many entries that the store
    /// might soon drop them.
    fn count_entry(&self, entry: &JournalEntry) -> Vec<u8> {
        let encoded = entry.encode();
        let mut state = self.state.lock();
        state.appended += 1;
        let now = state.appended;
        match entry {
            JournalEntry::Open { stream, .. } => drop(state.open.insert(*stream, (encoded.clone(), now))),
            // A recorded POST has one request.
            JournalEntry::Response { stream, .. } | JournalEntry::Closed { stream } => {
                state.open.remove(stream);
            }
        }
        let mut again = Vec::new();
        for (entry, appended) in state.open.values_mut() {
            if now - *appended >= MAX_ENTRY_AGE {
                *appended = now;
                again.push(entry.clone());
            }
        }
        drop(state);
        for entry in again {
            self.send(Command::Append { session: Arc::clone(&self.name), entry, stored: None });
        }
        encoded
    }

    /// Says that the session is in use.
    pub(crate) fn touch(&self, now: Instant) {
        let mut state = self.state.lock();
        if now.saturating_duration_since(state.touched) < self.journal.lifetime / 4 {
            return;
        }
        state.touched = now;
        drop(state);
        self.send(Command::Touch { session: Arc::clone(&self.name) });
    }

    /// Forgets the session, which is over.
    pub(crate) fn remove(&self) {
        self.send(Command::Remove { session: Arc::clone(&self.name) });
    }

    fn save(&self, record: Option<Vec<u8>>) {
        if let Some(record) = record {
            self.send(Command::Save { session: Arc::clone(&self.name), record });
        }
    }

    fn send(&self, command: Command) {
        if self.journal.commands.try_send(command).is_err() {
            tracing::warn!("what has become of a session was not recorded: the store is too slow");
        }
    }
}

/// Carries out commands: those of one session in their order, those of several together.
async fn write(store: Arc<dyn SessionStore>, mut commands: mpsc::Receiver<Command>, lifetime: Duration) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while commands.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let mut by_session: Vec<(Arc<str>, Vec<Command>)> = Vec::new();
        let mut flushes = Vec::new();
        for command in batch.drain(..) {
            let session = match &command {
                Command::Save { session, .. }
                | Command::Append { session, .. }
                | Command::Touch { session }
                | Command::Remove { session } => session,
                Command::Flush { .. } => {
                    flushes.push(command);
                    continue;
                }
            };
            match by_session.iter_mut().find(|(other, _)| other == session) {
                Some((_, commands)) => commands.push(command),
                None => by_session.push((Arc::clone(session), vec![command])),
            }
        }
        let mut writing = JoinSet::new();
        for (session, commands) in by_session {
            let store = Arc::clone(&store);
            writing.spawn(async move { write_session(&*store, &session, commands, lifetime).await });
        }
        while writing.join_next().await.is_some() {}
        // Dropping them says that it is done.
        flushes.clear();
    }
}

async fn write_session(store: &dyn SessionStore, session: &str, commands: Vec<Command>, lifetime: Duration) {
    let (mut entries, mut waiters) = (Vec::new(), Vec::new());
    let mut commands = commands.into_iter().peekable();
    while let Some(command) = commands.next() {
        let written = match command {
            Command::Append { entry, stored, .. } => {
                entries.push(entry);
                waiters.extend(stored);
                if matches!(commands.peek(), Some(Command::Append { .. })) {
                    continue;
                }
                store.append(session, std::mem::take(&mut entries), lifetime).await
            }
            Command::Save { record, .. } => store.save(session, record, lifetime).await,
            Command::Touch { .. } => store.touch(session, lifetime).await,
            Command::Remove { .. } => store.remove(session).await,
            Command::Flush { .. } => Ok(()),
        };
        match written {
            // Whoever waits may have been dropped.
            Ok(()) => {
                for waiter in waiters.drain(..) {
                    let _ = waiter.send(());
                }
            }
            Err(error) => {
                waiters.clear();
                tracing::warn!(%error, "a session could not be recorded");
            }
        }
    }
}

/// What a session is called in the store: whoever reads the store does not learn its id.
fn name_of(id: &SessionId) -> String {
    let mut name = String::with_capacity(64);
    for byte in digest(&SHA256, id.as_str().as_bytes()).as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("store", &self.store).finish_non_exhaustive()
    }
}
