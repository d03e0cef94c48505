//! [`Host`]: reads the messages of a host in order, and performs what its session decides. It does
//! not depend on what is served.

use std::collections::VecDeque;
use std::time::Duration;

use bowline_proto::frame::DEFAULT_MESSAGE_LIMIT;
use bowline_proto::server::session::{Action, IgnoreReason};
use bowline_proto::wire::{Json, ParseResult, parse, parse_one};
use bowline_transport::pipe::{FrameReader as _, InboundFrame, PipeReader, pipe};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::handshake::InitializeRequest;
use crate::link::HostLink;
use crate::open_request::{OpenRequest, RefusedRequest};
use crate::output::HostOutput;
use crate::stdin::Stdin;
use crate::stdout;

/// A host on a pair of byte streams.
///
/// # Behavior
/// - Pings, malformed messages and messages out of sequence are answered here, and cancellations
///   and responses of the host reach those whom they concern, also while requests are served.
/// - A host that does not read its responses is no longer read.
#[derive(Debug)]
pub struct Host {
    reader: PipeReader,
    /// Messages of a batch that were not handled yet.
    inbox: VecDeque<ParseResult>,
    link: HostLink,
    /// Checks whether the other end of our output was closed, which a stream reports only to
    /// writers.
    is_output_closed: fn() -> bool,
}

/// What a host wants.
#[derive(Debug)]
pub enum HostEvent {
    /// It begins a session.
    Initialize(InitializeRequest),
    /// It has a request, and `initialize` came before.
    Request {
        /// The request, to spawn or to answer.
        request: OpenRequest,
        /// Its method.
        method: Box<str>,
        /// Its params.
        params: Option<Json>,
    },
    /// It has a request for which there is no room.
    Overload(RefusedRequest),
    /// It has a notification, and `initialize` came before. Those of the handshake and
    /// cancellations are not among them.
    Notification {
        /// Its method.
        method: Box<str>,
        /// Its params.
        params: Option<Json>,
    },
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
        let (output, flushed) = HostOutput::new(writer);
        let (writer, reader) = pipe(reader, output, DEFAULT_MESSAGE_LIMIT);
        let link = HostLink::new(writer, flushed);
        Self { reader, inbox: VecDeque::new(), link, is_output_closed: || false }
    }

    /// The sending side.
    pub fn link(&self) -> &HostLink {
        &self.link
    }

    /// Handles messages of the host until one of them is for the caller. `None` when the host has
    /// closed its end.
    ///
    /// Dropping the future loses no event, but perhaps a response that the host did not read.
    pub async fn next(&mut self) -> Option<HostEvent> {
        loop {
            while let Some(message) = self.inbox.pop_front() {
                if let Some(event) = self.handle(message).await {
                    return Some(event);
                }
            }
            self.read_frame().await?;
        }
    }

    /// Reads the next message, or the messages of a batch. `None` when the host has closed its end.
    ///
    /// A batch, which only hosts of 2025-03-26 send, is split up; each of its requests is answered
    /// separately, which every client matches by id.
    async fn read_frame(&mut self) -> Option<()> {
        match self.reader.recv().await {
            Ok(InboundFrame::Message(frame)) => parse(&frame, |message| self.inbox.push_back(message)),
            Ok(InboundFrame::Noise(line)) => {
                tracing::warn!(bytes = line.len(), "the host sent a line that is no message");
            }
            Ok(InboundFrame::TooLarge { head, limit }) => {
                tracing::warn!(limit, "the host sent a message over the limit");
                // The beginning is never a complete message, but often contains the id.
                self.inbox.push_back(parse_one(&head));
            }
            Err(_) => {
                tracing::debug!("the host closed its end");
                return None;
            }
        }
        Some(())
    }

    async fn handle(&mut self, message: ParseResult) -> Option<HostEvent> {
        if let Err(malformed) = &message {
            tracing::warn!(defect = %malformed.defect, "the host sent a bad message");
        }
        let link = &self.link;
        match link.with_session(|session| session.handle_message(message)) {
            Action::Send(frame) => link.send(&frame).await,
            Action::Initialize { key, id, attempt, params } => {
                let request = OpenRequest::new(link.clone(), key, id);
                return Some(HostEvent::Initialize(InitializeRequest::new(request, attempt, params)));
            }
            Action::Serve { key, id, method, params } => {
                let request = OpenRequest::new(link.clone(), key, id);
                return Some(HostEvent::Request { request, method, params });
            }
            Action::RefuseFull { id } => {
                tracing::warn!(%id, "a request of the host was refused: too many are under way");
                return Some(HostEvent::Overload(RefusedRequest::new(link.clone(), id)));
            }
            Action::Cancel(task) => task.abort(),
            // The waiter may have been dropped at this very moment.
            Action::Deliver { waiter, outcome } => drop(waiter.send(outcome)),
            Action::Notify { method, params } => return Some(HostEvent::Notification { method, params }),
            Action::Ignore(IgnoreReason::DuplicateId(id)) => {
                tracing::warn!(%id, "a request of the host with the id of one under way was ignored");
            }
            Action::Ignore(reason) => tracing::debug!(%reason, "a message of the host was dropped"),
        }
        None
    }

    /// Resolves when nobody reads our output, as far as that can be known without writing.
    pub async fn wait_for_output_close(&mut self) {
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

#[cfg(test)]
mod tests;
