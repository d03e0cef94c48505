//! [`Decoder`]: splits an HTTP body into server-sent events, and tracks the id from which a broken
//! stream is resumed.
//!
//! The rules are those of the HTML standard, with one addition: an event without data is returned
//! if it carries an id or a retry time, since servers begin a stream that way to make it resumable.
// HT-04, HL-07 to HL-09

use std::fmt;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr2};

use super::{DEFAULT_MESSAGE_LIMIT, MAX_HEAD_LEN};

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The name of the event. `None` is the default, `message`.
    pub name: Option<Box<str>>,
    /// The data, its lines joined by newlines. Empty data is not a message.
    pub data: Bytes,
    /// The last id of the stream as of this event, whether it came with it or before.
    pub id: Option<Arc<str>>,
    /// The time to wait before reconnecting, if this event sets it.
    pub retry: Option<Duration>,
}

/// An event over the limit. It is given up as soon as that is known; its id still counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTooLong {
    /// Number of bytes of the event that had arrived by then.
    pub length: usize,
    /// The beginning of its data.
    pub head: Bytes,
}

impl fmt::Display for EventTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of more than {length} bytes", length = self.length)
    }
}

impl std::error::Error for EventTooLong {}

/// A decoder of server-sent events.
///
/// After each [`push`](Self::push), call [`next`](Self::next) until it returns `None`. No byte is
/// searched twice, and data on one line within one chunk is returned as a slice of that chunk. An
/// incomplete event at the end of the stream is ignored.
#[derive(Debug)]
pub struct Decoder {
    /// Bytes that were not decoded yet.
    chunk: Bytes,
    /// The beginning of a line whose end has not arrived.
    carry: BytesMut,
    /// Length of the last line over [`LARGE_LINE_LEN`] bytes that came in parts. The next one gets
    /// this much room at once.
    expected_len: usize,
    line: LineState,
    /// Whether the previous chunk ended in a carriage return, so that a newline now belongs to it.
    after_cr: bool,
    last_id: Option<Arc<str>>,
    pending: PendingEvent,
    limit: usize,
}

/// What to do with the line that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    /// The first line of the stream, where a byte order mark may come.
    First,
    Keep,
    /// A comment, or the rest of a line over the limit.
    Skip,
}

/// The event that is being read.
#[derive(Debug, Default)]
struct PendingEvent {
    name: Option<Box<str>>,
    data: EventData,
    id: Option<Arc<str>>,
    retry: Option<Duration>,
    /// Length of its lines so far, without comments.
    size: usize,
    given_up: bool,
}

#[derive(Debug, Default)]
enum EventData {
    #[default]
    None,
    One(Bytes),
    Many(BytesMut),
}

/// Minimum length of a large line. Such a line is likely to be about as long as the last one.
const LARGE_LINE_LEN: usize = 64 * 1024;

