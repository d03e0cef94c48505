//! A refresh that is stopped or killed at each of its steps.
//!
//! A process is stopped right after a system call that marks a step, for longer than its lease
//! lasts. Another process needs the token meanwhile. The refresh token must be used once, by either
//! process, and both must succeed. Leases use the time of day, which is set ahead for the processes
//! of the test, so no test has to wait.

use std::process::Stdio;
use std::time::Duration;

use super::stepper::{Point, Stepper, can_trace};
use super::{PATIENCE, Site};
use crate::clock::Clock;
use crate::context::Command;

/// How far the clock advances while the process is stopped: a lease lasts 30 seconds.
const STANDSTILL: i64 = 33;

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
enum Other {
    /// It keeps trying to get the lock.
    Waits,
    /// It gets a valid token and exits.
    Ends,
}

/// The state of the login after the process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Login {
    /// The token was not sent: the next process uses it.
    Unused,
    /// The token was used and its successor lost: a person has to log in again.
    Lost,
    /// The successor is stored.
    Renewed,
}

impl Step {
    /// Returns the point at which the step is complete, for this port of the authorization server.
    pub(super) fn point(self, port: u16) -> Point {
        let (lock, peer) = ("/store.db-locks/", format!("->127.0.0.1:{port}]"));
        match self {
            Self::LockOpened => Point::first("openat", move |call| call.contains(lock)),
            Self::LockTaken => Point::first("flock", move |call| call.contains(lock)),
            Self::LockReturned => Point::first("close", move |call| call.contains(lock)),
            // Each of these is its own transaction.
            Self::LeaseWritten => Self::written(1),
            Self::LeaseConfirmed => Self::written(2),
            Self::TokensWritten => Self::written(3),
            Self::LeaseReturned => Self::written(4),
            Self::LoginRead => {
                let (mut log, mut is_reading) = (Log::default(), false);
                let is = move |call: &str| {
                    log.see(call);
                    if !call.contains(INDEX) {
                        return false;
                    }
                    let is_read = is_reading && call.contains("F_UNLCK");
                    is_reading = log.commits == 1 && !log.is_writing && call.contains("F_RDLCK");
                    is_read
                };
                Point { stops: "fcntl", others: "flock,pwrite64", is: Box::new(is) }
            }
            Self::ConnectionBegun => {
                let port = format!("sin_port=htons({port})");
                Point::first("connect", move |call| call.contains(&port))
            }
            Self::TokenSent => {
                let is = move |call: &str| call.contains(&peer) && call.contains("\"POST ");
                Point::first("sendto,sendmsg,write,writev", is)
            }
            Self::AnswerRead => {
                let is = move |call: &str| call.contains(&peer) && call.contains("\"HTTP/1.1 200");
                Point::first("read,readv,recvfrom,recvmsg", is)
            }
        }
    }

    /// Returns the point at which the transaction with this number is on disk.
    fn written(number: usize) -> Point {
        let mut log = Log::default();
        let is = move |call: &str| {
            log.see(call);
            log.has_frames
                && log.begun == number
                && call.starts_with("fsync(")
                && call.contains("/store.db-wal>")
        };
        Point { stops: "fsync", others: "fcntl,flock,pwrite64", is: Box::new(is) }
    }

    fn other(self) -> Other {
        match self {
            Self::LockOpened | Self::LeaseReturned | Self::LockReturned => Other::Ends,
            _ => Other::Waits,
        }
    }

    fn login(self) -> Login {
        match self {
            Self::TokenSent | Self::AnswerRead => Login::Lost,
            step if step < Self::TokenSent => Login::Unused,
            _ => Login::Renewed,
        }
    }
}

/// The progress of a process's transactions, derived from its use of the SQLite WAL.
#[derive(Default)]
struct Log {
    begun: usize,
    commits: usize,
    is_writing: bool,
    /// Whether a frame of the transaction was written, not only the header of a new WAL.
    has_frames: bool,
}

/// The WAL index, as strace prints it.
const INDEX: &str = "/store.db-shm>";

