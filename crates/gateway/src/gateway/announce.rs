//! Tells a host which of its lists have changed.

use std::sync::Arc;
use std::time::Duration;

use bowline::types::method;
use bowline_server::{Handshake, HostLink};
use tokio::time::sleep;

use crate::catalog::{Catalog, ListKind, Snapshot};

/// Sends change notifications to a host that knows `seen`, until the catalog is dropped. Changes
/// are collected, and a list that is what it was is not announced: so a server that comes and goes
/// is not heard of.
pub(super) async fn announce_changes(
    catalog: &Catalog,
    link: &HostLink,
    handshake: &Handshake,
    mut seen: Arc<Snapshot>,
) {
    if !handshake.wait_until_ready().await {
        return;
    }
    let mut changes = catalog.changes();
    loop {
        changes.borrow_and_update();
        let current = catalog.snapshot();
        if !Arc::ptr_eq(&current, &seen) {
            for (method, lists) in ANNOUNCEMENTS {
                if lists.iter().any(|&list| !current.has_same(list, &seen)) {
                    link.notify(method, None).await;
                }
            }
            seen = current;
        }
        if changes.changed().await.is_err() {
            return;
        }
        sleep(CHANGE_WINDOW).await;
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
