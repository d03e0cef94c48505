//! [`Exchange`]: one request on its way to the server, with the fault that it meets, and its reply.

use std::time::Duration;

use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Exit, Fault, Misbehaviour};
use bowline_proto::keepalive::Probe;
use bowline_proto::session::{Attempt, Carrier, Event, Hello};
use fastrand::Rng;

use crate::oracle::Author;
use crate::server::{Nature, error, json};
use crate::world::{Happening, World};

pub(crate) struct Exchange {
    pub(crate) attempt: Attempt,
    pub(crate) who: Who,
    /// The session it names; for `initialize`, the one that it opens.
    session: Option<u64>,
    fate: Fate,
    /// Whether it reached the server.
    reached: bool,
    /// Whether the server accepted it, so that the reply comes on the event stream.
    taken: bool,
    /// The author of the reply.
    author: Author,
}

/// The kind of a request.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    Hello(Hello),
    /// A request that restores a new session.
    Restore,
    /// A probe of the keepalive.
    Probe(Probe),
    /// A probe of the session that refused a call.
    Ask {
        id: u64,
        caller: usize,
        probe: Probe,
    },
    Call {
        id: u64,
        caller: usize,
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
    fn roll(rng: &mut Rng, carrier: Carrier) -> Self {
        let ran = rng.bool();
        match (carrier, rng.u8(..8)) {
            (_, 0) => Self::Silent { ran },
            (_, 1) => Self::Unwritten,
            (Carrier::Http, 2) => Self::CutBefore,
            (Carrier::Http, 3) => Self::CutAfter,
            (Carrier::Http, 4) => Self::CutReply,
            (Carrier::Http, _) => {
                let retry_after = rng.bool().then(|| Duration::from_millis(rng.u64(1..5_000)));
                Self::Gateway { code: rng.u16(502..505), retry_after, ran }
            }
            (Carrier::Pipe | Carrier::EventStream, _) => Self::Dies { ran },
        }
    }
}

impl World {
    /// Sends a request over the link of `attempt`.
    pub(crate) fn post(&mut self, attempt: Attempt, who: Who, session: Option<u64>) -> u64 {
        let link = &self.links[&attempt];
        let carrier = link.carrier;
        let strikes = self.is_unkind() && self.rng.u8(..100) < self.malice;
        let fate = if strikes { Fate::roll(&mut self.rng, carrier) } else { Fate::Good };
        self.next += 1;
        let id = self.next;
        self.say(&(id, &who, session, fate));
        let (soon, later) = (self.soon(30), self.soon(60));
        self.exchanges.insert(
            id,
            Exchange { attempt, who, session, fate, reached: false, taken: false, author: Author::Server },
        );
        match fate {
            // The process does not read any more, and then exits.
            Fate::Unwritten if carrier == Carrier::Pipe => {
                self.tally.note("fault: died before the request was written");
                self.at(later, Happening::Die(attempt));
            }
            Fate::Unwritten => {
                self.tally.note("fault: cut before the request was written");
                let fault = Fault::before_sending(Cause::Cut);
                self.at(soon, Happening::Answer(id, Reply::Fault(fault)));
            }
            _ => self.at(soon, Happening::Arrive(id)),
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
        exchange.reached = true;
        let (attempt, fate, who) = (exchange.attempt, exchange.fate, exchange.who.clone());
        let carrier = self.links[&attempt].carrier;
        if self.server.down && carrier != Carrier::Pipe {
            let fault = self.nobody_there();
            let at = self.soon(5);
            return self.at(at, Happening::Answer(id, Reply::Fault(fault)));
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
                let end = Fault::protocol(Misbehaviour::NoAnswer);
                cut(if self.rng.bool() { Fault::new(Cause::Cut) } else { end })
            }
            Fate::Gateway { code, retry_after, ran } => {
                if ran {
                    self.serve(id, &who);
                }
                self.tally.note(if ran { "fault: 50x, run" } else { "fault: 50x, not run" });
                let body = if self.rng.bool() { "" } else { "<h1>Bad Gateway</h1>" };
                cut(Fault::new(Cause::Status { code, retry_after }).body(body.as_bytes()))
            }
            Fate::Silent { ran } => {
                if ran {
                    self.serve(id, &who);
                }
                self.tally.note(if ran { "fault: silence, run" } else { "fault: silence, not run" });
                self.take(id);
                None
            }
            Fate::Dies { ran } => {
                if ran {
                    self.serve(id, &who);
                }
                self.tally.note(if ran { "fault: died, run" } else { "fault: died, not run" });
                return self.die(attempt);
            }
            Fate::Unwritten => unreachable!("what was not written does not arrive"),
        };
        // The client did not see the server's own reply.
        if !matches!(fate, Fate::Good) {
            self.wrote(id, Author::Server);
        }
        let Some(reply) = reply else { return };
        let long = self.is_unkind() && matches!(who, Who::Call { .. }) && self.rng.u8(..12) == 0;
        let at = self.soon(if long { 12_000 } else { 400 });
        self.at(at, Happening::Answer(id, reply));
    }

