//! Simulates several processes that refresh the same login, with a simulated store, clock and
//! authorization server. In each tick one process takes one step, so that every interleaving can
//! occur; a seed chooses it.
//!
//! `SIM_SEED=n` runs one seed.

use std::time::{Duration, Instant, SystemTime};

use bowline_store::Version;
use fastrand::Rng;

use super::core::{
    ClockReading, RefreshEvent, RefreshGoal, RefreshMachine, RefreshOutcome, Step, UnsavedLogin,
};
use super::driver::{LEASE_TTL, SEND_WINDOW};
use crate::error::{AuthError, AuthErrorKind};
use crate::record::tests::{record, tokens};
use crate::record::{LoginRecord, LoginState};
use crate::tokens::Tokens;

/// Which faults are injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    /// Faults that must not lose a login: processes that are slow, sleep, or die without holding
    /// unsaved tokens; an unreachable authorization server; a store that fails for a while; logins
    /// and logouts.
    Recoverable,
    /// Also faults that lose tokens: processes that die with unsaved tokens, or sleep where there
    /// is no lock, and lost responses.
    Lossy,
}

/// How the processes are distributed, which decides what keeps them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topology {
    /// All on one machine: a sleeping process keeps the lock.
    OneMachine,
    /// Each on its own machine: only the lease and a check of the clocks right before sending.
    ManyMachines,
}

struct Simulation {
    rng: Rng,
    faults: Faults,
    start: Instant,
    elapsed: Duration,
    stored: Option<(LoginRecord, Version)>,
    versions: u64,
    topology: Topology,
    /// The index of the process that holds the lock.
    lock: Option<usize>,
    lease: Option<(usize, u64, Duration)>,
    leases: u64,
    store_down_until: Duration,
    token_families: Vec<TokenFamily>,
    rotates: bool,
    reuses: u32,
    processes: Vec<Process>,
}

/// One login as the authorization server sees it.
struct TokenFamily {
    current: u32,
    /// Whether the authorization server revoked the login after a refresh token was reused.
    revoked: bool,
}

#[derive(Default)]
struct Process {
    /// The login in memory.
    held: Option<LoginRecord>,
    unsaved: Option<UnsavedLogin>,
    running: Option<(RefreshMachine, Step)>,
    /// The lease that it believes to hold.
    lease: Option<u64>,
    request: RequestState,
    /// When the lease was confirmed, taken before the store was asked.
    confirmed_at: Duration,
    asleep_until: Duration,
    waits_until: Option<Duration>,
    steps: u32,
    lost_logins: u32,
}

#[derive(Default)]
enum RequestState {
    #[default]
    Idle,
    /// The connection is open.
    Connected(Box<LoginRecord>),
    /// The clocks were checked, and nothing is sent yet. Without a lock no process may sleep here,
    /// because no clock would tell.
    Checked(Box<LoginRecord>),
    /// The request is in transit.
    Sent(Box<LoginRecord>),
    /// The response is in transit.
    Answered(Box<Result<Tokens, AuthError>>),
}

const TOKEN_LIFE: Duration = Duration::from_secs(40);

impl Simulation {
    fn new(seed: u64, faults: Faults, topology: Topology) -> Self {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(2..=6);
        let mut world = Self {
            faults,
            start: Instant::now(),
            elapsed: Duration::from_secs(1_000_000),
            stored: None,
            versions: 0,
            topology,
            lock: None,
            lease: None,
            leases: 0,
            store_down_until: Duration::ZERO,
            token_families: Vec::new(),
            rotates: rng.u8(0..4) != 0,
            reuses: 0,
            processes: Vec::new(),
            rng,
        };
        world.log_in();
        let first = world.stored.clone().unwrap().0;
        world.processes =
            (0..count).map(|_| Process { held: Some(first.clone()), ..Process::default() }).collect();
        world
    }

    fn now(&self) -> ClockReading {
        ClockReading { wall: SystemTime::UNIX_EPOCH + self.elapsed, monotonic: self.start + self.elapsed }
    }

    /// A person logs in, in some process.
    fn log_in(&mut self) {
        self.token_families.push(TokenFamily { current: 0, revoked: false });
        let family = self.token_families.len() - 1;
        let wall = self.now().wall;
        let mut login =
            record(&format!("a{family}.0"), Some(&format!("r{family}.0")), Some(wall + TOKEN_LIFE));
        login.logged_in_at = wall;
        self.put(login);
    }

    fn put(&mut self, record: LoginRecord) -> Version {
        self.versions += 1;
        let version = Version(self.versions);
        self.stored = Some((record, version));
        version
    }

