//! [`Host`]: reads the messages of a host in order, and performs what its session decides. It does
//! not depend on what is served.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::frame::DEFAULT_MESSAGE_LIMIT;
use bowline_proto::server::event_streams::EventKind;
use bowline_proto::server::session::{Action, IgnoreReason, Session, out_of_order};
use bowline_proto::via::Via;
use bowline_proto::wire::{
    Defect, Json, MalformedMessage, Message, ParseResult, outgoing, parse_from_host, parse_one,
};
use bowline_transport::pipe::{FrameReader as _, InboundFrame, PipeReader, pipe};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::admission::HostAdmission;
use crate::audience::Audience;
use crate::handshake::InitializeRequest;
use crate::http::{BodyMemory, HttpSource, PostTicket};
use crate::limits::{HostLimits, LimitsControl};
use crate::link::HostLink;
use crate::open_request::{OpenRequest, RefusedRequest};
use crate::output::HostOutput;
use crate::stateless::{RequestOrigin, StatelessRequest};
use crate::stdin::Stdin;
use crate::stdout;

/// A host: the program in front of us, on a pair of byte streams or in a session over HTTP.
///
/// # Behavior
/// - Pings, malformed messages and messages out of sequence are answered here, and cancellations
///   and responses of the host reach those whom they concern, also while requests are served.
/// - A host that does not read its responses is no longer read.
#[derive(Debug)]
pub struct Host {
    source: Source,
    /// Messages of a batch that were not handled yet.
    inbox: VecDeque<InboundMessage>,
    link: HostLink,
    audience: Audience,
    /// Decides which requests are served. `None`: all that there is room for.
    admission: Option<Arc<HostAdmission>>,
}

/// Where the messages of the host come from.
#[derive(Debug)]
enum Source {
    Pipe {
        reader: PipeReader,
        /// Checks whether the other end of our output was closed, which a stream reports only to
        /// writers.
        is_output_closed: fn() -> bool,
    },
    Http(HttpSource),
}

/// A message of the host.
#[derive(Debug)]
pub(crate) struct InboundMessage {
    pub(crate) message: ParseResult,
    /// Over HTTP, the POST that waits for its response.
    pub(crate) post: Option<PostTicket>,
    /// Held until it has its response, which a graceful stop waits for, if its POST does not wait.
    pub(crate) drain: Option<TaskTrackerToken>,
}

