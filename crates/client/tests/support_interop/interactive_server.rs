//! An interactive server made with rmcp, of either era: server requests, notifications, log lines,
//! completion and tasks.
#![expect(deprecated, reason = "rmcp marks as such whatever one era has and the other has not")]

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestParams,
    CompleteResult, ContentBlock, CreateTaskResult, ElicitRequest, GetTaskParams, GetTaskResult,
    InputRequest, InputRequests, InputRequiredResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams, PingRequest,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, ServerRequest, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskManager, TaskOptions};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The server. Clones share their state.
#[derive(Clone, Default)]
pub(crate) struct InteractiveServer {
    state: watch::Sender<State>,
    tasks: TaskManager,
}

#[derive(Default)]
struct State {
    level: Option<LoggingLevel>,
    load_count: i64,
    added_tools: Vec<String>,
    tool_list_count: i64,
    /// Set when the open elicitation is to be canceled.
    is_question_withdrawn: bool,
    /// The subscribers: resources in the legacy era, streams in the modern one.
    subscribers: Vec<(Peer<RoleServer>, String)>,
    listeners: Vec<SubscriptionSink>,
}

impl State {
    /// Returns whether anybody is subscribed to a resource.
    fn is_subscribed(&self, uri: &str) -> bool {
        let accepts =
            |sink: &SubscriptionSink| sink.accepted().resource_subscriptions.clone().unwrap_or_default();
        self.subscribers.iter().any(|(_, of)| of == uri)
            || self.listeners.iter().any(|sink| accepts(sink).iter().any(|of| of == uri))
    }
}

impl InteractiveServer {
    /// Changes a resource and notifies its subscribers, once there is one: rmcp acknowledges a
    /// subscription before it registers it, so a quick caller can be here first.
    async fn load(&self, uri: &str) -> Result<CallToolResponse, ErrorData> {
        self.state.send_modify(|state| state.load_count += 1);
        let mut state = self.state.subscribe();
        let (subscribers, listeners) = {
            let state = to_error_data(state.wait_for(|state| state.is_subscribed(uri)).await)?;
            (state.subscribers.clone(), state.listeners.clone())
        };
        for (peer, _) in subscribers.iter().filter(|(_, of)| of == uri) {
            to_error_data(peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await)?;
        }
        for sink in listeners {
            // Not all of these streams include the resource, and some have closed.
            let _ = sink.notify_resource_updated(uri).await;
        }
        Ok(text("loaded".into()))
    }

    /// Adds a tool and announces the changed list.
    async fn rig(
        &self,
        name: String,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.state.send_modify(|state| state.added_tools.push(name));
        if is_modern(context) {
            let hears = |sink: &SubscriptionSink| sink.accepted().tools_list_changed == Some(true);
            let mut state = self.state.subscribe();
            let listeners = {
                let state = to_error_data(state.wait_for(|state| state.listeners.iter().any(hears)).await)?;
                state.listeners.clone()
            };
            for sink in listeners {
                let _ = sink.notify_tool_list_changed().await;
            }
        } else {
            to_error_data(context.peer.notify_tool_list_changed().await)?;
        }
        Ok(text("rigged".into()))
    }

    /// Writes four log lines of rising severity.
    async fn mumble(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let least = if is_modern(context) { context.meta.log_level() } else { self.state.borrow().level };
        for level in [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Warning, LoggingLevel::Error] {
            if least.is_some_and(|least| level as u8 >= least as u8) {
                let said = LoggingMessageNotificationParam::new(level, json!("mumble"));
                to_error_data(context.peer.notify_logging_message(said).await)?;
            }
        }
        Ok(text("mumbled".into()))
    }

    /// Starts an elicitation and cancels it when the `enough` tool is called.
    async fn hesitate(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let question = ServerRequest::ElicitRequest(ElicitRequest::new(decode(form())));
        let options = PeerRequestOptions::no_options();
        let open = to_error_data(context.peer.send_cancellable_request(question, options).await)?;
        to_error_data(self.state.subscribe().wait_for(|state| state.is_question_withdrawn).await.map(drop))?;
        to_error_data(open.cancel(Some("never mind".into())).await)?;
        Ok(text("took it back".into()))
    }
}

