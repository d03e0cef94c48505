//! Decides which processes provably belong to a server, and so may be ended with it.
//!
//! Proof is one of: running as our user and carrying the mark of the server; running as our user
//! and being its leader, by id and start time; or being in the group of its leader while the leader
//! lives, because for that long nobody else can have the group's number. What was proved once stays
//! proved, by id and start time. Parents prove nothing: a server may start a program for its user
//! and remove the mark.
//!
//! Not every process with the mark is ended. A server may open a browser for a login, and the
//! browser belongs to the user from then on. Such a process is *detached*: it shares only the
//! environment with the server. Its parent has ended and is no longer among the living processes of
//! the server, and it has its own session. Whatever it starts is detached too. Processes that still
//! descend from the server when the server is told to end are not detached.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::mark::Mark;
#[cfg(target_os = "linux")]
use super::table::identify;
use super::table::{ProcessIdentity, ProcessRow, ProcessTable};

/// The member processes of one server.
#[derive(Clone, Debug)]
pub(super) struct MemberProcesses {
    mark: Mark,
    /// Session in which the server was started. If it is unknown (`None`), no process counts as
    /// detached.
    session: Option<u32>,
    leader: Option<ProcessIdentity>,
    proven: BTreeSet<ProcessIdentity>,
}

impl MemberProcesses {
    /// Members are the processes that carry the mark.
    pub(super) fn from_mark(mark: Mark, session: Option<u32>) -> Self {
        Self { mark, session, leader: None, proven: BTreeSet::new() }
    }

    /// Members are also the processes in the group of `leader`.
    pub(super) fn from_leader(mark: Mark, session: Option<u32>, leader: ProcessIdentity) -> Self {
        Self { leader: Some(leader), ..Self::from_mark(mark, session) }
    }

    /// Adds processes that were seen to descend from the living server.
    pub(super) fn add_proven(&mut self, descendants: impl IntoIterator<Item = ProcessIdentity>) {
        self.proven.extend(descendants);
    }

    /// Finds the living members that may be ended, and remembers them as proven.
    pub(super) fn find_alive(&mut self, table: &ProcessTable) -> Vec<ProcessIdentity> {
        let leader = self.leader.as_ref().and_then(|leader| table.get(leader));
        let leader = leader.filter(|row| row.ours);
        let group = leader.filter(|row| row.group == row.id.pid).map(|row| row.group);
        for row in table.rows() {
            if leader.is_some_and(|leader| leader.id == row.id) || group == Some(row.group) {
                self.proven.insert(row.id.clone());
            }
        }
        for row in table.rows() {
            if self.is_marked(row) && !self.is_detached(row, table) {
                self.proven.insert(row.id.clone());
            }
        }
        self.proven.iter().filter(|id| table.is_alive(id)).cloned().collect()
    }

    /// Finds the living processes that are detached. To be called after
    /// [`find_alive`](Self::find_alive).
    pub(super) fn find_detached(&self, table: &ProcessTable) -> Vec<ProcessIdentity> {
        let rows = table.rows().filter(|row| self.is_marked(row) && !row.zombie);
        rows.map(|row| row.id.clone()).filter(|id| !self.proven.contains(id)).collect()
    }

    fn is_marked(&self, row: &ProcessRow) -> bool {
        row.ours && row.mark.as_ref() == Some(&self.mark)
    }

    /// Whether the topmost ancestor that carries the mark has left the server.
    fn is_detached(&self, row: &ProcessRow, table: &ProcessTable) -> bool {
        let Some(session) = self.session else { return false };
        let mut root = row;
        // The table is not read atomically, so that it can seem to contain a cycle.
        for _ in 0..MAX_ANCESTRY_DEPTH {
            if self.proven.contains(&root.id) {
                return false;
            }
            match table.get_by_pid(root.parent).filter(|parent| self.is_marked(parent)) {
                Some(parent) => root = parent,
                None => return root.session != session,
            }
        }
        false
    }

    /// Reaps ended members that are our children: as process 1 of a container, or as a subreaper,
    /// we inherit orphans.
    ///
    /// Only for callers that end members: the exit status of a server that just ended belongs to
    /// its supervisor.
    pub(super) fn reap_zombies(&self, table: &ProcessTable) {
        for row in self.proven.iter().filter_map(|id| table.get(id)) {
            reap(row);
        }
    }
}

/// Longest chain of ancestors to follow: more generations than a server has.
const MAX_ANCESTRY_DEPTH: usize = 1000;

/// Signals each process.
pub(super) fn signal_all(those: &[ProcessIdentity], signal: Signal) {
    for id in those {
        // Ids below 2 are never processes that we started, and some address other processes than
        // one.
        if let Some(pid) = to_pid(id).filter(|pid| !pid.is_init()) {
            signal_one(id, pid, signal);
        }
    }
}

/// Signals one process through a pidfd: its number may have been reused since it was looked up.
/// While the pidfd is open the number cannot be reused, so the identity is checked again first.
#[cfg(target_os = "linux")]
fn signal_one(id: &ProcessIdentity, pid: Pid, signal: Signal) {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => {
            if identify(id.pid).is_ok_and(|now| now == *id) {
                let _ = pidfd_send_signal(&process, signal);
            }
        }
        // A kernel before 5.3, or a sandbox that does not know pidfds.
        Err(Errno::NOSYS | Errno::PERM) => {
            let _ = kill_process(pid, signal);
        }
        Err(_) => {}
    }
}

#[cfg(not(target_os = "linux"))]
fn signal_one(_: &ProcessIdentity, pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

fn reap(row: &ProcessRow) {
    if row.zombie
        && row.parent == std::process::id()
        && let Some(pid) = to_pid(&row.id)
    {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

fn to_pid(id: &ProcessIdentity) -> Option<Pid> {
    i32::try_from(id.pid).ok().and_then(Pid::from_raw)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn reused_pid_is_not_signaled() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let id = identify(child.id()).unwrap();
        let other = ProcessIdentity { start: "1".to_owned(), ..id.clone() };
        signal_all(&[other], Signal::KILL);
        // If the first signal had been sent, this one would not be what ended the child.
        signal_all(&[id], Signal::TERM);
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    }
}
