//! [`SessionStore`]: where sessions over HTTP are recorded, so that another process can go on with
//! them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::http::SessionIdKey;

/// The future of an operation of a [`SessionStore`]. The error is for the log.
pub type SessionStoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// Decides whether a session is loaded, by its record.
pub type RecordCheck = Box<dyn FnOnce(&[u8]) -> bool + Send>;

/// Stores what is known of sessions, beyond the life of the process.
///
/// A session is named by a hash of its id, which is a secret of its host. What is stored contains
/// messages of hosts and servers, so it has to be protected as they are.
///
/// Operations on one session take effect in the order in which these methods are called. None of them
/// blocks, and each is carried out even if its future is dropped; a store may begin with it only when the
/// future is polled or dropped, which callers do at once. Once a future has completed, what was
/// requested survives the end of the process, however sudden. A store that cannot keep up refuses
/// operations; those without a result are then left out, which the store writes to its log.
pub trait SessionStore: fmt::Debug + Send + Sync + 'static {
    /// The key of the ids of sessions, which outlives the process: all that use the store have the same.
    fn id_key(&self) -> SessionIdKey;

    /// Saves the record of a session for `lifetime`, in place of an earlier one.
    fn save(&self, session: &str, record: Vec<u8>, lifetime: Duration) -> SessionStoreFuture<()>;

    /// Appends an entry to the journal of a session that has a record. The oldest entries may be dropped
    /// to keep the journal bounded.
    fn append(&self, session: &str, entry: Vec<u8>, lifetime: Duration) -> SessionStoreFuture<()>;

    /// Lets the lifetime of everything about a session begin anew.
    fn touch(&self, session: &str, lifetime: Duration);

    /// Removes everything about a session.
    fn remove(&self, session: &str) -> SessionStoreFuture<()>;

    /// Loads a session that another process has recorded, if `accepts` its record. From then on this
    /// process serves it. `None` if there is none, if its lifetime is over, if it is not accepted, or if
    /// another process still serves it.
    ///
    /// It is also called for a session that this process serves already, whose record and journal it then returns as
    /// they are stored.
    fn load(&self, session: &str, accepts: RecordCheck) -> SessionStoreFuture<Option<StoredSession>>;

    /// Completes when everything is stored that was requested before.
    fn flush(&self) -> SessionStoreFuture<()>;

    /// Is told that sessions, or calls, are not recorded, and why: at once for each cause, and then at most once a
    /// minute while it lasts.
    fn report_failure(&self, _cause: &str) {}

    /// Lets other processes go on with the sessions, because this one ends.
    fn release(&self) {}
}

/// A stored session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSession {
    /// Its record, as it was saved last.
    pub record: Vec<u8>,
    /// The entries of its journal, the oldest first.
    pub journal: Vec<Vec<u8>>,
}
