//! [`ForwardedCall`]: sends a request of the host to a server, with progress on its way back.

use std::sync::Arc;
use std::time::Duration;

use bowline::config::Timeouts;
use bowline::{CallOptions, Client, Json, Result};
use bowline_proto::wire::meta;
use bowline_proto::wire::object::Edit;

use crate::host_queue::HostQueue;
use crate::open_calls::OpenCall;
use crate::trace;

/// What a request of the host needs on its way to the server.
pub(crate) struct ForwardedCall<'a> {
    pub(crate) client: &'a Client,
    /// Takes the progress of the request.
    pub(crate) queue: &'a Arc<HostQueue>,
    pub(crate) kind: CallKind,
    /// Takes the progress of a task, whose request has been answered.
    pub(crate) task_progress: Option<Box<TaskProgress>>,
}

/// Takes the params of progress notifications.
pub(crate) type TaskProgress = dyn Fn(&Json) + Send + Sync;

/// How a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// As the host made it.
    Request,
    /// A call of a tool, for a host that knows no tasks: one is followed to its end.
    Tool,
    /// A call of a tool that is to become a task, which the host wants to be kept for this long.
    Task { ttl: Option<Duration> },
}

impl ForwardedCall<'_> {
    /// Sends the request and waits for its result. Progress is delivered while `open` lives, with
    /// the token of the host.
    ///
    /// Dropping the future cancels the request on the server.
    pub(crate) async fn send(
        self,
        open: &Arc<OpenCall>,
        method: &str,
        params: Option<Json>,
        mut options: CallOptions,
    ) -> Result<Json> {
        let token = params.as_ref().and_then(|params| params.member("_meta")?.member(meta::PROGRESS_TOKEN));
        if let Some(token) = token {
            let (queue, open) = (Arc::clone(self.queue), Arc::downgrade(open));
            let task_progress = self.task_progress.filter(|_| matches!(self.kind, CallKind::Task { .. }));
            options = options.on_raw_progress(move |params| {
                if params.as_bytes().len() > MAX_PROGRESS_BYTES {
                    return;
                }
                let Ok(params) = Edit::new().set(meta::PROGRESS_TOKEN, &token).apply(Some(&params)) else {
                    return;
                };
                match &task_progress {
                    // PR-03: the token is valid until the task has ended.
                    Some(listener) if open.strong_count() == 0 => listener(&params),
                    _ => queue.push_progress(&open, params),
                }
            });
        }
        let reason = open.request.cancel_reason();
        let options = options.cancel_reason(move || reason.get().map(str::to_owned));
        let params = params.map(trace::continue_trace);
        match self.kind {
            CallKind::Request => self.client.request_with(method, &params, &options).await,
            CallKind::Tool => self.client.request_tool(&params, &options).await,
            CallKind::Task { ttl } => {
                let options = ttl.into_iter().fold(options, CallOptions::task_ttl);
                self.client.request_task(&params, &options).await
            }
        }
    }
}

/// The time limits of a call of a host.
pub(crate) fn call_options(timeouts: &Timeouts) -> CallOptions {
    CallOptions::new().idle_timeout(idle_timeout(timeouts)).timeout(timeouts.total)
}

/// How long a call may be silent.
///
/// That is up to the host: it cancels what it no longer waits for, and many tools are silent for
/// longer than the default. So unless the user configured a timeout, only the limit for the whole
/// call applies, for hosts that never cancel.
fn idle_timeout(timeouts: &Timeouts) -> Duration {
    if timeouts.idle == Timeouts::default().idle { timeouts.total } else { timeouts.idle }
}

/// Larger progress is dropped; no real one is.
pub(crate) const MAX_PROGRESS_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_testkit::with;

    #[test]
    fn only_a_limit_that_was_set_ends_a_silent_call() {
        let seconds = Duration::from_secs;
        for (call, max, limit) in [(60, 600, 600), (5, 600, 5), (120, 600, 120), (30, 30, 30), (60, 60, 60)] {
            let timeouts = with!(Timeouts::default(), idle: seconds(call), total: seconds(max));
            assert_eq!(idle_timeout(&timeouts), seconds(limit));
        }
        assert_eq!(Timeouts::default().idle, seconds(60));
    }
}
