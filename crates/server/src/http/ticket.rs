//! [`PostTicket`]: the place of one request in the POST that carried it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_proto::server::event_streams::{Readability, RequestEnd, StreamId};
use bowline_proto::server::session_journal::{JournalEntry, without_params};
use bowline_proto::wire::{Message, outgoing, parse_one};
use bytes::Bytes;
use tokio::time::interval;

use super::journal::SessionJournal;
use super::session::HttpSession;
use crate::given_up::response_lost;

/// Largest POST that is recorded with its params. Of a larger one only the ids and methods are.
const MAX_RECORDED_BODY: usize = 1024 * 1024;
/// Largest response that is recorded. In place of a larger one an error is. A store keeps 8 MiB of a session.
const MAX_RECORDED_RESPONSE: usize = 6 * 1024 * 1024;
/// How long the host may take to come back for a response.
const ABANDONED_TIME: Duration = Duration::from_secs(60);
/// How often it is checked whether the host reads.
const READER_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Ties a request of the host to the stream of its POST. Dropping it ends the request, so that the
/// POST does not wait for a response that will not come.
#[derive(Debug)]
pub(crate) struct PostTicket {
    session: Arc<HttpSession>,
    stream: StreamId,
    /// The body of the POST, if it may be recorded.
    body: Option<Bytes>,
    /// Whether another process has accepted the request, and did not answer it.
    is_repeated: bool,
    /// Whether the request is in the journal of its session.
    is_recorded: AtomicBool,
    is_answered: AtomicBool,
    canceled: CancelFlag,
}

/// Whether the host has canceled a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelFlag(Arc<AtomicBool>);

impl PostTicket {
    pub(crate) fn new(session: Arc<HttpSession>, stream: StreamId, body: Option<Bytes>) -> Self {
        Self {
            session,
            stream,
            body,
            is_repeated: false,
            is_recorded: AtomicBool::new(false),
            is_answered: AtomicBool::new(false),
            canceled: CancelFlag::default(),
        }
    }

    /// The place of a request that is in the journal of its session.
    pub(crate) fn repeated(session: Arc<HttpSession>, stream: StreamId) -> Self {
        let mut ticket = Self::new(session, stream, None);
        (ticket.is_repeated, ticket.is_recorded) = (true, AtomicBool::new(true));
        ticket
    }

    /// Whether another process has accepted the request, and did not answer it.
    pub(crate) fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Whether the request is what an earlier process knew of the session.
    pub(crate) fn is_restored(&self) -> bool {
        self.is_repeated || self.stream == StreamId::NONE
    }

    /// Records the request, if its session is recorded and the host can come back for its response.
    pub(crate) async fn record(&self) {
        let (Some(journal), Some(body)) = (self.session.journal(), &self.body) else { return };
        if self.is_recorded.load(Ordering::Relaxed) || !self.session.can_resume(self.stream) {
            return;
        }
        if body.trim_ascii_start().starts_with(b"[") {
            // The entries of a recorded POST are those of one request. Only hosts of 2025-03-26 send batches.
            return;
        }
        let body = if body.len() > MAX_RECORDED_BODY { without_params(body) } else { body.clone() };
        if body.len() > MAX_RECORDED_BODY {
            // So many requests in one POST are those of no host that means well.
            return;
        }
        let entry = JournalEntry::Open { stream: self.stream, body };
        if journal.append(&entry).await {
            self.is_recorded.store(true, Ordering::Relaxed);
            // The host gets an event id only for what is recorded. An older host gets its first one with the
            // first message before the response, such as progress.
            if self.session.accepts_empty_event() {
                self.session.begin_stream(self.stream);
            }
        } else {
            // The call is served all the same: its host gets a response unless this process ends too, and
            // with a full disk nothing could be called any more.
            tracing::debug!("a call was not recorded before it is executed");
        }
    }

    /// Records the response, which is about to be sent.
    pub(crate) fn record_response(&self, data: &Bytes) {
        let Some(journal) = self.recorded_in() else { return };
        let stream = self.stream;
        if !self.session.with_streams(|streams| streams.is_resumable(stream)) {
            // The response is all that its POST says, and is sent as JSON.
            return journal.append_later(&JournalEntry::Closed { stream });
        }
        let data =
            if data.len() > MAX_RECORDED_RESPONSE { without_content(data) } else { Some(data.clone()) };
        journal.append_later(&match data {
            Some(data) => JournalEntry::Response { stream, data },
            None => JournalEntry::Closed { stream },
        });
    }

    /// Where the session is recorded, if it is.
    pub(crate) fn journal(&self) -> Option<&SessionJournal> {
        self.session.journal()
    }

    fn recorded_in(&self) -> Option<&SessionJournal> {
        self.session.journal().filter(|_| self.is_recorded.load(Ordering::Relaxed))
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    /// Waits until nobody reads the response any more: the host cannot come back for it, or has not done so for
    /// [`ABANDONED_TIME`].
    pub(crate) async fn wait_until_abandoned(&self) {
        let mut unread_since = None;
        let mut look = interval(READER_CHECK_INTERVAL);
        loop {
            let now = look.tick().await;
            match self.session.with_streams(|streams| streams.readability(self.stream)) {
                Readability::Read => unread_since = None,
                Readability::Resumable if now - *unread_since.get_or_insert(now) < ABANDONED_TIME => {}
                Readability::Resumable | Readability::Never => return,
            }
        }
    }

    pub(crate) fn cancel_flag(&self) -> CancelFlag {
        self.canceled.clone()
    }

    /// Records that the response was sent.
    pub(crate) fn mark_answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }
}

/// What the host gets in place of a response that is too large to be recorded, after a restart. `None` if it
/// is no response.
fn without_content(response: &Bytes) -> Option<Bytes> {
    match parse_one(response) {
        Ok(Message::Result { id, .. } | Message::Error { id: Some(id), .. }) => {
            Some(outgoing::response(&id, Err(&response_lost())).body())
        }
        _ => None,
    }
}

impl CancelFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for PostTicket {
    fn drop(&mut self) {
        if *self.is_answered.get_mut() {
            return;
        }
        let is_canceled = self.canceled.0.load(Ordering::Relaxed);
        if let Some(journal) = self.recorded_in().filter(|_| is_canceled) {
            journal.append_later(&JournalEntry::Closed { stream: self.stream });
        }
        let end = if is_canceled { RequestEnd::Canceled } else { RequestEnd::Dropped };
        self.session.with_streams(|streams| streams.end_request(self.stream, end));
    }
}
