//! The protocol core of the MCP server, without I/O: a message goes in, a [`ResponsePlan`] comes
//! out.
//!
//! A transport (HTTP or stdio) executes the plan and delivers messages; open streams, running calls
//! and pending server requests are in [`live`].

mod announce;
mod asking;
mod capabilities;
mod completion;
mod features;
mod legacy;
mod live;
mod logging;
mod modern;
mod pages;
mod paging;
mod reading;
mod rounds;
mod sessions;
mod tasks;
mod tools;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::fault::{Armed, Front};
use crate::ledger::Ledger;
use crate::rpc::Refusal;
use crate::script::{Eras, MODERN_VERSION, Script};
use crate::sync::lock;

pub use announce::{ListenEnd, Listening};
pub use asking::Asked;
use capabilities::capabilities;
pub use live::Via;
pub(crate) use live::{Live, Outlet};
pub(crate) use modern::VERSION_KEY;
pub use sessions::Session;
use sessions::Sessions;
pub(crate) use tasks::Nudge;
pub use tasks::TaskInfo;

/// The two eras of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// How to respond to one message.
pub(crate) enum Plan {
    /// The message needs no response.
    Accepted,
    /// Steps to run, then one response.
    Work(Work),
    /// A subscription: acknowledge it, and keep the stream open.
    Listen { listening: Listening, acknowledged: Value },
}

/// A response that is made after some steps.
pub(crate) struct Work {
    pub(crate) era: Era,
    pub(crate) id: Value,
    /// The HTTP status of the response.
    pub(crate) status: u16,
    /// The session that an `initialize` opened.
    pub(crate) opened: Option<String>,
    pub(crate) steps: Vec<Step>,
    /// Makes the response from the client's responses to [`Step::Request`].
    pub(crate) finish: Box<dyn FnOnce(Vec<Value>) -> Value + Send>,
}

/// A step before the response.
#[derive(Debug)]
pub(crate) enum Step {
    Pause(Duration),
    Say(Value),
    /// Sends requests to the client, all at once; the next step follows when each is answered.
    Ask(Vec<Value>),
    /// Waits for the end of a task, which may send requests; the outcome counts as a response.
    Follow(String),
}

impl Plan {
    fn refused(era: Era, id: &Value, refusal: Refusal) -> Self {
        let status = refusal.status;
        Self::Work(Work { status, ..Work::ready(era, id, refusal.message(id)) })
    }
}

impl Work {
    pub(crate) fn ready(era: Era, id: &Value, response: Value) -> Self {
        Self {
            era,
            id: id.clone(),
            status: 200,
            opened: None,
            steps: Vec::new(),
            finish: Box::new(|_| response),
        }
    }
}

/// The state of one server, shared by all its connections or processes.
pub(crate) struct Engine {
    pub(crate) front: Front,
    pub(crate) armed: Armed,
    pub(crate) ledger: Ledger,
    pub(crate) live: Live,
    sessions: Sessions,
    rounds: rounds::Rounds,
    tasks: tasks::Tasks,
    visited: pages::Visited,
    script: Mutex<Arc<Script>>,
}

impl Engine {
    pub(crate) fn new(script: Script, front: Front) -> Self {
        let armed = Armed::default();
        for fault in &script.faults {
            fault.check(front);
            armed.add(fault.clone());
        }
        Self {
            front,
            armed,
            ledger: Ledger::default(),
            live: Live::default(),
            sessions: Sessions::default(),
            rounds: rounds::Rounds::default(),
            tasks: tasks::Tasks::default(),
            visited: pages::Visited::default(),
            script: Mutex::new(Arc::new(script)),
        }
    }

    /// Returns the current script. It is shared, because tool closures run without any lock held.
    pub(crate) fn script(&self) -> Arc<Script> {
        lock(&self.script).clone()
    }

    pub(crate) fn edit(&self, change: impl FnOnce(Script) -> Script) {
        let mut script = lock(&self.script);
        *script = Arc::new(change(Script::clone(&script)));
    }

    /// Returns the era of a message. `header` is `MCP-Protocol-Version`.
    pub(crate) fn era(&self, message: &Value, header: Option<&str>) -> Era {
        match lock(&self.script).eras {
            Eras::Legacy => Era::Legacy,
            Eras::Modern => Era::Modern,
            Eras::Dual => {
                let modern = message["params"]["_meta"].get(VERSION_KEY).is_some()
                    || message["method"] == "server/discover"
                    || header.is_some_and(|version| version >= MODERN_VERSION);
                if modern { Era::Modern } else { Era::Legacy }
            }
        }
    }

    /// Processes one message. `session` is the session it was sent in, if any; on stdio, the
    /// process.
    pub(crate) fn handle(&self, era: Era, session: Option<&str>, message: &Value) -> Plan {
        match era {
            Era::Legacy => legacy::handle(self, session, message),
            Era::Modern => modern::handle(self, session, message),
        }
    }
}
