//! [`Completion`]: suggestions for an argument (CP-03).

use super::read::{Object, strings};
use super::{Dropped, ViewError};
use crate::wire::Json;

/// What completing an argument gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The suggestions, best first: at most a hundred, which is all that the protocol allows.
    pub values: Vec<Box<str>>,
    /// How many there are in all, if said.
    pub total: Option<u64>,
    /// Whether there are more than these.
    pub has_more: bool,
    /// Suggestions that are no strings: the first hundred.
    pub dropped: Vec<Dropped>,
}

impl Completion {
    /// Decodes a result of `completion/complete`.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let completion = Object::of(json)?.required_object("completion")?;
        let (object, mut found) =
            strings(&completion, "values").map_err(|error| error.under("completion"))?;
        let cut = found.items.len() > MOST_VALUES;
        found.items.truncate(MOST_VALUES);
        Ok(Self {
            total: object.count("total"),
            has_more: cut || object.flag("hasMore").unwrap_or(false),
            values: found.items,
            dropped: found.dropped,
        })
    }
}

/// More in one answer are not looked at.
const MOST_VALUES: usize = 100;
