//! [`Edit`]: edits the top-level members of a JSON object and leaves everything else as it was
//! written.
//!
//! Order, unknown members, number spellings and white space inside values are preserved.

use std::fmt;

use std::borrow::Cow;

use bytes::{BufMut, Bytes};

use super::Json;
use super::scan::{self, Cursor};

/// Edits of one object, applied in one pass by [`Edit::apply`].
///
/// A member that is set keeps its place if it exists, and is appended otherwise. A member that is
/// removed need not exist.
#[derive(Debug, Default)]
pub struct Edit<'a> {
    /// The new value of each edited member. `None`: removed.
    edits: Vec<(&'a str, Option<Cow<'a, str>>)>,
}

impl<'a> Edit<'a> {
    /// Creates an empty set of edits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets member `name` to the JSON text of `value`.
    #[must_use]
    pub fn set(mut self, name: &'a str, value: &'a Json) -> Self {
        self.set_edit(name, Some(Cow::Borrowed(value.as_str())));
        self
    }

    /// Sets member `name` to a string.
    #[must_use]
    pub fn set_str(mut self, name: &'a str, value: &str) -> Self {
        self.set_edit(name, Some(Cow::Owned(quote(value))));
        self
    }

    /// Sets member `name` to an integer.
    #[must_use]
    pub fn set_int(mut self, name: &'a str, value: u64) -> Self {
        self.set_edit(name, Some(Cow::Owned(value.to_string())));
        self
    }

    /// Removes member `name`.
    #[must_use]
    pub fn remove(mut self, name: &'a str) -> Self {
        self.set_edit(name, None);
        self
    }

    /// Adds an edit. It replaces an earlier edit of the same member.
    fn set_edit(&mut self, name: &'a str, value: Option<Cow<'a, str>>) {
        match self.find(name) {
            Some(at) => self.edits[at].1 = value,
            None => self.edits.push((name, value)),
        }
    }

    /// Applies the edits to `object`. `None` stands for an empty object.
    pub fn apply(&self, object: Option<&Json>) -> Result<Json, NotAnObject> {
        let text = object.map_or(&b"{}"[..], Json::as_bytes);
        let length = |value: &Option<Cow<'_, str>>| value.as_ref().map_or(0, |value| value.len());
        let added: usize = self.edits.iter().map(|(name, value)| name.len() + length(value) + 4).sum();
        let mut out = Vec::with_capacity(text.len() + added);
        let mut kept = vec![false; if object.is_some() { self.edits.len() } else { 0 }];
        let mut cursor = Cursor::new(text);
        if !cursor.enter(b'{') {
            return Err(NotAnObject);
        }
        while let Some(name) = cursor.name() {
            let old = cursor.value().ok_or(NotAnObject)?;
            // The name is copied unchanged: it may hold half a surrogate pair, which no `str` can.
            match scan::unquote(name).and_then(|name| self.find(&name)) {
                Some(at) => {
                    kept[at] = true;
                    if let Some(value) = &self.edits[at].1 {
                        put_member(&mut out, name, value.as_bytes());
                    }
                }
                None => put_member(&mut out, name, old),
            }
        }
        for (at, (name, value)) in self.edits.iter().enumerate() {
            if let Some(value) = value
                && !kept.get(at).copied().unwrap_or(false)
            {
                put_member(&mut out, quote(name).as_bytes(), value.as_bytes());
            }
        }
        if out.is_empty() {
            out.push(b'{');
        }
        out.push(b'}');
        // Valid members make a valid object.
        Ok(Json::from_trusted(Bytes::from(out)))
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.edits.iter().position(|(set, _)| *set == name)
    }
}

/// Writes a member and the brace or comma before it.
fn put_member(out: &mut Vec<u8>, quoted: &[u8], value: &[u8]) {
    out.push(if out.is_empty() { b'{' } else { b',' });
    out.extend_from_slice(quoted);
    out.push(b':');
    out.extend_from_slice(value);
}

/// The value to edit is not an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnObject;

impl fmt::Display for NotAnObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a JSON object")
    }
}

impl std::error::Error for NotAnObject {}

