//! [`Id`]: a JSON-RPC id, kept exactly as it was received.

use std::fmt;

use bytes::Bytes;

use super::{Json, object};

/// The id of a request, as its sender wrote it.
///
/// A response must echo value and JSON type, so anything but a plain integer is kept as text.
///
/// Complete: JSON-RPC allows strings and numbers, and the text holds every one of them.
// BM-03
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Id {
    /// An integer in the range of `i64`.
    Int(i64),
    /// A string, or any other number, as JSON text.
    Text(Json),
}

impl Id {
    /// Reads an id from `value`, valid JSON text inside `frame`. `None` if it is not an id.
    pub(crate) fn from_slice(frame: &Bytes, value: &[u8]) -> Option<Self> {
        // Nearly always a number, so that is tried first.
        match str::from_utf8(value).ok()?.parse() {
            Ok(number) => Some(Self::Int(number)),
            Err(_) => Self::from_json(Json::slice_of(frame, value)),
        }
    }

    /// Reads an id from its JSON text. `None` for `null`, objects, arrays and booleans.
    pub(crate) fn from_json(json: Json) -> Option<Self> {
        match json.as_bytes() {
            [b'"', ..] => Some(Self::Text(json)),
            [b'-' | b'0'..=b'9', ..] => {
                Some(json.as_str().parse().map_or_else(|_| Self::Text(json), Self::Int))
            }
            _ => None,
        }
    }

    /// A copy that keeps nothing in memory of the message that the id was read from.
    #[must_use]
    pub fn detached(&self) -> Self {
        match self {
            Self::Int(number) => Self::Int(*number),
            Self::Text(text) => Self::Text(text.detached()),
        }
    }

    /// Creates a string id.
    pub fn from_string(text: &str) -> Self {
        let quoted = Bytes::from(object::quote(text));
        Self::Text(Json::parse(quoted).expect("a quoted string is JSON"))
    }

    /// The number of our request that this id names, if it can be one: we only send non-negative
    /// integers.
    ///
    /// Some servers answer `"7"` or `7.0` to `7`. No other request of ours could be meant, so each
    /// text of the number counts.
    pub fn as_request_number(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            Self::Text(text) => {
                let text = text.as_str();
                let unquoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                let number = unquoted.unwrap_or(text).trim();
                number.parse().ok().or_else(|| whole_number(number))
            }
        }
    }
}

/// The number that a text such as `7.0` or `7e0` means.
fn whole_number(text: &str) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    let is_exact = number.fract() == 0.0 && (0.0..MAX_EXACT).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a whole number in this range"
    )]
    is_exact.then_some(number as u64)
}

/// Below this, a 64-bit float holds every whole number.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The id as JSON text.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        i64::try_from(number)
            .map_or_else(|_| Self::Text(Json::encode(&number).expect("a number is JSON")), Self::Int)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &'static str) -> Option<Id> {
        Id::from_json(Json::parse(Bytes::from_static(text.as_bytes())).unwrap())
    }

    /// BM-03: echoed unchanged, value and type.
    #[test]
    fn bm_03_kept_as_they_came() {
        for text in ["0", "-7", "\"a\\u0062\"", "12345678901234567890123", "1.50", "\"7\""] {
            assert_eq!(id(text).unwrap().to_string(), text);
        }
        // BM-02: `null` is never an id.
        for text in ["null", "true", "{}", "[]"] {
            assert!(id(text).is_none());
        }
    }

    #[test]
    fn spellings_of_our_own_numbers() {
        for text in ["7", "\"7\"", "7.0", "7.00", "7e0", "0.7e1", "\" 7\"", "\"7.0\""] {
            assert_eq!(id(text).unwrap().as_request_number(), Some(7));
        }
        for text in ["-7", "\"x\"", "7.5", "7e300", "\"\"", "\"nan\"", "\"server-error\""] {
            assert_eq!(id(text).unwrap().as_request_number(), None);
        }
    }
}
