//! [`Page`]: one page of any list, and how long it may be kept.

use super::read::{Object, elements};
use super::{Dropped, ViewError};
use crate::wire::Json;

/// What a list can hold.
pub trait Item: Sized {
    /// The member of the result that holds the list.
    const LIST: &'static str;

    /// Reads one element.
    #[doc(hidden)]
    fn read(object: &Object<'_>) -> Result<Self, ViewError>;

    /// The element as it came.
    fn json(&self) -> &Json;

    /// What tells it from the others of its list.
    fn key(&self) -> &str;

    /// Decodes one element.
    fn decode(json: &Json) -> Result<Self, ViewError> {
        Self::read(&Object::of(json)?)
    }
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The elements that could be used.
    pub items: Vec<T>,
    /// Where the next page begins. An empty string is a cursor too (PA-02).
    pub next_cursor: Option<String>,
    /// How long the page may be kept.
    pub cache: CacheHint,
    /// The elements that could not be used: the first hundred.
    pub dropped: Vec<Dropped>,
    /// The result's `_meta`.
    pub meta: Option<Json>,
}

/// How long a modern result may be kept, and for whom (CA-01).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHint {
    /// Milliseconds from receipt. Absent and negative values count as 0, which is stale at once.
    pub ttl_ms: u64,
    /// Who may be served from it.
    pub scope: CacheScope,
}

/// Who may be served from a cached result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheScope {
    /// Only the authorization that fetched it. Anything but `public` means this (CA-03).
    #[default]
    Private,
    /// Anyone.
    Public,
}

impl<T: Item> Page<T> {
    /// Decodes the result of a list method.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let (object, found) = elements(json, T::LIST, T::read)?;
        if !found.given {
            return Err(object.misfit(T::LIST, "an array"));
        }
        Ok(Self {
            items: found.items,
            next_cursor: object.string("nextCursor").map(Into::into),
            cache: CacheHint::of(&object),
            dropped: found.dropped,
            meta: object.meta(),
        })
    }
}

impl CacheHint {
    /// Reads the hint of a result. What has none is stale at once.
    pub fn decode(json: &Json) -> Self {
        Object::of(json).map_or_else(|_| Self::default(), |object| Self::of(&object))
    }

    pub(super) fn of(object: &Object<'_>) -> Self {
        Self {
            ttl_ms: object.count("ttlMs").unwrap_or(0),
            scope: match object.string("cacheScope").as_deref() {
                Some("public") => CacheScope::Public,
                _ => CacheScope::Private,
            },
        }
    }
}
