//! The live state of a server: open outlets, subscriptions, pending server requests, and calls that
//! can be canceled.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::AbortHandle;

use super::announce::OpenSubscription;
use super::server_requests::PendingRequests;
use super::{Engine, PendingResponse, Step};
use crate::sync::pause;

/// An outgoing stream on which messages reach the client.
pub(crate) trait Outlet: Send + Sync {
    /// Sends a message. Returns false if nobody will read it.
    fn send(&self, message: Value) -> bool;
    /// Returns whether a message sent now would be read.
    fn is_open(&self) -> bool;
    /// Ends the stream after the messages sent so far.
    fn finish(&self) {}
}

/// The kind of stream that a message outside of a response takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// The standalone GET stream; on stdio, stdout.
    Get,
    /// The event stream of a POST without a response yet; on stdio, stdout.
    Post,
    /// Either of them, GET first.
    Any,
}

#[derive(Default)]
pub(crate) struct LiveState {
    pub(super) outlets: Mutex<Vec<RegisteredOutlet>>,
    pub(super) subscriptions: Mutex<Vec<OpenSubscription>>,
    pub(super) server_requests: Mutex<PendingRequests>,
    calls: Mutex<HashMap<(Option<String>, String), AbortHandle>>,
    last_number: AtomicU64,
}

/// An outlet with its kind and session.
pub(super) struct RegisteredOutlet {
    pub(super) kind: StreamKind,
    pub(super) session: Option<String>,
    pub(super) outlet: Arc<dyn Outlet>,
}

impl Engine {
    pub(crate) fn register_outlet(&self, via: StreamKind, session: Option<&str>, outlet: Arc<dyn Outlet>) {
        let session = session.map(str::to_owned);
        let mut outlets = self.live.outlets.lock();
        outlets.retain(|registered| registered.outlet.is_open());
        outlets.push(RegisteredOutlet { kind: via, session, outlet });
        drop(outlets);
        self.message_log.notify_waiters();
    }

    /// Sends a message on the newest open outlet of that kind. Returns false if there is none.
    pub(crate) fn send(&self, via: StreamKind, message: &Value) -> bool {
        self.open_outlets(via).iter().any(|outlet| outlet.send(message.clone()))
    }

    /// Returns the open outlets of that kind, the best first.
    pub(super) fn open_outlets(&self, via: StreamKind) -> Vec<Arc<dyn Outlet>> {
        let mut outlets = self.live.outlets.lock();
        outlets.retain(|registered| registered.outlet.is_open());
        let kinds: &[StreamKind] = match via {
            StreamKind::Get => &[StreamKind::Get, StreamKind::Any],
            StreamKind::Post => &[StreamKind::Post, StreamKind::Any],
            StreamKind::Any => &[StreamKind::Get, StreamKind::Any, StreamKind::Post],
        };
        let of =
            |via: StreamKind| outlets.iter().rev().filter(move |r| r.kind == via).map(|r| r.outlet.clone());
        kinds.iter().copied().flat_map(of).collect()
    }

    /// Returns the number of open outlets of that kind.
    pub(crate) fn count_open_outlets(&self, via: StreamKind) -> usize {
        let mut outlets = self.live.outlets.lock();
        outlets.retain(|registered| registered.outlet.is_open());
        outlets
            .iter()
            .filter(|r| via == StreamKind::Any || r.kind == StreamKind::Any || r.kind == via)
            .count()
    }

    /// Sends a message on a stream of the session other than that of a POST, for messages that
    /// accompany a JSON response.
    pub(crate) fn send_in_session(&self, session: Option<&str>, message: &Value) -> bool {
        self.live.outlets.lock().iter().rev().any(|r| {
            r.kind != StreamKind::Post && r.session.as_deref() == session && r.outlet.send(message.clone())
        })
    }

    /// Runs the steps of a pending response and makes the response.
    pub(crate) async fn run_steps(&self, work: PendingResponse, outlet: Arc<dyn Outlet>) -> Value {
        let mut answers = Vec::new();
        for step in work.steps {
            match step {
                Step::Pause(time) => pause(time).await,
                Step::Notify(message) => {
                    outlet.send(message);
                }
                Step::Request(requests) => answers.extend(self.send_requests_on(&outlet, requests).await),
                Step::AwaitTask(task) => answers.push(self.await_task(&task, &outlet).await),
            }
        }
        (work.finish)(answers)
    }

    /// Returns a number that was not used before, from 1.
    pub(crate) fn next_number(&self) -> u64 {
        self.live.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Registers a call that can be canceled.
    pub(crate) fn register_call(&self, session: Option<&str>, id: &Value, abort: AbortHandle) {
        self.live.calls.lock().insert((session.map(str::to_owned), id.to_string()), abort);
    }

    pub(crate) fn unregister_call(&self, session: Option<&str>, id: &Value) {
        self.live.calls.lock().remove(&(session.map(str::to_owned), id.to_string()));
    }

    /// Cancels a call or subscription, as the client requested.
    pub(crate) fn cancel_call(&self, session: Option<&str>, id: &Value) {
        let call = self.live.calls.lock().remove(&(session.map(str::to_owned), id.to_string()));
        if let Some(call) = call {
            call.abort();
        }
        self.remove_subscription(session, id);
        self.message_log.record_cancellation(id.clone());
    }

    /// Aborts the calls of one session.
    pub(crate) fn abort_session_calls(&self, session: &str) {
        self.live.calls.lock().retain(|(owner, _), call| {
            let theirs = owner.as_deref() == Some(session);
            if theirs {
                call.abort();
            }
            !theirs
        });
    }

    /// Aborts all calls and drops all outlets, subscriptions and server requests, as the exit of a
    /// process does.
    pub(crate) fn clear_live_state(&self) {
        for (_, call) in self.live.calls.lock().drain() {
            call.abort();
        }
        self.live.outlets.lock().clear();
        self.live.subscriptions.lock().clear();
        *self.live.server_requests.lock() = PendingRequests::default();
    }
}
