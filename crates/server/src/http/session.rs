//! [`HttpSession`]: one session over HTTP, with its streams, and how it ends.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use bowline_proto::revision::Revision;
use bowline_proto::server::event_streams::{Event, EventStreams, PushOutcome, StreamId};
use bowline_proto::server::modern::error_status;
use bowline_proto::wire::{Json, RpcError};
use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::idle_watch::OpenSession;
use super::journal::SessionJournal;
use super::request_body::session_body_budget;
use super::session_id::SessionId;
use super::sessions::Sessions;
use super::settings::HttpSettings;
use super::source::InboundPost;
use super::stateless_sessions::StatelessRegistration;
use super::unanswered::UnansweredRequests;
use crate::admission::HostAdmission;
use crate::audience::Audience;

/// One session over HTTP. It has ended when its host deletes it, when it is idle for too long, or
/// when its [`Host`](crate::Host) is dropped or closed.
pub(crate) struct HttpSession {
    identity: SessionIdentity,
    streams: Mutex<EventStreams<Waker>>,
    /// Notified when a stream may have room for more events.
    room: Notify,
    posts: mpsc::Sender<InboundPost>,
    ended: CancellationToken,
    /// The agreed revision, once `initialize` has a result.
    revision: OnceLock<Option<Revision>>,
    /// The HTTP status of the only response of a stateless session.
    status: AtomicU16,
    activity: Mutex<Activity>,
    on_lost_request: OnceLock<Box<dyn Fn(u64) + Send + Sync>>,
    /// Decides which of its requests are served. `None` if that was decided before it began.
    admission: Option<Arc<HostAdmission>>,
    /// Where the session is recorded.
    journal: Option<SessionJournal>,
    sessions: Weak<Sessions>,
    stall_timeout: Duration,
    body_budget: Arc<Semaphore>,
    /// What becomes of the requests that are open, once the listener has stopped.
    stop_outcome: OnceLock<StopOutcome>,
    /// Those of them that are on event streams.
    unanswered: UnansweredRequests,
    /// The place of a stateless session among those that are open.
    place: Option<StatelessRegistration>,
    /// Counts this session as open.
    _open: OpenSession,
}

/// Which session it is, and whose.
#[derive(Clone)]
pub(crate) struct SessionIdentity {
    pub(crate) id: SessionId,
    pub(crate) kind: SessionKind,
    /// The only one that finds the session.
    pub(crate) audience: Audience,
}

/// The transports, which have endpoints of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionKind {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// One request of a host of 2026-07-28. The session ends with its POST, and no host knows of it.
    Stateless,
}

/// What becomes of the requests of a session that are open when the listener stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopOutcome {
    /// They are answered with an error.
    GivenUp,
    /// They get no response: the processes that relay them retry what is harmless.
    LeftToRelays,
}

#[derive(Debug)]
struct Activity {
    /// Number of requests and streams that are open.
    open: usize,
    /// Since when none is open.
    idle_since: Instant,
}

/// An open request or stream of a session, which is not idle meanwhile.
#[derive(Debug)]
pub(crate) struct Exchange(Arc<HttpSession>);

impl HttpSession {
    pub(crate) fn new(
        identity: SessionIdentity,
        settings: &HttpSettings,
        posts: mpsc::Sender<InboundPost>,
        sessions: Weak<Sessions>,
        journal: Option<SessionJournal>,
        open: OpenSession,
    ) -> Self {
        let streams = EventStreams::new(settings.log_limits);
        Self::with_event_streams(identity, streams, settings, posts, sessions, journal, open)
    }

    pub(crate) fn with_event_streams(
        identity: SessionIdentity,
        streams: EventStreams<Waker>,
        settings: &HttpSettings,
        posts: mpsc::Sender<InboundPost>,
        sessions: Weak<Sessions>,
        journal: Option<SessionJournal>,
        open: OpenSession,
    ) -> Self {
        Self {
            identity,
            streams: Mutex::new(streams),
            room: Notify::new(),
            posts,
            ended: CancellationToken::new(),
            revision: OnceLock::new(),
            status: AtomicU16::new(StatusCode::OK.as_u16()),
            activity: Mutex::new(Activity { open: 0, idle_since: Instant::now() }),
            on_lost_request: OnceLock::new(),
            admission: None,
            journal,
            sessions,
            stall_timeout: settings.stall_timeout,
            body_budget: session_body_budget(settings),
            stop_outcome: OnceLock::new(),
            unanswered: UnansweredRequests::default(),
            place: None,
            _open: open,
        }
    }

