//! [`EventBody`]: the body of an event stream, with comments while there is nothing to say.

use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_proto::server::event_streams::{EventId, NextEvent, Readability, Reader};
use bowline_proto::server::requests::Turn;
use bowline_proto::wire::{Id, outgoing};
use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::end_session::EndSession;
use super::session::{Exchange, HttpSession, SessionKind};
use crate::given_up::given_up;

/// The body of an event stream.
#[derive(Debug)]
pub(crate) struct EventBody {
    reader: StreamReader,
    /// What is to be written before the next event.
    chunks: VecDeque<Bytes>,
    keep_alive: Pin<Box<Sleep>>,
    keep_alive_interval: Duration,
    /// Resolves when the token expires that the stream was opened with.
    expiry: Option<Pin<Box<Sleep>>>,
    /// Held while the stream of a POST is open, which a graceful stop waits for.
    _open_post: Option<TaskTrackerToken>,
    /// Held if the session ends with this stream.
    end: Option<EndSession>,
}

/// The reader of one stream. Dropping it leaves the stream without one.
#[derive(Debug)]
pub(crate) struct StreamReader {
    session: Arc<HttpSession>,
    reader: Reader,
    _exchange: Exchange,
}

/// Messages up to this size are copied, to be written together with the rest of their event.
const MAX_COPIED_BYTES: usize = 16 * 1024;

impl StreamReader {
    pub(crate) fn new(session: Arc<HttpSession>, reader: Reader) -> Self {
        let exchange = session.begin_exchange();
        Self { session, reader, _exchange: exchange }
    }

    pub(crate) fn session(&self) -> &Arc<HttpSession> {
        &self.session
    }

    pub(crate) fn reader(&self) -> Reader {
        self.reader
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let stream = self.reader.stream();
        let is_over = self.session.with_streams(|streams| {
            streams.detach(self.reader);
            streams.readability(stream) == Readability::Never || streams.is_answered(stream)
        });
        if is_over {
            // Whoever comes back for what is left of it, if anybody can, gets the responses.
            self.session.unanswered().take(stream);
        }
    }
}

impl EventBody {
    pub(crate) fn new(
        reader: StreamReader,
        keep_alive_interval: Duration,
        open_post: Option<TaskTrackerToken>,
    ) -> Self {
        let keep_alive = Box::pin(sleep(keep_alive_interval));
        Self {
            reader,
            chunks: VecDeque::new(),
            keep_alive,
            keep_alive_interval,
            expiry: None,
            _open_post: open_post,
            end: None,
        }
    }

    /// Ends the stream at this time, at which its token expires.
    pub(crate) fn end_at(mut self, expiry: Option<Instant>) -> Self {
        self.expiry = expiry.map(|expiry| Box::pin(sleep_until(expiry)));
        self
    }

    /// Begins with the name of the endpoint for messages.
    // HS-02
    pub(crate) fn begin_with_endpoint(mut self, endpoint: &str) -> Self {
        self.chunks.push_back(Bytes::from(format!("event: endpoint\ndata: {endpoint}\n\n")));
        self
    }

    /// Ends the session with the stream.
    pub(crate) fn end_session_with(mut self, end: EndSession) -> Self {
        self.end = Some(end);
        self
    }

    /// Answers these requests with an error if they are open when the listener stops.
    pub(crate) fn answer_at_stop(self, requests: &[Id]) -> Self {
        let StreamReader { session, reader, .. } = &self.reader;
        let unanswered = session.unanswered();
        if unanswered.is_full_for(requests.len()) {
            session.with_streams(|streams| unanswered.remove_ended(|stream| streams.is_answered(stream)));
        }
        unanswered.add(reader.stream(), requests);
        self
    }

    /// Begins with an event that has an id and no message, from which the host can resume before
    /// anything was said. Hosts before 2025-11-25 take such an event for a broken message.
    // HL-09
    pub(crate) fn begin_with_id(mut self) -> Self {
        let StreamReader { session, reader, .. } = &self.reader;
        if session.accepts_empty_event()
            && let Some(id) = session.with_streams(|streams| streams.begin_event(*reader))
        {
            self.chunks.push_back(Bytes::from(format!("id: {id}\ndata:\n\n")));
        }
        self
    }

