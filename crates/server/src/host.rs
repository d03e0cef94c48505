//! The connection to the host: reads its messages in order and writes ours in order, both bounded.
//! It does not depend on any server.

mod output;
mod requests;
mod server_requests;
mod stdin;
mod stdout;

use std::sync::Arc;
use std::time::Duration;

use bowline::HandlerResult;
use bowline::wire::outgoing::{self, Frame};
use bowline::wire::{Defect, Id, Json, MalformedMessage, ParseResult, RpcError, code, parse, parse_one};
use bowline_proto::frame::DEFAULT_MESSAGE_LIMIT;
use bowline_transport::pipe::{FrameReader as _, InboundFrame, PipeReader, PipeWriter, pipe};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use output::HostOutput;
pub(crate) use requests::{HostRequests, RequestRefusal};
use server_requests::PendingServerRequests;
use stdin::Stdin;

/// A host on a pair of byte streams.
#[derive(Debug)]
pub struct Host {
    reader: PipeReader,
    pub(crate) link: HostLink,
    /// Checks whether the other end of our output was closed, which a stream reports only to
    /// writers.
    is_output_closed: fn() -> bool,
}

/// Sends messages to the host. Clones share the link.
///
/// # Behavior
/// - Messages are written whole and in order. While the host does not read, a few megabytes are
///   queued; then senders wait.
/// - A host that can no longer be written to counts as disconnected:
///   [`HostLink::wait_for_disconnect`].
#[derive(Clone, Debug)]
pub(crate) struct HostLink(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    writer: PipeWriter,
    server_requests: PendingServerRequests,
    /// Canceled when the host can no longer be written to.
    disconnected: CancellationToken,
    /// Canceled when everything was written and the stream was dropped.
    flushed: CancellationToken,
}

impl Host {
    /// The host is the process that started us, on stdin and stdout. Nothing else may be written to
    /// stdout.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn stdio() -> Self {
        let mut host = Self::new(Stdin::new(), tokio::io::stdout());
        host.is_output_closed = stdout::is_closed;
        host
    }

    /// A host on any pair of streams.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new<R, W>(reader: R, writer: W) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (output, written) = HostOutput::new(writer);
        let (writer, reader) = pipe(reader, output, DEFAULT_MESSAGE_LIMIT);
        let shared = Shared {
            writer,
            server_requests: PendingServerRequests::default(),
            disconnected: CancellationToken::new(),
            flushed: written,
        };
        Self { reader, link: HostLink(Arc::new(shared)), is_output_closed: || false }
    }

    /// Receives the next message of the host, or the messages of a batch. `None` when it has closed
    /// its end.
    ///
    /// A batch, which only hosts of 2025-03-26 send, is split up; each of its requests is answered
    /// separately, which every client matches by id.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Vec<ParseResult>> {
        loop {
            match self.reader.recv().await {
                Ok(InboundFrame::Message(frame)) => {
                    let mut messages = Vec::with_capacity(1);
                    parse(&frame, |message| messages.push(message));
                    return Some(messages);
                }
                Ok(InboundFrame::Noise(line)) => {
                    tracing::warn!(bytes = line.len(), "the host sent a line that is no message");
                }
                Ok(InboundFrame::TooLarge { head, limit }) => {
                    tracing::warn!(limit, "the host sent a message over the limit");
                    // The beginning is never a complete message, but often contains the id.
                    return Some(vec![parse_one(&head)]);
                }
                Err(_) => {
                    tracing::debug!("the host closed its end");
                    return None;
                }
            }
        }
    }
}

impl Host {
    /// Resolves when nobody reads our output, as far as that can be known without writing.
    pub(crate) async fn wait_for_output_close(&mut self) {
        let mut look = tokio::time::interval(OUTPUT_POLL_INTERVAL);
        loop {
            look.tick().await;
            if (self.is_output_closed)() {
                return;
            }
        }
    }
}

/// Interval between checks whether the host still reads, once it has closed its own output.
const OUTPUT_POLL_INTERVAL: Duration = Duration::from_millis(100);

impl HostLink {
    /// Sends the response to a request of the host.
    pub(crate) async fn respond(&self, id: &Id, answer: &HandlerResult) {
        self.send(&outgoing::response(id, answer.as_ref())).await;
    }

    /// Sends a notification to the host.
    pub(crate) async fn notify(&self, method: &str, params: Option<&Json>) {
        self.send(&outgoing::notification(method, params)).await;
    }

    /// Sends the error response to a malformed message, if its id is known.
    ///
    /// Without an id nothing is sent: no revision that a host on this side speaks has an error
    /// without one.
    pub(crate) async fn respond_malformed(&self, malformed: MalformedMessage) {
        tracing::warn!(defect = %malformed.defect, "the host sent a bad message");
        let Some(id) = malformed.id else { return };
        let code = match malformed.defect {
            Defect::NotJson => code::PARSE_ERROR,
            _ => code::INVALID_REQUEST,
        };
        let message = format!("the message cannot be used: {}", malformed.defect);
        self.respond(&id, &Err(RpcError { code, message, data: None })).await;
    }

    /// Resolves when the host can no longer be written to.
    pub(crate) async fn wait_for_disconnect(&self) {
        self.0.disconnected.cancelled().await;
    }

    /// Fails all open server requests, because the host has closed its end and will not respond.
    pub(crate) fn fail_server_requests(&self) {
        self.0.server_requests.close();
    }

    /// Accepts no more messages and waits at most `flush_timeout` until everything is written.
    pub(crate) async fn close(&self, flush_timeout: Duration) {
        self.fail_server_requests();
        self.0.writer.close();
        if timeout(flush_timeout, self.0.flushed.cancelled()).await.is_err() {
            tracing::debug!("the host did not read all that was said");
        }
    }

    async fn send(&self, frame: &Frame) {
        if let Err(fault) = self.0.writer.send(frame).await {
            tracing::debug!(%fault, "the host does not listen any more");
            self.0.disconnected.cancel();
        }
    }
}
