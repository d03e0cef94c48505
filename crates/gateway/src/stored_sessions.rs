//! [`StoredSessions`]: sessions of hosts in the store, so that they outlive the process.

mod queue;

use std::sync::Arc;
use std::time::Duration;

use bowline_server::{RecordCheck, SessionIdKey, SessionStore, SessionStoreFuture, StoredSession};
use bowline_store::{AppendOptions, Durability, EncryptedStore, LogName, Position, ReadLimits, StoreError};
use tokio::sync::{mpsc, oneshot};

use queue::{Command, MAX_QUEUED_COMMANDS, Operation, Waiter};

/// Keeps sessions of hosts in a store, encrypted. It is for a store that several machines share; on one
/// machine [`SessionFiles`](crate::SessionFiles) is faster.
///
/// What it has confirmed survives the sudden end of the process, but perhaps not that of the machine,
/// with which the connections of its hosts end as well.
#[derive(Debug)]
pub struct StoredSessions {
    commands: mpsc::Sender<Command>,
    id_key: SessionIdKey,
}

/// Most entries that the journal of a session keeps. Each call that may have effects has two.
const MAX_ENTRIES: u64 = 2 * 1024;
/// How long the journal of a session is kept after its last entry, at least. Without the record of its
/// session it is of no use to anybody.
const JOURNAL_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Most bytes that the journal of a session keeps.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

impl StoredSessions {
    /// Keeps sessions in `store`. All machines that share it need the same `id_key`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(store: EncryptedStore, id_key: SessionIdKey) -> Self {
        let (commands, receiver) = mpsc::channel(MAX_QUEUED_COMMANDS);
        tokio::spawn(queue::carry_out(Arc::new(SessionLogs(store)), receiver));
        Self { commands, id_key }
    }

    /// Queues an operation that nobody waits for.
    fn queue(&self, session: &str, operation: Operation) {
        if self.commands.try_send(Command { session: session.into(), operation }).is_err() {
            tracing::warn!("what has become of a session was not recorded: the store is too slow");
        }
    }

    /// Queues an operation with a result.
    fn request<T: Send + 'static>(
        &self,
        session: &str,
        operation: impl FnOnce(Waiter<T>) -> Operation,
    ) -> SessionStoreFuture<T> {
        let (done, result) = oneshot::channel();
        let command = Command { session: session.into(), operation: operation(done) };
        if self.commands.try_send(command).is_err() {
            return Box::pin(std::future::ready(Err("the store is too slow".to_owned())));
        }
        Box::pin(async { result.await.unwrap_or_else(|_| Err("the store was closed".to_owned())) })
    }
}

impl SessionStore for StoredSessions {
    fn id_key(&self) -> SessionIdKey {
        self.id_key.clone()
    }

    fn save(&self, session: &str, record: Vec<u8>, lifetime: Duration) -> SessionStoreFuture<()> {
        self.request(session, |done| Operation::Save { record, lifetime, done })
    }

    fn append(&self, session: &str, entry: Vec<u8>, lifetime: Duration) -> SessionStoreFuture<()> {
        self.request(session, |done| Operation::Append { entry, lifetime, done })
    }

    fn touch(&self, session: &str, lifetime: Duration) {
        self.queue(session, Operation::Touch { lifetime });
    }

    fn remove(&self, session: &str) -> SessionStoreFuture<()> {
        self.request(session, |done| Operation::Remove { done })
    }

    fn load(&self, session: &str, accepts: RecordCheck) -> SessionStoreFuture<Option<StoredSession>> {
        let loaded = self.request(session, |done| Operation::Load { done });
        Box::pin(async { Ok(loaded.await?.filter(|session: &StoredSession| accepts(&session.record))) })
    }

    fn flush(&self) -> SessionStoreFuture<()> {
        self.request("", |done| Operation::Flush { done })
    }
}

/// The logs of sessions in a store.
#[derive(Debug)]
struct SessionLogs(EncryptedStore);

impl SessionLogs {
    async fn save(&self, session: &str, record: Vec<u8>, lifetime: Duration) -> Result<(), StoreError> {
        // The latest entry is the record. A log needs no wait for the disk.
        self.append_to(record_log(session), &[record], 1, lifetime).await
    }

    async fn append(&self, session: &str, entries: &[Vec<u8>], lifetime: Duration) -> Result<(), StoreError> {
        // Only the record is renewed while a session is in use, and a call may be open for long.
        let lifetime = lifetime.max(JOURNAL_LIFETIME);
        self.append_to(journal_log(session), entries, MAX_ENTRIES, lifetime).await
    }

