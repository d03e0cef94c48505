//! Which call a question or a log message belongs to that arrives on a connection which several hosts
//! share, when the server does not say.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline::types::code;
use bowline::{Handler, HandlerResult, Json, RpcError, ServerRequest};
use bowline_proto::server::call_owners::{CallEnd, CallKey, CallOwners, Lingering, Owner};
use parking_lot::Mutex;

use super::questions::CallQuestions;

/// The calls that are open on one shared connection.
///
/// Hosts without a session cannot be told apart, but their principals can. What the server says
/// without naming a call belongs to the only open call, unless a call of another principal is open or
/// may still be running.
pub(super) struct SharedCalls {
    calls: Mutex<Calls>,
    /// Makes numbers of principals that nobody can foresee.
    hasher: RandomState,
}

struct Calls {
    /// Of principals, by number.
    owners: CallOwners<u64>,
    open: HashMap<CallKey, OpenSharedCall>,
}

struct OpenSharedCall {
    principal: u64,
    host: CallHost,
}

/// How the host of a call is reached.
#[derive(Clone)]
pub(super) struct CallHost {
    pub(super) questions: CallQuestions,
    /// Receives the params of log messages.
    pub(super) logs: Arc<dyn Fn(&Json) + Send + Sync>,
}

/// One open call. Dropping it before [`SharedCall::finish`] means that it was canceled.
pub(super) struct SharedCall {
    calls: Arc<SharedCalls>,
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
        let calls = Calls { owners, open: HashMap::new() };
        Self { calls: Mutex::new(calls), hasher: RandomState::new() }
    }

    /// Adds a call of a host of this principal.
    pub(super) fn open(self: &Arc<Self>, principal: Option<&str>, host: CallHost) -> SharedCall {
        let principal = self.hasher.hash_one(principal);
        let mut calls = self.calls.lock();
        calls.owners.join(principal);
        let key = calls.owners.begin(principal);
        calls.open.insert(key, OpenSharedCall { principal, host });
        SharedCall { calls: Arc::clone(self), key, end: CallEnd::Abandoned }
    }

    /// The host of the call that a message of the server belongs to, or why there is none.
    // GW-15
    pub(super) fn find_host(&self, now: Instant) -> Result<CallHost, &'static str> {
        let calls = self.calls.lock();
        match calls.owners.owner(now) {
            Owner::Host { call: Some(call), .. } if calls.open.len() == 1 => {
                calls.open.get(&call).map(|open| open.host.clone()).ok_or(NO_CALL)
            }
            Owner::Host { call: None, .. } | Owner::Nobody => Err(NO_CALL),
            Owner::Host { .. } | Owner::Unclear => Err(
                "several calls are open, or may still run after they were canceled, and the question does \
                 not say to which of them it belongs",
            ),
        }
    }
}

/// How long a question may be about a call that was answered: it may have been asked before.
const ANSWERED_CALL_TIME: Duration = Duration::from_secs(10);

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
        let mut calls = self.calls.calls.lock();
        calls.owners.end(self.key, self.end, Instant::now());
        let Some(OpenSharedCall { principal, .. }) = calls.open.remove(&self.key) else { return };
        if !calls.open.values().any(|other| other.principal == principal) {
            calls.owners.leave(principal);
        }
    }
}

impl Handler for SharedHandler {
    fn capabilities(&self) -> Json {
        self.capabilities.clone()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move {
            match self.calls.find_host(Instant::now()) {
                Ok(host) => host.questions.handle(request).await,
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
        let open = |principal| {
            let host = CallHost { questions: CallQuestions::new(true).0, logs: Arc::new(|_| {}) };
            calls.open(principal, host)
        };
        let found = |at| calls.find_host(at).map(drop).map_err(|why| why.split(' ').next().unwrap());
        let now = Instant::now();
        let (none, several) = (Err("no"), Err("several"));
        assert_eq!(found(now), none);
        let one = open(None);
        assert_eq!(found(now), Ok(()));
        let two = open(None);
        assert_eq!(found(now), several);
        one.finish();
        assert_eq!(found(now), Ok(()), "both are of the same person");
        drop(two);
        assert_eq!(found(now), none, "only the canceled one can be meant");
        let three = open(Some("other"));
        assert_eq!(found(now), several, "the question may be that of a call which was canceled");
        assert_eq!(found(Instant::now() + working), Ok(()));
        three.finish();
        let four = open(None);
        assert_eq!(found(Instant::now()), several, "it may be an earlier question");
        assert_eq!(found(Instant::now() + ANSWERED_CALL_TIME), Ok(()));
        four.finish();
    }
}
