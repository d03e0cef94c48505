//! Who runs: the servers of every process of ours, and all that they started.

use std::io;
use std::path::Path;
use std::time::SystemTime;

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The name of the server. From a file: untrusted.
    pub server: String,
    /// The process that started it.
    pub owner: u32,
    /// Whether that is dead, so that [`sweep`](super::sweep()) would end it.
    pub is_orphan: bool,
    /// When it was started.
    pub started: SystemTime,
    /// Its processes, each before those that it started.
    pub processes: Vec<Running>,
}

/// A process of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// Its id.
    pub pid: u32,
    /// The id of its parent.
    pub parent: u32,
    /// How far it is below the first of its kind.
    pub depth: usize,
    /// What the program calls itself, not its command line, which can hold secrets. Untrusted.
    pub name: String,
    /// Resident memory in bytes, with what it shares with others.
    pub memory: u64,
    /// When it was started, to the second.
    pub started: SystemTime,
    /// It has left the server and is not ended with it, such as a browser that the server opened for a person.
    pub is_detached: bool,
}

/// The servers that are written down in this folder ([`Launch::records`](super::Launch::records)) and run.
///
/// Reads files and asks the system: not for a task that others wait for. On Windows the list is empty:
/// nothing is written down there, because a job needs no record to be ended.
pub fn list(folder: &Path) -> io::Result<Vec<Entry>> {
    #[cfg(unix)]
    return unix::list(folder);
    #[cfg(windows)]
    {
        let _ = folder;
        Ok(Vec::new())
    }
}

#[cfg(unix)]
mod unix {
    use std::collections::{BTreeMap, BTreeSet};
    use std::io;
    use std::path::Path;

    use super::super::kin::Kin;
    use super::super::record;
    use super::super::table::{Row, Table};
    use super::{Entry, Running};

    pub(super) fn list(folder: &Path) -> io::Result<Vec<Entry>> {
        let records: Vec<_> = record::read(folder)?.into_iter().filter_map(|found| found.record).collect();
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let table = Table::read()?;
        let mut entries: Vec<_> = records
            .into_iter()
            .map(|record| {
                let mut kin = Kin::led(record.mark.clone(), record.session, record.leader.clone());
                let attached = kin.look_in(&table);
                let is_orphan = !attached.is_empty() && !table.is_alive(&record.owner);
                let attached = attached.into_iter().map(|id| (id.pid, false));
                let detached = kin.detached_in(&table).into_iter().map(|id| (id.pid, true));
                Entry {
                    owner: record.owner.pid,
                    is_orphan,
                    started: record.started(),
                    processes: family(&table, &attached.chain(detached).collect()),
                    server: record.server,
                }
            })
            .filter(|entry| !entry.processes.is_empty())
            .collect();
        entries.sort_by(|a, b| (&a.server, a.started).cmp(&(&b.server, b.started)));
        Ok(entries)
    }

    /// These, each with whether it is detached, and all below them.
    fn family(table: &Table, kin: &BTreeMap<u32, bool>) -> Vec<Running> {
        let mut children = BTreeMap::<u32, Vec<&Row>>::new();
        for row in table.rows().filter(|row| !row.zombie) {
            children.entry(row.parent).or_default().push(row);
        }
        let is_root = |row: &&Row| kin.contains_key(&row.id.pid) && !kin.contains_key(&row.parent);
        let mut todo: Vec<_> =
            table.rows().filter(is_root).map(|row| (row, 0, kin.get(&row.id.pid) == Some(&true))).collect();
        todo.reverse();
        // The table is not read in one moment: what seems to be its own ancestor is taken once.
        let mut seen = BTreeSet::new();
        let mut family = Vec::new();
        while let Some((row, depth, is_detached)) = todo.pop() {
            if !seen.insert(row.id.pid) {
                continue;
            }
            let below = children.get(&row.id.pid).into_iter().flatten();
            todo.extend(below.rev().map(|row| (*row, depth + 1, is_detached)));
            family.push(Running {
                pid: row.id.pid,
                parent: row.parent,
                depth,
                name: row.name.clone(),
                memory: row.memory,
                started: row.started,
                is_detached,
            });
        }
        family
    }
}
