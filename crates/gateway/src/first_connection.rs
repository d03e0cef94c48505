//! Waits for the first connection to the server.

use std::time::Duration;

use bowline::{Cause, Client, Status};
use tokio::time::timeout;

/// Waits until the server is connected for the first time, as a call would: the client retries a
/// closed port more often while somebody waits, and until then the host waits for the result of its
/// `initialize` or for its lists.
///
/// Only a closed port is retried more often, since that costs nothing. A server that responds with
/// an error, or a program that exits at once, is retried at the pace of the client.
pub(crate) async fn wait_for_first_connection(client: Client) {
    let mut status = client.status();
    loop {
        let is_refused = match status.current() {
            Status::Ready(_) | Status::Closed => return,
            Status::BackingOff { cause, .. } => cause.cause == Cause::Refused,
            _ => false,
        };
        if is_refused {
            // This gives up after `reconnect_wait`, which may be zero.
            if client.peer().await.is_ok() {
                return;
            }
            let _ = timeout(RECHECK_INTERVAL, status.changed()).await;
        } else if status.changed().await.is_none() {
            return;
        }
    }
}

/// How long to wait before the next attempt, unless the status changes before.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
