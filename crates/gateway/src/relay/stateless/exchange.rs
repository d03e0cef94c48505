//! One exchange with the gateway: a request as the host sent it, and what is known when it ends.

use bowline::{Fault, HandlerResult, Json, Revision};
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::{Id, Message, ParseResult, parse_one};
use bowline_server::RELAYED_PIPE_HEADER;
use bowline_transport::http::{EventStream, HttpLink, ResponseBody};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// A request, ready to be sent.
pub(super) struct RequestBody(Bytes);

/// What has come of a request.
pub(super) enum Exchange {
    /// The gateway has answered.
    Answered(HandlerResult),
    /// The request has reached no server.
    NotExecuted(Fault),
    /// The connection broke, and the request may have been executed.
    Lost,
}

/// Reads the response to a request.
pub(super) enum ResponseReader {
    /// The response is complete, and was not read yet.
    Complete(Bytes),
    /// The response is an event stream.
    Stream(EventStream),
}

/// The next part of a response.
pub(super) enum Received {
    /// A notification that belongs to the request.
    Notification { method: Box<str>, params: Option<Json> },
    /// The end of the response.
    End(Exchange),
}

impl RequestBody {
    pub(super) fn new(id: &Id, method: &str, params: Option<&Json>) -> Self {
        let method = Json::encode(method).expect("a text is JSON");
        let params = params.map_or("{}", Json::as_str);
        Self(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#).into())
    }

    /// A request that the host did not send, with what one of its own says about the host.
    pub(super) fn own(method: &str, params_of_host: Option<&Json>, extra: Option<(&str, &Json)>) -> Self {
        let meta = params_of_host.and_then(|params| params.member("_meta"));
        let members = meta.iter().map(|meta| ("_meta", meta)).chain(extra);
        let edit = members.fold(Edit::new(), |edit, (name, value)| edit.set(name, value));
        let params = edit.apply(None).expect("a new object is one");
        Self::new(&Id::from_string(OWN_ID), method, Some(&params))
    }
}

/// The id of requests that the host did not send. The gateway sees each on a connection of its own.
const OWN_ID: &str = "bowline";

/// Sends a request, and waits for the beginning of the response.
///
/// `pipe` tells the gateway which host it is from. Dropping the future, or the reader, cancels the request.
pub(super) async fn send(
    link: &HttpLink,
    pipe: &HeaderValue,
    body: &RequestBody,
) -> Result<ResponseReader, Exchange> {
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static(RELAYED_PIPE_HEADER), pipe.clone());
    // A gateway that has just been started lets such requests wait until it serves them.
    let revision = HeaderValue::from_static(Revision::NEWEST_MODERN.as_str());
    headers.insert(HeaderName::from_static("mcp-protocol-version"), revision);
    let response = match link.post(body.0.clone(), &headers).await {
        Ok(response) => response,
        Err(fault) if fault.execution == bowline::Execution::NotExecuted => {
            return Err(Exchange::NotExecuted(fault));
        }
        Err(_) => return Err(Exchange::Lost),
    };
    // The gateway ends, or has no room, and has not looked at the request.
    if response.status == StatusCode::SERVICE_UNAVAILABLE.as_u16() {
        return Err(Exchange::NotExecuted(response.status_fault().not_executed()));
    }
    let fault = response.status_fault();
    match response.body {
        ResponseBody::Json(body) => Ok(ResponseReader::Complete(body)),
        ResponseBody::Events(stream) => Ok(ResponseReader::Stream(stream)),
        // Nothing was served: a gateway answers a request that it serves with a message.
        ResponseBody::Empty | ResponseBody::Other(_) => Err(Exchange::NotExecuted(fault.not_executed())),
    }
}

impl ResponseReader {
    /// Reads the next part. Nothing comes after the end.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Received {
        loop {
            let message = match self {
                Self::Complete(body) => parse_one(body),
                Self::Stream(stream) => match stream.next().await {
                    Ok(Some(event)) if event.data.is_empty() => continue,
                    Ok(Some(event)) => parse_one(&event.data),
                    Ok(None) | Err(_) => return Received::End(Exchange::Lost),
                },
            };
            match received(message) {
                Some(received) => return received,
                None if matches!(self, Self::Complete(_)) => return Received::End(Exchange::Lost),
                None => tracing::warn!("the gateway sent a message that is not part of a response"),
            }
        }
    }
}

fn received(message: ParseResult) -> Option<Received> {
    match message {
        Ok(Message::Notification { method, params }) => Some(Received::Notification { method, params }),
        Ok(Message::Result { result, .. }) => Some(Received::End(Exchange::Answered(Ok(result)))),
        Ok(Message::Error { error, .. }) => Some(Received::End(Exchange::Answered(Err(error)))),
        Ok(Message::Request { .. }) | Err(_) => None,
    }
}
