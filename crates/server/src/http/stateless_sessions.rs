//! [`StatelessSessions`]: the sessions of one request each that are open.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::session::HttpSession;

/// The sessions of one request each, which no host can name. A graceful stop answers those that are open.
#[derive(Clone, Default)]
pub(crate) struct StatelessSessions(Arc<Mutex<OpenRequests>>);

#[derive(Default)]
struct OpenRequests {
    next_number: u64,
    by_number: HashMap<u64, Weak<HttpSession>>,
}

/// The registration of a session among those that are open. Dropping it removes the session.
pub(crate) struct StatelessRegistration {
    sessions: StatelessSessions,
    number: u64,
}

impl StatelessSessions {
    /// Adds the session that `build` makes with its registration.
    pub(crate) fn add(&self, build: impl FnOnce(StatelessRegistration) -> HttpSession) -> Arc<HttpSession> {
        let number = {
            let mut open = self.0.lock();
            open.next_number += 1;
            open.next_number
        };
        let session = Arc::new(build(StatelessRegistration { sessions: self.clone(), number }));
        self.0.lock().by_number.insert(number, Arc::downgrade(&session));
        session
    }

    /// The sessions that are open.
    pub(crate) fn open(&self) -> Vec<Arc<HttpSession>> {
        self.0.lock().by_number.values().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for StatelessRegistration {
    fn drop(&mut self) {
        self.sessions.0.lock().by_number.remove(&self.number);
    }
}

impl fmt::Debug for StatelessRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StatelessRegistration").field(&self.number).finish()
    }
}