impl InboundMessage {
    pub(crate) fn new(message: ParseResult, post: Option<PostTicket>) -> Self {
        Self { message, post, drain: None }
    }
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
    /// It has a request of revision 2026-07-28, on a pipe; see [`Host::with_stateless_requests`].
    Stateless(Box<StatelessRequest>),
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
        Self::on_pipe(Stdin::new(), tokio::io::stdout(), stdout::is_closed)
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
        Self::on_pipe(reader, writer, || false)
    }

    fn on_pipe<R, W>(reader: R, writer: W, is_output_closed: fn() -> bool) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (output, flushed) = HostOutput::new(writer);
        let (writer, reader) = pipe(reader, output, DEFAULT_MESSAGE_LIMIT);
        let link = HostLink::on_pipe(writer, flushed);
        let source = Source::Pipe { reader, is_output_closed };
        Self { source, inbox: VecDeque::new(), link, audience: Audience::default(), admission: None }
    }

    /// A host that has begun a session over HTTP.
    pub(crate) fn on_http(source: HttpSource) -> Self {
        let link = HostLink::on_http(source.session());
        let audience = source.session().audience().clone();
        let admission = source.session().admission().cloned();
        Self { source: Source::Http(source), inbox: VecDeque::new(), link, audience, admission }
    }

    /// A host whose session another process has begun. It has sent these messages.
    pub(crate) fn restored(source: HttpSource, inbox: Vec<InboundMessage>) -> Self {
        let mut host = Self::on_http(source);
        host.inbox.extend(inbox);
        host
    }

    /// Gives the host this view of the servers. Over HTTP, the view of a host is that of its session.
    #[must_use]
    pub fn with_view(mut self, view: &str) -> Self {
        self.audience = Audience::of_view(Some(view.into())).with_via(self.audience.via().clone());
        self
    }

    /// Says which gateways the host has passed. Over HTTP, its requests say so.
    #[must_use]
    pub fn with_via(mut self, via: Via) -> Self {
        self.audience = self.audience.with_via(via);
        self
    }

    /// The gateways that the host has passed.
    pub fn via(&self) -> &Via {
        self.audience.via()
    }

    /// Whether the host is on a pair of byte streams.
    pub fn is_on_pipe(&self) -> bool {
        matches!(self.source, Source::Pipe { .. })
    }

    /// Limits what the host may use. Over HTTP, the limits are those of
    /// [`HttpSettings::with_host_limits`](crate::HttpSettings::with_host_limits).
    #[must_use]
    pub fn with_limits(mut self, limits: HostLimits) -> Self {
        self.admission = Some(HostAdmission::alone(limits));
        self
    }

    /// Changes the limits of [`Host::with_limits`] while the host is served. `None` if there are none.
    pub fn limits_control(&self) -> Option<LimitsControl> {
        self.admission.as_ref().map(|admission| admission.limits().clone())
    }

    /// Serves the host also if it speaks revision 2026-07-28: its requests are
    /// [`HostEvent::Stateless`]. Until `initialize` or the first such request other than
    /// `server/discover`, it may be a host of either era. Over HTTP such requests belong to no session,
    /// and come from [`HttpListener::accept_stateless`](crate::HttpListener::accept_stateless).
    #[must_use]
    pub fn with_stateless_requests(self) -> Self {
        if let Source::Pipe { .. } = self.source {
            self.link.with_session(Session::serve_modern);
        }
        self
    }

    /// On whose behalf the host acts. `None` is whoever has the general token, or all if none is
    /// required.
    pub fn principal(&self) -> Option<&str> {
        self.audience.principal()
    }

    /// The view of the servers that the host has. `None` is everything.
    pub fn view(&self) -> Option<&str> {
        self.audience.view()
    }

    /// The sending side.
    pub fn link(&self) -> &HostLink {
        &self.link
    }

    /// Handles messages of the host until one of them is for the caller. `None` when the host has
    /// closed its end, or its session over HTTP has ended.
    ///
    /// Dropping the future loses no event, but perhaps a response that the host did not read.
    pub async fn next(&mut self) -> Option<HostEvent> {
        loop {
            while let Some(message) = self.inbox.pop_front() {
                if let Some(event) = self.handle(message).await {
                    return Some(event);
                }
            }
            match &mut self.source {
                Source::Pipe { reader, .. } => read_frame(reader, &mut self.inbox).await?,
                Source::Http(source) => source.recv(&mut self.inbox).await?,
            }
        }
    }

    async fn handle(&mut self, InboundMessage { message, post, drain }: InboundMessage) -> Option<HostEvent> {
        if let Err(malformed) = &message {
            tracing::warn!(defect = %malformed.defect, "the host sent a bad message");
        }
        let link = &self.link;
        if let (Source::Http(source), Ok(Message::Request { method, params, .. })) = (&self.source, &message)
        {
            source.session().note_request(method, params.as_ref());
        }
        match link.with_session(|session| session.handle_message(message)) {
            Action::Send(frame) => link.send(&frame, EventKind::Response, post.as_ref()).await,
            Action::Initialize { key, id, attempt, params } => {
                let request = OpenRequest::new(link.clone(), key, id, post).with_drain_token(drain);
                return Some(HostEvent::Initialize(InitializeRequest::new(request, attempt, params)));
            }
            Action::Serve { key, id, method, params } => {
                let request = OpenRequest::new(link.clone(), key, id, post).with_drain_token(drain);
                let request = admit(self.admission.as_ref(), request).await?;
                return Some(HostEvent::Request { request, method, params });
            }
            Action::ServeModern { key, id, method, params, client } => {
                let request = OpenRequest::new(link.clone(), key, id.clone(), post);
                let request = admit(self.admission.as_ref(), request).await?;
                let audience = self.audience.clone().with_via_of(params.as_ref());
                let memory = BodyMemory::default();
                let client = *client;
                let request = StatelessRequest {
                    request,
                    id,
                    method,
                    params,
                    client,
                    memory,
                    audience,
                    origin: RequestOrigin::Pipe,
                };
                return Some(HostEvent::Stateless(Box::new(request)));
            }
            Action::RefuseFull { id } => {
                tracing::warn!(%id, "a request of the host was refused: too many are under way");
                return Some(HostEvent::Overload(RefusedRequest::new(link.clone(), id, post)));
            }
            Action::Cancel { task, reason } => task.cancel(reason),
            // The waiter may have been dropped at this very moment.
            Action::Deliver { waiter, outcome } => drop(waiter.send(outcome)),
            Action::Notify { method, params } => return Some(HostEvent::Notification { method, params }),
            Action::Ignore(IgnoreReason::DuplicateId(id)) => {
                tracing::warn!(%id, "a request of the host with the id of one under way was refused");
                // A response with the id would be taken for that of the other request.
                if post.is_some() || self.is_on_pipe() {
                    let error = out_of_order("a request with this id is under way");
                    let frame = outgoing::error_without_id(&error);
                    link.send(&frame, EventKind::Refusal, post.as_ref()).await;
                }
            }
            Action::Ignore(reason) => tracing::debug!(%reason, "a message of the host was dropped"),
        }
        None
    }

    /// Resolves when nobody reads our output, as far as that can be known without writing.
    pub async fn wait_for_output_close(&mut self) {
        let is_closed = match &self.source {
            Source::Pipe { is_output_closed, .. } => is_output_closed,
            Source::Http(source) => return source.wait_for_end().await,
        };
        let mut look = tokio::time::interval(OUTPUT_POLL_INTERVAL);
        loop {
            look.tick().await;
            if is_closed() {
                return;
            }
        }
    }
}

