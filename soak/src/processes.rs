//! Reads the process table from `/proc`.

use std::fs;

/// Returns the number of children of a process, including zombies.
pub(crate) fn count_children(of: u32) -> Option<usize> {
    let processes = fs::read_dir("/proc").ok()?;
    let parent = |name: String| read_stat(&name).is_some_and(|stat| stat.parent == of);
    let names = processes.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Some(
        names
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .filter(|name| parent(name.clone()))
            .count(),
    )
}

/// Whether this process is running and is the given program.
pub(crate) fn is_running(pid: u32, program: &str) -> bool {
    read_stat(&pid.to_string()).is_some_and(|stat| stat.program == program && stat.state != 'Z')
}

struct Stat {
    program: String,
    state: char,
    parent: u32,
}

/// Parses `pid (program) state parent …`; a program's name may contain anything, parentheses and
/// spaces too.
fn read_stat(pid: &str) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let (_, program) = head.split_once('(')?;
    let mut fields = tail.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some(Stat { program: program.to_owned(), state, parent: fields.next()?.parse().ok()? })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn child_is_counted_until_it_is_waited_for() {
        let own = std::process::id();
        let before = count_children(own).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(count_children(own), Some(before + 1));
        assert!(is_running(child.id(), "sleep"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(count_children(own), Some(before));
        assert!(!is_running(child.id(), "sleep"));
    }
}
