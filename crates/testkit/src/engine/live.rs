//! What is under way: open channels to the client, questions waiting for its answer, calls that
//! can be cancelled, subscriptions.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::modern::SUBSCRIPTION_KEY;
use super::{Engine, Step, Work};
use crate::rpc;
use crate::sync::{lock, pause};

/// A channel on which messages reach the client.
pub(crate) trait Outlet: Send + Sync {
    /// Hands a message over. False if nobody will read it.
    fn say(&self, message: Value) -> bool;
    /// Whether a message handed over now would be read.
    fn is_open(&self) -> bool;
    /// Nothing more will be said.
    fn finish(&self) {}
}

/// Which kind of channel a message of the server's own takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The standalone GET stream; on stdio, stdout.
    Get,
    /// The event stream of a POST that is not answered yet; on stdio, stdout.
    Post,
    /// Either, GET first.
    Any,
}

#[derive(Default)]
pub(crate) struct Live {
    outlets: Mutex<Vec<Registered>>,
    listeners: Mutex<Vec<Listener>>,
    asks: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    calls: Mutex<HashMap<(Option<String>, String), AbortHandle>>,
    states: Mutex<HashSet<String>>,
    numbers: AtomicU64,
}

struct Registered {
    via: Via,
    session: Option<String>,
    outlet: Arc<dyn Outlet>,
}

struct Listener {
    id: Value,
    filter: Value,
    outlet: Arc<dyn Outlet>,
}

impl Engine {
    pub(crate) fn register(&self, via: Via, session: Option<&str>, outlet: Arc<dyn Outlet>) {
        let session = session.map(str::to_owned);
        let mut outlets = lock(&self.live.outlets);
        outlets.retain(|registered| registered.outlet.is_open());
        outlets.push(Registered { via, session, outlet });
        drop(outlets);
        self.ledger.touch();
    }

    pub(crate) fn register_listener(&self, id: Value, filter: Value, outlet: Arc<dyn Outlet>) {
        let mut listeners = lock(&self.live.listeners);
        listeners.retain(|listener| listener.outlet.is_open());
        listeners.push(Listener { id, filter, outlet });
        drop(listeners);
        self.ledger.touch();
    }

    /// Sends a message on the newest open channel of that kind. False if there is none.
    pub(crate) fn send(&self, via: Via, message: &Value) -> bool {
        let mut outlets = lock(&self.live.outlets);
        outlets.retain(|registered| registered.outlet.is_open());
        let wanted: &[Via] = match via {
            Via::Get => &[Via::Get, Via::Any],
            Via::Post => &[Via::Post, Via::Any],
            Via::Any => &[Via::Get, Via::Any, Via::Post],
        };
        wanted.iter().any(|via| outlets.iter().rev().any(|r| r.via == *via && r.outlet.say(message.clone())))
    }

    /// How many channels of that kind are open.
    pub(crate) fn open_outlets(&self, via: Via) -> usize {
        let mut outlets = lock(&self.live.outlets);
        outlets.retain(|registered| registered.outlet.is_open());
        outlets.iter().filter(|r| via == Via::Any || r.via == Via::Any || r.via == via).count()
    }

    /// Sends a message in a session, where it goes beside a JSON answer.
    pub(crate) fn send_in(&self, session: Option<&str>, message: &Value) -> bool {
        lock(&self.live.outlets)
            .iter()
            .rev()
            .any(|r| r.via != Via::Post && r.session.as_deref() == session && r.outlet.say(message.clone()))
    }

    pub(crate) fn listeners(&self) -> usize {
        let mut listeners = lock(&self.live.listeners);
        listeners.retain(|listener| listener.outlet.is_open());
        listeners.len()
    }

