//! Modern calls between two rounds: the client knows which input the tool waits for, and has yet to
//! retry the call with it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Engine, QuestionReply};
use crate::request_outcome::RequestOutcome;
use crate::running_call::RunningCall;

/// A modern call that waits for input. Dropping it cancels the tool.
pub(super) struct ParkedCall {
    call: RunningCall,
    reply: QuestionReply,
    /// The id of the request that was answered with the request for input.
    request_id: Value,
    /// The task that drops the call after [`MAX_INPUT_WAIT`].
    _expiry: JoinSet<()>,
}

/// How long a parked call waits for its retry. A client leaves out the time that its host takes to
/// answer, up to one hour, so its own limits come first.
const MAX_INPUT_WAIT: Duration = Duration::from_secs(2 * 60 * 60);

impl Engine {
    /// Answers a modern call with the request for input that its tool waits for.
    pub(super) fn park(
        self: &Arc<Self>,
        call: RunningCall,
        request_id: Value,
        method: &str,
        params: &Value,
        reply: QuestionReply,
    ) -> RequestOutcome {
        let request_state = format!("call-{}", self.next_number());
        let expiry = self.start_expiry(request_state.clone());
        let parked = ParkedCall { call, reply, request_id, _expiry: expiry };
        let mut state = self.state.lock();
        let refused =
            if state.has_ended { Some(parked) } else { state.parked.insert(request_state.clone(), parked) };
        // A tool that is dropped may use the handle of the server.
        drop(state);
        drop(refused);
        let input = json!({ INPUT_KEY: { "method": method, "params": params } });
        self.complete(RequestOutcome::Result(json!({
            "resultType": "input_required",
            "inputRequests": input,
            "requestState": request_state,
        })))
    }

    /// Gives a parked call the input that its retry brings.
    pub(super) fn resume(&self, request_state: &str, params: &Value) -> Option<RunningCall> {
        let ParkedCall { mut call, reply, .. } = self.state.lock().parked.remove(request_state)?;
        // The tool waits for it; if not, it needs it no more.
        let _ = reply.send(Ok(params["inputResponses"][INPUT_KEY].clone()));
        call.progress_token = params["_meta"].get("progressToken").cloned();
        Some(call)
    }

    /// Drops the parked call of a request that was canceled while its answer was on the way. Request
    /// ids must be unique, as they are over byte streams.
    pub(crate) fn cancel_parked(&self, request_id: &Value) {
        let canceled: Vec<_> =
            self.state.lock().parked.extract_if(|_, parked| parked.request_id == *request_id).collect();
        drop(canceled);
    }

    fn start_expiry(self: &Arc<Self>, request_state: String) -> JoinSet<()> {
        let engine = Arc::downgrade(self);
        let mut expiry = JoinSet::new();
        expiry.spawn(async move {
            tokio::time::sleep(MAX_INPUT_WAIT).await;
            let Some(engine) = engine.upgrade() else { return };
            let expired = engine.state.lock().parked.remove(&request_state);
            drop(expired);
        });
        expiry
    }
}

/// The key of the only input that a call waits for at a time.
const INPUT_KEY: &str = "input";
