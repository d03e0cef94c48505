//! One HTTP exchange: posts a request and finds its response in whatever comes back.
//!
//! A legacy stream that ends before the response is resumed by GET from the last event id (HL-07 to
//! HL-09). A modern one cannot be resumed (HM-13).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_proto::client::negotiation::Reply;
use bowline_proto::fault::{Cause, Fault, Misbehavior};
use bowline_proto::frame::sse;
use bowline_proto::revision::Era;
use bowline_proto::wire::{self, Message, ParseResult};
use bowline_transport::http::{EventStream, HttpLink, HttpResponse, ResponseBody};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::headers::{LAST_EVENT_ID, SESSION_ID};
use super::resume::{ResumeState, is_temporary, retry_after};
use super::wire::Wire;
use crate::clock;
use crate::connection::Connection;
use crate::connection::login::{LoginMode, auth_refusal};

/// The parameters of one exchange.
pub(crate) struct Exchange<'a> {
    pub(crate) connection: &'a Arc<Connection>,
    pub(crate) link: &'a HttpLink,
    /// Where responses to server requests on this stream are sent.
    pub(crate) wire: &'a Wire,
    pub(crate) id: u64,
    pub(crate) era: Era,
    /// How long a broken stream is resumed without any progress. `None`: as long as the call may take.
    pub(crate) resume_wait: Option<Duration>,
}

impl Exchange<'_> {
    /// Posts `body` and waits for the response to it.
    pub(crate) async fn run(self, body: Bytes, headers: &HeaderMap) -> Reply {
        match self.link.post(body, headers).await {
            Ok(answer) => self.read_response(answer, headers).await,
            Err(fault) => Reply::Fault(fault),
        }
    }

    /// Posts a `subscriptions/listen` request. `opened` is set once the server answers with a
    /// stream, before the first event.
    pub(crate) async fn run_subscription(
        self,
        body: Bytes,
        headers: &HeaderMap,
        opened: &AtomicBool,
    ) -> Reply {
        match self.link.post(body, headers).await {
            Ok(answer) => {
                opened.store(matches!(answer.body, ResponseBody::Events(_)), Ordering::Relaxed);
                self.read_response(answer, headers).await
            }
            Err(fault) => Reply::Fault(fault),
        }
    }

    /// Posts `initialize`. The session id in the response headers is stored at once, since the
    /// server may send a request before its response (HL-02, PG-01).
    pub(crate) async fn run_initialize(
        self,
        body: Bytes,
        headers: &HeaderMap,
        session: &Mutex<Option<HeaderValue>>,
    ) -> Reply {
        let answer = match self.link.post(body, headers).await {
            Ok(answer) => answer,
            Err(fault) => return Reply::Fault(fault),
        };
        let mut known = HeaderMap::new();
        if let Some(id) = answer.headers.get(SESSION_ID) {
            let mut id = id.clone();
            id.set_sensitive(true);
            known.insert(SESSION_ID, id.clone());
            *session.lock() = Some(id);
        }
        let wire = Wire::Http { link: self.link.clone(), headers: Arc::new(known.clone()) };
        Exchange { wire: &wire, ..self }.read_response(answer, &known).await
    }

    async fn read_response(&self, answer: HttpResponse, headers: &HeaderMap) -> Reply {
        if !(200..300).contains(&answer.status) {
            return refusal_reply(&answer, self.id);
        }
        match answer.body {
            ResponseBody::Empty => Reply::Accepted,
            // A malformed body can only be the response to this request.
            ResponseBody::Json(body) => match self.find_reply(&body, MalformedOwner::ThisRequest).0 {
                // A body that is not a message may still explain the failure.
                Some(Reply::Fault(fault)) => Reply::Fault(fault.with_body(&body)),
                Some(reply) => reply,
                None => Reply::Fault(Fault::protocol(Misbehavior::NoAnswer).with_body(&body)),
            },
            ResponseBody::Events(events) => self.read_stream(events, headers).await,
            ResponseBody::Other(head) => {
                Reply::Fault(Fault::protocol(Misbehavior::ContentType).with_body(&head))
            }
        }
    }

    /// Reads a stream until the response arrives, and resumes the stream where possible.
    async fn read_stream(&self, mut events: EventStream, headers: &HeaderMap) -> Reply {
        let mut resume = ResumeState::default();
        let mut words = Bytes::new();
        loop {
            let ended = loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        resume.record_event(&event);
                        if !is_message(&event) {
                            continue;
                        }
                        let (reply, strange) = self.find_reply(&event.data, MalformedOwner::Unknown);
                        if let Some(reply) = reply {
                            events.release();
                            return reply;
                        }
                        if strange {
                            words = event.data;
                        }
                    }
                    // A malformed message may explain the missing response.
                    Ok(None) => break Fault::protocol(Misbehavior::NoAnswer).with_body(&words),
                    // The oversized message was most likely the response, and would be too large
                    // again.
                    Err(fault) if is_too_large(&fault) => return Reply::Fault(fault),
                    Err(fault) => break fault,
                }
            };
            resume.record_break(clock::now(), self.resume_wait);
            // Rare and large: boxed to keep it out of the future of every call.
            events = match Box::pin(self.resume_stream(&mut resume, headers, ended)).await {
                Ok(events) => events,
                Err(fault) => return Reply::Fault(fault),
            };
            resume.record_open(clock::now());
            self.connection.engine.record_message(self.id);
        }
    }

    /// Resumes a stream after its last event. Fails with `ended` if that is not possible.
    async fn resume_stream(
        &self,
        resume: &mut ResumeState,
        headers: &HeaderMap,
        ended: Fault,
    ) -> Result<EventStream, Fault> {
        if self.era == Era::Modern {
            return Err(ended);
        }
        let mut asked_wait = Duration::ZERO;
        loop {
            // Without event ids there is nothing to resume from. The call's deadline limits the
            // attempts as well.
            let Some(last) = resume.last_id.clone() else { return Err(ended) };
            let delay = resume.next_delay().max(asked_wait);
            let left = self.resume_wait.map_or(delay, |wait| resume.time_left(clock::now(), wait));
            if left.is_zero() {
                return Err(ended);
            }
            sleep(delay.min(left)).await;
            let mut headers = headers.clone();
            headers.insert(LAST_EVENT_ID, last);
            let generation = self.connection.login.credentials_generation();
            match self.link.get(&headers).await {
                Ok(HttpResponse { status: 200..300, body: ResponseBody::Events(events), .. }) => {
                    return Ok(events);
                }
                Ok(answer) if auth_refusal(&answer).is_some() => {
                    let Some(refused) = auth_refusal(&answer) else { return Err(ended) };
                    let entered = self
                        .connection
                        .login
                        .reauthenticate(&refused, generation, "GET", LoginMode::Silent)
                        .await;
                    if entered.is_err() {
                        return Err(ended);
                    }
                }
                // The server is busy, or has not noticed yet that the stream was cut.
                Ok(answer) if is_temporary(answer.status) => asked_wait = retry_after(&answer),
                // The server is reachable and refuses.
                Ok(HttpResponse { status: 400..500, .. }) => return Err(ended),
                Ok(_) | Err(_) => asked_wait = Duration::ZERO,
            }
        }
    }

    /// Finds the reply to this request in a message or batch. The flag says whether part of it was
    /// malformed. Other messages are dispatched.
    fn find_reply(&self, frame: &Bytes, malformed_owner: MalformedOwner) -> (Option<Reply>, bool) {
        let (mut found, mut strange) = (None, false);
        wire::parse(frame, |parsed| {
            strange |= parsed.is_err();
            if self.is_reply(&parsed, malformed_owner) {
                found = Some(into_reply(parsed));
            } else {
                if matches!(parsed, Ok(Message::Notification { .. } | Message::Request { .. })) {
                    self.connection.engine.record_message(self.id);
                }
                self.connection.handle_message(self.wire, Some(self.id), parsed);
            }
        });
        (found, strange)
    }

    /// Whether a message is the reply to this request. An error without an id can only be about the
    /// request of this exchange.
    fn is_reply(&self, parsed: &ParseResult, malformed_owner: MalformedOwner) -> bool {
        match parsed {
            Ok(Message::Result { id, .. } | Message::Error { id: Some(id), .. }) => {
                id.as_request_number() == Some(self.id)
            }
            Ok(Message::Error { id: None, .. }) => true,
            Ok(Message::Notification { .. } | Message::Request { .. }) => false,
            Err(malformed) => match &malformed.id {
                Some(id) => id.as_request_number() == Some(self.id),
                None => malformed_owner == MalformedOwner::ThisRequest,
            },
        }
    }
}

