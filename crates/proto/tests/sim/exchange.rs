//! [`Exchange`]: one request on its way to the server, with the fault that it meets, and its reply.

use std::time::Duration;

use bowline_proto::client::keepalive::Probe;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::{Attempt, Event, NegotiationMessage, TransportKind};
use bowline_proto::fault::{Cause, Exit, Fault, Misbehavior};
use bowline_proto::wire::code;
use fastrand::Rng;

use crate::caller::{PendingKind, RECONNECT_WAIT};
use crate::oracle::{Author, Refusal};
use crate::server::{ServerKind, error, json};
use crate::world::{SimEvent, World};

pub(crate) struct Exchange {
    pub(crate) attempt: Attempt,
    pub(crate) kind: RequestKind,
    /// The session it names; for `initialize`, the one that it opens.
    session: Option<u64>,
    fate: Fate,
    /// Whether it reached the server.
    reached_server: bool,
    /// Whether the server accepted it, so that the reply comes on the event stream.
    accepted: bool,
    /// The author of the reply.
    author: Author,
}

/// The kind of a request.
#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    Negotiation(NegotiationMessage),
    /// A request that restores a new session.
    Restore,
    /// A probe of the keepalive.
    Keepalive(Probe),
    /// The request of a caller, or one on its behalf.
    Call {
        id: u64,
        caller: usize,
        kind: PendingKind,
    },
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Good,
    /// Cut before anything was written.
    Unwritten,
    /// Cut after it was written, before the server acted.
    CutBefore,
    /// Cut after the server acted, before it answered.
    CutAfter,
    /// Cut in the middle of the answer.
    CutReply,
    /// A gateway in front of the server answers instead.
    Gateway {
        code: u16,
        retry_after: Option<Duration>,
        ran: bool,
    },
    /// No reply ever comes.
    Silent {
        ran: bool,
    },
    /// The process exits on it, or the event stream ends.
    Dies {
        ran: bool,
    },
}

impl Fate {
    fn roll(rng: &mut Rng, transport: TransportKind) -> Self {
        let ran = rng.bool();
        match (transport, rng.u8(..8)) {
            (_, 0) => Self::Silent { ran },
            (_, 1) => Self::Unwritten,
            (TransportKind::Http, 2) => Self::CutBefore,
            (TransportKind::Http, 3) => Self::CutAfter,
            (TransportKind::Http, 4) => Self::CutReply,
            (TransportKind::Http, _) => {
                let retry_after = rng.bool().then(|| Duration::from_millis(rng.u64(1..5_000)));
                Self::Gateway { code: rng.u16(502..505), retry_after, ran }
            }
            (TransportKind::Pipe | TransportKind::EventStream, _) => Self::Dies { ran },
        }
    }
}

impl World {
    /// Sends a request over the link of `attempt`.
    pub(crate) fn send_request(&mut self, attempt: Attempt, who: RequestKind, session: Option<u64>) -> u64 {
        let link = &self.links[&attempt];
        let transport = link.transport;
        let strikes = self.has_faults() && self.rng.u8(..100) < self.fault_percent;
        let fate = if strikes { Fate::roll(&mut self.rng, transport) } else { Fate::Good };
        self.next += 1;
        let id = self.next;
        self.trace(&(id, &who, session, fate));
        let (soon, later) = (self.random_time(30), self.random_time(60));
        self.exchanges.insert(
            id,
            Exchange {
                attempt,
                kind: who,
                session,
                fate,
                reached_server: false,
                accepted: false,
                author: Author::Server,
            },
        );
        match fate {
            // The process does not read any more, and then exits.
            Fate::Unwritten if transport == TransportKind::Pipe => {
                self.tally.note("fault: died before the request was written");
                self.schedule(later, SimEvent::Die(attempt));
            }
            Fate::Unwritten => {
                self.tally.note("fault: cut before the request was written");
                let fault = Fault::before_sending(Cause::Cut);
                self.schedule(soon, SimEvent::Reply(id, Reply::Fault(fault)));
            }
            _ => self.schedule(soon, SimEvent::Arrive(id)),
        }
        id
    }

