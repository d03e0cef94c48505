//! What happens on a connection, told in the order it happened: what the server says unasked, and how the
//! connection itself fares.

mod channel;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::HookEvent;
use bowline_proto::fault::Fault;
use bowline_proto::session::Announcement;
use bowline_proto::wire::{Json, method as name};

pub use channel::{EventReceiver, EventSender, channel};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The server said something unasked. Progress of a call goes to that call and does not appear here.
    Notification(Notification),
    /// The connection changed.
    Life(Life),
    /// A list that was fetched again is another one than before.
    Changed(Arc<Change>),
}

/// How a list differs from the one that was seen before it. Names, or URIs, in their own order: untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Which list.
    pub list: Listed,
    /// What was not there before.
    pub added: Vec<Box<str>>,
    /// What is not there any more.
    pub removed: Vec<Box<str>>,
    /// What is there under the same name and is something else.
    pub changed: Vec<Box<str>>,
}

/// A list of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Listed {
    Tools,
    Prompts,
    Resources,
    Templates,
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

// === impl Change ===

impl Change {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl Listed {
    pub(crate) fn of(method: &str) -> Option<Self> {
        Some(match method {
            name::TOOLS_LIST => Self::Tools,
            name::PROMPTS_LIST => Self::Prompts,
            name::RESOURCES_LIST => Self::Resources,
            name::TEMPLATES_LIST => Self::Templates,
            _ => return None,
        })
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "templates",
        }
    }
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
