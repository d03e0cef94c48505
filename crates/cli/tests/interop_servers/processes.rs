//! The processes below a gateway, which are watched until they have ended.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// All processes that were seen below one process. Each is held by a descriptor, so that another process
/// that gets its id later is never mistaken for it.
pub(crate) struct WatchedProcesses {
    root: u32,
    seen: BTreeMap<ProcessIdentity, WatchedProcess>,
}

/// A process: its id, and the time of its start in ticks of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    started: u64,
}

struct WatchedProcess {
    descriptor: OwnedFd,
    name: String,
}

/// What the kernel says of a process.
struct ProcessStat {
    identity: ProcessIdentity,
    parent: u32,
    name: String,
}

impl WatchedProcesses {
    /// Watches what is below this process.
    pub(crate) fn below(root: u32) -> Self {
        Self { root, seen: BTreeMap::new() }
    }

    /// Records the processes that are below the root now, and returns them.
    pub(crate) fn record(&mut self) -> Vec<ProcessIdentity> {
        let processes: BTreeMap<u32, ProcessStat> =
            all_processes().map(|process| (process.identity.pid, process)).collect();
        let parent = |pid: &u32| processes.get(pid).map(|process| process.parent);
        let is_below = |process: &&ProcessStat| {
            std::iter::successors(Some(process.parent), parent).any(|it| it == self.root)
        };
        let below: Vec<_> = processes.values().filter(is_below).collect();
        for process in &below {
            let ProcessStat { identity, name, .. } = process;
            if !self.seen.contains_key(identity)
                && let Ok(descriptor) = pidfd_open(to_pid(identity.pid), PidfdFlags::empty())
            {
                self.seen.insert(*identity, WatchedProcess { descriptor, name: name.clone() });
            }
        }
        below.into_iter().map(|process| process.identity).collect()
    }

    /// Sends SIGKILL to a process that was recorded, and waits until it has ended.
    pub(crate) async fn kill(&self, identity: ProcessIdentity) {
        let process = &self.seen[&identity];
        pidfd_send_signal(&process.descriptor, Signal::KILL).expect("it runs");
        self.wait_for_exit(|running| running == identity).await;
    }

    /// Waits until all processes that were ever recorded have ended.
    pub(crate) async fn wait_for_exit_of_all(&self) {
        self.wait_for_exit(|_| true).await;
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.len()
    }

    async fn wait_for_exit(&self, is_awaited: impl Fn(ProcessIdentity) -> bool) {
        let running = || {
            let awaited = self.seen.iter().filter(|(identity, _)| is_awaited(**identity));
            awaited.filter(|(_, process)| process.is_running()).map(|(identity, it)| (identity.pid, &it.name))
        };
        let waiting = async {
            while running().next().is_some() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let waited = tokio::time::timeout(EXIT_TIMEOUT, waiting).await;
        assert!(waited.is_ok(), "still running: {:?}", running().collect::<Vec<_>>());
    }
}

impl WatchedProcess {
    /// A process that is dead and not yet reaped by its parent does not run.
    fn is_running(&self) -> bool {
        // The descriptor becomes readable when the process ends.
        let ready = poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&Timespec::default()));
        ready.expect("a process can be asked") == 0
    }
}

/// Reads the list of processes. One that ends meanwhile is left out.
fn all_processes() -> impl Iterator<Item = ProcessStat> {
    let names = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    names.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name, in parentheses, can contain anything.
        let (beginning, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ').skip(1);
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(FIELDS_TO_START_TIME)?.parse().ok()?;
        let name = beginning.split_once('(')?.1.to_owned();
        Some(ProcessStat { identity: ProcessIdentity { pid, started }, parent, name })
    })
}

fn to_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).expect("a pid")
}

/// Fields of `/proc/PID/stat` between the parent and the start time.
const FIELDS_TO_START_TIME: usize = 17;
const EXIT_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
