//! [`Reply`]: the responses of the listener, and their bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bowline_proto::wire::outgoing::{self, Frame};
use bowline_proto::wire::{Id, RpcError};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Body, SizeHint};

use super::event_body::EventBody;

/// A response.
pub(crate) type Reply = Response<ReplyBody>;

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// All at once, or nothing.
    Full(Option<Bytes>),
    /// An event stream.
    Events(Box<EventBody>),
}

/// The name of the header for the session id.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The name of the header for the agreed revision.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::Full(None));
    *reply.status_mut() = status;
    reply
}

/// A response for people and probes.
pub(crate) fn text(status: StatusCode, text: &'static str) -> Reply {
    with_body(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

/// A response with a message.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Reply {
    with_body(status, "application/json", body)
}

/// An error for a request with this id, if it is known.
pub(crate) fn error(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Reply {
    let frame: Frame = match id {
        Some(id) => outgoing::response(id, Err(error)),
        None => outgoing::error_without_id(error),
    };
    json(status, frame.body())
}

/// An event stream.
pub(crate) fn events(body: EventBody) -> Reply {
    let mut reply = Response::new(ReplyBody::Events(Box::new(body)));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Proxies must not collect events before they pass them on.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    reply
}

fn with_body(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(ReplyBody::Full(Some(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(http_body::Frame::data(bytes)))),
            Self::Events(events) => {
                events.poll_chunk(cx).map(|chunk| chunk.map(|chunk| Ok(http_body::Frame::data(chunk))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
