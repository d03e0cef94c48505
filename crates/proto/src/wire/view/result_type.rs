//! [`result_type`]: reads the type of a result before it is decoded.

use memchr::memmem;

use super::error::truncate_text;
use crate::wire::{Json, scan};

/// The type of a result.
// BM-05
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// The result is complete. This is the default, since legacy servers write no `resultType`.
    Complete,
    /// The server requires input first: see [`InputRequired`](super::InputRequired).
    InputRequired,
    /// The work continues as a task: see [`Task`](super::Task).
    Task,
    /// An unknown type, which makes the result invalid. Holds at most 80 bytes of it.
    Unknown(String),
}

/// Reads `resultType`.
///
/// This costs next to nothing if it is the first or the last member, where servers write it;
/// otherwise one search for the name, and if that finds it, a pass over the members before it. A
/// name spelled with escapes is not found; such a result counts as complete.
pub fn result_type(result: &Json) -> ResultType {
    let text = result.as_bytes();
    if is_plainly_complete(text) || memmem::find(text, b"\"resultType\"").is_none() {
        return ResultType::Complete;
    }
    // The first one counts, unlike elsewhere, because megabytes may follow it.
    let first = scan::members(text).and_then(|mut members| members.find(|(name, _)| name == "resultType"));
    let Some(json) = first.map(|(_, raw)| result.slice(raw)).filter(|json| !json.is_null()) else {
        return ResultType::Complete;
    };
    match json.decode::<String>().as_deref() {
        Ok("complete") => ResultType::Complete,
        Ok("input_required") => ResultType::InputRequired,
        Ok("task") => ResultType::Task,
        Ok(other) => ResultType::Unknown(truncate_text(other).to_owned()),
        Err(_) => ResultType::Unknown(truncate_text(json.as_str()).to_owned()),
    }
}

/// Whether the first or the last member, written without white space, says `complete`.
///
/// At the end, the comma before it proves that it is a member: inside a string its quote would have
/// ended that string, and the text would not be JSON.
fn is_plainly_complete(text: &[u8]) -> bool {
    text.ends_with(b",\"resultType\":\"complete\"}")
        || (text.starts_with(b"{\"resultType\":\"complete\",")
            && memmem::rfind(text, b"\"resultType\"") == Some(1))
}
