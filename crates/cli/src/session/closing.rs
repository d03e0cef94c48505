//! Owns the end of connections: a server that is slow to end holds up neither the result nor the error of a command,
//! only the end of its process.

use std::mem;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline::Client;
use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::interrupt::Interrupt;
use crate::print::Printer;

/// The connections of this process that are being closed.
#[derive(Default)]
pub(crate) struct Closings(Mutex<Vec<JoinHandle<()>>>);

impl Closings {
    /// Closes a connection in the background.
    pub(super) fn close(&self, leaving: Leaving) {
        let closed = tokio::spawn(async move {
            let close = leaving.client.clone().close();
            leaving.finish(close).await;
        });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(closed);
    }

    /// Resolves when every connection is closed that was left until now.
    pub(crate) async fn wait(&self) {
        let closings = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        futures_util::future::join_all(closings).await;
    }
}

/// A connection that a command is done with.
pub(super) struct Leaving {
    pub(super) client: Client,
    pub(super) printer: Printer,
    pub(super) interrupt: Interrupt,
    /// The work was ended by a signal.
    pub(super) interrupted: bool,
}

impl Leaving {
    /// Waits for `closed`, at most [`CLOSING_TIMEOUT`], and for a refresh of the login, at most [`REFRESH_TIMEOUT`]. The next
    /// signal waits for nothing but a refresh of the login, the one after it for nothing.
    pub(super) async fn finish(self, closed: impl Future<Output = ()>) {
        let Self { client, printer, mut interrupt, interrupted } = self;
        let mut noted = interrupted && is_refreshing(&client);
        if noted {
            printer.note(REFRESHING);
        }
        let closing = async {
            let mut closed = pin!(closed);
            if timeout(NOTE_DELAY, &mut closed).await.is_err() {
                if !noted && is_refreshing(&client) {
                    printer.note(REFRESHING);
                    noted = true;
                }
                // The server is told that we leave; one that does not listen is left all the same.
                let _ = timeout(CLOSING_TIMEOUT, closed).await;
            }
            // A connection is closed before a slow authorization server has answered.
            let _ = timeout(REFRESH_TIMEOUT, client.settle_login()).await;
        };
        let signal = tokio::select! {
            () = closing => return,
            signal = interrupt.next() => signal,
        };
        if is_refreshing(&client) {
            if !noted {
                printer.note(REFRESHING);
            }
            // What an authorization server gives and nobody writes down is the end of the login, which takes longer
            // to have again than this.
            tokio::select! {
                _ = timeout(REFRESH_TIMEOUT, client.settle_login()) => {}
                _ = interrupt.next() => {}
            }
        }
        drop(client);
        interrupt.end_process_soon(signal);
    }
}

/// Whether a login is being refreshed. No other refresh begins after that: it is asked when we leave.
fn is_refreshing(client: &Client) -> bool {
    client.settle_login().now_or_never().is_none()
}

const REFRESHING: &str = "the login is just being renewed; that is finished first, so that it is not lost";

/// How long a command that is done waits without saying why.
const NOTE_DELAY: Duration = Duration::from_secs(2);
/// Longer than a process is given to end: stdin closed, then TERM, then KILL.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(15);
/// Longer than an authorization server is given to answer.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(310);
