//! Forwards notifications of the server to the host.

use bowline::types::method;
use bowline::{ConnectionEvent, ConnectionEventKind, Event};
use bowline_server::HostLink;

use super::ConnectionObserver;
use super::upstream::HostReadiness;
use crate::handshake::RelayOffer;
use crate::host_queue::{QueueItem, QueueReader};

/// Forwards notifications of the server, and list changes that its client detected, to the host.
pub(super) async fn forward_to_host(
    mut queue: QueueReader,
    link: HostLink,
    readiness: HostReadiness,
    observer: ConnectionObserver,
) {
    while let Some(item) = queue.next_until(readiness.ended().cancelled()).await {
        if let QueueItem::Event(Event::Connection(life)) = &item {
            log_connection_event(life);
            observer(life);
        }
        // A host that does not read must not delay the shutdown.
        readiness.ended().run_until_cancelled(deliver(item, &link, &readiness)).await;
    }
}

/// Delivers one item to the host, if it is meant for it.
async fn deliver(item: QueueItem, link: &HostLink, readiness: &HostReadiness) {
    match item {
        // About a task that is followed for the host, which did not ask for it.
        QueueItem::Event(Event::Notification(said)) if *said.method == *method::TASK => {}
        QueueItem::Event(Event::Notification(said)) => {
            if readiness.wait_until_ready().await.is_none() {
                return;
            }
            if said.inferred {
                tracing::info!(method = %said.method, "a list is another one after the recovery");
            }
            link.notify(&said.method, said.params.as_ref()).await;
        }
        QueueItem::Event(Event::Connection(life)) if life.kind == ConnectionEventKind::Connected => {
            readiness.mark_connected();
            // The host was initialized without the server.
            if readiness.offer().is_some_and(RelayOffer::is_speculative) {
                announce_list_changes(link, readiness).await;
            }
        }
        QueueItem::Event(_) => {}
        QueueItem::Missed(missed) => {
            tracing::warn!(missed, "the host reads too slowly; it is told to look again");
            // The connection may have been among the missed events.
            readiness.mark_connected();
            announce_list_changes(link, readiness).await;
        }
        QueueItem::Progress { call, params } => {
            // A call that the host canceled has no more progress.
            if let Some(call) = call.upgrade() {
                call.request.notify(method::PROGRESS, Some(&params)).await;
            }
        }
    }
}

/// Tells the host that every offered list may have changed.
pub(super) async fn announce_list_changes(link: &HostLink, readiness: &HostReadiness) {
    let Some(offer) = readiness.wait_until_ready().await else { return };
    for method in offer.lists.change_notifications() {
        link.notify(method, None).await;
    }
}

fn log_connection_event(event: &ConnectionEvent) {
    let turn = event.kind.as_str();
    match (&event.cause, event.outage) {
        (Some(cause), _) => tracing::info!(server = %event.server, turn, attempt = event.attempt, %cause),
        (None, Some(outage)) => tracing::info!(server = %event.server, turn, ?outage),
        (None, None) => tracing::info!(server = %event.server, turn),
    }
}

#[cfg(test)]
mod tests;
