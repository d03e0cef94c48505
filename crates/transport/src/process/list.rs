//! Lists the running servers of all our processes, and everything they started.

use std::io;
use std::path::Path;
use std::time::SystemTime;

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningServer {
    /// Name of the server. Read from a file: untrusted.
    pub server: String,
    /// Process id of the process that started it.
    pub owner: u32,
    /// Whether the owner is dead, so that [`sweep`](super::sweep()) would end the server.
    pub is_orphan: bool,
    /// When the server was started.
    pub started: SystemTime,
    /// Processes of the server, each before those that it started.
    pub processes: Vec<RunningProcess>,
}

/// A process of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningProcess {
    /// Process id.
    pub pid: u32,
    /// Process id of its parent.
    pub parent: u32,
    /// Depth below the topmost process of the server, which has 0.
    pub depth: usize,
    /// Name of the program; not its command line, which can hold secrets. Untrusted.
    pub name: String,
    /// Resident memory in bytes, including memory shared with other processes.
    pub memory: u64,
    /// When the process was started, to the second.
    pub started: SystemTime,
    /// Whether it has left the server and is not ended with it, such as a browser that the server
    /// opened for a person.
    pub is_detached: bool,
}

/// Lists the servers that have a record in `folder` ([`Launch::records`](super::Launch::records))
/// and run.
///
/// Blocks: it reads files and the process table. On Windows the list is empty: no records are
/// written there, because a job object needs none to be ended.
pub fn list(folder: &Path) -> io::Result<Vec<RunningServer>> {
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

    use super::super::members::MemberProcesses;
    use super::super::record;
    use super::super::table::{ProcessRow, ProcessTable};
    use super::{RunningProcess, RunningServer};

    pub(super) fn list(folder: &Path) -> io::Result<Vec<RunningServer>> {
        let records: Vec<_> =
            record::read_folder(folder)?.into_iter().filter_map(|found| found.record).collect();
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let table = ProcessTable::read()?;
        let mut entries: Vec<_> = records
            .into_iter()
            .map(|record| {
                let mut kin =
                    MemberProcesses::from_leader(record.mark.clone(), record.session, record.leader.clone());
                let attached = kin.find_alive(&table);
                let is_orphan = !attached.is_empty() && !table.is_alive(&record.owner);
                let attached = attached.into_iter().map(|id| (id.pid, false));
                let detached = kin.find_detached(&table).into_iter().map(|id| (id.pid, true));
                RunningServer {
                    owner: record.owner.pid,
                    is_orphan,
                    started: record.started(),
                    processes: build_process_tree(&table, &attached.chain(detached).collect()),
                    server: record.server,
                }
            })
            .filter(|entry| !entry.processes.is_empty())
            .collect();
        entries.sort_by(|a, b| (&a.server, a.started).cmp(&(&b.server, b.started)));
        Ok(entries)
    }

    /// Builds the process trees below `members`, which maps process ids to whether they are
    /// detached.
    fn build_process_tree(table: &ProcessTable, members: &BTreeMap<u32, bool>) -> Vec<RunningProcess> {
        let mut children = BTreeMap::<u32, Vec<&ProcessRow>>::new();
        for row in table.rows().filter(|row| !row.zombie) {
            children.entry(row.parent).or_default().push(row);
        }
        let is_root =
            |row: &&ProcessRow| members.contains_key(&row.id.pid) && !members.contains_key(&row.parent);
        let mut todo: Vec<_> = table
            .rows()
            .filter(is_root)
            .map(|row| (row, 0, members.get(&row.id.pid) == Some(&true)))
            .collect();
        todo.reverse();
        // The table is not read atomically: a process that seems to be its own ancestor is listed
        // once.
        let mut seen = BTreeSet::new();
        let mut family = Vec::new();
        while let Some((row, depth, is_detached)) = todo.pop() {
            if !seen.insert(row.id.pid) {
                continue;
            }
            let below = children.get(&row.id.pid).into_iter().flatten();
            todo.extend(below.rev().map(|row| (*row, depth + 1, is_detached)));
            family.push(RunningProcess {
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
