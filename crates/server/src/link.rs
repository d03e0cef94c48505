//! [`HostLink`]: sends messages to a host, in order and bounded, and holds its session.

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::server::sent_requests::SendError;
use bowline_proto::server::session::{HandshakeState, Session};
use bowline_proto::wire::outgoing::{self, Frame};
use bowline_proto::wire::{Json, RpcError, code};
use bowline_transport::pipe::{PipeWriter, Urgency};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::open_request::RequestTask;

/// Sends messages to the host. Clones share the link.
///
/// # Behavior
/// - Messages are written whole and in order. While the host does not read, a few megabytes are
///   queued; then senders wait.
/// - A host that can no longer be written to counts as disconnected:
///   [`HostLink::wait_for_disconnect`].
#[derive(Clone, Debug)]
pub struct HostLink(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    writer: PipeWriter,
    session: Mutex<HostSession>,
    /// A copy of the handshake in `session`, for those who wait for it.
    handshake: watch::Sender<HandshakeState>,
    /// The tasks that serve requests of the host.
    tasks: TaskTracker,
    /// Canceled when the host can no longer be written to.
    disconnected: CancellationToken,
    /// Canceled when everything was written and the stream was dropped.
    flushed: CancellationToken,
}

/// The session of a host, with what this crate uses to serve and to wait.
pub(crate) type HostSession = Session<RequestTask, oneshot::Sender<Result<Json, RpcError>>>;

impl HostLink {
    pub(crate) fn new(writer: PipeWriter, flushed: CancellationToken) -> Self {
        Self(Arc::new(Shared {
            writer,
            session: Mutex::default(),
            handshake: watch::Sender::default(),
            tasks: TaskTracker::new(),
            disconnected: CancellationToken::new(),
            flushed,
        }))
    }

    /// Sends a notification to the host.
    pub async fn notify(&self, method: &str, params: Option<&Json>) {
        self.send(&outgoing::notification(method, params)).await;
    }

    /// Sends a request to the host and waits for its response.
    ///
    /// Dropping the future cancels the request at the host.
    pub async fn send_request(&self, method: &str, params: &Json) -> Result<Json, RpcError> {
        let (waiter, response) = oneshot::channel();
        let sent = self.with_session(|session| session.send_request(method, params, waiter));
        let (id, frame) = sent.map_err(send_error)?;
        let open = CancelOnDrop { link: self, id };
        self.send(&frame).await;
        let outcome = response.await.unwrap_or_else(|_| Err(send_error(SendError::Closed)));
        drop(open);
        outcome
    }

    /// Resolves when the host can no longer be written to.
    pub async fn wait_for_disconnect(&self) {
        self.0.disconnected.cancelled().await;
    }

    /// Fails all requests to the host, because it has closed its end and will not respond.
    pub fn fail_sent_requests(&self) {
        self.with_session(Session::close_sent);
    }

    /// Waits at most `drain_timeout` until all requests of the host are answered.
    pub async fn drain_requests(&self, drain_timeout: Duration) {
        self.0.tasks.close();
        let _ = timeout(drain_timeout, self.0.tasks.wait()).await;
    }

    /// Aborts all requests of the host, without a response.
    pub async fn abort_requests(&self) {
        for task in self.with_session(Session::cancel_requests) {
            task.abort();
        }
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Accepts no more messages and waits at most `flush_timeout` until everything is written.
    pub async fn close(&self, flush_timeout: Duration) {
        self.fail_sent_requests();
        self.0.writer.close();
        if timeout(flush_timeout, self.0.flushed.cancelled()).await.is_err() {
            tracing::debug!("the host did not read all that was said");
        }
    }

    pub(crate) async fn send(&self, frame: &Frame) {
        if let Err(fault) = self.0.writer.send(frame).await {
            tracing::debug!(%fault, "the host does not listen any more");
            self.0.disconnected.cancel();
        }
    }

    /// Tells or asks the session something.
    pub(crate) fn with_session<T>(&self, work: impl FnOnce(&mut HostSession) -> T) -> T {
        let mut session = self.0.session.lock();
        let outcome = work(&mut session);
        let current = session.handshake();
        // While the lock is held, so that the copy is never older than it was before.
        self.0.handshake.send_if_modified(|copy| std::mem::replace(copy, current) != current);
        outcome
    }

    pub(crate) fn watch_handshake(&self) -> watch::Receiver<HandshakeState> {
        self.0.handshake.subscribe()
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }
}

/// Cancels the request at the host if it is still open when this is dropped.
struct CancelOnDrop<'a> {
    link: &'a HostLink,
    id: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.link.with_session(|session| session.cancel_sent(self.id)) {
            // If the queue is full the host is not notified: its response will find no waiter.
            let _ = self.link.0.writer.try_send(&frame, Urgency::Immediate);
        }
    }
}

fn send_error(error: SendError) -> RpcError {
    let code = match error {
        SendError::Closed => code::INTERNAL_ERROR,
        SendError::InvalidParams => code::INVALID_PARAMS,
    };
    RpcError::new(code, error.to_string())
}
