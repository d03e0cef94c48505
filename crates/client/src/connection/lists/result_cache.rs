//! Caches results of modern servers for as long as the server's cache hint allows (group CA).
//!
//! One connection has one set of credentials, so private results can be cached like public ones.
//! The pages of a list are cached one by one, each with its own expiry.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::revision::Era;
use bowline_proto::wire::view::CacheHint;
use bowline_proto::wire::{Json, method};

use super::Lists;
use crate::clock;
use crate::connection::{CallRequest, Connection, LiveLink};
use crate::error::Result;

/// Cached results, bounded in number and bytes.
#[derive(Debug, Default)]
pub(super) struct ResultCache {
    entries: HashMap<Key, CachedResult>,
    bytes: usize,
    /// Counts invalidations: a response that was requested before one is not cached.
    generation: u64,
}

/// The method and the parameter that a result depends on (CA-03).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    method: &'static str,
    /// The cursor of a page, or the URI of a resource.
    argument: Option<String>,
}

#[derive(Debug)]
struct CachedResult {
    result: Json,
    expires_at: Instant,
}

impl Key {
    fn from_request(method: &str, params: Option<&Json>) -> Option<Self> {
        let (method, member) = match method {
            method::TOOLS_LIST => (method::TOOLS_LIST, "cursor"),
            method::PROMPTS_LIST => (method::PROMPTS_LIST, "cursor"),
            method::RESOURCES_LIST => (method::RESOURCES_LIST, "cursor"),
            method::TEMPLATES_LIST => (method::TEMPLATES_LIST, "cursor"),
            method::RESOURCES_READ => (method::RESOURCES_READ, "uri"),
            _ => return None,
        };
        let of = params.and_then(|params| params.member(member)?.decode().ok());
        Some(Self { method, argument: of })
    }
}

impl ResultCache {
    fn get(&self, now: Instant, key: &Key) -> Option<Json> {
        self.entries.get(key).filter(|entry| now < entry.expires_at).map(|entry| entry.result.clone())
    }

    fn insert(&mut self, now: Instant, key: Key, result: &Json, ttl: Duration) {
        let size = result.as_bytes().len();
        if size > MAX_BYTES / 4 {
            return;
        }
        if self.entries.len() >= MAX_ENTRIES || self.bytes + size > MAX_BYTES {
            self.retain(|_, entry| now < entry.expires_at);
        }
        // Everything is still fresh: drop it all, since whatever is needed is fetched again.
        if self.entries.len() >= MAX_ENTRIES || self.bytes + size > MAX_BYTES {
            self.retain(|_, _| false);
        }
        let entry = CachedResult { result: result.detached(), expires_at: now + ttl.min(MAX_TTL) };
        self.bytes += size;
        if let Some(old) = self.entries.insert(key, entry) {
            self.bytes -= old.result.as_bytes().len();
        }
    }

    fn retain(&mut self, keep: impl Fn(&Key, &CachedResult) -> bool) {
        let bytes = &mut self.bytes;
        self.entries.retain(|key, entry| {
            let kept = keep(key, entry);
            if !kept {
                *bytes -= entry.result.as_bytes().len();
            }
            kept
        });
    }

    fn invalidate_where(&mut self, stale: impl Fn(&Key) -> bool) {
        self.generation += 1;
        self.retain(|key, _| !stale(key));
    }
}