    /// The authorization server receives a refresh token.
    fn exchange(&mut self, shown: &LoginRecord) -> Result<Tokens, AuthError> {
        let refresh = shown.refresh.as_ref().unwrap().expose();
        let (family, number) = refresh[1..].split_once('.').unwrap();
        let (index, number): (usize, u32) = (family.parse().unwrap(), number.parse().unwrap());
        let end = self.now().wall + TOKEN_LIFE;
        let family = &mut self.token_families[index];
        if !family.revoked && number < family.current && self.rotates {
            self.reuses += 1;
            family.revoked = true;
        }
        if family.revoked {
            return Err(AuthError::new(AuthErrorKind::InvalidGrant, "no"));
        }
        family.current += 1;
        let next = format!("r{index}.{}", family.current);
        Ok(tokens(&format!("a{index}.{}", family.current), self.rotates.then_some(&*next), Some(end)))
    }

    /// Advances the clock, injects faults, and lets one process take a step.
    fn tick(&mut self) {
        let quick = self.rng.u8(0..20) != 0;
        self.elapsed +=
            Duration::from_millis(if quick { self.rng.u64(0..60) } else { self.rng.u64(0..8000) });
        self.keep_leases();
        match self.rng.u16(0..2000) {
            // Shorter than writes are retried, with a longer pause until the next failure.
            0..4 if self.store_down_until + Duration::from_secs(60) < self.elapsed => {
                self.store_down_until = self.elapsed + Duration::from_millis(self.rng.u64(0..5000));
            }
            4..6 => self.log_in(),
            6 => {
                self.stored = None;
                self.maybe_log_in_again();
            }
            _ => {}
        }
        let index = self.rng.usize(..self.processes.len());
        if self.processes[index].asleep_until > self.elapsed {
            return;
        }
        self.inject_fault(index);
        if self.processes[index].asleep_until <= self.elapsed {
            self.step(index);
        }
    }

    /// Half of the time a login follows a logout at once, so that there is something to refresh.
    fn maybe_log_in_again(&mut self) {
        if self.rng.bool() {
            self.log_in();
        }
    }

    /// Renews the lease of an awake process that waits, and ends a lease that has expired.
    fn keep_leases(&mut self) {
        if self.lease.is_some_and(|(_, _, until)| until <= self.elapsed) {
            self.lease = None;
        }
        let Some((holder, number, until)) = &mut self.lease else { return };
        let process = &self.processes[*holder];
        let awake = process.asleep_until <= self.elapsed && process.running.is_some();
        if awake && process.lease == Some(*number) {
            *until = self.elapsed + LEASE_TTL;
        }
    }

    /// Sometimes kills a process or puts it to sleep.
    fn inject_fault(&mut self, index: usize) {
        if self.rng.u8(0..150) != 0 {
            return;
        }
        let sleeps = self.rng.bool();
        let process = &mut self.processes[index];
        // From the last check of the clocks until the tokens are saved.
        let holding = !matches!(process.request, RequestState::Idle | RequestState::Connected(_))
            || process
                .running
                .as_ref()
                .is_some_and(|(_, step)| matches!(step, Step::Write(..) | Step::WaitWithLease(_)))
            || process.unsaved.is_some();
        let safe = sleeps && self.topology == Topology::OneMachine;
        if holding && !safe && self.faults == Faults::Recoverable {
            return;
        }
        if sleeps {
            process.asleep_until = self.elapsed + Duration::from_secs(self.rng.u64(1..90));
        } else {
            // The process is restarted with the stored login. The operating system has released its
            // lock.
            let held = self.stored.clone().map(|(record, _)| record);
            *process = Process { held, lost_logins: process.lost_logins, ..Process::default() };
            self.lock.take_if(|holder| *holder == index);
        }
    }

    /// Lets one process take one step.
    fn step(&mut self, index: usize) {
        let Some((mut machine, step)) = self.processes[index].running.take() else {
            return self.begin(index);
        };
        let Some(news) = self.perform(index, &step) else {
            self.processes[index].running = Some((machine, step));
            return;
        };
        let next = machine.handle_event(self.now(), news);
        self.processes[index].steps += 1;
        assert!(self.processes[index].steps < 20_000, "a refresh without end");
        if let Step::Done(outcome) = next {
            self.finish(index, *outcome);
            return;
        }
        self.processes[index].running = Some((machine, next));
    }

    fn begin(&mut self, index: usize) {
        let wall = self.now().wall;
        let refused = self.rng.u8(0..30) == 0;
        let process = &mut self.processes[index];
        let Some(holds) = &process.held else {
            // Not logged in; check the store now and then.
            process.held = self.stored.clone().map(|(record, _)| record);
            return;
        };
        if !refused && !super::due::is_due(holds, wall) {
            return;
        }
        let goal = RefreshGoal { stale_token: Some(holds.access.clone()), unsaved: process.unsaved.clone() };
        process.steps = 0;
        let now = ClockReading { wall, monotonic: self.start + self.elapsed };
        self.processes[index].running = Some(RefreshMachine::new(now, goal));
    }

