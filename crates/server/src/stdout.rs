//! Checks whether somebody still reads our stdout.

/// Whether the other end of stdout was closed.
#[cfg(unix)]
pub(crate) fn is_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdout = std::io::stdout();
    // No events are requested: a closed other end is reported anyway.
    let mut seen = [PollFd::new(&stdout, PollFlags::empty())];
    let found = poll(&mut seen, Some(&Timespec::default()));
    found.is_ok_and(|found| found > 0)
}

/// Cannot be known without writing.
#[cfg(not(unix))]
pub(crate) fn is_closed() -> bool {
    false
}
