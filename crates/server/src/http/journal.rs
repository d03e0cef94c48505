//! Records the sessions of a listener.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::server::event_streams::StreamId;
use bowline_proto::server::session_journal::{JournalEntry, SessionRecord};
use bowline_proto::wire::{Json, method};
use bytes::Bytes;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tokio::time::{Instant, timeout};

use super::failure_reports::FailureReports;
use super::session_id::SessionId;
use crate::audience::Audience;
use crate::session_store::{RecordCheck, SessionStore, SessionStoreFuture, StoredSession};

/// Records the sessions of a listener.
#[derive(Clone)]
pub(crate) struct Journal {
    store: Arc<dyn SessionStore>,
    lifetime: Duration,
    /// Until when the store is not waited for.
    suspended_until: Arc<Mutex<Option<Instant>>>,
    /// Which failures of the store were reported lately.
    reports: Arc<Mutex<FailureReports>>,
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
    /// What was appended so far.
    appended: Extent,
    /// Whether the session is over.
    is_removed: bool,
    /// The POSTs with requests that have no response, by stream, and what had been appended before them.
    open: BTreeMap<StreamId, (Vec<u8>, Extent)>,
}

/// What the journal of a session has cannot be loaded now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalUnavailable;

/// How much was appended.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    entries: u64,
    bytes: u64,
}

/// After how many further entries, or bytes of them, an open request is appended again.
const MAX_ENTRY_AGE: Extent = Extent { entries: 256, bytes: 1024 * 1024 };
/// How long nothing is recorded after the store did not answer in time: calls must not wait for it one
/// after the other.
const SUSPENSION: Duration = Duration::from_secs(30);
/// How long a request waits until it is recorded. A store that hangs must not stop everything.
const STORE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a session may take to load. Its host can do nothing without it, so this is longer.
const LOAD_TIMEOUT: Duration = Duration::from_secs(15);
/// The cause that is reported for a store that hangs.
const NO_ANSWER: &str = "the store of sessions does not answer";

impl Journal {
    /// Records sessions in `store`, and forgets each after `lifetime` without a sign of it.
    pub(crate) fn new(store: Arc<dyn SessionStore>, lifetime: Duration) -> Self {
        Self { store, lifetime, suspended_until: Arc::default(), reports: Arc::default() }
    }

    fn is_suspended(&self) -> bool {
        self.suspended_until.lock().is_some_and(|until| Instant::now() < until)
    }

    fn suspend(&self) {
        self.report(NO_ANSWER);
        *self.suspended_until.lock() = Some(Instant::now() + SUSPENSION);
    }

