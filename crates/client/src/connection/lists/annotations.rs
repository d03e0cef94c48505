//! The header annotations of tools: which arguments of a call a modern server also wants as HTTP
//! headers (HM-04 to HM-10).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bowline_proto::revision::Era;
use bowline_proto::wire::mirror::HeaderAnnotations;
use bowline_proto::wire::view::Tool;
use bowline_proto::wire::{Json, method};
use http::{HeaderMap, HeaderName};

use super::Lists;
use crate::connection::link::headers;
use crate::connection::{CallOptions, Connection, LiveLink};

impl Lists {
    pub(crate) fn call_headers<'a>(
        &self,
        live: &LiveLink,
        base: &'a HeaderMap,
        method: &str,
        params: Option<&Json>,
    ) -> Cow<'a, HeaderMap> {
        if live.peer.era() == Era::Legacy {
            return Cow::Borrowed(base);
        }
        let mut headers = headers::modern(base.clone(), method, params);
        if method == method::TOOLS_CALL {
            for (name, value) in self.param_headers(params) {
                if let Ok(name) = HeaderName::try_from(name) {
                    headers::insert(&mut headers, name, &value);
                }
            }
        }
        Cow::Owned(headers)
    }

    fn param_headers(&self, params: Option<&Json>) -> Vec<(String, String)> {
        let annotations = self.annotations.lock();
        if annotations.is_empty() {
            return Vec::new();
        }
        let member = |name| params.and_then(|params| params.member(name));
        let Some(Ok(name)) = member("name").map(|name| name.decode::<String>()) else { return Vec::new() };
        match (annotations.get(&*name), member("arguments")) {
            (Some(annotations), Some(arguments)) => annotations.headers(&arguments),
            _ => Vec::new(),
        }
    }

    /// Records the header annotations of a new tool list and removes tools whose annotations are
    /// invalid (HM-04, HM-05). Only modern HTTP mirrors parameters into headers.
    pub(super) fn record_annotations(&self, server: &str, live: &LiveLink, tools: Vec<Tool>) -> Vec<Tool> {
        if live.peer.era() == Era::Legacy || live.wire.is_pipe() {
            return tools;
        }
        let mut kept = HashMap::new();
        let tools = tools
            .into_iter()
            .filter(|tool| match HeaderAnnotations::from_schema(&tool.input_schema) {
                Ok(annotations) => {
                    if !annotations.is_empty() {
                        kept.insert(tool.name.clone(), annotations);
                    }
                    true
                }
                Err(reason) => {
                    tracing::warn!(server, tool = %tool.name, %reason, "a tool with an invalid header annotation is left out");
                    false
                }
            })
            .collect();
        *self.annotations.lock() = kept;
        tools
    }
}

impl Connection {
    /// Lists the tools for their annotations. On failure the old ones stay, and the retry surfaces
    /// the error that matters.
    pub(crate) async fn refresh_annotations(self: &Arc<Self>, live: &Arc<LiveLink>) {
        self.lists.invalidate_list(method::TOOLS_LIST);
        if let Err(error) = Box::pin(self.list_tools(live, &CallOptions::background())).await {
            tracing::debug!(server = %self.server.name, %error, "the tool list could not be refreshed");
        }
    }
}
