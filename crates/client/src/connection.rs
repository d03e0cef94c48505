//! One connection: its parts, which callers, the driver and the link share.
//!
//! A call does not go through the driver. It takes the [`LiveLink`], writes to it and waits for the
//! response, all within the caller's own future; the driver only opens, negotiates, closes and
//! reopens links. So the hot path spawns nothing and does not hop between tasks.
//!
//! Each part of [`Connection`] owns its state. What needs one part is a method of that part; what sends
//! requests, and so needs nearly all of them, is a method of [`Connection`] in the folder that it
//! belongs to.

mod background;
mod call;
mod driver;
mod engine;
mod events;
mod failure;
mod inbound;
mod link;
mod listen;
mod lists;
mod login;
mod options;
mod progress;
mod server;
mod session_state;

use bowline_proto::client::session::TransportKind;

use background::BackgroundTasks;
pub(crate) use call::tasks::{TaskDropPolicy, TaskWait, poll_options};
pub(crate) use call::{AuditLog, CallMeter, CallRequest, CallScope, describe_request, tool_name};
pub(crate) use driver::{ConnectionSetup, Driver};
use engine::Engine;
use events::ConnectionEvents;
pub(crate) use failure::Failure;
use inbound::Inbound;
use link::live::Links;
pub(crate) use link::live::LiveLink;
pub(crate) use link::target::{AttachedStreams, Target};
use link::wire::Wire;
pub(crate) use lists::DEFAULT_LIST_CHANGE_DELAY;
use lists::Lists;
pub use lists::fetch::List;
use login::Login;
#[cfg(feature = "auth")]
pub(crate) use login::prompt_clock::OpenPrompt;
pub(crate) use login::prompt_clock::PromptClock;
pub use options::CallOptions;
pub(crate) use progress::TaskProgress;
use server::ServerSettings;
pub(crate) use server::{ClientDeclaration, Tracer};
use session_state::SessionState;

use crate::events::{Event, EventReceiver};

/// The parts of one connection, shared by callers, the driver and the link.
pub(crate) struct Connection {
    pub(crate) server: ServerSettings,
    pub(crate) links: Links,
    pub(crate) engine: Engine,
    pub(crate) events: ConnectionEvents,
    pub(crate) login: Login,
    pub(crate) inbound: Inbound,
    pub(crate) lists: Lists,
    pub(crate) session: SessionState,
    background: BackgroundTasks,
}

impl Connection {
    /// Subscribes to events and to the lists of a modern server.
    pub(crate) fn subscribe_events(&self) -> EventReceiver<Event> {
        // Subscribe first, so that no event caused by `demand_lists` is missed.
        let events = self.events.subscribe();
        self.session.subscriptions.demand_lists();
        events
    }

    pub(crate) fn transport(&self) -> &'static str {
        match self.engine.state().session.current_transport() {
            TransportKind::EventStream => "sse",
            TransportKind::Http | TransportKind::Pipe => self.server.transport,
        }
    }
}
