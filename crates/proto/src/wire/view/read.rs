//! How members are read out of an object: as slices, with the lenience of this module.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use memchr::memchr;
use serde::de::{DeserializeOwned, Deserializer as _, Visitor};

use super::{Dropped, ViewError};
use crate::wire::{Json, scan};

/// A JSON string in its buffer. It may be megabytes of Base64, so it is unquoted when asked for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Quoted(Json);

impl Quoted {
    /// The text: borrowed if it has no escapes. Half a surrogate pair becomes U+FFFD.
    pub fn get(&self) -> Cow<'_, str> {
        let text = self.0.as_str();
        unquote(text).unwrap_or_else(|| {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            let mut bytes = deserializer.deserialize_byte_buf(Lenient).unwrap_or_default();
            for at in 0..bytes.len().saturating_sub(2) {
                // Nothing but half a pair is written so.
                if bytes[at] == 0xed && bytes[at + 1] >= 0xa0 {
                    bytes[at..at + 3].copy_from_slice("\u{fffd}".as_bytes());
                }
            }
            Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    /// The string as it was written.
    pub fn json(&self) -> &Json {
        &self.0
    }

    /// About how long the text is, without looking at it.
    pub fn len_hint(&self) -> usize {
        self.0.as_bytes().len() - 2
    }
}

impl fmt::Debug for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Strings as bytes: the form in which the parser lets half a surrogate pair pass.
struct Lenient;

impl Visitor<'_> for Lenient {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

/// The text of a JSON string; `None` for anything else.
fn unquote(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(json).ok().map(Cow::Owned)
}

/// The members of one object. Where a name stands twice, the last one counts.
pub(super) struct Object<'a> {
    json: &'a Json,
    members: Vec<(Cow<'a, str>, &'a [u8])>,
}

impl<'a> Object<'a> {
    /// Splits an object.
    pub(super) fn of(json: &'a Json) -> Result<Self, ViewError> {
        let members = scan::members(json.as_bytes()).ok_or_else(|| ViewError::mismatch("an object", json))?;
        Ok(Self { json, members: members.take(MOST_MEMBERS).collect() })
    }

    /// A member that is there, even if it is `null`.
    pub(super) fn raw(&self, name: &str) -> Option<&'a [u8]> {
        self.members.iter().rev().find(|(key, _)| key == name).map(|(_, raw)| *raw)
    }

    /// A member that is there and not `null`.
    pub(super) fn given(&self, name: &str) -> Option<&'a [u8]> {
        self.raw(name).filter(|raw| *raw != b"null")
    }

    /// A member that is there, even if it is `null`, as a slice.
    pub(super) fn any(&self, name: &str) -> Option<Json> {
        self.raw(name).map(|raw| self.json.slice(raw))
    }

    /// A member that is there and not `null`, as a slice.
    pub(super) fn json(&self, name: &str) -> Option<Json> {
        self.given(name).map(|raw| self.json.slice(raw))
    }

    /// A member that is an object, as a slice.
    pub(super) fn object(&self, name: &str) -> Option<Json> {
        self.json(name).filter(Json::is_object)
    }

    /// `_meta`.
    pub(super) fn meta(&self) -> Option<Json> {
        self.object("_meta")
    }

    /// A string, as a slice.
    pub(super) fn quoted(&self, name: &str) -> Option<Quoted> {
        self.json(name).filter(|json| json.as_bytes()[0] == b'"').map(Quoted)
    }

    /// A string, or nothing.
    pub(super) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.raw(name).and_then(|raw| unquote(std::str::from_utf8(raw).ok()?))
    }

    /// A boolean, or nothing.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.value(name)
    }

    /// A value of type `T`, or nothing.
    pub(super) fn value<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.given(name).and_then(|raw| serde_json::from_slice(raw).ok())
    }

    /// A whole number that is not negative, even if it is written `1.0`.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        let number: f64 = self.value(name)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        (number >= 0.0).then_some(number as u64)
    }

    /// A time in milliseconds, or nothing.
    pub(super) fn millis(&self, name: &str) -> Option<Duration> {
        self.count(name).map(Duration::from_millis)
    }

    /// A string that must be there.
    pub(super) fn required(&self, name: &'static str) -> Result<Box<str>, ViewError> {
        self.string(name).map(Into::into).ok_or_else(|| self.misfit(name, "a string"))
    }

    /// An object that must be there.
    pub(super) fn required_object(&self, name: &'static str) -> Result<Json, ViewError> {
        self.object(name).ok_or_else(|| self.misfit(name, "an object"))
    }

    /// The error that `name` is not `expected`.
    pub(super) fn misfit(&self, name: &str, expected: &'static str) -> ViewError {
        ViewError::new(expected, self.raw(name)).under(name)
    }

    /// The members in their order, as slices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Json)> {
        self.members.iter().map(|(name, raw)| (&**name, self.json.slice(raw)))
    }
}

/// The elements of a list that could be used, and those that could not.
pub(super) struct Elements<T> {
    pub(super) items: Vec<T>,
    pub(super) dropped: Vec<Dropped>,
    /// Whether the list was there at all.
    pub(super) given: bool,
}

/// An object of more members is cut.
const MOST_MEMBERS: usize = 10_000;

/// A list of more elements is cut. A view takes more memory than `{}` does on the wire.
const MOST_ELEMENTS: usize = 100_000;

/// No more than this many dropped elements are reported.
pub(super) const MOST_DROPPED: usize = 100;

/// Splits `json` and decodes each element of its member `list`. An absent or `null` list is empty.
pub(super) fn elements<'a, T>(
    json: &'a Json,
    list: &'static str,
    mut decode: impl FnMut(&Json) -> Result<T, ViewError>,
) -> Result<(Object<'a>, Elements<T>), ViewError> {
    let object = Object::of(json)?;
    let mut found = Elements { items: Vec::new(), dropped: Vec::new(), given: false };
    let Some(raw) = object.given(list) else { return Ok((object, found)) };
    found.given = true;
    let all = scan::elements(raw).ok_or_else(|| object.misfit(list, "an array"))?;
    for (index, raw) in all.enumerate() {
        let decoded = if index < MOST_ELEMENTS {
            decode(&json.slice(raw))
        } else {
            Err(ViewError::new("no more elements", Some(raw)))
        };
        match decoded {
            Ok(item) => found.items.push(item),
            Err(reason) if found.dropped.len() < MOST_DROPPED => {
                found.dropped.push(Dropped { index, reason: reason.at(index).under(list) });
            }
            Err(_) => {}
        }
    }
    Ok((object, found))
}

/// Decodes an element that is a string.
pub(super) fn string_element(json: &Json) -> Result<Box<str>, ViewError> {
    json.decode().map_err(|_| ViewError::mismatch("a string", json))
}

/// Reads one string member.
pub(super) fn text(json: &Json, name: &str) -> Option<String> {
    Object::of(json).ok()?.string(name).map(Cow::into_owned)
}

/// Reads `_meta`.
pub(super) fn meta(json: &Json) -> Option<Json> {
    Object::of(json).ok()?.meta()
}
