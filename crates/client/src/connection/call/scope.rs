//! [`CallScope`]: one call as its observers see it, from its start to its one report.

use std::sync::Arc;

use bowline_proto::wire::{Json, method};

use super::audit;
use super::meter::CallMeter;
use crate::connection::options::RequestOrigin;
use crate::connection::{CallOptions, Connection};
use crate::error::Result;
use crate::events::Event;
use crate::report::{CallEnded, CallReport, Outcome};

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
    is_audited: bool,
    is_event: bool,
}

impl<'a> CallScope<'a> {
    /// Begins a call. Requests that no caller waits for are not observed.
    pub(crate) fn begin(
        connection: &'a Arc<Connection>,
        method: &'a str,
        params: Option<&Json>,
        options: &CallOptions,
        meter: &'a CallMeter,
    ) -> Self {
        let is_audited = audit::is_enabled(method);
        let is_event = connection.events.reports_calls() && options.origin == RequestOrigin::Caller;
        let observed = (is_audited || is_event).then(|| {
            let tool = tool_name(method, params);
            Box::new(ObservedCall { tool, is_audited, is_event })
        });
        Self { connection, method, meter, observed }
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
        self.tell_observers(&report);
        (result.map_err(|error| error.with_report(report)), report)
    }

    fn tell_observers(&mut self, report: &CallReport) {
        let Some(observed) = self.observed.take() else { return };
        let ObservedCall { tool, is_audited, is_event } = *observed;
        let server = &self.connection.server.name;
        if is_audited {
            audit::log_call(server, tool.as_deref().unwrap_or_default(), report);
        }
        if is_event {
            let (server, method) = (Arc::clone(server), self.method.into());
            let ended = CallEnded { server, method, tool, report: *report };
            self.connection.events.emit(Event::CallEnded(Arc::new(ended)));
        }
    }
}

impl Drop for CallScope<'_> {
    fn drop(&mut self) {
        if self.observed.is_some() {
            self.tell_observers(&self.meter.report(Outcome::Abandoned));
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
