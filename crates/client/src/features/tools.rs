//! Tools: list and call (group TL).

use std::sync::Arc;

use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::wire::view::{CallToolResult, Tool};
use bowline_proto::wire::{Json, method, outgoing};
use serde::Serialize;
use tracing::{Instrument as _, Span};

use super::{Feature, tasks};
use crate::client::Client;
use crate::clock;
use crate::connection::{CallMeter, CallOptions, CallRequest, CallScope, List, LiveLink, tool_name};
use crate::error::Result;
use crate::report::ToolResult;

impl Client {
    /// Lists all tools of the server, over all pages, in the server's order.
    ///
    /// Empty for a server that offers no tools, which is not asked. An invalid tool is left out
    /// with a warning in the log; [`Client::list_tools_full`] says which. Dropping the future
    /// cancels it.
    pub async fn list_tools(&self) -> Result<Vec<Tool>> {
        self.list_tools_full().await.map(|list| list.items)
    }

    /// [`Client::list_tools`], with the elements that were left out. Dropping the future cancels it.
    pub async fn list_tools_full(&self) -> Result<List<Tool>> {
        let live = self.live_link(method::TOOLS_LIST).await?;
        self.connection().list_tools(&live, &CallOptions::new()).await
    }

    /// Calls a tool. `arguments` must serialize to an object, or to `null` for none.
    ///
    /// A tool that fails says so in the result (`is_error`), which is for the model to see; an
    /// `Err` means that the call itself failed. Dropping the future cancels the call on the server.
    pub async fn call_tool<A: Serialize + ?Sized>(&self, name: &str, arguments: &A) -> Result<ToolResult> {
        self.call_tool_with(name, arguments, &CallOptions::new()).await
    }

    /// [`Client::call_tool`] with other timeouts, or with progress. Dropping the future cancels the call
    /// on the server.
    pub async fn call_tool_with<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: &CallOptions,
    ) -> Result<ToolResult> {
        let method = method::TOOLS_CALL;
        let params = outgoing::call_params(name, arguments)
            .map_err(|error| self.usage_error(method, error.to_string()))?;
        let meter = &CallMeter::start();
        self.call_tool_metered(name, CallRequest { method, params: Some(&params), options, meter }).await
    }

    /// Calls a tool, counts what happens, and reports its end to observers.
    pub(crate) async fn call_tool_metered(&self, name: &str, ask: CallRequest<'_>) -> Result<ToolResult> {
        let mut scope = CallScope::begin(self.connection(), ask);
        let called = match scope.pass_layers().await {
            Ok(None) => match scope.span() {
                None => self.call_tool_unobserved(name, ask).await,
                Some(span) => Box::pin(self.call_tool_unobserved(name, ask).instrument(span)).await,
            },
            // A layer may have chosen another tool.
            Ok(Some(params)) => {
                let name = tool_name(ask.method, Some(&params)).unwrap_or_default();
                ask.meter.record_replaced_tool(&name);
                let ask = CallRequest { params: Some(&params), ..ask };
                let span = scope.span().unwrap_or_else(Span::none);
                Box::pin(self.call_tool_unobserved(&name, ask).instrument(span)).await
            }
            Err(error) => Err(error),
        };
        let (result, report) = scope.finish_with_report(called, |result| result.is_error)?;
        Ok(ToolResult { result, report })
    }

    /// Sends `tools/call` with these params and returns the raw result. Unlike
    /// [`Client::request_with`], it calls a tool as a task if that is the only way, and waits for the
    /// task. For programs that relay messages.
    ///
    /// Dropping the future cancels the call or the task on the server.
    // TA-01
    pub async fn request_tool<P: Serialize + ?Sized>(
        &self,
        params: &P,
        options: &CallOptions,
    ) -> Result<Json> {
        let method = method::TOOLS_CALL;
        let params = self.params(method, params)?;
        let meter = &CallMeter::start();
        let ask = CallRequest { method, params: params.as_ref(), options, meter };
        let mut scope = CallScope::begin(self.connection(), ask);
        let called = match scope.pass_layers().await {
            Ok(changed) => {
                let ask = CallRequest { params: changed.as_ref().or(ask.params), ..ask };
                let name = tool_name(method, ask.params).unwrap_or_default();
                match scope.span() {
                    None => self.call_raw_tool(&name, ask).await,
                    Some(span) => Box::pin(self.call_raw_tool(&name, ask).instrument(span)).await,
                }
            }
            Err(error) => Err(error),
        };
        scope.finish(called, |result| CallToolResult::decode(result).is_ok_and(|result| result.is_error))
    }

    async fn call_tool_unobserved(&self, name: &str, ask: CallRequest<'_>) -> Result<CallToolResult> {
        let method = ask.method;
        let result = self.call_raw_tool(name, ask).await?;
        self.connection().server.decode_result(method, &result, CallToolResult::decode(&result))
    }

    async fn call_raw_tool(&self, name: &str, ask: CallRequest<'_>) -> Result<Json> {
        let (connection, method) = (self.connection(), ask.method);
        let (live, left) = connection.link_for_call(method, ask.options, ask.meter).await?;
        let ask = CallRequest { options: left.as_deref().unwrap_or(ask.options), ..ask };
        Feature::Tools.require(connection, &live.peer, method)?;
        match tasks::is_required(connection, &live, name) {
            Some(false) => connection.perform_unobserved(&live, ask).await.map(|(result, _)| result),
            Some(true) => Box::pin(self.call_as_required_task(&live, ask)).await,
            None => Box::pin(self.call_unlisted_tool(&live, name, ask)).await,
        }
    }

    /// Calls a tool of a server whose tools were not listed yet and may require a call as a task.
    /// The list is fetched within the call's own timeout.
    async fn call_unlisted_tool(
        &self,
        live: &Arc<LiveLink>,
        name: &str,
        ask: CallRequest<'_>,
    ) -> Result<Json> {
        let (connection, CallRequest { method, options, .. }) = (self.connection(), ask);
        let begun = clock::now();
        let required = tasks::fetch_is_required(connection, live, name, options).await;
        let left = connection.server.limits(options).total.saturating_sub(clock::elapsed(begun));
        if left.is_zero() {
            return Err(connection
                .server
                .fault_error(method, Fault::before_sending(Cause::Timeout(Limit::Total))));
        }
        let options = CallOptions { total: Some(left), ..options.clone() };
        let ask = CallRequest { options: &options, ..ask };
        if required {
            self.call_as_required_task(live, ask).await
        } else {
            connection.perform_unobserved(live, ask).await.map(|(result, _)| result)
        }
    }
}
