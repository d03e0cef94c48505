//! [`Fleet`]: the configured servers at one moment, and what a reload changes of them; pure.

use std::sync::Arc;

use bowline::Server;

/// Names one configuration of a server. It is never used for another one in the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerId(u32);

/// The ids that were not used yet.
#[derive(Debug, Default)]
pub(crate) struct ServerIds(u32);

/// One configured server.
#[derive(Debug)]
pub(crate) struct FleetServer {
    pub(crate) id: ServerId,
    pub(crate) config: Server,
}

/// The configured servers, in the configured order.
#[derive(Debug, Default)]
pub(crate) struct Fleet(Vec<Arc<FleetServer>>);

/// What a reload has changed, by the names of servers, each in the configured order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reload {
    /// Servers that were not configured before.
    pub added: Vec<String>,
    /// Servers whose configuration is another one.
    pub changed: Vec<String>,
    /// Servers that are no longer configured.
    pub removed: Vec<String>,
    /// How many servers are as before.
    pub unchanged: usize,
}

/// The next fleet, and how it comes from the last one.
#[derive(Debug)]
pub(crate) struct FleetChange {
    pub(crate) fleet: Fleet,
    pub(crate) reload: Reload,
    /// The servers of the last fleet that are not in the next one.
    pub(crate) lost: Vec<Arc<FleetServer>>,
    /// Whether the next fleet differs from the last one in any way. The order counts too.
    pub(crate) is_different: bool,
}

impl Reload {
    /// Whether every server is as before.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl ServerIds {
    fn next(&mut self) -> ServerId {
        let id = ServerId(self.0);
        self.0 = self.0.checked_add(1).expect("a process has fewer than 2^32 servers");
        id
    }
}

impl Fleet {
    /// The servers, in the configured order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<FleetServer>> {
        self.0.iter()
    }

    /// Whether this configuration of a server is in use.
    pub(crate) fn contains(&self, id: ServerId) -> bool {
        self.0.iter().any(|server| server.id == id)
    }

    /// The server with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<FleetServer>> {
        self.0.iter().find(|server| server.config.name == name)
    }

    /// The fleet with these servers. A server that is as before keeps its id; every other one gets a
    /// new id. Disabled servers are left out.
    pub(crate) fn reload(
        &self,
        servers: impl IntoIterator<Item = Server>,
        ids: &mut ServerIds,
    ) -> FleetChange {
        let mut lost = self.0.clone();
        let mut reload = Reload::default();
        let enabled = servers.into_iter().filter(|server| server.enabled);
        let next: Vec<_> = enabled
            .map(|config| {
                let kept = lost.iter().position(|server| server.config == config);
                if let Some(at) = kept {
                    reload.unchanged += 1;
                    return lost.remove(at);
                }
                let names =
                    if self.find(&config.name).is_some() { &mut reload.changed } else { &mut reload.added };
                names.push(config.name.clone());
                Arc::new(FleetServer { id: ids.next(), config })
            })
            .collect();
        let fleet = Self(next);
        let removed = lost.iter().filter(|server| fleet.find(&server.config.name).is_none());
        reload.removed = removed.map(|server| server.config.name.clone()).collect();
        let is_different = !self.0.iter().map(|server| server.id).eq(fleet.0.iter().map(|server| server.id));
        FleetChange { fleet, reload, lost, is_different }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn server((name, version): (u8, u8)) -> Server {
        Server::stdio(format!("s{name}"), "run").args([version.to_string()]).build().unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_reload_says_what_it_changes() {
        let mut ids = ServerIds::default();
        let first = Fleet::default().reload([(1, 1), (2, 1), (3, 1)].map(server), &mut ids);
        assert_eq!(first.reload.added, ["s1", "s2", "s3"]);
        let change = first.fleet.reload([(4, 1), (3, 1), (2, 2)].map(server), &mut ids);
        let expected =
            Reload { added: names(&["s4"]), changed: names(&["s2"]), removed: names(&["s1"]), unchanged: 1 };
        assert_eq!(change.reload, expected);
        assert!(change.is_different && !change.reload.is_empty());
        let lost: Vec<_> = change.lost.iter().map(|server| server.config.name.as_str()).collect();
        assert_eq!(lost, ["s1", "s2"]);
        let order = change.fleet.reload([(2, 2), (3, 1), (4, 1)].map(server), &mut ids);
        assert!(order.reload.is_empty() && order.is_different && order.lost.is_empty());
        let same = order.fleet.reload([(2, 2), (3, 1), (4, 1)].map(server), &mut ids);
        assert!(same.reload.is_empty() && !same.is_different);
        let mut disabled = server((2, 2));
        disabled.enabled = false;
        let without = same.fleet.reload([disabled, server((3, 1)), server((4, 1))], &mut ids);
        assert_eq!((without.reload.removed, without.reload.unchanged), (names(&["s2"]), 2));
    }

    proptest! {
        /// Whatever is configured one after the other: a server that is as before keeps its id, any
        /// other gets one that no server had, and the order is the configured one.
        #[test]
        fn ids_are_kept_by_equal_servers_and_never_reused(
            sets in prop::collection::vec(
                prop::collection::btree_map(0..6_u8, 0..3_u8, 0..6).prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle(),
                1..12,
            ),
        ) {
            let mut ids = ServerIds::default();
            let mut fleet = Fleet::default();
            let mut used = HashSet::new();
            for set in sets {
                let configured: Vec<_> = set.into_iter().map(server).collect();
                let change = fleet.reload(configured.clone(), &mut ids);
                let order: Vec<_> = change.fleet.iter().map(|server| server.config.clone()).collect();
                prop_assert_eq!(&order, &configured);
                for next in change.fleet.iter() {
                    match fleet.iter().find(|server| server.config == next.config) {
                        Some(before) => prop_assert!(Arc::ptr_eq(before, next)),
                        None => prop_assert!(used.insert(next.id), "{:?} was used before", next.id),
                    }
                }
                for before in fleet.iter() {
                    let is_lost = change.lost.iter().any(|lost| lost.id == before.id);
                    prop_assert_eq!(is_lost, !change.fleet.contains(before.id));
                }
                let Reload { added, changed, removed, unchanged } = &change.reload;
                prop_assert_eq!(added.len() + changed.len() + unchanged, configured.len());
                prop_assert_eq!(changed.len() + removed.len() + unchanged, fleet.iter().len());
                fleet = change.fleet;
            }
        }
    }
}
