//! Finds and ends what is left of a server whose own process has ended: in its group, and outside
//! of it by its mark.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::kin::{Kin, signal};
use super::mark::Mark;
use super::table::{Identity, Table};

/// The processes of one server that left its group.
#[derive(Clone, Debug, Default)]
pub(super) struct Strays {
    /// `None` if strays cannot exist, or no longer exist.
    kin: Option<Kin>,
    /// Living strays of the last check.
    alive: Vec<Identity>,
    /// Whether the last check found detached processes.
    detached: bool,
    descendants: Descendants,
}

/// Processes that were seen to descend from a server while it lived: they are ended with it, even
/// if they leave it later. Clones share the set.
#[derive(Clone, Debug, Default)]
pub(super) struct Descendants(Arc<Mutex<BTreeSet<Identity>>>);

impl Descendants {
    /// Records who descends from the server now. To be called before the server is told to end: its
    /// children lose their parent then.
    pub(super) fn note(&self, leader: u32) {
        #[cfg(target_os = "linux")]
        if let Ok(found) = super::table::descendants(leader) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = leader;
    }

    fn all(&self) -> BTreeSet<Identity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Time between two checks that must both find nothing: a program that is just being started shows
/// no environment for a moment.
const AGAIN: Duration = Duration::from_millis(10);
/// How often a drop kills what it finds. A stray that starts others faster than they can be killed
/// is left alone.
const LOOKS: usize = 5;

impl Strays {
    pub(super) fn of(mark: &Mark) -> Self {
        Self { kin: Some(Kin::marked(mark.clone(), session())), ..Self::default() }
    }

    pub(super) fn descendants(&self) -> &Descendants {
        &self.descendants
    }

    /// Whether detached processes were left at the last check.
    pub(super) fn are_some_detached(&self) -> bool {
        self.detached
    }

    /// Whether nothing is left. To be called once the server itself has ended: then no new process
    /// can appear, and a positive result is final.
    ///
    /// `group` is the group of the server if the system says that it has members. These may be
    /// zombies, if their parent reaps them late or never.
    pub(super) async fn is_all_gone(&mut self, group: Option<u32>) -> bool {
        if self.kin.is_none() || !CAN_LOOK {
            return group.is_none();
        }
        if !self.look(group).await {
            return false;
        }
        sleep(AGAIN).await;
        let gone = self.look(group).await;
        if gone {
            self.kin = None;
        }
        gone
    }

    /// Checks on a blocking thread: a machine can have thousands of processes.
    async fn look(&mut self, group: Option<u32>) -> bool {
        let mut looking = self.clone();
        let looked = spawn_blocking(move || (looking.look_now(group), looking)).await;
        // This fails only while the runtime shuts down; then the drop is next.
        let Ok((gone, looked)) = looked else { return false };
        *self = looked;
        gone
    }

    /// Updates what is known from the process table. Returns whether nothing is left.
    fn look_now(&mut self, group: Option<u32>) -> bool {
        let Some(kin) = &mut self.kin else { return group.is_none() };
        kin.prove(self.descendants.all());
        // Without a process table only the group is known.
        let Ok(table) = Table::read() else { return group.is_none() };
        self.alive = kin.look_in(&table);
        self.detached = !kin.detached_in(&table).is_empty();
        kin.reap_in(&table);
        // Members of the group are signaled through the group.
        self.alive.retain(|id| group.is_none() || table.get(id).map(|row| row.group) != group);
        self.alive.is_empty() && !group.is_some_and(|group| table.has_group(group))
    }

    /// Signals the strays of the last check.
    pub(super) fn signal(&self, number: Signal) {
        signal(&self.alive, number);
    }

    /// Kills all strays, without waiting.
    pub(super) fn kill_now(&mut self) {
        if self.kin.is_none() || !CAN_LOOK {
            return;
        }
        for _ in 0..LOOKS {
            if self.look_now(None) {
                break;
            }
            self.signal(Signal::SIGKILL);
        }
    }
}

/// The session in which our servers are started: our own.
pub(super) fn session() -> Option<u32> {
    nix::unistd::getsid(None).ok().and_then(|session| u32::try_from(session.as_raw()).ok())
}

/// Marks can be read on Linux only.
const CAN_LOOK: bool = cfg!(target_os = "linux");
