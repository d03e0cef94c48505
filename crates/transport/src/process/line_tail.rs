//! [`LineTail`]: the last lines of what a server prints, in bounded memory.

use std::collections::VecDeque;
use std::sync::Arc;

use memchr::memchr;

use crate::redact::Redactor;

/// How many lines are kept.
const MAX_LINES: usize = 64;
/// How many bytes of a line are kept.
const MAX_LINE_BYTES: usize = 1024;

/// The last lines of a stream, redacted.
#[derive(Debug, Default)]
pub(super) struct LineTail {
    lines: VecDeque<String>,
    /// The beginning of the line that is not complete yet, at most [`MAX_LINE_BYTES`].
    partial_line: Vec<u8>,
    /// Whether the incomplete line is longer than the part that is kept.
    is_truncated: bool,
    redactor: Arc<Redactor>,
}

impl LineTail {
    /// Creates a tail that removes the secrets of `redactor` from every line.
    pub(super) fn with_redactor(redactor: Arc<Redactor>) -> Self {
        Self { redactor, ..Self::default() }
    }

    /// Adds a chunk of the stream; `log` is called with every line that it completes.
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
        let open = self.render_partial_line();
        let oldest = (self.lines.len() + usize::from(open.is_some())).saturating_sub(MAX_LINES);
        self.lines.iter().skip(oldest).cloned().chain(open).collect()
    }

    fn extend(&mut self, part: &[u8]) {
        let room = MAX_LINE_BYTES - self.partial_line.len();
        self.partial_line.extend_from_slice(&part[..part.len().min(room)]);
        self.is_truncated |= part.len() > room;
    }

    fn end_line(&mut self, log: &mut impl FnMut(&str)) {
        if let Some(line) = self.render_partial_line() {
            log(&line);
            if self.lines.len() == MAX_LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(line);
        }
        self.partial_line.clear();
        self.is_truncated = false;
    }

    /// The incomplete line as text; `None` if it is blank.
    fn render_partial_line(&self) -> Option<String> {
        let line = String::from_utf8_lossy(self.partial_line.trim_ascii_end());
        let line = if self.is_truncated {
            format!("{}…", self.redactor.redact_truncated(&line))
        } else {
            self.redactor.redact_text(&line).into_owned()
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
            let (mut tail, mut logged) = (LineTail::default(), vec![]);
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
        let mut tail = LineTail::with_redactor(Arc::new(Redactor::new(["hunter2hunter2"])));
        tail.push(format!("{}hunter2hunter2\n", "x".repeat(MAX_LINE_BYTES - 12)).as_bytes(), |_| ());
        assert_eq!(tail.lines(), [format!("{}[redacted]…", "x".repeat(MAX_LINE_BYTES - 12))]);
    }

    /// ST-03
    #[test]
    fn st_03_a_flood_does_not_grow() {
        let mut tail = LineTail::default();
        for n in 0..1000 {
            tail.push(format!("{n}\n").as_bytes(), |_| ());
        }
        tail.push(&vec![b'x'; 1 << 20], |_| ());
        let lines = tail.lines();
        assert_eq!(lines.len(), MAX_LINES);
        assert_eq!(lines[0], "937");
        assert_eq!(lines[MAX_LINES - 1], format!("{}…", "x".repeat(MAX_LINE_BYTES)));
        assert!(tail.partial_line.capacity() <= 2 * MAX_LINE_BYTES);
        tail.finish(|_| ());
        assert_eq!(tail.lines().len(), MAX_LINES);
    }
}
