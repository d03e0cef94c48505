//! Server requests to a legacy client: sending them, matching responses, canceling them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Engine, Outlet, StreamKind};
use crate::rpc;

/// A server request that waits for the client's response.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRequestInfo {
    /// The id of the request.
    pub id: Value,
    /// The method of the request.
    pub method: String,
    /// The params of the request, or `null`.
    pub params: Value,
}

/// The server requests without a response, and the ids of canceled ones.
#[derive(Default)]
pub(super) struct PendingRequests {
    waiting: HashMap<String, PendingRequest>,
    canceled: HashSet<String>,
}

struct PendingRequest {
    info: ServerRequestInfo,
    outlet: Arc<dyn Outlet>,
    response: oneshot::Sender<Value>,
}

impl Engine {
    /// Sends requests on an outlet and returns the responses in the order of the requests.
    pub(super) async fn send_requests_on(
        &self,
        outlet: &Arc<dyn Outlet>,
        requests: Vec<Value>,
    ) -> Vec<Value> {
        let mut answers = Vec::new();
        for request in requests {
            answers.push(self.expect_response(&request, outlet.clone()));
            outlet.send(request);
        }
        let mut given = Vec::new();
        for answer in answers {
            given.push(answer.await.unwrap_or(Value::Null));
        }
        given
    }

    /// Sends a request on the best open outlet of that kind. Returns `None` if there is none.
    pub(crate) fn send_request(&self, via: StreamKind, request: &Value) -> Option<oneshot::Receiver<Value>> {
        self.open_outlets(via).into_iter().find_map(|outlet| {
            let answer = self.expect_response(request, outlet.clone());
            outlet.send(request.clone()).then_some(answer)
        })
    }

    fn expect_response(&self, request: &Value, outlet: Arc<dyn Outlet>) -> oneshot::Receiver<Value> {
        let (sender, receiver) = oneshot::channel();
        let asked = ServerRequestInfo {
            id: request["id"].clone(),
            method: request["method"].as_str().unwrap_or_default().to_owned(),
            params: request["params"].clone(),
        };
        let waiting = PendingRequest { info: asked, outlet, response: sender };
        self.live.server_requests.lock().waiting.insert(request["id"].to_string(), waiting);
        self.message_log.notify_waiters();
        receiver
    }

    /// Hands a response of the client to the request it belongs to.
    pub(super) fn handle_response(&self, message: &Value) {
        let id = message["id"].to_string();
        let mut pending = self.live.server_requests.lock();
        match pending.waiting.remove(&id) {
            Some(waiting) => {
                let _ = waiting.response.send(message.clone());
            }
            // CN-04
            None if pending.canceled.contains(&id) => {
                self.message_log.record_violation(format!("an answer to a cancelled request: id {id}"));
            }
            None => self.message_log.record_violation(format!("an answer to nothing: id {id}")),
        }
        drop(pending);
        self.message_log.notify_waiters();
    }

    /// Returns the requests without a response, in order.
    pub(crate) fn pending_requests(&self) -> Vec<ServerRequestInfo> {
        let pending = self.live.server_requests.lock();
        let waiting = pending.waiting.values().filter(|waiting| !waiting.response.is_closed());
        let mut asking: Vec<ServerRequestInfo> = waiting.map(|waiting| waiting.info.clone()).collect();
        asking.sort_by_key(|asked| request_number(&asked.id));
        asking
    }

    /// Cancels a server request. Returns false if it is no longer pending.
    pub(crate) fn cancel_server_request(&self, id: &Value, reason: &str) -> bool {
        let mut pending = self.live.server_requests.lock();
        let Some(waiting) = pending.waiting.remove(&id.to_string()) else { return false };
        pending.canceled.insert(id.to_string());
        drop(pending);
        let params = json!({"requestId": id, "reason": reason});
        waiting.outlet.send(rpc::notification("notifications/cancelled", params));
        let _ = waiting.response.send(json!({"cancelled": reason}));
        self.message_log.notify_waiters();
        true
    }

    pub(crate) fn next_request_id(&self) -> String {
        format!("ask-{}", self.next_number())
    }
}

/// Returns the number of a request by which they are ordered; ids chosen by a test come last.
fn request_number(id: &Value) -> u64 {
    id.as_str().and_then(|id| id.strip_prefix("ask-")?.parse().ok()).unwrap_or(u64::MAX)
}
