//! A refresh that is stopped or killed at each of its steps.
//!
//! A process is stopped right after a system call that marks a step, for longer than its lease
//! lasts. Another process needs the token meanwhile. The refresh token must be used once, by either
//! process, and both must succeed. Leases use the time of day, which is set ahead for the processes
//! of the test, so no test has to wait.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::stepper::{Stepper, StopPoint, can_trace};
use super::{LoginSite, TEST_TIMEOUT};
use crate::clock::Clock;
use crate::context::Command;

/// How far the clock advances while the process is stopped: a lease lasts 30 seconds.
const STANDSTILL_SECONDS: i64 = 33;

/// The last completed step of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    LockOpened,
    LockTaken,
    LeaseWritten,
    LoginRead,
    ConnectionBegun,
    LeaseConfirmed,
    TokenSent,
    AnswerRead,
    TokensWritten,
    LeaseReturned,
    LockReturned,
}

/// What the other process does while the first one is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherProcess {
    /// It keeps trying to get the lock.
    Waits,
    /// It gets a valid token and exits.
    Ends,
}

/// The state of the login after the process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginAfterKill {
    /// The token was not sent: the next process uses it.
    Unused,
    /// The token was used and its successor lost: a person has to log in again.
    Lost,
    /// The successor is stored.
    Refreshed,
}

impl Step {
    /// Returns the point at which the step is complete, for this port of the authorization server.
    pub(super) fn stop_point(self, port: u16) -> StopPoint {
        let (lock, peer) = ("/store.db-locks/", format!("->127.0.0.1:{port}]"));
        match self {
            Self::LockOpened => StopPoint::at_first("openat", move |call| call.contains(lock)),
            Self::LockTaken => StopPoint::at_first("flock", move |call| call.contains(lock)),
            Self::LockReturned => StopPoint::at_first("close", move |call| call.contains(lock)),
            // Each of these is its own transaction.
            Self::LeaseWritten => Self::after_commit(1),
            Self::LeaseConfirmed => Self::after_commit(2),
            Self::TokensWritten => Self::after_commit(3),
            Self::LeaseReturned => Self::after_commit(4),
            Self::LoginRead => {
                let (mut log, mut is_reading) = (WalProgress::default(), false);
                let is = move |call: &str| {
                    log.observe(call);
                    if !call.contains(WAL_INDEX) {
                        return false;
                    }
                    let is_read = is_reading && call.contains("F_UNLCK");
                    is_reading = log.commits == 1 && !log.is_writing && call.contains("F_RDLCK");
                    is_read
                };
                StopPoint { syscalls: "fcntl", observed_syscalls: "flock,pwrite64", matches: Box::new(is) }
            }
            Self::ConnectionBegun => {
                let port = format!("sin_port=htons({port})");
                StopPoint::at_first("connect", move |call| call.contains(&port))
            }
            Self::TokenSent => {
                let is = move |call: &str| call.contains(&peer) && call.contains("\"POST ");
                StopPoint::at_first("sendto,sendmsg,write,writev", is)
            }
            Self::AnswerRead => {
                let is = move |call: &str| call.contains(&peer) && call.contains("\"HTTP/1.1 200");
                StopPoint::at_first("read,readv,recvfrom,recvmsg", is)
            }
        }
    }

    /// Returns the point at which the transaction with this number is on disk.
    fn after_commit(number: usize) -> StopPoint {
        let mut log = WalProgress::default();
        let is = move |call: &str| {
            log.observe(call);
            log.has_frames
                && log.transactions == number
                && call.starts_with("fsync(")
                && call.contains("/store.db-wal>")
        };
        StopPoint { syscalls: "fsync", observed_syscalls: "fcntl,flock,pwrite64", matches: Box::new(is) }
    }

    fn other_process(self) -> OtherProcess {
        match self {
            Self::LockOpened | Self::LeaseReturned | Self::LockReturned => OtherProcess::Ends,
            _ => OtherProcess::Waits,
        }
    }

