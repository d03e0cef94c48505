//! How the fake server answers a message, on any transport.

mod parked_calls;
mod sessions;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use self::parked_calls::ParkedCall;
pub(crate) use self::sessions::STREAM_SESSION;
use self::sessions::Session;
use crate::control::ReceivedMessage;
use crate::fake_server::{FakeEra, FakeServer, FakeTool};
use crate::listeners::{Audience, Change, Listeners, Notifications, SUBSCRIPTION_KEY};
use crate::request_outcome::{
    INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, RequestOutcome,
    UNSUPPORTED_VERSION, notification, request,
};
use crate::running_call::{CallEvent, RunningCall};
use crate::tool::ToolError;

pub(crate) struct Engine {
    pub(crate) script: FakeServer,
    pub(crate) state: Mutex<EngineState>,
}

#[derive(Default)]
pub(crate) struct EngineState {
    pub(crate) received: Vec<ReceivedMessage>,
    /// Name and arguments of each call that ran a tool.
    pub(crate) calls: Vec<(String, Value)>,
    pub(crate) faults: ArmedFaults,
    pub(crate) listeners: Listeners,
    /// The open legacy sessions by id; over byte streams only [`STREAM_SESSION`].
    sessions: HashMap<String, Session>,
    /// The texts of resources that were updated.
    updated_texts: HashMap<String, String>,
    removed_tools: HashSet<String>,
    /// Requests of ours that wait for a response, by id.
    questions: HashMap<u64, QuestionReply>,
    /// Modern calls that wait for input, by `requestState`.
    parked: HashMap<String, ParkedCall>,
    /// Whether the server has ended for good. Then no call is parked any more.
    has_ended: bool,
    last_number: u64,
}

/// The faults of the next request.
#[derive(Clone, Copy, Default)]
pub(crate) struct ArmedFaults {
    pub(crate) cut: bool,
    pub(crate) delay: Option<Duration>,
    pub(crate) unauthorized: bool,
}

type QuestionReply = oneshot::Sender<Result<Value, ToolError>>;

/// How a request is answered.
pub(crate) enum Response {
    /// At once.
    Ready(RequestOutcome),
    /// By a running call, which may send messages first.
    Running(CallInProgress),
    /// By a subscription: this message, and then the notifications.
    Subscription(Value, Notifications),
}

pub(crate) struct CallInProgress {
    call: RunningCall,
    request_id: Value,
    /// The client's capabilities.
    capabilities: Value,
}

impl Engine {
    pub(crate) fn new(script: FakeServer) -> Self {
        Self { script, state: Mutex::default() }
    }

    /// Records a message, and takes the faults that are armed for it if it is a request.
    pub(crate) fn receive(&self, message: &Value) -> ArmedFaults {
        let mut state = self.state.lock();
        let Some(method) = message["method"].as_str() else { return ArmedFaults::default() };
        state.received.push(ReceivedMessage { method: method.to_owned(), params: message["params"].clone() });
        if message["id"].is_null() { ArmedFaults::default() } else { mem::take(&mut state.faults) }
    }

    /// Takes the response to a request of ours.
    pub(crate) fn handle_response(&self, message: &Value) {
        let question = message["id"].as_u64().and_then(|id| self.state.lock().questions.remove(&id));
        if let Some(reply) = question {
            // The call may have been given up meanwhile.
            let _ = reply.send(match message.get("error") {
                Some(error) => Err(ToolError::new(error["message"].as_str().unwrap_or("an error"))),
                None => Ok(message["result"].clone()),
            });
        }
    }

    /// Starts to answer a request other than `initialize`. `session` is the id of the legacy session;
    /// in the modern era it is ignored.
    pub(crate) fn start(&self, session: &str, message: &Value) -> Response {
        let params = &message["params"];
        let method = message["method"].as_str().unwrap_or_default();
        let capabilities = match self.script.era {
            FakeEra::Legacy => self.client_capabilities(session),
            FakeEra::Modern => {
                if params["_meta"][VERSION_KEY] != FakeEra::Modern.revision() {
                    return Response::Ready(self.unsupported_version());
                }
                params["_meta"][CAPABILITIES_KEY].clone()
            }
        };
        if method == "tools/call" {
            return self.start_call(&message["id"], params, capabilities);
        }
        if method == "subscriptions/listen" && self.script.era == FakeEra::Modern {
            return self.subscribe(&message["id"], &params["notifications"]);
        }
        Response::Ready(self.complete(self.answer(session, method, params)))
    }

