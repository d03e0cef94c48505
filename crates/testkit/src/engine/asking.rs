//! Server requests to a legacy client: sending them, matching responses, canceling them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Engine, Outlet, Via};
use crate::rpc;
use crate::sync::lock;

/// A server request that waits for the client's response.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The id of the request.
    pub id: Value,
    /// The method of the request.
    pub method: String,
    /// The params of the request, or `null`.
    pub params: Value,
}

/// The server requests without a response, and the ids of canceled ones.
#[derive(Default)]
pub(super) struct Pending {
    waiting: HashMap<String, Waiting>,
    withdrawn: HashSet<String>,
}

struct Waiting {
    asked: Asked,
    outlet: Arc<dyn Outlet>,
    answer: oneshot::Sender<Value>,
}

impl Engine {
    /// Sends requests on an outlet and returns the responses in the order of the requests.
    pub(super) async fn ask_on(&self, outlet: &Arc<dyn Outlet>, requests: Vec<Value>) -> Vec<Value> {
        let mut answers = Vec::new();
        for request in requests {
            answers.push(self.expect_answer(&request, outlet.clone()));
            outlet.say(request);
        }
        let mut given = Vec::new();
        for answer in answers {
            given.push(answer.await.unwrap_or(Value::Null));
        }
        given
    }

    /// Sends a request on the best open outlet of that kind. Returns `None` if there is none.
    pub(crate) fn ask(&self, via: Via, request: &Value) -> Option<oneshot::Receiver<Value>> {
        self.channels(via).into_iter().find_map(|outlet| {
            let answer = self.expect_answer(request, outlet.clone());
            outlet.say(request.clone()).then_some(answer)
        })
    }

    fn expect_answer(&self, request: &Value, outlet: Arc<dyn Outlet>) -> oneshot::Receiver<Value> {
        let (sender, receiver) = oneshot::channel();
        let asked = Asked {
            id: request["id"].clone(),
            method: request["method"].as_str().unwrap_or_default().to_owned(),
            params: request["params"].clone(),
        };
        let waiting = Waiting { asked, outlet, answer: sender };
        lock(&self.live.asks).waiting.insert(request["id"].to_string(), waiting);
        self.ledger.touch();
        receiver
    }

    /// Hands a response of the client to the request it belongs to.
    pub(super) fn answered(&self, message: &Value) {
        let id = message["id"].to_string();
        let mut pending = lock(&self.live.asks);
        match pending.waiting.remove(&id) {
            Some(waiting) => {
                let _ = waiting.answer.send(message.clone());
            }
            // CN-04
            None if pending.withdrawn.contains(&id) => {
                self.ledger.violation(format!("an answer to a cancelled request: id {id}"));
            }
            None => self.ledger.violation(format!("an answer to nothing: id {id}")),
        }
        drop(pending);
        self.ledger.touch();
    }

    /// Returns the requests without a response, in order.
    pub(crate) fn asking(&self) -> Vec<Asked> {
        let pending = lock(&self.live.asks);
        let waiting = pending.waiting.values().filter(|waiting| !waiting.answer.is_closed());
        let mut asking: Vec<Asked> = waiting.map(|waiting| waiting.asked.clone()).collect();
        asking.sort_by_key(|asked| ask_number(&asked.id));
        asking
    }

    /// Cancels a server request. Returns false if it is no longer pending.
    pub(crate) fn withdraw(&self, id: &Value, reason: &str) -> bool {
        let mut pending = lock(&self.live.asks);
        let Some(waiting) = pending.waiting.remove(&id.to_string()) else { return false };
        pending.withdrawn.insert(id.to_string());
        drop(pending);
        let params = json!({"requestId": id, "reason": reason});
        waiting.outlet.say(rpc::notification("notifications/cancelled", params));
        let _ = waiting.answer.send(json!({"cancelled": reason}));
        self.ledger.touch();
        true
    }

    pub(crate) fn next_ask_id(&self) -> String {
        format!("ask-{}", self.number())
    }
}

/// Returns the number of a request by which they are ordered; ids chosen by a test come last.
fn ask_number(id: &Value) -> u64 {
    id.as_str().and_then(|id| id.strip_prefix("ask-")?.parse().ok()).unwrap_or(u64::MAX)
}
