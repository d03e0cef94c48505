//! [`ViewError`]: a value of the wrong shape, described without repeating what the server wrote.

use std::fmt;

use crate::wire::Json;

/// A value of the wrong shape.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewError {
    /// The path of the value, such as `tools[3].name`. Empty for the value as a whole.
    pub path: String,
    /// The expected shape.
    pub expected: &'static str,
    /// The kind of the actual value.
    pub found: JsonKind,
}

/// The kind of a JSON value.
///
/// Complete: JSON has no other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// There is no value.
    Missing,
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// An invalid element of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DroppedElement {
    /// Its index in the list.
    pub index: usize,
    /// Why it is invalid.
    pub reason: ViewError,
}

/// Maximum number of bytes of server text that an error repeats.
const MAX_QUOTED_LEN: usize = 80;

/// Cuts server text to what an error may repeat.
pub(super) fn truncate_text(text: &str) -> &str {
    let end = (0..=MAX_QUOTED_LEN.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

impl ViewError {
    /// Creates the error that `raw` is not `expected`.
    pub(super) fn new(expected: &'static str, raw: Option<&[u8]>) -> Self {
        Self { path: String::new(), expected, found: JsonKind::detect(raw.unwrap_or_default()) }
    }

    /// Creates the error that `json` is not `expected`.
    pub(super) fn mismatch(expected: &'static str, json: &Json) -> Self {
        Self { path: String::new(), expected, found: JsonKind::detect(json.as_bytes()) }
    }

    /// Prefixes the path with the member `name` that holds the value.
    pub(super) fn in_member(mut self, name: &str) -> Self {
        let name = truncate_text(name);
        let join = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{join}{}", self.path);
        self
    }

    /// Prefixes the path with the array index of the value.
    pub(super) fn at_index(mut self, index: usize) -> Self {
        let join = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{join}{}", self.path);
        self
    }
}

impl JsonKind {
    pub(super) fn detect(text: &[u8]) -> Self {
        match text.first() {
            None => Self::Missing,
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

impl fmt::Display for JsonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "nothing",
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}
