//! Performs the session's actions, as the real driver does. It decides nothing.

use bowline_proto::client::keepalive::Probe;
use bowline_proto::client::loss::Verdict;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::{
    Action, Announcement, Attempt, Event, NegotiationMessage, TransportKind,
};
use bowline_proto::fault::{Cause, Exit, Fault, SpawnError};
use bowline_proto::revision::Era;
use bowline_proto::wire::method;

use crate::exchange::RequestKind;
use crate::oracle::Author;
use crate::server::ServerKind;
use crate::world::{SimEvent, World};

/// A link, kept for the whole run because late events may name it.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one link")]
pub(crate) struct Link {
    pub(crate) transport: TransportKind,
    /// The session that its requests name.
    pub(crate) session: Option<u64>,
    /// Whether that session answered anything after the handshake.
    pub(crate) proven: bool,
    /// Whether its process or event stream is alive. Never for Streamable HTTP.
    pub(crate) alive: bool,
    /// The exchange of the negotiation message whose reply is awaited.
    pub(crate) pending_message: Option<u64>,
    pub(crate) modern: bool,
    /// Whether missing credentials were reported for it.
    pub(crate) challenged: bool,
    /// Whether its session is known to be lost.
    pub(crate) session_lost: bool,
    /// The replies to probes of its session, and their authors.
    pub(crate) probes: Vec<(Probe, Reply, Author)>,
}

impl World {
    /// Performs all actions of the session.
    pub(crate) fn perform_actions(&mut self) {
        while let Some(action) = self.session.poll_action() {
            self.trace(&action);
            self.invariants.check_action(self.now, &action);
            match action {
                Action::Open(attempt, carrier) => self.open(attempt, carrier),
                Action::Send(attempt, hello) => self.send(attempt, hello),
                Action::Restore(attempt, peer) => {
                    let session = self.links[&attempt].session;
                    if peer.era() == Era::Legacy && self.rng.bool() {
                        self.send_request(attempt, RequestKind::Restore, session);
                        // Restoring is bounded in time.
                        let limit = self.now + RESTORE_TIMEOUT;
                        self.schedule(limit, SimEvent::Session(attempt, Event::Restored));
                    } else {
                        self.schedule_session_event(attempt, Event::Restored);
                    }
                }
                Action::Ready(attempt, peer) => {
                    self.tally.note(match peer.era() {
                        Era::Modern => "ready: modern",
                        Era::Legacy => "ready: legacy",
                    });
                    let carrier = self.links[&attempt].transport;
                    self.tally.note(match carrier {
                        TransportKind::Pipe => "ready: pipe",
                        TransportKind::Http => "ready: http",
                        TransportKind::EventStream => "ready: event stream",
                    });
                    if matches!(self.last_message, Some(NegotiationMessage::Resume(_))) {
                        self.tally.note("ready: the old session was still there");
                    }
                    self.links.get_mut(&attempt).expect("a link that was opened").modern =
                        peer.era() == Era::Modern;
                    self.live_attempt = Some(attempt);
                    self.keepalive.handle_connected(self.now, attempt, &peer);
                    if self.has_faults()
                        && carrier != TransportKind::Http
                        && (self.server.fragile || self.rng.bool())
                    {
                        let at = self.random_time(if self.server.fragile { 1_000 } else { 60_000 });
                        self.schedule(at, SimEvent::Die(attempt));
                    }
                    self.resume_waiting_callers();
                }
                Action::Close(attempt, fault) => self.close(attempt, &fault),
                Action::Authorize(attempt, fault) => self.authorize(attempt, fault),
                Action::Record(Some(_)) => self.tally.note("record: made"),
                Action::Record(None) => self.tally.note("record: forgotten"),
                Action::Announce(announcement) => self.tally.note(match announcement {
                    Announcement::Connected => "said: connected",
                    Announcement::Disconnected(_) => "said: disconnected",
                    Announcement::SessionLost(_) => "said: session lost",
                    Announcement::Recovered { .. } => "said: recovered",
                    Announcement::NeedsLogin(_) => "said: needs login",
                    Announcement::Failed(_) => "said: failed",
                }),
            }
        }
        self.notify_waiting_callers();
    }

    /// Schedules the result of a login, which may succeed, fail, or be useless.
    fn authorize(&mut self, attempt: Attempt, fault: Fault) {
        let at = self.random_time(5_000);
        let event = match self.rng.u8(..8) {
            0 if self.has_faults() => {
                self.tally.note("login: denied");
                Event::Denied(fault)
            }
            1 if self.has_faults() => {
                self.tally.note("login: unavailable");
                Event::Denied(Fault::before_sending(Cause::LoginUnavailable))
            }
            2 if self.has_faults() => {
                self.tally.note("login: in vain");
                Event::Authorized
            }
            _ => {
                self.tally.note("login: good");
                self.schedule(at, SimEvent::WantsLogin(false));
                Event::Authorized
            }
        };
        self.schedule(at, SimEvent::Session(attempt, event));
    }