/// Returns `text` as a JSON string.
pub fn quote(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    put_quoted(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// Writes `text` as a JSON string.
pub(crate) fn put_quoted(out: &mut impl BufMut, text: &str) {
    // Nearly all names and many values need no escapes.
    if text.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        // A string always serializes; an error here could only be an allocation failure, which
        // aborts.
        out.put_slice(serde_json::to_string(text).unwrap_or_default().as_bytes());
    } else {
        out.put_u8(b'"');
        out.put_slice(text.as_bytes());
        out.put_u8(b'"');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(Bytes::from(text.to_owned())).unwrap()
    }

    #[test]
    fn removes_what_is_there_and_nothing_else() {
        let object = json(r#"{"a":1.0, "b":[1, 2] ,"a":2}"#);
        assert_eq!(
            Edit::new().remove("a").remove("z").apply(Some(&object)).unwrap().as_str(),
            r#"{"b":[1, 2]}"#
        );
        assert_eq!(Edit::new().remove("a").apply(Some(&json(r#"{"a":1}"#))).unwrap().as_str(), "{}");
        assert_eq!(Edit::new().remove("a").apply(None).unwrap().as_str(), "{}");
    }

    #[test]
    fn edits_in_place_and_appends_what_is_new() {
        let params =
            json(r#"{"x-vendor": 1.50, "name":"a", "arguments":{"n": 1e2,"_meta":{}}, "cursor":"c"}"#);
        let edited = Edit::new()
            .set_str("name", "b\"c")
            .set_int("progressToken", 7)
            .set("cursor", &json("null"))
            .apply(Some(&params))
            .unwrap();
        assert_eq!(
            edited.as_str(),
            r#"{"x-vendor":1.50,"name":"b\"c","arguments":{"n": 1e2,"_meta":{}},"cursor":null,"progressToken":7}"#
        );
        assert_eq!(Edit::new().set_int("a", 1).apply(None).unwrap().as_str(), r#"{"a":1}"#);
        assert!(Edit::new().apply(Some(&json("[1]"))).is_err());
    }

    #[test]
    fn a_name_that_stands_twice_reads_as_the_last_and_stays_twice() {
        let twice = json(r#"{"a":1,"a":2}"#);
        assert_eq!(twice.member("a").unwrap().as_str(), "2");
        assert_eq!(
            Edit::new().set_int("b", 3).apply(Some(&twice)).unwrap().as_str(),
            r#"{"a":1,"a":2,"b":3}"#
        );
    }

    #[test]
    fn any_number_of_edits_and_the_last_of_each() {
        let names: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
        let edit = names.iter().fold(Edit::new(), |edit, name| edit.set_int(name, 1).set_int(name, 2));
        let old = json(r#"{"k7":0,"z":0}"#);
        let new: serde_json::Map<_, _> = edit.apply(Some(&old)).unwrap().decode().unwrap();
        assert_eq!(new.len(), 201);
        assert_eq!((&new["k7"], &new["k199"], &new["z"]), (&2.into(), &2.into(), &0.into()));
    }

    #[test]
    fn a_name_that_no_text_can_hold_is_kept() {
        let odd = json(r#"{"a":1,"\ud800":2,"b":3}"#);
        let edited = Edit::new().set_int("b", 4).apply(Some(&odd)).unwrap();
        assert_eq!(edited.as_str(), r#"{"a":1,"\ud800":2,"b":4}"#);
    }

    proptest! {
        /// An edit leaves all other members unchanged.
        #[test]
        fn the_rest_is_untouched(keys in proptest::collection::vec("[a-z\\PC\"\\\\]{0,8}", 0..6), value in any::<i64>()) {
            let mut object = serde_json::Map::new();
            for key in &keys {
                object.insert(key.clone(), value.into());
            }
            let before = Json::encode(&object).unwrap();
            let after = Edit::new().set_int("_edited", 1).apply(Some(&before)).unwrap();
            object.insert("_edited".into(), 1.into());
            prop_assert_eq!(after.decode::<serde_json::Map<_, _>>().unwrap(), object);
        }
    }
}
