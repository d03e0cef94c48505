//! [`Call`]: the handle of a running tool call, and [`CallBuilder`], which starts it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bowline_proto::fault::{Cause, Fault, Misbehavior};
use bowline_proto::meta_key::MetaKey;
use bowline_proto::trace::TraceContext;
use bowline_proto::wire::view::{CallToolResult, Content, LogLevel, Progress, Task};
use bowline_proto::wire::{Json, method, outgoing};
use futures_core::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::client::Client;
use crate::connection::{CallMeter, CallOptions, CallRequest};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{EventReceiver, EventSender, ReceiveOutcome, channel};
use crate::handler::Handler;
use crate::report::{CallReport, Outcome, ToolResult};

/// A tool call that is being prepared; see [`Client::call`]. [`CallBuilder::start`] runs it in the
/// background, and awaiting the builder runs it within the caller's own task.
#[must_use = "nothing is sent before the call is started or awaited"]
pub struct CallBuilder {
    client: Client,
    name: Box<str>,
    /// The params of the request, or why there are none.
    params: Result<Json, String>,
    options: CallOptions,
}

/// A running tool call. It is a future of the result.
///
/// # Behavior
/// - The call runs on its own task, so progress flows whether or not the handle is polled.
/// - Dropping the handle cancels the call on the server, as [`Call::cancel`] does.
///
/// ```no_run
/// # async fn run(client: bowline::Client) -> bowline::Result<()> {
/// let mut call = client.call("search").arguments(&serde_json::json!({ "query": "knots" })).start();
/// let mut progress = call.progress();
/// let shown = async move {
///     while let Some(step) = progress.next().await {
///         println!("{} of {:?}", step.progress, step.total);
///     }
/// };
/// let (result, ()) = tokio::join!(call, shown);
/// println!("{}", result?.text());
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle cancels the call"]
pub struct Call {
    client: Client,
    name: Box<str>,
    task: JoinHandle<Result<ToolResult>>,
    meter: Arc<CallMeter>,
    stop: CancellationToken,
    progress: EventSender<Progress>,
    /// Receives from the start of the call on, until it is handed out.
    first_progress: Option<EventReceiver<Progress>>,
}

/// The progress of one call, in order. It is a [`Stream`], and [`ProgressStream::next`] needs no
/// further crate.
///
/// It ends when the call does. A reader that falls more than 64 items behind misses the oldest
/// ones: the newest progress is always delivered.
pub struct ProgressStream(EventReceiver<Progress>);

/// Closes the progress of a call when the call has ended in any way.
struct ProgressEnd(EventSender<Progress>);

/// Number of items that a reader of progress may fall behind.
const PROGRESS_BUFFER: usize = 64;

impl Client {
    /// Prepares a call of a tool, without arguments at first.
    ///
    /// [`Client::call_tool`] is the short form for a call that needs no handle.
    pub fn call(&self, name: &str) -> CallBuilder {
        let params = encode_params(name, &());
        CallBuilder { client: self.clone(), name: name.into(), params, options: CallOptions::new() }
    }
}

// === impl CallBuilder ===

impl CallBuilder {
    /// Sets the arguments, which must serialize to an object, or to `null` for none.
    pub fn arguments<A: Serialize + ?Sized>(mut self, arguments: &A) -> Self {
        self.params = encode_params(&self.name, arguments);
        self
    }

    /// Sets how long the call may take in all; see [`CallOptions::timeout`].
    pub fn timeout(mut self, total: Duration) -> Self {
        self.options = self.options.timeout(total);
        self
    }

    /// Sets how long the server may be silent; see [`CallOptions::idle_timeout`].
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.options = self.options.idle_timeout(idle);
        self
    }

    /// Adds a member to the `_meta` of the request; see [`CallOptions::meta`].
    pub fn meta(mut self, key: MetaKey, value: Json) -> Self {
        self.options = self.options.meta(key, value);
        self
    }

    /// Sets the trace context of the call; see [`CallOptions::trace`].
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.options = self.options.trace(trace);
        self
    }

    /// Requests the server's log messages about this call; see [`CallOptions::log_level`].
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.options = self.options.log_level(level);
        self
    }

    /// Sets a handler for what the server asks because of this call; see [`CallOptions::handler`].
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.options = self.options.handler(handler);
        self
    }

    /// Sets a listener for the states of the task that the call may become; see
    /// [`CallOptions::on_task`].
    pub fn on_task(mut self, listener: impl Fn(&Task) + Send + Sync + 'static) -> Self {
        self.options = self.options.on_task(listener);
        self
    }

    /// Sets how long the server is asked to keep a task; see [`CallOptions::task_ttl`].
    pub fn task_ttl(mut self, ttl: Duration) -> Self {
        self.options = self.options.task_ttl(ttl);
        self
    }

    /// Replaces all options that were set so far.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
    }

    /// Starts the call on its own task.
    ///
    /// Must be called within a tokio runtime.
    pub fn start(self) -> Call {
        let (client, name) = (self.client.clone(), self.name.clone());
        let (progress, first_progress) = channel(PROGRESS_BUFFER);
        let (meter, stop) = (Arc::new(CallMeter::start()), CancellationToken::new());
        let running = self.run_until_stopped(Arc::clone(&meter), stop.clone(), progress.clone());
        // The tracer of the connection finds the span of the caller.
        let task = tokio::spawn(running.in_current_span());
        Call { client, name, task, meter, stop, progress, first_progress: Some(first_progress) }
    }

    async fn run_until_stopped(
        mut self,
        meter: Arc<CallMeter>,
        stop: CancellationToken,
        progress: EventSender<Progress>,
    ) -> Result<ToolResult> {
        let end = ProgressEnd(progress);
        let sender = end.0.clone();
        self.options = self.options.also_on_progress(move |step| sender.send(step));
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                let error = Error::new(ErrorKind::Cancelled, &self.client.connection().server.name, method::TOOLS_CALL);
                Err(error.with_report(meter.report(Outcome::Abandoned)))
            }
            result = self.run(&meter) => result,
        }
    }

    async fn run(&self, meter: &CallMeter) -> Result<ToolResult> {
        let Self { client, name, params, options } = self;
        let method = method::TOOLS_CALL;
        let params = params.as_ref().map_err(|error| client.usage_error(method, error.clone()))?;
        client.call_tool_metered(name, CallRequest { method, params: Some(params), options, meter }).await
    }
}

