//! [`TaskHandle`]: what has to be kept of a task to find it again, in another session or another process.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::wire::view::{Dialect, Task};

/// What is needed to take up a task again: after the loss of a session, after a restart, elsewhere.
///
/// It names no server: whoever keeps it keeps that beside it. A task's id may be all that guards it, so a
/// handle is to be kept like a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
#[non_exhaustive]
pub struct TaskHandle {
    /// The server's name for the task.
    pub id: Box<str>,
    /// In which form it is asked about (TN-10).
    pub dialect: Dialect,
    /// When it was created, by our own clock: the server's may be another.
    pub created_at: SystemTime,
    /// How long after that it may be forgotten. `None`: not at all, or not said.
    pub ttl: Option<Duration>,
    /// How long to wait between two looks at it, if the server said so.
    pub poll_interval: Option<Duration>,
}

/// The same as it is written.
#[derive(Serialize, Deserialize)]
struct Stored {
    id: Box<str>,
    dialect: Dialect,
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
    /// The handle of a task that was created at this time, by our clock.
    pub fn new(task: &Task, created_at: SystemTime) -> Self {
        Self {
            id: task.id.clone(),
            dialect: task.dialect,
            created_at,
            ttl: task.ttl,
            poll_interval: task.poll_interval,
        }
    }

    /// The handle of a task of which only the id is known.
    pub fn of_id(id: &str, dialect: Dialect, now: SystemTime) -> Self {
        Self { id: id.into(), dialect, created_at: now, ttl: None, poll_interval: None }
    }

    /// How long ago it was created. A clock that was set back gives nothing.
    pub fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.created_at).unwrap_or_default()
    }

    /// When the server may have forgotten it, if it ever does.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.created_at.checked_add(self.ttl?)
    }
}

impl From<Stored> for TaskHandle {
    fn from(stored: Stored) -> Self {
        let Stored { id, dialect, created_ms, ttl_ms, poll_interval_ms } = stored;
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

impl From<TaskHandle> for Stored {
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
