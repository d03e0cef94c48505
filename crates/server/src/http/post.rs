//! POST: messages of a host, and the responses to its requests.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bowline_proto::server::event_streams::{Event, EventKind, FirstEvents, PostFormat, RequestEnd};
use bowline_proto::server::http::{
    AcceptedFormats, PostHead, PostRefusal, PostRoute, check_initialize_version, classify_post,
    expects_response,
};
use bowline_proto::server::modern::era::names_modern_revision;
use bowline_proto::server::requests::Turn;
use bowline_proto::wire::outgoing;
use bowline_proto::wire::{Id, Message, ParseResult, parse_from_host};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Request, StatusCode};
use hyper::body::Incoming;
use tokio::time::timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::event_body::{EventBody, StreamReader};
use super::post_record::PostRecord;
use super::refusal::Refusal;
use super::reply::{self, PROTOCOL_VERSION, Reply, SESSION_ID};
use super::request_body::{BodyMemory, read_body};
use super::session::{HttpSession, SessionKind};
use super::settings::HttpSettings;
use super::site::{Site, text_of};
use super::source::InboundPost;
use super::stateless::serve_stateless;
use super::ticket::PostTicket;
use crate::audience::Audience;
use crate::given_up::given_up;
use crate::host::{Host, InboundMessage};

/// A POST whose body was read.
pub(crate) struct Post {
    pub(crate) messages: Vec<ParseResult>,
    body: Bytes,
    /// Whether its messages came in an array, as must the responses if they are JSON.
    is_batch: bool,
    pub(crate) accepted: AcceptedFormats,
    pub(crate) memory: BodyMemory,
    /// How long its response may be silent.
    pub(crate) keep_alive_interval: Duration,
    /// Held until it has its response, which a graceful stop waits for.
    pub(crate) token: TaskTrackerToken,
}

/// Hands the messages of a POST to their session, or begins one, and responds.
pub(crate) async fn serve_post(
    site: Arc<Site>,
    settings: &HttpSettings,
    audience: Audience,
    request: Request<Incoming>,
) -> Result<Reply, Refusal> {
    let token = site.open_posts.token();
    let (head, body) = request.into_parts();
    let headers = head.headers;
    let accepted = check_formats(&headers)?;
    let version = headers.get(PROTOCOL_VERSION).map(text_of);
    if names_modern_revision(version) {
        // The host would take a refusal for that of a server with sessions.
        let _ = timeout(settings.body_timeout, site.started.cancelled()).await;
    }
    let serves_modern = site.stateless.lock().is_some();
    // A request for no session costs no memory. A modern host may name any session in vain.
    let names_session =
        headers.contains_key(SESSION_ID) && !(serves_modern && names_modern_revision(version));
    let session = if names_session { Some(site.find_session(&audience, &headers).await?) } else { None };
    let _exchange = session.as_ref().map(HttpSession::begin_exchange);
    let budgets = (&site.body_budget, session.as_ref().map(|session| session.body_budget()));
    let (body, memory) = read_body(body, settings, budgets).await?;
    let is_batch = body.trim_ascii_start().starts_with(b"[");
    let mut messages = Vec::new();
    parse_from_host(&body, |message| messages.push(message));
    let route = classify_post(&messages, PostHead { names_session, version, is_batch, serves_modern })?;
    let keep_alive_interval = settings.keep_alive_interval;
    let post = Post { messages, body, is_batch, accepted, memory, keep_alive_interval, token };
    match (route, session) {
        (PostRoute::InSession, Some(session)) => Ok(serve_messages(session, post).await),
        (PostRoute::BeginSession, ..) => begin_session(&site, &audience, &headers, post).await,
        (PostRoute::Stateless, _) => {
            let requests = site.stateless.lock().clone().ok_or(PostRefusal::MissingSession)?;
            serve_stateless(&site, &requests, (headers, audience), post).await
        }
        (PostRoute::InSession, None) => Err(PostRefusal::MissingSession.into()),
    }
}

