//! Which call a question belongs to that arrives on a connection which several hosts share, when the
//! server does not say.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline::types::code;
use bowline::{Handler, HandlerResult, Json, RpcError, ServerRequest};
use bowline_proto::server::call_owners::{CallEnd, CallKey, CallOwners, Lingering, Owner};
use parking_lot::Mutex;

use super::questions::CallQuestions;

/// The calls that are open on one shared connection. Each counts as the call of another host.
pub(super) struct SharedCalls(Mutex<Calls>);

struct Calls {
    owners: CallOwners<u64>,
    open: HashMap<u64, CallQuestions>,
    next_host: u64,
}

/// One open call. Dropping it before [`SharedCall::finish`] means that it was canceled.
pub(super) struct SharedCall {
    calls: Arc<SharedCalls>,
    host: u64,
    key: CallKey,
    end: CallEnd,
}

/// The handler of a shared connection, for what is not known to belong to a call.
pub(super) struct SharedHandler {
    pub(super) calls: Arc<SharedCalls>,
    /// The capabilities that servers are told: those that all hosts of the connection declare.
    pub(super) capabilities: Json,
}

impl SharedCalls {
    /// Begins without calls. The server may be working on a canceled one during `abandoned_for`.
    pub(super) fn new(abandoned_for: Duration) -> Self {
        let lingering = Lingering { answered: ANSWERED_CALL_TIME, abandoned: abandoned_for };
        let owners = CallOwners::new(lingering);
        Self(Mutex::new(Calls { owners, open: HashMap::new(), next_host: 0 }))
    }

    /// Adds a call.
    pub(super) fn open(self: &Arc<Self>, questions: CallQuestions) -> SharedCall {
        let mut calls = self.0.lock();
        let host = calls.next_host;
        calls.next_host += 1;
        calls.owners.join(host);
        let key = calls.owners.begin(host);
        calls.open.insert(host, questions);
        SharedCall { calls: Arc::clone(self), host, key, end: CallEnd::Abandoned }
    }

    /// The call that a question belongs to, or why there is none.
    // GW-15
    fn find_asking(&self, now: Instant) -> Result<CallQuestions, &'static str> {
        let calls = self.0.lock();
        match calls.owners.owner(now) {
            Owner::Host { host, .. } => calls.open.get(&host).cloned().ok_or(NO_CALL),
            Owner::Nobody => Err(NO_CALL),
            Owner::Unclear => Err(
                "several calls are open, or may still run after they were canceled, and the question does \
                 not say to which of them it belongs",
            ),
        }
    }
}

/// How long a question may be about a call that was answered: it may have been asked before. Longer
/// would refuse what the next call of the same host asks.
const ANSWERED_CALL_TIME: Duration = Duration::from_millis(200);

const NO_CALL: &str =
    "no call is open that the question could belong to, and it reaches the host of a call only";

impl SharedCall {
    /// Ends the call, which has its response.
    pub(super) fn finish(mut self) {
        self.end = CallEnd::Answered;
    }
}

impl Drop for SharedCall {
    fn drop(&mut self) {
        let mut calls = self.calls.0.lock();
        calls.open.remove(&self.host);
        calls.owners.end(self.key, self.end, Instant::now());
        calls.owners.leave(self.host);
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
        let working = Duration::from_secs(60);
        let calls = Arc::new(SharedCalls::new(working));
        let open = || calls.open(CallQuestions::new(true).0);
        let found = |at| calls.find_asking(at).map(drop);
        let now = Instant::now();
        assert!(found(now).unwrap_err().starts_with("no call is open"));
        let one = open();
        assert_eq!(found(now), Ok(()));
        let two = open();
        assert!(found(now).unwrap_err().starts_with("several calls are open"));
        one.finish();
        assert!(
            found(now).unwrap_err().starts_with("several calls are open"),
            "it may be an earlier question"
        );
        assert_eq!(found(Instant::now() + ANSWERED_CALL_TIME), Ok(()));
        drop(two);
        let now = Instant::now() + ANSWERED_CALL_TIME;
        assert!(found(now).unwrap_err().starts_with("no call is open"), "only the canceled one can be meant");
        let _three = open();
        assert!(found(now).unwrap_err().starts_with("several calls are open"));
        assert_eq!(found(Instant::now() + working), Ok(()));
    }
}
