//! Tells hosts which of their lists have changed.

use std::sync::Arc;
use std::time::Duration;

use bowline::types::method;
use bowline_server::{Handshake, HostLink};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::catalog::{Catalog, ListKind, Snapshot};

/// Sends change notifications to a host that knows `seen`, until the catalog is dropped.
pub(super) async fn announce_changes(
    catalog: &Catalog,
    link: &HostLink,
    handshake: &Handshake,
    seen: Arc<Snapshot>,
) {
    if !handshake.wait_until_ready().await {
        return;
    }
    let mut changes = ListChanges::since(catalog, seen);
    while let Some(methods) = changes.next().await {
        for method in methods {
            link.notify(method, None).await;
        }
    }
}

/// The changes of the lists of a catalog. They are collected, and a list that is what it was has not
/// changed: so a server that comes and goes is not heard of.
pub(super) struct ListChanges<'a> {
    catalog: &'a Catalog,
    changes: watch::Receiver<u64>,
    /// What the host was told of last.
    seen: Arc<Snapshot>,
}

impl<'a> ListChanges<'a> {
    /// The changes for a host that knows `seen`.
    pub(super) fn since(catalog: &'a Catalog, seen: Arc<Snapshot>) -> Self {
        Self { catalog, changes: catalog.changes(), seen }
    }

    /// Waits until lists have changed. Returns the methods of the notifications about them, or
    /// `None` when the catalog is dropped.
    ///
    /// Dropping the future loses no change.
    pub(super) async fn next(&mut self) -> Option<Vec<&'static str>> {
        loop {
            self.changes.borrow_and_update();
            let current = self.catalog.snapshot();
            let seen = std::mem::replace(&mut self.seen, Arc::clone(&current));
            if !Arc::ptr_eq(&current, &seen) {
                let has_changed =
                    |lists: &[ListKind]| lists.iter().any(|&list| !current.has_same(list, &seen));
                let changed = ANNOUNCEMENTS.into_iter().filter(|(_, lists)| has_changed(lists));
                let methods: Vec<_> = changed.map(|(method, _)| method).collect();
                if !methods.is_empty() {
                    return Some(methods);
                }
            }
            self.changes.changed().await.ok()?;
            sleep(CHANGE_WINDOW).await;
        }
    }
}

/// Each notification, and the lists that it is about.
const ANNOUNCEMENTS: [(&str, &[ListKind]); 3] = [
    (method::TOOLS_CHANGED, &[ListKind::Tools]),
    (method::PROMPTS_CHANGED, &[ListKind::Prompts]),
    (method::RESOURCES_CHANGED, &[ListKind::Resources, ListKind::Templates]),
];

/// How long changes are collected before the host is told.
const CHANGE_WINDOW: Duration = Duration::from_millis(200);
