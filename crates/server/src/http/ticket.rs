//! [`PostTicket`]: the place of one request in the POST that carried it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_proto::server::event_streams::{RequestEnd, StreamId};

use super::session::HttpSession;

/// Ties a request of the host to the stream of its POST. Dropping it ends the request, so that the
/// POST does not wait for a response that will not come.
#[derive(Debug)]
pub(crate) struct PostTicket {
    session: Arc<HttpSession>,
    stream: StreamId,
    is_answered: AtomicBool,
    canceled: CancelFlag,
}

/// Whether the host has canceled a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelFlag(Arc<AtomicBool>);

impl PostTicket {
    pub(crate) fn new(session: Arc<HttpSession>, stream: StreamId) -> Self {
        Self { session, stream, is_answered: AtomicBool::new(false), canceled: CancelFlag::default() }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    pub(crate) fn cancel_flag(&self) -> CancelFlag {
        self.canceled.clone()
    }

    /// Records that the response was sent.
    pub(crate) fn mark_answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }
}

impl CancelFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for PostTicket {
    fn drop(&mut self) {
        if *self.is_answered.get_mut() {
            return;
        }
        let is_canceled = self.canceled.0.load(Ordering::Relaxed);
        let end = if is_canceled { RequestEnd::Canceled } else { RequestEnd::Dropped };
        self.session.with_streams(|streams| streams.end_request(self.stream, end));
    }
}