    fn open(&mut self, attempt: Attempt, transport: TransportKind) {
        let at = self.random_time(100);
        let mut link = Link {
            transport,
            session: None,
            proven: false,
            alive: false,
            pending_message: None,
            modern: false,
            challenged: false,
            session_lost: false,
            probes: Vec::new(),
        };
        let event = match transport {
            TransportKind::Pipe if self.server.down => {
                // The program may be missing while it is being replaced.
                let cause = if self.rng.u8(..10) == 0 {
                    Cause::Spawn(SpawnError::NotFound)
                } else {
                    Cause::Exited(Exit::Code(1))
                };
                self.tally.note("fault: the process did not start");
                Event::LinkLost(Fault::before_sending(cause))
            }
            TransportKind::EventStream if self.server.down => Event::LinkLost(self.unreachable_fault()),
            TransportKind::EventStream
                if self.server.kind != ServerKind::HttpSseOnly || self.server.misplaced =>
            {
                self.tally.note("fault: no older transport either");
                let status = Cause::Status { code: 405, retry_after: None };
                Event::LinkLost(Fault::new(status).not_executed())
            }
            TransportKind::Pipe => {
                link.alive = true;
                Event::Opened { session: false }
            }
            TransportKind::EventStream => {
                link.alive = true;
                link.session = self.server.open_session(self.now);
                Event::Opened { session: false }
            }
            // There is nothing to open, and requests can name the session of the link before.
            TransportKind::Http => {
                link.session = self.last_session;
                Event::Opened { session: self.last_session.is_some() }
            }
        };
        self.links.insert(attempt, link);
        match event {
            Event::Opened { .. } if transport == TransportKind::Http => {
                self.schedule_session_event(attempt, event);
            }
            _ => self.schedule(at, SimEvent::Session(attempt, event)),
        }
    }

    fn send(&mut self, attempt: Attempt, hello: NegotiationMessage) {
        let link = self.links.get_mut(&attempt).expect("a link that was opened");
        let session = match (link.transport, hello) {
            (TransportKind::Http, NegotiationMessage::Discover(_) | NegotiationMessage::Initialize(_)) => {
                link.session = None;
                None
            }
            (TransportKind::Http | TransportKind::EventStream, _) => link.session,
            (TransportKind::Pipe, _) => None,
        };
        if matches!(hello, NegotiationMessage::Resume(_)) {
            assert!(session.is_some(), "asks on a session that cannot be named");
            self.tally.note("asked whether the old session is there");
        }
        self.last_message = Some(hello);
        let id = self.send_request(attempt, RequestKind::Negotiation(hello), session);
        // The link may have died at once.
        self.links.get_mut(&attempt).expect("a link that was opened").pending_message = Some(id);
    }

    /// Handles the reply to a request that restores a new session.
    pub(crate) fn handle_restore_reply(
        &mut self,
        attempt: Attempt,
        session: Option<u64>,
        author: Author,
        reply: Reply,
    ) {
        let event =
            match (reply.session_verdict(method::SET_LEVEL, session.is_some(), self.credentials), reply) {
                // A real driver would probe a suspect session; here the author settles it.
                (verdict, _) if verdict == Verdict::Lost || author == Author::SessionCheck => {
                    self.tally.note("forgotten before the first call");
                    Event::SessionLost { fault: Fault::before_sending(Cause::SessionLost), proven: false }
                }
                (_, Reply::Fault(fault)) if fault.is_outage() => Event::LinkLost(fault),
                (_, reply) => {
                    if matches!(reply, Reply::Result(_)) {
                        self.mark_proven(attempt);
                    }
                    Event::Restored
                }
            };
        self.schedule_session_event(attempt, event);
    }

    fn close(&mut self, attempt: Attempt, fault: &Fault) {
        assert_ne!(self.session.attempt(), attempt, "a closed link still counts");
        self.retire_link(attempt);
        self.keepalive.handle_disconnected();
        let link = self.links.get_mut(&attempt).expect("a link that was opened");
        link.pending_message = None;
        link.alive = false;
        self.last_session = link.session.filter(|_| link.transport == TransportKind::Http);
        self.drop_exchanges(attempt);
        if fault.cause == Cause::Closed {
            self.exchanges.clear();
        }
        self.fail_calls(fault);
        if self.rng.u8(..4) == 0 {
            let at = self.random_time(5_000);
            self.schedule(at, SimEvent::Stale(attempt));
        }
        // Now and then the server is replaced by one of another kind on the same transport (DE-09).
        if self.has_faults() && self.server.kind != ServerKind::HttpSseOnly && self.rng.u8(..10) == 0 {
            let piped = self.settings.transport == TransportKind::Pipe;
            let nature = ServerKind::random(&mut self.rng, piped);
            if nature != ServerKind::HttpSseOnly {
                self.server.kind = nature;
            }
        }
    }

    /// Stops calls from taking the link.
    pub(crate) fn retire_link(&mut self, attempt: Attempt) {
        if self.live_attempt == Some(attempt) {
            self.live_attempt = None;
        }
    }

    pub(crate) fn mark_proven(&mut self, attempt: Attempt) {
        self.links.get_mut(&attempt).expect("a link that was opened").proven = true;
    }
}

/// Limit for restoring a new session.
const RESTORE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
