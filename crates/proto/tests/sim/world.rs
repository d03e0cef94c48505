//! [`World`]: the virtual clock, the queue of events, and all parts of one simulation run.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem::Discriminant;
use std::time::{Duration, Instant};

use bowline_proto::calls::Calls;
use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::Revision;
use bowline_proto::session::{Attempt, Carrier, Command, Event, Finding, Hello, Session, Settings, Status};
use fastrand::Rng;

use crate::alive::Alive;
use crate::caller::{Caller, Flight};
use crate::driver::Link;
use crate::exchange::Exchange;
use crate::server::{Affinity, Nature, Server};
use crate::tally::Tally;
use crate::watch::Watch;

/// Time at which the faults end, to see whether everything recovers.
const KIND_FROM: Duration = Duration::from_millis(KIND_FROM_MS);
const KIND_FROM_MS: u64 = 120_000;
/// Length of a run on the virtual clock.
const LIFE: Duration = Duration::from_millis(LIFE_MS);
const LIFE_MS: u64 = KIND_FROM_MS + 140_000;
/// Limit for the recovery: an attempt that meets only silence, the longest wait, and an attempt
/// that succeeds.
const HEALING: Duration = Duration::from_secs(30 + 60 + 5);

pub(crate) struct World {
    pub(crate) rng: Rng,
    start: Instant,
    pub(crate) now: Instant,
    /// Time at which the faults end.
    pub(crate) kind_from: Instant,
    pub(crate) session: Session,
    pub(crate) settings: Settings,
    pub(crate) server: Server,
    /// Percentage of requests that meet a fault.
    pub(crate) malice: u8,
    pub(crate) credentials: bool,
    /// Whether the latency of the server is low.
    quick: bool,
    pub(crate) links: BTreeMap<Attempt, Link>,
    /// The link that calls may take.
    pub(crate) live: Option<Attempt>,
    /// The session id of the last link, as the client knows it.
    pub(crate) named: Option<u64>,
    pub(crate) last_hello: Option<Hello>,
    pub(crate) alive: Alive,
    pub(crate) exchanges: BTreeMap<u64, Exchange>,
    pub(crate) calls: Calls<Flight>,
    pub(crate) callers: Vec<Caller>,
    /// Callers that wait for a link.
    pub(crate) waiting: Vec<usize>,
    /// The last status that those callers have seen.
    pub(crate) seen: Option<(Attempt, Discriminant<Status>)>,
    future: BTreeMap<(Instant, u64), Happening>,
    pub(crate) next: u64,
    pub(crate) watch: Watch,
    pub(crate) tally: Tally,
    /// Total time that the clock skipped.
    pub(crate) stopped: Duration,
    /// Whether each step is printed.
    told: bool,
}

