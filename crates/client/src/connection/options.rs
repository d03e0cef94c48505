//! What a caller can say about one call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_proto::meta_key::MetaKey;
use bowline_proto::trace::TraceContext;
use bowline_proto::wire::Json;
use bowline_proto::wire::view::{Level, Progress};
use tokio::sync::broadcast;

use super::follow::TaskOptions;
use super::link::lock;

/// Called with each progress notification of a call, from the task that reads the link: be quick.
#[derive(Clone)]
pub(crate) enum Listener {
    Typed(Arc<dyn Fn(Progress) + Send + Sync>),
    Raw(Arc<dyn Fn(Json) + Send + Sync>),
    /// A listener for one call, which may be sent several times.
    Retried(Arc<RetriedListener>),
}

impl Listener {
    pub(super) fn hear(&self, progress: Progress, params: Json) {
        match self {
            Self::Typed(listener) => listener(progress),
            Self::Raw(listener) => listener(params),
            Self::Retried(retried) => retried.hear(progress, params),
        }
    }

    /// The listener of one call: what it hears only grows, however often the call is sent.
    pub(super) fn for_call(&self) -> Self {
        let heights = Mutex::new(Heights { highest: f64::NEG_INFINITY, passed_before: f64::NEG_INFINITY });
        Self::Retried(Arc::new(RetriedListener { listener: self.clone(), heights }))
    }

    /// The call is sent again, and its progress begins from the start.
    pub(super) fn restart(&self) {
        if let Self::Retried(retried) = self {
            let mut heights = lock(&retried.heights);
            heights.passed_before = heights.highest;
        }
    }
}

/// Holds back what a second sending reports until it passes what the first has reached.
pub(crate) struct RetriedListener {
    listener: Listener,
    heights: Mutex<Heights>,
}

struct Heights {
    highest: f64,
    /// What earlier sendings had reached.
    passed_before: f64,
}

impl RetriedListener {
    fn hear(&self, progress: Progress, params: Json) {
        let at = progress.progress;
        {
            let mut heights = lock(&self.heights);
            if at <= heights.passed_before {
                return;
            }
            heights.highest = heights.highest.max(at);
        }
        self.listener.hear(progress, params);
    }
}

/// What differs from the server's configuration for one call.
#[derive(Clone, Default)]
pub struct CallOptions {
    pub(crate) idle: Option<Duration>,
    pub(crate) total: Option<Duration>,
    pub(crate) progress: Option<Listener>,
    pub(crate) log_level: Option<Level>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) meta: Vec<(MetaKey, Json)>,
    pub(crate) raw: bool,
    /// Means nothing in another session, and is not sent there.
    pub(crate) pinned: bool,
    pub(crate) task: TaskOptions,
    pub(crate) purpose: Purpose,
}

/// Whom a request is sent for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Somebody waits for its result.
    #[default]
    Caller,
    /// Nobody does: no person is brought to a login for it.
    Background,
    /// Nobody does. It probes the session of its link, also when that link was left meanwhile.
    Probe,
}

impl CallOptions {
    /// As configured.
    pub fn new() -> Self {
        Self::default()
    }

    /// For what nobody has asked for.
    pub(crate) fn quietly() -> Self {
        Self { purpose: Purpose::Background, ..Self::default() }
    }

    /// For a probe of a session.
    pub(crate) fn for_probe() -> Self {
        Self { purpose: Purpose::Probe, ..Self::default() }
    }

    /// Gives up when nothing was heard for this long. Progress starts it anew.
    #[must_use]
    pub fn timeout(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Gives up after this long, whatever progress says.
    #[must_use]
    pub fn max_timeout(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// Is told of progress. It is called from the task that reads the connection, so it must not block.
    #[must_use]
    pub fn on_progress(mut self, listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Listener::Typed(Arc::new(listener)));
        self
    }

    /// The same with the params of the notification as they came, but for the token, which is ours.
    #[must_use]
    pub fn on_raw_progress(mut self, listener: impl Fn(Json) + Send + Sync + 'static) -> Self {
        self.progress = Some(Listener::Raw(Arc::new(listener)));
        self
    }

    /// The progress of the calls made with these options, as a stream. A reader that falls far behind misses
    /// the oldest.
    pub fn progress_stream(self) -> (Self, ProgressStream) {
        let (sender, receiver) = broadcast::channel(PROGRESS_KEPT);
        // No reader is no error.
        let options = self.on_progress(move |progress| drop(sender.send(progress)));
        (options, ProgressStream(receiver))
    }

    /// Asks for the server's log lines about this call, from this level up. They come as events. A modern server
    /// says nothing unless it is asked with each call (LG-02); a legacy one has one level for all calls, see
    /// [`Client::set_log_level`](crate::Client::set_log_level).
    #[must_use]
    pub fn log_level(mut self, level: Level) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Gives what the server says as it is: the handle of a task, an error that asks for a page. For programs
    /// that pass messages on to one that understands them.
    #[must_use]
    pub fn raw(mut self) -> Self {
        self.raw = true;
        self
    }

    /// The trace that the call belongs to, in place of what [`Builder::trace`](crate::Builder::trace) gives.
    #[must_use]
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Adds a member to the `_meta` of the request. Keys that the protocol keeps for itself are left out, with a
    /// warning in the log (MT-02).
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

/// What is told of the progress of calls, in order.
#[derive(Debug)]
pub struct ProgressStream(broadcast::Receiver<Progress>);

impl ProgressStream {
    /// The next. `None` once the options that it belongs to are gone, and so are the calls made with them.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Progress> {
        loop {
            match self.0.recv().await {
                Ok(progress) => return Some(progress),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// More than a reader that reads needs.
const PROGRESS_KEPT: usize = 64;
