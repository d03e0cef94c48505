//! The world: a clock, a session, calls, a peer, and the invariants.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bowline_proto::calls::{Calls, Due, Limits};
use bowline_proto::era::{Link, Reply};
use bowline_proto::fault::Cause;
use bowline_proto::revision::Era;
use bowline_proto::session::{Action, Attempt, Command, Event, Session, Settings, Status};
use fastrand::Rng;

use crate::peer::{Kind, any_fault};

/// How long a life lasts on the virtual clock.
const LIFE_MS: u64 = 300_000;
const LIFE: Duration = Duration::from_millis(LIFE_MS);
/// Towards the end the world is kind, to see whether everything heals.
const KIND_FROM: Duration = Duration::from_secs(200);
const LIMITS: Limits = Limits { idle: Duration::from_secs(8), total: Duration::from_secs(20) };

/// How often things happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) opens: u64,
    pub(crate) readies: u64,
    pub(crate) modern: u64,
    pub(crate) legacy: u64,
    pub(crate) losses: u64,
    pub(crate) restarts: u64,
    pub(crate) stale: u64,
    pub(crate) answered: u64,
    pub(crate) expired: u64,
    pub(crate) abandoned: u64,
    pub(crate) failed: u64,
}

pub(crate) struct World {
    rng: Rng,
    start: Instant,
    now: Instant,
    session: Session,
    settings: Settings,
    calls: Calls<u64>,
    /// Every call ever begun, and how it ended.
    outcomes: HashMap<u64, Option<&'static str>>,
    kind: Kind,
    /// What will happen, in order.
    future: BTreeMap<(Instant, u64), Happening>,
    next: u64,
    open: BTreeSet<Attempt>,
    closed: BTreeSet<Attempt>,
    tally: Tally,
}

