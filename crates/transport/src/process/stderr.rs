//! Keeps the last lines of the stderr of a server, in bounded memory.
//!
//! Stderr is not evidence of failure (ST-03). It is read for as long as the process lives, so that
//! the server cannot block on it; it is written to the log, and attached to faults.

use std::collections::VecDeque;
use std::sync::Arc;

use memchr::memchr;

use crate::redact::Redactor;

/// How many lines are kept.
const LINES: usize = 64;
/// How many bytes of a line are kept.
const LINE: usize = 1024;

/// The last lines of stderr, redacted.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<String>,
    /// The beginning of the line that is not complete yet, at most [`MAX_LINE_BYTES`].
    open: Vec<u8>,
    /// Whether the incomplete line is longer than the part that is kept.
    cut: bool,
    redactor: Arc<Redactor>,
}

impl Tail {
    /// Creates a tail that removes the secrets of `redactor` from every line.
    pub(super) fn redacted(redactor: Arc<Redactor>) -> Self {
        Self { redactor, ..Self::default() }
    }

    /// Adds a chunk of stderr; `log` is called with every line that it completes.
    pub(super) fn push(&mut self, mut chunk: &[u8], mut log: impl FnMut(&str)) {
        while let Some(end) = memchr(b'\n', chunk) {
            self.extend(&chunk[..end]);
            chunk = &chunk[end + 1..];
            self.end_line(&mut log);
        }
        self.extend(chunk);
    }

    /// Ends the stream: the incomplete line counts as complete.
    pub(super) fn finish(&mut self, mut log: impl FnMut(&str)) {
        self.end_line(&mut log);
    }

    /// The last lines, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        let open = self.open_line();
        let oldest = (self.lines.len() + usize::from(open.is_some())).saturating_sub(LINES);
        self.lines.iter().skip(oldest).cloned().chain(open).collect()
    }

    fn extend(&mut self, part: &[u8]) {
        let room = LINE - self.open.len();
        self.open.extend_from_slice(&part[..part.len().min(room)]);
        self.cut |= part.len() > room;
    }

    fn end_line(&mut self, log: &mut impl FnMut(&str)) {
        if let Some(line) = self.open_line() {
            log(&line);
            if self.lines.len() == LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(line);
        }
        self.open.clear();
        self.cut = false;
    }

    /// The incomplete line as text; `None` if it is blank.
    fn open_line(&self) -> Option<String> {
        let line = String::from_utf8_lossy(self.open.trim_ascii_end());
        let line = if self.cut {
            format!("{}…", self.redactor.beginning(&line))
        } else {
            self.redactor.text(&line).into_owned()
        };
        (!line.is_empty()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_split_gives_the_same_lines() {
        let text = b"one\r\n\ntwo\nthree";
        for at in 0..text.len() {
            let (mut tail, mut logged) = (Tail::default(), vec![]);
            tail.push(&text[..at], |line| logged.push(line.to_owned()));
            tail.push(&text[at..], |line| logged.push(line.to_owned()));
            assert_eq!(logged, ["one", "two"]);
            assert_eq!(tail.lines(), ["one", "two", "three"]);
            tail.finish(|line| logged.push(line.to_owned()));
            assert_eq!(logged, ["one", "two", "three"]);
            assert_eq!(tail.lines(), ["one", "two", "three"]);
        }
    }

    #[test]
    fn a_secret_is_not_shown_by_its_beginning_where_a_line_is_cut() {
        let mut tail = Tail::redacted(Arc::new(Redactor::new(["hunter2hunter2"])));
        tail.push(format!("{}hunter2hunter2\n", "x".repeat(LINE - 12)).as_bytes(), |_| ());
        assert_eq!(tail.lines(), [format!("{}[redacted]…", "x".repeat(LINE - 12))]);
    }

    /// ST-03
    #[test]
    fn st_03_a_flood_does_not_grow() {
        let mut tail = Tail::default();
        for n in 0..1000 {
            tail.push(format!("{n}\n").as_bytes(), |_| ());
        }
        tail.push(&vec![b'x'; 1 << 20], |_| ());
        let lines = tail.lines();
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[0], "937");
        assert_eq!(lines[LINES - 1], format!("{}…", "x".repeat(LINE)));
        assert!(tail.open.capacity() <= 2 * LINE);
        tail.finish(|_| ());
        assert_eq!(tail.lines().len(), LINES);
    }
}
