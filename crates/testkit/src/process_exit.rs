//! Waiting for the exit of a process that is not a child of this one.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Waits for the exit of any process, and returns whether it exited within `timeout`. A process
/// that is dead and not yet reaped by its adoptive parent has exited.
pub async fn wait_for_exit(pid: u32, timeout: Duration) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return true,
        Err(error) => panic!("{pid:?} cannot be watched: {error}"),
    };
    let timeout = Timespec::try_from(timeout).expect("no test waits for centuries");
    let watching = tokio::task::spawn_blocking(move || {
        loop {
            // A pidfd becomes readable when the process exits.
            match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)) {
                Err(Errno::INTR) => {}
                ready => return ready.expect("a process can be waited for") == 1,
            }
        }
    });
    watching.await.expect("no panic")
}
