//! Catalogs for hosts with different capabilities: servers list some tools only for hosts that can
//! answer what those tools ask.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bowline::{Json, Server};
use bowline_proto::stable_hash::StableHash;
use parking_lot::Mutex;

use super::{Catalog, CatalogCache, Naming};

/// What servers may know of a host when they list: a hash of its capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Profile(u32);

impl Profile {
    /// The profile of a host with these capabilities.
    pub fn from_capabilities(capabilities: &Json) -> Self {
        let mut hash = StableHash::new();
        hash.add(capabilities.as_bytes());
        Self(hash.to_u32())
    }
}

/// Hexadecimal digits.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The catalog of each profile.
#[derive(Debug)]
pub(crate) struct Catalogs {
    servers: Vec<Server>,
    naming: Naming,
    cache: Option<Arc<dyn CatalogCache>>,
    by_profile: Mutex<HashMap<Profile, Arc<Catalog>>>,
}

/// Most catalogs at a time. A host can declare anything.
const MAX_CATALOGS: usize = 16;

impl Catalogs {
    /// Catalogs of these servers.
    pub(crate) fn new(servers: Vec<Server>, naming: Naming, cache: Option<Arc<dyn CatalogCache>>) -> Self {
        Self { servers, naming, cache, by_profile: Mutex::default() }
    }

    /// The servers, in the configured order.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The catalog for a host with these capabilities. Hosts with the same ones share it.
    pub(crate) fn for_host(&self, capabilities: &Json) -> Arc<Catalog> {
        let profile = Profile::from_capabilities(capabilities);
        let mut catalogs = self.by_profile.lock();
        if !catalogs.contains_key(&profile) && catalogs.len() >= MAX_CATALOGS {
            // A catalog that no session uses can be read from the cache again.
            catalogs.retain(|_, catalog| Arc::strong_count(catalog) > 1);
        }
        let cache = self.cache.clone();
        let create = || Arc::new(Catalog::new(&self.servers, profile, self.naming, cache));
        if catalogs.len() >= MAX_CATALOGS && !catalogs.contains_key(&profile) {
            return create();
        }
        Arc::clone(catalogs.entry(profile).or_insert_with(create))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities(number: usize) -> Json {
        Json::encode(&serde_json::json!({ "experimental": { "n": number } })).unwrap()
    }

    #[test]
    fn hosts_with_the_same_capabilities_share_a_catalog() {
        let catalogs = Catalogs::new(Vec::new(), Naming::default(), None);
        let first = catalogs.for_host(&capabilities(1));
        assert!(Arc::ptr_eq(&first, &catalogs.for_host(&capabilities(1))));
        assert!(!Arc::ptr_eq(&first, &catalogs.for_host(&capabilities(2))));
    }

    #[test]
    fn the_number_of_catalogs_is_bounded() {
        let catalogs = Catalogs::new(Vec::new(), Naming::default(), None);
        let kept: Vec<_> = (0..MAX_CATALOGS).map(|number| catalogs.for_host(&capabilities(number))).collect();
        for number in MAX_CATALOGS..100 {
            catalogs.for_host(&capabilities(number));
        }
        assert_eq!(catalogs.by_profile.lock().len(), MAX_CATALOGS);
        assert!(Arc::ptr_eq(&kept[3], &catalogs.for_host(&capabilities(3))), "it is in use");
        drop(kept);
        catalogs.for_host(&capabilities(200));
        assert_eq!(catalogs.by_profile.lock().len(), 1, "unused ones were dropped");
    }
}
