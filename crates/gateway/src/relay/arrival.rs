//! Waiting for a server that the host has not seen yet.

use std::time::Duration;

use bowline::fault::Cause;
use bowline::{Client, Status};
use tokio::time::timeout;

/// Waits until the server is there for the first time, as a call would: the client tries a closed port more often
/// while somebody waits for it, and until then the host waits, for the answer to its `initialize` or to be told of
/// the lists.
///
/// Only a closed port is tried more often, since that costs nobody anything. A server that answers with an error, or a
/// program that ends at once, is tried in the client's own time.
pub(super) async fn await_arrival(client: Client) {
    let mut status = client.status();
    loop {
        let is_refused = match &*status.borrow_and_update() {
            Status::Ready(_) | Status::Closed => return,
            Status::BackingOff { cause, .. } => cause.cause == Cause::Refused,
            _ => false,
        };
        if is_refused {
            // It gives up after `reconnect_wait`, which may be nothing at all.
            if client.server().await.is_ok() {
                return;
            }
            let _ = timeout(PAUSE, status.changed()).await;
        } else if status.changed().await.is_err() {
            return;
        }
    }
}

/// How long to pause before waiting anew, unless something happens before.
const PAUSE: Duration = Duration::from_secs(1);
