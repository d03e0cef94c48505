//! Which processes are provably a server's, and so may be ended with it.
//!
//! Proof is one of: running as our user and carrying its mark; running as our user and being its leader, by
//! id and start time; being in the group of its leader while that lives, for as long as it does nobody
//! else can have the group's number. What was proved once stays proved, by id and start time. Parents
//! prove nothing: a server may start a program for its user and take the mark off it.
//!
//! Not all that carry the mark are ended. A server may open a browser for a login of its own, and the browser is the
//! user's from then on. Such a process has left everything but its environment: its parent has ended and was none of
//! the server's living processes any more, and it has a session of its own. It is *detached*, and so is what it starts.
//! Whatever still descends from the server when the server is told to end is not.

use std::collections::BTreeSet;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::mark::Mark;
#[cfg(target_os = "linux")]
use super::table::identity;
use super::table::{Identity, Row, Table};

/// The processes of one server.
#[derive(Clone, Debug)]
pub(super) struct Kin {
    mark: Mark,
    /// The session that the server was started in. `None` if it is not known: then nobody is taken for detached.
    session: Option<u32>,
    leader: Option<Identity>,
    proven: BTreeSet<Identity>,
}

impl Kin {
    /// Those that carry the mark.
    pub(super) fn marked(mark: Mark, session: Option<u32>) -> Self {
        Self { mark, session, leader: None, proven: BTreeSet::new() }
    }

    /// Those too that are in the group of this one.
    pub(super) fn led(mark: Mark, session: Option<u32>, leader: Identity) -> Self {
        Self { leader: Some(leader), ..Self::marked(mark, session) }
    }

    /// These descend from the server, which lives.
    pub(super) fn prove(&mut self, descendants: impl IntoIterator<Item = Identity>) {
        self.proven.extend(descendants);
    }

    /// Those who live and may be ended. Changes nothing but what is known.
    pub(super) fn look_in(&mut self, table: &Table) -> Vec<Identity> {
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

    /// Those who live and are the user's by now. To be asked after [`look_in`](Self::look_in).
    pub(super) fn detached_in(&self, table: &Table) -> Vec<Identity> {
        let rows = table.rows().filter(|row| self.is_marked(row) && !row.zombie);
        rows.map(|row| row.id.clone()).filter(|id| !self.proven.contains(id)).collect()
    }

    fn is_marked(&self, row: &Row) -> bool {
        row.ours && row.mark.as_ref() == Some(&self.mark)
    }

    /// Whether the highest of those above it that carry the mark has left the server.
    fn is_detached(&self, row: &Row, table: &Table) -> bool {
        let Some(session) = self.session else { return false };
        let mut root = row;
        // The table is not read in one moment, so that it can seem to have a circle.
        for _ in 0..DEEPEST {
            if self.proven.contains(&root.id) {
                return false;
            }
            match table.at(root.parent).filter(|parent| self.is_marked(parent)) {
                Some(parent) => root = parent,
                None => return root.session != session,
            }
        }
        false
    }

    /// Reaps those who ended and are ours to reap: as process 1 of a container, or as a subreaper, orphans are.
    ///
    /// Only for who ends them: the exit of a server that just ended is its supervisor's to see.
    pub(super) fn reap_in(&self, table: &Table) {
        for row in self.proven.iter().filter_map(|id| table.get(id)) {
            reap(row);
        }
    }
}

/// More generations than a server has.
const DEEPEST: usize = 1000;

/// Signals each of them.
pub(super) fn signal(those: &[Identity], signal: Signal) {
    for id in those {
        // Nothing below is a process that we could have started, and some mean others than themselves.
        if let Some(pid) = i32::try_from(id.pid).ok().filter(|pid| *pid > 1) {
            signal_one(id, pid, signal);
        }
    }
}

/// By a handle on the process, where the system has those: its number may have been given to another since it was
/// looked up. Once there is a handle it cannot be, so that it is looked at again with the handle in hand.
#[cfg(target_os = "linux")]
fn signal_one(id: &Identity, pid: i32, signal: Signal) {
    use rustix::io::Errno;
    use rustix::process::{Pid as Number, PidfdFlags, Signal as Name, pidfd_open, pidfd_send_signal};

    let (Some(number), Some(name)) = (Number::from_raw(pid), Name::from_named_raw(signal as i32)) else {
        return;
    };
    match pidfd_open(number, PidfdFlags::empty()) {
        Ok(process) => {
            if identity(id.pid).is_ok_and(|now| now == *id) {
                let _ = pidfd_send_signal(&process, name);
            }
        }
        // A kernel before 5.3, or a sandbox that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => {
            let _ = kill(Pid::from_raw(pid), signal);
        }
        Err(_) => {}
    }
}

#[cfg(not(target_os = "linux"))]
fn signal_one(_: &Identity, pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

fn reap(row: &Row) {
    if row.zombie
        && row.parent == std::process::id()
        && let Ok(pid) = i32::try_from(row.id.pid)
    {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_has_the_number_of_another_is_not_signaled() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let id = identity(child.id()).unwrap();
        let other = Identity { start: "1".to_owned(), ..id.clone() };
        signal(&[other], Signal::SIGKILL);
        // Had the first signal been sent, this one would not be what ended it.
        signal(&[id], Signal::SIGTERM);
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
    }
}
