//! The watchdog: a shell that ends the servers if this process is killed with SIGKILL, or just
//! exits.
//!
//! There is one small shell per process of ours, started with the first server or hook. It reads
//! from a socket of which only we hold the other end, so the system tells it of our end, whatever
//! caused it. The rest is in `watchdog.sh`. It is a shell because a library cannot start its host's
//! executable again, and every Unix has one; it has its own session, so that signals of a terminal
//! do not reach it; and it keeps nothing of our environment but PATH, so that no bowline above us
//! takes it for one of our strays.
//!
//! It may end only what was registered and not removed: groups, and processes with a mark
//! ([`super::mark`]) that are not detached ([`super::members`]). The number of a group cannot have
//! been reused by then: its leader is our child, and the number stays taken until we have reaped it
//! and cleared its group. The mark is registered before the process is started, so that no server
//! is unknown at any moment where marks can be read.
//!
//! Not used: `PR_SET_PDEATHSIG`. Linux ties it to the *thread* that started the child, so a server
//! would die with the worker thread that happened to start it; it does not reach grandchildren
//! either. Nor a subreaper, which changes what the host's other children do, nor control groups,
//! which most users may not create.

use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use parking_lot::Mutex;
use process_wrap::std::{ChildWrapper, CommandWrap, ProcessSession};

use super::mark::Mark;

/// Registers processes with the watchdog, which ends them if we cannot. Drop it when they have
/// ended.
#[derive(Debug, Default)]
pub struct WatchdogGuard {
    targets: Vec<WatchTarget>,
    /// Whether the watchdog is not used, because the host has its own.
    disabled: bool,
}

/// One entry of the watchdog.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WatchTarget {
    Group(u32),
    Mark(Mark),
}

impl WatchdogGuard {
    /// Registers a new unique mark, and returns it as the value of
    /// [`MARK_VARIABLE`](super::MARK_VARIABLE) for a process that is about to be started.
    pub fn with_new_mark() -> (Self, String) {
        let (mut watched, mark) = (Self::default(), Mark::new());
        watched.add_mark(&mark);
        (watched, mark.into())
    }

    /// Creates a guard that registers nothing.
    pub(super) fn disabled() -> Self {
        Self { targets: Vec::new(), disabled: true }
    }

    pub(super) fn add_mark(&mut self, mark: &Mark) {
        self.add(WatchTarget::Mark(mark.clone()));
    }

    /// Adds the process group of `leader`, which is a child of ours.
    pub fn add_group(&mut self, leader: u32) {
        self.add(WatchTarget::Group(leader));
    }

    fn add(&mut self, ward: WatchTarget) {
        if self.disabled {
            return;
        }
        with_watchdog(|watchdog| watchdog.add(ward.clone()));
        self.targets.push(ward);
    }
}

impl Drop for WatchdogGuard {
    fn drop(&mut self) {
        for ward in self.targets.drain(..) {
            with_watchdog(|watchdog| watchdog.remove(&ward));
        }
    }
}

/// Runs `act` on the watchdog of this process.
fn with_watchdog(act: impl FnOnce(&mut Watchdog)) {
    static WATCHDOG: Mutex<Watchdog> = Mutex::new(Watchdog::new());
    act(&mut WATCHDOG.lock());
}

/// The registered targets, and the shell that knows them.
struct Watchdog {
    targets: BTreeSet<WatchTarget>,
    shell: Option<WatchdogShell>,
    /// Whether a missing watchdog was logged: once is enough.
    has_warned: bool,
}

impl Watchdog {
    const fn new() -> Self {
        Self { targets: BTreeSet::new(), shell: None, has_warned: false }
    }

    fn add(&mut self, ward: WatchTarget) {
        let line = format!("+{ward}\n");
        self.targets.insert(ward);
        self.send(&line);
    }

    fn remove(&mut self, ward: &WatchTarget) {
        self.targets.remove(ward);
        self.send(&format!("-{ward}\n"));
    }

