//! Holds the session of one host with the demo server. The server's half of the protocol decides
//! what a message means; HTTP only carries the messages.

use std::sync::Arc;

use bowline::{Id, Json, RpcError};
use bowline_proto::server::requests::RequestKey;
use bowline_proto::server::session::{Action, Session};
use bowline_proto::wire::ParseResult;
use bowline_proto::wire::outgoing::Frame;
use parking_lot::Mutex;
use serde_json::Value;

use super::tools;

/// A session with a host. Clones share it. It lasts while requests are served, even if the server
/// has forgotten it.
#[derive(Clone, Default)]
pub(super) struct HostSession(Arc<Mutex<Session<(), ()>>>);

/// What a message of the host leads to.
pub(super) enum Reaction {
    /// This response.
    Respond(Frame),
    /// A request to serve.
    Serve { request: HostRequest, method: Box<str>, params: Value },
    /// Nothing.
    Accept,
}

/// A request of the host that is being served. Dropping it ends it.
pub(super) struct HostRequest {
    session: HostSession,
    key: RequestKey,
    id: Id,
}

impl HostSession {
    /// Handles a message. `initialize` is answered at once.
    pub(super) fn handle(&self, message: ParseResult) -> Reaction {
        let action = self.0.lock().handle_message(message);
        match action {
            Action::Send(frame) => Reaction::Respond(frame),
            Action::Initialize { key, id, attempt, params } => {
                let request = HostRequest { session: self.clone(), key, id };
                let response = request.respond(Ok(&tools::offer(&params).to_result()));
                self.0.lock().accept(attempt);
                response.map_or(Reaction::Accept, Reaction::Respond)
            }
            Action::Serve { key, id, method, params } => {
                let request = HostRequest { session: self.clone(), key, id };
                let params = params.and_then(|params| params.decode().ok()).unwrap_or_default();
                Reaction::Serve { request, method, params }
            }
            _ => Reaction::Accept,
        }
    }
}

impl HostRequest {
    /// Returns the response with this result. `None` if there was one before.
    pub(super) fn respond_with(&self, result: &Value) -> Option<Frame> {
        self.respond(Ok(&Json::encode(result).expect("a value is JSON")))
    }

    /// Returns the response. `None` if there was one before.
    pub(super) fn respond(&self, outcome: Result<&Json, &RpcError>) -> Option<Frame> {
        self.session.0.lock().respond(self.key, &self.id, outcome)
    }
}

impl Drop for HostRequest {
    fn drop(&mut self) {
        self.session.0.lock().end_request(self.key);
    }
}
