//! Decides which MCP headers a request carries (groups HL and HM).

use std::borrow::Cow;
use std::sync::Arc;

use bowline_proto::revision::{Era, Revision};
use bowline_proto::wire::view::Tool;
use bowline_proto::wire::{Json, method, mirror};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::connection::{CallOptions, LiveLink, Shared};
use crate::sync::lock;

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The headers that all requests of a connection share once the revision is agreed.
pub(crate) fn base(revision: Revision, session: Option<&HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // HL-01: 2025-03-26 has no such header, and servers of that age may refuse it.
    if revision.has_version_header() {
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
    }
    // HL-02, DE-12: never on a modern connection.
    if let Some(session) = session.filter(|_| revision.era() == Era::Legacy) {
        let mut session = session.clone();
        session.set_sensitive(true);
        headers.insert(SESSION_ID, session);
    }
    headers
}

/// The headers of a modern request (HM-01 to HM-03).
pub(crate) fn modern(mut headers: HeaderMap, method: &str, params: Option<&Json>) -> HeaderMap {
    insert(&mut headers, METHOD, method);
    let name = mirror::name_param(method).and_then(|member| params?.member(member));
    if let Some(name) = name.and_then(|name| name.decode::<String>().ok()) {
        insert(&mut headers, NAME, &mirror::encode_value(&name));
    }
    headers
}

impl Shared {
    /// The headers of one call.
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
        let mut headers = modern(base.clone(), method, params);
        if method == method::TOOLS_CALL {
            for (name, value) in self.param_headers(params) {
                if let Ok(name) = HeaderName::try_from(name) {
                    insert(&mut headers, name, &value);
                }
            }
        }
        Cow::Owned(headers)
    }

    fn param_headers(&self, params: Option<&Json>) -> Vec<(String, String)> {
        let annotations = lock(&self.annotations);
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
    pub(crate) fn record_annotations(&self, live: &LiveLink, tools: Vec<Tool>) -> Vec<Tool> {
        if live.peer.era() == Era::Legacy || matches!(live.wire, crate::connection::Wire::Pipe(_)) {
            return tools;
        }
        let mut kept = std::collections::HashMap::new();
        let tools = tools
            .into_iter()
            .filter(|tool| match mirror::HeaderAnnotations::from_schema(&tool.input_schema) {
                Ok(annotations) => {
                    if !annotations.is_empty() {
                        kept.insert(tool.name.clone(), annotations);
                    }
                    true
                }
                Err(reason) => {
                    tracing::warn!(server = %self.name, tool = %tool.name, %reason, "a tool with an invalid header annotation is left out");
                    false
                }
            })
            .collect();
        *lock(&self.annotations) = kept;
        tools
    }

    /// Lists the tools for their annotations. On failure the old ones stay, and the retry surfaces
    /// the error that matters.
    pub(crate) async fn refresh_annotations(self: &Arc<Self>, live: &Arc<LiveLink>) {
        self.invalidate_list(method::TOOLS_LIST);
        if let Err(error) =
            Box::pin(crate::features::tools::list_tools(self, live, &CallOptions::background())).await
        {
            tracing::debug!(server = %self.name, %error, "the tool list could not be refreshed");
        }
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // Values are encoded or are method names. Whatever still is no valid header value (a method
    // that a caller made up) is left out.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
