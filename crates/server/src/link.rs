//! [`HostLink`]: sends messages to a host, in order and bounded, and holds its session.

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::server::event_streams::{Event, EventKind, StreamId};
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

use crate::given_up::given_up;
use crate::http::{HttpSession, PostTicket};
use crate::open_request::RequestTask;

/// Sends messages to the host. Clones share the link.
///
/// # Behavior
/// - Messages are written whole and in order. While the host does not read, a few megabytes are
///   queued; then senders wait.
/// - Over HTTP, what is sent here and belongs to no request goes onto the event stream of the
///   session. While the host has none open, senders do not wait: a bounded number of messages is
///   kept for it, and the oldest are dropped.
/// - A host that can no longer be written to counts as disconnected:
///   [`HostLink::wait_for_disconnect`].
#[derive(Clone, Debug)]
pub struct HostLink(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    output: Output,
    session: Mutex<HostSession>,
    /// A copy of the handshake in `session`, for those who wait for it.
    handshake: watch::Sender<HandshakeState>,
    /// The tasks that serve requests of the host.
    tasks: TaskTracker,
    /// Canceled when the host can no longer be written to.
    disconnected: CancellationToken,
}

/// Where messages to the host go.
#[derive(Debug)]
enum Output {
    Pipe {
        writer: PipeWriter,
        /// Canceled when everything was written and the stream was dropped.
        flushed: CancellationToken,
    },
    Http(Arc<HttpSession>),
}

/// The session of a host, with what this crate uses to serve and to wait.
pub(crate) type HostSession = Session<RequestTask, oneshot::Sender<Result<Json, RpcError>>>;

impl HostLink {
    pub(crate) fn on_pipe(writer: PipeWriter, flushed: CancellationToken) -> Self {
        Self::new(Output::Pipe { writer, flushed }, CancellationToken::new())
    }

    pub(crate) fn on_http(session: &Arc<HttpSession>) -> Self {
        let link = Self::new(Output::Http(Arc::clone(session)), session.ended().clone());
        let shared = Arc::downgrade(&link.0);
        session.on_lost_request(move |id| {
            if let Some(shared) = shared.upgrade() {
                Self(shared).fail_lost_request(id);
            }
        });
        link
    }

    fn new(output: Output, disconnected: CancellationToken) -> Self {
        Self(Arc::new(Shared {
            output,
            session: Mutex::default(),
            handshake: watch::Sender::default(),
            tasks: TaskTracker::new(),
            disconnected,
        }))
    }

    /// Whether the host has come over HTTP, where the listener has checked its view.
    pub fn is_over_http(&self) -> bool {
        matches!(self.0.output, Output::Http(_))
    }

    /// Sends a notification to the host that belongs to none of its requests.
    pub async fn notify(&self, method: &str, params: Option<&Json>) {
        self.send(&outgoing::notification(method, params), EventKind::Notification, None).await;
    }

    /// Sends a notification to the host that belongs to none of its requests, if the host reads fast
    /// enough. Otherwise the notification is dropped.
    pub fn try_notify(&self, method: &str, params: Option<&Json>) {
        self.try_send(&outgoing::notification(method, params), EventKind::Notification, stream_of(None));
    }

    /// Sends a request to the host that belongs to none of its own, and waits for its response.
    ///
    /// Dropping the future cancels the request at the host.
    pub async fn send_request(&self, method: &str, params: &Json) -> Result<Json, RpcError> {
        self.request(method, params, None).await
    }

