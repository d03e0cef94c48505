//! What a session does when the servers are reloaded, or offer something else.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::super::connection::Connection;
use super::Upstreams;
use crate::catalog::Catalog;
use crate::fleet::{Fleet, ServerId};
use crate::view::ViewSet;

/// Follows reloads of the servers also while nobody uses these.
pub(super) async fn follow_reloads(
    upstreams: Weak<Upstreams>,
    (mut fleets, mut views): (watch::Receiver<Arc<Fleet>>, watch::Receiver<Arc<ViewSet>>),
) {
    loop {
        let changed = tokio::select! {
            changed = fleets.changed() => changed,
            changed = views.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        let Some(upstreams) = upstreams.upgrade() else { return };
        upstreams.current_set();
    }
}

/// Copies what a server offers into the catalog, over one connection after the other.
pub(super) async fn follow_lists(
    catalog: Arc<Catalog>,
    server: ServerId,
    mut connection: watch::Receiver<Option<Arc<Connection>>>,
) {
    loop {
        let feed = connection.borrow_and_update().as_ref().map(|connection| connection.feed.clone());
        let following = async {
            if let Some(mut feed) = feed {
                loop {
                    let offered = feed.borrow_and_update().clone();
                    catalog.update(server, offered);
                    if feed.changed().await.is_err() {
                        break;
                    }
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = following => {}
            changed = connection.changed() => if changed.is_err() {
                return;
            },
        }
    }
}
