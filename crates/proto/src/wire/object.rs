//! Reading and editing one JSON object at its top level, leaving everything else as it was written.
//!
//! Order, unknown members, number spellings and white space inside values all survive.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Json;

/// The top-level members of an object, in their order, borrowed.
#[derive(Debug)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Splits `json` into its members. Fails when it is not an object.
    pub fn of(json: &'a Json) -> Result<Self, serde_json::Error> {
        json.decode()
    }

    /// The value of `name`. Where a name stands twice, the last one counts, as in most parsers.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The members in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (&**key, *value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Each<'a> {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    let value = map.next_value::<&'a RawValue>().map_err(A::Error::custom)?;
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each(std::marker::PhantomData))
    }
}

/// A key, borrowed where it has no escapes. (A bare `Cow` would always be owned.)
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

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
    pub fn apply(&self, object: Option<&Json>) -> Result<Json, serde_json::Error> {
        let members = match object {
            Some(object) => Members::of(object)?,
            None => Members(Vec::new()),
        };
        let length = object.map_or(2, |object| object.as_bytes().len());
        let added: usize = self.sets.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut out = String::with_capacity(length + added);
        out.push('{');
        let mut write = |name: &str, value: &str| {
            if out.len() > 1 {
                out.push(',');
            }
            push_quoted(&mut out, name);
            out.push(':');
            out.push_str(value);
        };
        for (name, old) in members.iter() {
            write(name, self.find(name).unwrap_or(old.get()));
        }
        for (name, value) in &self.sets {
            if members.get(name).is_none() {
                write(name, value);
            }
        }
        out.push('}');
        Json::parse(Bytes::from(out))
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.sets.iter().find(|(set, _)| *set == name).map(|(_, value)| &**value)
    }
}

/// `text` as a JSON string.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}

fn push_quoted(out: &mut String, text: &str) {
    // A string always serialises; an error here could only be an allocation failure, which aborts.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
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
        assert_eq!(Members::of(&twice).unwrap().get("a").unwrap().get(), "2");
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