/// Begins a session with the messages of a POST, which are its `initialize`.
async fn begin_session(
    site: &Site,
    audience: &Audience,
    headers: &HeaderMap,
    post: Post,
) -> Result<Reply, Refusal> {
    check_initialize_version(headers.get(PROTOCOL_VERSION).map(text_of))?;
    if site.draining.is_cancelled() {
        return Err(Refusal::Draining);
    }
    let identity = (SessionKind::Streamable, audience);
    let source = site.sessions.begin(identity, &site.settings(), site.journal.as_ref());
    // Hosts read an error of a request in a response of status 200, whatever they do with others.
    let source = source.map_err(|refusal| refusal.of_request(post.messages.iter().find_map(answered_id)))?;
    let session = Arc::clone(source.session());
    let mut end = EndOnDrop { session: &session, is_armed: true };
    let exchange = session.begin_exchange();
    let (reply, accepted) =
        tokio::join!(serve_messages(Arc::clone(&session), post), site.hosts.send(Host::on_http(source)),);
    drop(exchange);
    if accepted.is_err() {
        return Err(Refusal::Draining);
    }
    let mut reply = reply;
    let is_stream = matches!(reply.body(), reply::ReplyBody::Events(_));
    if is_stream || session.is_initialized() {
        end.is_armed = false;
        let id = HeaderValue::from_str(session.id().as_str()).expect("an id is visible ASCII");
        reply.headers_mut().insert(SESSION_ID, id);
    }
    Ok(reply)
}

/// Ends a session whose id its host has not got when it is dropped while armed: its `initialize`
/// was refused, or the connection broke.
struct EndOnDrop<'a> {
    session: &'a HttpSession,
    is_armed: bool,
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.session.end_for_good();
        }
    }
}

/// Hands messages to their session and waits for the first thing to say about them.
async fn serve_messages(session: Arc<HttpSession>, post: Post) -> Reply {
    let Post { messages, body, is_batch, accepted, memory, keep_alive_interval, token } = post;
    let ids: Vec<Id> = messages.iter().filter_map(answered_id).collect();
    if ids.is_empty() {
        let messages = messages.into_iter().map(|message| InboundMessage::new(message, None)).collect();
        let is_delivered = session.deliver(InboundPost { messages, _memory: memory }).await;
        // HT-03
        return if is_delivered {
            reply::empty(StatusCode::ACCEPTED)
        } else {
            Refusal::UnknownSession.into()
        };
    }
    let format = if accepted.event_stream { PostFormat::Any } else { PostFormat::JsonOnly };
    let reader = session.with_streams(|streams| streams.open_post(ids.len(), format));
    let reader = StreamReader::new(Arc::clone(&session), reader);
    let stream = reader.reader().stream();
    let record = session.journal().map(|_| Arc::new(PostRecord::new(stream, body, ids.len())));
    let ticket = |message: &ParseResult| {
        expects_response(message).then(|| PostTicket::new(Arc::clone(&session), stream, record.clone()))
    };
    let messages = messages.into_iter().map(|message| (ticket(&message), message));
    let messages = messages.map(|(post, message)| InboundMessage::new(message, post)).collect();
    if !session.deliver(InboundPost { messages, _memory: memory }).await {
        return Refusal::UnknownSession.into();
    }
    match wait_for_first(&reader, accepted, keep_alive_interval).await {
        FirstEvents::Responses(events) => respond_with_json(&events, is_batch),
        FirstEvents::PartialResponses(events) => respond_partly(&events, &ids),
        FirstEvents::Ended(RequestEnd::Canceled) => reply::empty(StatusCode::ACCEPTED),
        // The process that relays it retries it if that is harmless, after a stream that ends without a response.
        FirstEvents::Ended(RequestEnd::Dropped) if session.is_left_to_relays() && accepted.event_stream => {
            reply::events(EventBody::new(reader, keep_alive_interval, Some(token)))
        }
        FirstEvents::Ended(RequestEnd::Dropped) => respond_dropped(&ids, is_batch),
        FirstEvents::Stream | FirstEvents::Wait => {
            let body = EventBody::new(reader, keep_alive_interval, Some(token));
            reply::events(body.begin_with_id().answer_at_stop(&ids))
        }
    }
}

