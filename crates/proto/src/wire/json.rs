//! [`Json`]: a reference-counted slice of valid JSON text.
//!
//! A result of a megabyte arrives as one buffer; everything that is read out of it later (a tool, a
//! schema, a content block) is a slice of that buffer.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{scan, validate};

/// Valid JSON text in a shared buffer. Cloning is cheap and copies nothing.
///
/// Two values are equal if their text is: `1` and `1.0` differ, and so do two objects whose members
/// have another order.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Bytes);

impl Json {
    /// Checks that `text` is one JSON value and keeps it, without surrounding white space.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let bytes = text.into();
        let value = match validate::single_value(&bytes) {
            Some(value) => value,
            // Parsed again, for an error that says what is wrong and where.
            None => serde_json::from_slice::<&RawValue>(&bytes)?.get().as_bytes(),
        };
        Ok(Self::slice_of(&bytes, value))
    }

    /// Serializes `value` as JSON.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_vec(value).map(|text| Self(text.into()))
    }

    /// Wraps text that was assembled from valid values, and so is valid itself.
    pub(crate) fn from_trusted(text: Bytes) -> Self {
        debug_assert_eq!(validate::single_value(&text), Some(&text[..]));
        Self(text)
    }

    /// The empty object.
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// Returns the slice of `buffer` that `value` was borrowed from, without copying.
    ///
    /// `value` must be a valid JSON value inside `buffer`.
    pub(crate) fn slice_of(buffer: &Bytes, value: &[u8]) -> Self {
        Self(buffer.slice_ref(value))
    }

    /// Copies the text into its own buffer. A slice keeps the whole message in memory; the copy
    /// does not.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Returns the part `text` of this value as a value of its own, without copying.
    ///
    /// # Panics
    /// If `text` does not lie inside this value.
    pub(crate) fn slice(&self, text: &[u8]) -> Self {
        Self(self.0.slice_ref(text))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        // The bytes were checked on construction; `from_utf8` is repeated only because the
        // unchecked form would need `unsafe`. It runs at memory speed and never on the hot path.
        simdutf8::basic::from_utf8(&self.0).expect("checked on construction")
    }

    /// The JSON text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The buffer itself.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Decodes the value. `T` may borrow from it.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The value of a top-level member, if this is an object that has it.
    pub fn member(&self, name: &str) -> Option<Self> {
        // The last one counts if a name occurs twice, as in most parsers.
        let value = scan::members(&self.0)?.filter(|(key, _)| key == name).last()?.1;
        Some(self.slice(value))
    }

    /// The values of several top-level members, found in one pass.
    #[cfg(feature = "server")]
    pub(crate) fn members_named<const N: usize>(&self, names: [&str; N]) -> [Option<Self>; N] {
        let mut found = [const { None }; N];
        for (key, value) in scan::members(&self.0).into_iter().flatten() {
            if let Some(at) = names.iter().position(|name| key == *name) {
                found[at] = Some(value);
            }
        }
        found.map(|value| value.map(|value| self.slice(value)))
    }

    /// Whether the text is an object.
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Whether the text is an array.
    pub fn is_array(&self) -> bool {
        self.0.first() == Some(&b'[')
    }

    /// Whether the text is `null`.
    pub fn is_null(&self) -> bool {
        self.0 == "null"
    }
}

impl FromStr for Json {
    type Err = serde_json::Error;

    /// Parses one JSON value; see [`Json::parse`].
    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        Self::parse(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl TryFrom<&str> for Json {
    type Error = serde_json::Error;

    fn try_from(text: &str) -> Result<Self, serde_json::Error> {
        text.parse()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Outside a shared buffer there is nothing to slice, so this path copies. Views slice instead.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text: Box<str> = raw.into();
        Ok(Self(Bytes::from(text.into_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_text_and_slices_without_copying() {
        let buffer = Bytes::from_static(b"  {\"a\": [1,  2], \"b\":null} ");
        let json = Json::parse(buffer.clone()).unwrap();
        assert_eq!(json.as_str(), r#"{"a": [1,  2], "b":null}"#);
        let a = json.member("a").unwrap();
        assert_eq!(a.as_str(), "[1,  2]");
        assert!(buffer.as_ptr_range().contains(&a.as_bytes().as_ptr()));
        assert!(json.member("b").unwrap().is_null());
        assert!(json.member("c").is_none());
        let twice = Json::parse("{\"a\":1,\"b\":2,\"a\":3}").unwrap();
        let found = twice.members_named(["b", "c", "a"]).map(|value| value.map(|value| value.to_string()));
        assert_eq!(found, [Some("2".into()), None, Some("3".into())]);
        assert_eq!(a.members_named(["a"]), [None]);
    }

    #[test]
    fn refuses_what_is_not_one_value() {
        for bad in ["", "{", "1 2", "{\"a\":}", "nul", "\"\u{1}\""] {
            assert!(Json::parse(Bytes::from(bad)).is_err(), "{bad}");
        }
        assert!(Json::parse(Bytes::from_static(b"\"\xff\"")).is_err());
    }

    #[test]
    fn ten_thousand_levels_are_no_stack_overflow() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        let json = Json::parse(Bytes::from(deep)).unwrap();
        assert!(json.decode::<serde_json::Value>().is_err(), "typed decoding has its own limit");
    }
}
