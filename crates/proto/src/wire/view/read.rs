//! [`Object`]: reads the members of a JSON object as slices, with the lenience of the views.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{DroppedElement, ViewError};
use crate::wire::Json;
use crate::wire::scan::{Cursor, unquote, unquote_lossy};

/// A JSON string in its buffer. It may be megabytes of Base64, so it is unquoted on demand.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonString(Json);

impl JsonString {
    /// The text: borrowed if it has no escapes. Half a surrogate pair becomes U+FFFD.
    pub fn get(&self) -> Cow<'_, str> {
        unquote_lossy(self.0.as_bytes()).unwrap_or_default()
    }

    /// The string as it was written.
    pub fn json(&self) -> &Json {
        &self.0
    }

    /// The approximate length of the text, without decoding it.
    pub fn len_hint(&self) -> usize {
        self.0.as_bytes().len() - 2
    }
}

impl fmt::Debug for JsonString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The members of one object. If a name occurs twice, the last one counts.
#[derive(Debug)]
pub struct Object<'a> {
    /// The object as received.
    pub(super) json: Json,
    members: Vec<(Cow<'a, str>, &'a [u8])>,
}

impl<'a> Object<'a> {
    /// Splits an object into its members.
    pub(super) fn parse(json: &'a Json) -> Result<Self, ViewError> {
        let mut cursor = Cursor::new(json.as_bytes());
        Self::parse_at(&mut cursor, json).ok_or_else(|| ViewError::mismatch("an object", json))
    }

    /// Splits the object at the cursor, somewhere inside `json`, and leaves the cursor behind it.
    fn parse_at(cursor: &mut Cursor<'a>, json: &Json) -> Option<Self> {
        cursor.peek();
        let start = cursor.position();
        let mut members = Vec::with_capacity(TYPICAL_MEMBERS);
        if !cursor.enter(b'{') {
            return None;
        }
        while let Some(name) = cursor.name() {
            let (name, value) = (unquote_lossy(name)?, cursor.value()?);
            if members.len() < MAX_MEMBERS {
                members.push((name, value));
            }
        }
        let json = json.slice(cursor.slice(start, cursor.position()));
        Some(Self { json, members })
    }

    /// A member, even if it is `null`.
    pub(super) fn raw(&self, name: &str) -> Option<&'a [u8]> {
        self.members.iter().rev().find(|(key, _)| key == name).map(|(_, raw)| *raw)
    }

    /// A member that is not `null`.
    pub(super) fn non_null(&self, name: &str) -> Option<&'a [u8]> {
        self.raw(name).filter(|raw| *raw != b"null")
    }

    /// A member, even if it is `null`, as a slice.
    pub(super) fn any_json(&self, name: &str) -> Option<Json> {
        self.raw(name).map(|raw| self.json.slice(raw))
    }

    /// A member that is not `null`, as a slice.
    pub(super) fn json(&self, name: &str) -> Option<Json> {
        self.non_null(name).map(|raw| self.json.slice(raw))
    }

    /// A member that is an object, as a slice.
    pub(super) fn object(&self, name: &str) -> Option<Json> {
        self.json(name).filter(Json::is_object)
    }

    /// The member `_meta`, if it is an object.
    pub(super) fn meta(&self) -> Option<Json> {
        self.object("_meta")
    }

    /// A string member, as a slice.
    pub(super) fn quoted(&self, name: &str) -> Option<JsonString> {
        self.json(name).filter(|json| json.as_bytes()[0] == b'"').map(JsonString)
    }

    /// A string member.
    pub(super) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.raw(name).and_then(unquote)
    }

    /// A boolean member.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.value(name)
    }

    /// A member of type `T`.
    pub(super) fn value<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.non_null(name).and_then(|raw| serde_json::from_slice(raw).ok())
    }

    /// A non-negative integer, at most [`u64::MAX`]. It may be written `1.0`.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.value(name).filter(|number: &f64| number.fract() == 0.0).and_then(saturating_count)
    }

    /// A duration in milliseconds. Fractions of a millisecond are dropped.
    pub(super) fn millis(&self, name: &str) -> Option<Duration> {
        self.value(name).and_then(saturating_count).map(Duration::from_millis)
    }

    /// A required string member.
    pub(super) fn required(&self, name: &'static str) -> Result<Box<str>, ViewError> {
        self.string(name).map(Into::into).ok_or_else(|| self.misfit(name, "a string"))
    }

    /// A required object member.
    pub(super) fn required_object(&self, name: &'static str) -> Result<Json, ViewError> {
        self.object(name).ok_or_else(|| self.misfit(name, "an object"))
    }

    /// The error that `name` is not `expected`.
    pub(super) fn misfit(&self, name: &str, expected: &'static str) -> ViewError {
        ViewError::new(expected, self.raw(name)).in_member(name)
    }

    /// The members in the order of the text, as slices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Json)> {
        self.members.iter().map(|(name, raw)| (&**name, self.json.slice(raw)))
    }
}