impl Connection {
    /// Returns a fresh cached result, or requests and caches a new one (CA-02).
    pub(crate) async fn request_cached(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Result<Json> {
        let key = Key::from_request(ask.method, ask.params).filter(|_| live.peer.era() == Era::Modern);
        let turn = {
            let cache = self.lists.cache.lock();
            if let Some(hit) = key.as_ref().and_then(|key| cache.get(clock::now(), key)) {
                return Ok(hit);
            }
            cache.generation
        };
        let (result, direct) = self.perform_request(live, ask).await?;
        // CA-04: a result that needed input rounds or a task is not cached.
        if let Some(key) = key.filter(|_| direct) {
            let ttl = Duration::from_millis(CacheHint::decode(&result).ttl_ms);
            let mut cache = self.lists.cache.lock();
            if !ttl.is_zero() && cache.generation == turn {
                cache.insert(clock::now(), key, &result, ttl);
            }
        }
        Ok(result)
    }
}

impl Lists {
    /// Invalidates the results that a change notification is about (CA-05).
    pub(crate) fn invalidate_for(&self, notification: &str, params: Option<&Json>) {
        let mut cache = self.cache.lock();
        match notification {
            method::TOOLS_CHANGED => cache.invalidate_where(|key| key.method == method::TOOLS_LIST),
            method::PROMPTS_CHANGED => cache.invalidate_where(|key| key.method == method::PROMPTS_LIST),
            method::RESOURCES_CHANGED => {
                cache.invalidate_where(|key| {
                    matches!(key.method, method::RESOURCES_LIST | method::TEMPLATES_LIST)
                });
            }
            method::RESOURCE_UPDATED => {
                let changed: Option<String> = params.and_then(|params| params.member("uri")?.decode().ok());
                // Either URI may contain the other, so a prefix in either direction matches.
                cache.invalidate_where(|key| {
                    key.method == method::RESOURCES_READ
                        && match (&key.argument, &changed) {
                            (Some(read), Some(changed)) => {
                                read.starts_with(&**changed) || changed.starts_with(&**read)
                            }
                            _ => true,
                        }
                });
            }
            _ => {}
        }
    }

    /// Invalidates all pages of a list (CA-06).
    pub(crate) fn invalidate_list(&self, method: &str) {
        self.cache.lock().invalidate_where(|key| key.method == method);
    }

    /// Invalidates everything, after change notifications may have been missed.
    pub(crate) fn invalidate_all(&self) {
        self.cache.lock().invalidate_where(|_| true);
    }
}

/// Maximum number of cached results.
const MAX_ENTRIES: usize = 4096;
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Maximum time for which a result is cached, whatever the server says.
const MAX_TTL: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(of: &str) -> Key {
        Key { method: method::RESOURCES_READ, argument: Some(of.to_owned()) }
    }

    fn counted(cache: &ResultCache) -> usize {
        cache.entries.values().map(|entry| entry.result.as_bytes().len()).sum()
    }

    /// The cache stays within its bounds and counts its bytes correctly.
    #[test]
    fn the_cache_is_bounded() {
        let (mut cache, now, day) = (ResultCache::default(), Instant::now(), Duration::from_secs(86_400));
        let large = Json::encode(&"x".repeat(MAX_BYTES / 5)).unwrap();
        for n in 0..100 {
            cache.insert(now, key(&n.to_string()), &large, day);
            assert!(cache.bytes <= MAX_BYTES);
            assert_eq!(cache.bytes, counted(&cache));
        }
        let small = Json::empty_object();
        for n in 0..2 * MAX_ENTRIES {
            cache.insert(now, key(&n.to_string()), &small, day);
            assert!(cache.entries.len() <= MAX_ENTRIES);
        }
        // Replacing a result counts it once.
        cache.insert(now, key("x"), &large, day);
        cache.insert(now, key("x"), &small, day);
        assert_eq!(cache.bytes, counted(&cache));
        let huge = Json::encode(&"x".repeat(MAX_BYTES / 2)).unwrap();
        cache.insert(now, key("huge"), &huge, day);
        assert_eq!(cache.get(now, &key("huge")), None);
    }

    /// CA-02: a result is fresh until its expiry, and the hint is capped at a day.
    #[test]
    fn ca_02_a_result_is_fresh_until_its_expiry() {
        let (mut cache, now) = (ResultCache::default(), Instant::now());
        cache.insert(now, key("a"), &Json::empty_object(), Duration::from_millis(10));
        assert!(cache.get(now + Duration::from_millis(9), &key("a")).is_some());
        assert!(cache.get(now + Duration::from_millis(10), &key("a")).is_none());
        cache.insert(now, key("b"), &Json::empty_object(), Duration::from_millis(u64::MAX));
        assert!(cache.get(now + MAX_TTL, &key("b")).is_none());
    }
}
