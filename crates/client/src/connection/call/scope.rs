//! [`CallScope`]: one call as its observers see it, from its start to its one report.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bowline_proto::client::session::Status;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::wire::{Json, method};
use tracing::Span;

use super::meter::CallMeter;
use super::request::CallRequest;
use super::span;
use crate::connection::Connection;
use crate::connection::options::RequestOrigin;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::layer::{Layer, OutgoingRequest};
use crate::report::{CallRecord, CallReport, Outcome};

/// One call. Its end is reported once: by [`CallScope::finish`], or as abandoned when this is
/// dropped before.
pub(crate) struct CallScope<'a> {
    connection: &'a Arc<Connection>,
    method: &'a str,
    meter: &'a CallMeter,
    /// `None` if nobody observes the call, which then costs nothing.
    observed: Option<Box<ObservedCall>>,
}

/// What the observers of a call are told.
struct ObservedCall {
    tool: Option<Box<str>>,
    is_event: bool,
    layered: Option<LayeredCall>,
    span: Option<Span>,
}

/// A call that passes through layers.
struct LayeredCall {
    request: OutgoingRequest,
    /// The layers that observe the call, outermost first.
    layers: Box<[Arc<dyn Layer>]>,
    /// Number of layers that have seen the request, and so see its end.
    entered: usize,
}

impl<'a> CallScope<'a> {
    /// Begins a call. Events and layers see only requests that a caller waits for.
    pub(crate) fn begin(connection: &'a Arc<Connection>, ask: CallRequest<'a>) -> Self {
        let CallRequest { method, params, options, meter } = ask;
        let is_of_caller = options.origin == RequestOrigin::Caller;
        let is_event = is_of_caller && connection.events.begin_report();
        let layers = &connection.server.layers;
        let is_layered = is_of_caller && layers.iter().any(|layer| layer.observes(method));
        let span = if is_of_caller { span::open(connection, method, params) } else { None };
        let observed = (is_event || is_layered || span.is_some()).then(|| {
            let layered = is_layered.then(|| LayeredCall {
                request: OutgoingRequest::for_call(&connection.server.name, method, params),
                layers: layers.iter().filter(|layer| layer.observes(method)).cloned().collect(),
                entered: 0,
            });
            Box::new(ObservedCall { tool: tool_name(method, params), is_event, layered, span })
        });
        Self { connection, method, meter, observed }
    }

    /// The span of the call, if a subscriber wants it.
    pub(crate) fn span(&self) -> Option<Span> {
        self.observed.as_ref()?.span.clone()
    }

    /// Passes the request through the layers. Returns the params to send if they were changed; an
    /// error if a layer refused, or if the client was closed while one waited.
    pub(crate) async fn pass_layers(&mut self) -> Result<Option<Json>> {
        let has_layers = self.observed.as_ref().is_some_and(|observed| observed.layered.is_some());
        // Rare and large: boxed to keep it out of the future of every call.
        if has_layers { Box::pin(self.run_layers_until_closed()).await } else { Ok(None) }
    }

    async fn run_layers_until_closed(&mut self) -> Result<Option<Json>> {
        let (connection, method) = (self.connection, self.method);
        let mut status = connection.links.status();
        tokio::select! {
            biased;
            passed = self.run_layers() => passed,
            _ = status.wait_for(|status| *status == Status::Closed) => {
                Err(connection.server.fault_error(method, Fault::before_sending(Cause::Closed)))
            }
        }
    }

    async fn run_layers(&mut self) -> Result<Option<Json>> {
        let Some(observed) = &mut self.observed else { return Ok(None) };
        let Some(layered) = &mut observed.layered else { return Ok(None) };
        let server = &self.connection.server;
        for layer in &*layered.layers {
            layered.entered += 1;
            if let Err(refusal) = layer.on_request(&mut layered.request).await {
                let kind = ErrorKind::LayerRefused(refusal.reason().to_owned());
                return Err(Error::new(kind, &server.name, self.method));
            }
        }
        let changed = layered.request.changed_params().cloned();
        if changed.is_some() {
            observed.tool = layered.request.tool().map(Box::from);
            if let (Some(span), Some(tool)) = (&observed.span, &observed.tool) {
                span::record_tool(span, tool);
            }
        }
        Ok(changed)
    }

    /// Ends a call. An error is given the report of the call.
    pub(crate) fn finish<T>(
        mut self,
        result: Result<T>,
        is_tool_error: impl FnOnce(&T) -> bool,
    ) -> Result<T> {
        if result.is_ok() && self.observed.is_none() {
            return result;
        }
        let (result, _) = self.end(result, is_tool_error);
        result
    }

    /// Ends a call whose caller also wants the report of a success.
    pub(crate) fn finish_with_report<T>(
        mut self,
        result: Result<T>,
        is_tool_error: impl FnOnce(&T) -> bool,
    ) -> Result<(T, CallReport)> {
        let (result, report) = self.end(result, is_tool_error);
        result.map(|value| (value, report))
    }

    fn end<T>(
        &mut self,
        result: Result<T>,
        is_tool_error: impl FnOnce(&T) -> bool,
    ) -> (Result<T>, CallReport) {
        let outcome = match &result {
            Ok(value) if is_tool_error(value) => Outcome::ToolError,
            Ok(_) => Outcome::Done,
            Err(error) => error.outcome(),
        };
        let report = self.meter.report(outcome);
        self.tell_observers(&report, result.as_ref().err());
        (result.map_err(|error| error.with_report(report)), report)
    }

    fn tell_observers(&mut self, report: &CallReport, error: Option<&Error>) {
        let Some(observed) = self.observed.take() else { return };
        let ObservedCall { tool, is_event, layered, span } = *observed;
        let server = &self.connection.server;
        if let Some(LayeredCall { request, layers, entered }) = layered {
            for layer in layers[..entered].iter().rev() {
                // The call may end in a drop, where a second panic would end the program.
                if catch_unwind(AssertUnwindSafe(|| layer.on_end(&request, report))).is_err() {
                    tracing::error!(server = %server.name, "a layer panicked");
                }
            }
        }
        if let Some(span) = span {
            let error_type = span::error_type(report.outcome, error);
            span::close(&span, self.connection, error_type.as_deref(), report);
        }
        if is_event {
            let (server, method) = (Arc::clone(&server.name), self.method.into());
            let record = CallRecord { server, method, tool, report: *report };
            self.connection.events.report_call(Event::CallEnded(Arc::new(record)));
        }
    }
}

impl Drop for CallScope<'_> {
    fn drop(&mut self) {
        if self.observed.is_some() {
            self.tell_observers(&self.meter.report(Outcome::Abandoned), None);
        }
    }
}

/// The name of the tool that a request calls.
pub(crate) fn tool_name(method: &str, params: Option<&Json>) -> Option<Box<str>> {
    if method != method::TOOLS_CALL {
        return None;
    }
    params?.member("name")?.decode().ok()
}

/// Whether the raw result of a method says that a tool failed.
pub(crate) fn is_tool_error(method: &str, result: &Json) -> bool {
    method == method::TOOLS_CALL && result.member("isError").is_some_and(|flag| flag.as_str() == "true")
}
