//! Ends servers of an earlier run that crashed together with its watchdog.

use std::io;
use std::path::Path;

/// A server of an earlier run that was still running and has been ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// Name of the server. Read from a file: untrusted.
    pub server: String,
    /// Process id of the server.
    pub pid: u32,
    /// How many processes were ended, with those the server had started.
    pub processes: usize,
}

/// Ends every server that has a record in `folder` ([`Launch::records`](super::Launch::records))
/// and whose owner is dead: SIGTERM, two seconds, SIGKILL. Returns the servers that it ended, and
/// removes all records that are no longer needed.
///
/// Only processes that provably are what the record says are ended: same user, same id and same
/// start time to the tick, or (on Linux) the mark that only processes of this server carry. Records
/// of another machine, container or version are left alone.
///
/// Dropping the future stops between two signals; the next sweep continues. On Windows there is
/// nothing to do: the system ends a job with the process that holds it.
pub async fn sweep(folder: &Path) -> io::Result<Vec<Orphan>> {
    #[cfg(unix)]
    return unix::sweep(folder.to_owned()).await;
    #[cfg(windows)]
    {
        let _ = folder;
        Ok(Vec::new())
    }
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::path::PathBuf;
    use std::time::Duration;

    use rustix::process::Signal;
    use tokio::task::spawn_blocking;
    use tokio::time::{Instant, sleep};

    use super::super::members::{MemberProcesses, signal_all};
    use super::super::record::{self, Record, StoredRecord};
    use super::super::table::{ProcessIdentity, ProcessTable};
    use super::Orphan;

    /// A record whose owner is dead, and the processes that belong to it.
    struct OrphanRecord {
        stored: StoredRecord,
        orphan: Orphan,
        members: MemberProcesses,
    }

    /// Time after SIGTERM. The stdin of the server ended long ago.
    const TERM_TIMEOUT: Duration = Duration::from_secs(2);
    /// Time after SIGKILL before the process is left to the next sweep: it can hang in the kernel.
    const KILL_TIMEOUT: Duration = Duration::from_secs(1);
    /// Interval between checks whether the processes are gone.
    const POLL_INTERVAL: Duration = Duration::from_millis(50);

    pub(super) async fn sweep(folder: PathBuf) -> io::Result<Vec<Orphan>> {
        let mut left = run_blocking(move || find_orphans(&folder)).await?;
        let mut ended = Vec::new();
        let mut alive;
        for (number, wait) in [(Signal::TERM, TERM_TIMEOUT), (Signal::KILL, KILL_TIMEOUT)] {
            (left, alive) = settle_ended(left, &mut ended).await?;
            signal_all(&alive, number);
            let deadline = Instant::now() + wait;
            while !left.is_empty() && Instant::now() < deadline {
                sleep(POLL_INTERVAL).await;
                (left, alive) = settle_ended(left, &mut ended).await?;
                // Processes that were started meanwhile get no grace period of their own.
                if number == Signal::KILL {
                    signal_all(&alive, number);
                }
            }
        }
        for orphan in &ended {
            let (pid, server) = (orphan.pid, orphan.server.escape_debug());
            tracing::info!(%server, pid, "ended what an earlier run had left behind");
        }
        Ok(ended)
    }

    /// Returns the records whose owner is dead. Removes expired records that cannot be judged.
    fn find_orphans(folder: &std::path::Path) -> io::Result<Vec<OrphanRecord>> {
        let found = record::read_folder(folder)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let table = ProcessTable::read()?;
        let mut left = Vec::new();
        for found in found {
            let Some(Record { server, leader, owner, mark, session, .. }) = found.record.clone() else {
                if found.is_expired() {
                    found.remove();
                }
                continue;
            };
            if !table.is_alive(&owner) {
                let orphan = Orphan { server, pid: leader.pid, processes: 0 };
                left.push(OrphanRecord {
                    stored: found,
                    orphan,
                    members: MemberProcesses::from_leader(mark, session, leader),
                });
            }
        }
        Ok(left)
    }

    /// Moves servers without living processes into `ended`. Returns the others, and all processes
    /// that live.
    async fn settle_ended(
        left: Vec<OrphanRecord>,
        ended: &mut Vec<Orphan>,
    ) -> io::Result<(Vec<OrphanRecord>, Vec<ProcessIdentity>)> {
        if left.is_empty() {
            return Ok((left, Vec::new()));
        }
        let (left, gone, alive) = run_blocking(move || {
            let table = ProcessTable::read()?;
            let (mut still, mut gone, mut alive) = (Vec::new(), Vec::new(), Vec::new());
            for mut one in left {
                let living = one.members.find_alive(&table);
                one.members.reap_zombies(&table);
                one.orphan.processes = one.orphan.processes.max(living.len());
                if living.is_empty() {
                    // Detached processes stay listed.
                    if one.members.find_detached(&table).is_empty() {
                        one.stored.remove();
                    }
                    gone.push(one.orphan);
                } else {
                    alive.extend(living);
                    still.push(one);
                }
            }
            Ok((still, gone, alive))
        })
        .await?;
        // Servers that were dead before the sweep are not reported.
        ended.extend(gone.into_iter().filter(|orphan| orphan.processes > 0));
        Ok((left, alive))
    }

    async fn run_blocking<T: Send + 'static>(
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        spawn_blocking(work).await.map_err(io::Error::other)?
    }
}
