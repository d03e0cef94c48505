//! The protocol core of the MCP server, without I/O: a message goes in, a [`ResponsePlan`] comes
//! out.
//!
//! A transport (HTTP or stdio) executes the plan and delivers messages; open streams, running calls
//! and pending server requests are in [`live`].

mod announce;
mod capabilities;
mod completion;
mod features;
mod input_rounds;
mod legacy;
mod live;
mod logging;
mod modern;
mod paging;
mod resources_prompts;
mod server_requests;
mod sessions;
mod tasks;
mod tools;
mod url_elicitation;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::armed_faults::ArmedFaults;
use crate::fault::{FaultKind, TransportKind};
use crate::message_log::MessageLog;
use crate::rpc::Refusal;
use crate::script::{Eras, MODERN_VERSION, Script};

pub use announce::{SubscriptionEnd, SubscriptionInfo};
use capabilities::capabilities;
pub use live::StreamKind;
pub(crate) use live::{LiveState, Outlet};
pub(crate) use modern::VERSION_KEY;
pub use server_requests::ServerRequestInfo;
pub use sessions::Session;
use sessions::Sessions;
pub(crate) use tasks::TaskAction;
pub use tasks::TaskInfo;

/// The two eras of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// How to respond to one message.
pub(crate) enum ResponsePlan {
    /// The message needs no response.
    Accepted,
    /// Steps to run, then one response.
    Work(PendingResponse),
    /// A subscription: acknowledge it, and keep the stream open.
    Subscribe { listening: SubscriptionInfo, acknowledged: Value },
}

/// A response that is made after some steps.
pub(crate) struct PendingResponse {
    pub(crate) era: Era,
    pub(crate) id: Value,
    /// The HTTP status of the response.
    pub(crate) status: u16,
    /// The session that an `initialize` opened.
    pub(crate) opened_session: Option<String>,
    pub(crate) steps: Vec<Step>,
    /// Makes the response from the client's responses to [`Step::Request`].
    pub(crate) finish: Box<dyn FnOnce(Vec<Value>) -> Value + Send>,
}

/// A step before the response.
#[derive(Debug)]
pub(crate) enum Step {
    Pause(Duration),
    Notify(Value),
    /// Sends requests to the client, all at once; the next step follows when each is answered.
    Request(Vec<Value>),
    /// Waits for the end of a task, which may send requests; the outcome counts as a response.
    AwaitTask(String),
}

impl ResponsePlan {
    fn from_refusal(era: Era, id: &Value, refusal: Refusal) -> Self {
        let status = refusal.status;
        Self::Work(PendingResponse { status, ..PendingResponse::ready(era, id, refusal.message(id)) })
    }
}

impl PendingResponse {
    pub(crate) fn ready(era: Era, id: &Value, response: Value) -> Self {
        Self {
            era,
            id: id.clone(),
            status: 200,
            opened_session: None,
            steps: Vec::new(),
            finish: Box::new(|_| response),
        }
    }
}

/// The state of one server, shared by all its connections or processes.
pub(crate) struct Engine {
    pub(crate) transport: TransportKind,
    pub(crate) armed: ArmedFaults<FaultKind>,
    pub(crate) message_log: MessageLog,
    pub(crate) live: LiveState,
    sessions: Sessions,
    pending_rounds: input_rounds::PendingRounds,
    tasks: tasks::Tasks,
    completed_elicitations: url_elicitation::CompletedElicitations,
    script: Mutex<Arc<Script>>,
}

impl Engine {
    pub(crate) fn new(script: Script, front: TransportKind) -> Self {
        let armed = ArmedFaults::default();
        for fault in &script.faults {
            fault.assert_possible_on(front);
            armed.add(fault.clone());
        }
        Self {
            transport: front,
            armed,
            message_log: MessageLog::default(),
            live: LiveState::default(),
            sessions: Sessions::default(),
            pending_rounds: input_rounds::PendingRounds::default(),
            tasks: tasks::Tasks::default(),
            completed_elicitations: url_elicitation::CompletedElicitations::default(),
            script: Mutex::new(Arc::new(script)),
        }
    }

    /// Returns the current script. It is shared, because tool closures run without any lock held.
    pub(crate) fn script(&self) -> Arc<Script> {
        self.script.lock().clone()
    }

    pub(crate) fn edit_script(&self, change: impl FnOnce(Script) -> Script) {
        let mut script = self.script.lock();
        *script = Arc::new(change(Script::clone(&script)));
    }

    /// Returns the era of a message. `header` is `MCP-Protocol-Version`.
    pub(crate) fn message_era(&self, message: &Value, header: Option<&str>) -> Era {
        match self.script.lock().eras {
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
    pub(crate) fn handle_message(&self, era: Era, session: Option<&str>, message: &Value) -> ResponsePlan {
        match era {
            Era::Legacy => legacy::handle(self, session, message),
            Era::Modern => modern::handle(self, session, message),
        }
    }
}
