//! Ends what an earlier run left behind: it crashed, and its watchdog with it.

use std::io;
use std::path::Path;

/// A server of a run that is over, which was still running and has been ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// The name of the server. From a file: untrusted.
    pub server: String,
    /// Its process.
    pub pid: u32,
    /// How many processes it was with those it had started.
    pub processes: usize,
}

/// Ends every server that is written down in this folder ([`Launch::records`](super::Launch::records)) and
/// whose owner is dead: SIGTERM, two seconds, SIGKILL. Gives those that are gone with it, and forgets all
/// records that are no longer of use.
///
/// Ended is only what is provably what the record says: same user, same id and same start time to the
/// tick, or (on Linux) the mark that only this server's processes carry. Records of another machine,
/// container or version are left alone.
///
/// Dropping the future stops between two signals; the next sweep goes on. On Windows there is nothing to
/// do: the system ends a job with the process that holds it.
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

    use nix::sys::signal::Signal;
    use tokio::task::spawn_blocking;
    use tokio::time::{Instant, sleep};

    use super::super::kin::{Kin, signal};
    use super::super::record::{self, Found, Record};
    use super::super::table::{Identity, Table};
    use super::Orphan;

    /// A record whose owner is dead.
    struct Left {
        found: Found,
        orphan: Orphan,
        kin: Kin,
    }

    /// After SIGTERM. Its stdin ended long ago.
    const TERM: Duration = Duration::from_secs(2);
    /// After SIGKILL, before it is left to the next sweep: it can hang in the kernel.
    const KILL: Duration = Duration::from_secs(1);
    /// How often it is looked whether they are gone.
    const LOOK: Duration = Duration::from_millis(50);

    pub(super) async fn sweep(folder: PathBuf) -> io::Result<Vec<Orphan>> {
        let mut left = blocking(move || find(&folder)).await?;
        let mut ended = Vec::new();
        let mut alive;
        for (number, wait) in [(Signal::SIGTERM, TERM), (Signal::SIGKILL, KILL)] {
            (left, alive) = look(left, &mut ended).await?;
            signal(&alive, number);
            let deadline = Instant::now() + wait;
            while !left.is_empty() && Instant::now() < deadline {
                sleep(LOOK).await;
                (left, alive) = look(left, &mut ended).await?;
                // What was started meanwhile gets no time of its own.
                if number == Signal::SIGKILL {
                    signal(&alive, number);
                }
            }
        }
        for orphan in &ended {
            let (pid, server) = (orphan.pid, orphan.server.escape_debug());
            tracing::info!(%server, pid, "ended what an earlier run had left behind");
        }
        Ok(ended)
    }

    /// The records whose owner is dead. Others that are of no use are removed.
    fn find(folder: &std::path::Path) -> io::Result<Vec<Left>> {
        let found = record::read(folder)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let table = Table::read()?;
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
                left.push(Left { found, orphan, kin: Kin::led(mark, session, leader) });
            }
        }
        Ok(left)
    }

    /// Sorts out what is gone; gives what lives.
    async fn look(left: Vec<Left>, ended: &mut Vec<Orphan>) -> io::Result<(Vec<Left>, Vec<Identity>)> {
        if left.is_empty() {
            return Ok((left, Vec::new()));
        }
        let (left, gone, alive) = blocking(move || {
            let table = Table::read()?;
            let (mut still, mut gone, mut alive) = (Vec::new(), Vec::new(), Vec::new());
            for mut one in left {
                let living = one.kin.look_in(&table);
                one.kin.reap_in(&table);
                one.orphan.processes = one.orphan.processes.max(living.len());
                if living.is_empty() {
                    // What has become the user's stays listed.
                    if one.kin.detached_in(&table).is_empty() {
                        one.found.remove();
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
        // Those that were dead before we came are no news.
        ended.extend(gone.into_iter().filter(|orphan| orphan.processes > 0));
        Ok((left, alive))
    }

    async fn blocking<T: Send + 'static>(
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        spawn_blocking(work).await.map_err(io::Error::other)?
    }
}
