//! The open calls of a host to one server. What the server sends while a call is open belongs to
//! that call: over HTTP it goes onto the event stream of its request.

use std::sync::{Arc, Weak};

use bowline_server::OpenRequest;
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

/// An open call of the host: its progress is delivered only while this lives.
#[derive(Debug)]
pub(crate) struct OpenCall {
    /// The request of the host.
    pub(crate) request: OpenRequest,
    /// Canceled when the host no longer waits for the response.
    canceled: CancellationToken,
}

/// Held by whoever serves a call. Dropping it before [`CallService::finish`] says that the host has canceled the call,
/// or has left.
#[derive(Debug)]
pub(crate) struct CallService(DropGuard);

impl CallService {
    /// Says that the call has its response.
    pub(crate) fn finish(self) {
        self.0.disarm();
    }
}

impl OpenCall {
    /// The call that `request` is, and what is held while it is served.
    pub(crate) fn begin(request: OpenRequest) -> (Arc<Self>, CallService) {
        let canceled = CancellationToken::new();
        let service = CallService(canceled.clone().drop_guard());
        (Arc::new(Self { request, canceled }), service)
    }

    /// Canceled when the host has canceled the call, or has left.
    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.canceled
    }
}

/// The open calls of a host to one server, the latest last.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls(Mutex<Vec<Weak<OpenCall>>>);

impl OpenCalls {
    /// Adds a call that is sent to the server. It is open until it is dropped.
    pub(crate) fn add(&self, call: &Arc<OpenCall>) {
        let mut calls = self.0.lock();
        calls.retain(|call| call.strong_count() > 0);
        calls.push(Arc::downgrade(call));
    }

    /// The latest open call. A legacy server does not say which call a request of its own is for;
    /// all of them are calls of this host, and any of their streams reaches it.
    pub(crate) fn latest(&self) -> Option<Arc<OpenCall>> {
        self.0.lock().iter().rev().find_map(Weak::upgrade)
    }

    /// The cancellation of a call that is open and was not canceled.
    pub(crate) fn cancellation_of_open(&self) -> Option<CancellationToken> {
        find_open(self.0.lock().iter())
    }
}

/// The cancellation of one of these calls that is open and was not canceled.
pub(crate) fn find_open<'a>(calls: impl Iterator<Item = &'a Weak<OpenCall>>) -> Option<CancellationToken> {
    let mut open = calls.filter_map(Weak::upgrade).map(|call| call.canceled.clone());
    open.find(|canceled| !canceled.is_cancelled())
}
