//! [`HostCatalogs`]: which lists of which servers some host gets from the catalog, for whoever asks how the gateway fares.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Weak};
use std::time::UNIX_EPOCH;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::catalog::{Catalog, ListKind, StaleLists};

/// The catalogs of all hosts that are served.
#[derive(Debug, Default)]
pub(super) struct HostCatalogs(Mutex<Vec<Weak<Catalog>>>);

impl HostCatalogs {
    /// Adds the catalog of a host, which is left out once it is dropped.
    pub(super) fn add(&self, catalog: &Arc<Catalog>) {
        let mut catalogs = self.0.lock();
        if catalogs.len() == catalogs.capacity() {
            // Only when there is no room for another one, so that it costs little.
            catalogs.retain(|catalog| catalog.strong_count() > 0);
        }
        catalogs.push(Arc::downgrade(catalog));
    }

    /// What at least one host gets from the catalog, by the name of the server. If hosts differ, the one for which it has
    /// been so for longest says why.
    pub(super) fn stale_lists(&self) -> Vec<StaleLists> {
        let catalogs: Vec<Arc<Catalog>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        let mut merged: BTreeMap<String, StaleLists> = BTreeMap::new();
        for stale in catalogs.iter().flat_map(|catalog| catalog.stale_lists()) {
            match merged.entry(stale.server.clone()) {
                Entry::Vacant(entry) => drop(entry.insert(stale)),
                Entry::Occupied(mut entry) => merge(entry.get_mut(), stale),
            }
        }
        merged.into_values().collect()
    }
}

/// Adds what another host gets of the same server.
fn merge(lists: &mut StaleLists, mut other: StaleLists) {
    if other.since < lists.since {
        std::mem::swap(lists, &mut other);
    }
    let is_in_either = |name: &&'static str| lists.lists.contains(name) || other.lists.contains(name);
    lists.lists = ListKind::ALL.map(ListKind::name).into_iter().filter(is_in_either).collect();
}

/// The report of a gateway to programs of its user, as JSON: `stale_lists`, one object for each server.
pub(super) fn status_report(stale: &[StaleLists]) -> String {
    let to_json = |stale: &StaleLists| -> Value {
        let StaleLists { server, lists, since, reason } = stale;
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let since_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        json!({"server": server, "lists": lists, "since_ms": since_ms, "reason": reason})
    };
    json!({ "stale_lists": stale.iter().map(to_json).collect::<Vec<_>>() }).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn stale(lists: &[&'static str], since: u64, reason: &str) -> StaleLists {
        let since = UNIX_EPOCH + Duration::from_millis(since);
        StaleLists { server: "docs".to_owned(), lists: lists.to_vec(), since, reason: reason.into() }
    }

    #[test]
    fn the_host_that_has_waited_longest_says_why() {
        let later = stale(&["templates", "tools"], 20, "it has not answered yet");
        let earlier = stale(&["tools", "prompts"], 10, "connection refused");
        let expected = stale(&["tools", "prompts", "templates"], 10, "connection refused");
        for (mut one, other) in [(later.clone(), earlier.clone()), (earlier, later)] {
            merge(&mut one, other);
            assert_eq!(one, expected);
        }
    }

    #[test]
    fn a_report_says_which_lists_since_when_and_why() {
        assert_eq!(status_report(&[]), r#"{"stale_lists":[]}"#);
        let report: Value = serde_json::from_str(&status_report(&[stale(&["tools"], 1_500, "why")])).unwrap();
        let expected = json!({"server": "docs", "lists": ["tools"], "since_ms": 1_500, "reason": "why"});
        assert_eq!(report, json!({ "stale_lists": [expected] }));
    }

    #[test]
    fn a_catalog_is_left_out_when_its_host_is_gone() {
        let catalogs = HostCatalogs::default();
        let catalog = Arc::new(Catalog::with_stale_list("docs", "connection refused"));
        catalogs.add(&catalog);
        let before = SystemTime::now();
        let found = catalogs.stale_lists();
        assert_eq!(
            found,
            [StaleLists { since: found[0].since, ..stale(&["tools"], 0, "connection refused") }]
        );
        assert!(found[0].since <= before);
        drop(catalog);
        assert_eq!(catalogs.stale_lists(), []);
        for _ in 0..100 {
            catalogs.add(&Arc::new(Catalog::with_stale_list("docs", "connection refused")));
        }
        assert!(catalogs.0.lock().len() < 10, "those that are gone make room");
    }
}
