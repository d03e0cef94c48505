//! A basic server made with rmcp, of either era: tools, prompts, resources and one elicitation.

use std::borrow::Cow;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, DiscoverResult, ElicitRequest,
    ElicitRequestParams, GetPromptRequestParams, GetPromptResponse, GetPromptResult, InputRequest,
    InputRequests, InputRequiredResult, ListPromptsResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The server. Clones share their counters.
#[derive(Clone)]
pub(crate) struct BasicServer {
    versions: Cow<'static, [ProtocolVersion]>,
    /// The number of started calls of `hang`, and how many of them were canceled.
    counts: watch::Sender<(i64, i64)>,
    discover_delay: Duration,
}

impl BasicServer {
    /// Makes a server that speaks only these revisions.
    pub(crate) fn new(versions: impl Into<Cow<'static, [ProtocolVersion]>>) -> Self {
        Self { versions: versions.into(), counts: watch::Sender::default(), discover_delay: Duration::ZERO }
    }

    /// Delays each response to `server/discover`.
    pub(crate) fn with_discover_delay(self, slowness: Duration) -> Self {
        Self { discover_delay: slowness, ..self }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name));
        let integer = |name: &str| argument(name).and_then(Value::as_i64).unwrap_or_default();
        match &*request.name {
            "add" => {
                let sum = json!({ "sum": integer("a") + integer("b") });
                Ok(CallToolResult::structured(sum).into())
            }
            "kinds" => Ok(CallToolResult::success(kinds()).into()),
            "fail" => Ok(CallToolResult::error(vec![ContentBlock::text("it slipped")]).into()),
            "count" => count(integer("to"), &context).await,
            "hang" => {
                self.counts.send_modify(|(began, _)| *began += 1);
                context.ct.cancelled().await;
                self.counts.send_modify(|(_, cancelled)| *cancelled += 1);
                Err(ErrorData::internal_error("cancelled", None))
            }
            // Answers once this many calls of `hang` have started and been canceled.
            "hung" => {
                let wanted = (integer("began"), integer("cancelled"));
                let seen =
                    self.counts.subscribe().wait_for(|counts| *counts == wanted).await.map(|seen| *seen);
                seen.map_err(|_| ErrorData::internal_error("the server ends", None))?;
                Ok(text("so it is".to_owned()))
            }
            "route" => Ok(text(header(&context, "mcp-param-region").unwrap_or_else(|| "none".into()))),
            "greet" => greet(&request, &context).await,
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }
}

impl ServerHandler for BasicServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources().build();
        let mut info = ServerConfig::new(capabilities).with_instructions("Tie them tight.");
        info.server_info = decode(json!({ "name": "knots", "version": "1.2.3", "title": "Knots" }));
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.versions.clone()
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        tokio::time::sleep(self.discover_delay).await;
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), self.get_info()))
    }

    /// PA-02: three pages; the cursor of the second one is the empty string.
    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (page, next) = match request.and_then(|request| request.cursor).as_deref() {
            None => (0..3, Some("")),
            Some("") => (3..6, Some("last")),
            Some("last") => (6..TOOLS.len(), None),
            Some(_) => return Err(ErrorData::invalid_params("no such cursor", None)),
        };
        let tools: Vec<Value> = TOOLS[page].iter().map(|name| tool(name)).collect();
        Ok(decode(json!({ "tools": tools, "nextCursor": next })))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.contains(&name).then(|| decode(tool(name)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(decode(json!({ "resources": [{ "uri": "knot://bowline", "name": "bowline", "size": 9 }] })))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != "knot://bowline" {
            return Err(ErrorData::resource_not_found("no such knot", None));
        }
        let result: ReadResourceResult = decode(json!({ "contents": [
            { "uri": "knot://bowline/words", "mimeType": "text/plain", "text": "up the hole" },
            { "uri": "knot://bowline/picture", "mimeType": "image/png", "blob": "AAEC" },
        ] }));
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let arguments = json!([{ "name": "knot", "required": true }]);
        Ok(decode(json!({ "prompts": [{ "name": "teach", "arguments": arguments }] })))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let knot = request.arguments.as_ref().and_then(|all| all.get("knot")?.as_str());
        let knot = knot.ok_or_else(|| ErrorData::invalid_params("which knot?", None))?;
        let content = json!({ "type": "text", "text": format!("Teach me {knot}") });
        let result: GetPromptResult = decode(json!({ "messages": [{ "role": "user", "content": content }] }));
        Ok(result.into())
    }
}

/// The names of the tools, in listing order.
pub(crate) const TOOLS: [&str; 8] = ["add", "kinds", "fail", "count", "hang", "hung", "route", "greet"];

fn tool(name: &str) -> Value {
    let mut tool = json!({ "name": name, "inputSchema": { "type": "object" } });
    match name {
        "add" => {
            tool["outputSchema"] =
                json!({ "type": "object", "properties": { "sum": { "type": "integer" } } });
        }
        "route" => {
            tool["inputSchema"]["properties"] =
                json!({ "region": { "type": "string", "x-mcp-header": "Region" } });
        }
        _ => {}
    }
    tool
}

fn kinds() -> Vec<ContentBlock> {
    vec![
        ContentBlock::text("a knot 🪢"),
        ContentBlock::image("AAEC", "image/png"),
        ContentBlock::audio("AwQF", "audio/wav"),
        decode(json!({ "type": "resource_link", "uri": "knot://bowline", "name": "bowline" })),
        ContentBlock::embedded_text("knot://bowline/words", "up the hole"),
    ]
}

async fn count(to: i64, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let token = context.meta.get_progress_token();
    let token = token.ok_or_else(|| ErrorData::invalid_params("no progress token", None))?;
    for step in 1..=i32::try_from(to).unwrap_or_default() {
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(step))
            .with_total(f64::from(step) * 2.0)
            .with_message(format!("step {step}"));
        let sent = context.peer.notify_progress(progress).await;
        sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    }
    Ok(text("counted".to_owned()))
}

/// Asks for a name: with its own request in the legacy era, with `input_required` in the modern
/// one.
async fn greet(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    // MR-04: characters that a client might normalize.
    const STATE: &str = "st.ate/with+odd=  \"bytes\"\n\t\u{7f}é";
    let params: ElicitRequestParams = decode(json!({
        "mode": "form",
        "message": "Who are you?",
        "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
    }));
    if context.protocol_version().is_none_or(|version| version < ProtocolVersion::V_2026_07_28) {
        let answer = context.peer.create_elicitation(params).await;
        let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let name = answer.content.as_ref().and_then(|content| content["name"].as_str());
        return Ok(text(format!("hello {}", name.unwrap_or("stranger"))));
    }
    let Some(responses) = &request.input_responses else {
        let mut requests = InputRequests::new();
        requests.insert("who".to_owned(), InputRequest::Elicitation(ElicitRequest::new(params)));
        return Ok(InputRequiredResult::new(Some(requests), Some(STATE.into())).into());
    };
    if request.request_state.as_deref() != Some(STATE) {
        return Err(ErrorData::invalid_params("the state came back changed", None));
    }
    let name = responses.get("who").and_then(|answer| answer["content"]["name"].as_str());
    Ok(text(format!("hello {}", name.unwrap_or("stranger"))))
}

fn header(context: &RequestContext<RoleServer>, name: &str) -> Option<String> {
    let parts = context.extensions.get::<http::request::Parts>()?;
    Some(parts.headers.get(name)?.to_str().ok()?.to_owned())
}

fn text(text: String) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// Decodes a value of rmcp from its wire form, which is easier to read than rmcp's builders.
fn decode<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("the shape that rmcp knows")
}