impl Log {
    fn see(&mut self, call: &str) {
        // The write lock is a lock on this byte of the index.
        if call.contains(INDEX) && call.contains("l_start=120, l_len=1}) = 0") {
            let begins = call.contains("F_WRLCK");
            self.begun += usize::from(begins);
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

impl Point {
    fn first(stops: &'static str, is: impl Fn(&str) -> bool + Send + 'static) -> Self {
        Self { stops, others: "", is: Box::new(is) }
    }
}

/// A refresh that is stopped at a step.
struct Standing {
    site: Site,
    clock: Clock,
    stepper: Stepper,
    pid: nix::unistd::Pid,
}

impl Standing {
    /// Returns `None` where strace or a C compiler is missing.
    async fn at(step: Step) -> Option<Self> {
        let site = Site::new().await;
        let Some(clock) = Clock::new(&site.context).filter(|_| can_trace()) else {
            eprintln!("not checked: it needs strace and a C compiler");
            return None;
        };
        site.logs_in().await;
        site.auth.revoke_all_access();
        let port = url_port(&site.auth.issuer());
        let mut stepper = Stepper::start(&site.context, caller(&site, &clock), step.point(port));
        let pid = stepper.held().await;
        // The server has received everything that was sent before the process is resumed or killed.
        let sent = step >= Step::TokenSent;
        if sent {
            site.auth.wait_until(|auth| auth.refreshes() == 1, PATIENCE).await;
        }
        assert_eq!(site.auth.count("refresh_token"), usize::from(sent));
        clock.advance(STANDSTILL);
        Some(Self { site, clock, stepper, pid })
    }

    /// Makes another command that needs the token.
    fn other(&self) -> Command {
        caller(&self.site, &self.clock)
    }
}

pub(super) fn url_port(url: &str) -> u16 {
    url.rsplit(':').next().and_then(|port| port.trim_end_matches('/').parse().ok()).expect("a port")
}

fn caller(site: &Site, clock: &Clock) -> Command {
    let mut command = site.bowline(&["call", "docs", "echo", "message=ahoy", "--timeout", "120"]);
    clock.set_for(&mut command);
    command
}

/// Waits for a process, and returns its exit code and output.
async fn ended(child: tokio::process::Child) -> (Option<i32>, String) {
    let output =
        tokio::time::timeout(PATIENCE * 3, child.wait_with_output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), said.into_owned())
}

async fn succeeds(child: tokio::process::Child) {
    let (code, said) = ended(child).await;
    assert!(code == Some(0) && said.contains("ahoy"), "{code:?}: {said}");
}

/// Checks that one refresh token was used once, and that the next process uses its successor.
fn is_renewed_once(site: &Site) {
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
    let Some(standing) = Standing::at(step).await else { return };
    let other = match step.other() {
        Other::Ends => {
            let mut other = standing.other();
            other.stdout(Stdio::piped()).stderr(Stdio::piped());
            succeeds(other.spawn_async().expect("bowline starts")).await;
            None
        }
        Other::Waits => {
            let trace = standing.site.context.path("other");
            let path = trace.display().to_string();
            let tracing = ["-f", "-qq", "-o", &path, "-e", "trace=flock"];
            let mut other = standing.other().run_by("strace", tracing);
            other.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut other = other.spawn_async().expect("strace starts");
            let refused = async {
                let count = || std::fs::read_to_string(&trace).unwrap_or_default().matches("EAGAIN").count();
                while count() < 3 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                waits = tokio::time::timeout(PATIENCE, refused) => waits.expect("it tries to get the lock"),
                ended = other.wait() => panic!("it does not wait: {ended:?}, {:?}", standing.site.auth.counts()),
            }
            Some(other)
        }
    };
    let Standing { site, stepper, pid, .. } = standing;
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("it is there");
    succeeds(stepper.child).await;
    if let Some(other) = other {
        succeeds(other).await;
    }
    is_renewed_once(&site);
}

async fn kill_at(step: Step) {
    let Some(mut standing) = Standing::at(step).await else { return };
    nix::sys::signal::kill(standing.pid, nix::sys::signal::Signal::SIGKILL).expect("it is there");
    let status = tokio::time::timeout(PATIENCE, standing.stepper.child.wait()).await.expect("it ends");
    assert!(!status.expect("a status").success());
    let mut next = standing.other();
    next.stdout(Stdio::piped()).stderr(Stdio::piped());
    let next = next.spawn_async().expect("bowline starts");
    let site = &standing.site;
    if step.login() != Login::Lost {
        succeeds(next).await;
        is_renewed_once(site);
        return;
    }
    // A second use of the old token looks like theft: the authorization server revokes the login.
    let (code, said) = ended(next).await;
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
        mod a_killed_renewal_loses_only_what_was_on_its_way {
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
