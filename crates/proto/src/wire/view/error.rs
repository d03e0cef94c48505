//! [`ViewError`]: what does not fit, said without repeating what the server wrote.

use std::fmt;

use crate::wire::Json;

/// A value that does not have the shape its place asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewError {
    /// Where, such as `tools[3].name`. Empty for the value as a whole.
    pub path: String,
    /// What should be there.
    pub expected: &'static str,
    /// What is there.
    pub found: Found,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kinds of JSON")]
pub enum Found {
    Nothing,
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

/// An element of a list that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Its place in the list.
    pub index: usize,
    /// What is wrong with it.
    pub reason: ViewError,
}

/// How much of a server's words is repeated in an error.
const LONGEST_WORDS: usize = 80;

/// A server's words, cut to what may be repeated in an error.
pub(super) fn cut(text: &str) -> &str {
    let end = (0..=LONGEST_WORDS.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

impl ViewError {
    /// `expected` is not what `raw` is.
    pub(super) fn new(expected: &'static str, raw: Option<&[u8]>) -> Self {
        Self { path: String::new(), expected, found: Found::of(raw.unwrap_or_default()) }
    }

    /// `expected` is not what `json` is.
    pub(super) fn mismatch(expected: &'static str, json: &Json) -> Self {
        Self { path: String::new(), expected, found: Found::of(json.as_bytes()) }
    }

    /// The same, seen from the object that holds the value as `name`.
    pub(super) fn under(mut self, name: &str) -> Self {
        let name = cut(name);
        let join = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{join}{}", self.path);
        self
    }

    /// The same, seen from the array that holds the value at `index`.
    pub(super) fn at(mut self, index: usize) -> Self {
        let join = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{join}{}", self.path);
        self
    }
}

impl Found {
    pub(super) fn of(text: &[u8]) -> Self {
        match text.first() {
            None => Self::Nothing,
            Some(b'n') => Self::Null,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'"') => Self::String,
            Some(b'[') => Self::Array,
            Some(b'{') => Self::Object,
            Some(_) => Self::Number,
        }
    }
}

impl std::error::Error for ViewError {}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.escape_debug())?;
        }
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}
