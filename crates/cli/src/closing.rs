//! Closes connections in the background: a server that is slow to end delays neither the result nor
//! the error of a command, only the end of its process.

use std::mem;
use std::pin::pin;
use std::time::Duration;

use bowline::Client;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::interrupt::Interrupt;
use crate::refresh_tracker::{NOTE_DELAY, RefreshTracker};

/// The connections of this process that are being closed.
#[derive(Default)]
pub(crate) struct PendingCloses(Mutex<Vec<JoinHandle<()>>>);

impl PendingCloses {
    /// Closes a connection in the background.
    pub(crate) fn close(&self, leaving: ClosingConnection) {
        let closed = tokio::spawn(async move {
            let client = leaving.client.clone();
            leaving.finish(client.close()).await;
        });
        self.0.lock().push(closed);
    }

    /// Waits until every connection that was handed over is closed.
    pub(crate) async fn wait(&self) {
        let closings = mem::take(&mut *self.0.lock());
        futures_util::future::join_all(closings).await;
    }
}

/// A connection that a command is done with.
pub(crate) struct ClosingConnection {
    pub(crate) client: Client,
    pub(crate) interrupt: Interrupt,
    /// The work was ended by a signal.
    pub(crate) interrupted: bool,
    pub(crate) refreshes: RefreshTracker,
}

impl ClosingConnection {
    /// Waits for `closed`, at most [`CLOSING_TIMEOUT`], and for a refresh of the login, without a
    /// limit. The next signal waits only for the refresh, the one after it for nothing.
    pub(crate) async fn finish(self, closed: impl Future<Output = ()>) {
        let Self { client, mut interrupt, interrupted, refreshes } = self;
        if interrupted && is_refreshing(&client) {
            refreshes.note_waiting(client.name());
        }
        let closing = async {
            let mut closed = pin!(closed);
            if timeout(NOTE_DELAY, &mut closed).await.is_err() {
                if is_refreshing(&client) {
                    refreshes.note_waiting(client.name());
                }
                // A server that does not react to the close is abandoned.
                let _ = timeout(CLOSING_TIMEOUT, closed).await;
            }
            // Closing can finish before a slow authorization server has responded or a full disk
            // has room.
            client.settle_login().await
        };
        let signal = tokio::select! {
            settled = closing => return refreshes.record_outcome(client.name(), settled),
            signal = interrupt.next() => signal,
        };
        if is_refreshing(&client) {
            refreshes.note_waiting(client.name());
            // A refreshed token that is not stored ends the login, and a new login takes longer
            // than this wait.
            tokio::select! {
                settled = client.settle_login() => refreshes.record_outcome(client.name(), settled),
                _ = interrupt.next() => refreshes.give_up(),
            }
        }
        drop(client);
        interrupt.end_process_soon(signal);
    }
}

/// Returns whether a login is being refreshed or not yet stored. It is asked when the connection
/// closes, after which no other refresh begins.
fn is_refreshing(client: &Client) -> bool {
    client.settle_login().now_or_never().is_none()
}

/// Longer than a server process gets to end: stdin closed, then TERM, then KILL.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(15);
