//! The open calls of a host to one server. What the server sends while a call is open belongs to
//! that call: over HTTP it goes onto the event stream of its request.

use std::sync::{Arc, Weak};

use bowline_server::OpenRequest;
use parking_lot::Mutex;

/// An open call of the host: its progress is delivered only while this lives.
#[derive(Debug)]
pub(crate) struct OpenCall {
    /// The request of the host.
    pub(crate) request: OpenRequest,
}

impl OpenCall {
    /// The call that `request` is.
    pub(crate) fn new(request: OpenRequest) -> Arc<Self> {
        Arc::new(Self { request })
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
}