    /// Runs a call to its response. `emit` sends a message that comes before it.
    pub(crate) async fn finish(
        self: &Arc<Self>,
        running: CallInProgress,
        mut emit: impl FnMut(Value) + Send,
    ) -> RequestOutcome {
        let CallInProgress { mut call, request_id, capabilities } = running;
        loop {
            match call.next().await {
                CallEvent::Progress(mut params) => {
                    if let Some(token) = &call.progress_token {
                        params["progressToken"] = token.clone();
                        emit(notification("notifications/progress", params));
                    }
                }
                CallEvent::Ask { method, reply, .. } if !is_declared(&capabilities, &method) => {
                    // The tool may have ended meanwhile.
                    let _ = reply.send(Err(ToolError::new(format!("the client does not offer {method}"))));
                }
                CallEvent::Ask { method, params, reply } => match self.script.era {
                    FakeEra::Legacy => {
                        let id = self.next_number();
                        let mut state = self.state.lock();
                        state.questions.retain(|_, reply| !reply.is_closed());
                        state.questions.insert(id, reply);
                        drop(state);
                        emit(request(id, &method, params));
                    }
                    FakeEra::Modern => return self.park(call, request_id, &method, &params, reply),
                },
                CallEvent::Done(answer) => return self.complete(answer),
            }
        }
    }

    /// Drops what does not survive a restart. Questions stay, so that a tool that waits for an answer
    /// does not go on before its connection is closed.
    pub(crate) fn clear_live_state(&self) {
        let mut state = self.state.lock();
        state.sessions.clear();
        state.listeners.clear();
        let dropped = mem::take(&mut state.parked);
        // A tool that is dropped may use the handle of the server.
        drop(state);
        drop(dropped);
    }

    /// Ends the server for good: drops the calls that wait for input, and lets none wait again.
    pub(crate) fn end(&self) {
        self.state.lock().has_ended = true;
        self.clear_live_state();
    }

    /// Removes a tool from the list, or puts it back.
    pub(crate) fn set_tool_removed(&self, name: &str, removed: bool) {
        assert!(
            self.script.tools.iter().any(|tool| tool.definition["name"] == name),
            "there is no tool {name}"
        );
        let mut state = self.state.lock();
        let changed = if removed {
            state.removed_tools.insert(name.to_owned())
        } else {
            state.removed_tools.remove(name)
        };
        if changed {
            let (method, flag) = ("notifications/tools/list_changed", "toolsListChanged");
            // Before the first message there is nobody who knows the list.
            let keep = !state.received.is_empty();
            state.listeners.announce(Change { method, flag, uri: None, session: None }, keep);
        }
    }

    /// Opens a modern subscription with what the server offers of the requested filter.
    fn subscribe(&self, id: &Value, requested: &Value) -> Response {
        let offered = |kind: &str| match kind {
            "toolsListChanged" => true,
            "resourceSubscriptions" => !self.script.resources.is_empty(),
            _ => false,
        };
        let requested = requested.as_object().cloned().unwrap_or_default();
        let filter: Value = requested.into_iter().filter(|(kind, _)| offered(kind)).collect();
        let params = json!({ "_meta": { SUBSCRIPTION_KEY: id }, "notifications": filter });
        let audience = Audience::Subscription { id: id.clone(), filter };
        let notifications = self.state.lock().listeners.listen(audience);
        Response::Subscription(
            notification("notifications/subscriptions/acknowledged", params),
            notifications,
        )
    }

    pub(crate) fn next_number(&self) -> u64 {
        let mut state = self.state.lock();
        state.last_number += 1;
        state.last_number
    }

    fn start_call(&self, id: &Value, params: &Value, capabilities: Value) -> Response {
        let name = params["name"].as_str().unwrap_or_default();
        let Some(tool) = self.offered_tools().find(|tool| tool.definition["name"] == name) else {
            return Response::Ready(RequestOutcome::error(INVALID_PARAMS, format!("Unknown tool: {name}")));
        };
        let call = if let Some(state) = params["requestState"].as_str() {
            let Some(call) = self.resume(state, params) else {
                return Response::Ready(RequestOutcome::error(INVALID_PARAMS, "Unknown requestState"));
            };
            call
        } else {
            let arguments = params.get("arguments").cloned().unwrap_or_else(|| Map::new().into());
            self.state.lock().calls.push((name.to_owned(), arguments.clone()));
            tool.call(arguments, params["_meta"].get("progressToken").cloned())
        };
        Response::Running(CallInProgress { call, request_id: id.clone(), capabilities })
    }