    /// Whether the request was written, as far as its sender can know.
    pub(crate) fn is_written(&self, exchange: u64) -> bool {
        !matches!(self.exchanges.get(&exchange), Some(Exchange { fate: Fate::Unwritten, .. }))
    }

    /// Handles the arrival of a request at the server, or where the server should be.
    pub(crate) fn arrive(&mut self, id: u64) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        exchange.reached_server = true;
        let (attempt, fate, who) = (exchange.attempt, exchange.fate, exchange.kind.clone());
        let transport = self.links[&attempt].transport;
        if self.server.down && transport != TransportKind::Pipe {
            let fault = self.unreachable_fault();
            let at = self.random_time(5);
            return self.schedule(at, SimEvent::Reply(id, Reply::Fault(fault)));
        }
        let cut = |fault| Some(Reply::Fault(fault));
        let reply = match fate {
            Fate::Good => self.serve(id, &who),
            Fate::CutBefore => {
                self.tally.note("fault: cut before the request was run");
                cut(Fault::new(Cause::Cut))
            }
            Fate::CutAfter => {
                self.tally.note("fault: cut after the request was run");
                self.serve(id, &who);
                cut(Fault::new(Cause::Cut))
            }
            Fate::CutReply => {
                self.tally.note("fault: cut in the middle of the reply");
                self.serve(id, &who);
                let end = Fault::protocol(Misbehavior::NoAnswer);
                cut(if self.rng.bool() { Fault::new(Cause::Cut) } else { end })
            }
            Fate::Gateway { code, retry_after, ran } => {
                if ran {
                    self.serve(id, &who);
                }
                self.tally.note(if ran { "fault: 50x, run" } else { "fault: 50x, not run" });
                let body = if self.rng.bool() { "" } else { "<h1>Bad Gateway</h1>" };
                cut(Fault::new(Cause::Status { code, retry_after }).with_body(body.as_bytes()))
            }
            Fate::Silent { ran } => {
                if ran {
                    self.serve(id, &who);
                }
                self.tally.note(if ran { "fault: silence, run" } else { "fault: silence, not run" });
                self.mark_accepted(id);
                None
            }
            Fate::Dies { ran } => {
                if ran {
                    self.serve(id, &who);
                }
                self.tally.note(if ran { "fault: died, run" } else { "fault: died, not run" });
                return self.kill_link(attempt);
            }
            Fate::Unwritten => unreachable!("what was not written does not arrive"),
        };
        // The client did not see the server's own reply.
        if !matches!(fate, Fate::Good) {
            self.set_author(id, Author::Server);
        }
        let Some(reply) = reply else { return };
        let long = self.has_faults()
            && matches!(who, RequestKind::Call { kind: PendingKind::Call, .. })
            && self.rng.u8(..12) == 0;
        let at = self.random_time(if long { 12_000 } else { 400 });
        self.schedule(at, SimEvent::Reply(id, reply));
    }

    /// Lets the server handle a request. `None` if it does not reply.
    fn serve(&mut self, id: u64, who: &RequestKind) -> Option<Reply> {
        let (attempt, named) =
            self.exchanges.get(&id).map(|exchange| (exchange.attempt, exchange.session))?;
        let transport = self.links[&attempt].transport;
        if self.server.kind == ServerKind::Dead {
            return None;
        }
        if self.server.wants_login && transport == TransportKind::Http {
            self.set_author(id, Author::Authentication);
            let login = Cause::LoginRequired { code: 401, challenge: vec!["Bearer".into()] };
            return Some(Reply::Fault(Fault::new(login).not_executed()));
        }
        if self.server.misplaced && transport != TransportKind::Pipe {
            self.tally.note("fault: not found where it was");
            self.set_author(id, Author::Elsewhere);
            let cause = Cause::Status { code: 404, retry_after: None };
            return Some(Reply::Fault(Fault::new(cause).with_body(b"404 page not found")));
        }
        if self.server.kind == ServerKind::HttpSseOnly && transport == TransportKind::Http {
            let code = [400, 404, 405][self.rng.usize(..3)];
            return Some(Reply::Fault(Fault::new(Cause::Status { code, retry_after: None })));
        }
        if let Some(wait) = self.server.limit(self.now)
            && transport == TransportKind::Http
        {
            self.tally.note("server: too many requests");
            self.set_author(id, Author::Limit);
            let cause = Cause::Status { code: 429, retry_after: Some(wait) };
            return Some(Reply::Fault(Fault::new(cause).with_body(b"slow down")));
        }
        if transport == TransportKind::Http
            && matches!(who, RequestKind::Negotiation(NegotiationMessage::Initialize(_)))
            && let Some(refusal) = self.server.handshake_refusal(&mut self.rng)
        {
            self.tally.note("server: initialized already");
            return Some(refusal);
        }
        if let Some(session) = named
            && !self.server.touch_session(self.now, session, &mut self.rng)
        {
            let is_ping = matches!(
                who,
                RequestKind::Keepalive(Probe::Ping)
                    | RequestKind::Call { kind: PendingKind::Probe(Probe::Ping), .. }
                    | RequestKind::Negotiation(NegotiationMessage::Resume(_))
            );
            if self.server.answers_any_ping() && is_ping {
                self.tally.note("server: a ping on a session that was not known");
                return Some(Reply::Result(json("{}")));
            }
            self.tally.note("server: a session was not known");
            self.set_author(id, self.server.session_check_author());
            return Some(self.server.unknown_session_reply());
        }
        self.mark_accepted(id);
        match who {
            RequestKind::Negotiation(NegotiationMessage::Discover(_))
                if self.server.kind == ServerKind::LegacyExits && transport == TransportKind::Pipe =>
            {
                self.tally.note("fault: died of the probe");
                self.kill_link(attempt);
                None
            }
            RequestKind::Negotiation(hello) => {
                let reply = self.server.kind.reply(*hello)?;
                if transport == TransportKind::Http
                    && matches!((hello, &reply), (NegotiationMessage::Initialize(_), Reply::Result(_)))
                {
                    let session = self.server.open_session(self.now);
                    self.invariants.record_session(attempt);
                    if let Some(exchange) = self.exchanges.get_mut(&id) {
                        exchange.session = session;
                    }
                }
                Some(reply)
            }
            RequestKind::Call { caller, kind: PendingKind::Call, .. } => {
                Some(self.execute(id, *caller, attempt))
            }
            RequestKind::Restore | RequestKind::Keepalive(_) | RequestKind::Call { .. } => {
                Some(Reply::Result(json("{}")))
            }
        }
    }

    /// Lets the server execute the request of a caller.
    fn execute(&mut self, id: u64, caller: usize, attempt: Attempt) -> Reply {
        let request = self.callers[caller].request;
        let (transport, modern) = (self.links[&attempt].transport, self.links[&attempt].modern);
        let http = transport == TransportKind::Http;
        let checks = http && modern && request.is_tool_call();
        if checks && self.server.finds_headers_wrong(self.known_annotations) {
            self.tally.note("server: the headers disagreed");
            self.set_author(id, Author::HeaderCheck);
            return error(Some(400), code::HEADER_MISMATCH, "Header mismatch", false);
        }
        let fails = self.has_faults() && self.rng.u8(..20) == 0;
        if fails && request.harmless && !request.is_tool_call() {
            self.tally.note("server: an error about what was requested");
            self.server.record_run(caller);
            return own_error(&mut self.rng, http);
        }
        // Now and then a tool with sessions of its own fails for one of them, before or after its
        // work. Sometimes the sessions of the server are lost at the same time.
        if fails {
            self.tally.note("server: a decoy");
            self.set_author(id, Author::Tool);
            if self.rng.bool() {
                self.server.record_run(caller);
                self.tally.note("server: a decoy after the work");
            }
            if self.rng.u8(..4) == 0 {
                self.server.drop_sessions();
            }
            return decoy(&mut self.rng, http, modern);
        }
        self.server.record_run(caller);
        if self.server.fragile {
            self.server.drop_sessions();
        }
        Reply::Result(json("{}"))
    }

    fn set_author(&mut self, id: u64, author: Author) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.author = author;
        }
    }

    fn mark_accepted(&mut self, id: u64) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.accepted = true;
        }
    }

    /// Drops the pending exchanges of a link. Over HTTP a call ends by itself; so does a message
    /// posted for an event stream, until the server has accepted it.
    pub(crate) fn drop_exchanges(&mut self, attempt: Attempt) {
        let transport = self.links[&attempt].transport;
        self.exchanges.retain(|_, exchange| {
            let call = matches!(exchange.kind, RequestKind::Call { .. });
            let own_end = match transport {
                TransportKind::Pipe => false,
                TransportKind::Http => call,
                TransportKind::EventStream => call && !exchange.accepted,
            };
            exchange.attempt != attempt || own_end
        });
    }

    /// Delivers a reply, or what came in its place, to the client.
    pub(crate) fn deliver_reply(&mut self, id: u64, reply: Reply) {
        let Some(Exchange { attempt, kind: who, session, author, .. }) = self.exchanges.remove(&id) else {
            return;
        };
        match who {
            RequestKind::Negotiation(hello) => {
                let link = self.links.get_mut(&attempt).expect("a link that was opened");
                // A late reply to an earlier message is not a reply to the next one.
                if link.pending_message == Some(id) {
                    if matches!(hello, NegotiationMessage::Initialize(_)) {
                        link.session = session;
                    }
                    self.schedule_session_event(attempt, Event::Reply(reply));
                }
            }
            RequestKind::Restore => self.handle_restore_reply(attempt, session, author, reply),
            RequestKind::Keepalive(probe) => self.handle_keepalive_reply(attempt, probe, reply),
            RequestKind::Call { id, caller, kind } => {
                if self.calls.end(id).is_none() {
                    return;
                }
                match kind {
                    PendingKind::Call => {
                        self.record_reply(caller, attempt, author, &reply);
                        self.handle_call_reply(caller, attempt, reply);
                    }
                    PendingKind::Probe(probe) => {
                        self.handle_probe_reply(caller, attempt, probe, author, reply);
                    }
                    PendingKind::Listing(listing) => {
                        self.handle_listing_reply(caller, attempt, listing, &reply);
                    }
                }
            }
        }
    }

    /// Tells the oracle of a call what the client sees of the reply.
    fn record_reply(&mut self, caller: usize, attempt: Attempt, author: Author, reply: &Reply) {
        let call = &mut self.callers[caller];
        match (reply, author) {
            (Reply::Result(_), _) => {}
            (Reply::Fault(fault), Author::Server) => call.oracle.record_fault(fault),
            _ => {
                let wait = match reply {
                    Reply::Fault(Fault { cause: Cause::Status { retry_after, .. }, .. }) => *retry_after,
                    _ => None,
                };
                call.oracle.record_refusal(Refusal {
                    author,
                    reply: reply.clone(),
                    names_session: self.links[&attempt].session.is_some(),
                    is_plain: match author {
                        Author::SessionCheck => self.server.speaks_plainly(),
                        Author::NotFound | Author::Elsewhere => true,
                        _ => false,
                    },
                    list: self.server.list,
                    leaves_time: wait.is_some_and(|wait| {
                        wait <= RECONNECT_WAIT && self.now + wait < call.retry.deadline()
                    }),
                });
            }
        }
    }

    /// Cuts a pending exchange.
    pub(crate) fn interrupt(&mut self, id: u64, fault: Fault) {
        self.set_author(id, Author::Server);
        self.deliver_reply(id, Reply::Fault(fault));
    }

    /// Ends the process or event stream of a link, and its pending exchanges.
    pub(crate) fn kill_link(&mut self, attempt: Attempt) {
        let link = self.links.get_mut(&attempt).expect("a link that was opened");
        if !std::mem::take(&mut link.alive) {
            return;
        }
        let transport = link.transport;
        self.drop_exchanges(attempt);
        let fault = match (transport, self.rng.u8(..3)) {
            (TransportKind::Pipe, 0) => Fault::new(Cause::Exited(Exit::Code(1))),
            (TransportKind::Pipe, 1) => Fault::new(Cause::Exited(Exit::Signal(9))),
            (TransportKind::Pipe, _) => Fault::new(Cause::Exited(Exit::Eof)),
            _ => Fault::new(Cause::Cut),
        };
        self.schedule_session_event(attempt, Event::LinkLost(fault));
    }

    /// Crashes the server: its pending exchanges are cut, and all sessions are lost.
    pub(crate) fn crash_server(&mut self) {
        self.tally.note("fault: the server crashed");
        self.server.down = true;
        self.server.drop_sessions();
        let piped: Vec<_> =
            self.links.iter().filter(|(_, link)| link.alive).map(|(attempt, _)| *attempt).collect();
        for attempt in piped {
            self.kill_link(attempt);
        }
        let cut: Vec<_> = self
            .exchanges
            .iter()
            .filter(|(_, exchange)| exchange.reached_server)
            .map(|(id, _)| *id)
            .collect();
        for id in cut {
            let cause = if self.server.behind_gateway {
                Cause::Status { code: 502, retry_after: None }
            } else {
                Cause::Cut
            };
            self.schedule(self.now, SimEvent::Interrupt(id, Fault::new(cause)));
        }
    }

    pub(crate) fn unreachable_fault(&mut self) -> Fault {
        if self.server.behind_gateway {
            self.tally.note("fault: 50x while down");
            return Fault::new(Cause::Status { code: self.rng.u16(502..505), retry_after: None });
        }
        self.tally.note("fault: refused");
        let causes = [Cause::Refused, Cause::Dns, Cause::Unreachable, Cause::Tls];
        Fault::before_sending(causes[self.rng.usize(..4)].clone())
    }
}

