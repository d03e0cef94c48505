//! [`result_type`]: which kind of result this is, before it is decoded as any of them.

use memchr::memmem;

use super::error::cut;
use crate::wire::{Json, scan};

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
/// Cost: nothing to speak of where it is the first or the last member, which is where servers write it;
/// otherwise one search for the name, and if that finds it, a pass over the members before it. A name spelled with
/// escapes is not found; such a result counts as complete.
pub fn result_type(result: &Json) -> ResultType {
    let text = result.as_bytes();
    if is_plainly_complete(text) || memmem::find(text, b"\"resultType\"").is_none() {
        return ResultType::Complete;
    }
    // The first counts: it is near the front, and what comes after it may be megabytes.
    let first = scan::members(text).and_then(|mut members| members.find(|(name, _)| name == "resultType"));
    let Some(json) = first.map(|(_, raw)| result.slice(raw)).filter(|json| !json.is_null()) else {
        return ResultType::Complete;
    };
    match json.decode::<String>().as_deref() {
        Ok("complete") => ResultType::Complete,
        Ok("input_required") => ResultType::InputRequired,
        Ok("task") => ResultType::Task,
        Ok(other) => ResultType::Unknown(cut(other).to_owned()),
        Err(_) => ResultType::Unknown(cut(json.as_str()).to_owned()),
    }
}

/// Whether the first or the last member says so, as it is written without white space.
///
/// At the end, a comma before it proves that the name is one: inside a string its quote would have ended
/// that string, and the text would not be JSON.
fn is_plainly_complete(text: &[u8]) -> bool {
    text.ends_with(b",\"resultType\":\"complete\"}")
        || (text.starts_with(b"{\"resultType\":\"complete\",")
            && memmem::rfind(text, b"\"resultType\"") == Some(1))
}
