//! [`SentRequests`]: requests to a host that it has not answered yet. Their ids and progress tokens
//! are ours, so that those of others and those of the host cannot collide.
//!
//! The table keeps a `T` for whoever waits for a response, and returns it once.

use std::fmt;

use std::collections::HashMap;

use crate::wire::object::Edit;
use crate::wire::outgoing::{self, Frame, ProgressMode, RequestMeta};
use crate::wire::{Id, Json, meta, method};

/// The requests that wait for the response of a host.
#[derive(Debug)]
pub struct SentRequests<T> {
    next_id: u64,
    pending: HashMap<u64, PendingRequest<T>>,
    /// Set when the host will not respond any more.
    is_closed: bool,
}

/// Why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The host will not respond any more.
    Closed,
    /// The params are of the wrong shape.
    InvalidParams,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the host has left",
            Self::InvalidParams => "params and their _meta must be objects",
        })
    }
}

impl std::error::Error for SendError {}

#[derive(Debug)]
struct PendingRequest<T> {
    waiter: T,
    /// The progress token that the params had.
    progress_token: Option<Json>,
}

impl<T> Default for SentRequests<T> {
    fn default() -> Self {
        Self { next_id: 0, pending: HashMap::new(), is_closed: false }
    }
}

impl<T> SentRequests<T> {
    /// Adds a request. Returns its id and the frame to send. A progress token in `params` is
    /// replaced by the id.
    pub fn begin(&mut self, method: &str, params: &Json, waiter: T) -> Result<(u64, Frame), SendError> {
        if self.is_closed {
            return Err(SendError::Closed);
        }
        let progress_token = params.member("_meta").and_then(|meta| meta.member(meta::PROGRESS_TOKEN));
        // The progress token of a request is its id, in either direction.
        let progress = if progress_token.is_some() { ProgressMode::Wanted } else { ProgressMode::Unwanted };
        let id = self.next_id;
        let frame = outgoing::request(id, method, Some(params), &RequestMeta::none(), progress)
            .map_err(|_| SendError::InvalidParams)?;
        self.next_id += 1;
        self.pending.insert(id, PendingRequest { waiter, progress_token });
        Ok((id, frame))
    }

    /// Ends a request that the host has answered. `None` if nobody waits for it.
    pub fn end(&mut self, id: Option<&Id>) -> Option<T> {
        self.pending.remove(&id?.as_request_number()?).map(|request| request.waiter)
    }

    /// Ends a request that the host cannot have received. `None` if nobody waits for it.
    pub fn take(&mut self, id: u64) -> Option<T> {
        self.pending.remove(&id).map(|request| request.waiter)
    }

    /// Ends a request that nobody waits for any more. Returns the cancellation to send, unless it
    /// has ended before.
    pub fn cancel(&mut self, id: u64) -> Option<Frame> {
        self.pending.remove(&id)?;
        let params = Edit::new().set_int("requestId", id).apply(None).ok();
        Some(outgoing::notification(method::CANCELLED, params.as_ref()))
    }

    /// Replaces our progress token in progress of the host by the one that the request had. `None`
    /// if the request has ended, or had none.
    pub fn translate_progress(&self, params: &Json) -> Option<Json> {
        let id: u64 = params.member(meta::PROGRESS_TOKEN)?.decode().ok()?;
        let token = self.pending.get(&id)?.progress_token.as_ref()?;
        Edit::new().set(meta::PROGRESS_TOKEN, token).apply(Some(params)).ok()
    }

    /// Drops all waiters and accepts no more.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn text(frame: &Frame) -> String {
        String::from_utf8(frame.body().to_vec()).unwrap()
    }

    #[test]
    fn responses_reach_their_waiter_once() {
        let mut sent = SentRequests::default();
        let (first, frame) = sent.begin("roots/list", &json("{}"), 'a').unwrap();
        assert_eq!(text(&frame), r#"{"jsonrpc":"2.0","id":0,"method":"roots/list","params":{}}"#);
        let (second, _) = sent.begin("roots/list", &json("{}"), 'b').unwrap();
        assert_eq!((first, second), (0, 1));
        assert_eq!(sent.end(Some(&Id::from_string("1"))), Some('b'));
        assert_eq!(sent.end(Some(&Id::Int(1))), None);
        assert_eq!(sent.end(None), None);
        assert_eq!(sent.end(Some(&Id::Int(0))), Some('a'));
        let (third, _) = sent.begin("roots/list", &json("{}"), 'c').unwrap();
        assert_eq!((sent.take(third), sent.take(third)), (Some('c'), None));
    }

    #[test]
    fn canceled_requests_are_announced_once() {
        let mut sent = SentRequests::default();
        let (id, _) = sent.begin("roots/list", &json("{}"), ()).unwrap();
        let frame = sent.cancel(id).unwrap();
        assert_eq!(
            text(&frame),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#
        );
        assert_eq!(sent.cancel(id), None);
        assert_eq!(sent.end(Some(&Id::Int(0))), None);
    }

    #[test]
    fn progress_tokens_are_translated_both_ways() {
        let mut sent = SentRequests::default();
        let plain = sent.begin("x", &json("{}"), ()).unwrap().0;
        let (id, frame) = sent.begin("x", &json(r#"{"_meta":{"progressToken":"t","k":1}}"#), ()).unwrap();
        assert!(text(&frame).contains(r#""_meta":{"progressToken":1,"k":1}"#), "{}", text(&frame));
        let progress = |id: u64| json(&format!(r#"{{"progressToken":{id},"progress":1.0}}"#));
        let translated = sent.translate_progress(&progress(id)).unwrap();
        assert_eq!(translated.as_str(), r#"{"progressToken":"t","progress":1.0}"#);
        assert_eq!(sent.translate_progress(&progress(plain)), None);
        assert_eq!(sent.translate_progress(&progress(7)), None);
        sent.cancel(id);
        assert_eq!(sent.translate_progress(&progress(id)), None);
    }

    #[test]
    fn bad_params_and_closed_tables_are_refused() {
        let mut sent = SentRequests::default();
        assert_eq!(sent.begin("x", &json("[]"), ()).unwrap_err(), SendError::InvalidParams);
        sent.begin("x", &json("{}"), ()).unwrap();
        sent.close();
        assert_eq!(sent.end(Some(&Id::Int(0))), None);
        assert_eq!(sent.begin("x", &json("{}"), ()).unwrap_err(), SendError::Closed);
    }
}
