//! [`StatusWatch`] and [`Health`]: the state of a connection, and its statistics.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bowline_proto::client::session::Status;
use bowline_proto::fault::{Fault, ProcessEnd};
use futures_core::Stream;
use tokio::sync::watch;

use crate::events::{ConnectionEvent, ConnectionEventKind};

/// The statistics of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// Since when the server is ready; `None` while it is not.
    pub connected_since: Option<SystemTime>,
    /// Number of recoveries, including new sessions.
    pub recoveries: u64,
    /// Number of sessions that the server lost.
    pub sessions_lost: u64,
    /// Connection attempts since the last outage began, including the one that ended it.
    pub attempt: u32,
    /// The last fault and its time. Kept after the recovery.
    pub last_fault: Option<(SystemTime, Fault)>,
    /// Number of lines of non-MCP output on the stdout of the server's process. They are
    /// skipped.
    pub stray_lines: u64,
    /// Number of lines that the server's process wrote to stderr.
    pub stderr_lines: u64,
    /// How the last process of the server ended; `None` if none has ended, or there is none.
    pub process_end: Option<ProcessEnd>,
}

/// Watches the state of a connection. It does not keep the connection alive.
///
/// While one exists, an idle server is probed every `keepalive_interval` and whenever it closes a connection, also
/// over HTTP without a session, so that its end is noticed without a call.
///
/// As a [`Stream`] it yields each state that it has not returned yet, and ends after
/// [`Status::Closed`]. Only the newest state is kept, so a slow reader skips those in between.
pub struct StatusWatch {
    receiver: watch::Receiver<Status>,
    /// Set while the stream waits for a change.
    waiting: Option<WatchChanges<Status>>,
    /// Counted by the connection.
    presence: Arc<()>,
}

/// A stream with an item for each change of a value. Changes that come faster than they are taken
/// count as one.
pub(crate) struct WatchChanges<T> {
    receiver: Option<watch::Receiver<T>>,
    /// Owns the receiver while it waits, since the future would otherwise borrow it.
    waiting: Option<ChangeFuture<T>>,
}

/// Resolves to its receiver once the value has changed; to `None` if it cannot change any more.
type ChangeFuture<T> = Pin<Box<dyn Future<Output = Option<watch::Receiver<T>>> + Send + Sync>>;

// === impl StatusWatch ===

impl StatusWatch {
    pub(crate) fn new(receiver: watch::Receiver<Status>, presence: Arc<()>) -> Self {
        Self { receiver, waiting: None, presence }
    }

    /// The state now.
    pub fn current(&self) -> Status {
        self.receiver.borrow().clone()
    }

    /// Waits for a state that this watch has not returned yet, and returns it. `None` once the
    /// connection is closed and [`Status::Closed`] was returned.
    ///
    /// Dropping the future loses nothing.
    pub async fn changed(&mut self) -> Option<Status> {
        self.waiting = None;
        if self.has_ended() {
            return None;
        }
        self.receiver.changed().await.ok()?;
        Some(self.receiver.borrow_and_update().clone())
    }

    /// Waits for a state that fulfills a condition, which the current one may do already. `None` if
    /// the connection was closed before.
    ///
    /// Dropping the future loses nothing.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&Status) -> bool) -> Option<Status> {
        self.waiting = None;
        let settled = self.receiver.wait_for(|status| condition(status) || *status == Status::Closed);
        let status = settled.await.ok()?.clone();
        (status != Status::Closed || condition(&status)).then_some(status)
    }

    /// Whether the last state was returned.
    fn has_ended(&self) -> bool {
        matches!(self.receiver.has_changed(), Ok(false)) && *self.receiver.borrow() == Status::Closed
    }
}

impl Clone for StatusWatch {
    fn clone(&self) -> Self {
        Self::new(self.receiver.clone(), Arc::clone(&self.presence))
    }
}

impl Stream for StatusWatch {
    type Item = Status;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Status>> {
        if self.has_ended() {
            return Poll::Ready(None);
        }
        let this = &mut *self;
        let waiting = this.waiting.get_or_insert_with(|| WatchChanges::new(this.receiver.clone()));
        let change = ready!(Pin::new(waiting).poll_next(cx));
        this.waiting = None;
        Poll::Ready(change.map(|()| this.receiver.borrow_and_update().clone()))
    }
}

impl fmt::Debug for StatusWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StatusWatch").field(&*self.receiver.borrow()).finish()
    }
}

// === impl WatchChanges ===

impl<T> WatchChanges<T> {
    /// The changes that the receiver has not seen yet.
    pub(crate) fn new(receiver: watch::Receiver<T>) -> Self {
        Self { receiver: Some(receiver), waiting: None }
    }
}

impl<T: Send + Sync + 'static> Stream for WatchChanges<T> {
    type Item = ();

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let this = &mut *self;
        if let Some(mut receiver) = this.receiver.take() {
            this.waiting =
                Some(Box::pin(async move { receiver.changed().await.is_ok().then_some(receiver) }));
        }
        let Some(waiting) = &mut this.waiting else { return Poll::Ready(None) };
        this.receiver = ready!(waiting.as_mut().poll(cx));
        this.waiting = None;
        Poll::Ready(this.receiver.is_some().then_some(()))
    }
}

// === impl Health ===

impl Health {
    pub(crate) fn record(&mut self, life: &ConnectionEvent) {
        self.attempt = life.attempt;
        match life.kind {
            ConnectionEventKind::Connected => self.connected_since = Some(life.at),
            ConnectionEventKind::Recovered => {
                self.connected_since = Some(life.at);
                self.recoveries += 1;
            }
            ConnectionEventKind::SessionLost => {
                self.connected_since = None;
                self.sessions_lost += 1;
            }
            ConnectionEventKind::Disconnected
            | ConnectionEventKind::NeedsLogin
            | ConnectionEventKind::Failed => self.connected_since = None,
        }
        if let Some(fault) = &life.cause {
            self.last_fault = Some((life.at, fault.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    #[tokio::test]
    async fn watch_returns_each_new_status_once_and_ends_with_the_connection() {
        let (sender, receiver) = watch::channel(Status::Idle);
        let mut watch = StatusWatch::new(receiver, Arc::default());
        let mut stream = watch.clone();
        assert_eq!(watch.current(), Status::Idle);
        for status in [Status::Connecting, Status::Closed] {
            sender.send_replace(status.clone());
            assert_eq!(watch.changed().await, Some(status.clone()));
            assert_eq!(StreamExt::next(&mut stream).await, Some(status));
        }
        // The sender still exists, as that of a client does after `close`.
        assert_eq!((watch.changed().await, StreamExt::next(&mut stream).await), (None, None));
        assert_eq!(watch.wait_for(|status| *status == Status::Closed).await, Some(Status::Closed));
        assert_eq!(watch.wait_for(|status| *status == Status::Idle).await, None);
    }

    #[tokio::test]
    async fn waiting_stream_is_woken_by_a_change() {
        let (sender, receiver) = watch::channel(Status::Idle);
        let mut watch = StatusWatch::new(receiver, Arc::default());
        let mut next = Box::pin(StreamExt::next(&mut watch));
        assert!(futures_util::poll!(&mut next).is_pending());
        sender.send_replace(Status::Connecting);
        assert_eq!(next.await, Some(Status::Connecting));
        // What `changed` returned is not returned again.
        sender.send_replace(Status::Idle);
        assert_eq!(watch.changed().await, Some(Status::Idle));
        let mut next = Box::pin(StreamExt::next(&mut watch));
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(sender);
        assert_eq!(next.await, None);
    }
}
