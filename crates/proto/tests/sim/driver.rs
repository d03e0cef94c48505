//! Performs the session's actions, as the real driver does. It decides nothing.

use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Exit, Fault, Spawn};
use bowline_proto::keepalive::Probe;
use bowline_proto::loss::Verdict;
use bowline_proto::revision::Era;
use bowline_proto::session::{Action, Announcement, Attempt, Carrier, Event, Hello};
use bowline_proto::wire::method;

use crate::exchange::Who;
use crate::oracle::Author;
use crate::server::Nature;
use crate::world::{Happening, World};

/// A link, kept for the whole run because late events may name it.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one link")]
pub(crate) struct Link {
    pub(crate) carrier: Carrier,
    /// The session that its requests name.
    pub(crate) session: Option<u64>,
    /// Whether that session answered anything after the handshake.
    pub(crate) proven: bool,
    /// Whether its process or event stream is alive. Never for Streamable HTTP.
    pub(crate) alive: bool,
    /// The exchange of the negotiation message whose reply is awaited.
    pub(crate) hello: Option<u64>,
    pub(crate) modern: bool,
    /// Whether missing credentials were reported for it.
    pub(crate) challenged: bool,
    /// Whether its session is known to be lost.
    pub(crate) forgotten: bool,
    /// The replies to probes of its session, and their authors.
    pub(crate) probes: Vec<(Probe, Reply, Author)>,
}

