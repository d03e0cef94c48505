//! [`World`]: the virtual clock, the queue of events, and all parts of one simulation run.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem::Discriminant;
use std::time::{Duration, Instant};

use bowline_proto::client::calls::Calls;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::{
    Attempt, Command, Event, NegotiationMessage, NegotiationRecord, Session, Settings, Status, TransportKind,
};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::Revision;
use fastrand::Rng;

use crate::caller::{Caller, PendingCall, PendingKind};
use crate::driver::Link;
use crate::exchange::Exchange;
use crate::invariants::InvariantChecker;
use crate::keepalive::KeepaliveDriver;
use crate::server::{Affinity, Server, ServerKind};
use crate::tally::Tally;

/// Time at which the faults end, to see whether everything recovers.
const FAULTS_UNTIL: Duration = Duration::from_millis(FAULTS_UNTIL_MS);
const FAULTS_UNTIL_MS: u64 = 120_000;
/// Length of a run on the virtual clock.
const RUN_LENGTH: Duration = Duration::from_millis(RUN_LENGTH_MS);
const RUN_LENGTH_MS: u64 = FAULTS_UNTIL_MS + 140_000;
/// Limit for the recovery: an attempt that meets only silence, the longest wait, and an attempt
/// that succeeds.
const RECOVERY_LIMIT: Duration = Duration::from_secs(30 + 60 + 5);

pub(crate) struct World {
    pub(crate) rng: Rng,
    start: Instant,
    pub(crate) now: Instant,
    /// Time at which the faults end.
    pub(crate) faults_until: Instant,
    pub(crate) session: Session,
    pub(crate) settings: Settings,
    pub(crate) server: Server,
    /// Percentage of requests that meet a fault.
    pub(crate) fault_percent: u8,
    pub(crate) credentials: bool,
    /// Whether the latency of the server is low.
    is_nearby: bool,
    pub(crate) links: BTreeMap<Attempt, Link>,
    /// The link that calls may take.
    pub(crate) live_attempt: Option<Attempt>,
    /// The session id of the last link, as the client knows it.
    pub(crate) last_session: Option<u64>,
    pub(crate) last_message: Option<NegotiationMessage>,
    pub(crate) keepalive: KeepaliveDriver,
    pub(crate) exchanges: BTreeMap<u64, Exchange>,
    pub(crate) calls: Calls<PendingCall>,
    pub(crate) callers: Vec<Caller>,
    /// The version of the annotations that the client knows.
    pub(crate) known_annotations: u32,
    /// Callers that wait for a link.
    pub(crate) waiting: Vec<usize>,
    /// The last status that those callers have seen.
    pub(crate) last_seen_status: Option<(Attempt, Discriminant<Status>)>,
    queue: BTreeMap<(Instant, u64), SimEvent>,
    pub(crate) next: u64,
    pub(crate) invariants: InvariantChecker,
    pub(crate) tally: Tally,
    /// Total time that the clock skipped.
    pub(crate) clock_skipped: Duration,
    /// Whether each step is printed.
    is_traced: bool,
}

