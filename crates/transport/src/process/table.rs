//! The process table of the operating system, and the identity of a process.
//!
//! A process id alone identifies nothing: it is reused. A [`ProcessIdentity`] is an id and the
//! start time of its process, as the system records it, compared exactly.
//!
//! The table is parsed here rather than by a crate: the portable ones give start times in seconds
//! since 1970, which Linux derives from a clock that is adjusted now and then, so the same process
//! has two start times. The value in `/proc/PID/stat` is exact and never changes. On other systems
//! `ps` is run, whose start times are exact to the second; ids are not reused within one.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test, fuzzing))]
mod ps;

use std::collections::BTreeMap;
use std::io;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::mark::Mark;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use ps as system;

#[cfg(target_os = "linux")]
pub(super) use system::descendants;
pub(super) use system::{current_session, pid_scope};

/// Identifies one process, even after its id was reused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ProcessIdentity {
    pub(super) pid: u32,
    /// Start of the process. Opaque: only good for comparing, and only within one [`pid_scope`].
    pub(super) start: String,
}

/// One process of the table.
#[derive(Clone, Debug)]
pub(super) struct ProcessRow {
    pub(super) id: ProcessIdentity,
    /// Whether it runs as the same user as we do.
    pub(super) ours: bool,
    pub(super) parent: u32,
    pub(super) group: u32,
    /// Session id; zero if unknown.
    pub(super) session: u32,
    /// Name of the program; not its command line, which can hold secrets. Untrusted.
    pub(super) name: String,
    /// Resident memory in bytes.
    pub(super) memory: u64,
    /// Start of the process, to the second.
    pub(super) started: SystemTime,
    /// Whether it has ended and is not reaped yet.
    pub(super) zombie: bool,
    /// The mark of its server. Readable only on processes of our user.
    pub(super) mark: Option<Mark>,
}

/// All visible processes, by id.
#[derive(Debug)]
pub(super) struct ProcessTable(BTreeMap<u32, ProcessRow>);

impl ProcessTable {
    pub(super) fn read() -> io::Result<Self> {
        system::read(None).map(Self::from_rows)
    }

    fn from_rows(rows: Vec<ProcessRow>) -> Self {
        Self(rows.into_iter().map(|row| (row.id.pid, row)).collect())
    }

    pub(super) fn get(&self, id: &ProcessIdentity) -> Option<&ProcessRow> {
        self.0.get(&id.pid).filter(|row| row.id == *id)
    }

    /// The process that has this id now.
    pub(super) fn get_by_pid(&self, pid: u32) -> Option<&ProcessRow> {
        self.0.get(&pid)
    }

    pub(super) fn is_alive(&self, id: &ProcessIdentity) -> bool {
        self.get(id).is_some_and(|row| !row.zombie)
    }

    /// Whether a group has members that are not zombies.
    pub(super) fn has_group(&self, group: u32) -> bool {
        self.rows().any(|row| row.group == group && !row.zombie)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &ProcessRow> {
        self.0.values()
    }
}

/// Returns the identity of the process that has this id now.
pub(super) fn identify(pid: u32) -> io::Result<ProcessIdentity> {
    let row = system::read(Some(pid))?.into_iter().next();
    row.map(|row| row.id).ok_or_else(|| io::Error::other("the process table does not show it"))
}

/// Parses fuzz input with one of the parsers, chosen by the first byte.
#[cfg(fuzzing)]
pub(super) fn read_any(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    match kind % 3 {
        0 => linux::read_any(bytes),
        1 => ps::read_any(&String::from_utf8_lossy(bytes)),
        _ => {
            if let Some(mark) = Mark::from_environment(bytes) {
                assert_eq!(Mark::parse(mark.as_str()), Some(mark));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    type ReadTable = fn(Option<u32>) -> io::Result<Vec<ProcessRow>>;

    /// Both readers, where both are available.
    const READERS: &[ReadTable] = &[
        #[cfg(target_os = "linux")]
        linux::read,
        ps::read,
    ];

    #[test]
    fn a_child_is_seen_as_it_is() {
        for read in READERS {
            let mark = Mark::new();
            let mut child = Command::new("sleep")
                .arg("100")
                .env(super::super::mark::MARK_VARIABLE, mark.as_str())
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let table = ProcessTable::from_rows(read(None).unwrap());
            let row = table.0.get(&child.id()).expect("the child").clone();
            let alone = read(Some(child.id())).unwrap();
            child.kill().unwrap();
            // Killed and not waited for, it becomes a zombie sooner or later.
            let asked = Instant::now();
            let zombie = loop {
                let row = read(Some(child.id())).unwrap().remove(0);
                if row.zombie {
                    break row;
                }
                assert!(asked.elapsed() < LIMIT, "{row:?}");
            };
            child.wait().unwrap();

            assert!(table.is_alive(&row.id) && row.ours);
            assert_eq!(alone[0].id, row.id);
            assert_eq!(zombie.id, row.id);
            assert_eq!((row.parent, &*row.name), (std::process::id(), "sleep"));
            assert_eq!(row.group, table.0[&std::process::id()].group);
            assert!(row.memory > 50_000 && row.memory < 50_000_000, "{} bytes", row.memory);
            let age = row.started.elapsed().unwrap_or_default();
            assert!(age < Duration::from_secs(60), "{age:?}");
            assert!(!ProcessTable::from_rows(read(None).unwrap()).is_alive(&row.id));
            assert!(read(Some(child.id())).is_ok_and(|rows| rows.is_empty()));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_mark_is_seen_on_grandchildren_too() {
        let mark = Mark::new();
        let mut child = Command::new("sh")
            .args(["-c", "sleep 100 & read go; kill $!"])
            .env(super::super::mark::MARK_VARIABLE, mark.as_str())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let marked =
            || ProcessTable::read().unwrap().rows().filter(|row| row.mark.as_ref() == Some(&mark)).count();
        let until = |count| {
            let asked = Instant::now();
            while marked() != count {
                assert!(asked.elapsed() < LIMIT, "{} processes with the mark", marked());
            }
        };
        until(2);
        drop(child.stdin.take());
        child.wait().unwrap();
        until(0);
    }
}