    /// Waits until something is stored. Returns whether it is.
    pub(crate) async fn wait(&self, stored: SessionStoreFuture<()>) -> bool {
        if self.is_suspended() {
            return false;
        }
        match timeout(STORE_TIMEOUT, stored).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                self.report(&error);
                false
            }
            Err(_) => {
                self.suspend();
                false
            }
        }
    }

    /// Says that sessions are not recorded, now and then.
    fn report(&self, cause: &str) {
        if self.reports.lock().note(cause, Instant::now()) {
            tracing::warn!(
                error = cause,
                "sessions of hosts, and calls, are not recorded: they will not outlive a crash"
            );
            self.store.report_failure(cause);
        }
    }

    /// Records a session that begins.
    pub(crate) fn begin(&self, id: &SessionId, audience: &Audience) -> SessionJournal {
        self.session(id, audience.clone(), None)
    }

    /// Loads a session that another process has recorded, if it is accepted, and goes on recording it. `None` only if
    /// the store has no such session.
    pub(crate) async fn load(
        &self,
        id: &SessionId,
        accepts: impl FnOnce(&SessionRecord) -> bool + Send + 'static,
    ) -> Result<Option<(SessionJournal, SessionRecord, Vec<JournalEntry>)>, JournalUnavailable> {
        let name = name_of(id);
        let accepts = Box::new(move |record: &[u8]| {
            serde_json::from_slice(record)
                .is_ok_and(|record: SessionRecord| record.revision.is_some() && accepts(&record))
        });
        let Some(StoredSession { record, journal }) = self.load_stored(&name, accepts).await? else {
            return Ok(None);
        };
        let Ok(record) = serde_json::from_slice::<SessionRecord>(&record) else { return Ok(None) };
        let entries = journal.iter().filter_map(|entry| JournalEntry::decode(entry)).collect();
        let audience = Audience::recorded(record.principal.as_deref(), record.view.as_deref());
        Ok(Some((self.session(id, audience, Some(record.clone())), record, entries)))
    }

    /// Loads the responses that the journal of a session has for a stream, which this process serves.
    async fn load_responses(&self, name: &str, stream: StreamId) -> Result<Vec<Bytes>, JournalUnavailable> {
        let journal = self.load_stored(name, Box::new(|_| true)).await?.unwrap_or_default().journal;
        let responses = journal.iter().filter_map(|entry| match JournalEntry::decode(entry)? {
            JournalEntry::Response { stream: other, data } if other == stream => Some(data),
            _ => None,
        });
        Ok(responses.collect())
    }

    /// Loads what the store has of a session, if its record is accepted.
    async fn load_stored(
        &self,
        name: &str,
        accepts: RecordCheck,
    ) -> Result<Option<StoredSession>, JournalUnavailable> {
        if self.is_suspended() {
            return Err(JournalUnavailable);
        }
        match timeout(LOAD_TIMEOUT, self.store.load(name, accepts)).await {
            Ok(Ok(stored)) => Ok(stored),
            Ok(Err(error)) => {
                tracing::warn!(%error, "what was recorded of a session could not be loaded");
                Err(JournalUnavailable)
            }
            Err(_) => {
                self.suspend();
                Err(JournalUnavailable)
            }
        }
    }

    /// Waits until everything is stored that was recorded so far.
    pub(crate) async fn flush(&self) {
        if timeout(STORE_TIMEOUT, self.store.flush()).await.is_err() {
            tracing::warn!("the store of sessions did not take everything in time");
        }
    }

    /// Leaves the sessions to other processes.
    pub(crate) fn release(&self) {
        self.store.release();
    }

    fn session(&self, id: &SessionId, audience: Audience, record: Option<SessionRecord>) -> SessionJournal {
        let touched = Instant::now();
        let (appended, open) = (Extent::default(), BTreeMap::new());
        let state = Mutex::new(State { record, touched, appended, is_removed: false, open });
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
            drop(self.save(&state));
        }
    }

    /// Takes note of a task that the host has created.
    pub(crate) fn note_task(&self, id: &str) {
        let mut state = self.state.lock();
        let Some(record) = &mut state.record else { return };
        record.note_task(id);
        if record.revision.is_some() {
            drop(self.save(&state));
        }
    }

    /// Takes note of the revision that was agreed on, and waits until it is stored. From here on the
    /// session is known.
    pub(crate) async fn note_revision(&self, revision: &str) {
        let saved = {
            let mut state = self.state.lock();
            let Some(record) = &mut state.record else { return };
            if record.revision.as_deref() == Some(revision) {
                return;
            }
            record.revision = Some(revision.to_owned());
            self.save(&state)
        };
        if let Some(saved) = saved {
            self.journal.wait(saved).await;
        }
    }

    /// Waits until what was noted of the session is stored.
    pub(crate) async fn flush(&self) {
        if !self.journal.is_suspended() {
            self.journal.flush().await;
        }
    }

    /// Records an entry, and waits until it is stored. Returns whether it is.
    pub(crate) async fn append(&self, entry: &JournalEntry) -> bool {
        if self.journal.is_suspended() {
            return false;
        }
        let appended = match timeout(STORE_TIMEOUT, self.append_all(entry)).await {
            Ok(Ok(())) => return true,
            // Somebody may have removed what was stored, or there may be room on the disk again.
            Ok(Err(_)) => self.save_and_append(entry),
            Err(_) => {
                self.journal.suspend();
                None
            }
        };
        let is_stored = match appended {
            Some(appended) => self.journal.wait(appended).await,
            None => false,
        };
        if let (false, JournalEntry::Open { stream, .. }) = (is_stored, entry) {
            // Its response will not be recorded either.
            self.state.lock().open.remove(stream);
        }
        is_stored
    }

    /// Stores the session anew, with the requests that are open. `None` if it is over.
    fn save_and_append(&self, entry: &JournalEntry) -> Option<SessionStoreFuture<()>> {
        let Journal { store, lifetime, .. } = &self.journal;
        let state = self.state.lock();
        let saved = self.save(&state)?;
        for (open, _) in state.open.values() {
            drop(store.append(&self.name, open.clone(), *lifetime));
        }
        // An open request is among those above. That it is stored twice does not matter.
        let appended = store.append(&self.name, entry.encode(), *lifetime);
        // Why there is no place for the entry is known from the record.
        Some(Box::pin(async {
            let (saved, appended) = tokio::join!(saved, appended);
            saved.and(appended)
        }))
    }

    /// Loads the responses that the journal has for a stream.
    pub(crate) async fn load_responses(&self, stream: StreamId) -> Result<Vec<Bytes>, JournalUnavailable> {
        self.journal.load_responses(&self.name, stream).await
    }

    /// Takes note that all requests of a POST have ended, so that it need not be appended again.
    pub(crate) fn close_post(&self, stream: StreamId) {
        self.state.lock().open.remove(&stream);
    }

    /// Records an entry after all earlier ones, without waiting for it to be stored.
    pub(crate) fn append_later(&self, entry: &JournalEntry) {
        drop(self.append_all(entry));
    }

    /// Appends an entry, after requests that are open for so long that the store might soon drop them.
    fn append_all(&self, entry: &JournalEntry) -> SessionStoreFuture<()> {
        let Journal { store, lifetime, .. } = &self.journal;
        let encoded = entry.encode();
        // Held to the end, so that entries are stored in the order in which they are counted. The future is polled
        // or dropped after that, and a store that writes then holds up no other call of the session.
        let mut state = self.state.lock();
        state.appended.entries += 1;
        state.appended.bytes += encoded.len() as u64;
        let now = state.appended;
        if let JournalEntry::Open { stream, .. } = entry {
            state.open.insert(*stream, (encoded.clone(), now));
        }
        for (open, appended) in state.open.values_mut() {
            if now.is_far_from(*appended) {
                *appended = now;
                drop(store.append(&self.name, open.clone(), *lifetime));
            }
        }
        store.append(&self.name, encoded, *lifetime)
    }

    /// Says that the session is in use.
    pub(crate) fn touch(&self, now: Instant) {
        let mut state = self.state.lock();
        if now.saturating_duration_since(state.touched) < self.journal.lifetime / 4 {
            return;
        }
        state.touched = now;
        drop(state);
        self.journal.store.touch(&self.name, self.journal.lifetime);
    }

    /// Forgets the session, which is over.
    pub(crate) fn remove(&self) -> SessionStoreFuture<()> {
        let mut state = self.state.lock();
        state.is_removed = true;
        self.journal.store.remove(&self.name)
    }

    /// Waits until something is stored.
    pub(crate) async fn wait(&self, stored: SessionStoreFuture<()>) {
        self.journal.wait(stored).await;
    }

    /// Saves the record of a session that is not over. The state is locked meanwhile, so that nothing is
    /// saved after the session was removed.
    fn save(&self, state: &State) -> Option<SessionStoreFuture<()>> {
        let record = state.record.as_ref().filter(|_| !state.is_removed)?;
        let record = serde_json::to_vec(record).ok()?;
        Some(self.journal.store.save(&self.name, record, self.journal.lifetime))
    }
}

