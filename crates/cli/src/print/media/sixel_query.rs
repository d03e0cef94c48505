//! Asks the terminal whether it supports sixels: only if stdin and stdout are a terminal, in the
//! foreground, and with a short timeout.

/// Returns whether the terminal reports sixel support.
#[cfg(unix)]
pub(crate) fn knows_sixel() -> bool {
    unix::query_attributes().is_some_and(|answer| has_sixel(&answer))
}

/// Returns whether the terminal reports sixel support. There is no simple way to ask here.
#[cfg(not(unix))]
pub(crate) fn knows_sixel() -> bool {
    false
}

/// Parses `ESC [ ? 62 ; 4 ; 22 c`, a list of features in which 4 is sixels.
#[cfg_attr(not(unix), allow(dead_code, reason = "nobody asks there"))]
fn has_sixel(answer: &str) -> bool {
    let Some((_, rest)) = answer.split_once("\x1b[?") else { return false };
    let Some((numbers, _)) = rest.split_once('c') else { return false };
    numbers.split(';').skip(1).any(|number| number == "4")
}

#[cfg(unix)]
mod unix {
    use std::fs::{File, OpenOptions};
    use std::io::{self, IsTerminal as _, Read as _, Write as _};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::getpgrp;
    use rustix::termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
    };

    /// Every terminal answers; the timeout allows for remote ones.
    const QUERY_TIMEOUT: Duration = Duration::from_millis(400);
    /// Longest answer.
    const MAX_ANSWER_BYTES: usize = 128;

    /// Asks for the device attributes.
    pub(super) fn query_attributes() -> Option<String> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return None;
        }
        let mut tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        // A background process that touches the terminal is stopped.
        if tcgetpgrp(&tty).ok()? != getpgrp() {
            return None;
        }
        let before = tcgetattr(&tty).ok()?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&tty, OptionalActions::Now, &raw).ok()?;
        let _restored = RestoreTermios { tty: tty.try_clone().ok()?, before };
        tty.write_all(b"\x1b[c").ok()?;
        read_answer(&mut tty)
    }

    fn read_answer(tty: &mut File) -> Option<String> {
        let until = Instant::now() + QUERY_TIMEOUT;
        let mut seen = Vec::new();
        while seen.len() < MAX_ANSWER_BYTES {
            let left = until.checked_duration_since(Instant::now())?;
            let timeout = Timespec::try_from(left).ok()?;
            let mut ready = [PollFd::new(tty, PollFlags::IN)];
            if poll(&mut ready, Some(&timeout)).ok()? == 0 {
                return None;
            }
            let mut buffer = [0; MAX_ANSWER_BYTES];
            let count = tty.read(&mut buffer).ok()?;
            seen.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&seen);
            if text.split_once("\x1b[?").is_some_and(|(_, rest)| rest.contains('c')) {
                return Some(text.into_owned());
            }
        }
        None
    }

    /// Restores the terminal settings when it is dropped.
    struct RestoreTermios {
        tty: File,
        before: Termios,
    }

    impl Drop for RestoreTermios {
        fn drop(&mut self) {
            // A terminal that is gone need not be restored.
            let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::has_sixel;

    #[test]
    fn answers() {
        assert!(has_sixel("\x1b[?62;4;22c"));
        assert!(has_sixel("typed\x1b[?63;1;2;4c"));
        // The first number is the terminal model.
        for none in ["\x1b[?4c", "\x1b[?62;22;44c", "\x1b[?62;4", "", "c"] {
            assert!(!has_sixel(none), "{none:?}");
        }
    }
}