#[derive(Debug)]
pub(crate) enum Happening {
    /// An event reaches the session.
    News(Attempt, Event),
    /// A request reaches the server.
    Arrive(u64),
    /// A reply reaches the client.
    Answer(u64, Reply),
    /// A request is cut off.
    Interrupt(u64, Fault),
    /// This number of calls begin.
    Calls(usize),
    Progress(u64),
    Leave(usize),
    StopWaiting(usize),
    /// The pause with this number ends.
    PauseOver(usize, u64),
    /// The login that a call waited for ends.
    CallerEntered(usize, u64, Result<(), Fault>),
    /// The machine is suspended, or its clock steps.
    ClockSteps(Duration),
    /// The server refuses requests for this long.
    Limit(Duration),
    /// A process exits, or an event stream ends.
    Die(Attempt),
    Crash,
    Return,
    Forget,
    WantsLogin(bool),
    Misplaced(bool),
    Wake,
    /// Late events of a dead link arrive.
    Stale(Attempt),
    /// The faults end.
    TurnsKind,
    /// The connection must have recovered by now.
    MustBeWell,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let carrier = if rng.u8(..4) == 0 { Carrier::Pipe } else { Carrier::Http };
        let mut world = Self::empty(seed, rng, carrier);
        world.plan();
        world
    }

    /// Creates a run without faults: a server that collects idle sessions, a client with or without
    /// keepalive, and a few calls.
    pub(crate) fn calm(idle: Duration, keepalive: Option<Duration>) -> Self {
        let mut world = Self::empty(0, Rng::with_seed(0), Carrier::Http);
        world.server.calm_down(idle);
        world.malice = 0;
        world.alive = Alive::new(keepalive);
        world.kind_from = world.start;
        for n in 1..5 {
            world.at(world.start + n * Duration::from_secs(50), Happening::Calls(3));
        }
        world
    }

    /// Creates a run without any events.
    fn empty(seed: u64, mut rng: Rng, carrier: Carrier) -> Self {
        let start = Instant::now();
        let authorizes = rng.bool();
        let recorded = recorded(seed, carrier);
        let settings =
            Settings { carrier, fallback: true, recorded, authorizes, seed, ..Settings::default() };
        Self {
            server: Server::roll(&mut rng, carrier == Carrier::Pipe),
            malice: [0, 3, 10, 30][rng.usize(..4)],
            credentials: rng.bool(),
            quick: false,
            alive: Alive::new([None, Some(5), Some(20), Some(180)][rng.usize(..4)].map(Duration::from_secs)),
            rng,
            start,
            now: start,
            kind_from: start + KIND_FROM,
            session: Session::new(settings.clone()),
            settings,
            links: BTreeMap::new(),
            live: None,
            named: None,
            last_hello: None,
            exchanges: BTreeMap::new(),
            calls: Calls::default(),
            callers: Vec::new(),
            waiting: Vec::new(),
            seen: None,
            future: BTreeMap::new(),
            next: 0,
            watch: Watch::default(),
            tally: Tally::default(),
            stopped: Duration::ZERO,
            told: false,
        }
    }

    /// Schedules the events that do not depend on the client.
    fn plan(&mut self) {
        let unkind = |rng: &mut Rng| Duration::from_millis(rng.u64(..KIND_FROM_MS));
        for _ in 0..self.rng.u8(3..25) {
            let at = Duration::from_millis(self.rng.u64(..LIFE_MS - 20_000));
            self.at(self.start + at, Happening::Calls(1));
        }
        for _ in 0..self.rng.u8(..3) {
            let (at, many) = (unkind(&mut self.rng), self.rng.usize(3..25));
            self.at(self.start + at, Happening::Calls(many));
            // Half of the time the sessions are lost just before.
            if self.rng.bool() {
                self.at(self.start + at, Happening::Forget);
            }
        }
        // A busy client, close to a server whose sessions or processes last for one call.
        if self.rng.u8(..20) == 0 {
            self.quick = true;
            self.server.sickly = true;
            let at = self.start + unkind(&mut self.rng);
            for n in 0..60 {
                self.at(at + n * Duration::from_millis(30), Happening::Calls(1));
            }
        }
        if self.server.down {
            let at = self.soon(20_000);
            self.at(at, Happening::Return);
        }
        for _ in 0..self.rng.u8(..4) {
            let at = self.start + unkind(&mut self.rng);
            let longest = [500, 3_000, 40_000][self.rng.usize(..3)];
            let length = Duration::from_millis(self.rng.u64(1..longest));
            self.at(at, Happening::Crash);
            self.at(at + length, Happening::Return);
        }
        for _ in 0..self.rng.u8(..5) {
            let at = self.start + unkind(&mut self.rng);
            self.at(at, Happening::Forget);
            let at = self.start + unkind(&mut self.rng);
            self.at(at, Happening::Wake);
        }
        if self.rng.u8(..8) == 0 {
            let at = self.start + unkind(&mut self.rng);
            let longest = [100, 5_000, 60_000][self.rng.usize(..3)];
            let by = Duration::from_millis(self.rng.u64(1..longest));
            self.at(at, Happening::ClockSteps(by));
        }
        for _ in 0..self.rng.u8(..3) {
            let at = self.start + unkind(&mut self.rng);
            let length = Duration::from_millis(self.rng.u64(1..8_000));
            self.at(at, Happening::Limit(length));
        }
        for turn in [Happening::WantsLogin, Happening::Misplaced] {
            if self.rng.u8(..12) == 0 {
                let at = self.start + unkind(&mut self.rng).mul_f64(self.rng.f64());
                self.at(at, turn(true));
                let length = Duration::from_millis(self.rng.u64(1..30_000));
                self.at(at + length, turn(false));
            }
        }
        self.at(self.start + KIND_FROM, Happening::TurnsKind);
        let healed = self.start + KIND_FROM + HEALING;
        self.at(healed, Happening::MustBeWell);
        for late in [0, 12, 24] {
            self.at(healed + Duration::from_secs(late), Happening::Calls(2));
        }
    }

    /// Prints each step of the run.
    pub(crate) fn told(self) -> Self {
        Self { told: true, ..self }
    }

    pub(crate) fn live(mut self) -> Tally {
        self.session.handle_command(self.now, Command::Connect);
        let mut steps = 0;
        // A late session loss gets the time to recover.
        let ready = |world: &Self| matches!(world.session.status(), Status::Ready(_));
        while self.now < self.start + LIFE || (!ready(&self) && self.now < self.start + LIFE + HEALING) {
            self.act();
            self.check();
            self.step();
            steps += 1;
            assert!(steps < 20_000, "livelock");
        }
        self.end()
    }

    /// Advances the clock to the next event or timer, and handles it.
    fn step(&mut self) {
        let due = [
            self.session.poll_timeout(),
            self.calls.poll_timeout(self.now),
            self.alive.keepalive.poll_timeout(),
            self.future.keys().next().map(|(at, _)| *at),
            Some(if self.now < self.start + LIFE { self.start + LIFE } else { self.start + LIFE + HEALING }),
        ];
        self.now = self.now.max(due.into_iter().flatten().min().expect("the end, at the latest"));
        self.expire_calls();
        self.keep_alive();
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
        self.say(&happening);
        match happening {
            Happening::News(attempt, event) => self.tell(attempt, event),
            Happening::Arrive(id) => self.arrive(id),
            Happening::Answer(id, reply) => self.answer(id, reply),
            Happening::Interrupt(id, fault) => self.interrupt(id, fault),
            Happening::Calls(many) => (0..many).for_each(|_| self.begin_call()),
            Happening::Progress(id) => {
                self.calls.heard(self.now, id);
            }
            Happening::Leave(caller) => self.leave_call(caller),
            Happening::StopWaiting(caller) => self.stop_waiting(caller),
            Happening::PauseOver(caller, turn) => self.pause_over(caller, turn),
            Happening::CallerEntered(caller, turn, entered) => self.caller_entered(caller, turn, entered),
            Happening::ClockSteps(by) => {
                self.tally.note("the clock stepped");
                self.now += by;
                self.stopped += by;
            }
            Happening::Limit(length) => self.server.limited = Some(self.now + length),
            Happening::Die(attempt) => self.die(attempt),
            Happening::Crash if self.is_unkind() => self.crash(),
            Happening::Crash => {}
            Happening::Return => self.server.down = false,
            Happening::Forget => self.server.forget_all(),
            Happening::WantsLogin(wants) => self.server.wants_login = wants,
            Happening::Misplaced(misplaced) => self.server.misplaced = misplaced,
            Happening::Wake => {
                self.alive.keepalive.hurry();
                self.session.handle_command(self.now, Command::Wake);
            }
            Happening::Stale(attempt) => self.hear_the_dead(attempt),
            Happening::TurnsKind => {
                self.server.down = false;
                self.server.wants_login = false;
                self.server.misplaced = false;
                self.server.affinity = Affinity::Always;
                self.server.sickly = false;
                self.server.limited = None;
                if self.server.nature == Nature::Dead {
                    self.server.nature = Nature::Legacy;
                }
                // Vague session errors are not recognized, so they have to end as well.
                if self.server.mumbles() {
                    self.server.idle = None;
                }
            }
            Happening::MustBeWell => {
                // A failure that only a person can fix waits for demand.
                let status = self.session.status();
                let well = matches!(status, Status::Ready(_) | Status::NeedsLogin(_) | Status::Failed(_));
                // A session may be in the middle of being replaced.
                let moment = matches!(status, Status::Connecting | Status::LoggingIn(_));
                assert!(well || moment || self.server.mumbles(), "not healed: {status:?}");
            }
        }
    }

    fn tell(&mut self, attempt: Attempt, event: Event) {
        let current = attempt == self.session.attempt();
        let before = (!current).then(|| self.session.status());
        if current {
            match &event {
                Event::Denied(fault) if fault.cause == Cause::LoginUnavailable => self.watch.login_spared(),
                Event::Lost(_) => self.tally.note("told: lost"),
                Event::Forgotten { proven: true, .. } => self.tally.note("told: forgotten, proven"),
                Event::Forgotten { proven: false, .. } => self.tally.note("told: forgotten, unproven"),
                _ => {}
            }
        }
        let forgotten = matches!(event, Event::Forgotten { .. });
        if current && forgotten {
            self.alive.session_dropped(self.now);
        }
        self.session.handle_event(self.now, attempt, event);
        if let Status::BackingOff { cause, .. } = self.session.status()
            && current
        {
            match cause.cause {
                Cause::SessionLost => self.tally.note("renewal: not at once"),
                Cause::NotAffine => self.tally.note("renewal: pointless"),
                _ => {}
            }
        }
        if let Some(before) = before {
            // All reports of one session loss cause one recovery.
            self.tally.note(if forgotten { "told: forgotten, by one more" } else { "told: by a dead link" });
            assert!(self.session.poll_action().is_none(), "an act of a dead attempt");
            assert_eq!(before, self.session.status());
        }
    }

    /// Sends all kinds of events of a dead link, which must change nothing.
    fn hear_the_dead(&mut self, attempt: Attempt) {
        if attempt == self.session.attempt() {
            return;
        }
        let lost = Fault::new(Cause::Cut);
        for event in [
            Event::Opened { session: true },
            Event::Reply(Reply::Accepted),
            Event::Restored,
            Event::Forgotten { fault: lost.clone(), proven: true },
            Event::Lost(lost),
        ] {
            self.tell(attempt, event);
        }
    }

    /// Checks the invariants that hold at every moment.
    fn check(&self) {
        let due = self.session.poll_timeout();
        let status = self.session.status();
        let login = matches!(status, Status::LoggingIn(_));
        let waiting = login || matches!(status, Status::Connecting | Status::BackingOff { .. });
        assert_eq!(waiting, due.is_some(), "a waiting phase without a deadline");
        if let Some(due) = due {
            // A login may take longer.
            let longest = if login { LOGIN } else { self.settings.connect.max(self.settings.backoff_cap) };
            let longest = longest + Duration::from_secs(5);
            assert!(due <= self.now + longest, "a deadline beyond every limit");
        }
        assert!(self.waiting.is_empty() || self.live.is_none(), "somebody waits for what is there");
    }

    fn end(mut self) -> Tally {
        assert!(matches!(self.session.status(), Status::Ready(_)), "stuck in {:?}", self.session.status());
        self.begin_call();
        self.session.handle_command(self.now, Command::Close);
        self.act();
        assert_eq!(self.session.status(), Status::Closed);
        assert_eq!(self.session.poll_timeout(), None);
        let mut steps = 0;
        while !self.callers_are_done() {
            let due = self.calls.poll_timeout(self.now);
            let next = self.future.keys().next().map(|(at, _)| *at);
            self.now =
                [due, next].into_iter().flatten().min().expect("nobody waits for nothing").max(self.now);
            self.expire_calls();
            if let Some(entry) = self.future.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let happening = entry.remove();
                self.happen(happening);
            }
            assert!(self.session.poll_action().is_none(), "an act after the end");
            steps += 1;
            assert!(steps < 2_000, "livelock");
        }
        self.compare_with_server();
        self.tally
    }

    pub(crate) fn is_unkind(&self) -> bool {
        self.now < self.kind_from
    }

    pub(crate) fn say(&self, what: &impl Debug) {
        if self.told {
            println!("{:>10.3} {what:?}", (self.now - self.start).as_secs_f64());
        }
    }

    pub(crate) fn soon(&mut self, within_ms: u64) -> Instant {
        let within_ms = if self.quick { (within_ms / 100).max(2) } else { within_ms };
        self.now + Duration::from_millis(self.rng.u64(1..within_ms))
    }

    pub(crate) fn news(&mut self, attempt: Attempt, event: Event) {
        self.at(self.now, Happening::News(attempt, event));
    }

    pub(crate) fn at(&mut self, at: Instant, happening: Happening) {
        self.next += 1;
        self.future.insert((at, self.next), happening);
    }
}

/// Limit for a login.
const LOGIN: Duration = Duration::from_secs(15 * 60);

/// The record that an earlier client may have left, right or wrong. It uses no random numbers, so
/// that a seed causes the same events as without it.
fn recorded(seed: u64, carrier: Carrier) -> Option<Finding> {
    let older = if carrier == Carrier::Http { Carrier::EventStream } else { carrier };
    match seed % 5 {
        1 => Some(Finding { revision: Revision::V2025_11_25, carrier }),
        2 => Some(Finding { revision: Revision::V2024_11_05, carrier: older }),
        3 => Some(Finding { revision: Revision::V2026_07_28, carrier }),
        _ => None,
    }
}
