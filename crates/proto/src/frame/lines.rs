//! Newline-delimited JSON, as pipes carry it: where a message begins and ends, and what is none (ST-01,
//! ST-02).
//!
//! Servers print banners and log lines between their messages; those are handed out as noise and never
//! reach the parser.

use std::mem;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use super::{DEFAULT_LIMIT, HEAD, SpareBuffer};

/// What one line held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line that begins like a JSON object or array, without surrounding white space.
    Message(Bytes),
    /// Anything else that is not blank. Of a line over the limit only the head.
    Noise(Bytes),
    /// A message over the limit. It is given up as soon as that is known, since a hostile line has no end.
    TooLong {
        /// How much of the line had arrived by then.
        length: usize,
        /// How it begins.
        head: Bytes,
    },
}

/// A decoder of lines.
///
/// Fill it by [`push`](Self::push) or through [`buffer_mut`](Self::buffer_mut), then call
/// [`next`](Self::next) until it gives `None`. No byte is searched twice.
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    /// How much of the front of the buffer holds no newline.
    searched: usize,
    /// The most that has been in the buffer since its memory was last given back.
    peak: usize,
    /// The length of the last line of more than [`RETAIN`] bytes. The next such line gets this much room at once.
    expected: usize,
    /// The memory of the last large line.
    spare: SpareBuffer,
    limit: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was read yet: a byte order mark may come.
    Start,
    /// Inside or before a line that will be handed out.
    Line,
    /// Inside a line that was given up.
    Skip,
}

/// A buffer that once held more than this is not kept for small lines: they would hold all of it.
const RETAIN: usize = 64 * 1024;

impl Default for Lines {
    fn default() -> Self {
        Self::new()
    }
}

impl Lines {
    /// With the default limit.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// Refuses lines of more than `limit` bytes, line end not counted.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            peak: 0,
            expected: 0,
            spare: SpareBuffer::default(),
            limit,
            state: State::Start,
        }
    }

    /// Takes a chunk. It is copied only if a line is already under way or others hold it too.
    pub fn push(&mut self, chunk: Bytes) {
        if self.buffer.is_empty() {
            match chunk.try_into_mut() {
                Ok(chunk) => self.buffer = chunk,
                Err(chunk) => self.buffer.extend_from_slice(&chunk),
            }
        } else {
            self.buffer.extend_from_slice(&chunk);
        }
    }

    /// The buffer, to be appended to, with room for a read: at least a quarter of `room`, which is the least that is
    /// allocated.
    ///
    /// For a line that has become large, as much is allocated as the last large one took, and else twice as much as
    /// it has, so that its bytes are hardly ever moved.
    pub fn buffer_mut(&mut self, room: usize) -> &mut BytesMut {
        let length = self.buffer.len();
        if self.buffer.capacity() - length < room / 4 {
            let rest = if length >= RETAIN { self.expected.saturating_sub(length) } else { 0 };
            let spare = if rest > 0 { self.spare.take(length + rest.max(room)) } else { None };
            match spare {
                Some(mut spare) => {
                    spare.extend_from_slice(&self.buffer);
                    self.buffer = spare;
                }
                // It doubles at least.
                None => self.buffer.reserve(rest.max(room)),
            }
        }
        &mut self.buffer
    }

    /// Whether the memory of a large line is kept for the next one.
    pub fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Gives back the memory that is kept for the next large line.
    pub fn release_spare(&mut self) {
        self.spare.release();
    }

    /// The next line, if it is complete. `None` asks for more bytes.
    #[expect(clippy::should_implement_trait, reason = "None is not the end, as it would be for an iterator")]
    pub fn next(&mut self) -> Option<Line> {
        loop {
            self.peak = self.peak.max(self.buffer.len());
            let end = memchr(b'\n', &self.buffer[self.searched..]).map(|at| self.searched + at);
            match (end, self.state) {
                (Some(end), State::Skip) => {
                    self.state = State::Line;
                    self.buffer.advance(end + 1);
                    self.restart();
                }
                (None, State::Skip) => {
                    self.buffer.clear();
                    self.restart();
                    return None;
                }
                (Some(end), _) if end <= self.limit => {
                    let mut line = self.buffer.split_to(end + 1).freeze();
                    line.truncate(end);
                    if end > RETAIN {
                        // With the newline, and with the room in which a reader looks for what follows.
                        self.expected = end + 1 + RETAIN;
                    }
                    let line = classify(self.strip_mark(line));
                    self.restart();
                    if line.is_some() {
                        return line;
                    }
                }
                (None, _) if self.buffer.len() <= self.limit => {
                    self.searched = self.buffer.len();
                    return None;
                }
                // Over the limit, with or without its end in sight. The loop then skips it.
                _ => {
                    let line = self.give_up(end.unwrap_or(self.buffer.len()));
                    self.state = State::Skip;
                    return Some(line);
                }
            }
        }
    }

    /// A last line that no newline ended. To be called when [`next`](Self::next) has nothing more.
    pub fn finish(mut self) -> Option<Line> {
        if self.state == State::Skip {
            return None;
        }
        if self.buffer.len() > self.limit {
            return Some(self.give_up(self.buffer.len()));
        }
        let rest = self.buffer.split().freeze();
        classify(self.strip_mark(rest))
    }

    /// The buffer now begins at a line's start, or at bytes that were not searched.
    fn restart(&mut self) {
        self.searched = 0;
        if self.peak > 4 * RETAIN && self.buffer.len() <= RETAIN {
            // At most `RETAIN` bytes are copied for each four times as many that went through.
            let rest = BytesMut::from(&self.buffer[..]);
            self.spare.keep(mem::replace(&mut self.buffer, rest), self.peak);
            self.peak = self.buffer.len();
        }
    }

    fn give_up(&mut self, length: usize) -> Line {
        // Copied, so that these few bytes do not keep the long line in memory.
        let start = &self.buffer[..self.limit.min(HEAD)];
        let head = self.strip_mark(Bytes::copy_from_slice(start));
        match classify(head.clone()) {
            Some(Line::Noise(head)) => Line::Noise(head),
            _ => Line::TooLong { length, head },
        }
    }

    /// Takes the byte order mark off the very first line.
    fn strip_mark(&mut self, mut line: Bytes) -> Bytes {
        if self.state == State::Start {
            self.state = State::Line;
            if line.starts_with(b"\xef\xbb\xbf") {
                line.advance(3);
            }
        }
        line
    }
}

/// `None` for a blank line.
fn classify(mut line: Bytes) -> Option<Line> {
    // Shortened in place: a new slice would be counted as one more holder of the buffer, and this one as one less.
    line.truncate(line.trim_ascii_end().len());
    line.advance(line.len() - line.trim_ascii_start().len());
    match line.first()? {
        b'{' | b'[' => Some(Line::Message(line)),
        _ => Some(Line::Noise(line)),
    }
}

#[cfg(test)]
mod tests;
