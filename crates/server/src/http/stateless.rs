//! POST of a host of 2026-07-28: one message without a session.

use std::sync::Arc;

use bowline_proto::server::event_streams::{FirstEvents, PostFormat};
use bowline_proto::server::http::PostRefusal;
use bowline_proto::server::modern::headers::check_version_header;
use bowline_proto::server::modern::request::ModernRequest;
use bowline_proto::server::modern::{self, SERVED_REVISIONS};
use bowline_proto::server::requests::Turn;
use bowline_proto::wire::{Id, Json, Message, RpcError, code, method};
use http::{HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::end_session::EndSession;
use super::event_body::{EventBody, StreamReader};
use super::post::{Post, wait_for_first};
use super::refusal::Refusal;
use super::reply::{self, Reply};
use super::site::{Site, text_of};
use super::ticket::PostTicket;
use crate::audience::Audience;
use crate::given_up::given_up;
use crate::link::HostLink;
use crate::open_request::OpenRequest;
use crate::stateless::{RequestOrigin, StatelessRequest, check};

/// The header of a request that a process relays for a host on a pipe. Its value is an id of the pipe, which nobody
/// else knows; see
/// [`HttpSettings::with_relayed_pipes`](crate::HttpSettings::with_relayed_pipes).
pub const RELAYED_PIPE_HEADER: &str = "bowline-relayed-pipe";

/// Validates a message and hands it to whoever takes such requests, and responds.
// GW-01, GW-02, GW-03, GW-10
pub(crate) async fn serve_stateless(
    site: &Site,
    requests: &mpsc::Sender<StatelessRequest>,
    (headers, audience): (HeaderMap, Audience),
    post: Post,
) -> Result<Reply, Refusal> {
    let Post { mut messages, accepted, memory, keep_alive_interval, token, .. } = post;
    let (id, method, params) = match messages.pop() {
        Some(Ok(Message::Request { id, method, params })) => (id, method, params),
        // HT-03: a request is canceled by closing its connection, so no notification has an effect.
        Some(Ok(Message::Notification { .. })) => return Ok(reply::empty(StatusCode::ACCEPTED)),
        _ => return Err(PostRefusal::MissingSession.into()),
    };
    let audience = audience.with_via_of(params.as_ref());
    let pipe = headers.get(RELAYED_PIPE_HEADER).filter(|_| site.settings().relays_pipes).map(text_of);
    let (origin, audience) = match pipe {
        Some(pipe) => (RequestOrigin::RelayedPipe, audience.with_pipe(pipe)),
        None => (RequestOrigin::Http(headers), audience),
    };
    let client = check_request(&origin, &method, params.as_ref())
        .map_err(|refusal| Refusal::Stateless(id.clone(), refusal))?;
    // A subscription is nothing but events.
    if *method == *method::LISTEN && !accepted.event_stream {
        return Err(Refusal::Accept);
    }
    // A call is answered whatever becomes of its token; a subscription would go on forever.
    let expiry = audience.expiry().filter(|_| *method == *method::LISTEN);
    let permit = admit(site, &id)?;
    let name = client.client_info.as_ref().map_or("", Json::as_str);
    let slot = site.sessions.admission().stateless_host(&audience, name).admit();
    let slot = slot.map_err(|error| Refusal::Limit(Some(id.clone()), error))?;
    let session = site.sessions.begin_stateless(audience.clone(), &site.settings());
    // GW-09: however this ends, the request ends with it.
    let end = EndSession::new(Arc::clone(&session), Some(permit)).with_slot(slot);
    let link = HostLink::on_http(&session);
    let format = if accepted.event_stream { PostFormat::Any } else { PostFormat::JsonOnly };
    let reader = session.with_streams(|streams| streams.open_post(1, format));
    let reader = StreamReader::new(Arc::clone(&session), reader);
    let ticket = PostTicket::new(Arc::clone(&session), reader.reader().stream(), None);
    let key = link.with_session(|session| session.open_stateless_request(&id));
    let key = key.expect("it is the first request of its session");
    let request = OpenRequest::new(link, key, id.clone(), Some(ticket));
    let id_of_request = id.clone();
    let request =
        StatelessRequest { request, id: id_of_request, method, params, client, memory, audience, origin };
    if requests.send(request).await.is_err() {
        return Err(unavailable(&id, "no more requests are accepted"));
    }
    Ok(match wait_for_first(&reader, accepted, keep_alive_interval).await {
        FirstEvents::Responses(events) => match &*events {
            [event] => reply::json(session.status(), event.data.clone()),
            _ => reply::error(StatusCode::OK, Some(&id), &given_up(Turn::Running)),
        },
        // The process that relays it retries it if that is harmless, after a stream that ends without a response.
        FirstEvents::Ended(_) if session.is_left_to_relays() && accepted.event_stream => {
            reply::events(EventBody::new(reader, keep_alive_interval, Some(token)))
        }
        FirstEvents::Ended(_) | FirstEvents::PartialResponses(_) => {
            reply::error(StatusCode::OK, Some(&id), &given_up(Turn::Running))
        }
        FirstEvents::Stream | FirstEvents::Wait => {
            let body = EventBody::new(reader, keep_alive_interval, Some(token));
            reply::events(body.end_session_with(end).end_at(expiry).answer_at_stop(&[id]))
        }
    })
}

/// Checks what a request says about itself, and that its headers repeat it.
// GW-01, GW-02, GW-03
fn check_request(
    origin: &RequestOrigin,
    method: &str,
    params: Option<&Json>,
) -> Result<ModernRequest, modern::Refusal> {
    let RequestOrigin::Http(headers) = origin else {
        return ModernRequest::parse(params, &SERVED_REVISIONS);
    };
    let values = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    check_version_header(values, params).map_err(|mismatch| mismatch.refusal())?;
    let client = ModernRequest::parse(params, &SERVED_REVISIONS)?;
    check(headers, &client, (method, params), None)?;
    Ok(client)
}

/// Makes room for a request, if there is some.
fn admit(site: &Site, id: &Id) -> Result<OwnedSemaphorePermit, Refusal> {
    if site.draining.is_cancelled() {
        return Err(unavailable(id, "no more requests are accepted"));
    }
    let permit = Arc::clone(&site.stateless_permits).try_acquire_owned();
    permit.map_err(|_| unavailable(id, "there are too many requests"))
}

fn unavailable(id: &Id, message: &str) -> Refusal {
    let error = RpcError::new(code::INTERNAL_ERROR, message);
    let status = StatusCode::SERVICE_UNAVAILABLE.as_u16();
    Refusal::Stateless(id.clone(), modern::Refusal { status, error })
}
