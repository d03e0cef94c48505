//! Which call a question belongs to that arrives on a connection which several hosts share, when the
//! server does not say.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline::types::code;
use bowline::{Handler, HandlerResult, Json, RpcError, ServerRequest};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::questions::CallQuestions;

/// The calls that are open on one shared connection.
#[derive(Default)]
pub(super) struct SharedCalls(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    open: HashMap<u64, CallQuestions>,
    next_key: u64,
    /// When the last call ended without a response, for whose host the server may still ask.
    last_canceled: Option<Instant>,
}

/// One open call. Dropping it before [`SharedCall::finish`] means that it was canceled.
pub(super) struct SharedCall {
    calls: Arc<SharedCalls>,
    key: u64,
    is_finished: bool,
}

/// The handler of a shared connection, for what is not known to belong to a call.
pub(super) struct SharedHandler {
    pub(super) calls: Arc<SharedCalls>,
    /// The capabilities that servers are told: those that all hosts of the connection declare.
    pub(super) capabilities: Json,
}

/// For how long after a cancellation a question may be for the call that was canceled.
const CANCELED_CALL_TIME: Duration = Duration::from_secs(5);

impl SharedCalls {
    /// Adds a call.
    pub(super) fn open(self: &Arc<Self>, questions: CallQuestions) -> SharedCall {
        let mut calls = self.0.lock();
        let key = calls.next_key;
        calls.next_key += 1;
        calls.open.insert(key, questions);
        SharedCall { calls: Arc::clone(self), key, is_finished: false }
    }

    /// The call that a question belongs to, or why there is none.
    // GW-15
    fn find_asking(&self, now: Instant) -> Result<CallQuestions, &'static str> {
        let calls = self.0.lock();
        let mut open = calls.open.values();
        match (open.next(), open.next()) {
            (None, _) => Err(
                "no call is open that the question could belong to, and it reaches the host of a call only",
            ),
            (Some(_), Some(_)) => {
                Err("several calls are open, and the question does not say to which of them it belongs")
            }
            (Some(_), None)
                if calls.last_canceled.is_some_and(|canceled| now < canceled + CANCELED_CALL_TIME) =>
            {
                Err(
                    "a call was canceled a moment ago, and the question does not say that it belongs to another",
                )
            }
            (Some(only), None) => Ok(only.clone()),
        }
    }
}

impl SharedCall {
    /// Ends the call, which has its response.
    pub(super) fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for SharedCall {
    fn drop(&mut self) {
        let mut calls = self.calls.0.lock();
        calls.open.remove(&self.key);
        if !self.is_finished {
            calls.last_canceled = Some(Instant::now());
        }
    }
}

impl Handler for SharedHandler {
    fn capabilities(&self) -> Json {
        self.capabilities.clone()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move {
            match self.calls.find_asking(Instant::now()) {
                Ok(call) => call.handle(request).await,
                Err(reason) => {
                    tracing::warn!(server = %request.server, method = %request.method, reason, "a question was refused");
                    Err(RpcError::new(code::INVALID_REQUEST, format!("bowline: {reason}")))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // GW-15
    #[tokio::test]
    async fn a_question_belongs_to_the_only_open_call() {
        let calls = Arc::<SharedCalls>::default();
        let open = || calls.open(CallQuestions::new(true).0);
        let found = |at| calls.find_asking(at).map(drop);
        let now = Instant::now();
        assert!(found(now).unwrap_err().starts_with("no call is open"));
        let one = open();
        assert_eq!(found(now), Ok(()));
        let two = open();
        assert!(found(now).unwrap_err().starts_with("several calls are open"));
        one.finish();
        assert_eq!(found(now), Ok(()));
        drop(two);
        let _three = open();
        let canceled = Instant::now();
        assert!(found(now).unwrap_err().starts_with("a call was canceled"));
        assert_eq!(found(canceled + CANCELED_CALL_TIME), Ok(()));
    }
}
