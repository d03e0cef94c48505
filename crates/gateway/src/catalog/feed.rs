//! Keeps the lists of one server in the catalog up to date.

use std::time::Duration;

use bowline::{Client, Event, EventReceiver, Peer, Result, Status, StatusWatch};
use tokio::time::{sleep, timeout};

use super::{Catalog, Freshness, ServerLists};

/// Keeps the lists of the server of `client` up to date, until the client is closed. Of several
/// clients of one server, one does so at a time.
///
/// A list that cannot be fetched to its end does not replace the last one that could.
pub(crate) async fn feed(catalog: &Catalog, client: &Client) {
    let Some(lock) = catalog.feed_lock(client.name()) else { return };
    let _turn = lock.lock().await;
    client.track_lists();
    let (mut events, mut status) = (client.events(), client.status());
    let mut retry_delay = MIN_RETRY_DELAY;
    loop {
        match status.current() {
            Status::Ready(peer) => match fetch(client, &peer).await {
                Ok(lists) => {
                    catalog.replace(client.name(), lists);
                    retry_delay = MIN_RETRY_DELAY;
                    wait_for_change(&mut events, &mut status).await;
                }
                Err(error) => {
                    tracing::warn!(server = client.name(), %error, "the lists of a server could not be fetched");
                    catalog.set_freshness(
                        client.name(),
                        Freshness::Stale("its lists could not be fetched".into()),
                    );
                    // A server that recovers is asked again at once.
                    let _ = timeout(retry_delay, status.changed()).await;
                    retry_delay = (retry_delay * 2).min(MAX_RETRY_DELAY);
                }
            },
            Status::BackingOff { cause, .. } | Status::NeedsLogin(cause) | Status::Failed(cause) => {
                // The detail of a fault may be text of the server.
                catalog.set_freshness(client.name(), Freshness::Stale(cause.cause.to_string().into()));
                if status.changed().await.is_none() {
                    return;
                }
            }
            Status::Closed => return,
            _ => {
                if status.changed().await.is_none() {
                    return;
                }
            }
        }
    }
}

/// Waits until a list has changed, or may have, or the connection is another one.
async fn wait_for_change(events: &mut EventReceiver<Event>, status: &mut StatusWatch) {
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Event::ListChanged(_) | Event::Missed(_)) => break,
                Some(_) => {}
                None => return,
            },
            seen = status.changed() => if !matches!(seen, Some(Status::Ready(_))) {
                return;
            },
        }
    }
    // A change of several lists is announced list by list.
    sleep(SETTLE_DELAY).await;
}

async fn fetch(client: &Client, peer: &Peer) -> Result<ServerLists> {
    Ok(ServerLists {
        instructions: peer.instructions.clone(),
        tools: client.list_tools().await?.into_iter().map(|tool| tool.json).collect(),
        prompts: client.list_prompts().await?.into_iter().map(|prompt| prompt.json).collect(),
        resources: client.list_resources().await?.into_iter().map(|resource| resource.json).collect(),
        templates: client
            .list_resource_templates()
            .await?
            .into_iter()
            .map(|template| template.json)
            .collect(),
    })
}

/// How long changes are collected before the lists are fetched.
const SETTLE_DELAY: Duration = Duration::from_millis(20);
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
