//! [`LineDecoder`]: splits newline-delimited JSON, as pipes carry it, into messages and noise.
//!
//! Servers print banners and log lines between their messages; those are returned as noise and
//! never reach the parser.
// ST-01, ST-02

use std::mem;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use super::{DEFAULT_MESSAGE_LIMIT, MAX_HEAD_LEN, SpareBuffer};

/// The content of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line that begins like a JSON object or array, without surrounding white space.
    Message(Bytes),
    /// Any other line that is not blank. Of a line over the limit only the head.
    Noise(Bytes),
    /// A message over the limit. It is given up as soon as that is known, since a hostile line may
    /// never end.
    TooLong {
        /// Number of bytes of the line that had arrived by then.
        length: usize,
        /// The beginning of the line.
        head: Bytes,
    },
}

/// A decoder of lines.
///
/// Fill it by [`push`](Self::push) or through [`buffer_mut`](Self::buffer_mut), then call
/// [`next`](Self::next) until it gives `None`. No byte is searched twice.
#[derive(Debug)]
pub struct LineDecoder {
    buffer: BytesMut,
    /// Number of bytes at the front of the buffer that contain no newline.
    searched: usize,
    /// Maximum length of the buffer since its memory was last released.
    peak: usize,
    /// Length of the last line over [`MAX_RETAINED_LEN`] bytes. The next such line gets this much
    /// room at once.
    expected_len: usize,
    /// The memory of the last large line.
    spare: SpareBuffer,
    limit: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first line, where a byte order mark may come.
    Start,
    /// Before or inside a line that will be returned.
    Line,
    /// Inside a line that was given up.
    Skip,
}

/// Maximum size of a buffer that is kept for small lines, since each of them keeps all of it alive.
const MAX_RETAINED_LEN: usize = 64 * 1024;

impl Default for LineDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl LineDecoder {
    /// Creates a decoder with the default limit.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_MESSAGE_LIMIT)
    }

    /// Creates a decoder that refuses lines of more than `limit` bytes, without the line end.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            peak: 0,
            expected_len: 0,
            spare: SpareBuffer::default(),
            limit,
            state: State::Start,
        }
    }

    /// Takes a chunk. It is copied only if a line is incomplete or the chunk is shared.
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

    /// Returns the buffer to append a read to. It has room for at least a quarter of `room`, and
    /// grows by at least `room`.
    ///
    /// For a line that has become large, as much is allocated as the last large one took, else
    /// twice its length, so its bytes are hardly ever moved.
    pub fn buffer_mut(&mut self, room: usize) -> &mut BytesMut {
        let length = self.buffer.len();
        if self.buffer.capacity() - length < room / 4 {
            let rest = if length >= MAX_RETAINED_LEN { self.expected_len.saturating_sub(length) } else { 0 };
            let spare = if rest > 0 { self.spare.take(length + rest.max(room)) } else { None };
            match spare {
                Some(mut spare) => {
                    spare.extend_from_slice(&self.buffer);
                    self.buffer = spare;
                }
                // `reserve` at least doubles the buffer.
                None => self.buffer.reserve(rest.max(room)),
            }
        }
        &mut self.buffer
    }

    /// Whether memory is kept for the next large line.
    pub fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Releases the memory that is kept for the next large line.
    pub fn release_spare(&mut self) {
        self.spare.release();
    }

    /// Returns the next line, if it is complete. `None` means that more bytes are needed.
    #[expect(clippy::should_implement_trait, reason = "None is not the end, as it would be for an iterator")]
    pub fn next(&mut self) -> Option<Line> {
        loop {
            self.peak = self.peak.max(self.buffer.len());
            let end = memchr(b'\n', &self.buffer[self.searched..]).map(|at| self.searched + at);
            match (end, self.state) {
                (Some(end), State::Skip) => {
                    self.state = State::Line;
                    self.buffer.advance(end + 1);
                    self.start_line();
                }
                (None, State::Skip) => {
                    self.buffer.clear();
                    self.start_line();
                    return None;
                }
                (Some(end), _) if end <= self.limit => {
                    let mut line = self.buffer.split_to(end + 1).freeze();
                    line.truncate(end);
                    if end > MAX_RETAINED_LEN {
                        // Includes the newline, and room for the read that finds what follows.
                        self.expected_len = end + 1 + MAX_RETAINED_LEN;
                    }
                    let line = classify(self.strip_mark(line));
                    self.start_line();
                    if line.is_some() {
                        return line;
                    }
                }
                (None, _) if self.buffer.len() <= self.limit => {
                    self.searched = self.buffer.len();
                    return None;
                }
                // Over the limit, whether or not its end has arrived. The next call skips it.
                _ => {
                    let line = self.give_up(end.unwrap_or(self.buffer.len()));
                    self.state = State::Skip;
                    return Some(line);
                }
            }
        }
    }

    /// Returns a last line without a newline. Call this when [`next`](Self::next) returns nothing
    /// more.
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

    /// Resets the search, because the buffer now begins with a new line or with unsearched bytes.
    /// Keeps the memory of a large line as the spare buffer.
    fn start_line(&mut self) {
        self.searched = 0;
        if self.peak > 4 * MAX_RETAINED_LEN && self.buffer.len() <= MAX_RETAINED_LEN {
            // Copies at most `MAX_RETAINED_LEN` bytes for every four times as many that were
            // decoded.
            let rest = BytesMut::from(&self.buffer[..]);
            self.spare.keep(mem::replace(&mut self.buffer, rest), self.peak);
            self.peak = self.buffer.len();
        }
    }

    fn give_up(&mut self, length: usize) -> Line {
        // Copied, so that these few bytes do not keep the long line in memory.
        let start = &self.buffer[..self.limit.min(MAX_HEAD_LEN)];
        let head = self.strip_mark(Bytes::copy_from_slice(start));
        match classify(head.clone()) {
            Some(Line::Noise(head)) => Line::Noise(head),
            _ => Line::TooLong { length, head },
        }
    }

    /// Removes the byte order mark from the first line.
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

/// Tells messages from noise. `None` for a blank line.
fn classify(mut line: Bytes) -> Option<Line> {
    // Shortened in place, which saves updates of the buffer's reference count.
    line.truncate(line.trim_ascii_end().len());
    line.advance(line.len() - line.trim_ascii_start().len());
    match line.first()? {
        b'{' | b'[' => Some(Line::Message(line)),
        _ => Some(Line::Noise(line)),
    }
}

#[cfg(test)]
mod tests;
