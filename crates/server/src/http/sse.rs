//! HTTP+SSE of 2024-11-05: one event stream for everything that the host is told, and a second
//! endpoint for what it says.

use std::sync::Arc;

use bowline_proto::server::event_streams::EventStreams;
use bowline_proto::server::http::{AcceptedFormats, PostRefusal, expects_response};
use bowline_proto::wire::parse_from_host;
use http::header::ACCEPT;
use http::{HeaderMap, Request, StatusCode, Uri};
use hyper::body::Incoming;

use super::end_session::EndSession;
use super::event_body::{EventBody, StreamReader};
use super::refusal::Refusal;
use super::reply::{self, Reply};
use super::request_body::read_body;
use super::session::SessionKind;
use super::site::{Site, text_of};
use super::source::InboundPost;
use crate::audience::Audience;
use crate::host::{Host, InboundMessage};

/// Begins a session with its event stream, which first names the endpoint for messages.
// HS-02
pub(crate) async fn serve_stream(
    site: &Site,
    audience: &Audience,
    headers: &HeaderMap,
) -> Result<Reply, Refusal> {
    let accepted = AcceptedFormats::parse(headers.get_all(ACCEPT).iter().map(text_of));
    if !accepted.event_stream {
        return Err(Refusal::Accept);
    }
    if site.draining.is_cancelled() {
        return Err(Refusal::Draining);
    }
    let source = site.sessions.begin((SessionKind::Sse, audience), &site.settings(), None)?;
    let session = Arc::clone(source.session());
    let end = EndSession::new(Arc::clone(&session), None);
    let reader = session.with_streams(EventStreams::open_standalone);
    let reader = StreamReader::new(Arc::clone(&session), reader);
    site.hosts.send(Host::on_http(source)).await.map_err(|_| Refusal::Draining)?;
    let settings = site.settings();
    let messages = settings.sse_paths.as_ref().map_or("", |paths| &paths.messages);
    let view = audience.view().map(|view| format!("/{view}")).unwrap_or_default();
    let endpoint = format!("{messages}{view}?{SESSION_PARAMETER}{}", session.id().as_str());
    let body = EventBody::new(reader, site.settings().keep_alive_interval, None).end_at(audience.expiry());
    Ok(reply::events(body.begin_with_endpoint(&endpoint).end_session_with(end)))
}

/// Hands the messages of a POST to the session that its URI names. Responses come on the stream.
pub(crate) async fn serve_messages(
    site: &Site,
    audience: &Audience,
    request: Request<Incoming>,
) -> Result<Reply, Refusal> {
    let (head, body) = request.into_parts();
    let id = session_parameter(&head.uri).ok_or(Refusal::UnknownSession)?;
    let id = site.sessions.verify_id(id)?;
    let session = site.sessions.find((SessionKind::Sse, audience), &id)?.ok_or(Refusal::UnknownSession)?;
    let budgets = (&site.body_budget, Some(session.body_budget()));
    let (body, memory) = read_body(body, &site.settings(), budgets).await?;
    let mut messages = Vec::new();
    parse_from_host(&body, |message| messages.push(message));
    if let [Err(malformed)] = &*messages {
        return Err(PostRefusal::Malformed(malformed.clone()).into());
    }
    let inbound = |message| {
        // The POST ends before its response comes, which a graceful stop waits for.
        let drain = expects_response(&message).then(|| site.open_posts.token());
        InboundMessage { message, post: None, drain }
    };
    let messages = messages.into_iter().map(inbound).collect();
    let is_delivered = session.deliver(InboundPost { messages, _memory: memory }).await;
    if is_delivered {
        Ok(reply::text(StatusCode::ACCEPTED, "accepted"))
    } else {
        Err(Refusal::UnknownSession)
    }
}

/// The parameter of the URI that names the session.
const SESSION_PARAMETER: &str = "session=";

fn session_parameter(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|parameter| parameter.strip_prefix(SESSION_PARAMETER))
}