/// An error of a tool about a session of its own. It never equals the server's own session errors.
fn decoy(rng: &mut Rng, http: bool, modern: bool) -> Reply {
    let words = ["Vendor session not found", "Session of the upstream API expired", "Session token expired"];
    let message = words[rng.usize(..3)];
    match rng.u8(..7) {
        0 if http => error(Some(400), -32000, message, false),
        1 if http => error(Some(404), -32603, message, false),
        2 if http => error(Some(500), -32603, message, false),
        3 if http => {
            let cause = Cause::Status { code: [400, 500, 503][rng.usize(..3)], retry_after: None };
            Reply::Fault(Fault::new(cause).with_body(message.as_bytes()))
        }
        // Reserved by 2026-07-28; to a tool behind an older session, or on a pipe, it is a number
        // like any other.
        4 if !(http && modern) => error(None, code::HEADER_MISMATCH, message, false),
        _ => error(None, -32000, message, false),
    }
}

/// The error of a server that does not know what a list, a reading method or a request about a
/// task names.
fn own_error(rng: &mut Rng, http: bool) -> Reply {
    match rng.u8(..6) {
        0 if http => error(Some(404), -32602, "Unknown resource: file:///a", false),
        1 if http => error(Some(404), -32603, "Resource not found", false),
        2 if http => error(Some(400), -32602, "Invalid cursor", false),
        3 => error(None, -32002, "Resource not found", false),
        4 => error(None, -32602, "Task not found", false),
        _ => error(None, -32601, "Method not found", false),
    }
}
