//! [`TaskHandle`]: the data needed to take up a task again in another session or process.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::wire::view::{Task, TaskDialect};

/// The data needed to take up a task again after a session loss, after a restart, or elsewhere.
///
/// It does not name the server, which has to be stored beside it. The id may be all that protects
/// the task, so a handle must be stored like a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredHandle", into = "StoredHandle")]
#[non_exhaustive]
pub struct TaskHandle {
    /// The server's id of the task.
    pub id: Box<str>,
    // TN-10
    /// The dialect in which requests about the task are made.
    pub dialect: TaskDialect,
    /// Time of creation by our own clock, since the server's may differ.
    pub created_at: SystemTime,
    /// Time after creation from which the server may drop the task. `None`: never, or not said.
    pub ttl: Option<Duration>,
    /// The interval between polls that the server asked for, if any.
    pub poll_interval: Option<Duration>,
}

/// The serialized form of a [`TaskHandle`].
#[derive(Serialize, Deserialize)]
struct StoredHandle {
    id: Box<str>,
    dialect: TaskDialect,
    created_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    poll_interval_ms: Option<u64>,
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id: _, dialect, created_at, ttl, poll_interval } = self;
        f.debug_struct("TaskHandle")
            .field("dialect", dialect)
            .field("created_at", created_at)
            .field("ttl", ttl)
            .field("poll_interval", poll_interval)
            .finish_non_exhaustive()
    }
}

impl TaskHandle {
    /// Creates the handle of a task that was created at this time, by our clock.
    pub fn new(task: &Task, created_at: SystemTime) -> Self {
        Self {
            id: task.id.clone(),
            dialect: task.dialect,
            created_at,
            ttl: task.ttl,
            poll_interval: task.poll_interval,
        }
    }

    /// Creates the handle of a task of which only the id is known.
    pub fn from_id(id: &str, dialect: TaskDialect, now: SystemTime) -> Self {
        Self { id: id.into(), dialect, created_at: now, ttl: None, poll_interval: None }
    }

    /// Time since the creation of the task, or zero if the clock was set back.
    pub fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.created_at).unwrap_or_default()
    }

    /// Time from which the server may have dropped the task, if it ever does.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.created_at.checked_add(self.ttl?)
    }
}

impl From<StoredHandle> for TaskHandle {
    fn from(stored: StoredHandle) -> Self {
        let StoredHandle { id, dialect, created_ms, ttl_ms, poll_interval_ms } = stored;
        let created = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(created_ms));
        Self {
            id,
            dialect,
            created_at: created.unwrap_or(SystemTime::UNIX_EPOCH),
            ttl: ttl_ms.map(Duration::from_millis),
            poll_interval: poll_interval_ms.map(Duration::from_millis),
        }
    }
}

impl From<TaskHandle> for StoredHandle {
    fn from(handle: TaskHandle) -> Self {
        let TaskHandle { id, dialect, created_at, ttl, poll_interval } = handle;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let since = created_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            id,
            dialect,
            created_ms: millis(since),
            ttl_ms: ttl.map(millis),
            poll_interval_ms: poll_interval.map(millis),
        }
    }
}
