//! Reads an event stream from a response body.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bowline_proto::fault::{Fault, Misbehavior};
use bowline_proto::frame::sse::{self, Event};

use super::coding::Chunks;
use super::response_redactor::ResponseRedactor;

/// A stream of events that is arriving.
///
/// Dropping it before its end ends the exchange: over HTTP/1.1 the connection is closed, over
/// HTTP/2 the stream is reset.
#[derive(Debug)]
pub struct EventStream(Box<State>);

#[derive(Debug)]
struct State {
    chunks: Chunks,
    decoder: sse::Decoder,
    limit: usize,
    /// Whether the end or a failure was returned.
    is_finished: bool,
    redactor: Option<ResponseRedactor>,
}

impl EventStream {
    pub(super) fn new(chunks: Chunks, limit: usize) -> Self {
        let decoder = sse::Decoder::with_limit(limit);
        Self(Box::new(State { chunks, decoder, limit, is_finished: false, redactor: None }))
    }

    /// Redacts all events from now on.
    pub(super) fn redact(&mut self, redactors: ResponseRedactor) {
        self.0.redactor = Some(redactors);
    }

    /// Returns the next event; `None` when the server ended the stream in order.
    ///
    /// An event over the limit is a failure that the stream survives: later events can still be
    /// read. After any other failure the stream has ended.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any point and called again: no event is lost.
    pub async fn next(&mut self) -> Result<Option<Event>, Fault> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Like [`next`](Self::next), for callers that poll.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Event>, Fault>> {
        let State { chunks, decoder, limit, is_finished: over, redactor: redactors } = &mut *self.0;
        loop {
            match decoder.next() {
                Some(Ok(mut event)) => {
                    if let Some(redactors) = redactors {
                        event.data = redactors.redact_json(event.data);
                    }
                    return Poll::Ready(Ok(Some(event)));
                }
                Some(Err(long)) => {
                    let mut fault =
                        Fault::protocol(Misbehavior::TooLarge { limit: *limit }).with_body(&long.head);
                    if let Some(redactors) = redactors {
                        fault = redactors.redact_fault(fault);
                    }
                    return Poll::Ready(Err(fault));
                }
                None if *over => return Poll::Ready(Ok(None)),
                None => {}
            }
            match ready!(chunks.poll_chunk(cx)) {
                Some(Ok(chunk)) => decoder.push(chunk),
                Some(Err(fault)) => {
                    *over = true;
                    return Poll::Ready(Err(fault));
                }
                None => *over = true,
            }
        }
    }

    /// Drops the stream when the caller needs nothing more of it.
    ///
    /// Servers end the stream of a request right after its response. If the end is there already,
    /// or arrives within a moment, the connection is reused; nobody waits for it.
    pub fn release(self) {
        self.0.chunks.release();
    }

    /// The last event id of the stream, from which a broken stream can be resumed.
    pub fn last_event_id(&self) -> Option<&str> {
        self.0.decoder.last_id().map(AsRef::as_ref)
    }
}