impl IntoFuture for CallBuilder {
    type Output = Result<ToolResult>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<ToolResult>> + Send>>;

    /// Runs the call within the caller's own task. Dropping the future cancels it on the server.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.run(&CallMeter::start()).await })
    }
}

impl fmt::Debug for CallBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

fn encode_params<A: Serialize + ?Sized>(name: &str, arguments: &A) -> Result<Json, String> {
    outgoing::call_params(name, arguments).map_err(|error| error.to_string())
}

// === impl Call ===

impl Call {
    /// The progress of the call. The first stream has all of it since the start, later ones what
    /// comes from now on.
    pub fn progress(&mut self) -> ProgressStream {
        ProgressStream(self.first_progress.take().unwrap_or_else(|| self.progress.subscribe()))
    }

    /// Cancels the call on the server. The call then ends with [`ErrorKind::Cancelled`], unless it
    /// has ended before.
    pub fn cancel(&self) {
        self.stop.cancel();
    }

    /// How often the request was sent so far; see
    /// [`CallReport::attempts`](crate::CallReport::attempts).
    pub fn attempts(&self) -> u32 {
        self.meter.attempts()
    }

    /// Waits for the result and decodes it: the structured content, or the text if it is a single
    /// JSON value.
    ///
    /// A tool that failed is an [`ErrorKind::ToolError`]. A value that does not fit `T`, or the
    /// output schema of the tool (with the feature `schema`, and if the tools were listed on this
    /// connection), is a fault of the server.
    ///
    /// Dropping the future cancels the call on the server.
    pub async fn json<T: DeserializeOwned>(mut self) -> Result<T> {
        let result = (&mut self).await?;
        let ToolResult { result, report } = result;
        self.decode(&result).map_err(|error| {
            let outcome = error.outcome();
            error.with_report(CallReport { outcome, ..report })
        })
    }

    fn decode<T: DeserializeOwned>(&self, result: &CallToolResult) -> Result<T> {
        let (connection, method) = (self.client.connection(), method::TOOLS_CALL);
        if result.is_error {
            return Err(Error::new(ErrorKind::ToolError(result.text()), &connection.server.name, method));
        }
        let unfit = |note: String| {
            let fault = Fault::protocol(Misbehavior::BadResult).with_note(note);
            connection.server.fault_error(method, fault.with_body(result.json.as_bytes()))
        };
        let value = match (&result.structured, &*result.content) {
            (Some(value), _) => value.clone(),
            (None, [Content::Text(content)]) => {
                let parsed = content.text.get().parse();
                parsed.map_err(|error| unfit(format!("the text is not JSON: {error}")))?
            }
            (None, _) => return Err(unfit("it has no structured content".to_owned())),
        };
        let tool = self.meter.replaced_tool().unwrap_or(&self.name);
        if let Some(violation) = connection.lists.output_violation(tool, &value) {
            return Err(unfit(format!("it violates the output schema of the tool: {violation}")));
        }
        value.decode().map_err(|error| unfit(error.to_string()))
    }
}

impl Future for Call {
    type Output = Result<ToolResult>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(Pin::new(&mut self.task).poll(cx)) {
            Ok(result) => Poll::Ready(result),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime shuts down.
            Err(_) => {
                let server = &self.client.connection().server;
                Poll::Ready(Err(server.fault_error(method::TOOLS_CALL, Fault::new(Cause::Closed))))
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("name", &self.name)
            .field("attempts", &self.attempts())
            .finish_non_exhaustive()
    }
}

// === impl ProgressStream ===

impl ProgressStream {
    /// Waits for the next item. `None` once the call has ended and everything was received.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Progress> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for ProgressStream {
    type Item = Progress;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Progress>> {
        loop {
            match ready!(self.0.poll_receive(cx)) {
                ReceiveOutcome::Value(progress) => return Poll::Ready(Some(progress)),
                // Newer progress makes up for what was missed.
                ReceiveOutcome::Missed(_) => {}
                ReceiveOutcome::Closed => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for ProgressStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressStream").finish_non_exhaustive()
    }
}

impl Drop for ProgressEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}
