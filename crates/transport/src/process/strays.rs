//! What is left of a server whose own process has ended: in its group, and outside of it by its mark.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::kin::{Kin, signal};
use super::mark::Mark;
use super::table::{Identity, Table};

/// Those of one server that left its group.
#[derive(Clone, Debug, Default)]
pub(super) struct Strays {
    /// `None` if there can be none, or no more.
    kin: Option<Kin>,
    /// Seen when last looked for.
    alive: Vec<Identity>,
}

/// Between two looks of which both have to see nobody: a program that is just being started shows no
/// environment for a moment.
const AGAIN: Duration = Duration::from_millis(10);
/// How often a drop looks. A stray that starts others faster than they can be killed is left alone.
const LOOKS: usize = 5;

impl Strays {
    pub(super) fn of(mark: &Mark) -> Self {
        Self { kin: Some(Kin::marked(mark.clone())), alive: Vec::new() }
    }

    /// Whether nothing is left. To be asked once the server itself has ended: then nothing can come from
    /// nowhere, and the answer stays.
    ///
    /// `group` is the server's if the system says that it has members. These may be dead as well, when
    /// whoever should reap them is slow, or never does.
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

    /// On another thread: a machine can have thousands of processes.
    async fn look(&mut self, group: Option<u32>) -> bool {
        let mut looking = self.clone();
        let looked = spawn_blocking(move || (looking.look_now(group), looking)).await;
        // Only a runtime that shuts down lets it fail; then the drop is next.
        let Ok((gone, looked)) = looked else { return false };
        *self = looked;
        gone
    }

    fn look_now(&mut self, group: Option<u32>) -> bool {
        let Some(kin) = &mut self.kin else { return group.is_none() };
        // Without a process table only the group can be told about.
        let Ok(table) = Table::read() else { return group.is_none() };
        self.alive = kin.look_in(&table);
        kin.reap_in(&table);
        // Those in the group get its signals.
        self.alive.retain(|id| group.is_none() || table.get(id).map(|row| row.group) != group);
        self.alive.is_empty() && !group.is_some_and(|group| table.has_group(group))
    }

    /// Signals those that were seen last.
    pub(super) fn signal(&self, number: Signal) {
        signal(&self.alive, number);
    }

    /// Kills all there are, without waiting.
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

/// Marks are seen on Linux only.
const CAN_LOOK: bool = cfg!(target_os = "linux");
