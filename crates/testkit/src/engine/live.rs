//! What is under way: open channels to the client, and calls that can be cancelled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::task::AbortHandle;

use super::announce::Listener;
use super::asking::Pending;
use super::{Engine, Step, Work};
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
    pub(super) outlets: Mutex<Vec<Registered>>,
    pub(super) listeners: Mutex<Vec<Listener>>,
    pub(super) asks: Mutex<Pending>,
    calls: Mutex<HashMap<(Option<String>, String), AbortHandle>>,
    numbers: AtomicU64,
}

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

    /// Sends a message on the newest open channel of that kind. False if there is none.
    pub(crate) fn send(&self, via: Via, message: &Value) -> bool {
        self.channels(via).iter().any(|outlet| outlet.say(message.clone()))
    }

    /// The open channels of that kind, the best first.
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

    /// Carries out the steps of some work and makes its response.
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
        self.end_listening(session, id);
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
        *lock(&self.live.asks) = Pending::default();
    }
}
