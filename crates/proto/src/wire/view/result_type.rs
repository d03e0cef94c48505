//! [`result_type`]: which kind of result this is, before it is decoded as any of them.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::cut;
use crate::wire::Json;

/// What a result claims to be (BM-05).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// The answer. Also what a result without the member is, since legacy servers write none.
    Complete,
    /// The server wants input first: see [`InputRequired`](super::InputRequired).
    InputRequired,
    /// Work goes on in the background: see [`Task`](super::Task).
    Task,
    /// Nothing known, which makes the result invalid. At most 80 bytes of what it said.
    Unknown(String),
}

/// Reads `resultType`.
///
/// Cost: one search for the name. Only a result that has it is parsed, up to that member, which modern
/// servers write first. A name spelled with escapes is not found; such a result counts as complete.
pub fn result_type(result: &Json) -> ResultType {
    if memmem::find(result.as_bytes(), b"\"resultType\"").is_none() {
        return ResultType::Complete;
    }
    let mut found = None;
    // The visitor ends the parse by an error as soon as it has what it came for.
    let _ = serde_json::Deserializer::from_slice(result.as_bytes()).deserialize_map(Find(&mut found));
    let Some(raw) = found.filter(|raw| raw.get() != "null") else { return ResultType::Complete };
    match serde_json::from_str::<Cow<'_, str>>(raw.get()).as_deref() {
        Ok("complete") => ResultType::Complete,
        Ok("input_required") => ResultType::InputRequired,
        Ok("task") => ResultType::Task,
        Ok(other) => ResultType::Unknown(cut(other).to_owned()),
        Err(_) => ResultType::Unknown(cut(raw.get()).to_owned()),
    }
}

struct Find<'s, 'a>(&'s mut Option<&'a RawValue>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Name {
    ResultType,
    #[serde(other)]
    Other,
}

impl<'a> Visitor<'a> for Find<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key()? {
            match name {
                Name::ResultType => {
                    *self.0 = Some(map.next_value()?);
                    return Err(A::Error::custom("found"));
                }
                Name::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}
