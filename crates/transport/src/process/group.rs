//! A server and everything it starts, ended together: a process group on Unix, a job object on
//! Windows.
//!
//! Processes that leave the group are found by their mark ([`super::mark`]) where it can be read.
//! If we are killed ourselves, the watchdog ([`super::watchdog`]) ends the group; on Windows the
//! system ends a job with the process that holds it.
//!
//! A group is identified by the process id of its leader, which the system does not reuse while the
//! leader is not reaped or any member lives. So signals are sent only while one of the two is
//! certain, or was a moment ago.

use std::io;
use std::thread;
use std::time::Duration;

use bowline_proto::fault::Exit;
use process_wrap::tokio::{ChildWrapper, CommandWrap};
#[cfg(unix)]
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid},
};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

#[cfg(unix)]
use super::{
    mark::{MARK_VARIABLE, Mark},
    strays::{Descendants, StrayProcesses},
    watchdog::WatchdogGuard,
};

/// A child and everything it starts. Dropping it kills them and reaps the child.
pub(super) struct Group {
    child: Box<dyn ChildWrapper>,
    pid: u32,
    /// Whether the child ended and was reaped.
    reaped: bool,
    #[cfg(unix)]
    strays: StrayProcesses,
    /// Dropped last, so that the watchdog is released only when the group is gone.
    #[cfg(unix)]
    _watchdog: WatchdogGuard,
}

/// How long a drop waits for a killed child, so that it leaves no zombie.
const REAP_TIMEOUT: Duration = Duration::from_millis(100);

impl Group {
    /// Starts a program as the leader of its own process group. It and everything it starts carry
    /// the mark. `watched` registers it with the watchdog, or is disabled.
    #[cfg(unix)]
    pub(super) fn spawn(mut command: Command, mark: &Mark, mut watched: WatchdogGuard) -> io::Result<Self> {
        command.env(MARK_VARIABLE, mark.as_str());
        let mut command = CommandWrap::from(command);
        command.wrap(process_wrap::tokio::ProcessGroup::leader());
        // Registered before the process exists, so that there is no moment at which we can be
        // killed and nobody knows of it.
        watched.add_mark(mark);
        Self::start(command, watched, StrayProcesses::from_mark(mark))
    }

    /// Starts a program in its own job object.
    #[cfg(windows)]
    pub(super) fn spawn(command: Command) -> io::Result<Self> {
        let mut command = CommandWrap::from(command);
        command.wrap(process_wrap::tokio::KillOnDrop).wrap(process_wrap::tokio::JobObject);
        let child = command.spawn()?;
        let pid = child.id().ok_or_else(no_id)?;
        Ok(Self { child, pid, reaped: false })
    }

    /// Starts a program as the leader of its own session: it has no terminal to read or to change.
    /// It carries no mark: what the shell of a user starts in the background belongs to the user.
    #[cfg(unix)]
    pub(super) fn spawn_session(command: Command) -> io::Result<Self> {
        let mut command = CommandWrap::from(command);
        command.wrap(process_wrap::tokio::ProcessSession);
        Self::start(command, WatchdogGuard::default(), StrayProcesses::default())
    }

    #[cfg(unix)]
    fn start(
        mut command: CommandWrap,
        mut watched: WatchdogGuard,
        strays: StrayProcesses,
    ) -> io::Result<Self> {
        let child = command.spawn()?;
        let pid = child.id().ok_or_else(no_id)?;
        watched.add_group(pid);
        Ok(Self { child, pid, reaped: false, strays, _watchdog: watched })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin().take()
    }

