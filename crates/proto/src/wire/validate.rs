//! [`Validator`]: checks JSON text against the grammar of RFC 8259, in one pass.
//!
//! A large result is mostly one long string, so strings are checked in blocks (see [`vector`]),
//! including common escapes. What a block cannot decide (`\u`, an escaped backslash, the end of the
//! string) is checked in smaller steps.
//!
//! Nesting is bounded only by the length of the text; it takes one bit per level, and no stack.

use super::vector::{self, BLOCK, WORD};

/// A position in text that is being validated. Everything before it is valid.
#[derive(Debug)]
pub(crate) struct Validator<'a> {
    text: &'a [u8],
    at: usize,
    /// Bitwise "or" of all string bytes so far. Its high bits tell whether one of them is not
    /// ASCII.
    bytes_seen: u64,
}

/// Returns the single JSON value in `text` without the white space around it. `None` unless it is
/// valid JSON in UTF-8.
pub(crate) fn single_value(text: &[u8]) -> Option<&[u8]> {
    let mut validator = Validator::new(text);
    let value = validator.utf8_value()?;
    validator.is_at_end().then_some(value)
}

// === impl Validator ===

impl<'a> Validator<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, bytes_seen: 0 }
    }

    /// Skips white space and returns the byte after it, without passing it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Passes `byte` if it is the next one after white space. Returns whether it did.
    #[inline]
    pub(crate) fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Whether nothing but white space follows.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Validates the next value, including its UTF-8.
    pub(crate) fn utf8_value(&mut self) -> Option<&'a [u8]> {
        self.utf8_value_read_by(|text| text.value().map(drop))
    }

    /// Validates the UTF-8 of the next value, whose grammar `read` validates. Returns the value.
    pub(crate) fn utf8_value_read_by(
        &mut self,
        read: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<&'a [u8]> {
        self.bytes_seen = 0;
        self.peek()?;
        let start = self.at;
        read(self)?;
        let value = &self.text[start..self.at];
        let is_ascii = !vector::has_non_ascii(self.bytes_seen);
        (is_ascii || simdutf8::basic::from_utf8(value).is_ok()).then_some(value)
    }

    /// Validates the next value, but not that its strings are UTF-8.
    pub(crate) fn value(&mut self) -> Option<&'a [u8]> {
        self.peek()?;
        let start = self.at;
        let mut nesting = Nesting::default();
        'values: loop {
            match self.peek()? {
                b'"' => self.string()?,
                b'{' => {
                    self.at += 1;
                    if !self.skip(b'}') {
                        nesting.push(Container::Object);
                        self.name()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    if !self.skip(b']') {
                        nesting.push(Container::Array);
                        continue;
                    }
                }
                b't' => self.literal(b"true")?,
                b'f' => self.literal(b"false")?,
                b'n' => self.literal(b"null")?,
                _ => self.number()?,
            }
            // A value has ended, and perhaps containers with it.
            loop {
                let Some(container) = nesting.innermost() else {
                    return Some(&self.text[start..self.at]);
                };
                let next = self.peek()?;
                self.at += 1;
                match (next, container) {
                    (b',', Container::Array) => continue 'values,
                    (b',', Container::Object) => {
                        self.name()?;
                        continue 'values;
                    }
                    (b']', Container::Array) | (b'}', Container::Object) => nesting.pop(),
                    _ => return None,
                }
            }
        }
    }

    /// Validates the name of a member and passes the colon. Returns the name in its quotes.
    pub(crate) fn name(&mut self) -> Option<&'a [u8]> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at;
        self.string()?;
        let name = &self.text[start..self.at];
        self.skip(b':').then_some(name)
    }

    /// Validates the string whose opening quote is the next byte.
    fn string(&mut self) -> Option<()> {
        let mut at = self.at + 1;
        let mut next_block = at + BLOCK;
        loop {
            if at >= next_block {
                at = self.skip_blocks(at);
                next_block = at + BLOCK;
            }
            if let Some(word) = vector::word_at(self.text, at) {
                self.bytes_seen |= word;
                let Some(plain) = vector::find_special(word) else {
                    at += WORD;
                    continue;
                };
                at += plain;
            }
            let byte = *self.text.get(at)?;
            self.bytes_seen |= u64::from(byte);
            at += match byte {
                b'"' => {
                    self.at = at + 1;
                    return Some(());
                }
                b'\\' => self.escape_length(at)?,
                0..0x20 => return None,
                _ => 1,
            };
        }
    }

    /// Validates whole blocks of a string from `at` on, which is not inside an escape. Returns the
    /// position after them, which is not inside one either.
    fn skip_blocks(&mut self, mut at: usize) -> usize {
        // A backslash before `at` is itself escaped. A block would take it for the start of an
        // escape.
        if self.text[at - 1] == b'\\' {
            return at;
        }
        while let Some((block, before)) = vector::block_at(self.text, at) {
            let Some(joined) = vector::check_block(block, before) else { break };
            self.bytes_seen |= u64::from(joined);
            at += BLOCK;
        }
        // A block may end inside an escape.
        at - usize::from(self.text[at - 1] == b'\\')
    }

    /// The length of the escape at `at`.
    fn escape_length(&self, at: usize) -> Option<usize> {
        match self.text.get(at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
            b'u' => {
                let digits: &[u8; 4] = self.text.get(at + 2..)?.first_chunk()?;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(6)
            }
            _ => None,
        }
    }

    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(literal).then(|| self.at += literal.len())
    }

    fn number(&mut self) -> Option<()> {
        self.at += usize::from(self.byte() == Some(b'-'));
        match self.byte()? {
            // Only the number zero begins with a zero.
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Some(())
    }

    /// Passes at least one digit.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

/// The containers around a position, one bit each.
#[derive(Default)]
struct Nesting {
    depth: usize,
    /// The innermost 64 containers; the lowest bit is the innermost.
    innermost: u64,
    /// The containers further out, 64 in each element.
    outer: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

// === impl Nesting ===

impl Nesting {
    #[inline]
    fn push(&mut self, container: Container) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.innermost);
        }
        self.innermost = self.innermost << 1 | u64::from(container == Container::Object);
        self.depth += 1;
    }

    #[inline]
    fn pop(&mut self) {
        self.innermost >>= 1;
        self.depth -= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.innermost = self.outer.pop().unwrap_or_default();
        }
    }

    #[inline]
    fn innermost(&self) -> Option<Container> {
        let container = if self.innermost & 1 == 1 { Container::Object } else { Container::Array };
        (self.depth > 0).then_some(container)
    }
}

#[cfg(test)]
mod tests;