    fn perform(&mut self, index: usize, step: &Step) -> Option<RefreshEvent> {
        let down = self.elapsed < self.store_down_until;
        let failed = || RefreshEvent::StoreFailed(AuthError::new(AuthErrorKind::Store, "down"));
        Some(match step {
            Step::Read | Step::Acquire | Step::ConfirmLease | Step::Write(..) if down => failed(),
            Step::Read => RefreshEvent::RecordRead(self.stored.clone()),
            Step::Acquire => {
                let locked = self.topology == Topology::OneMachine && self.lock.is_some();
                if locked || self.lease.is_some() {
                    RefreshEvent::HeldByOther(None)
                } else {
                    self.lock = Some(index);
                    self.leases += 1;
                    self.lease = Some((index, self.leases, self.elapsed + LEASE_TTL));
                    self.processes[index].lease = Some(self.leases);
                    RefreshEvent::Acquired
                }
            }
            Step::Pause => RefreshEvent::Waited,
            Step::WaitWithLease(wait) => {
                let process = &mut self.processes[index];
                let until = *process.waits_until.get_or_insert(self.elapsed + *wait);
                if self.elapsed < until {
                    return None;
                }
                process.waits_until = None;
                RefreshEvent::Waited
            }
            Step::Connect(_) if self.rng.u8(0..20) == 0 => {
                RefreshEvent::RequestFailed(AuthError::new(AuthErrorKind::Unavailable, "nobody is there"))
            }
            Step::Connect(record) => {
                self.processes[index].request = RequestState::Connected(record.clone());
                RefreshEvent::Connected
            }
            Step::ConfirmLease => match self.processes[index].lease {
                Some(mine) if self.owns_lease(index, mine) => {
                    self.lease = Some((index, mine, self.elapsed + LEASE_TTL));
                    self.processes[index].confirmed_at = self.elapsed;
                    RefreshEvent::Confirmed
                }
                _ => {
                    self.drop_right(index);
                    RefreshEvent::LeaseLost
                }
            },
            Step::Send => return self.send(index),
            Step::Write(record, at) => {
                if self.stored.as_ref().map(|(_, version)| *version) == *at {
                    RefreshEvent::Written(self.put((**record).clone()))
                } else {
                    RefreshEvent::VersionConflict
                }
            }
            Step::Done(_) => unreachable!("it was finished"),
        })
    }

    /// A request takes four ticks: check of the clocks, write, transit, and transit of the
    /// response.
    fn send(&mut self, index: usize) -> Option<RefreshEvent> {
        let away = || Err(AuthError::new(AuthErrorKind::Unavailable, "away"));
        match std::mem::take(&mut self.processes[index].request) {
            RequestState::Idle => unreachable!("dialed before"),
            RequestState::Connected(record) => {
                if self.elapsed >= self.processes[index].confirmed_at + SEND_WINDOW {
                    self.release(index);
                    return Some(RefreshEvent::LeaseLost);
                }
                self.processes[index].request = RequestState::Checked(record);
                None
            }
            RequestState::Checked(record) => {
                self.processes[index].request = RequestState::Sent(record);
                None
            }
            RequestState::Sent(_) if self.rng.u8(0..10) == 0 => {
                Some(RefreshEvent::RequestFailed(away().unwrap_err()))
            }
            RequestState::Sent(record) => {
                let mut answer = self.exchange(&record);
                if self.faults == Faults::Lossy && self.rng.u8(0..40) == 0 {
                    answer = away();
                }
                self.processes[index].request = RequestState::Answered(Box::new(answer));
                None
            }
            RequestState::Answered(answer) => Some(match *answer {
                Ok(tokens) => RefreshEvent::TokensReceived(tokens),
                Err(error) => RefreshEvent::RequestFailed(error),
            }),
        }
    }

    fn owns_lease(&self, index: usize, number: u64) -> bool {
        self.lease.is_some_and(|(holder, of, _)| holder == index && of == number)
    }

    /// Drops lock, lease and connection.
    fn drop_right(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.lease = None;
        process.request = RequestState::Idle;
        self.lock.take_if(|holder| *holder == index);
    }

    fn release(&mut self, index: usize) {
        if let Some(mine) = self.processes[index].lease
            && self.owns_lease(index, mine)
        {
            self.lease = None;
        }
        self.drop_right(index);
    }

