//! Waiting for the exit of a process that is not a child of this one.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Returns whether a process has exited. One that is dead and not yet reaped by its parent has exited.
pub(crate) fn has_exited(pid: u32) -> bool {
    open(pid).is_none_or(|process| poll_exit(&process, Duration::ZERO))
}

/// Waits for the exit of any process, and returns whether it exited within `timeout`. A process
/// that is dead and not yet reaped by its adoptive parent has exited.
pub async fn wait_for_exit(pid: u32, timeout: Duration) -> bool {
    let Some(process) = open(pid) else { return true };
    let watching = tokio::task::spawn_blocking(move || poll_exit(&process, timeout));
    watching.await.expect("no panic")
}

/// Opens a process. `None` if it has exited.
fn open(pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => Some(process),
        Err(Errno::SRCH) => None,
        Err(error) => panic!("{pid:?} cannot be watched: {error}"),
    }
}

fn poll_exit(process: &OwnedFd, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).expect("no test waits for centuries");
    loop {
        // A pidfd becomes readable when the process exits.
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            ready => return ready.expect("a process can be waited for") == 1,
        }
    }
}
