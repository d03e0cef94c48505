//! Events of a connection, in order: notifications of the server, and changes of the connection
//! itself.

mod channel;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::HookEvent;
use bowline_proto::client::session::Announcement;
use bowline_proto::fault::Fault;
use bowline_proto::wire::{Json, method as name};

use crate::report::CallRecord;

pub(crate) use channel::{EventItem, ReceiveOutcome, channel};
pub use channel::{EventReceiver, EventSender};

/// An event of a connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The server sent a notification. Progress goes to its call and does not appear here.
    Notification(Notification),
    /// The state of the connection changed.
    Connection(ConnectionEvent),
    /// A list was fetched again and differs from the previous one. A tracked list is fetched a
    /// moment after the server announced a change; see
    /// [`ClientBuilder::list_change_delay`](crate::ClientBuilder::list_change_delay).
    ListChanged(Arc<ListChange>),
    /// A request ended; see [`Client::report_calls`](crate::Client::report_calls).
    CallEnded(Arc<CallRecord>),
    /// The process of the server wrote a line to stderr; see
    /// [`Client::report_stderr`](crate::Client::report_stderr).
    Stderr(Arc<StderrLine>),
    /// This many events were missed here, because they were not received in time.
    Missed(u64),
}

/// A line that the process of a server wrote to stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StderrLine {
    /// The line without its end. Of a line that is longer than 1,024 bytes it is the beginning,
    /// and then `…`. Invalid UTF-8 is replaced by U+FFFD. It is untrusted, and its control
    /// characters are those that the server wrote.
    ///
    /// Configured variables whose names say that they are secret, such as `API_KEY`, are redacted
    /// where their values have at least 8 bytes. Other secrets are not known to the client.
    pub text: Box<str>,
    /// Number of lines that were left out between the previous event of this kind and this one,
    /// because too many events waited to be received.
    pub skipped: u64,
}

/// How a list differs from the previous one. Holds names or URIs, sorted. They are untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListChange {
    /// Which list changed.
    pub list: ListKind,
    /// Elements that are new.
    pub added: Vec<Box<str>>,
    /// Elements that are gone.
    pub removed: Vec<Box<str>>,
    /// Elements with the same name and other contents.
    pub changed: Vec<Box<str>>,
}

/// One of the server's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListKind {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
    /// The resources.
    Resources,
    /// The resource templates.
    Templates,
}

/// A notification of the server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Notification {
    /// The method.
    pub method: Box<str>,
    /// The params, untrusted.
    pub params: Option<Json>,
    /// Whether the client inferred it: after a recovery, a refetched list differs from the previous
    /// one, and the server would have sent this notification.
    pub inferred: bool,
}

/// The subject of a [`Notification`].
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
        /// URI of the resource.
        uri: String,
    },
    /// A log message of the server, untrusted.
    Log(&'a Json),
    /// Anything else.
    Other,
}

/// A change of the connection's state.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConnectionEvent {
    /// What changed.
    pub kind: ConnectionEventKind,
    /// The configured name of the server.
    pub server: Arc<str>,
    /// When it happened.
    pub at: SystemTime,
    /// The cause, if there is one.
    pub cause: Option<Fault>,
    /// Connection attempts since the last outage began, including the one that ended it; in an event
    /// that begins an outage, those of the outage before.
    pub attempt: u32,
    /// How long the server was unavailable, once it is available again.
    pub outage: Option<Duration>,
}

/// The kind of a connection event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionEventKind {
    /// The server is ready for the first time.
    Connected,
    /// The server is unreachable or its process ended. Reconnecting.
    Disconnected,
    /// The server lost the session. A new one is opened at once.
    SessionLost,
    /// The server is ready again.
    Recovered,
    /// A person must log in.
    NeedsLogin,
    /// Retrying cannot help.
    Failed,
}

// === impl Event ===

impl EventItem for Event {
    fn missed(count: u64) -> Self {
        Self::Missed(count)
    }
}

// === impl ListChange ===

impl ListChange {
    /// Creates a change of no elements, for the unit test of a host. Its fields can be set.
    pub fn new(list: ListKind) -> Self {
        Self { list, added: Vec::new(), removed: Vec::new(), changed: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl StderrLine {
    /// Creates a line before which none was left out, for the unit test of a host.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self { text: text.into(), skipped: 0 }
    }
}

impl ListKind {
    pub(crate) fn from_method(method: &str) -> Option<Self> {
        Some(match method {
            name::TOOLS_LIST => Self::Tools,
            name::PROMPTS_LIST => Self::Prompts,
            name::RESOURCES_LIST => Self::Resources,
            name::TEMPLATES_LIST => Self::Templates,
            _ => return None,
        })
    }

    /// The name of the list.
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
    /// Creates a notification as a server sends it.
    pub fn new(method: impl Into<Box<str>>, params: Option<Json>) -> Self {
        Self { method: method.into(), params, inferred: false }
    }

    /// The subject of the notification.
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

// === impl ConnectionEvent ===

impl ConnectionEvent {
    /// Creates an event that happens now, without a cause, for the unit test of a host. Its fields can
    /// be set.
    pub fn new(server: impl Into<Arc<str>>, kind: ConnectionEventKind) -> Self {
        Self { kind, server: server.into(), at: SystemTime::now(), cause: None, attempt: 0, outage: None }
    }

    pub(crate) fn from_announcement(server: &Arc<str>, attempt: u32, announcement: Announcement) -> Self {
        let (turn, cause, outage) = match announcement {
            Announcement::Connected => (ConnectionEventKind::Connected, None, None),
            Announcement::Disconnected(fault) => (ConnectionEventKind::Disconnected, Some(fault), None),
            Announcement::SessionLost(fault) => (ConnectionEventKind::SessionLost, Some(fault), None),
            Announcement::Recovered { outage } => (ConnectionEventKind::Recovered, None, Some(outage)),
            Announcement::NeedsLogin(fault) => (ConnectionEventKind::NeedsLogin, Some(fault), None),
            Announcement::Failed(fault) => (ConnectionEventKind::Failed, Some(fault), None),
        };
        Self { kind: turn, server: Arc::clone(server), at: SystemTime::now(), cause, attempt, outage }
    }
}

// === impl ConnectionEventKind ===

impl ConnectionEventKind {
    /// The name in configuration, hooks and logs.
    pub fn as_str(self) -> &'static str {
        HookEvent::from(self).as_str()
    }
}

/// Every connection event can trigger a hook.
impl From<ConnectionEventKind> for HookEvent {
    fn from(turn: ConnectionEventKind) -> Self {
        match turn {
            ConnectionEventKind::Connected => Self::Connected,
            ConnectionEventKind::Disconnected => Self::Disconnected,
            ConnectionEventKind::SessionLost => Self::SessionLost,
            ConnectionEventKind::Recovered => Self::Recovered,
            ConnectionEventKind::NeedsLogin => Self::NeedsLogin,
            ConnectionEventKind::Failed => Self::Failed,
        }
    }
}