    fn answer(&self, session: &str, method: &str, params: &Value) -> RequestOutcome {
        let legacy = self.script.era == FakeEra::Legacy;
        let script = &self.script;
        RequestOutcome::Result(match method {
            "ping" if legacy => json!({}),
            "server/discover" if !legacy => {
                let mut result = json!({
                    "supportedVersions": [script.era.revision()],
                    "capabilities": self.capabilities(),
                });
                if let Some(instructions) = &script.instructions {
                    result["instructions"] = instructions.as_str().into();
                }
                result
            }
            "tools/list" => {
                let tools: Vec<_> = self.offered_tools().map(|tool| &tool.definition).collect();
                json!({ "tools": tools })
            }
            "prompts/list" => {
                let prompts: Vec<_> =
                    script.prompts.iter().map(|prompt| json!({ "name": prompt.name })).collect();
                json!({ "prompts": prompts })
            }
            "resources/list" => {
                let list = script.resources.iter().map(
                    |resource| json!({ "uri": resource.uri, "name": resource.uri, "mimeType": "text/plain" }),
                );
                json!({ "resources": list.collect::<Vec<_>>() })
            }
            "resources/templates/list" => json!({ "resourceTemplates": [] }),
            "prompts/get" => return self.expand_prompt(params),
            "resources/read" => return self.read_resource(params),
            "resources/subscribe" if legacy => {
                self.subscribe_session(session, params["uri"].as_str().unwrap_or_default());
                json!({})
            }
            "resources/unsubscribe" if legacy => {
                self.unsubscribe_session(session, params["uri"].as_str().unwrap_or_default());
                json!({})
            }
            _ => return RequestOutcome::error(METHOD_NOT_FOUND, format!("Method not found: {method}")),
        })
    }

    fn offered_tools(&self) -> impl Iterator<Item = &FakeTool> {
        let removed = self.state.lock().removed_tools.clone();
        self.script
            .tools
            .iter()
            .filter(move |tool| tool.definition["name"].as_str().is_none_or(|name| !removed.contains(name)))
    }

    fn expand_prompt(&self, params: &Value) -> RequestOutcome {
        let name = params["name"].as_str().unwrap_or_default();
        let Some(prompt) = self.script.prompts.iter().find(|prompt| prompt.name == name) else {
            return RequestOutcome::error(INVALID_PARAMS, format!("Unknown prompt: {name}"));
        };
        let arguments = params.get("arguments").cloned().unwrap_or_else(|| Map::new().into());
        let Ok(text) = catch_unwind(AssertUnwindSafe(|| (prompt.expand)(arguments))) else {
            return RequestOutcome::error(INTERNAL_ERROR, format!("the prompt `{name}` panicked"));
        };
        let content = json!({ "type": "text", "text": text });
        RequestOutcome::Result(json!({ "messages": [{ "role": "user", "content": content }] }))
    }

    fn read_resource(&self, params: &Value) -> RequestOutcome {
        let uri = params["uri"].as_str().unwrap_or_default();
        let Some(resource) = self.script.resources.iter().find(|resource| resource.uri == uri) else {
            let code = match self.script.era {
                FakeEra::Legacy => RESOURCE_NOT_FOUND,
                FakeEra::Modern => INVALID_PARAMS,
            };
            return RequestOutcome::error(code, "Resource not found");
        };
        let state = self.state.lock();
        let text = state.updated_texts.get(uri).unwrap_or(&resource.text);
        RequestOutcome::Result(json!({
            "contents": [{ "uri": resource.uri, "mimeType": "text/plain", "text": text }],
        }))
    }

    fn capabilities(&self) -> Value {
        let mut capabilities = json!({ "tools": { "listChanged": true } });
        if !self.script.prompts.is_empty() {
            capabilities["prompts"] = json!({});
        }
        if !self.script.resources.is_empty() {
            capabilities["resources"] = json!({ "subscribe": true });
        }
        capabilities
    }

    fn server_info(&self) -> Value {
        json!({ "name": self.script.name, "version": env!("CARGO_PKG_VERSION") })
    }

    fn unsupported_version(&self) -> RequestOutcome {
        let data = json!({ "supported": [self.script.era.revision()] });
        RequestOutcome::Error {
            code: UNSUPPORTED_VERSION,
            message: "Unsupported protocol version".to_owned(),
            data: Some(data),
        }
    }

    /// Adds the members that every modern result has.
    fn complete(&self, answer: RequestOutcome) -> RequestOutcome {
        match answer {
            RequestOutcome::Result(mut result) if self.script.era == FakeEra::Modern => {
                if result["resultType"].is_null() {
                    result["resultType"] = "complete".into();
                }
                result["_meta"][SERVER_INFO_KEY] = self.server_info();
                RequestOutcome::Result(result)
            }
            answer => answer,
        }
    }
}

/// Whether the client declared the capability that a request to it needs.
fn is_declared(capabilities: &Value, method: &str) -> bool {
    let capability = match method {
        "elicitation/create" => "elicitation",
        "sampling/createMessage" => "sampling",
        "roots/list" => "roots",
        _ => return true,
    };
    capabilities.get(capability).is_some()
}

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