/// Admits a request, or answers it with an error.
async fn admit(admission: Option<&Arc<HostAdmission>>, request: OpenRequest) -> Option<OpenRequest> {
    // What a restored session sets again was admitted before.
    let admission = admission.filter(|_| !request.is_restored());
    match admission.map(HostAdmission::admit).transpose() {
        Ok(slot) => Some(request.with_slot(slot)),
        Err(error) => {
            tracing::debug!(error = error.message, "a request of the host was refused");
            request.respond(Err(&error)).await;
            None
        }
    }
}

/// Reads the next message, or the messages of a batch. `None` when the host has closed its end.
///
/// A batch, which only hosts of 2025-03-26 send, is split up; each of its requests is answered
/// separately, which every client matches by id.
async fn read_frame(reader: &mut PipeReader, inbox: &mut VecDeque<InboundMessage>) -> Option<()> {
    let mut push = |message| inbox.push_back(InboundMessage::new(message, None));
    match reader.recv().await {
        Ok(InboundFrame::Message(frame)) => parse_from_host(&frame, push),
        Ok(InboundFrame::Noise(line)) => {
            let defect = if Json::parse(line).is_ok() { Defect::NotAnObject } else { Defect::NotJson };
            push(Err(MalformedMessage { id: None, defect }));
        }
        Ok(InboundFrame::TooLarge { head, limit }) => {
            tracing::warn!(limit, "the host sent a message over the limit");
            // The beginning is never a complete message, but often contains the id.
            let id = parse_one(&head).err().and_then(|malformed| malformed.id);
            push(Err(MalformedMessage { id, defect: Defect::TooLong { limit } }));
        }
        Err(_) => {
            tracing::debug!("the host closed its end");
            return None;
        }
    }
    Some(())
}

/// Interval between checks whether the host still reads, once it has closed its own output.
const OUTPUT_POLL_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
