//! [`Page`]: one page of any list, and how long it may be cached.

use super::read::{Object, decode_elements};
use super::{DroppedElement, ViewError};
use crate::wire::Json;

/// A type of list element.
pub trait ListItem: Sized {
    /// The member of the result that holds the list.
    const LIST: &'static str;

    /// Decodes one element from its members.
    #[doc(hidden)]
    fn read(object: &Object<'_>) -> Result<Self, ViewError>;

    /// The element as received.
    fn json(&self) -> &Json;

    /// The key that identifies the element in its list.
    fn key(&self) -> &str;

    /// Decodes one element.
    fn decode(json: &Json) -> Result<Self, ViewError> {
        Self::read(&Object::parse(json)?)
    }
}

/// One page of a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// The valid elements.
    pub items: Vec<T>,
    // PA-02
    /// The cursor of the next page. An empty string is a valid cursor.
    pub next_cursor: Option<String>,
    /// How long the page may be cached.
    pub cache: CacheHint,
    /// The invalid elements, at most 100.
    pub dropped: Vec<DroppedElement>,
    /// The result's `_meta`.
    pub meta: Option<Json>,
}

/// How long a modern result may be cached, and for whom.
// CA-01
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheHint {
    /// Lifetime in milliseconds from receipt. Missing and negative values count as 0, stale at
    /// once.
    pub ttl_ms: u64,
    /// Who may be served from the cache.
    pub scope: CacheScope,
}

/// Who may be served from a cached result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheScope {
    // CA-03
    /// Only the authorization that fetched it. Any value but `public` means this.
    #[default]
    Private,
    /// Anyone.
    Public,
}

impl<T: ListItem> Page<T> {
    /// Decodes the result of a list method.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let (object, found) = decode_elements(json, T::LIST, T::read)?;
        if !found.is_present {
            return Err(object.misfit(T::LIST, "an array"));
        }
        Ok(Self {
            items: found.items,
            next_cursor: object.string("nextCursor").map(Into::into),
            cache: CacheHint::from_object(&object),
            dropped: found.dropped,
            meta: object.meta(),
        })
    }
}

impl CacheHint {
    /// Decodes the hint of a result. A result without one is stale at once.
    pub fn decode(json: &Json) -> Self {
        Object::parse(json).map_or_else(|_| Self::default(), |object| Self::from_object(&object))
    }

    pub(super) fn from_object(object: &Object<'_>) -> Self {
        Self {
            ttl_ms: object.count("ttlMs").unwrap_or(0),
            scope: match object.string("cacheScope").as_deref() {
                Some("public") => CacheScope::Public,
                _ => CacheScope::Private,
            },
        }
    }
}