    fn finish(&mut self, index: usize, outcome: RefreshOutcome) {
        self.release(index);
        let process = &mut self.processes[index];
        match outcome {
            RefreshOutcome::Current(record, _) => {
                (process.held, process.unsaved) = (Some(record), None);
            }
            RefreshOutcome::Unsaved(mine) => {
                let lossy = self.faults == Faults::Lossy;
                assert!(lossy || !mine.would_lose_login(), "the store was not away for so long");
                (process.held, process.unsaved) = (Some(mine.record.clone()), Some(mine));
            }
            RefreshOutcome::LoginEnded { record, .. } => {
                process.lost_logins += 1;
                let family = family_of(&record);
                assert!(
                    self.token_families[family].revoked,
                    "a login was given up that the authorization server had not ended"
                );
                process.held = None;
            }
            RefreshOutcome::LoggedOut(_) => process.held = None,
            RefreshOutcome::Failed(error) => {
                assert!(matches!(error.kind, AuthErrorKind::Unavailable | AuthErrorKind::Store), "{error:?}");
            }
        }
    }

    /// Without further faults, every process gets a valid token; a person logs in where necessary.
    fn settle(&mut self) {
        self.store_down_until = Duration::ZERO;
        for process in &mut self.processes {
            process.asleep_until = Duration::ZERO;
        }
        self.drive("finishes", |world| world.processes.iter().all(|process| process.running.is_none()));
        self.elapsed += TOKEN_LIFE;
        self.drive("gets a token", |world| (0..world.processes.len()).all(|index| world.is_good(index)));
    }

    fn drive(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..20_000 {
            if done(self) {
                return;
            }
            let lost = |kept: &LoginRecord| {
                kept.state != LoginState::Ok || self.token_families[family_of(kept)].revoked
            };
            if self.stored.as_ref().is_none_or(|(kept, _)| lost(kept)) {
                self.log_in();
            }
            self.elapsed += Duration::from_millis(10);
            self.keep_leases();
            for index in 0..self.processes.len() {
                self.step(index);
            }
        }
        panic!("not everybody {what}");
    }

    fn is_good(&self, index: usize) -> bool {
        let Some(holds) = &self.processes[index].held else { return false };
        !super::due::is_due(holds, self.now().wall) && !self.token_families[family_of(holds)].revoked
    }
}

fn family_of(record: &LoginRecord) -> usize {
    record.access.expose()[1..].split_once('.').unwrap().0.parse().unwrap()
}

fn play(seed: u64, faults: Faults, topology: Topology) -> Simulation {
    let mut world = Simulation::new(seed, faults, topology);
    for _ in 0..1500 {
        world.tick();
    }
    world
}

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let one: Option<u64> = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    (0..count).filter(move |seed| one.is_none_or(|one| one == *seed))
}

fn check_nothing_is_lost(topology: Topology) {
    let mut refreshed = 0;
    for seed in seeds(4000) {
        let mut world = play(seed, Faults::Recoverable, topology);
        assert_eq!(world.reuses, 0, "seed {seed}");
        assert_eq!(world.processes.iter().map(|it| it.lost_logins).sum::<u32>(), 0, "seed {seed}");
        refreshed += world.token_families.iter().map(|family| u64::from(family.current)).sum::<u64>();
        world.settle();
        assert_eq!(world.reuses, 0, "seed {seed}, at the end");
    }
    // The simulation proves nothing if nothing was refreshed.
    assert!(refreshed > 10_000 || std::env::var_os("SIM_SEED").is_some(), "{refreshed}");
}

// TK-04: in any order, and wherever a process is suspended, a refresh token is used once.
#[test]
fn one_machine_never_reuses_a_refresh_token() {
    check_nothing_is_lost(Topology::OneMachine);
}

// TK-04: unless a process sleeps after its last check of the clocks.
#[test]
fn many_machines_never_reuse_a_refresh_token_without_late_sleeps() {
    check_nothing_is_lost(Topology::ManyMachines);
}

#[test]
fn lost_tokens_cost_one_login_and_no_process_is_stuck_on_one_machine() {
    check_losses(Topology::OneMachine);
}

#[test]
fn lost_tokens_cost_one_login_and_no_process_is_stuck_on_many_machines() {
    check_losses(Topology::ManyMachines);
}

fn check_losses(topology: Topology) {
    let mut lost = 0;
    for seed in seeds(4000) {
        let mut world = play(seed, Faults::Lossy, topology);
        lost += world.reuses;
        world.settle();
    }
    let one_seed = std::env::var_os("SIM_SEED").is_some();
    assert!(lost > 0 || one_seed, "nothing was lost: the weather was fair");
}