    /// Decides which of its requests are served.
    pub(crate) fn with_admission(mut self, admission: Arc<HostAdmission>) -> Self {
        self.admission = Some(admission);
        self
    }

    /// Holds the place of a stateless session.
    pub(crate) fn with_place(mut self, place: StatelessRegistration) -> Self {
        self.place = Some(place);
        self
    }

    pub(crate) fn admission(&self) -> Option<&Arc<HostAdmission>> {
        self.admission.as_ref()
    }

    /// The memory for the bodies of its messages.
    pub(crate) fn body_budget(&self) -> &Arc<Semaphore> {
        &self.body_budget
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.identity.id
    }

    pub(crate) fn kind(&self) -> SessionKind {
        self.identity.kind
    }

    /// Whose session it is.
    pub(crate) fn audience(&self) -> &Audience {
        &self.identity.audience
    }

    /// Canceled when the session has ended.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// The agreed revision.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.revision.get().copied().flatten()
    }

    /// Whether `initialize` has a result.
    pub(crate) fn is_initialized(&self) -> bool {
        self.revision.get().is_some()
    }

    /// Takes note of the result of `initialize`, and waits until it is recorded: the host may rely on the
    /// session from then on.
    pub(crate) async fn record_offer(&self, result: &Json) {
        let version = result.member("protocolVersion").and_then(|version| version.decode::<String>().ok());
        if let (Some(journal), Some(version)) = (&self.journal, &version) {
            journal.note_revision(version).await;
        }
        self.set_revision(version.and_then(|version| Revision::parse(&version)));
    }

    /// Sets the agreed revision. Only the first one counts, since only the first result is sent.
    pub(crate) fn set_revision(&self, revision: Option<Revision>) {
        let _ = self.revision.set(revision);
    }

    /// Where the session is recorded, if it is.
    pub(crate) fn journal(&self) -> Option<&SessionJournal> {
        self.journal.as_ref()
    }

    /// Takes note of a request of the host.
    pub(crate) fn note_request(&self, method: &str, params: Option<&Json>) {
        if let Some(journal) = &self.journal {
            journal.note_request(method, params);
        }
    }

    /// Whether a POST may be answered with an event stream, from which the host can come back for its
    /// response.
    pub(crate) fn can_resume(&self, stream: StreamId) -> bool {
        self.kind() == SessionKind::Streamable
            && self.revision().is_some()
            && self.with_streams(|streams| streams.accepts_stream(stream))
    }

    /// Whether the host can resume a stream before anything was said on it. Hosts before 2025-11-25 take
    /// a stream that begins with nothing for a broken one.
    pub(crate) fn accepts_empty_event(&self) -> bool {
        self.revision().is_some_and(|revision| revision >= Revision::V2025_11_25)
    }

    /// Answers a POST with an event stream.
    pub(crate) fn begin_stream(&self, stream: StreamId) {
        self.with_streams(|streams| streams.begin_stream(stream));
    }

    /// Takes note of the error with which a request is about to be answered.
    // HM-11
    pub(crate) fn record_error(&self, error: &RpcError) {
        // The lock of the streams orders this before whoever reads the response.
        self.status.store(error_status(error.code), Ordering::Relaxed);
    }

    /// The HTTP status of the only response of a stateless session.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status.load(Ordering::Relaxed)).unwrap_or(StatusCode::OK)
    }

    /// Calls `observer` with the id of each request of ours that was dropped before the host read
    /// it.
    pub(crate) fn on_lost_request(&self, observer: impl Fn(u64) + Send + Sync + 'static) {
        // A session has one link.
        let _ = self.on_lost_request.set(Box::new(observer));
    }

    /// Hands the messages of a POST to the host. `false` if the session has ended.
    pub(crate) async fn deliver(&self, post: InboundPost) -> bool {
        tokio::select! {
            biased;
            () = self.ended.cancelled() => false,
            sent = self.posts.send(post) => sent.is_ok(),
        }
    }

    /// Sends an event, and waits while the host reads its stream slowly. A host that reads nothing
    /// for long has lost its connection, most likely, and is cut off.
    ///
    /// Dropping the future leaves the event either sent or not.
    pub(crate) async fn send(&self, stream: StreamId, event: &Event) {
        let mut stall = None;
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            let full = self.with_streams(|streams| match streams.push(stream, event) {
                PushOutcome::Full(full) => Some((full, streams.reader_position(full))),
                PushOutcome::Stored | PushOutcome::Discarded => None,
            });
            let Some(position) = full else { return };
            let deadline = match stall {
                Some((seen, deadline)) if seen == position => deadline,
                _ => Instant::now() + self.stall_timeout,
            };
            stall = Some((position, deadline));
            if timeout_at(deadline, room).await.is_err() {
                tracing::warn!("a host does not read its event stream, which is cut off");
                self.with_streams(|streams| streams.detach_stream(position.0));
            }
        }
    }

    /// Sends an event if that needs no waiting.
    pub(crate) fn try_send(&self, stream: StreamId, event: &Event) {
        self.with_streams(|streams| streams.push(stream, event));
    }

    /// Ends the session because it is over, for every process.
    pub(crate) fn end_for_good(&self) {
        drop(self.journal.as_ref().map(SessionJournal::remove));
        self.end();
    }

    /// Ends the session because it is over, and waits until no other process can go on with it.
    pub(crate) async fn end_and_wait(&self) {
        // First, so that whoever comes back meanwhile does not load it.
        let removed = self.journal.as_ref().map(|journal| (journal, journal.remove()));
        self.end();
        if let Some((journal, removed)) = removed {
            journal.wait(removed).await;
        }
    }

    /// Says that the session has not ended.
    pub(crate) fn touch(&self, now: Instant) {
        if let Some(journal) = &self.journal {
            journal.touch(now);
        }
    }

    /// Ends the session in this process: its streams end once they are read, and its id is no longer
    /// known. If it is recorded, another process may go on with it.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.remove(self.id());
        }
        self.with_streams(EventStreams::close);
    }

    /// Ends the session in this process because the listener stops: the requests that are open are answered with an
    /// error.
    pub(crate) fn give_up(&self) {
        self.stop(StopOutcome::GivenUp);
    }

    /// Ends the session in this process because the listener stops: the requests that are open get no response, and are
    /// left to the processes that relay them.
    pub(crate) fn leave_to_relays(&self) {
        self.stop(StopOutcome::LeftToRelays);
    }

    /// Ends the session with the listener, which stops once.
    fn stop(&self, outcome: StopOutcome) {
        let _ = self.stop_outcome.set(outcome);
        // The lock of the streams orders this before whoever reads their end.
        self.end();
    }

    /// Whether the requests that were open at the end of the session are answered with an error.
    pub(crate) fn is_given_up(&self) -> bool {
        self.stop_outcome.get() == Some(&StopOutcome::GivenUp)
    }

    /// Whether the requests that were open at the end of the session are left to the processes that relay them.
    pub(crate) fn is_left_to_relays(&self) -> bool {
        self.stop_outcome.get() == Some(&StopOutcome::LeftToRelays)
    }

    /// The requests on event streams whose responses nobody has read yet.
    pub(crate) fn unanswered(&self) -> &UnansweredRequests {
        &self.unanswered
    }

    /// Resolves when open streams have been read to their end.
    pub(crate) async fn wait_until_flushed(&self) {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if self.with_streams(|streams| streams.is_flushed()) {
                return;
            }
            room.await;
        }
    }

    /// Tells or asks the streams something, and does what they want done.
    pub(crate) fn with_streams<T>(&self, work: impl FnOnce(&mut EventStreams<Waker>) -> T) -> T {
        let mut streams = self.streams.lock();
        let outcome = work(&mut streams);
        let has_room = streams.poll_freed_room();
        let mut wakeups: Vec<Waker> = Vec::new();
        wakeups.extend(std::iter::from_fn(|| streams.poll_wakeup()));
        let mut lost: Vec<u64> = Vec::new();
        lost.extend(std::iter::from_fn(|| streams.poll_lost_request()));
        drop(streams);
        wakeups.into_iter().for_each(Waker::wake);
        if has_room {
            self.room.notify_waiters();
        }
        if let Some(observer) = self.on_lost_request.get() {
            lost.into_iter().for_each(observer);
        }
        outcome
    }

    /// Begins a request or a stream, during which the session is not idle.
    pub(crate) fn begin_exchange(self: &Arc<Self>) -> Exchange {
        self.activity.lock().open += 1;
        Exchange(Arc::clone(self))
    }

    /// Whether nothing was open for `idle_timeout`.
    pub(crate) fn is_idle(&self, now: Instant, idle_timeout: Duration) -> bool {
        let activity = self.activity.lock();
        activity.open == 0 && now.saturating_duration_since(activity.idle_since) >= idle_timeout
    }
}

impl fmt::Debug for HttpSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSession").field("has_ended", &self.ended.is_cancelled()).finish_non_exhaustive()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut activity = self.0.activity.lock();
        activity.open -= 1;
        activity.idle_since = Instant::now();
    }
}