    /// The next bytes of the stream. `None` at its end.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                self.keep_alive.as_mut().reset(Instant::now() + self.keep_alive_interval);
                return Poll::Ready(Some(chunk));
            }
            if self.expiry.as_mut().is_some_and(|expiry| expiry.as_mut().poll(cx).is_ready()) {
                tracing::info!("an event stream ends with the access token that it was opened with");
                return Poll::Ready(None);
            }
            let StreamReader { session, reader, .. } = &self.reader;
            let (is_attached, is_answered, next) = session.with_streams(|streams| {
                let (is_attached, is_answered) =
                    (streams.is_attached(*reader), streams.is_answered(reader.stream()));
                (is_attached, is_answered, streams.next(*reader, || cx.waker().clone()))
            });
            match next {
                NextEvent::Event { id, data } => self.push_event(id, data),
                NextEvent::End => {
                    let is_given_up = session.is_given_up();
                    // A stream with open requests ends for a reader whose log was trimmed, and may be resumed.
                    let unanswered = if is_attached && (is_answered || is_given_up) {
                        session.unanswered().take(reader.stream())
                    } else {
                        Vec::new()
                    };
                    if unanswered.is_empty() || !is_given_up {
                        return Poll::Ready(None);
                    }
                    self.push_errors(&unanswered);
                }
                NextEvent::Wait if self.keep_alive.as_mut().poll(cx).is_ready() => {
                    self.chunks.push_back(Bytes::from_static(b": \n\n"));
                }
                NextEvent::Wait => return Poll::Pending,
            }
        }
    }

    /// Answers requests with an error, without ids of events: what the next process says about the requests comes
    /// after the events before.
    fn push_errors(&mut self, unanswered: &[Id]) {
        for request in unanswered {
            let error = outgoing::response(request, Err(&given_up(Turn::Running))).body();
            let head = Bytes::from_static(b"event: message\ndata: ");
            self.chunks.extend([head, error, Bytes::from_static(b"\n\n")]);
        }
    }

    fn push_event(&mut self, id: EventId, data: Bytes) {
        let session = &self.reader.session;
        session.unanswered().note_event(id.stream, &data);
        let head = match session.kind() {
            SessionKind::Streamable | SessionKind::Sse => format!("id: {id}\nevent: message\ndata: "),
            // Nothing can be resumed there.
            SessionKind::Stateless => "event: message\ndata: ".to_owned(),
        };
        if data.len() > MAX_COPIED_BYTES {
            self.chunks.extend([head.into(), data, Bytes::from_static(b"\n\n")]);
            return;
        }
        let mut event = BytesMut::with_capacity(head.len() + data.len() + 2);
        event.put_slice(head.as_bytes());
        event.put_slice(&data);
        event.put_slice(b"\n\n");
        self.chunks.push_back(event.freeze());
    }
}

#[cfg(test)]
mod tests {
    use bowline_proto::revision::Revision;
    use bowline_proto::server::event_streams::{PostFormat, RequestEnd};

    use super::*;
    use crate::audience::Audience;
    use crate::http::sessions::Sessions;
    use crate::http::settings::HttpSettings;

    /// The body of a POST whose only request has the id 1.
    fn open_post(session: &Arc<HttpSession>) -> EventBody {
        let reader = session.with_streams(|streams| streams.open_post(1, PostFormat::Any));
        let reader = StreamReader::new(Arc::clone(session), reader);
        EventBody::new(reader, Duration::from_secs(15), None).answer_at_stop(&[Id::Int(1)])
    }

    /// What is left is who could read the error.
    #[tokio::test]
    async fn a_request_is_not_remembered_once_nobody_can_read_its_response() {
        let settings = HttpSettings::new();
        let identity = (SessionKind::Streamable, &Audience::of_view(None));
        let source = Arc::new(Sessions::new(&settings)).begin(identity, &settings, None).unwrap();
        let session = source.session();
        session.set_revision(Some(Revision::V2025_11_25));
        let unknown = open_post(session);
        let resumable = open_post(session).begin_with_id();
        let answered = open_post(session).begin_with_id();
        let [unknown, resumable, answered] = [unknown, resumable, answered].map(|body| {
            let stream = body.reader.reader().stream();
            (body, stream)
        });
        session.with_streams(|streams| streams.end_request(answered.1, RequestEnd::Canceled));
        let streams = [unknown.1, resumable.1, answered.1];
        drop([unknown.0, resumable.0, answered.0]);
        let remembered = streams.map(|stream| session.unanswered().take(stream));
        assert_eq!(remembered, [vec![], vec![Id::Int(1)], vec![]]);
    }
}