impl Extent {
    fn is_far_from(self, earlier: Self) -> bool {
        self.entries - earlier.entries >= MAX_ENTRY_AGE.entries
            || self.bytes - earlier.bytes >= MAX_ENTRY_AGE.bytes
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use parking_lot::RwLock;

    use super::*;
    use crate::http::SessionIdKey;

    /// A store that has no session, and that may hang.
    #[derive(Debug, Default)]
    struct EmptyStore {
        hangs: RwLock<bool>,
    }

    impl EmptyStore {
        fn respond<T: Default + Send + 'static>(&self) -> SessionStoreFuture<T> {
            if *self.hangs.read() { Box::pin(pending()) } else { Box::pin(ready(Ok(T::default()))) }
        }
    }

    impl SessionStore for EmptyStore {
        fn id_key(&self) -> SessionIdKey {
            SessionIdKey::random()
        }

        fn save(&self, _: &str, _: Vec<u8>, _: Duration) -> SessionStoreFuture<()> {
            self.respond()
        }

        fn append(&self, _: &str, _: Vec<u8>, _: Duration) -> SessionStoreFuture<()> {
            self.respond()
        }

        fn touch(&self, _: &str, _: Duration) {}

        fn remove(&self, _: &str) -> SessionStoreFuture<()> {
            self.respond()
        }

        fn load(&self, _: &str, _: RecordCheck) -> SessionStoreFuture<Option<StoredSession>> {
            self.respond()
        }

        fn flush(&self) -> SessionStoreFuture<()> {
            self.respond()
        }
    }

    /// It is not known then whether there is a session.
    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_is_not_one_without_the_session() {
        let store = Arc::new(EmptyStore::default());
        let journal = Journal::new(Arc::<EmptyStore>::clone(&store), Duration::from_secs(60));
        let id = SessionIdKey::random().issue();
        let has_session = async || journal.load(&id, |_| true).await.map(|loaded| loaded.is_some());
        assert!(matches!(has_session().await, Ok(false)));
        *store.hangs.write() = true;
        assert!(matches!(has_session().await, Err(JournalUnavailable)));
        *store.hangs.write() = false;
        let begun = Instant::now();
        assert!(matches!(has_session().await, Err(JournalUnavailable)), "the store is not waited for");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        tokio::time::advance(SUSPENSION).await;
        assert!(matches!(has_session().await, Ok(false)));
    }
}
