//! One request that is being answered: what happens before its result is known.

use std::future::{poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::request_outcome::{INTERNAL_ERROR, RequestOutcome};
use crate::tool::{ToolContext, ToolError, ToolFuture, ToolReply};

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
    pub(crate) fn start(
        name: &str,
        tool: impl FnOnce(ToolContext) -> ToolFuture,
        progress_token: Option<Value>,
    ) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let tool = catch_panics(name, || tool(ToolContext { events: sender }));
        Self { tool, events, progress_token }
    }

    /// Waits for the next event. Must not be called again after [`CallEvent::Done`].
    pub(crate) async fn next(&mut self) -> CallEvent {
        tokio::select! {
            // What the tool did before it returned comes before its result.
            biased;
            Some(event) = self.events.recv() => event,
            result = &mut self.tool => match self.events.try_recv() {
                Ok(event) => {
                    self.tool = Box::pin(ready(result));
                    event
                }
                Err(_) => CallEvent::Done(RequestOutcome::from(result)),
            },
        }
    }
}

/// Starts a tool, and replies with an internal error if it panics then or later.
fn catch_panics(name: &str, start: impl FnOnce() -> ToolFuture) -> ToolFuture {
    let error = ToolError::protocol(INTERNAL_ERROR, format!("the tool `{name}` panicked"));
    let panicked = ToolReply { outcome: Err(error) };
    let Ok(mut tool) = catch_unwind(AssertUnwindSafe(start)) else {
        return Box::pin(ready(panicked));
    };
    // The future is not polled again after it panicked, so nobody sees what the panic left behind.
    Box::pin(poll_fn(move |cx| {
        catch_unwind(AssertUnwindSafe(|| tool.as_mut().poll(cx)))
            .unwrap_or_else(|_| Poll::Ready(panicked.clone()))
    }))
}
