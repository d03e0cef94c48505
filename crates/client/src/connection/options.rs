//! Options of one call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::meta_key::MetaKey;
use bowline_proto::trace::TraceContext;
use bowline_proto::wire::Json;
use bowline_proto::wire::view::{LogLevel, Progress, Task};

use super::progress::{ProgressListener, TaskProgress};
use crate::handler::Handler;

/// Settings of one call that differ from the server's configuration.
#[derive(Clone, Default)]
pub struct CallOptions {
    pub(crate) idle: Option<Duration>,
    pub(crate) total: Option<Duration>,
    /// How long a broken response is resumed without any progress.
    pub(crate) resume_wait: Option<Duration>,
    pub(crate) progress: Option<ProgressListener>,
    pub(crate) log_level: Option<LogLevel>,
    /// Receives the log messages on the stream of this call, in place of the events.
    pub(crate) log: Option<Arc<LogListener>>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) meta: Vec<(MetaKey, Json)>,
    pub(crate) raw: bool,
    /// Whether the request is meaningless in another session and must not be sent there.
    pub(crate) pinned: bool,
    pub(crate) task: TaskOptions,
    pub(crate) origin: RequestOrigin,
    /// Answers what the server asks because of this call, in place of the client's handler.
    pub(crate) handler: Option<Arc<dyn Handler>>,
    /// Says why the call is canceled, when it is.
    pub(crate) cancel_reason: Option<Arc<CancelReasonSource>>,
}

/// Says why a call is canceled.
pub(crate) type CancelReasonSource = dyn Fn() -> Option<String> + Send + Sync;

/// Receives the params of log messages.
pub(crate) type LogListener = dyn Fn(Json) + Send + Sync;

/// Receives the states of a task.
pub(crate) type TaskListener = dyn Fn(&Task) + Send + Sync;

/// Options for the task that a call may become.
#[derive(Clone, Default)]
pub(crate) struct TaskOptions {
    /// 2025-11-25: how long the server is asked to keep the task.
    pub(crate) ttl: Option<Duration>,
    /// 2025-11-25: whether the result is requested before the task is known to have ended.
    pub(crate) fetches_early: bool,
    /// Receives each state that differs from the previous one.
    pub(crate) listener: Option<Arc<TaskListener>>,
    /// 2025-11-25: receives progress, also after the call was answered with a task (PR-03).
    pub(crate) progress: Option<Arc<TaskProgress>>,
    /// Whether this is a request about a task. Dropping it sends no cancellation; the task itself
    /// is canceled if needed (CN-02).
    pub(crate) is_poll: bool,
}

/// Who waits for the result of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// A caller waits for its result.
    #[default]
    Caller,
    /// No caller waits: a login must not prompt a person.
    Background,
    /// No caller waits. The request probes the session of its link, even if that link was replaced.
    Probe,
}

impl CallOptions {
    /// Uses the server's configuration.
    pub fn new() -> Self {
        Self::default()
    }

    /// Options for a request that no caller waits for.
    pub(crate) fn background() -> Self {
        Self { origin: RequestOrigin::Background, ..Self::default() }
    }

    /// Options for a probe of a session.
    pub(crate) fn for_probe() -> Self {
        Self { origin: RequestOrigin::Probe, ..Self::default() }
    }

    /// Sets the idle timeout: the call fails when nothing was heard for this long. Progress
    /// restarts it. The default is that of the server's configuration, 60 s.
    #[must_use]
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Sets how long the call may take in all, which progress does not extend. The default is that
    /// of the server's configuration, 600 s.
    ///
    /// The waits for a connection and for recoveries count, and so do all rounds of a call that
    /// requires input. The time that a person takes to answer or to log in does not.
    #[must_use]
    pub fn timeout(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets how long the response of a legacy server over HTTP, whose stream broke, is resumed while nothing
    /// new of it arrives. After that the call goes on as one without a response. The default is as long as
    /// the call may take.
    #[must_use]
    pub fn resume_wait(mut self, wait: Duration) -> Self {
        self.resume_wait = Some(wait);
        self
    }

    /// Sets a progress listener. It is called from the task that reads the connection, so it must
    /// not block.
    #[must_use]
    pub fn on_progress(mut self, listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(ProgressListener::Typed(Arc::new(listener)));
        self
    }

    /// Sets a progress listener that receives the raw params of the notification. Only the progress
    /// token differs from what the server was sent.
    #[must_use]
    pub fn on_raw_progress(mut self, listener: impl Fn(Json) + Send + Sync + 'static) -> Self {
        self.progress = Some(ProgressListener::Raw(Arc::new(listener)));
        self
    }

    /// Adds a progress listener to the one that may be set.
    pub(crate) fn also_on_progress(mut self, listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        let added = ProgressListener::Typed(Arc::new(listener));
        self.progress = Some(match self.progress {
            Some(first) => ProgressListener::Both(Arc::new((first, added))),
            None => added,
        });
        self
    }

    /// Requests the server's log messages about this call, from this level up. They arrive as
    /// events. A modern server sends none unless each call asks for them; a legacy one has one
    /// level for all calls, see [`Client::set_log_level`](crate::Client::set_log_level).
    // LG-02
    #[must_use]
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Sets a listener for the log messages that the server sends on the stream of this call, which
    /// only HTTP has. They are no events then. Messages elsewhere arrive as events, since the server
    /// does not say which call they are about. The listener receives the params of the notification.
    /// It is called from the task that reads the connection, so it must not block.
    #[must_use]
    pub fn on_log(mut self, listener: impl Fn(Json) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(listener));
        self
    }

    /// Returns the server's answer as it is: the handle of a task, or an error that requires a URL
    /// elicitation. For programs that relay messages.
    #[must_use]
    pub fn raw(mut self) -> Self {
        self.raw = true;
        self
    }

    /// Sets a handler for what the server asks because of this call, in place of that of the client.
    ///
    /// A modern server always says which call needs the input, and a legacy one does over
    /// Streamable HTTP, if it asks on the stream of the call. What belongs to no call in particular
    /// still goes to the client's handler: over stdio, that is everything that a legacy server asks.
    ///
    /// The capabilities that servers are told are those of the client's handler; those of this one
    /// are ignored. Questions that a modern server asks together are handled at the same time.
    // GW-15
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Sets what the server is told as the reason when the call is dropped before its outcome, and so
    /// canceled. `reason` is called then, and must not block. The default, also if it returns `None`, is
    /// that the caller no longer waits. For programs that relay cancellations.
    #[must_use]
    pub fn cancel_reason(mut self, reason: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        self.cancel_reason = Some(Arc::new(reason));
        self
    }

    /// Why the call is canceled, if the caller says so. A source that panics says nothing.
    pub(crate) fn reason_for_cancel(&self) -> Option<String> {
        let source = self.cancel_reason.as_ref()?;
        catch_unwind(AssertUnwindSafe(|| source())).unwrap_or_else(|_| {
            tracing::error!("the source of a reason for a cancellation panicked");
            None
        })
    }

    /// Sets the trace context of the call, in place of the one from
    /// [`ClientBuilder::trace`](crate::ClientBuilder::trace).
    #[must_use]
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Adds a member to the `_meta` of the request. Keys that the protocol reserves are left out,
    /// with a warning in the log.
    // MT-02
    #[must_use]
    pub fn meta(mut self, key: MetaKey, value: Json) -> Self {
        if key.is_reserved() {
            tracing::warn!(key = key.as_str(), "the key is the protocol's own and was left out");
        } else {
            self.meta.push((key, value));
        }
        self
    }
}

impl std::fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOptions")
            .field("idle", &self.idle)
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}
