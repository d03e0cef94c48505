//! The HTTP+SSE transport of 2024-11-05: requests are posted, and all responses arrive on one
//! stream (group HS).
//!
//! The stream is the session. When it ends, the server has lost the session: requests in flight
//! have an unknown outcome, and a new stream begins with a new endpoint and a new handshake.

use std::sync::Arc;

use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::{Attempt, Event};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::wire;
use bowline_transport::http::{EventStream, HttpLink, ResponseBody, open_sse};
use bytes::Bytes;
use http::HeaderMap;

use super::OpenLink;
use super::exchange::{is_message, is_too_large, refusal_reply};
use super::wire::Wire;
use crate::connection::Connection;

/// Opens the stream and waits for its endpoint event.
pub(crate) async fn open(
    connection: &Arc<Connection>,
    attempt: Attempt,
    link: &HttpLink,
) -> Result<OpenLink, Fault> {
    let opened = open_sse(link, &HeaderMap::new()).await?;
    let wire = Wire::EventStream { post: opened.post, headers: Arc::default() };
    let task = tokio::spawn(read(Arc::clone(connection), attempt, wire.clone(), opened.events));
    let mut link = OpenLink::new(wire);
    link.tasks.push(task.abort_handle());
    Ok(link)
}

/// Posts one message. `Some` means that it was refused or not delivered. Its response arrives on
/// the stream, except from a few servers that put it into the POST response.
pub(crate) async fn post(
    connection: &Arc<Connection>,
    wire: &Wire,
    id: u64,
    post: &HttpLink,
    body: Bytes,
    headers: &HeaderMap,
) -> Option<Reply> {
    match post.post(body, headers).await {
        Ok(answer) if !(200..300).contains(&answer.status) => Some(refusal_reply(&answer, id)),
        Ok(answer) => {
            if let ResponseBody::Json(body) = &answer.body {
                wire::parse(body, |parsed| {
                    // Bodies such as "Accepted" are not messages.
                    if parsed.is_ok() {
                        connection.handle_message(wire, None, parsed);
                    }
                });
            }
            None
        }
        Err(fault) => Some(Reply::Fault(fault)),
    }
}

async fn read(connection: Arc<Connection>, attempt: Attempt, wire: Wire, mut events: EventStream) {
    let fault = loop {
        match events.next().await {
            // A second endpoint event starts a new session without our state.
            Ok(Some(event)) if event.name.as_deref() == Some("endpoint") => {
                break Fault::new(Cause::Cut).with_note("the server began a new session on the same stream");
            }
            Ok(Some(event)) => {
                if is_message(&event) {
                    wire::parse(&event.data, |parsed| connection.handle_message(&wire, None, parsed));
                }
            }
            Err(fault) if is_too_large(&fault) => {
                tracing::warn!(server = %connection.server.name, %fault, "a message was dropped");
            }
            Ok(None) => break Fault::new(Cause::Cut).with_note("the server ended its event stream"),
            Err(fault) => break fault,
        }
    };
    connection.engine.report_link_event(attempt, Event::LinkLost(fault));
}