    /// Sends a line to the shell. A shell that cannot be reached is replaced by one that is told
    /// every target.
    fn send(&mut self, line: &str) {
        if self.shell.as_mut().is_some_and(|shell| shell.send(line).is_ok()) {
            return;
        }
        if let Some(shell) = self.shell.take() {
            shell.end();
        }
        if self.targets.is_empty() {
            return;
        }
        let started = WatchdogShell::start().and_then(|mut shell| match shell.send_all(&self.targets) {
            Ok(()) => Ok(shell),
            Err(error) => {
                shell.end();
                Err(error)
            }
        });
        match started {
            Ok(shell) => self.shell = Some(shell),
            Err(error) if !self.has_warned => {
                self.has_warned = true;
                tracing::warn!(%error, "no watchdog: servers may outlive this process if it is killed");
            }
            Err(_) => {}
        }
    }
}

impl fmt::Display for WatchTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(leader) => write!(f, "group {leader}"),
            Self::Mark(mark) => write!(f, "mark {mark}"),
        }
    }
}

/// A running watchdog shell.
struct WatchdogShell {
    child: Box<dyn ChildWrapper>,
    /// A socket rather than a pipe: writing to a dead one is an error, and raises no SIGPIPE in our
    /// host.
    socket: UnixStream,
}

const SHELL: &str = "/bin/sh";
const SCRIPT: &str = include_str!("watchdog.sh");

impl WatchdogShell {
    fn start() -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        // A stopped watchdog must not block us.
        socket.set_nonblocking(true)?;
        let mut command = Command::new(SHELL);
        command.args(["-c", SCRIPT, "bowline-watchdog"]).env_clear();
        if let Some(path) = env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession);
        let mut shell = Self { child: command.spawn()?, socket };
        if let Some(session) = super::table::current_session() {
            shell.send(&format!("+session {session}\n"))?;
        }
        Ok(shell)
    }

    fn send(&mut self, line: &str) -> io::Result<()> {
        self.socket.write_all(line.as_bytes())
    }

    fn send_all(&mut self, wards: &BTreeSet<WatchTarget>) -> io::Result<()> {
        wards.iter().try_for_each(|ward| self.send(&format!("+{ward}\n")))
    }

    /// Ends the shell before it can take the end of its input for ours.
    fn end(mut self) {
        if self.child.start_kill().is_ok() {
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    fn pid(watchdog: &Watchdog) -> u32 {
        watchdog.shell.as_ref().unwrap().child.id()
    }

    /// A group number that no process has.
    const UNUSED_GROUP: WatchTarget = WatchTarget::Group(i32::MAX as u32);

    #[test]
    fn shell_starts_with_the_first_target() {
        let mut watchdog = Watchdog::new();
        watchdog.remove(&UNUSED_GROUP);
        assert!(watchdog.shell.is_none());
        watchdog.add(UNUSED_GROUP);
        assert!(watchdog.shell.is_some());
        watchdog.remove(&UNUSED_GROUP);
        let shell = watchdog.shell.unwrap();
        drop(shell.socket);
        // With nothing to end, it exits at once and successfully.
        let mut child = shell.child;
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn killed_shell_is_replaced() {
        let mut watchdog = Watchdog::new();
        watchdog.add(UNUSED_GROUP);
        let first = pid(&watchdog);
        let shell = watchdog.shell.as_mut().unwrap();
        shell.child.start_kill().unwrap();
        shell.child.wait().unwrap();
        watchdog.add(WatchTarget::Mark(Mark::new()));
        assert_ne!(pid(&watchdog), first);
        watchdog.shell.take().unwrap().end();
    }

    #[test]
    fn stopped_shell_is_replaced_without_blocking() {
        let mut watchdog = Watchdog::new();
        watchdog.add(UNUSED_GROUP);
        let first = pid(&watchdog);
        let raw = Pid::from_raw(first.try_into().unwrap()).unwrap();
        kill_process(raw, Signal::STOP).unwrap();
        while pid(&watchdog) == first {
            watchdog.remove(&WatchTarget::Mark(Mark::new()));
        }
        watchdog.shell.take().unwrap().end();
    }
}
