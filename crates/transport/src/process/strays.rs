//! Finds and ends what is left of a server whose own process has ended: in its group, and outside
//! of it by its mark.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::mark::Mark;
use super::members::{MemberProcesses, signal_all};
use super::table::{ProcessIdentity, ProcessTable, current_session};

/// The processes of one server that left its group.
#[derive(Clone, Debug, Default)]
pub(super) struct StrayProcesses {
    /// `None` if strays cannot exist, or no longer exist.
    members: Option<MemberProcesses>,
    /// Living strays of the last check.
    alive: Vec<ProcessIdentity>,
    /// Whether the last check found detached processes.
    has_detached: bool,
    descendants: Descendants,
}

/// Processes that were seen to descend from a server while it lived: they are ended with it, even
/// if they leave it later. Clones share the set.
#[derive(Clone, Debug, Default)]
pub(super) struct Descendants(Arc<Mutex<BTreeSet<ProcessIdentity>>>);

impl Descendants {
    /// Records who descends from the server now. To be called before the server is told to end: its
    /// children lose their parent then.
    pub(super) fn record(&self, leader: u32) {
        #[cfg(target_os = "linux")]
        if let Ok(found) = super::table::descendants(leader) {
            self.0.lock().extend(found);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = leader;
    }

    fn snapshot(&self) -> BTreeSet<ProcessIdentity> {
        self.0.lock().clone()
    }
}

/// Time between two checks that must both find nothing: a program that is just being started shows
/// no environment for a moment.
const RECHECK_INTERVAL: Duration = Duration::from_millis(10);
/// How often a drop kills what it finds. A stray that starts others faster than they can be killed
/// is left alone.
const MAX_KILL_ROUNDS: usize = 5;

impl StrayProcesses {
    pub(super) fn from_mark(mark: &Mark) -> Self {
        Self { members: Some(MemberProcesses::from_mark(mark.clone(), current_session())), ..Self::default() }
    }

    pub(super) fn descendants(&self) -> &Descendants {
        &self.descendants
    }

    /// Whether detached processes were left at the last check.
    pub(super) fn has_detached(&self) -> bool {
        self.has_detached
    }

    /// Whether nothing is left. To be called once the server itself has ended: then no new process
    /// can appear, and a positive result is final.
    ///
    /// `group` is the group of the server if the system says that it has members. These may be
    /// zombies, if their parent reaps them late or never.
    pub(super) async fn have_all_ended(&mut self, group: Option<u32>) -> bool {
        if self.members.is_none() || !MARKS_ARE_VISIBLE {
            return group.is_none();
        }
        if !self.refresh(group).await {
            return false;
        }
        sleep(RECHECK_INTERVAL).await;
        let gone = self.refresh(group).await;
        if gone {
            self.members = None;
        }
        gone
    }

    /// Checks on a blocking thread: a machine can have thousands of processes.
    async fn refresh(&mut self, group: Option<u32>) -> bool {
        let mut looking = self.clone();
        let looked = spawn_blocking(move || (looking.refresh_blocking(group), looking)).await;
        // This fails only while the runtime shuts down; then the drop is next.
        let Ok((gone, looked)) = looked else { return false };
        *self = looked;
        gone
    }

    /// Updates what is known from the process table. Returns whether nothing is left.
    fn refresh_blocking(&mut self, group: Option<u32>) -> bool {
        let Some(kin) = &mut self.members else { return group.is_none() };
        kin.add_proven(self.descendants.snapshot());
        // Without a process table only the group is known.
        let Ok(table) = ProcessTable::read() else { return group.is_none() };
        self.alive = kin.find_alive(&table);
        self.has_detached = !kin.find_detached(&table).is_empty();
        kin.reap_zombies(&table);
        // Members of the group are signaled through the group.
        self.alive.retain(|id| group.is_none() || table.get(id).map(|row| row.group) != group);
        self.alive.is_empty() && !group.is_some_and(|group| table.has_group(group))
    }

    /// Signals the strays of the last check.
    pub(super) fn signal(&self, number: Signal) {
        signal_all(&self.alive, number);
    }

    /// Kills all strays, without waiting.
    pub(super) fn kill_now(&mut self) {
        if self.members.is_none() || !MARKS_ARE_VISIBLE {
            return;
        }
        for _ in 0..MAX_KILL_ROUNDS {
            if self.refresh_blocking(None) {
                break;
            }
            self.signal(Signal::KILL);
        }
    }
}

/// Marks can be read on Linux only.
const MARKS_ARE_VISIBLE: bool = cfg!(target_os = "linux");
