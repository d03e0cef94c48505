//! Forwards notifications of the host to a server.

use std::time::Duration;

use bowline::{Client, Json, Status};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Forwards notifications of the host to the server while it is connected. They need not be kept
/// for later: a new session requests the state of the host again.
pub(crate) async fn forward_to_server(
    mut notifications: mpsc::Receiver<(Box<str>, Option<Json>)>,
    client: Client,
) {
    while let Some((method, params)) = notifications.recv().await {
        if !matches!(client.status().current(), Status::Ready(_)) {
            tracing::debug!(%method, "a notification of the host found no server");
            continue;
        }
        // Boxed, since it is large and rarely runs.
        match timeout(NOTIFY_TIMEOUT, Box::pin(client.notify(&method, &params))).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a notification of the host was not delivered"),
            Err(_) => tracing::debug!(%method, "a notification of the host was not delivered in time"),
        }
    }
}

/// How many notifications of the host may wait for the server. They are soon out of date.
pub(crate) const MAX_QUEUED_NOTIFICATIONS: usize = 64;
/// How long sending a notification to the server may take.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);