impl ServerHandler for InteractiveServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_extensions()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.state.send_modify(|state| state.tool_list_count += 1);
        let state = self.state.borrow();
        let names =
            ["consult", "load", "rig", "mumble", "splice", "lists", "hesitate", "enough", "ping", "delegate"]
                .map(String::from);
        let names = names.iter().chain(&state.added_tools);
        let tools: Vec<Value> =
            names.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect();
        Ok(decode(json!({ "tools": tools, "ttlMs": 60_000, "cacheScope": "private" })))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name)?.as_str());
        match &*request.name {
            "consult" => consult(&request, &context).await,
            "load" => self.load(argument("uri").unwrap_or_default()).await,
            "rig" => self.rig(argument("name").unwrap_or_default().to_owned(), &context).await,
            "mumble" => self.mumble(&context).await,
            "splice" => {
                let options = TaskOptions::new().with_poll_interval_ms(50);
                Ok(CallToolResponse::Task(CreateTaskResult::new(self.tasks.spawn(options, splice))))
            }
            "lists" => Ok(text(self.state.borrow().tool_list_count.to_string())),
            "hesitate" => self.hesitate(&context).await,
            "enough" => {
                self.state.send_modify(|state| state.is_question_withdrawn = true);
                Ok(text("enough".into()))
            }
            "ping" => {
                let ping = ServerRequest::PingRequest(PingRequest::default());
                to_error_data(context.peer.send_request(ping).await).map(|_| text("pong".into()))
            }
            "delegate" => delegate(&context).await,
            other => Ok(text(format!("{other} is rigged"))),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(decode(json!({ "resources": [{ "uri": "rig://load", "name": "load" }] })))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(decode(
            json!({ "resourceTemplates": [{ "uriTemplate": "rig://mast{/deck}{?height*}", "name": "mast" }] }),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match &*request.uri {
            "rig://load" => self.state.borrow().load_count.to_string(),
            other => format!("asked for {other}"),
        };
        let result: ReadResourceResult =
            decode(json!({ "contents": [{ "uri": request.uri, "text": text }] }));
        Ok(result.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let chosen = request.context.and_then(|context| context.arguments?.get("deck").cloned());
        let known = match (&*request.argument.name, chosen.as_deref()) {
            ("deck", _) => ["gun", "poop"],
            (_, Some("gun")) => ["12", "15"],
            _ => ["30", "31"],
        };
        let values: Vec<&str> =
            known.into_iter().filter(|value| value.starts_with(&request.argument.value)).collect();
        Ok(decode(json!({ "completion": { "values": values, "total": values.len(), "hasMore": false } })))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.state.send_modify(|state| state.level = Some(request.level));
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.state.send_modify(|state| state.subscribers.push((context.peer, request.uri)));
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.state.send_modify(|state| state.subscribers.retain(|(_, uri)| *uri != request.uri));
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.state.send_modify(|state| state.listeners.push(context.sink().clone()));
        context.cancelled().await;
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

/// Requests an elicitation, a sampling and the roots: in one round in the modern era, one by one in
/// the legacy one.
async fn consult(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let question = json!([{ "role": "user", "content": { "type": "text", "text": "Which knot?" } }]);
    let question = json!({ "messages": question, "maxTokens": 9 });
    if !is_modern(context) {
        let who = to_error_data(context.peer.create_elicitation(decode(form())).await)?;
        let advice = to_error_data(context.peer.create_message(decode(question)).await)?;
        let roots = to_error_data(context.peer.list_roots().await)?;
        return Ok(consult_result(&to_value(&who), &to_value(&advice), &to_value(&roots)));
    }
    let Some(answers) = &request.input_responses else {
        let mut requests = InputRequests::new();
        requests.insert("who".into(), input_request("elicitation/create", form()));
        requests.insert("model".into(), input_request("sampling/createMessage", question));
        requests.insert("where".into(), input_request("roots/list", json!({})));
        return Ok(InputRequiredResult::new(Some(requests), None).into());
    };
    Ok(consult_result(&answers["who"], &answers["model"], &answers["where"]))
}

/// Formats the three responses as the tool's result.
fn consult_result(who: &Value, advice: &Value, roots: &Value) -> CallToolResponse {
    let name = who["content"]["name"].as_str().unwrap_or("nobody");
    // A single content block may be an object instead of an array.
    let block = if advice["content"].is_array() { &advice["content"][0] } else { &advice["content"] };
    text(format!("{name}: {} ({})", block["text"].as_str().unwrap_or("nothing"), roots["roots"][0]["name"]))
}

/// Samples a model that uses a tool, and samples again with the tool's result.
async fn delegate(context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let tool = json!({ "name": "measure", "inputSchema": { "type": "object" } });
    let mut messages = vec![json!({ "role": "user", "content": { "type": "text", "text": "How long?" } })];
    let ask = async |messages: &[Value]| {
        let params = json!({ "messages": messages, "maxTokens": 9, "tools": [tool] });
        to_error_data(context.peer.create_message(decode(params)).await).map(|answer| to_value(&answer))
    };
    let answer = ask(&messages).await?;
    let blocks =
        if answer["content"].is_array() { answer["content"].clone() } else { json!([answer["content"]]) };
    let uses = blocks.as_array().into_iter().flatten().filter(|block| block["type"] == "tool_use");
    let results: Vec<Value> = uses
        .map(|used| {
            let measured = json!([{ "type": "text", "text": format!("7 {}", used["input"]["unit"]) }]);
            json!({ "type": "tool_result", "toolUseId": used["id"], "content": measured })
        })
        .collect();
    messages.push(json!({ "role": "assistant", "content": blocks }));
    messages.push(json!({ "role": "user", "content": results }));
    let answer = ask(&messages).await?;
    let block = if answer["content"].is_array() { &answer["content"][0] } else { &answer["content"] };
    Ok(text(block["text"].as_str().unwrap_or("nothing").to_owned()))
}

/// A task that elicits a name, and is canceled without one.
fn splice(task: TaskContext) -> TaskFuture {
    Box::pin(async move {
        let answer = task.request_input("who", input_request("elicitation/create", form())).await?;
        match answer["content"]["name"].as_str() {
            Some(name) => {
                Ok(CallToolResult::success(vec![ContentBlock::text(format!("spliced for {name}"))]))
            }
            None => Err(TaskExit::Cancelled),
        }
    })
}

fn form() -> Value {
    let schema =
        json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    json!({ "mode": "form", "message": "For whom?", "requestedSchema": schema })
}

fn input_request(method: &str, params: Value) -> InputRequest {
    decode(json!({ "method": method, "params": params }))
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn to_error_data<T>(sent: Result<T, impl ToString>) -> Result<T, ErrorData> {
    sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(text: String) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn to_value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("what rmcp has read can be written")
}

/// Decodes a value of rmcp from its wire form, which is easier to read than rmcp's builders.
fn decode<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("the shape that rmcp knows")
}
