//! [`PostTicket`]: the place of one request in the POST that carried it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_proto::server::event_streams::{Readability, RequestEnd, StreamId};
use bowline_proto::server::session_journal::JournalEntry;
use bowline_proto::wire::{Message, outgoing, parse_one};
use bytes::Bytes;
use tokio::time::interval;

use super::journal::SessionJournal;
use super::post_record::PostRecord;
use super::session::HttpSession;
use crate::given_up::response_lost;

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
    /// What is recorded of the POST, if its session is.
    record: Option<Arc<PostRecord>>,
    /// Whether another process has accepted the request, and did not answer it.
    is_repeated: bool,
    /// Whether the record of the POST knows that the request has ended.
    has_ended: AtomicBool,
    is_answered: AtomicBool,
    canceled: CancelFlag,
}

/// Whether the host has canceled a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelFlag(Arc<AtomicBool>);

impl PostTicket {
    pub(crate) fn new(session: Arc<HttpSession>, stream: StreamId, record: Option<Arc<PostRecord>>) -> Self {
        Self {
            session,
            stream,
            record,
            is_repeated: false,
            has_ended: AtomicBool::new(false),
            is_answered: AtomicBool::new(false),
            canceled: CancelFlag::default(),
        }
    }

    /// The place of a request that is in the journal of its session.
    pub(crate) fn repeated(session: Arc<HttpSession>, stream: StreamId, record: Arc<PostRecord>) -> Self {
        let mut ticket = Self::new(session, stream, Some(record));
        ticket.is_repeated = true;
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
        if let (Some(journal), Some(record)) = (self.session.journal(), &self.record) {
            record.store(&self.session, journal).await;
        }
    }

    /// Records the response, which is about to be sent.
    pub(crate) fn record_response(&self, data: &Bytes) {
        self.end_in_record();
        let Some((journal, record)) = self.recorded_in() else { return };
        let stream = self.stream;
        // A batch is a stream, whose first event may be this one.
        let is_resumable =
            record.is_batch() || self.session.with_streams(|streams| streams.is_resumable(stream));
        let data = match data {
            // The response is all that its POST says, and is sent as JSON.
            _ if !is_resumable => None,
            data if data.len() > MAX_RECORDED_RESPONSE => without_content(data),
            data => Some(data.clone()),
        };
        match data {
            Some(data) => journal.append_later(&JournalEntry::Response { stream, data }),
            None => self.record_end(journal, record),
        }
    }

    /// Records that the request has ended without a response that could be recorded. Of a request in a batch that is
    /// left out, since it would end the others too: the next process answers it with an error, which its host ignores.
    fn record_end(&self, journal: &SessionJournal, record: &PostRecord) {
        if !record.is_batch() {
            journal.append_later(&JournalEntry::Closed { stream: self.stream });
        }
    }

    /// Tells the record of the POST that this request has ended.
    fn end_in_record(&self) {
        if let (Some(journal), Some(record)) = (self.session.journal(), &self.record)
            && !self.has_ended.swap(true, Ordering::Relaxed)
        {
            record.end_request(journal);
        }
    }

    /// Where the session is recorded, if it is.
    pub(crate) fn journal(&self) -> Option<&SessionJournal> {
        self.session.journal()
    }

    /// Where the POST is recorded, if it is.
    fn recorded_in(&self) -> Option<(&SessionJournal, &PostRecord)> {
        let record = self.record.as_deref().filter(|record| record.is_stored())?;
        Some((self.session.journal()?, record))
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
            Some(outgoing::response(&id, Err(&response_lost(true))).body())
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
        self.end_in_record();
        if let Some((journal, record)) = self.recorded_in().filter(|_| is_canceled) {
            self.record_end(journal, record);
        }
        let end = if is_canceled { RequestEnd::Canceled } else { RequestEnd::Dropped };
        self.session.with_streams(|streams| streams.end_request(self.stream, end));
    }
}
