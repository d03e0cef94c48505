//! What the process holds: open files, tasks, children, memory.

use std::fs;
use std::time::{Duration, Instant};

/// What must be the same after as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Open file descriptors. `None` where the system cannot tell.
    pub(crate) files: Option<usize>,
    /// Children, ended ones that nobody waited for included.
    pub(crate) children: Option<usize>,
    /// Tasks of the runtime that the clients live on.
    pub(crate) tasks: usize,
}

impl Footprint {
    /// No client is left: this task is the only one.
    pub(crate) const QUIET: Self = Self { files: Some(usize::MAX), children: Some(usize::MAX), tasks: 1 };

    fn now() -> Self {
        Self {
            files: entries("/proc/self/fd"),
            children: children(std::process::id()),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// The footprint once it is no larger than `wanted`, or has not changed for a while.
    pub(crate) async fn settled(wanted: &Self) -> Self {
        let begun = Instant::now();
        let mut last = (Self::now(), Instant::now());
        while begun.elapsed() < PATIENCE && last.1.elapsed() < STILL && !last.0.within(wanted) {
            tokio::time::sleep(LOOK).await;
            let now = Self::now();
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
        last.0
    }

    fn within(&self, wanted: &Self) -> bool {
        self.files <= wanted.files && self.children <= wanted.children && self.tasks <= wanted.tasks
    }
}

/// Resident memory in bytes.
pub(crate) fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Whether this process is still there and is the program it is said to be.
pub(crate) fn runs(pid: u32, program: &str) -> bool {
    stat(&pid.to_string()).is_some_and(|stat| stat.program == program && stat.state != 'Z')
}

fn entries(folder: &str) -> Option<usize> {
    fs::read_dir(folder).ok().map(Iterator::count)
}

fn children(of: u32) -> Option<usize> {
    let processes = fs::read_dir("/proc").ok()?;
    let parent = |name: String| stat(&name).is_some_and(|stat| stat.parent == of);
    let names = processes.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Some(
        names
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .filter(|name| parent(name.clone()))
            .count(),
    )
}

struct Stat {
    program: String,
    state: char,
    parent: u32,
}

/// `pid (program) state parent …`; a program's name may hold anything, brackets and blanks too.
fn stat(pid: &str) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let (_, program) = head.split_once('(')?;
    let mut fields = tail.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some(Stat { program: program.to_owned(), state, parent: fields.next()?.parse().ok()? })
}

const PATIENCE: Duration = Duration::from_secs(15);
/// Unchanged for this long, it will not change.
const STILL: Duration = Duration::from_secs(7);
const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_is_seen_until_it_is_waited_for() {
        let own = std::process::id();
        let before = children(own).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(children(own), Some(before + 1));
        assert!(runs(child.id(), "sleep"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(children(own), Some(before));
        assert!(!runs(child.id(), "sleep"));
    }
}
