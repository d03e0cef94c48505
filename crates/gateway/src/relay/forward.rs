//! Forwards notifications in both directions.

use bowline::wire::{Json, method};
use bowline::{Client, ConnectionEvent, ConnectionEventKind, Event, Status};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Observer;
use super::queue::{Item, QueueReader};
use super::upstream::{Gate, PASSING};
use crate::greeting::Offer;
use crate::host::HostLink;

/// Forwards notifications of the server, and list changes that its client detected, to the host.
pub(super) async fn to_host(mut queue: QueueReader, link: HostLink, gate: Gate, observer: Observer) {
    loop {
        let item = tokio::select! {
            // Queued items first, then the end.
            biased;
            item = queue.next() => item,
            () = gate.ended().cancelled() => return,
        };
        let Some(item) = item else { return };
        if let Item::Event(Event::Connection(life)) = &item {
            log(life);
            observer(life);
        }
        // A host that does not read must not delay the shutdown.
        gate.ended().run_until_cancelled(tell(item, &link, &gate)).await;
    }
}

/// Delivers one item to the host, if it is meant for it.
async fn tell(item: Item, link: &HostLink, gate: &Gate) {
    match item {
        // About a task that is followed for the host, which did not ask for it.
        Item::Event(Event::Notification(said)) if *said.method == *method::TASK => {}
        Item::Event(Event::Notification(said)) => {
            if gate.open().await.is_none() {
                return;
            }
            if said.inferred {
                tracing::info!(method = %said.method, "a list is another one after the recovery");
            }
            link.notify(&said.method, said.params.as_ref()).await;
        }
        Item::Event(Event::Connection(life)) if life.kind == ConnectionEventKind::Connected => {
            gate.server_has_come();
            // The host was initialized without the server.
            if gate.offer().is_some_and(Offer::is_blind) {
                announce(link, gate).await;
            }
        }
        Item::Event(_) => {}
        Item::Missed(missed) => {
            tracing::warn!(missed, "the host reads too slowly; it is told to look again");
            // The connection may have been among the missed events.
            gate.server_has_come();
            announce(link, gate).await;
        }
        Item::Progress { call, params } => {
            // A call that the host canceled has no more progress.
            if call.upgrade().is_some() {
                link.notify(method::PROGRESS, Some(&params)).await;
            }
        }
    }
}

/// Tells the host that every offered list may have changed.
pub(super) async fn announce(link: &HostLink, gate: &Gate) {
    let Some(offer) = gate.open().await else { return };
    for method in offer.changes() {
        link.notify(method, None).await;
    }
}

/// Forwards notifications of the host to the server while it is connected. They need not be kept
/// for later: a new session requests the state of the host again.
pub(super) async fn to_server(mut notes: mpsc::Receiver<(Box<str>, Option<Json>)>, client: Client) {
    while let Some((method, params)) = notes.recv().await {
        if !matches!(&*client.status().borrow(), Status::Ready(_)) {
            tracing::debug!(%method, "a notification of the host found no server");
            continue;
        }
        match timeout(PASSING, client.notify(&method, &params)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a notification of the host was not delivered"),
            Err(_) => tracing::debug!(%method, "a notification of the host was not delivered in time"),
        }
    }
}

fn log(life: &ConnectionEvent) {
    let turn = life.kind.as_str();
    match (&life.cause, life.outage) {
        (Some(cause), _) => tracing::info!(server = %life.server, turn, attempt = life.attempt, %cause),
        (None, Some(outage)) => tracing::info!(server = %life.server, turn, ?outage),
        (None, None) => tracing::info!(server = %life.server, turn),
    }
}

#[cfg(test)]
mod tests;
