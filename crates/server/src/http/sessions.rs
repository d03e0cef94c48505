//! [`Sessions`]: the sessions of a listener by their id, bounded in number and in idle time.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};

use super::session::{HttpSession, SessionId, SessionKind};
use super::settings::HttpSettings;
use super::source::{HttpSource, MAX_QUEUED_POSTS};

/// The sessions of a listener.
#[derive(Default)]
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<SessionId, Arc<HttpSession>>>,
}

impl Sessions {
    /// Begins a session. `None` if there are too many.
    pub(crate) fn begin(self: &Arc<Self>, kind: SessionKind, settings: &HttpSettings) -> Option<HttpSource> {
        let (sender, posts) = mpsc::channel(MAX_QUEUED_POSTS);
        let mut by_id = self.by_id.lock();
        if by_id.len() >= settings.max_sessions {
            return None;
        }
        let id = SessionId::random();
        let session = Arc::new(HttpSession::new((id.clone(), kind), settings, sender, Arc::downgrade(self)));
        by_id.insert(id, Arc::clone(&session));
        Some(HttpSource::new(session, posts))
    }

    /// Begins a session for one request, which no host can name and which is not counted.
    pub(crate) fn begin_stateless(settings: &HttpSettings) -> Arc<HttpSession> {
        // It has no further messages.
        let (sender, _) = mpsc::channel(1);
        let identity = (SessionId::none(), SessionKind::Stateless);
        Arc::new(HttpSession::new(identity, settings, sender, Weak::new()))
    }

    /// Finds a session of this kind that has not ended.
    pub(crate) fn find(&self, kind: SessionKind, id: &SessionId) -> Option<Arc<HttpSession>> {
        self.by_id.lock().get(id).filter(|session| session.kind() == kind).cloned()
    }

    pub(crate) fn remove(&self, id: &SessionId) {
        self.by_id.lock().remove(id);
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self) {
        self.end_where(|_| true);
    }

    /// Ends sessions that are idle for too long. Never returns.
    pub(crate) async fn end_idle(&self, idle_timeout: Duration) {
        let mut ticks = interval((idle_timeout / 4).clamp(MIN_SWEEP_INTERVAL, MAX_SWEEP_INTERVAL));
        loop {
            ticks.tick().await;
            let now = Instant::now();
            self.end_where(|session| session.is_idle(now, idle_timeout));
        }
    }

    fn end_where(&self, condition: impl Fn(&HttpSession) -> bool) {
        // A session removes itself when it ends.
        let ending: Vec<_> =
            self.by_id.lock().values().filter(|session| condition(session)).cloned().collect();
        for session in ending {
            session.end();
        }
    }
}

/// How often idle sessions are looked for, at least and at most.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(10);
const MAX_SWEEP_INTERVAL: Duration = Duration::from_secs(30);