/// Maximum length of an id. A longer one could not be sent back in a header, so it is ignored.
const MAX_ID_LEN: usize = 4096;

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a decoder with the default limit.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_MESSAGE_LIMIT)
    }

    /// Creates a decoder that refuses events whose lines take more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            carry: BytesMut::new(),
            expected_len: 0,
            line: LineState::First,
            after_cr: false,
            last_id: None,
            pending: PendingEvent::default(),
            limit,
        }
    }

    /// Takes a chunk.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            self.chunk = [&self.chunk[..], &chunk].concat().into();
        }
    }

    /// The id of the last complete event, from which the stream can be resumed.
    // HL-07
    pub fn last_id(&self) -> Option<&Arc<str>> {
        self.last_id.as_ref()
    }

    /// Returns the next event, if it is complete. `None` means that more bytes are needed.
    #[expect(clippy::should_implement_trait, reason = "None is not the end, as it would be for an iterator")]
    pub fn next(&mut self) -> Option<Result<Event, EventTooLong>> {
        loop {
            if self.after_cr && !self.chunk.is_empty() {
                self.after_cr = false;
                if self.chunk[0] == b'\n' {
                    self.chunk.advance(1);
                }
            }
            let end = memchr2(b'\n', b'\r', &self.chunk);
            let part = self.chunk.split_to(end.unwrap_or(self.chunk.len()));
            if let Some(too_long) = self.check_size(&part) {
                return Some(Err(too_long));
            }
            if end.is_none() {
                self.carry_over(&part);
                return None;
            }
            self.after_cr = self.chunk.get_u8() == b'\r';
            if let Some(line) = self.complete_line(part) {
                if line.is_empty() {
                    if let Some(event) = self.dispatch() {
                        return Some(Ok(event));
                    }
                } else {
                    self.pending.size += line.len();
                    self.pending.apply_field(&line);
                }
            }
        }
    }

    /// Gives up the event if `part`, which continues the current line, takes it over the limit.
    fn check_size(&mut self, part: &Bytes) -> Option<EventTooLong> {
        let fresh = self.carry.is_empty();
        if self.line == LineState::Skip || (fresh && part.first() == Some(&b':')) {
            self.line = LineState::Skip;
            return None;
        }
        let length = self.pending.size + self.carry.len() + part.len();
        if length <= self.limit {
            return None;
        }
        let reported = self.pending.given_up;
        let mut head = self.pending.data.head();
        if head.is_empty() {
            // Cut at the limit, so that chunk boundaries make no difference.
            let kept = (self.limit - self.pending.size).min(MAX_HEAD_LEN);
            let line: Bytes = self.carry.iter().chain(part).take(kept).copied().collect();
            head = line.slice(split_field(&line).1..);
        }
        self.line = LineState::Skip;
        self.carry = BytesMut::new();
        // From here on only a short `id` line matters.
        self.pending.data = EventData::None;
        self.pending.name = None;
        self.pending.size = 0;
        self.pending.given_up = true;
        (!reported).then_some(EventTooLong { length, head })
    }

    fn carry_over(&mut self, part: &[u8]) {
        if self.line != LineState::Skip {
            if self.carry.len() + part.len() > LARGE_LINE_LEN {
                self.carry.reserve(self.expected_len.saturating_sub(self.carry.len()));
            }
            self.carry.extend_from_slice(part);
        }
    }

    /// Returns the line that ends with `part`, unless it is skipped.
    fn complete_line(&mut self, part: Bytes) -> Option<Bytes> {
        let state = std::mem::replace(&mut self.line, LineState::Keep);
        if state == LineState::Skip {
            return None;
        }
        let mut line = if self.carry.is_empty() {
            part
        } else {
            self.carry.extend_from_slice(&part);
            if self.carry.len() > LARGE_LINE_LEN {
                self.expected_len = self.carry.len();
            }
            // The buffer is taken whole, so a later small line does not keep the memory of a large
            // one.
            std::mem::take(&mut self.carry).freeze()
        };
        if state == LineState::First && line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        Some(line)
    }

    /// Completes the pending event at a blank line. Returns it if it carries data, an id or a retry
    /// time.
    fn dispatch(&mut self) -> Option<Event> {
        let pending = std::mem::take(&mut self.pending);
        let worth = match (&pending.data, &pending.id) {
            (EventData::None, None) => pending.retry.is_some(),
            (EventData::None, Some(id)) => !id.is_empty() || pending.retry.is_some(),
            _ => true,
        };
        if let Some(id) = pending.id {
            // An empty id clears the last one.
            self.last_id = Some(id).filter(|id| !id.is_empty());
        }
        (worth && !pending.given_up).then(|| Event {
            name: pending.name,
            data: pending.data.finish(),
            id: self.last_id.clone(),
            retry: pending.retry,
        })
    }
}

impl PendingEvent {
    fn apply_field(&mut self, line: &Bytes) {
        let (name, at) = split_field(line);
        let value = &line[at..];
        match name {
            b"data" if !self.given_up => self.data.push(line.slice(at..)),
            b"event" => {
                let text = String::from_utf8_lossy(value);
                self.name = (!matches!(&*text, "" | "message")).then(|| text.into());
            }
            b"id" if value.len() <= MAX_ID_LEN && !value.contains(&0) => {
                self.id = Some(String::from_utf8_lossy(value).into());
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = str::from_utf8(value).ok();
                let millis = digits.and_then(|digits| digits.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
    }
}

/// Returns the name of a field and the position of its value, after one optional space.
fn split_field(line: &[u8]) -> (&[u8], usize) {
    let Some(colon) = memchr(b':', line) else { return (line, line.len()) };
    (&line[..colon], colon + 1 + usize::from(line.get(colon + 1) == Some(&b' ')))
}

impl EventData {
    fn push(&mut self, value: Bytes) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(value),
            Self::One(first) => {
                let mut all = BytesMut::with_capacity(first.len() + 1 + value.len());
                all.extend_from_slice(&first);
                Self::join(all, &value)
            }
            Self::Many(all) => Self::join(all, &value),
        }
    }

    fn join(mut all: BytesMut, value: &[u8]) -> Self {
        all.extend_from_slice(b"\n");
        all.extend_from_slice(value);
        Self::Many(all)
    }

    fn finish(self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::One(data) => data,
            Self::Many(data) => data.freeze(),
        }
    }

    fn head(&self) -> Bytes {
        let data = match self {
            Self::None => &[],
            Self::One(data) => &data[..],
            Self::Many(data) => &data[..],
        };
        Bytes::copy_from_slice(&data[..data.len().min(MAX_HEAD_LEN)])
    }
}

#[cfg(test)]
mod tests;
