//! [`SessionStore`]: where sessions over HTTP are recorded, so that another process can go on with
//! them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The future of an operation of a [`SessionStore`]. The error is for the log.
pub type SessionStoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Stores what is known of sessions, beyond the life of the process.
///
/// A session is named by a hash of its id, which is a secret of its host. What is stored contains
/// messages of hosts and servers, so it has to be protected as they are.
pub trait SessionStore: fmt::Debug + Send + Sync + 'static {
    /// Saves the record of a session for `lifetime`, in place of an earlier one.
    fn save<'a>(
        &'a self,
        session: &'a str,
        record: Vec<u8>,
        lifetime: Duration,
    ) -> SessionStoreFuture<'a, ()>;

    /// Appends entries to the journal of a session. Once it has returned, they survive the end of the
    /// process, however sudden. The oldest entries may be dropped to keep the journal bounded.
    fn append<'a>(
        &'a self,
        session: &'a str,
        entries: Vec<Vec<u8>>,
        lifetime: Duration,
    ) -> SessionStoreFuture<'a, ()>;

    /// Lets the lifetime of everything about a session begin anew.
    fn touch<'a>(&'a self, session: &'a str, lifetime: Duration) -> SessionStoreFuture<'a, ()>;

    /// Loads a session. `None` if there is none, or its lifetime is over.
    fn load<'a>(&'a self, session: &'a str) -> SessionStoreFuture<'a, Option<StoredSession>>;

    /// Removes everything about a session.
    fn remove<'a>(&'a self, session: &'a str) -> SessionStoreFuture<'a, ()>;
}

/// A stored session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSession {
    /// Its record, as it was saved last.
    pub record: Vec<u8>,
    /// The entries of its journal, the oldest first.
    pub journal: Vec<Vec<u8>>,
}
