//! Reading and editing one JSON object at its top level, leaving everything else as it was written.
//!
//! Order, unknown members, number spellings and white space inside values all survive.

use std::borrow::Cow;

use bytes::{BufMut, Bytes};

use super::{Json, scan};

/// Edits of one object, applied in one pass by [`Edit::apply`].
///
/// A member that is set keeps its place if it was there and is appended if it was not.
#[derive(Debug, Default)]
pub struct Edit<'a> {
    sets: Vec<(&'a str, Cow<'a, str>)>,
}

impl<'a> Edit<'a> {
    /// No edits yet.
    pub fn new() -> Self {
        Self::default()
    }

    // At most 64 edits at once: `apply` keeps a bit for each. Nobody edits that much.

    /// Sets member `name` to the JSON text of `value`.
    #[must_use]
    pub fn set(mut self, name: &'a str, value: &'a Json) -> Self {
        self.sets.push((name, Cow::Borrowed(value.as_str())));
        self
    }

    /// Sets member `name` to a string.
    #[must_use]
    pub fn set_str(mut self, name: &'a str, value: &str) -> Self {
        self.sets.push((name, Cow::Owned(quote(value))));
        self
    }

    /// Sets member `name` to an integer.
    #[must_use]
    pub fn set_int(mut self, name: &'a str, value: u64) -> Self {
        self.sets.push((name, Cow::Owned(value.to_string())));
        self
    }

    /// The object with the edits applied. `None` stands for an object that is not there yet.
    pub fn apply(&self, object: Option<&Json>) -> Result<Json, NotAnObject> {
        let text = object.map_or(&b"{}"[..], Json::as_bytes);
        let added: usize = self.sets.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut out = Vec::with_capacity(text.len() + added);
        let mut kept = 0u64;
        if object.is_some() {
            for (name, old) in scan::members(text).ok_or(NotAnObject)? {
                match self.find(&name) {
                    Some(at) => {
                        kept |= 1 << at;
                        put_member(&mut out, &name, self.sets[at].1.as_bytes());
                    }
                    None => put_member(&mut out, &name, old),
                }
            }
        }
        for (at, (name, value)) in self.sets.iter().enumerate() {
            if kept & (1 << at) == 0 {
                put_member(&mut out, name, value.as_bytes());
            }
        }
        if out.is_empty() {
            out.push(b'{');
        }
        out.push(b'}');
        // Members of a valid object and valid values make a valid object.
        Ok(Json::trusted(Bytes::from(out)))
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.sets.iter().position(|(set, _)| *set == name)
    }
}

/// Writes a member, and the brace or comma before it.
fn put_member(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.push(if out.is_empty() { b'{' } else { b',' });
    put_quoted(out, name);
    out.push(b':');
    out.extend_from_slice(value);
}

/// What was to be edited is no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object")]
pub struct NotAnObject;

/// `text` as a JSON string.
pub fn quote(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    put_quoted(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// Writes `text` as a JSON string.
pub(crate) fn put_quoted(out: &mut impl BufMut, text: &str) {
    // Nearly all names and many values need no escapes.
    if text.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        // A string always serialises; an error here could only be an allocation failure, which aborts.
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

    proptest! {
        /// Whatever else is in the object is read back the same after an edit.
        #[test]
        fn the_rest_is_untouched(keys in proptest::collection::vec("[a-z\\PC\"\\\\]{0,8}", 0..6), value in any::<i64>()) {
            let mut object = serde_json::Map::new();
            for key in &keys {
                object.insert(key.clone(), value.into());
            }
            let before = Json::of(&object).unwrap();
            let after = Edit::new().set_int("_edited", 1).apply(Some(&before)).unwrap();
            object.insert("_edited".into(), 1.into());
            prop_assert_eq!(after.decode::<serde_json::Map<_, _>>().unwrap(), object);
        }
    }
}
