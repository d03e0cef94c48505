//! Which call a question or a log message belongs to that arrives on a connection which several hosts
//! share, when the server does not say.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bowline::types::code;
use bowline::{Handler, HandlerResult, Json, RpcError, ServerRequest};
use parking_lot::Mutex;

use super::questions::CallQuestions;
use super::tasks::TaskOwners;

/// The calls that are open on one shared connection.
///
/// Hosts without a session cannot be told apart, but all of them act on behalf of one principal. What the
/// server says without naming a call belongs to the only open call, also if it is late and means an
/// earlier one.
#[derive(Default)]
pub(super) struct SharedCalls(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    open: HashMap<u64, CallHost>,
    last_key: u64,
}

/// How the host of a call is reached.
#[derive(Clone)]
pub(super) struct CallHost {
    pub(super) questions: CallQuestions,
    /// Receives the params of log messages.
    pub(super) logs: Arc<dyn Fn(&Json) + Send + Sync>,
}

/// One open call, until it is dropped.
pub(super) struct SharedCall {
    calls: Arc<SharedCalls>,
    key: u64,
}

/// The handler of a shared connection, for what is not known to belong to a call.
pub(super) struct SharedHandler {
    pub(super) calls: Arc<SharedCalls>,
    /// The tasks that hosts know of.
    pub(super) tasks: Arc<TaskOwners>,
    /// The capabilities that servers are told: those that all hosts of the connection declare.
    pub(super) capabilities: Json,
}

impl SharedCalls {
    /// Adds a call.
    pub(super) fn open(self: &Arc<Self>, host: CallHost) -> SharedCall {
        let mut calls = self.0.lock();
        calls.last_key += 1;
        let key = calls.last_key;
        calls.open.insert(key, host);
        SharedCall { calls: Arc::clone(self), key }
    }

    /// The host of the call that a message of the server belongs to, or why there is none.
    // GW-15
    pub(super) fn find_host(&self) -> Result<CallHost, &'static str> {
        let calls = self.0.lock();
        let mut open = calls.open.values();
        match (open.next(), open.next()) {
            (Some(only), None) => Ok(only.clone()),
            (None, _) => Err(NO_CALL),
            (Some(_), Some(_)) => {
                Err("several calls are open, and the question does not say to which of them it belongs")
            }
        }
    }
}

const NO_CALL: &str =
    "no call is open that the question could belong to, and it reaches the host of a call only";

impl Drop for SharedCall {
    fn drop(&mut self) {
        self.calls.0.lock().open.remove(&self.key);
    }
}

impl Handler for SharedHandler {
    fn capabilities(&self) -> Json {
        self.capabilities.clone()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move {
            if let Some(owner) = self.tasks.owner_of(&request) {
                return owner.ask(request).await;
            }
            match self.calls.find_host() {
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
        let calls = Arc::new(SharedCalls::default());
        let open = || calls.open(CallHost { questions: CallQuestions::new(true).0, logs: Arc::new(|_| {}) });
        let found = || calls.find_host().map(drop).map_err(|why| why.split(' ').next().unwrap());
        assert_eq!(found(), Err("no"));
        let one = open();
        assert_eq!(found(), Ok(()));
        let two = open();
        assert_eq!(found(), Err("several"));
        drop(one);
        assert_eq!(found(), Ok(()));
        drop(two);
        assert_eq!(found(), Err("no"));
    }
}
