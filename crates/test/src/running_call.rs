//! One request that is being answered: what happens before its result is known.

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::request_outcome::RequestOutcome;
use crate::tool::{ToolContext, ToolError, ToolFuture};

/// Something that a running call does.
#[derive(Debug)]
pub(crate) enum CallEvent {
    /// It reports progress: the params without the token.
    Progress(Value),
    /// It sends a request to the client, and waits for the result.
    Ask { method: String, params: Value, reply: oneshot::Sender<Result<Value, ToolError>> },
    /// It ends.
    Done(RequestOutcome),
}

/// A running call. Dropping it cancels the tool.
pub(crate) struct RunningCall {
    tool: ToolFuture,
    events: mpsc::UnboundedReceiver<CallEvent>,
    /// The token for progress notifications, if the caller wants them.
    pub(crate) progress_token: Option<Value>,
}

impl RunningCall {
    pub(crate) fn start(tool: impl FnOnce(ToolContext) -> ToolFuture, progress_token: Option<Value>) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self { tool: tool(ToolContext { events: sender }), events, progress_token }
    }

    /// Waits for the next event. Must not be called again after [`CallEvent::Done`].
    pub(crate) async fn next(&mut self) -> CallEvent {
        tokio::select! {
            // What the tool did before it returned comes before its result.
            biased;
            Some(event) = self.events.recv() => event,
            result = &mut self.tool => match self.events.try_recv() {
                Ok(event) => {
                    self.tool = Box::pin(std::future::ready(result));
                    event
                }
                Err(_) => CallEvent::Done(RequestOutcome::from(result)),
            },
        }
    }
}