    fn login_after_kill(self) -> LoginAfterKill {
        match self {
            Self::TokenSent | Self::AnswerRead => LoginAfterKill::Lost,
            step if step < Self::TokenSent => LoginAfterKill::Unused,
            _ => LoginAfterKill::Refreshed,
        }
    }
}

/// The progress of a process's transactions, derived from its use of the SQLite WAL.
#[derive(Default)]
struct WalProgress {
    transactions: usize,
    commits: usize,
    is_writing: bool,
    /// Whether a frame of the transaction was written, not only the header of a new WAL.
    has_frames: bool,
}

/// The WAL index, as strace prints it.
const WAL_INDEX: &str = "/store.db-shm>";

impl WalProgress {
    fn observe(&mut self, call: &str) {
        // The write lock is a lock on this byte of the index.
        if call.contains(WAL_INDEX) && call.contains("l_start=120, l_len=1}) = 0") {
            let begins = call.contains("F_WRLCK");
            self.transactions += usize::from(begins);
            self.commits += usize::from(!begins && self.has_frames);
            (self.is_writing, self.has_frames) = (begins, false);
        } else if call.starts_with("flock(") {
            // Earlier writes are not part of the refresh.
            *self = Self::default();
        } else if call.starts_with("pwrite64(") && call.contains("/store.db-wal>") && call.contains(", 24, ")
        {
            self.has_frames = true;
        }
    }
}

impl StopPoint {
    fn at_first(stops: &'static str, is: impl Fn(&str) -> bool + Send + 'static) -> Self {
        Self { syscalls: stops, observed_syscalls: "", matches: Box::new(is) }
    }
}

/// A refresh that is stopped at a step.
struct StoppedRefresh {
    site: LoginSite,
    clock: Clock,
    stepper: Stepper,
    pid: Pid,
}

impl StoppedRefresh {
    /// Returns `None` where strace or a C compiler is missing.
    async fn reach(step: Step) -> Option<Self> {
        let site = LoginSite::new().await;
        let Some(clock) = Clock::new(&site.context).filter(|_| can_trace()) else {
            eprintln!("not checked: it needs strace and a C compiler");
            return None;
        };
        site.logs_in().await;
        site.auth.revoke_all_access();
        let port = url_port(&site.auth.issuer());
        let mut stepper = Stepper::start(&site.context, call_command(&site, &clock), step.stop_point(port));
        let pid = stepper.wait_until_stopped().await;
        // The server has received everything that was sent before the process is resumed or killed.
        let sent = step >= Step::TokenSent;
        if sent {
            site.auth.wait_until(|auth| auth.refreshes() == 1, TEST_TIMEOUT).await;
        }
        assert_eq!(site.auth.count("refresh_token"), usize::from(sent));
        clock.advance(STANDSTILL_SECONDS);
        Some(Self { site, clock, stepper, pid })
    }

    /// Makes another command that needs the token.
    fn call_command(&self) -> Command {
        call_command(&self.site, &self.clock)
    }
}

pub(super) fn url_port(url: &str) -> u16 {
    url.rsplit(':').next().and_then(|port| port.trim_end_matches('/').parse().ok()).expect("a port")
}

fn call_command(site: &LoginSite, clock: &Clock) -> Command {
    let mut command = site.bowline(&["call", "docs", "echo", "message=ahoy", "--timeout", "120"]);
    clock.set_for(&mut command);
    command
}

/// Waits for a process, and returns its exit code and output.
async fn wait_for_output(child: tokio::process::Child) -> (Option<i32>, String) {
    let output =
        tokio::time::timeout(TEST_TIMEOUT * 3, child.wait_with_output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), said.into_owned())
}

async fn assert_success(child: tokio::process::Child) {
    let (code, said) = wait_for_output(child).await;
    assert!(code == Some(0) && said.contains("ahoy"), "{code:?}: {said}");
}

