//! [`EndSession`]: ends the session of a connection that is its only one.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::session::HttpSession;
use crate::admission::RequestSlot;

/// Ends a session when it is dropped.
// HS-03, GW-09
#[derive(Debug)]
pub(crate) struct EndSession {
    session: Arc<HttpSession>,
    /// The place of the session among those that may exist at once, if they are counted by it.
    _permit: Option<OwnedSemaphorePermit>,
    /// The place of its only request among those of its host.
    slot: Option<RequestSlot>,
}

impl EndSession {
    pub(crate) fn new(session: Arc<HttpSession>, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { session, _permit: permit, slot: None }
    }

    /// Holds the place of the only request of the session.
    pub(crate) fn with_slot(mut self, slot: RequestSlot) -> Self {
        self.slot = Some(slot);
        self
    }
}

impl Drop for EndSession {
    fn drop(&mut self) {
        self.session.end();
        // From here on the host may have another request.
        drop(self.slot.take());
    }
}