enum Happening {
    Link(Attempt, Event),
    Answer(u64),
    Progress(u64),
    Abandon(u64),
    NewCall,
    Stale(Attempt),
    /// Somebody wants a connection.
    Demand,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        // One fixed moment, so that a life is the same in every run but for its offset.
        let start = Instant::now();
        let link = if rng.bool() { Link::Pipe } else { Link::Http };
        let settings = Settings { link, seed, ..Settings::default() };
        Self {
            kind: Kind::roll(&mut rng),
            rng,
            start,
            now: start,
            session: Session::new(settings.clone()),
            settings,
            calls: Calls::default(),
            outcomes: HashMap::new(),
            future: BTreeMap::new(),
            next: 0,
            open: BTreeSet::new(),
            closed: BTreeSet::new(),
            tally: Tally::default(),
        }
    }

    pub(crate) fn live(mut self) -> Tally {
        self.session.handle_command(self.now, Command::Connect);
        for _ in 0..40 {
            let at = self.rng.u64(..LIFE_MS);
            self.at(self.start + Duration::from_millis(at), Happening::NewCall);
            let at = self.rng.u64(..LIFE_MS);
            self.at(self.start + Duration::from_millis(at), Happening::Demand);
        }
        let mut steps = 0;
        while self.now < self.start + LIFE {
            self.act();
            self.check();
            self.step();
            steps += 1;
            assert!(steps < 20_000, "livelock");
        }
        self.end()
    }

    /// Jumps to whatever comes next: a happening, the session's timer, or a call's.
    fn step(&mut self) {
        let due =
            [self.session.poll_timeout(), self.calls.poll_timeout(self.now)].into_iter().flatten().min();
        let next = self.future.keys().next().map(|(at, _)| *at);
        let until = [due, next, Some(self.start + LIFE)].into_iter().flatten().min().unwrap();
        self.now = self.now.max(until);
        let ids: Vec<_> = self.calls.ids().collect();
        for id in ids {
            if let Due::Expired(serial, _) = self.calls.due(self.now, id) {
                self.finish(serial, "expired");
            }
        }
        self.session.handle_timeout(self.now);
        self.act();
        self.check();
        while let Some(entry) = self.future.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let happening = entry.remove();
            self.happen(happening);
            self.act();
            self.check();
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Link(attempt, event) => {
                let ready = matches!(self.session.status(), Status::Ready(_));
                if ready && attempt == self.session.attempt() && matches!(event, Event::Lost(_)) {
                    self.tally.losses += 1;
                }
                self.session.handle_event(self.now, attempt, event);
            }
            // No act of a dead attempt: whatever it says changes nothing.
            Happening::Stale(attempt) => {
                if attempt == self.session.attempt() {
                    return;
                }
                self.tally.stale += 1;
                let before = format!("{:?}", self.session.status());
                for event in
                    [Event::Opened, Event::Reply(Reply::Accepted), Event::Lost(any_fault(&mut self.rng))]
                {
                    self.session.handle_event(self.now, attempt, event);
                    assert!(self.session.poll_action().is_none());
                }
                assert_eq!(before, format!("{:?}", self.session.status()));
            }
            Happening::Demand => self.session.handle_command(self.now, Command::Connect),
            Happening::NewCall => self.begin_call(),
            Happening::Progress(id) => {
                self.calls.heard(self.now, id);
            }
            Happening::Answer(id) => {
                if let Some(serial) = self.calls.end(id) {
                    self.finish(serial, "answered");
                }
            }
            Happening::Abandon(id) => {
                if let Some(serial) = self.calls.end(id) {
                    self.finish(serial, "abandoned");
                }
            }
        }
    }

    fn begin_call(&mut self) {
        if !matches!(self.session.status(), Status::Ready(_)) {
            return;
        }
        for _ in 0..self.rng.u8(1..6) {
            let serial = self.outcomes.len() as u64;
            self.outcomes.insert(serial, None);
            let id = self.calls.begin(self.now, LIMITS, serial);
            for _ in 0..self.rng.u8(..4) {
                let at = self.soon(15_000);
                self.at(at, Happening::Progress(id));
            }
            let at = self.soon(25_000);
            match self.rng.u8(..10) {
                // The server may answer twice, and the caller may leave in the same moment.
                0..7 => {
                    self.at(at, Happening::Answer(id));
                    self.at(at, Happening::Answer(id));
                }
                7..9 => self.at(at, Happening::Abandon(id)),
                _ => {}
            }
        }
    }

    /// Does what the session says, the way a driver would.
    fn act(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Open(attempt) => self.open(attempt),
                Action::Send(attempt, hello) => {
                    assert!(self.open.contains(&attempt), "sent on a link that is not open");
                    let at = self.soon(400);
                    if self.is_unkind() && self.rng.u8(..10) == 0 {
                        let fault = any_fault(&mut self.rng);
                        self.at(at, Happening::Link(attempt, Event::Lost(fault)));
                    } else if let Some(reply) = self.kind.reply(hello) {
                        if matches!(&reply, Reply::Fault(fault) if matches!(fault.cause, Cause::Exited(_))) {
                            self.tally.restarts += 1;
                        }
                        self.at(at, Happening::Link(attempt, Event::Reply(reply)));
                    }
                }
                Action::Ready(attempt, peer) => {
                    assert!(self.open.contains(&attempt), "ready on a link that is not open");
                    self.tally.readies += 1;
                    match peer.era() {
                        Era::Modern => self.tally.modern += 1,
                        Era::Legacy => self.tally.legacy += 1,
                    }
                    if self.is_unkind() {
                        let at = self.soon(90_000);
                        let fault = any_fault(&mut self.rng);
                        self.at(at, Happening::Link(attempt, Event::Lost(fault)));
                    }
                }
                Action::Close(attempt, _) => {
                    self.open.remove(&attempt);
                    assert!(self.closed.insert(attempt), "closed twice");
                    let ended: Vec<_> = self.calls.end_all().collect();
                    for (_, serial) in ended {
                        self.finish(serial, "failed");
                    }
                    let at = self.soon(5_000);
                    self.at(at, Happening::Stale(attempt));
                    // Now and then the server is replaced by one of another kind (DE-09).
                    if self.is_unkind() && self.rng.u8(..8) == 0 {
                        self.kind = Kind::roll(&mut self.rng);
                    }
                }
            }
        }
    }

    fn open(&mut self, attempt: Attempt) {
        self.tally.opens += 1;
        assert!(self.open.is_empty(), "two links at once");
        assert!(!self.closed.contains(&attempt), "an attempt was used twice");
        self.open.insert(attempt);
        let at = self.soon(200);
        let event = if self.is_unkind() && self.rng.u8(..5) == 0 {
            Event::Lost(any_fault(&mut self.rng))
        } else {
            Event::Opened
        };
        self.at(at, Happening::Link(attempt, event));
    }

    /// What must be true at every moment.
    fn check(&self) {
        let waiting = matches!(self.session.status(), Status::Connecting | Status::BackingOff { .. });
        assert_eq!(waiting, self.session.poll_timeout().is_some(), "a waiting phase without a deadline");
        if let Some(due) = self.session.poll_timeout() {
            let longest = self.settings.connect.max(self.settings.backoff_cap) + Duration::from_secs(5);
            assert!(due <= self.now + longest, "a deadline beyond every limit");
        }
        // Calls exist only on a link, and each has a deadline.
        assert!(self.calls.is_empty() || matches!(self.session.status(), Status::Ready(_)));
        // No storm: the floor holds between attempts, whatever the demand. (A restart after a probe and the
        // first attempt come on top.)
        let lived = self.now.duration_since(self.start);
        let most = lived.as_millis() / self.settings.backoff_floor.as_millis() + 2;
        assert!(u128::from(self.tally.opens) <= 2 * most, "{} attempts in {lived:?}", self.tally.opens);
    }

    fn end(mut self) -> Tally {
        // The world was kind for longer than the longest wait and the longest attempt together, so whoever
        // can be spoken to is connected. (What failed for good needs a new demand, which may not have come.)
        let gave_up = matches!(self.session.status(), Status::Failed(_));
        if !matches!(self.kind, Kind::Dead) && !gave_up {
            assert!(
                matches!(self.session.status(), Status::Ready(_)),
                "stuck in {:?}",
                self.session.status()
            );
        }
        self.session.handle_command(self.now, Command::Close);
        self.act();
        assert_eq!(self.session.status(), Status::Closed);
        assert!(self.open.is_empty(), "a link was left open");
        for (serial, outcome) in &self.outcomes {
            assert!(outcome.is_some(), "call {serial} never ended");
        }
        self.tally
    }

    /// Each call has exactly one outcome.
    fn finish(&mut self, serial: u64, outcome: &'static str) {
        let slot = self.outcomes.get_mut(&serial).expect("a call that was begun");
        assert_eq!(*slot, None, "call {serial} ended twice");
        *slot = Some(outcome);
        *match outcome {
            "answered" => &mut self.tally.answered,
            "expired" => &mut self.tally.expired,
            "abandoned" => &mut self.tally.abandoned,
            _ => &mut self.tally.failed,
        } += 1;
    }

    fn is_unkind(&self) -> bool {
        self.now < self.start + KIND_FROM
    }

    fn soon(&mut self, within_ms: u64) -> Instant {
        self.now + Duration::from_millis(self.rng.u64(1..within_ms))
    }

    fn at(&mut self, at: Instant, happening: Happening) {
        self.next += 1;
        self.future.insert((at, self.next), happening);
    }
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            opens,
            readies,
            modern,
            legacy,
            losses,
            restarts,
            stale,
            answered,
            expired,
            abandoned,
            failed,
        } = other;
        self.opens += opens;
        self.readies += readies;
        self.modern += modern;
        self.legacy += legacy;
        self.losses += losses;
        self.restarts += restarts;
        self.stale += stale;
        self.answered += answered;
        self.expired += expired;
        self.abandoned += abandoned;
        self.failed += failed;
    }
}