    /// Lets the server handle a request. `None` if it does not reply.
    fn serve(&mut self, id: u64, who: &Who) -> Option<Reply> {
        let (attempt, named) =
            self.exchanges.get(&id).map(|exchange| (exchange.attempt, exchange.session))?;
        let carrier = self.links[&attempt].carrier;
        if self.server.nature == Nature::Dead {
            return None;
        }
        if self.server.wants_login && carrier == Carrier::Http {
            self.wrote(id, Author::Authentication);
            let login = Cause::LoginRequired { code: 401, challenge: vec!["Bearer".into()] };
            return Some(Reply::Fault(Fault::new(login).not_executed()));
        }
        if self.server.misplaced && carrier != Carrier::Pipe {
            self.tally.note("fault: not found where it was");
            self.wrote(id, Author::Elsewhere);
            let cause = Cause::Status { code: 404, retry_after: None };
            return Some(Reply::Fault(Fault::new(cause).body(b"404 page not found")));
        }
        if self.server.nature == Nature::Older && carrier == Carrier::Http {
            let code = [400, 404, 405][self.rng.usize(..3)];
            return Some(Reply::Fault(Fault::new(Cause::Status { code, retry_after: None })));
        }
        if let Some(wait) = self.server.limit(self.now)
            && carrier == Carrier::Http
        {
            self.tally.note("server: too many requests");
            self.wrote(id, Author::Limit);
            let cause = Cause::Status { code: 429, retry_after: Some(wait) };
            return Some(Reply::Fault(Fault::new(cause).body(b"slow down")));
        }
        if let Some(session) = named
            && !self.server.knows(self.now, session, &mut self.rng)
        {
            let is_ping = matches!(
                who,
                Who::Probe(Probe::Ping) | Who::Ask { probe: Probe::Ping, .. } | Who::Hello(Hello::Resume(_))
            );
            if self.server.answers_any_ping() && is_ping {
                self.tally.note("server: a ping on a session that was not known");
                return Some(Reply::Result(json("{}")));
            }
            self.tally.note("server: a session was not known");
            self.wrote(id, self.server.gate());
            return Some(self.server.unknown_session());
        }
        self.take(id);
        match who {
            Who::Hello(Hello::Discover(_))
                if self.server.nature == Nature::LegacyThatExits && carrier == Carrier::Pipe =>
            {
                self.tally.note("fault: died of the probe");
                self.die(attempt);
                None
            }
            Who::Hello(hello) => {
                let reply = self.server.nature.reply(*hello)?;
                if carrier == Carrier::Http
                    && matches!((hello, &reply), (Hello::Initialize(_), Reply::Result(_)))
                {
                    let session = self.server.open_session(self.now);
                    self.watch.session_opened(attempt);
                    if let Some(exchange) = self.exchanges.get_mut(&id) {
                        exchange.session = session;
                    }
                }
                Some(reply)
            }
            Who::Restore | Who::Probe(_) | Who::Ask { .. } => Some(Reply::Result(json("{}"))),
            // Now and then a tool with sessions of its own fails for one of them, before or after
            // its work. Sometimes the sessions of the server are lost at the same time.
            Who::Call { caller, .. } if self.is_unkind() && self.rng.u8(..20) == 0 => {
                self.tally.note("server: a decoy");
                self.wrote(id, Author::Tool);
                if self.rng.bool() {
                    self.server.run(*caller);
                    self.tally.note("server: a decoy after the work");
                }
                if self.rng.u8(..4) == 0 {
                    self.server.forget_all();
                }
                Some(decoy(&mut self.rng, carrier))
            }
            Who::Call { caller, .. } => {
                self.server.run(*caller);
                if self.server.sickly {
                    self.server.forget_all();
                }
                Some(Reply::Result(json("{}")))
            }
        }
    }

