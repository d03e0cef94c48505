//! Reads lines from a byte stream: few large reads, straight into the buffer of the decoder.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io, mem};

use bowline_proto::fault::{Cause, Exit, Fault};
use bowline_proto::frame::lines::{Line, LineDecoder};
use bowline_proto::wire::Json;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::coop;
use tokio::time::{Sleep, sleep};

use super::{FrameReader, InboundFrame};

/// The receiving half of a pipe.
pub struct PipeReader {
    state: State,
    limit: usize,
    /// Set on every received line; the writer clears it when it decides whether to batch.
    has_received: Arc<AtomicBool>,
}

enum State {
    Open {
        io: Box<dyn AsyncRead + Send + Unpin>,
        lines: LineDecoder,
        /// Size of the next read, in bytes.
        room: usize,
        /// Runs out when the buffer of the last large message is to be released.
        spare_end: Option<Pin<Box<Sleep>>>,
    },
    Ended(Fault),
}

/// Size of a read while messages are small, so that a small message does not keep a large buffer
/// alive.
const READ_SIZE: usize = 16 * 1024;
/// Size of a read after one was filled: a large message is on its way, and each read is a system
/// call. Pipes hold 64 KiB unless configured otherwise.
const LARGE_READ_SIZE: usize = 128 * 1024;
/// How long the buffer of a large message is kept for the next one.
const SPARE_BUFFER_TIMEOUT: Duration = Duration::from_secs(5);

// === impl PipeReader ===

impl PipeReader {
    pub(super) fn new(
        io: impl AsyncRead + Send + Unpin + 'static,
        limit: usize,
        has_received: Arc<AtomicBool>,
    ) -> Self {
        let lines = LineDecoder::with_limit(limit);
        let state = State::Open { io: Box::new(io), lines, room: READ_SIZE, spare_end: None };
        Self { state, limit, has_received }
    }

    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<InboundFrame, Fault>> {
        loop {
            let (io, lines, room, spare_end) = match &mut self.state {
                State::Open { io, lines, room, spare_end } => (io, lines, room, spare_end),
                State::Ended(fault) => return Poll::Ready(Err(fault.clone())),
            };
            if let Some(line) = lines.next() {
                self.has_received.store(true, Ordering::Relaxed);
                return Poll::Ready(Ok(to_inbound_frame(line, self.limit)));
            }
            // A stream of a host may always be ready. Without a budget its reader would keep its thread.
            let budget = ready!(coop::poll_proceed(cx));
            let filled = poll_fill(io.as_mut(), lines, room, cx);
            if filled.is_ready() {
                budget.made_progress();
            }
            let fault = match filled {
                Poll::Pending => {
                    poll_release_spare(lines, spare_end, cx);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => Fault::new(Cause::Exited(Exit::Eof)),
                Poll::Ready(Ok(_)) => continue,
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Poll::Ready(Err(error)) => Fault::new(Cause::Cut).with_note(error.to_string()),
            };
            // A last line without its newline still counts if it is complete JSON. Half a message
            // is noise: its call fails with the end of the link.
            let last = mem::take(lines).finish().map(classify_last_line);
            self.state = State::Ended(fault);
            if let Some(line) = last {
                return Poll::Ready(Ok(to_inbound_frame(line, self.limit)));
            }
        }
    }
}

impl FrameReader for PipeReader {
    async fn recv(&mut self) -> Result<InboundFrame, Fault> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }
}

impl fmt::Debug for PipeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Open { .. } => "open",
            State::Ended(_) => "ended",
        };
        f.debug_struct("PipeReader").field("state", &state).finish_non_exhaustive()
    }
}

fn poll_fill(
    io: &mut (dyn AsyncRead + Send + Unpin),
    lines: &mut LineDecoder,
    room: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let buffer = lines.buffer_mut(*room);
    let spare = buffer.capacity() - buffer.len();
    // A read keeps no state between polls, so a new future for every poll continues the same read.
    let read: Pin<&mut _> = pin!(AsyncReadExt::read_buf(io, buffer));
    let taken = ready!(read.poll(cx))?;
    *room = if taken == spare { LARGE_READ_SIZE } else { READ_SIZE };
    Poll::Ready(Ok(taken))
}

/// Releases the buffer of a large message when no other message has used it for
/// [`SPARE_BUFFER_TIMEOUT`].
fn poll_release_spare(
    lines: &mut LineDecoder,
    spare_end: &mut Option<Pin<Box<Sleep>>>,
    cx: &mut Context<'_>,
) {
    if !lines.has_spare() {
        // Either a large message is being read into it, or there never was one.
        *spare_end = None;
        return;
    }
    let end = spare_end.get_or_insert_with(|| Box::pin(sleep(SPARE_BUFFER_TIMEOUT)));
    if end.as_mut().poll(cx).is_ready() {
        lines.release_spare();
        *spare_end = None;
    }
}

/// Turns a message that is not complete JSON into noise.
fn classify_last_line(line: Line) -> Line {
    match line {
        Line::Message(bytes) if Json::parse(bytes.clone()).is_err() => Line::Noise(bytes),
        line => line,
    }
}

fn to_inbound_frame(line: Line, limit: usize) -> InboundFrame {
    match line {
        Line::Message(bytes) => InboundFrame::Message(bytes),
        Line::Noise(bytes) => InboundFrame::Noise(bytes),
        Line::TooLong { head, .. } => InboundFrame::TooLarge { head, limit },
    }
}
