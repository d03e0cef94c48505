//! [`PostRecord`]: what the journal of a session has of one POST.

use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_proto::server::event_streams::StreamId;
use bowline_proto::server::session_journal::{JournalEntry, without_params};
use bytes::Bytes;
use tokio::sync::OnceCell;

use super::journal::SessionJournal;
use super::session::HttpSession;

/// What the journal of a session has of one POST. All requests of the POST share it: a batch is recorded before the
/// first of its requests that may have effects is executed, and from then on each of its responses.
#[derive(Debug)]
pub(crate) struct PostRecord {
    stream: StreamId,
    body: Bytes,
    /// How many requests the POST has.
    requests: usize,
    /// How many of them have not ended.
    open: AtomicUsize,
    /// Whether the POST is in the journal, once that is decided. A failure is final: a request that was executed
    /// before is not recorded afterwards.
    stored: OnceCell<bool>,
}

/// Largest POST that is recorded with its params. Of a larger one only the ids and methods are.
const MAX_RECORDED_BODY: usize = 1024 * 1024;

impl PostRecord {
    /// A POST with this body and this many requests, which is not recorded yet.
    pub(crate) fn new(stream: StreamId, body: Bytes, requests: usize) -> Self {
        Self { stream, body, requests, open: AtomicUsize::new(requests), stored: OnceCell::new() }
    }

    /// A POST that another process has recorded, with this many requests, of which `open` have not ended.
    pub(crate) fn restored(stream: StreamId, requests: usize, open: usize) -> Self {
        let (open, stored) = (AtomicUsize::new(open), OnceCell::new_with(Some(true)));
        Self { open, stored, ..Self::new(stream, Bytes::new(), requests) }
    }

    /// Whether the POST is in the journal.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored.get() == Some(&true)
    }

    /// Whether the POST has several requests.
    pub(crate) fn is_batch(&self) -> bool {
        self.requests > 1
    }

    /// Records the POST, if the host can come back for its responses, unless that was done or has failed.
    pub(crate) async fn store(&self, session: &HttpSession, journal: &SessionJournal) {
        if self.stored.initialized() || !session.can_resume(self.stream) {
            return;
        }
        // Another request of the batch waits meanwhile: none of them may be executed before.
        self.stored.get_or_init(|| self.append(session, journal)).await;
    }

    /// Appends the POST to the journal. Returns whether it is stored.
    async fn append(&self, session: &HttpSession, journal: &SessionJournal) -> bool {
        let is_large = self.body.len() > MAX_RECORDED_BODY;
        let body = if is_large { without_params(&self.body) } else { self.body.clone() };
        if body.len() > MAX_RECORDED_BODY {
            // So many requests in one POST are those of no host that means well.
            return false;
        }
        if !journal.append(&JournalEntry::Open { stream: self.stream, body }).await {
            // The call is served all the same: its host gets a response unless this process ends too, and
            // with a full disk nothing could be called any more.
            tracing::debug!("a call was not recorded before it is executed");
            return false;
        }
        // The host gets an event id only for what is recorded. An older host gets its first one with the
        // first message before the response, such as progress.
        if session.accepts_empty_event() {
            session.begin_stream(self.stream);
        }
        true
    }

    /// Takes note of the end of a request. Once all have ended, the journal need not keep the POST for longer than it
    /// keeps other entries.
    pub(crate) fn end_request(&self, journal: &SessionJournal) {
        if self.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            journal.close_post(self.stream);
        }
    }
}