    fn wrote(&mut self, id: u64, author: Author) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.author = author;
        }
    }

    fn take(&mut self, id: u64) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.taken = true;
        }
    }

    /// Drops the pending exchanges of a link. Over HTTP a call ends by itself; so does a message
    /// posted for an event stream, until the server has accepted it.
    pub(crate) fn drop_exchanges(&mut self, attempt: Attempt) {
        let carrier = self.links[&attempt].carrier;
        self.exchanges.retain(|_, exchange| {
            let call = matches!(exchange.who, Who::Call { .. } | Who::Ask { .. });
            let own_end = match carrier {
                Carrier::Pipe => false,
                Carrier::Http => call,
                Carrier::EventStream => call && !exchange.taken,
            };
            exchange.attempt != attempt || own_end
        });
    }

    /// Delivers a reply, or what came in its place, to the client.
    pub(crate) fn answer(&mut self, id: u64, reply: Reply) {
        let Some(Exchange { attempt, who, session, author, .. }) = self.exchanges.remove(&id) else { return };
        match who {
            Who::Hello(hello) => {
                let link = self.links.get_mut(&attempt).expect("a link that was opened");
                // A late reply to an earlier message is not a reply to the next one.
                if link.hello == Some(id) {
                    if matches!(hello, Hello::Initialize(_)) {
                        link.session = session;
                    }
                    self.news(attempt, Event::Reply(reply));
                }
            }
            Who::Restore => self.restored(attempt, session, author, reply),
            Who::Probe(probe) => self.probed(attempt, probe, reply),
            Who::Ask { id, caller, probe } => {
                if self.calls.end(id).is_some() {
                    self.asked(caller, attempt, probe, author, reply);
                }
            }
            Who::Call { id, caller } => {
                if self.calls.end(id).is_some() {
                    match (&reply, author) {
                        (Reply::Result(_), _) => {}
                        (Reply::Fault(fault), Author::Server) => {
                            self.callers[caller].oracle.saw_fault(fault);
                        }
                        _ => {
                            let named = self.links[&attempt].session.is_some();
                            self.callers[caller].oracle.saw_refusal(author, named);
                        }
                    }
                    self.judge(caller, attempt, reply);
                }
            }
        }
    }

    /// Cuts a pending exchange.
    pub(crate) fn interrupt(&mut self, id: u64, fault: Fault) {
        self.wrote(id, Author::Server);
        self.answer(id, Reply::Fault(fault));
    }

    /// Ends the process or event stream of a link, and its pending exchanges.
    pub(crate) fn die(&mut self, attempt: Attempt) {
        let link = self.links.get_mut(&attempt).expect("a link that was opened");
        if !std::mem::take(&mut link.alive) {
            return;
        }
        let carrier = link.carrier;
        self.drop_exchanges(attempt);
        let fault = match (carrier, self.rng.u8(..3)) {
            (Carrier::Pipe, 0) => Fault::new(Cause::Exited(Exit::Code(1))),
            (Carrier::Pipe, 1) => Fault::new(Cause::Exited(Exit::Signal(9))),
            (Carrier::Pipe, _) => Fault::new(Cause::Exited(Exit::Eof)),
            _ => Fault::new(Cause::Cut),
        };
        self.news(attempt, Event::Lost(fault));
    }

    /// Crashes the server: its pending exchanges are cut, and all sessions are lost.
    pub(crate) fn crash(&mut self) {
        self.tally.note("fault: the server crashed");
        self.server.down = true;
        self.server.forget_all();
        let piped: Vec<_> =
            self.links.iter().filter(|(_, link)| link.alive).map(|(attempt, _)| *attempt).collect();
        for attempt in piped {
            self.die(attempt);
        }
        let cut: Vec<_> =
            self.exchanges.iter().filter(|(_, exchange)| exchange.reached).map(|(id, _)| *id).collect();
        for id in cut {
            let cause = if self.server.behind_gateway {
                Cause::Status { code: 502, retry_after: None }
            } else {
                Cause::Cut
            };
            self.at(self.now, Happening::Interrupt(id, Fault::new(cause)));
        }
    }

    pub(crate) fn nobody_there(&mut self) -> Fault {
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
fn decoy(rng: &mut Rng, carrier: Carrier) -> Reply {
    let words = ["Vendor session not found", "Session of the upstream API expired", "Session token expired"];
    let message = words[rng.usize(..3)];
    match rng.u8(..6) {
        0 if carrier == Carrier::Http => error(Some(400), -32000, message, false),
        1 if carrier == Carrier::Http => error(Some(404), -32603, message, false),
        2 if carrier == Carrier::Http => error(Some(500), -32603, message, false),
        3 if carrier == Carrier::Http => {
            let cause = Cause::Status { code: [400, 500, 503][rng.usize(..3)], retry_after: None };
            Reply::Fault(Fault::new(cause).body(message.as_bytes()))
        }
        _ => error(None, -32000, message, false),
    }
}
