//! The error in the body of a refusal, in whatever framing it comes.

use bytes::Bytes;

use super::{Id, Message, RpcError, parse_one};
use crate::frame::sse;

/// The first JSON-RPC error in a body: the body itself, or the data of an event in it (HT-03). With the id of the
/// request that it names, if it names one.
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
