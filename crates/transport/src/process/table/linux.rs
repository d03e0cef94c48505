//! Reads the process table of Linux from `/proc`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::geteuid;

use super::super::mark::Mark;
use super::{ProcessIdentity, ProcessRow};

/// Reads all processes, or the one with this id. Processes that end meanwhile are left out.
pub(in super::super) fn read(only: Option<u32>) -> io::Result<Vec<ProcessRow>> {
    let clock = KernelUnits::read()?;
    if let Some(pid) = only {
        return Ok(read_row(pid, &clock).into_iter().collect());
    }
    let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(|pid| read_row(pid, &clock)).collect())
}

/// Returns a process and all its living descendants. Cheaper than the whole table: it reads one
/// small file per process.
pub(in super::super) fn descendants(of: u32) -> io::Result<Vec<ProcessIdentity>> {
    let clock = KernelUnits::read()?;
    let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let plain = |pid: u32| parse_stat(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?, &clock);
    let mut children = BTreeMap::<u32, Vec<ProcessIdentity>>::new();
    let mut found = Vec::new();
    for row in pids.filter_map(plain).filter(|row| !row.zombie) {
        if row.id.pid == of {
            found.push(row.id);
        } else {
            children.entry(row.parent).or_default().push(row.id);
        }
    }
    // Each child is removed when its parent is visited, so that this terminates whatever the table
    // says.
    let mut at = 0;
    while let Some(id) = found.get(at) {
        let below = children.remove(&id.pid).unwrap_or_default();
        found.extend(below);
        at += 1;
    }
    Ok(found)
}

/// The scope in which process ids and start times are comparable: one boot of one machine, and one
/// pid namespace.
pub(in super::super) fn pid_scope() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let namespace = fs::read_link("/proc/self/ns/pid")?;
    Ok(format!("{} {}", boot.trim(), namespace.display()))
}

/// The session in which we run, as the rows of this table number it. It is zero if the leader of
/// the session is outside of our pid namespace, a value that `rustix::process::getsid` takes for
/// impossible.
pub(in super::super) fn current_session() -> Option<u32> {
    let stat = fs::read("/proc/self/stat").ok()?;
    parse_stat(std::process::id(), &stat, &KernelUnits::read().ok()?).map(|row| row.session)
}

fn read_row(pid: u32, clock: &KernelUnits) -> Option<ProcessRow> {
    let folder = Path::new("/proc").join(pid.to_string());
    let stat = fs::read(folder.join("stat")).ok()?;
    let mut row = parse_stat(pid, &stat, clock)?;
    row.ours = is_ours(&folder)?;
    if row.ours {
        row.mark = read_mark(&folder);
    }
    Some(row)
}

/// Whether the process runs as our user. The folder of an undumpable process, as ours are that hold
/// tokens, belongs to root whoever it runs as; then `status` is read.
fn is_ours(folder: &Path) -> Option<bool> {
    let (owner, us) = (fs::metadata(folder).ok()?.uid(), geteuid().as_raw());
    if owner == us || owner != 0 {
        return Some(owner == us);
    }
    let status = fs::read_to_string(folder.join("status")).ok()?;
    // Real, effective, saved, file system.
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    Some(ids.split_ascii_whitespace().nth(1)?.parse() == Ok(us))
}

/// Parses a `stat` line of proc(5). The name in it can contain anything, also brackets and spaces.
fn parse_stat(pid: u32, stat: &[u8], clock: &KernelUnits) -> Option<ProcessRow> {
    let open = memchr::memchr(b'(', stat)?;
    let close = memchr::memrchr(b')', stat)?;
    let fields: Vec<&str> = str::from_utf8(stat.get(close + 1..)?).ok()?.split_ascii_whitespace().collect();
    // The first of these is field 3 of the manual page.
    let field = |number: usize| fields.get(number - 3).copied();
    let ticks: u64 = field(22)?.parse().ok()?;
    let pages: u64 = field(24)?.parse().ok()?;
    Some(ProcessRow {
        id: ProcessIdentity { pid, start: ticks.to_string() },
        ours: false,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        name: String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned(),
        memory: pages.saturating_mul(clock.page_size),
        started: clock.booted_at + Duration::from_secs(ticks / clock.ticks_per_second),
        zombie: matches!(field(3)?, "Z" | "X"),
        mark: None,
    })
}

fn read_mark(folder: &Path) -> Option<Mark> {
    let mut environment = Vec::new();
    File::open(folder.join("environ"))
        .ok()?
        .take(MAX_ENVIRONMENT_BYTES)
        .read_to_end(&mut environment)
        .ok()?;
    Mark::from_environment(&environment)
}

/// How many bytes of an environment are read. A program cannot be started with more.
const MAX_ENVIRONMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Converts units of the kernel into ours.
struct KernelUnits {
    booted_at: SystemTime,
    ticks_per_second: u64,
    page_size: u64,
}

impl KernelUnits {
    fn read() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let booted = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
        let booted = booted.ok_or_else(|| io::Error::other("/proc/stat does not say when this began"))?;
        Ok(Self {
            booted_at: SystemTime::UNIX_EPOCH + Duration::from_secs(booted),
            ticks_per_second: clock_ticks_per_second(),
            page_size: page_size() as u64,
        })
    }
}

/// Parses a `stat` line with an arbitrary process name.
#[cfg(fuzzing)]
pub(super) fn read_any(stat: &[u8]) {
    let clock = KernelUnits { booted_at: SystemTime::UNIX_EPOCH, ticks_per_second: 100, page_size: 4096 };
    if let Some(row) = parse_stat(7, stat, &clock) {
        assert_eq!(row.id.pid, 7);
        assert!(row.mark.is_none() && !row.ours, "a line alone proves neither");
    }
    // Whatever the name of a process is, the numbers after it are its own.
    let named = [b"7 (", stat, b") S 5 6 8 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4200 900 3 1\n"].concat();
    let row = parse_stat(7, &named, &clock).expect("a name breaks no line");
    assert_eq!((row.parent, row.group, row.session, row.zombie), (5, 6, 8, false));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_the_rest() {
        let clock = KernelUnits { booted_at: SystemTime::UNIX_EPOCH, ticks_per_second: 100, page_size: 4096 };
        let stat =
            b"7 (x) Z 1 1 (y\n) S 5 6 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4200 900 3 18446744073709551615\n";
        let row = parse_stat(7, stat, &clock).unwrap();
        assert_eq!(row.name, "x) Z 1 1 (y\n");
        assert_eq!((row.parent, row.group, row.session), (5, 6, 7));
        assert_eq!((row.memory, row.zombie), (12288, false));
        assert_eq!(row.id.start, "4200");
        assert_eq!(row.started, SystemTime::UNIX_EPOCH + Duration::from_secs(42));
        for cut in [&stat[..40], b"", b"7", b"7 ) S (", b"7 (x"] {
            assert!(parse_stat(7, cut, &clock).is_none());
        }
    }

    #[test]
    fn child_shares_the_current_session() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let row = read(Some(child.id())).unwrap().remove(0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(current_session(), Some(row.session));
    }

    #[test]
    fn pid_scope_is_stable() {
        let place = pid_scope().unwrap();
        assert_eq!(place, pid_scope().unwrap());
        assert!(place.contains("pid:["), "{place}");
    }
}