#[derive(Debug)]
pub(crate) enum SimEvent {
    /// An event reaches the session.
    Session(Attempt, Event),
    /// A request reaches the server.
    Arrive(u64),
    /// A reply reaches the client.
    Reply(u64, Reply),
    /// A request is cut off.
    Interrupt(u64, Fault),
    /// This number of calls begin.
    Calls(usize),
    /// The next page of a list is requested.
    LaterPage(usize),
    Progress(u64),
    Leave(usize),
    StopWaiting(usize),
    /// The pause with this number ends.
    PauseOver(usize, u64),
    /// The login that a call waited for ends.
    LoginFinished(usize, u64, Result<(), Fault>),
    /// The machine is suspended, or its clock steps.
    ClockSteps(Duration),
    /// The server refuses requests for this long.
    Limit(Duration),
    /// A process exits, or an event stream ends.
    Die(Attempt),
    Crash,
    Return,
    Forget,
    /// The annotations of the server's tools change.
    Annotate,
    WantsLogin(bool),
    Misplaced(bool),
    Wake,
    /// Late events of a dead link arrive.
    Stale(Attempt),
    /// The faults end.
    FaultsEnd,
    /// The connection must have recovered by now.
    CheckRecovered,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let transport = if rng.u8(..4) == 0 { TransportKind::Pipe } else { TransportKind::Http };
        let mut world = Self::empty(seed, rng, transport);
        world.schedule_faults();
        world
    }

    /// Creates a run without faults: a server that collects idle sessions, a client with or without
    /// keepalive, and a few calls.
    pub(crate) fn calm(idle: Duration, keepalive: Option<Duration>) -> Self {
        let mut world = Self::empty(0, Rng::with_seed(0), TransportKind::Http);
        world.server.make_calm(idle);
        world.fault_percent = 0;
        world.keepalive = KeepaliveDriver::new(keepalive);
        world.faults_until = world.start;
        for n in 1..5 {
            world.schedule(world.start + n * Duration::from_secs(50), SimEvent::Calls(3));
        }
        world
    }

    /// Creates a run without any events.
    fn empty(seed: u64, mut rng: Rng, transport: TransportKind) -> Self {
        let start = Instant::now();
        let authorizes = rng.bool();
        let recorded = earlier_record(seed, transport);
        let settings = Settings {
            transport,
            fallback: true,
            record: recorded,
            can_authorize: authorizes,
            seed,
            ..Settings::default()
        };
        Self {
            server: Server::random(&mut rng, transport == TransportKind::Pipe),
            fault_percent: [0, 3, 10, 30][rng.usize(..4)],
            credentials: rng.bool(),
            is_nearby: false,
            keepalive: KeepaliveDriver::new(
                [None, Some(5), Some(20), Some(180)][rng.usize(..4)].map(Duration::from_secs),
            ),
            rng,
            start,
            now: start,
            faults_until: start + FAULTS_UNTIL,
            session: Session::new(settings.clone()),
            settings,
            links: BTreeMap::new(),
            live_attempt: None,
            last_session: None,
            last_message: None,
            exchanges: BTreeMap::new(),
            calls: Calls::default(),
            callers: Vec::new(),
            known_annotations: 0,
            waiting: Vec::new(),
            last_seen_status: None,
            queue: BTreeMap::new(),
            next: 0,
            invariants: InvariantChecker::default(),
            tally: Tally::default(),
            clock_skipped: Duration::ZERO,
            is_traced: false,
        }
    }

    /// Schedules the events that do not depend on the client.
    fn schedule_faults(&mut self) {
        let unkind = |rng: &mut Rng| Duration::from_millis(rng.u64(..FAULTS_UNTIL_MS));
        for _ in 0..self.rng.u8(3..25) {
            let at = Duration::from_millis(self.rng.u64(..RUN_LENGTH_MS - 20_000));
            self.schedule(self.start + at, SimEvent::Calls(1));
        }
        for _ in 0..self.rng.u8(..3) {
            let (at, many) = (unkind(&mut self.rng), self.rng.usize(3..25));
            self.schedule(self.start + at, SimEvent::Calls(many));
            // Half of the time the sessions are lost just before.
            if self.rng.bool() {
                self.schedule(self.start + at, SimEvent::Forget);
            }
        }
        // A busy client, close to a server whose sessions or processes last for one call.
        if self.rng.u8(..20) == 0 {
            self.is_nearby = true;
            self.server.fragile = true;
            let at = self.start + unkind(&mut self.rng);
            for n in 0..60 {
                self.schedule(at + n * Duration::from_millis(30), SimEvent::Calls(1));
            }
        }
        if self.server.down {
            let at = self.random_time(20_000);
            self.schedule(at, SimEvent::Return);
        }
        for _ in 0..self.rng.u8(..4) {
            let at = self.start + unkind(&mut self.rng);
            let longest = [500, 3_000, 40_000][self.rng.usize(..3)];
            let length = Duration::from_millis(self.rng.u64(1..longest));
            self.schedule(at, SimEvent::Crash);
            self.schedule(at + length, SimEvent::Return);
        }
        for _ in 0..self.rng.u8(..5) {
            let at = self.start + unkind(&mut self.rng);
            self.schedule(at, SimEvent::Forget);
            let at = self.start + unkind(&mut self.rng);
            self.schedule(at, SimEvent::Wake);
        }
        for _ in 0..self.rng.u8(..4) {
            let at = self.start + unkind(&mut self.rng);
            self.schedule(at, SimEvent::Annotate);
        }
        if self.rng.u8(..8) == 0 {
            let at = self.start + unkind(&mut self.rng);
            let longest = [100, 5_000, 60_000][self.rng.usize(..3)];
            let by = Duration::from_millis(self.rng.u64(1..longest));
            self.schedule(at, SimEvent::ClockSteps(by));
        }
        for _ in 0..self.rng.u8(..3) {
            let at = self.start + unkind(&mut self.rng);
            let length = Duration::from_millis(self.rng.u64(1..8_000));
            self.schedule(at, SimEvent::Limit(length));
        }
        for turn in [SimEvent::WantsLogin, SimEvent::Misplaced] {
            if self.rng.u8(..12) == 0 {
                let at = self.start + unkind(&mut self.rng).mul_f64(self.rng.f64());
                self.schedule(at, turn(true));
                let length = Duration::from_millis(self.rng.u64(1..30_000));
                self.schedule(at + length, turn(false));
            }
        }
        self.schedule(self.start + FAULTS_UNTIL, SimEvent::FaultsEnd);
        let healed = self.start + FAULTS_UNTIL + RECOVERY_LIMIT;
        for late in [0, 12, 24] {
            self.schedule(healed + Duration::from_secs(late), SimEvent::Calls(2));
        }
    }

    /// Prints each step of the run.
    pub(crate) fn with_trace(self) -> Self {
        Self { is_traced: true, ..self }
    }

    pub(crate) fn run(mut self) -> Tally {
        self.session.handle_command(self.now, Command::Connect);
        let mut steps = 0;
        // A late session loss gets the time to recover.
        let ready = |world: &Self| matches!(world.session.status(), Status::Ready(_));
        while self.now < self.start + RUN_LENGTH
            || (!ready(&self) && self.now < self.start + RUN_LENGTH + RECOVERY_LIMIT)
        {
            self.perform_actions();
            self.check_invariants();
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
            self.keepalive.keepalive.poll_timeout(),
            self.queue.keys().next().map(|(at, _)| *at),
            Some(if self.now < self.start + RUN_LENGTH {
                self.start + RUN_LENGTH
            } else {
                self.start + RUN_LENGTH + RECOVERY_LIMIT
            }),
        ];
        self.now = self.now.max(due.into_iter().flatten().min().expect("the end, at the latest"));
        self.expire_calls();
        self.send_due_probe();
        self.session.handle_timeout(self.now);
        self.perform_actions();
        self.check_invariants();
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let happening = entry.remove();
            self.apply_event(happening);
            self.perform_actions();
            self.check_invariants();
        }
    }

    fn apply_event(&mut self, happening: SimEvent) {
        self.trace(&happening);
        match happening {
            SimEvent::Session(attempt, event) => self.deliver_event(attempt, event),
            SimEvent::Arrive(id) => self.arrive(id),
            SimEvent::Reply(id, reply) => self.deliver_reply(id, reply),
            SimEvent::Interrupt(id, fault) => self.interrupt(id, fault),
            SimEvent::Calls(many) => (0..many).for_each(|_| self.begin_call()),
            SimEvent::LaterPage(list) => self.request_later_page(list),
            SimEvent::Progress(id) => {
                if let Some(&mut PendingCall { caller, kind: PendingKind::Call, .. }) =
                    self.calls.record_activity(self.now, id)
                {
                    self.tally.note("call: a message about it");
                    self.callers[caller].retry.record_message();
                    self.callers[caller].oracle.record_message();
                }
            }
            SimEvent::Leave(caller) => self.leave_call(caller),
            SimEvent::StopWaiting(caller) => self.stop_waiting(caller),
            SimEvent::PauseOver(caller, turn) => self.end_pause(caller, turn),
            SimEvent::LoginFinished(caller, turn, entered) => self.finish_login(caller, turn, entered),
            SimEvent::ClockSteps(by) => {
                self.tally.note("the clock stepped");
                self.now += by;
                self.clock_skipped += by;
            }
            SimEvent::Limit(length) => self.server.limited_until = Some(self.now + length),
            SimEvent::Die(attempt) => self.kill_link(attempt),
            SimEvent::Crash if self.has_faults() => self.crash_server(),
            SimEvent::Crash => {}
            SimEvent::Return => self.server.down = false,
            SimEvent::Forget => self.server.drop_sessions(),
            SimEvent::Annotate => self.server.annotations += 1,
            SimEvent::WantsLogin(wants) => self.server.wants_login = wants,
            SimEvent::Misplaced(misplaced) => self.server.misplaced = misplaced,
            SimEvent::Wake => {
                self.keepalive.keepalive.probe_soon();
                self.session.handle_command(self.now, Command::Wake);
            }
            SimEvent::Stale(attempt) => self.deliver_stale_events(attempt),
            SimEvent::FaultsEnd => {
                // Later than planned if the clock stepped.
                self.schedule(self.now + RECOVERY_LIMIT, SimEvent::CheckRecovered);
                self.server.down = false;
                self.server.wants_login = false;
                self.server.misplaced = false;
                self.server.affinity = Affinity::Always;
                self.server.fragile = false;
                self.server.has_single_session = false;
                self.server.limited_until = None;
                if self.server.kind == ServerKind::Dead {
                    self.server.kind = ServerKind::Legacy;
                }
                // Vague session errors are not recognized, so they have to end as well.
                if self.server.has_vague_wording() {
                    self.server.idle = None;
                }
            }
            SimEvent::CheckRecovered => {
                // A failure that only a person can fix waits for demand.
                let status = self.session.status();
                let well = matches!(status, Status::Ready(_) | Status::NeedsLogin(_) | Status::Failed(_));
                // A session may be in the middle of being replaced.
                let moment = matches!(status, Status::Connecting | Status::LoggingIn(_));
                assert!(well || moment || self.server.has_vague_wording(), "not healed: {status:?}");
            }
        }
    }

    fn deliver_event(&mut self, attempt: Attempt, event: Event) {
        let current = attempt == self.session.attempt();
        let before = (!current).then(|| self.session.status());
        if current {
            match &event {
                Event::Denied(fault) if fault.cause == Cause::LoginUnavailable => {
                    self.invariants.forgive_login();
                }
                Event::LinkLost(_) => self.tally.note("told: lost"),
                Event::SessionLost { proven: true, .. } => self.tally.note("told: forgotten, proven"),
                Event::SessionLost { proven: false, .. } => self.tally.note("told: forgotten, unproven"),
                _ => {}
            }
        }
        let forgotten = matches!(event, Event::SessionLost { .. });
        if current && forgotten {
            self.keepalive.handle_session_loss(self.now);
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
    fn deliver_stale_events(&mut self, attempt: Attempt) {
        if attempt == self.session.attempt() {
            return;
        }
        let lost = Fault::new(Cause::Cut);
        for event in [
            Event::Opened { session: true },
            Event::Reply(Reply::Accepted),
            Event::Restored,
            Event::SessionLost { fault: lost.clone(), proven: true },
            Event::LinkLost(lost),
        ] {
            self.deliver_event(attempt, event);
        }
    }

    /// Checks the invariants that hold at every moment.
    fn check_invariants(&self) {
        let due = self.session.poll_timeout();
        let status = self.session.status();
        let login = matches!(status, Status::LoggingIn(_));
        let waiting = login || matches!(status, Status::Connecting | Status::BackingOff { .. });
        assert_eq!(waiting, due.is_some(), "a waiting phase without a deadline");
        if let Some(due) = due {
            // A login may take longer.
            let longest = if login {
                LOGIN_TIMEOUT
            } else {
                self.settings.connect_timeout.max(self.settings.backoff_cap)
            };
            let longest = longest + Duration::from_secs(5);
            assert!(due <= self.now + longest, "a deadline beyond every limit");
        }
        assert!(self.waiting.is_empty() || self.live_attempt.is_none(), "somebody waits for what is there");
    }

    fn end(mut self) -> Tally {
        assert!(matches!(self.session.status(), Status::Ready(_)), "stuck in {:?}", self.session.status());
        self.begin_call();
        self.session.handle_command(self.now, Command::Close);
        self.perform_actions();
        assert_eq!(self.session.status(), Status::Closed);
        assert_eq!(self.session.poll_timeout(), None);
        let mut steps = 0;
        while !self.all_calls_ended() {
            let due = self.calls.poll_timeout(self.now);
            let next = self.queue.keys().next().map(|(at, _)| *at);
            self.now =
                [due, next].into_iter().flatten().min().expect("nobody waits for nothing").max(self.now);
            self.expire_calls();
            if let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let happening = entry.remove();
                self.apply_event(happening);
            }
            assert!(self.session.poll_action().is_none(), "an act after the end");
            steps += 1;
            assert!(steps < 2_000, "livelock");
        }
        self.compare_with_server();
        self.tally
    }

    pub(crate) fn has_faults(&self) -> bool {
        self.now < self.faults_until
    }

    pub(crate) fn trace(&self, what: &impl Debug) {
        if self.is_traced {
            println!("{:>10.3} {what:?}", (self.now - self.start).as_secs_f64());
        }
    }

    pub(crate) fn random_time(&mut self, within_ms: u64) -> Instant {
        let within_ms = if self.is_nearby { (within_ms / 100).max(2) } else { within_ms };
        self.now + Duration::from_millis(self.rng.u64(1..within_ms))
    }

    pub(crate) fn schedule_session_event(&mut self, attempt: Attempt, event: Event) {
        self.schedule(self.now, SimEvent::Session(attempt, event));
    }

    pub(crate) fn schedule(&mut self, at: Instant, happening: SimEvent) {
        self.next += 1;
        self.queue.insert((at, self.next), happening);
    }
}

/// Limit for a login.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The record that an earlier client may have left, right or wrong. It uses no random numbers, so
/// that a seed causes the same events as without it.
fn earlier_record(seed: u64, transport: TransportKind) -> Option<NegotiationRecord> {
    let older = if transport == TransportKind::Http { TransportKind::EventStream } else { transport };
    match seed % 5 {
        1 => Some(NegotiationRecord::new(Revision::V2025_11_25, transport)),
        2 => Some(NegotiationRecord::new(Revision::V2024_11_05, older)),
        3 => Some(NegotiationRecord::new(Revision::V2026_07_28, transport)),
        _ => None,
    }
}
