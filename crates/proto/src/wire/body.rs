//! [`find_error`]: finds the JSON-RPC error in the body of a refusal, in whatever framing it comes.

use bytes::Bytes;

use super::{Id, Message, RpcError, parse_one};
use crate::frame::sse;

/// Finds the first JSON-RPC error in a body, which is the error itself or an event stream with it.
/// Returns it with the id of the request that it names, if it names one.
// HT-03
pub fn find_error(body: &Bytes) -> Option<(Option<Id>, RpcError)> {
    let as_error = |frame: &Bytes| match parse_one(frame) {
        Ok(Message::Error { id, error }) => Some((id, error)),
        _ => None,
    };
    as_error(body).or_else(|| {
        let mut decoder = sse::Decoder::new();
        decoder.push(body.clone());
        // A body may lack the blank line that ends an event.
        decoder.push(Bytes::from_static(b"\n\n"));
        while let Some(Ok(event)) = decoder.next() {
            if let Some(error) = as_error(&event.data) {
                return Some(error);
            }
        }
        None
    })
}
