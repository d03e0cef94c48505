//! Forwards notifications in both directions.

use bowline::types::method;
use bowline::{Client, ConnectionEvent, ConnectionEventKind, Event, Json, Status};
use bowline_server::HostLink;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::ConnectionObserver;
use super::queue::{QueueItem, QueueReader};
use super::upstream::{HostReadiness, NOTIFY_TIMEOUT};
use crate::handshake::RelayOffer;

/// Forwards notifications of the server, and list changes that its client detected, to the host.
pub(super) async fn forward_to_host(
    mut queue: QueueReader,
    link: HostLink,
    readiness: HostReadiness,
    observer: ConnectionObserver,
) {
    loop {
        let item = tokio::select! {
            // Queued items first, then the end.
            biased;
            item = queue.next() => item,
            () = readiness.ended().cancelled() => return,
        };
        let Some(item) = item else { return };
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
            if call.upgrade().is_some() {
                link.notify(method::PROGRESS, Some(&params)).await;
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

/// Forwards notifications of the host to the server while it is connected. They need not be kept
/// for later: a new session requests the state of the host again.
pub(super) async fn forward_to_server(
    mut notifications: mpsc::Receiver<(Box<str>, Option<Json>)>,
    client: Client,
) {
    while let Some((method, params)) = notifications.recv().await {
        if !matches!(client.status().current(), Status::Ready(_)) {
            tracing::debug!(%method, "a notification of the host found no server");
            continue;
        }
        match timeout(NOTIFY_TIMEOUT, client.notify(&method, &params)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a notification of the host was not delivered"),
            Err(_) => tracing::debug!(%method, "a notification of the host was not delivered in time"),
        }
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
