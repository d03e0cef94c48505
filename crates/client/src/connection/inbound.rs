//! What servers send without being asked: notifications, requests, required input, and the URLs
//! that a person must visit.

mod input_required;
mod roots;
mod server_requests;
mod url_elicitation;
#[cfg(feature = "http")]
mod url_guard;
#[cfg(not(feature = "http"))]
#[path = "inbound/url_guard_absent.rs"]
mod url_guard;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bowline_config::Server;
use bowline_proto::fault::{Fault, Misbehavior};
use bowline_proto::wire::view::{Cancellation, Progress};
use bowline_proto::wire::{Json, Message, ParseResult, method};
use parking_lot::Mutex;

use super::failure::RequestOutcome;
use super::listen::without_subscription_id;
use super::{Connection, Failure, Wire};
use crate::events::{Event, Notification};
use crate::handler::Handler;
use roots::RootsRequestCounter;
use server_requests::RunningHandler;
use url_guard::UrlGuard;

/// The host's handler, and the server requests that it works on.
pub(crate) struct Inbound {
    pub(crate) handler: Arc<dyn Handler>,
    /// Running handlers for server requests, keyed by the text of the request id.
    running: Mutex<HashMap<String, RunningHandler>>,
    /// Size of `running`, readable without the lock.
    running_count: AtomicUsize,
    /// Counts the `roots/list` requests of the server.
    roots_requests: RootsRequestCounter,
    /// Decides which URLs the server may send a person to.
    url_guard: UrlGuard,
}

impl Inbound {
    pub(crate) fn new(handler: Arc<dyn Handler>, server: &Server) -> Self {
        Self {
            handler,
            running: Mutex::default(),
            running_count: AtomicUsize::new(0),
            roots_requests: RootsRequestCounter::default(),
            url_guard: UrlGuard::for_server(server),
        }
    }
}

impl Connection {
    /// Dispatches one message from a link. `call` is the call on whose stream it arrived, if known.
    pub(crate) fn handle_message(self: &Arc<Self>, wire: &Wire, call: Option<u64>, parsed: ParseResult) {
        match parsed {
            Ok(Message::Result { id, result }) => self.finish_call(id.as_request_number(), Ok(result)),
            Ok(Message::Error { id: Some(id), error }) => {
                self.finish_call(id.as_request_number(), Err(Failure::Server(error)));
            }
            // BM-03: with a single open call, the error can only be meant for that call.
            Ok(Message::Error { id: None, error }) if self.engine.only_open_call().is_some() => {
                self.finish_call(self.engine.only_open_call(), Err(Failure::Server(error)));
            }
            // The error cannot be assigned to a call, so it is logged.
            Ok(Message::Error { id: None, error }) => {
                tracing::warn!(server = %self.server.name, %error, "the server reported an error about no request in particular");
            }
            Ok(Message::Notification { method, params }) => self.handle_notification(call, method, params),
            // Servers send neither of these; a program such as `cat` sends ours back. A refusal would
            // come back too, and look like one of the server.
            Ok(Message::Request { id, method, .. })
                if matches!(wire, Wire::Pipe(_))
                    && (*method == *method::INITIALIZE || *method == *method::DISCOVER) =>
            {
                let echo = Fault::protocol(Misbehavior::Echo);
                self.finish_call(id.as_request_number(), Err(Failure::Fault(echo)));
            }
            Ok(Message::Request { id, method, params }) => {
                self.handle_request(wire, call, id, method, params);
            }
            Err(malformed) => {
                tracing::warn!(server = %self.server.name, defect = %malformed.defect, "the server sent a bad message");
                let fault = Fault::protocol(Misbehavior::Malformed(malformed.defect));
                self.finish_call(
                    malformed.id.and_then(|id| id.as_request_number()),
                    Err(Failure::Fault(fault)),
                );
            }
        }
    }

    /// Ends a call or a subscription with its outcome. Late and unknown ids are dropped (CN-03).
    pub(crate) fn finish_call(&self, id: Option<u64>, outcome: RequestOutcome) {
        let unclaimed = match id {
            Some(id) => self.engine.finish_call(id, outcome),
            None => Some(outcome),
        };
        if let Some(outcome) = unclaimed
            && !self.session.subscriptions.finish_subscription(id, outcome)
        {
            tracing::debug!(server = %self.server.name, "an answer to no open request was dropped");
        }
    }

    fn handle_notification(self: &Arc<Self>, call: Option<u64>, method: Box<str>, params: Option<Json>) {
        if *method == *method::PROGRESS {
            self.handle_progress(params);
        } else if *method == *method::CANCELLED {
            self.handle_cancelled(params);
        } else if *method == *method::LISTEN_ACKNOWLEDGED {
            if let Some(params) = params {
                self.session.subscriptions.handle_acknowledged(&params);
            }
        } else if !self.session.subscriptions.is_expected(params.as_ref()) {
            // SB-03
            tracing::debug!(server = %self.server.name, %method, "a notification of no open subscription was dropped");
        } else {
            let size = params.as_ref().map_or(0, |params| params.as_bytes().len());
            if size > MAX_EVENT_BYTES {
                tracing::warn!(server = %self.server.name, %method, size, "a notification is too large and was dropped");
                return;
            }
            // A queued notification must not keep a larger buffer alive. The subscription id is
            // internal and is removed (MT-03).
            let params =
                params.map(|params| without_subscription_id(&params).unwrap_or_else(|| params.detached()));
            if *method == *method::LOG
                && let Some(listener) = call.and_then(|call| self.engine.log_listener_of_call(call))
            {
                // A listener that panics must not take the connection down.
                let notify = || listener(params.unwrap_or_else(Json::empty_object));
                if catch_unwind(AssertUnwindSafe(notify)).is_err() {
                    tracing::error!(server = %self.server.name, "a log listener panicked");
                }
                return;
            }
            self.lists.invalidate_for(&method, params.as_ref());
            if *method == *method::ELICIT_COMPLETE {
                self.inbound.handle_elicitation_complete(&self.server.name, params.as_ref());
            }
            self.handle_list_changed(&method);
            self.events.emit(Event::Notification(Notification::new(method, params)));
        }
    }

    /// Handles `notifications/cancelled`. A modern server may only cancel a subscription (CN-05).
    fn handle_cancelled(&self, params: Option<Json>) {
        let Some(request) = params.and_then(|params| Cancellation::decode(&params).ok()?.request) else {
            return;
        };
        if !self.session.subscriptions.handle_cancelled(request.as_request_number()) {
            self.inbound.cancel_request(&request);
        }
    }

    fn handle_progress(&self, params: Option<Json>) {
        let Some(params) = params else { return };
        let Ok(progress) = Progress::decode(&params) else { return };
        let Some(token) = progress.token.as_request_number() else { return };
        // A listener that panics must not take the connection down.
        if let Some(listener) = self.engine.record_progress(token)
            && catch_unwind(AssertUnwindSafe(|| listener.notify(progress, params))).is_err()
        {
            tracing::error!(server = %self.server.name, "a progress listener panicked");
        }
    }
}

/// Maximum size of a notification in bytes. Larger ones are dropped, since many may be queued for
/// slow subscribers.
const MAX_EVENT_BYTES: usize = 128 * 1024;
