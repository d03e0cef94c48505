//! The live state of a server: open outlets, subscriptions, pending server requests, and calls that
//! can be canceled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::task::AbortHandle;

use super::announce::Listener;
use super::asking::Pending;
use super::{Engine, Step, Work};
use crate::sync::{lock, pause};

/// An outgoing stream on which messages reach the client.
pub(crate) trait Outlet: Send + Sync {
    /// Sends a message. Returns false if nobody will read it.
    fn say(&self, message: Value) -> bool;
    /// Returns whether a message sent now would be read.
    fn is_open(&self) -> bool;
    /// Ends the stream after the messages sent so far.
    fn finish(&self) {}
}

/// The kind of stream that a message outside of a response takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The standalone GET stream; on stdio, stdout.
    Get,
    /// The event stream of a POST without a response yet; on stdio, stdout.
    Post,
    /// Either of them, GET first.
    Any,
}

#[derive(Default)]
pub(crate) struct Live {
    pub(super) outlets: Mutex<Vec<Registered>>,
    pub(super) listeners: Mutex<Vec<Listener>>,
    pub(super) asks: Mutex<Pending>,
    calls: Mutex<HashMap<(Option<String>, String), AbortHandle>>,
    numbers: AtomicU64,
}

/// An outlet with its kind and session.
pub(super) struct Registered {
    pub(super) via: Via,
    pub(super) session: Option<String>,
    pub(super) outlet: Arc<dyn Outlet>,
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

    /// Sends a message on the newest open outlet of that kind. Returns false if there is none.
    pub(crate) fn send(&self, via: Via, message: &Value) -> bool {
        self.channels(via).iter().any(|outlet| outlet.say(message.clone()))
    }

    /// Returns the open outlets of that kind, the best first.
    pub(super) fn channels(&self, via: Via) -> Vec<Arc<dyn Outlet>> {
        let mut outlets = lock(&self.live.outlets);
        outlets.retain(|registered| registered.outlet.is_open());
        let wanted: &[Via] = match via {
            Via::Get => &[Via::Get, Via::Any],
            Via::Post => &[Via::Post, Via::Any],
            Via::Any => &[Via::Get, Via::Any, Via::Post],
        };
        let of = |via: Via| outlets.iter().rev().filter(move |r| r.via == via).map(|r| r.outlet.clone());
        wanted.iter().copied().flat_map(of).collect()
    }

    /// Returns the number of open outlets of that kind.
    pub(crate) fn open_outlets(&self, via: Via) -> usize {
        let mut outlets = lock(&self.live.outlets);
        outlets.retain(|registered| registered.outlet.is_open());
        outlets.iter().filter(|r| via == Via::Any || r.via == Via::Any || r.via == via).count()
    }

    /// Sends a message on a stream of the session other than that of a POST, for messages that
    /// accompany a JSON response.
    pub(crate) fn send_in(&self, session: Option<&str>, message: &Value) -> bool {
        lock(&self.live.outlets)
            .iter()
            .rev()
            .any(|r| r.via != Via::Post && r.session.as_deref() == session && r.outlet.say(message.clone()))
    }

    /// Runs the steps of a pending response and makes the response.
    pub(crate) async fn carry_out(&self, work: Work, outlet: Arc<dyn Outlet>) -> Value {
        let mut answers = Vec::new();
        for step in work.steps {
            match step {
                Step::Pause(time) => pause(time).await,
                Step::Say(message) => {
                    outlet.say(message);
                }
                Step::Ask(requests) => answers.extend(self.ask_on(&outlet, requests).await),
                Step::Follow(task) => answers.push(self.follow(&task, &outlet).await),
            }
        }
        (work.finish)(answers)
    }

    /// Returns a number that was not used before, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.live.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Registers a call that can be canceled.
    pub(crate) fn began(&self, session: Option<&str>, id: &Value, abort: AbortHandle) {
        lock(&self.live.calls).insert((session.map(str::to_owned), id.to_string()), abort);
    }

    pub(crate) fn ended(&self, session: Option<&str>, id: &Value) {
        lock(&self.live.calls).remove(&(session.map(str::to_owned), id.to_string()));
    }

    /// Cancels a call or subscription, as the client requested.
    pub(crate) fn cancel(&self, session: Option<&str>, id: &Value) {
        let call = lock(&self.live.calls).remove(&(session.map(str::to_owned), id.to_string()));
        if let Some(call) = call {
            call.abort();
        }
        self.end_listening(session, id);
        self.ledger.cancelled(id.clone());
    }

    /// Aborts the calls of one session.
    pub(crate) fn abandon_calls(&self, session: &str) {
        lock(&self.live.calls).retain(|(owner, _), call| {
            let theirs = owner.as_deref() == Some(session);
            if theirs {
                call.abort();
            }
            !theirs
        });
    }

    /// Aborts all calls and drops all outlets, subscriptions and server requests, as the exit of a
    /// process does.
    pub(crate) fn abandon(&self) {
        for (_, call) in lock(&self.live.calls).drain() {
            call.abort();
        }
        lock(&self.live.outlets).clear();
        lock(&self.live.listeners).clear();
        *lock(&self.live.asks) = Pending::default();
    }
}
