//! What a session is told, and what it says: the words between it and its driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::{Choice, Peer, Reply};
use crate::fault::Fault;
use crate::revision::{Era, Revision};

/// What does not change in a session's life.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pipe or HTTP.
    pub carrier: Carrier,
    /// Whether Streamable HTTP may give way to the older HTTP transport.
    pub fallback: bool,
    /// Which eras may be tried.
    pub choice: Choice,
    /// The era to begin with, where the choice leaves it open.
    pub preferred: Option<Era>,
    /// What an earlier connection found out about the server. It saves a question, and is never relied on.
    pub recorded: Option<Finding>,
    /// For opening and negotiating together.
    pub connect: Duration,
    /// For the probe alone: silence longer than this means legacy.
    pub probe: Duration,
    /// How long a connection must have held for the next loss to be waited for briefly again.
    pub stable: Duration,
    /// The shortest wait between two attempts that nobody waits for.
    pub backoff_floor: Duration,
    /// The longest.
    pub backoff_cap: Duration,
    /// The shortest wait when somebody does wait.
    pub demand_floor: Duration,
    /// Whether there is somebody who can answer when the server wants a login.
    pub authorizes: bool,
    /// For jitter.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            carrier: Carrier::Pipe,
            fallback: false,
            choice: Choice::Auto,
            preferred: None,
            recorded: None,
            connect: Duration::from_secs(30),
            probe: Duration::from_secs(3),
            stable: Duration::from_secs(30),
            backoff_floor: Duration::from_millis(250),
            backoff_cap: Duration::from_secs(60),
            demand_floor: Duration::from_millis(50),
            authorizes: false,
            seed: 0,
        }
    }
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A process or another byte stream.
    Pipe,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05: messages are posted, and all answers come on one stream.
    EventStream,
}

/// What a connection has found out about a server, for the next connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The revision that was agreed. One of the legacy era says that the server refused the modern one.
    pub revision: Revision,
    /// How the server was reached.
    pub carrier: Carrier,
}

/// Names one link, from the moment it is asked for. Never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub(super) u64);

/// What the owner wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Be connected, soon: the first time, or because a call is waiting.
    Connect,
    /// The machine slept, or its network changed: what failed before may work now.
    Wake,
    /// We can prove more than before who we are: somebody logged in.
    LoggedIn,
    /// Be done.
    Close,
}

/// News of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It is open.
    Opened {
        /// Whether the session of the link before it can be named on it.
        session: bool,
    },
    /// The answer to the last [`Hello`].
    Reply(Reply),
    /// What the old session knew was told to the new one.
    Restored,
    /// The server has forgotten the session; the link itself may be sound.
    Forgotten {
        /// What it said.
        fault: Fault,
        /// Whether the session ever answered anything after the handshake.
        proven: bool,
    },
    /// It is gone.
    Lost(Fault),
    /// What [`Action::Authorize`] asked for was had.
    Authorized,
    /// It was not, and why.
    Denied(Fault),
}

/// A message of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// `server/discover` in this revision.
    Discover(Revision),
    /// `initialize`, offering this revision.
    Initialize(Revision),
    /// `notifications/initialized`, now that this revision is agreed.
    Initialized(Revision),
    /// `ping` on the session of the link before, in its revision: is it still there?
    Resume(Revision),
}

/// What the driver must do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open a link and report [`Event::Opened`] or [`Event::Lost`].
    Open(Attempt, Carrier),
    /// Send this and report its [`Event::Reply`].
    Send(Attempt, Hello),
    /// Tell the new session what the old one knew, and report [`Event::Restored`].
    Restore(Attempt, Arc<Peer>),
    /// Let calls go over this link.
    Ready(Attempt, Arc<Peer>),
    /// Close the link. Calls under way on a pipe end with this fault; over HTTP each has an exchange of its
    /// own, and its own end.
    Close(Attempt, Fault),
    /// The server wants to know who we are. Have that settled, and report [`Event::Authorized`] or
    /// [`Event::Denied`] under this name; there is no link meanwhile.
    Authorize(Attempt, Fault),
    /// Record this for the next connection to the server; `None`, forget what was recorded, since it was wrong.
    Record(Option<Finding>),
    /// Tell whoever listens.
    Announce(Announcement),
}

/// A turn in the life of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Announcement {
    /// Calls can go, for the first time.
    Connected,
    /// The server is gone, and will be tried again.
    Disconnected(Fault),
    /// The server forgot the session.
    SessionLost(Fault),
    /// Calls can go again.
    Recovered {
        /// How long they could not.
        outage: Duration,
    },
    /// Only a person can help.
    NeedsLogin(Fault),
    /// Trying again cannot help.
    Failed(Fault),
}

/// The phase as others see it.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// Nothing was asked for yet.
    Idle,
    /// Opening, negotiating or restoring.
    Connecting,
    /// The server wants a login, and it is being had: by a renewal, or from a person.
    LoggingIn(Fault),
    /// Calls go.
    Ready(Arc<Peer>),
    /// Waiting for a person.
    NeedsLogin(Fault),
    /// Waiting for the next attempt.
    BackingOff {
        /// When it comes.
        until: Instant,
        /// Why the last one failed.
        cause: Fault,
    },
    /// For good.
    Failed(Fault),
    /// For good, by us.
    Closed,
}
