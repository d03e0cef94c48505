//! Sessions of the handshake era: opening, lookup, expiry.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use super::Engine;

/// A session of the handshake era.
#[derive(Clone, Debug)]
pub struct Session {
    /// The `Mcp-Session-Id`; on stdio a name for the process.
    pub id: String,
    /// The negotiated revision.
    pub version: String,
    /// The `params` of the `initialize` that opened it.
    pub client: Value,
    /// Whether `notifications/initialized` was received.
    pub initialized: bool,
    /// The level of the last `logging/setLevel`.
    pub log_level: Option<String>,
    /// The URIs of the subscribed resources, in order.
    pub subscriptions: Vec<String>,
    last_seen: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Mutex<BTreeMap<String, Session>>,
    opened_count: AtomicU64,
}

/// The id under which a server without session ids keeps its only session.
const SESSIONLESS_ID: &str = "";

impl Engine {
    /// Opens a session under the given name or a new id, and returns the id.
    pub(super) fn open_session(&self, name: Option<&str>, version: &str, client: &Value) -> String {
        let number = self.sessions.opened_count.fetch_add(1, Ordering::Relaxed) + 1;
        let id = match name {
            Some(name) => name.to_owned(),
            None if self.script().http.sessions => {
                format!("session-{number}-{:016x}", RandomState::new().hash_one(number))
            }
            None => SESSIONLESS_ID.to_owned(),
        };
        // Several clients are one session to a server that hands out no ids: a request of one of them may come
        // while another is in its handshake.
        let is_shared = id == SESSIONLESS_ID;
        let session = Session {
            id: id.clone(),
            version: version.into(),
            client: client.clone(),
            initialized: is_shared && self.with_session(None, |session| session.initialized) == Some(true),
            log_level: None,
            subscriptions: Vec::new(),
            last_seen: Instant::now(),
        };
        self.sessions.open.lock().insert(id.clone(), session);
        self.message_log.notify_waiters();
        id
    }

    /// Accesses the session of a request and marks it as used. Returns `None` if there is no such
    /// session.
    pub(crate) fn with_session<T>(&self, id: Option<&str>, f: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let idle = self.script().http.session_idle_ms.map(Duration::from_millis);
        let mut open = self.sessions.open.lock();
        if let Some(idle) = idle {
            open.retain(|_, session| session.last_seen.elapsed() < idle);
        }
        let session = open.get_mut(id.unwrap_or(SESSIONLESS_ID))?;
        session.last_seen = Instant::now();
        let out = f(session);
        drop(open);
        self.message_log.notify_waiters();
        Some(out)
    }

    pub(crate) fn close_session(&self, id: &str) -> bool {
        let was_open = self.sessions.open.lock().remove(id).is_some();
        self.message_log.notify_waiters();
        was_open
    }

    /// Forgets all sessions. A server that hands out no ids has none to forget: it serves whoever
    /// comes.
    pub(crate) fn drop_sessions(&self) {
        self.sessions.open.lock().retain(|id, _| *id == SESSIONLESS_ID);
        self.message_log.notify_waiters();
    }

    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.sessions.open.lock().values().cloned().collect()
    }
}
