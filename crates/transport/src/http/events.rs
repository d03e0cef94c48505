//! Owns the reading of an event stream.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bowline_proto::fault::{Fault, Misbehaviour};
use bowline_proto::frame::sse::{self, Event};

use super::coding::Chunks;
use super::redactors::Redactors;

/// A stream of events that is arriving.
///
/// Dropped before its end, it ends the exchange: over HTTP/1.1 the connection is closed, over HTTP/2 the
/// stream is reset.
#[derive(Debug)]
pub struct Events(Box<State>);

#[derive(Debug)]
struct State {
    chunks: Chunks,
    decoder: sse::Decoder,
    limit: usize,
    /// The end, or a failure, was told.
    over: bool,
    redactors: Option<Redactors>,
}

impl Events {
    pub(super) fn new(chunks: Chunks, limit: usize) -> Self {
        let decoder = sse::Decoder::with_limit(limit);
        Self(Box::new(State { chunks, decoder, limit, over: false, redactors: None }))
    }

    /// Takes secrets out of what comes from now on.
    pub(super) fn redact(&mut self, redactors: Redactors) {
        self.0.redactors = Some(redactors);
    }

    /// The next event; `None` when the server ended the stream in order.
    ///
    /// An event over the limit is a failure that the stream survives: what follows can still be read. After
    /// any other failure there is nothing more.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any point and called again: no event is lost.
    pub async fn next(&mut self) -> Result<Option<Event>, Fault> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for those who poll.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Event>, Fault>> {
        let State { chunks, decoder, limit, over, redactors } = &mut *self.0;
        loop {
            match decoder.next() {
                Some(Ok(mut event)) => {
                    if let Some(redactors) = redactors {
                        event.data = redactors.json(event.data);
                    }
                    return Poll::Ready(Ok(Some(event)));
                }
                Some(Err(long)) => {
                    let mut fault =
                        Fault::protocol(Misbehaviour::TooLarge { limit: *limit }).body(&long.head);
                    if let Some(redactors) = redactors {
                        fault = redactors.fault(fault);
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

    /// Lets the stream go when all that matters of it has come.
    ///
    /// Servers end the stream of a request right after its answer. If the end is there already, or comes
    /// within a moment, the connection is used again; it is not waited for.
    pub fn release(self) {
        self.0.chunks.release();
    }

    /// The last event id of the stream, which is where a broken one can be taken up again (HL-07).
    pub fn last_id(&self) -> Option<&str> {
        self.0.decoder.last_id().map(AsRef::as_ref)
    }
}