/// Checks that one refresh token was used once, and that the next process uses its successor.
fn assert_refreshed_once(site: &LoginSite) {
    let counts = || {
        let counts = site.auth.counts();
        let uses = counts.tokens.get("refresh_token").copied();
        (uses, counts.refreshes, counts.reuse_detected, counts.families_revoked, counts.authorizations)
    };
    assert_eq!(counts(), (Some(1), 1, 0, 0, 1));
    let shown = site.calls();
    assert!(shown.starts_with("exit: 0\n") && shown.contains("ahoy"), "{shown}");
    assert_eq!(counts(), (Some(1), 1, 0, 0, 1));
}

async fn stop_at(step: Step) {
    let Some(standing) = StoppedRefresh::reach(step).await else { return };
    let other = match step.other_process() {
        OtherProcess::Ends => {
            let mut other = standing.call_command();
            other.stdout(Stdio::piped()).stderr(Stdio::piped());
            assert_success(other.spawn_async().expect("bowline starts")).await;
            None
        }
        OtherProcess::Waits => {
            let trace = standing.site.context.path("other");
            let path = trace.display().to_string();
            let tracing = ["-f", "-qq", "-o", &path, "-e", "trace=flock"];
            let mut other = standing.call_command().run_by("strace", tracing);
            other.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut other = other.spawn_async().expect("strace starts");
            let refused = async {
                let count = || std::fs::read_to_string(&trace).unwrap_or_default().matches("EAGAIN").count();
                while count() < 3 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                waits = tokio::time::timeout(TEST_TIMEOUT, refused) => waits.expect("it tries to get the lock"),
                ended = other.wait() => panic!("it does not wait: {ended:?}, {:?}", standing.site.auth.counts()),
            }
            Some(other)
        }
    };
    let StoppedRefresh { site, stepper, pid, .. } = standing;
    kill_process(pid, Signal::CONT).expect("it is there");
    assert_success(stepper.child).await;
    if let Some(other) = other {
        assert_success(other).await;
    }
    assert_refreshed_once(&site);
}

async fn kill_at(step: Step) {
    let Some(mut standing) = StoppedRefresh::reach(step).await else { return };
    kill_process(standing.pid, Signal::KILL).expect("it is there");
    let status = tokio::time::timeout(TEST_TIMEOUT, standing.stepper.child.wait()).await.expect("it ends");
    assert!(!status.expect("a status").success());
    let mut next = standing.call_command();
    next.stdout(Stdio::piped()).stderr(Stdio::piped());
    let next = next.spawn_async().expect("bowline starts");
    let site = &standing.site;
    if step.login_after_kill() != LoginAfterKill::Lost {
        assert_success(next).await;
        assert_refreshed_once(site);
        return;
    }
    // A second use of the old token looks like theft: the authorization server revokes the login.
    let (code, said) = wait_for_output(next).await;
    assert!(code == Some(5) && said.contains("log in with `bowline login docs`"), "{code:?}: {said}");
    let counts = site.auth.counts();
    assert_eq!((counts.refreshes, counts.reuse_detected, counts.families_revoked), (1, 1, 1));
    site.logs_in().await;
    assert!(site.calls().contains("ahoy"));
}

macro_rules! at_every_step {
    ($($name:ident: $step:ident,)*) => {
        /// The process is stopped for longer than its lease lasts, and resumed.
        mod a_stopped_renewal_costs_no_login {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                stop_at(Step::$step).await;
            })*
        }

        /// The process is killed. Only the time between the request and the store can lose the
        /// login.
        mod a_killed_refresh_loses_only_what_was_on_its_way {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                kill_at(Step::$step).await;
            })*
        }
    };
}

at_every_step! {
    before_the_lock_is_taken: LockOpened,
    after_the_lock_is_taken: LockTaken,
    after_the_lease_is_written: LeaseWritten,
    after_the_login_is_read: LoginRead,
    after_the_connection_is_begun: ConnectionBegun,
    after_the_lease_is_confirmed: LeaseConfirmed,
    after_the_token_is_sent: TokenSent,
    after_the_answer_is_read: AnswerRead,
    after_the_tokens_are_written: TokensWritten,
    after_the_lease_is_returned: LeaseReturned,
    after_the_lock_is_returned: LockReturned,
}