    pub(super) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout().take()
    }

    pub(super) fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr().take()
    }

    /// Waits for the child alone and reaps it. Dropping the future loses nothing.
    pub(super) async fn wait_for_exit(&mut self) -> Exit {
        // Not the wait of the wrapper: where we inherit orphans (as process 1 of a container), that
        // would wait for the whole group.
        let status = self.child.inner_mut().wait().await;
        self.reaped = true;
        let Ok(status) = status else { return Exit::Eof };
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
            return Exit::Signal(signal);
        }
        status.code().map_or(Exit::Eof, Exit::Code)
    }

    /// Processes that were seen to descend from the child.
    #[cfg(unix)]
    pub(super) fn descendants(&self) -> &Descendants {
        self.strays.descendants()
    }

    /// Whether detached processes were left at the last check.
    #[cfg(unix)]
    pub(super) fn has_detached(&self) -> bool {
        self.strays.has_detached()
    }

    /// Sends SIGTERM to all members. Windows has no such request.
    pub(super) fn terminate(&self) {
        #[cfg(unix)]
        {
            if self.has_members() {
                let _ = kill_process_group(pgid(self.pid), Signal::TERM);
            }
            self.terminate_strays();
        }
    }

    /// Sends SIGTERM to the known processes that left the group.
    pub(super) fn terminate_strays(&self) {
        #[cfg(unix)]
        self.strays.signal(Signal::TERM);
    }

    /// Kills all members.
    pub(super) fn kill(&mut self) {
        if self.has_members() {
            let _ = self.child.start_kill();
        }
        #[cfg(unix)]
        self.strays.signal(Signal::KILL);
    }

    /// Whether nothing is left after the child has ended. On Windows this cannot be known.
    pub(super) async fn is_cleared(&mut self) -> bool {
        #[cfg(unix)]
        {
            let group = self.has_members().then_some(self.pid);
            self.strays.have_all_ended(group).await
        }
        #[cfg(windows)]
        std::future::ready(false).await
    }

    /// Whether the group has members. A job object is not checked: killing it is always right.
    fn has_members(&self) -> bool {
        #[cfg(unix)]
        {
            if self.reaped {
                reap_orphans(pgid(self.pid));
            }
            test_kill_process_group(pgid(self.pid)) != Err(Errno::SRCH)
        }
        #[cfg(windows)]
        true
    }
}

impl Drop for Group {
    #[expect(clippy::disallowed_methods, reason = "a drop cannot await, and waits this little only")]
    fn drop(&mut self) {
        #[cfg(unix)]
        if !self.reaped {
            self.descendants().record(self.pid);
        }
        self.kill();
        let step = Duration::from_millis(1);
        let mut waited = Duration::ZERO;
        while !self.reaped && waited < REAP_TIMEOUT {
            match self.child.inner_mut().try_wait() {
                Ok(None) => thread::sleep(step),
                Ok(Some(_)) | Err(_) => self.reaped = true,
            }
            waited += step;
        }
        // Strays come last: the child could start more for as long as it lived.
        #[cfg(unix)]
        self.strays.kill_now();
    }
}

fn no_id() -> io::Error {
    io::Error::other("the process has no id")
}

/// Kills the group of a leader by its process id.
#[cfg(unix)]
pub(super) fn kill_group(pid: u32) {
    let _ = kill_process_group(pgid(pid), Signal::KILL);
}

/// Reaps orphans of a group: as process 1 of a container, or as a subreaper, we inherit them.
#[cfg(unix)]
fn reap_orphans(group: Pid) {
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
}

#[cfg(unix)]
fn pgid(pid: u32) -> Pid {
    // Process ids fit: the system counts them in the same type. Zero or less would address other
    // groups.
    let raw = i32::try_from(pid).ok().filter(|raw| *raw > 1);
    raw.and_then(Pid::from_raw).expect("a process id")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use process_wrap::tokio::CommandWrapper;

    use super::*;

    /// Simulates a group that hangs in the kernel: killing it has no effect.
    #[derive(Debug)]
    struct HangingWrapper;

    #[derive(Debug)]
    struct HangingChild(Box<dyn ChildWrapper>);

    impl CommandWrapper for HangingWrapper {
        fn wrap_child(
            &mut self,
            child: Box<dyn ChildWrapper>,
            _: &CommandWrap,
        ) -> io::Result<Box<dyn ChildWrapper>> {
            Ok(Box::new(HangingChild(child)))
        }
    }

    impl ChildWrapper for HangingChild {
        fn inner(&self) -> &dyn ChildWrapper {
            self.0.inner()
        }

        fn inner_mut(&mut self) -> &mut dyn ChildWrapper {
            self.0.inner_mut()
        }

        fn into_inner(self: Box<Self>) -> Box<dyn ChildWrapper> {
            self.0.into_inner()
        }

        fn start_kill(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Group {
        /// Like [`spawn`](Self::spawn), but killing the group has no effect. A drop still ends it
        /// by its mark.
        pub(in super::super) fn spawn_hanging(mut command: Command, mark: &Mark) -> io::Result<Self> {
            command.env(MARK_VARIABLE, mark.as_str());
            let mut command = CommandWrap::from(command);
            command.wrap(process_wrap::tokio::ProcessGroup::leader()).wrap(HangingWrapper);
            Self::start(command, WatchdogGuard::default(), StrayProcesses::from_mark(mark))
        }
    }
}