/// Waits for what the response to a POST begins with.
pub(crate) async fn wait_for_first(
    reader: &StreamReader,
    accepted: AcceptedFormats,
    keep_alive_interval: Duration,
) -> FirstEvents {
    match (accepted.json, accepted.event_stream) {
        (false, _) => FirstEvents::Stream,
        (true, false) => first_events(reader).await,
        // A long silence ends too: proxies and hosts give up on a response that does not even begin.
        (true, true) => {
            timeout(keep_alive_interval, first_events(reader)).await.unwrap_or(FirstEvents::Stream)
        }
    }
}

async fn first_events(reader: &StreamReader) -> FirstEvents {
    poll_fn(|cx| {
        let first =
            reader.session().with_streams(|streams| streams.first(reader.reader(), || cx.waker().clone()));
        match first {
            FirstEvents::Wait => Poll::Pending,
            first => Poll::Ready(first),
        }
    })
    .await
}

/// The id of a message that is answered.
fn answered_id(message: &ParseResult) -> Option<Id> {
    match message {
        Ok(Message::Request { id, .. }) => Some(id.clone()),
        Ok(_) => None,
        Err(malformed) => malformed.id.clone(),
    }
}

fn respond_with_json(events: &[Event], is_batch: bool) -> Reply {
    match events {
        [event] if !is_batch => {
            let is_refused = event.kind == EventKind::Refusal;
            let status = if is_refused { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            reply::json(status, event.data.clone())
        }
        events => reply::json(StatusCode::OK, array_of(events.iter().map(|event| &event.data))),
    }
}

/// The response to a batch of which some requests were dropped by whoever served them.
fn respond_partly(events: &[Event], ids: &[Id]) -> Reply {
    let mut dropped: Vec<&Id> = ids.iter().collect();
    for event in events {
        let answered = outgoing::response_id(&event.data, event.data.len());
        if let Some(at) = dropped.iter().position(|id| Some(*id) == answered.as_ref()) {
            dropped.remove(at);
        }
    }
    let error = given_up(Turn::Running);
    let errors: Vec<Bytes> =
        dropped.into_iter().map(|id| outgoing::response(id, Err(&error)).body()).collect();
    reply::json(StatusCode::OK, array_of(events.iter().map(|event| &event.data).chain(&errors)))
}

/// The response to requests that whoever served them has dropped.
fn respond_dropped(ids: &[Id], is_batch: bool) -> Reply {
    let error = given_up(Turn::Running);
    match ids {
        [id] if !is_batch => reply::error(StatusCode::OK, Some(id), &error),
        ids => {
            let errors: Vec<Bytes> =
                ids.iter().map(|id| outgoing::response(id, Err(&error)).body()).collect();
            reply::json(StatusCode::OK, array_of(errors.iter()))
        }
    }
}

fn array_of<'a>(messages: impl Iterator<Item = &'a Bytes>) -> Bytes {
    let mut array = BytesMut::from(&b"["[..]);
    for (index, message) in messages.enumerate() {
        if index > 0 {
            array.put_u8(b',');
        }
        array.put_slice(message);
    }
    array.put_u8(b']');
    array.freeze()
}

fn check_formats(headers: &HeaderMap) -> Result<AcceptedFormats, Refusal> {
    let content_type = headers.get(CONTENT_TYPE).map(text_of);
    let media = content_type.map(|value| value.split(';').next().unwrap_or_default().trim());
    if media.is_some_and(|media| !media.eq_ignore_ascii_case("application/json")) {
        return Err(Refusal::ContentType);
    }
    let accepted = AcceptedFormats::parse(headers.get_all(ACCEPT).iter().map(text_of));
    if accepted.json || accepted.event_stream { Ok(accepted) } else { Err(Refusal::Accept) }
}
