//! Reads the process table from `ps`, on systems without a better interface for every user.

use std::io;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;

use super::{ProcessIdentity, ProcessRow};

/// Reads all processes, or the one with this id. Marks are not available.
#[cfg_attr(
    all(fuzzing, target_os = "linux"),
    expect(dead_code, reason = "of this file only lines are fuzzed there")
)]
pub(in super::super) fn read(only: Option<u32>) -> io::Result<Vec<ProcessRow>> {
    let mut command = Command::new("ps");
    // Output must not depend on locale and time zone.
    command.env("LC_ALL", "C").env("TZ", "UTC0");
    for column in ["pid", "ppid", "pgid", "uid", "rss", "stat", "etime", "lstart", "comm"] {
        command.arg("-o").arg(format!("{column}="));
    }
    match only {
        Some(pid) => command.arg("-p").arg(pid.to_string()),
        None => command.arg("-ax"),
    };
    let output = command.output()?;
    // For a process that does not exist, `ps` exits with an error and prints nothing.
    if !output.status.success() && (only.is_none() || !output.stdout.is_empty()) {
        return Err(io::Error::other(format!("ps ended with {}", output.status)));
    }
    let (now, uid) = (SystemTime::now(), geteuid().as_raw());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| parse_line(line, uid, now)).collect())
}

/// The scope in which process ids and start times are comparable. Start times are dates here, which
/// mean the same everywhere.
#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "other systems can fail to tell")]
pub(in super::super) fn pid_scope() -> io::Result<String> {
    Ok(String::from("dated"))
}

/// The session in which we run. It is not known here, as that of no row is.
#[cfg(not(target_os = "linux"))]
pub(in super::super) fn current_session() -> Option<u32> {
    None
}

fn parse_line(line: &str, uid: u32, now: SystemTime) -> Option<ProcessRow> {
    let mut rest = line;
    let mut field = || {
        rest = rest.trim_start();
        let (field, after) = rest.split_at(rest.find(' ')?);
        rest = after;
        Some(field)
    };
    let (pid, parent, group) = (field()?.parse().ok()?, field()?.parse().ok()?, field()?.parse().ok()?);
    let ours = field()?.parse::<u32>().ok()? == uid;
    let kilobytes: u64 = field()?.parse().ok()?;
    let zombie = field()?.starts_with('Z');
    // A process that was started at this very moment can have a negative age, which some systems
    // print as an immense one.
    let age = parse_elapsed(field()?).filter(|age| *age < MAX_PROCESS_AGE).unwrap_or_default();
    let start = [field()?, field()?, field()?, field()?, field()?].join(" ");
    let program = rest.trim();
    Some(ProcessRow {
        id: ProcessIdentity { pid, start },
        ours,
        parent,
        group,
        // Not printed the same way everywhere, and needed only where marks can be read.
        session: 0,
        name: program.rsplit('/').next().unwrap_or(program).to_owned(),
        memory: kilobytes.saturating_mul(1024),
        started: now.checked_sub(age)?,
        zombie,
        mark: None,
    })
}

/// Largest believable age of a process.
const MAX_PROCESS_AGE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Parses `[[days-]hours:]minutes:seconds`.
fn parse_elapsed(text: &str) -> Option<Duration> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds = 0_u64;
    for part in clock.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let days: u64 = days.parse().ok()?;
    days.checked_mul(24 * 60 * 60)?.checked_add(seconds).map(Duration::from_secs)
}

/// Parses one line of `ps`.
#[cfg(fuzzing)]
pub(super) fn read_any(line: &str) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    if let Some(row) = parse_line(line, 1000, now) {
        assert!(row.started <= now, "nothing began in the future");
        assert!(row.mark.is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line as macOS writes it.
    const LINE: &str =
        "  501   1  501   20   5120 S+   01-02:03:04 Sun Nov  1 09:08:07 2026     /opt/My Tools/srv";

    #[test]
    fn a_line_is_read() {
        let now = SystemTime::now();
        let row = parse_line(LINE, 20, now).unwrap();
        assert_eq!(row.id, ProcessIdentity { pid: 501, start: "Sun Nov 1 09:08:07 2026".to_owned() });
        assert_eq!((row.parent, row.group, row.memory, row.zombie), (1, 501, 5 << 20, false));
        assert_eq!(row.name, "srv");
        assert_eq!(now.duration_since(row.started).unwrap(), Duration::from_secs(93_784));
        assert!(row.ours && !parse_line(LINE, 21, now).unwrap().ours);
        for cut in ["", "501", "501 1 501 20 x S 00:01", &LINE[..40]] {
            assert!(parse_line(cut, 20, now).is_none(), "{cut}");
        }
    }

    #[test]
    fn elapsed_times_are_read() {
        assert_eq!(parse_elapsed("00:07"), Some(Duration::from_secs(7)));
        assert_eq!(parse_elapsed("01:00:07"), Some(Duration::from_secs(3607)));
        assert_eq!(parse_elapsed("2-00:00:00"), Some(Duration::from_secs(172_800)));
        assert_eq!(parse_elapsed("99999999999999999999-00:00"), None);
        assert_eq!(parse_elapsed("-"), None);
    }
}
