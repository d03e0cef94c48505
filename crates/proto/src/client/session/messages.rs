//! The interface between [`Session`](super::Session) and its driver: settings, commands, events,
//! actions and status.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::negotiation::{EraChoice, Peer, Reply};
use crate::fault::Fault;
use crate::revision::{Era, Revision};

/// The settings of a session. They never change.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The configured transport.
    pub transport: TransportKind,
    /// Whether Streamable HTTP may fall back to HTTP+SSE. Default: no.
    pub fallback: bool,
    /// Which eras may be tried.
    pub era_choice: EraChoice,
    /// The era to begin with, where `era_choice` leaves it open.
    pub preferred_era: Option<Era>,
    /// The record of an earlier connection to this server. It saves a probe, and is never relied
    /// on.
    pub record: Option<NegotiationRecord>,
    /// Limit for opening and negotiating together. Default: 30 s.
    pub connect_timeout: Duration,
    /// Limit for the modern probe: silence longer than this means legacy. Default: 3 s.
    pub probe_timeout: Duration,
    /// A connection that lasted this long resets the waits. Default: 30 s.
    pub stable_after: Duration,
    /// Minimum wait between two attempts while no caller waits. Default: 250 ms.
    pub backoff_floor: Duration,
    /// Maximum wait between two attempts. Default: 60 s.
    pub backoff_cap: Duration,
    /// Minimum wait between two attempts while a caller waits. Default: 50 ms.
    pub demand_floor: Duration,
    /// Whether a link can be opened only once, so that its loss is final. Default: no.
    pub single_link: bool,
    /// Whether the driver can obtain a login when the server requires one.
    pub can_authorize: bool,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            transport: TransportKind::Pipe,
            fallback: false,
            era_choice: EraChoice::Auto,
            preferred_era: None,
            record: None,
            connect_timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(3),
            stable_after: Duration::from_secs(30),
            backoff_floor: Duration::from_millis(250),
            backoff_cap: Duration::from_secs(60),
            demand_floor: Duration::from_millis(50),
            single_link: false,
            can_authorize: false,
            seed: 0,
        }
    }
}

/// The transport by which a server is reached.
///
/// Exhaustive, since a driver of a session must handle every transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// A process or another byte stream.
    Pipe,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05: messages are posted, and all replies come on one stream.
    EventStream,
}

/// What a connection negotiated with a server, recorded for the next connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NegotiationRecord {
    /// The agreed revision. A legacy revision means that the server refused the modern era.
    pub revision: Revision,
    /// The transport by which the server was reached.
    pub transport: TransportKind,
}

impl NegotiationRecord {
    /// Creates a record, such as one that a cache has read.
    pub const fn new(revision: Revision, transport: TransportKind) -> Self {
        Self { revision, transport }
    }
}

/// The number of one link, assigned when the link is requested and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub(super) u64);

/// A command of the session's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Connect soon: the first time, or because a call is waiting.
    Connect,
    /// The machine woke up or its network changed, so an attempt that failed before may succeed
    /// now.
    Wake,
    /// A login succeeded elsewhere, so there are new credentials.
    LoggedIn,
    /// Close for good.
    Close,
}

/// An event of a link, reported by the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The link is open.
    Opened {
        /// Whether requests on it can name the session of the link before it.
        session: bool,
    },
    /// The reply to the last [`NegotiationMessage`].
    Reply(Reply),
    /// The state of the old session is restored on the new one.
    Restored,
    /// The server lost the session; the link itself may be sound.
    SessionLost {
        /// What the server said.
        fault: Fault,
        /// Whether the session ever answered anything after the handshake.
        proven: bool,
    },
    /// The link is lost.
    LinkLost(Fault),
    /// The login that [`Action::Authorize`] requested succeeded.
    Authorized,
    /// That login failed, for this reason.
    Denied(Fault),
}

/// A message of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegotiationMessage {
    /// `server/discover` in this revision.
    Discover(Revision),
    /// `initialize`, offering this revision.
    Initialize(Revision),
    /// `notifications/initialized`, now that this revision is agreed.
    Initialized(Revision),
    /// `ping` on the session of the link before, in its revision, to find out whether it still
    /// exists.
    Resume(Revision),
}

/// What the driver must do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open a link and report [`Event::Opened`] or [`Event::LinkLost`].
    Open(Attempt, TransportKind),
    /// Send this and report its [`Event::Reply`].
    Send(Attempt, NegotiationMessage),
    /// Restore the state of the old session on the new one, and report [`Event::Restored`].
    Restore(Attempt, Arc<Peer>),
    /// Allow calls over this link.
    Ready(Attempt, Arc<Peer>),
    /// Close the link. Calls pending on a pipe end with this fault; over HTTP each call has its own
    /// exchange and ends with that.
    Close(Attempt, Fault),
    /// Obtain a login, and report [`Event::Authorized`] or [`Event::Denied`] for this attempt.
    /// There is no link meanwhile.
    Authorize(Attempt, Fault),
    /// Record this for the next connection to the server. `None`: delete the record, since it was
    /// wrong.
    Record(Option<NegotiationRecord>),
    /// Publish this change to listeners.
    Announce(Announcement),
}

/// A change of the connection that listeners are told.
#[derive(Clone, Debug, PartialEq)]
pub enum Announcement {
    /// The first connection is ready.
    Connected,
    /// The server is unreachable, and attempts continue.
    Disconnected(Fault),
    /// The server lost the session.
    SessionLost(Fault),
    /// The connection is ready again.
    Recovered {
        /// Duration of the outage.
        outage: Duration,
    },
    /// Only a person can help.
    NeedsLogin(Fault),
    /// Retrying cannot help.
    Failed(Fault),
}

/// The public view of a session's phase.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Status {
    /// No connection was requested yet.
    Idle,
    /// Opening, resuming, negotiating or restoring.
    Connecting,
    /// The server requires a login, and one is being obtained by a refresh or from a person.
    LoggingIn(Fault),
    /// Calls can be sent.
    Ready(Arc<Peer>),
    /// Waiting for a person.
    NeedsLogin(Fault),
    /// Waiting for the next attempt.
    BackingOff {
        /// Time of the next attempt.
        until: Instant,
        /// Why the last one failed.
        cause: Fault,
    },
    /// The connection failed, and retrying cannot help.
    Failed(Fault),
    /// The owner closed the session.
    Closed,
}