impl World {
    /// Performs all actions of the session.
    pub(crate) fn act(&mut self) {
        while let Some(action) = self.session.poll_action() {
            self.say(&action);
            self.watch.acts(self.now, &action);
            match action {
                Action::Open(attempt, carrier) => self.open(attempt, carrier),
                Action::Send(attempt, hello) => self.send(attempt, hello),
                Action::Restore(attempt, peer) => {
                    let session = self.links[&attempt].session;
                    if peer.era() == Era::Legacy && self.rng.bool() {
                        self.post(attempt, Who::Restore, session);
                        // Restoring is bounded in time.
                        let limit = self.now + RESTORE;
                        self.at(limit, Happening::News(attempt, Event::Restored));
                    } else {
                        self.news(attempt, Event::Restored);
                    }
                }
                Action::Ready(attempt, peer) => {
                    self.tally.note(match peer.era() {
                        Era::Modern => "ready: modern",
                        Era::Legacy => "ready: legacy",
                    });
                    let carrier = self.links[&attempt].carrier;
                    self.tally.note(match carrier {
                        Carrier::Pipe => "ready: pipe",
                        Carrier::Http => "ready: http",
                        Carrier::EventStream => "ready: event stream",
                    });
                    if matches!(self.last_hello, Some(Hello::Resume(_))) {
                        self.tally.note("ready: the old session was still there");
                    }
                    self.links.get_mut(&attempt).expect("a link that was opened").modern =
                        peer.era() == Era::Modern;
                    self.live = Some(attempt);
                    self.alive.connected(self.now, attempt, &peer);
                    if self.is_unkind() && carrier != Carrier::Http && (self.server.sickly || self.rng.bool())
                    {
                        let at = self.soon(if self.server.sickly { 1_000 } else { 60_000 });
                        self.at(at, Happening::Die(attempt));
                    }
                    self.release_callers();
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
        self.look_at_status();
    }

    /// Schedules the result of a login, which may succeed, fail, or be useless.
    fn authorize(&mut self, attempt: Attempt, fault: Fault) {
        let at = self.soon(5_000);
        let event = match self.rng.u8(..8) {
            0 if self.is_unkind() => {
                self.tally.note("login: denied");
                Event::Denied(fault)
            }
            1 if self.is_unkind() => {
                self.tally.note("login: unavailable");
                Event::Denied(Fault::before_sending(Cause::LoginUnavailable))
            }
            2 if self.is_unkind() => {
                self.tally.note("login: in vain");
                Event::Authorized
            }
            _ => {
                self.tally.note("login: good");
                self.at(at, Happening::WantsLogin(false));
                Event::Authorized
            }
        };
        self.at(at, Happening::News(attempt, event));
    }

    fn open(&mut self, attempt: Attempt, carrier: Carrier) {
        let at = self.soon(100);
        let mut link = Link {
            carrier,
            session: None,
            proven: false,
            alive: false,
            hello: None,
            modern: false,
            challenged: false,
            forgotten: false,
            probes: Vec::new(),
        };
        let event = match carrier {
            Carrier::Pipe if self.server.down => {
                // The program may be missing while it is being replaced.
                let cause = if self.rng.u8(..10) == 0 {
                    Cause::Spawn(Spawn::NotFound)
                } else {
                    Cause::Exited(Exit::Code(1))
                };
                self.tally.note("fault: the process did not start");
                Event::Lost(Fault::before_sending(cause))
            }
            Carrier::EventStream if self.server.down => Event::Lost(self.nobody_there()),
            Carrier::EventStream if self.server.nature != Nature::Older || self.server.misplaced => {
                self.tally.note("fault: no older transport either");
                let status = Cause::Status { code: 405, retry_after: None };
                Event::Lost(Fault::new(status).not_executed())
            }
            Carrier::Pipe => {
                link.alive = true;
                Event::Opened { session: false }
            }
            Carrier::EventStream => {
                link.alive = true;
                link.session = self.server.open_session(self.now);
                Event::Opened { session: false }
            }
            // There is nothing to open, and requests can name the session of the link before.
            Carrier::Http => {
                link.session = self.named;
                Event::Opened { session: self.named.is_some() }
            }
        };
        self.links.insert(attempt, link);
        match event {
            Event::Opened { .. } if carrier == Carrier::Http => self.news(attempt, event),
            _ => self.at(at, Happening::News(attempt, event)),
        }
    }

    fn send(&mut self, attempt: Attempt, hello: Hello) {
        let link = self.links.get_mut(&attempt).expect("a link that was opened");
        let session = match (link.carrier, hello) {
            (Carrier::Http, Hello::Discover(_) | Hello::Initialize(_)) => {
                link.session = None;
                None
            }
            (Carrier::Http | Carrier::EventStream, _) => link.session,
            (Carrier::Pipe, _) => None,
        };
        if matches!(hello, Hello::Resume(_)) {
            assert!(session.is_some(), "asks on a session that cannot be named");
            self.tally.note("asked whether the old session is there");
        }
        self.last_hello = Some(hello);
        let id = self.post(attempt, Who::Hello(hello), session);
        // The link may have died at once.
        self.links.get_mut(&attempt).expect("a link that was opened").hello = Some(id);
    }

    /// Handles the reply to a request that restores a new session.
    pub(crate) fn restored(&mut self, attempt: Attempt, session: Option<u64>, author: Author, reply: Reply) {
        let event = match (reply.sign(method::SET_LEVEL, session.is_some(), self.credentials), reply) {
            // A real driver would probe a suspect session; here the author settles it.
            (verdict, _) if verdict == Verdict::Lost || author == Author::Gate => {
                self.tally.note("forgotten before the first call");
                Event::Forgotten { fault: Fault::before_sending(Cause::SessionLost), proven: false }
            }
            (_, Reply::Fault(fault)) if fault.is_outage() => Event::Lost(fault),
            (_, reply) => {
                if matches!(reply, Reply::Result(_)) {
                    self.prove(attempt);
                }
                Event::Restored
            }
        };
        self.news(attempt, event);
    }

    fn close(&mut self, attempt: Attempt, fault: &Fault) {
        assert_ne!(self.session.attempt(), attempt, "a closed link still counts");
        self.leave(attempt);
        self.alive.disconnected();
        let link = self.links.get_mut(&attempt).expect("a link that was opened");
        link.hello = None;
        link.alive = false;
        self.named = link.session.filter(|_| link.carrier == Carrier::Http);
        self.drop_exchanges(attempt);
        if fault.cause == Cause::Closed {
            self.exchanges.clear();
        }
        self.fail_calls(fault);
        if self.rng.u8(..4) == 0 {
            let at = self.soon(5_000);
            self.at(at, Happening::Stale(attempt));
        }
        // Now and then the server is replaced by one of another kind on the same transport (DE-09).
        if self.is_unkind() && self.server.nature != Nature::Older && self.rng.u8(..10) == 0 {
            let piped = self.settings.carrier == Carrier::Pipe;
            let nature = Nature::roll(&mut self.rng, piped);
            if nature != Nature::Older {
                self.server.nature = nature;
            }
        }
    }

    /// Stops calls from taking the link.
    pub(crate) fn leave(&mut self, attempt: Attempt) {
        if self.live == Some(attempt) {
            self.live = None;
        }
    }

    pub(crate) fn prove(&mut self, attempt: Attempt) {
        self.links.get_mut(&attempt).expect("a link that was opened").proven = true;
    }
}

/// Limit for restoring a new session.
const RESTORE: std::time::Duration = std::time::Duration::from_secs(10);