    /// Announces a change: once to each handshake session, and to each subscription that asked for
    /// it (`flag` is the member of the filter). Gives the number reached.
    pub(crate) fn announce(&self, method: &str, flag: &str, params: &Value) -> usize {
        let mut reached = 0;
        let mut told = HashSet::new();
        for registered in lock(&self.live.outlets).iter().rev() {
            if registered.via != Via::Post
                && !told.contains(&registered.session)
                && registered.outlet.say(rpc::notification(method, params.clone()))
            {
                told.insert(registered.session.clone());
                reached += 1;
            }
        }
        for listener in lock(&self.live.listeners).iter() {
            let wanted = match &listener.filter[flag] {
                Value::Array(uris) => uris.contains(&params["uri"]),
                other => *other == true,
            };
            let mut params = if params.is_null() { json!({}) } else { params.clone() };
            params["_meta"][SUBSCRIPTION_KEY] = listener.id.clone();
            if wanted && listener.outlet.say(rpc::notification(method, params)) {
                reached += 1;
            }
        }
        reached
    }

    /// Ends every subscription with its final result.
    pub(crate) fn end_subscriptions(&self) {
        for listener in lock(&self.live.listeners).drain(..) {
            let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: listener.id}});
            listener.outlet.say(rpc::result(&listener.id, result));
            listener.outlet.finish();
        }
    }

    /// Carries out the steps of some work and makes its response.
    pub(crate) async fn carry_out(&self, work: Work, outlet: &dyn Outlet) -> Value {
        let mut answers = Vec::new();
        for step in work.steps {
            match step {
                Step::Pause(time) => pause(time).await,
                Step::Say(message) => {
                    outlet.say(message);
                }
                Step::Ask(request) => {
                    let answer = self.expect_answer(&request["id"]);
                    outlet.say(request);
                    answers.push(answer.await.unwrap_or(Value::Null));
                }
            }
        }
        (work.finish)(answers)
    }

    /// Resolves to the client's answer to a request with this id.
    pub(crate) fn expect_answer(&self, id: &Value) -> oneshot::Receiver<Value> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.live.asks).insert(id.to_string(), sender);
        receiver
    }

    /// A response came from the client.
    pub(super) fn answered(&self, message: &Value) {
        match lock(&self.live.asks).remove(&message["id"].to_string()) {
            Some(ask) => {
                let _ = ask.send(message.clone());
            }
            None => self.ledger.violation(format!("an answer to nothing: id {}", message["id"])),
        }
    }

    pub(crate) fn next_ask_id(&self) -> String {
        format!("ask-{}", self.number())
    }

    pub(super) fn issue_state(&self) -> String {
        let state = format!("state-{}", self.number());
        lock(&self.live.states).insert(state.clone());
        state
    }

    pub(super) fn redeem_state(&self, state: &str) -> bool {
        lock(&self.live.states).remove(state)
    }

    pub(crate) fn number(&self) -> u64 {
        self.live.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes a call that can be cancelled.
    pub(crate) fn began(&self, session: Option<&str>, id: &Value, abort: AbortHandle) {
        lock(&self.live.calls).insert((session.map(str::to_owned), id.to_string()), abort);
    }

    pub(crate) fn ended(&self, session: Option<&str>, id: &Value) {
        lock(&self.live.calls).remove(&(session.map(str::to_owned), id.to_string()));
    }

    /// The client wants no answer any more.
    pub(crate) fn cancel(&self, session: Option<&str>, id: &Value) {
        let call = lock(&self.live.calls).remove(&(session.map(str::to_owned), id.to_string()));
        if let Some(call) = call {
            call.abort();
        }
        self.ledger.cancelled(id.clone());
    }

    /// Ends the calls of one session.
    pub(crate) fn abandon_calls(&self, session: &str) {
        lock(&self.live.calls).retain(|(owner, _), call| {
            let theirs = owner.as_deref() == Some(session);
            if theirs {
                call.abort();
            }
            !theirs
        });
    }

    /// Forgets all of it, as a process that ends does.
    pub(crate) fn abandon(&self) {
        for (_, call) in lock(&self.live.calls).drain() {
            call.abort();
        }
        lock(&self.live.outlets).clear();
        lock(&self.live.listeners).clear();
        lock(&self.live.asks).clear();
    }
}