    /// Sends a request to the host that belongs to the request of `post`, and waits for its
    /// response.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: &Json,
        post: Option<&PostTicket>,
    ) -> Result<Json, RpcError> {
        let (waiter, response) = oneshot::channel();
        let sent = self.with_session(|session| session.send_request(method, params, waiter));
        let (id, frame) = sent.map_err(send_error)?;
        let open = CancelOnDrop { link: self, id, stream: stream_of(post) };
        self.send(&frame, EventKind::Request(id), post).await;
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

    /// Answers all open requests of a host on a pipe with an error that says whether they may have been
    /// executed. They are served until [`HostLink::abort_requests`]. Over HTTP that error is the response to
    /// each request that is dropped.
    pub async fn give_up_requests(&self, flush_timeout: Duration) {
        let Output::Pipe { .. } = &self.0.output else { return };
        let unanswered = self.with_session(Session::take_unanswered);
        let answering = async {
            for (id, turn) in unanswered {
                let response = outgoing::response(&id, Err(&given_up(turn)));
                self.send(&response, EventKind::Response, None).await;
            }
        };
        if timeout(flush_timeout, answering).await.is_err() {
            tracing::debug!("the host does not read that its requests were given up");
        }
    }

    /// Aborts all requests of the host, without a response.
    pub async fn abort_requests(&self) {
        for task in self.with_session(Session::cancel_requests) {
            task.abort();
        }
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Accepts no more messages and waits at most `flush_timeout` until everything is written. A
    /// session over HTTP has ended then.
    pub async fn close(&self, flush_timeout: Duration) {
        self.fail_sent_requests();
        let flushed = async {
            match &self.0.output {
                Output::Pipe { writer, flushed } => {
                    writer.close();
                    flushed.cancelled().await;
                }
                Output::Http(session) => {
                    session.end();
                    session.wait_until_flushed().await;
                }
            }
        };
        if timeout(flush_timeout, flushed).await.is_err() {
            tracing::debug!("the host did not read all that was said");
        }
    }

    /// Sends a message, which over HTTP belongs to the request of `post`.
    pub(crate) async fn send(&self, frame: &Frame, kind: EventKind, post: Option<&PostTicket>) {
        match &self.0.output {
            Output::Pipe { writer, .. } => {
                if let Err(fault) = writer.send(frame).await {
                    tracing::debug!(%fault, "the host does not listen any more");
                    self.0.disconnected.cancel();
                }
            }
            Output::Http(session) => {
                let event = Event { data: frame.body(), kind };
                if let Some(post) = post.filter(|_| kind.is_response()) {
                    post.record_response(&event.data);
                }
                session.send(stream_of(post), &event).await;
                if let Some(post) = post.filter(|_| kind.is_response()) {
                    post.mark_answered();
                }
            }
        }
    }

    /// Sends a message if that needs no waiting.
    pub(crate) fn try_send(&self, frame: &Frame, kind: EventKind, stream: StreamId) {
        match &self.0.output {
            Output::Pipe { writer, .. } => drop(writer.try_send(frame, Urgency::Immediate)),
            Output::Http(session) => session.try_send(stream, &Event { data: frame.body(), kind }),
        }
    }

    /// Takes note of what the host was offered, on which later requests over HTTP depend.
    pub(crate) async fn record_offer(&self, result: &Json) {
        if let Output::Http(session) = &self.0.output {
            session.record_offer(result).await;
        }
    }

    /// Takes note of the error with which a request is about to be answered, on which the status of
    /// its response over HTTP may depend.
    pub(crate) fn record_error(&self, error: &RpcError) {
        if let Output::Http(session) = &self.0.output {
            session.record_error(error);
        }
    }

    fn fail_lost_request(&self, id: u64) {
        if let Some(waiter) = self.with_session(|session| session.take_sent(id)) {
            let error = RpcError::new(code::INTERNAL_ERROR, "the host has no event stream open");
            // The waiter may have been dropped at this very moment.
            drop(waiter.send(Err(error)));
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
    /// The stream onto which the request was sent.
    stream: StreamId,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.link.with_session(|session| session.cancel_sent(self.id)) {
            // If the queue is full the host is not notified: its response will find no waiter.
            self.link.try_send(&frame, EventKind::Notification, self.stream);
        }
    }
}

/// The stream for messages that belong to the request of `post`.
pub(crate) fn stream_of(post: Option<&PostTicket>) -> StreamId {
    post.map_or(StreamId::STANDALONE, PostTicket::stream)
}

fn send_error(error: SendError) -> RpcError {
    let code = match error {
        SendError::Closed => code::INTERNAL_ERROR,
        SendError::InvalidParams => code::INVALID_PARAMS,
    };
    RpcError::new(code, error.to_string())
}
