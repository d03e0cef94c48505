//! [`Completion`]: the suggestions for an argument.
// CP-03

use super::read::{Object, decode_strings};
use super::{DroppedElement, ViewError};
use crate::wire::Json;

/// The result of `completion/complete`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The suggestions, best first: at most 100, which is all that the protocol allows.
    pub values: Vec<Box<str>>,
    /// Number of suggestions in all, if the server says it.
    pub total: Option<u64>,
    /// Whether there are more than these.
    pub has_more: bool,
    /// Suggestions that are not strings, at most 100.
    pub dropped: Vec<DroppedElement>,
}

impl Completion {
    /// Decodes a result of `completion/complete`.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let completion = Object::parse(json)?.required_object("completion")?;
        let (object, mut found) =
            decode_strings(&completion, "values").map_err(|error| error.in_member("completion"))?;
        let cut = found.items.len() > MAX_VALUES;
        found.items.truncate(MAX_VALUES);
        Ok(Self {
            total: object.count("total"),
            has_more: cut || object.flag("hasMore").unwrap_or(false),
            values: found.items,
            dropped: found.dropped,
        })
    }
}

/// Maximum number of suggestions in one result. More are cut.
const MAX_VALUES: usize = 100;