    async fn touch(&self, session: &str, lifetime: Duration) -> Result<(), StoreError> {
        match self.read_all(&record_log(session)).await?.pop() {
            Some(record) => self.save(session, record, lifetime).await,
            None => Ok(()),
        }
    }

    async fn remove(&self, session: &str) -> Result<(), StoreError> {
        self.0.remove_log(&record_log(session)).await?;
        self.0.remove_log(&journal_log(session)).await.map(drop)
    }

    async fn load(&self, session: &str) -> Result<Option<StoredSession>, StoreError> {
        let Some(record) = self.read_all(&record_log(session)).await?.pop() else { return Ok(None) };
        Ok(Some(StoredSession { record, journal: self.read_all(&journal_log(session)).await? }))
    }

    async fn append_to(
        &self,
        log: LogName,
        entries: &[Vec<u8>],
        max_entries: u64,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let options = AppendOptions::default()
            .max_entries(max_entries)
            .max_bytes(MAX_BYTES)
            .ttl(ttl)
            .durability(Durability::Process);
        self.0.append(&log, entries, options).await.map(drop)
    }

    async fn read_all(&self, log: &LogName) -> Result<Vec<Vec<u8>>, StoreError> {
        let (mut entries, mut position) = (Vec::new(), Position::START);
        loop {
            let slice = self.0.after(log, position, ReadLimits::default()).await?;
            let Some(last) = slice.entries.last() else { return Ok(entries) };
            position = last.position;
            entries.extend(slice.entries.into_iter().map(|entry| entry.value));
            if slice.newest <= Some(position) {
                return Ok(entries);
            }
        }
    }
}

fn record_log(session: &str) -> LogName {
    LogName::new(format!("host-session/{session}"))
}

fn journal_log(session: &str) -> LogName {
    LogName::new(format!("host-journal/{session}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    fn any() -> RecordCheck {
        Box::new(|_| true)
    }

    #[tokio::test]
    async fn a_session_is_loaded_as_it_was_saved() {
        let sessions = StoredSessions::new(EncryptedStore::in_memory(), SessionIdKey::new(&[7; 32]));
        assert_eq!(sessions.load("a", any()).await, Ok(None));
        sessions.append("a", b"early".to_vec(), LIFETIME).await.unwrap();
        assert_eq!(sessions.load("a", any()).await, Ok(None), "without a record there is no session");
        drop(sessions.save("a", b"first".to_vec(), LIFETIME));
        drop(sessions.save("a", b"second".to_vec(), LIFETIME));
        let many: Vec<_> = (0..300).map(|number: u32| number.to_string().into_bytes()).collect();
        for entry in &many {
            drop(sessions.append("a", entry.clone(), LIFETIME));
        }
        sessions.touch("a", LIFETIME);
        sessions.touch("b", LIFETIME);
        let loaded = sessions.load("a", any()).await.unwrap().unwrap();
        assert_eq!(loaded.record, b"second");
        assert_eq!(loaded.journal[1..], many[..]);
        assert_eq!(sessions.load("b", any()).await, Ok(None));
        drop(sessions.remove("a"));
        assert_eq!(sessions.flush().await, Ok(()));
        assert_eq!(sessions.load("a", any()).await, Ok(None));
    }

    /// A call may be open for longer than a session may be idle.
    #[tokio::test(start_paused = true)]
    async fn the_journal_lives_as_long_as_the_record_is_renewed() {
        let sessions = StoredSessions::new(EncryptedStore::in_memory(), SessionIdKey::new(&[7; 32]));
        drop(sessions.save("a", b"record".to_vec(), LIFETIME));
        sessions.append("a", b"open".to_vec(), LIFETIME).await.unwrap();
        for _ in 0..4 {
            tokio::time::advance(LIFETIME / 2).await;
            sessions.touch("a", LIFETIME);
            sessions.flush().await.unwrap();
        }
        let loaded = sessions.load("a", any()).await.unwrap().unwrap();
        assert_eq!((&loaded.record[..], &loaded.journal[..]), (&b"record"[..], &[b"open".to_vec()][..]));
        tokio::time::advance(LIFETIME).await;
        assert_eq!(sessions.load("a", any()).await, Ok(None), "nobody has renewed it");
    }
}