/// A non-negative number without its fraction, at most [`u64::MAX`].
fn saturating_count(number: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    (number >= 0.0).then_some(number as u64)
}

/// The valid and the invalid elements of a list.
pub(super) struct ListElements<T> {
    pub(super) items: Vec<T>,
    pub(super) dropped: Vec<DroppedElement>,
    /// Whether the list was present at all.
    pub(super) is_present: bool,
}

/// Number of members for which room is reserved. Most objects have no more.
const TYPICAL_MEMBERS: usize = 8;

/// Maximum number of members of an object. More are ignored.
const MAX_MEMBERS: usize = 10_000;

/// Maximum number of elements of a list. More are dropped, since a view takes more memory than
/// `{}`.
const MAX_ELEMENTS: usize = 100_000;

/// Maximum number of dropped elements that are reported.
pub(super) const MAX_DROPPED: usize = 100;

/// Splits `json` and decodes each element of its member `list` as an object, all in one pass. An
/// absent or `null` list is empty.
pub(super) fn decode_elements<'a, T>(
    json: &'a Json,
    list: &'static str,
    mut read: impl FnMut(&Object<'a>) -> Result<T, ViewError>,
) -> Result<(Object<'a>, ListElements<T>), ViewError> {
    decode_list(json, list, |cursor| {
        if cursor.peek() == Some(b'{') {
            return Object::parse_at(cursor, json).map(|object| read(&object));
        }
        cursor.value().map(|raw| Err(ViewError::new("an object", Some(raw))))
    })
}

/// Splits `json` and decodes each element of its member `list` as a string.
pub(super) fn decode_strings<'a>(
    json: &'a Json,
    list: &'static str,
) -> Result<(Object<'a>, ListElements<Box<str>>), ViewError> {
    decode_list(json, list, |cursor| {
        let raw = cursor.value()?;
        Some(serde_json::from_slice(raw).map_err(|_| ViewError::new("a string", Some(raw))))
    })
}

/// Splits `json` and decodes each element of its member `list` with `next`, which reads it at the
/// cursor and returns `None` if the text is damaged.
fn decode_list<'a, T>(
    json: &'a Json,
    list: &'static str,
    mut next: impl FnMut(&mut Cursor<'a>) -> Option<Result<T, ViewError>>,
) -> Result<(Object<'a>, ListElements<T>), ViewError> {
    let mut found = ListElements { items: Vec::new(), dropped: Vec::new(), is_present: false };
    let mut cursor = Cursor::new(json.as_bytes());
    let mut members = Vec::with_capacity(TYPICAL_MEMBERS);
    if !cursor.enter(b'{') {
        return Err(ViewError::mismatch("an object", json));
    }
    while let Some(name) = cursor.name().and_then(unquote_lossy) {
        if name == list && cursor.enter(b'[') {
            found.is_present = true;
            let mut index = 0;
            while !cursor.leave(b']') {
                let Some(read) = next(&mut cursor) else { break };
                found.push_result(index, list, read);
                index += 1;
            }
        } else {
            let Some(value) = cursor.value() else { break };
            if members.len() < MAX_MEMBERS {
                members.push((name, value));
            }
        }
    }
    let object = Object { json: json.clone(), members };
    if !found.is_present && object.non_null(list).is_some() {
        return Err(object.misfit(list, "an array"));
    }
    Ok((object, found))
}

impl<T> ListElements<T> {
    fn push_result(&mut self, index: usize, list: &str, read: Result<T, ViewError>) {
        match read {
            Ok(item) if index < MAX_ELEMENTS => self.items.push(item),
            _ if self.dropped.len() >= MAX_DROPPED => {}
            Ok(_) => {
                let reason = ViewError::new("no more elements", None).at_index(index).in_member(list);
                self.dropped.push(DroppedElement { index, reason });
            }
            Err(reason) => {
                self.dropped.push(DroppedElement { index, reason: reason.at_index(index).in_member(list) });
            }
        }
    }
}

/// Reads one string member of an object.
pub(super) fn text(json: &Json, name: &str) -> Option<String> {
    Object::parse(json).ok()?.string(name).map(Cow::into_owned)
}

/// Reads the `_meta` of an object.
pub(super) fn meta(json: &Json) -> Option<Json> {
    Object::parse(json).ok()?.meta()
}
