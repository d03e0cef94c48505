//! [`StoredSessions`]: sessions of hosts in the store, so that they outlive the process.

use std::time::Duration;

use bowline_server::{SessionStore, SessionStoreFuture, StoredSession};
use bowline_store::{AppendOptions, Durability, EncryptedStore, LogName, Position, ReadLimits, StoreError};

/// Keeps sessions of hosts in a store, encrypted.
///
/// What it has confirmed survives the sudden end of the process, but perhaps not that of the machine,
/// with which the connections of its hosts end as well.
#[derive(Debug)]
pub struct StoredSessions(EncryptedStore);

/// Most entries that the journal of a session keeps. Each call that may have effects has two.
const MAX_ENTRIES: u64 = 2 * 1024;
/// How long the journal of a session is kept after its last entry, at least. Without the record of its
/// session it is of no use to anybody.
const JOURNAL_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Most bytes that the journal of a session keeps.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

impl StoredSessions {
    /// Keeps sessions in `store`.
    pub fn new(store: EncryptedStore) -> Self {
        Self(store)
    }

    async fn append_to(
        &self,
        log: LogName,
        entries: &[Vec<u8>],
        max_entries: u64,
        ttl: Duration,
    ) -> Result<(), String> {
        let options =
            AppendOptions { max_entries, max_bytes: MAX_BYTES, ttl, durability: Durability::Process };
        self.0.append(&log, entries, options).await.map(drop).map_err(|error| error.to_string())
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

impl SessionStore for StoredSessions {
    fn save<'a>(
        &'a self,
        session: &'a str,
        record: Vec<u8>,
        lifetime: Duration,
    ) -> SessionStoreFuture<'a, ()> {
        // The latest entry is the record. A log needs no wait for the disk.
        Box::pin(async move { self.append_to(record_log(session), &[record], 1, lifetime).await })
    }

    fn append<'a>(
        &'a self,
        session: &'a str,
        entries: Vec<Vec<u8>>,
        lifetime: Duration,
    ) -> SessionStoreFuture<'a, ()> {
        // Only the record is renewed while a session is in use, and a call may be open for long.
        let lifetime = lifetime.max(JOURNAL_LIFETIME);
        Box::pin(async move { self.append_to(journal_log(session), &entries, MAX_ENTRIES, lifetime).await })
    }

    fn touch<'a>(&'a self, session: &'a str, lifetime: Duration) -> SessionStoreFuture<'a, ()> {
        Box::pin(async move {
            let record = self.read_all(&record_log(session)).await.map_err(|error| error.to_string())?.pop();
            match record {
                Some(record) => self.save(session, record, lifetime).await,
                None => Ok(()),
            }
        })
    }

    fn load<'a>(&'a self, session: &'a str) -> SessionStoreFuture<'a, Option<StoredSession>> {
        Box::pin(async move {
            let load = async {
                let Some(record) = self.read_all(&record_log(session)).await?.pop() else { return Ok(None) };
                Ok(Some(StoredSession { record, journal: self.read_all(&journal_log(session)).await? }))
            };
            load.await.map_err(|error: StoreError| error.to_string())
        })
    }

    fn remove<'a>(&'a self, session: &'a str) -> SessionStoreFuture<'a, ()> {
        Box::pin(async move {
            let remove = async {
                self.0.remove_log(&record_log(session)).await?;
                self.0.remove_log(&journal_log(session)).await
            };
            remove.await.map(drop).map_err(|error| error.to_string())
        })
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

    #[tokio::test]
    async fn a_session_is_loaded_as_it_was_saved() {
        let sessions = StoredSessions::new(EncryptedStore::in_memory());
        assert_eq!(sessions.load("a").await, Ok(None));
        sessions.append("a", vec![b"early".to_vec()], LIFETIME).await.unwrap();
        assert_eq!(sessions.load("a").await, Ok(None), "without a record there is no session");
        sessions.save("a", b"first".to_vec(), LIFETIME).await.unwrap();
        sessions.save("a", b"second".to_vec(), LIFETIME).await.unwrap();
        let many: Vec<_> = (0..300).map(|number: u32| number.to_string().into_bytes()).collect();
        sessions.append("a", many.clone(), LIFETIME).await.unwrap();
        sessions.touch("a", LIFETIME).await.unwrap();
        sessions.touch("b", LIFETIME).await.unwrap();
        let loaded = sessions.load("a").await.unwrap().unwrap();
        assert_eq!(loaded.record, b"second");
        assert_eq!(loaded.journal[1..], many[..]);
        assert_eq!(sessions.load("b").await, Ok(None));
        sessions.remove("a").await.unwrap();
        assert_eq!(sessions.load("a").await, Ok(None));
    }

    /// A call may be open for longer than a session may be idle.
    #[tokio::test(start_paused = true)]
    async fn the_journal_lives_as_long_as_the_record_is_renewed() {
        let sessions = StoredSessions::new(EncryptedStore::in_memory());
        sessions.save("a", b"record".to_vec(), LIFETIME).await.unwrap();
        sessions.append("a", vec![b"open".to_vec()], LIFETIME).await.unwrap();
        for _ in 0..4 {
            tokio::time::advance(LIFETIME / 2).await;
            sessions.touch("a", LIFETIME).await.unwrap();
        }
        let loaded = sessions.load("a").await.unwrap().unwrap();
        assert_eq!((&loaded.record[..], &loaded.journal[..]), (&b"record"[..], &[b"open".to_vec()][..]));
        tokio::time::advance(LIFETIME).await;
        assert_eq!(sessions.load("a").await, Ok(None), "nobody has renewed it");
    }
}