/// Which request a malformed message without an id is attributed to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MalformedOwner {
    /// The request of this exchange: nothing else can be meant.
    ThisRequest,
    /// None: other messages may follow on the stream.
    Unknown,
}

/// Whether an event is a protocol message. Servers use other event names to keep a stream alive.
pub(crate) fn is_message(event: &sse::Event) -> bool {
    !event.data.is_empty() && event.name.as_deref().is_none_or(|name| name == "message")
}

pub(crate) fn is_too_large(fault: &Fault) -> bool {
    matches!(fault.cause, Cause::Protocol(Misbehavior::TooLarge { .. }))
}

fn into_reply(parsed: ParseResult) -> Reply {
    match parsed {
        Ok(Message::Result { result, .. }) => Reply::Result(result),
        Ok(Message::Error { id, error }) => Reply::Error { status: None, error, stray: id.is_none() },
        Ok(Message::Notification { .. } | Message::Request { .. }) => Reply::Accepted,
        Err(malformed) => Reply::Fault(Fault::protocol(Misbehavior::Malformed(malformed.defect))),
    }
}

/// The reply in a response without a success status: a JSON-RPC error if the body has one in any
/// framing (HT-03), otherwise the fault of the status. Whether the error names the request `id`
/// matters as evidence: a server that answers by id has looked at the request.
pub(crate) fn refusal_reply(answer: &HttpResponse, id: u64) -> Reply {
    let fault = answer.status_fault();
    let is_login = matches!(fault.cause, Cause::LoginRequired { .. });
    if let ResponseBody::Json(body) | ResponseBody::Other(body) = &answer.body
        && !is_login
        && let Some((named, error)) = wire::find_error(body)
    {
        let stray = named.and_then(|named| named.as_request_number()) != Some(id);
        return Reply::Error { status: Some(answer.status), error, stray };
    }
    Reply::Fault(fault)
}
