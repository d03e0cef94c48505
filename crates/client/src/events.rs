//! What happens on a connection, told in the order it happened: what the server says unasked, and how the
//! connection itself fares.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::HookEvent;
use bowline_proto::fault::Fault;
use bowline_proto::session::Announcement;
use bowline_proto::wire::{Json, method as name};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The server said something unasked. Progress of a call goes to that call and does not appear here.
    Notification(Notification),
    /// The connection changed.
    Life(Life),
}

/// A notification of the server, as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// Its method.
    pub method: Box<str>,
    /// Its params: untrusted.
    pub params: Option<Json>,
    /// Not the server's own words: a list that was fetched again after a recovery differs from the one
    /// before, and this is what the server would have said.
    pub inferred: bool,
}

/// What a [`Notification`] is about.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Topic<'a> {
    /// The tools changed; list them again.
    ToolsChanged,
    /// The prompts changed.
    PromptsChanged,
    /// The resources changed.
    ResourcesChanged,
    /// One resource changed.
    ResourceUpdated {
        /// Which.
        uri: String,
    },
    /// A log line of the server: untrusted.
    Log(&'a Json),
    /// Anything else.
    Other,
}

/// A turn in the life of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// Which turn.
    pub turn: Turn,
    /// The configured name of the server.
    pub server: Arc<str>,
    /// When.
    pub at: SystemTime,
    /// Why, where there is a reason.
    pub cause: Option<Fault>,
    /// How many attempts to connect were made since the connection was last good.
    pub attempt: u32,
    /// How long the server could not be called, once it can be again.
    pub outage: Option<Duration>,
}

/// A turn in the life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Turn {
    /// Calls can go, for the first time.
    Connected,
    /// The server cannot be reached any more, or its process ended. It is tried again.
    Disconnected,
    /// The server forgot the session. A new one is opened at once.
    SessionLost,
    /// Calls can go again.
    Recovered,
    /// Only a person can help.
    NeedsLogin,
    /// Trying again cannot help.
    Failed,
}

// === impl Notification ===

impl Notification {
    pub(crate) fn new(method: Box<str>, params: Option<Json>) -> Self {
        Self { method, params, inferred: false }
    }

    /// What it is about.
    pub fn topic(&self) -> Topic<'_> {
        match (&*self.method, &self.params) {
            (name::TOOLS_CHANGED, _) => Topic::ToolsChanged,
            (name::PROMPTS_CHANGED, _) => Topic::PromptsChanged,
            (name::RESOURCES_CHANGED, _) => Topic::ResourcesChanged,
            (name::LOG, Some(params)) => Topic::Log(params),
            (name::RESOURCE_UPDATED, Some(params)) => match params.member("uri").map(|uri| uri.decode()) {
                Some(Ok(uri)) => Topic::ResourceUpdated { uri },
                _ => Topic::Other,
            },
            _ => Topic::Other,
        }
    }
}

// === impl Life ===

impl Life {
    pub(crate) fn new(server: &Arc<str>, attempt: u32, announcement: Announcement) -> Self {
        let (turn, cause, outage) = match announcement {
            Announcement::Connected => (Turn::Connected, None, None),
            Announcement::Disconnected(fault) => (Turn::Disconnected, Some(fault), None),
            Announcement::SessionLost(fault) => (Turn::SessionLost, Some(fault), None),
            Announcement::Recovered { outage } => (Turn::Recovered, None, Some(outage)),
            Announcement::NeedsLogin(fault) => (Turn::NeedsLogin, Some(fault), None),
            Announcement::Failed(fault) => (Turn::Failed, Some(fault), None),
        };
        Self { turn, server: Arc::clone(server), at: SystemTime::now(), cause, attempt, outage }
    }
}

// === impl Turn ===

impl Turn {
    /// Its name in configuration, hooks and logs.
    pub fn as_str(self) -> &'static str {
        HookEvent::from(self).as_str()
    }
}

/// What hooks wait for is a turn, or more.
impl From<Turn> for HookEvent {
    fn from(turn: Turn) -> Self {
        match turn {
            Turn::Connected => Self::Connected,
            Turn::Disconnected => Self::Disconnected,
            Turn::SessionLost => Self::SessionLost,
            Turn::Recovered => Self::Recovered,
            Turn::NeedsLogin => Self::NeedsLogin,
            Turn::Failed => Self::Failed,
        }
    }
}
