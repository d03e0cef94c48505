//! [`ScriptedModel`]: a model endpoint that has a host call the tools that a test names.
//!
//! | path ends in | interface |
//! |---|---|
//! | `/messages` | Anthropic Messages |
//! | `/chat/completions` | OpenAI chat completions |
//! | `/responses` | OpenAI responses |
//! | `/count_tokens`, `/models` | a constant |
//!
//! A request without tools, such as one for a title, is answered with a text at once. A request with tools waits
//! until the test wants a call or ends the conversation.

mod dialect;
mod reply;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use crate::port_listener::PortListener;
use crate::server_thread::ServerThread;
use dialect::{Dialect, ModelRequest, OfferedTool};
use reply::ModelTurn;

/// A model endpoint on a loopback port, whose turns a test decides one by one.
///
/// # Behavior
///
/// - It runs on its own thread, so it responds while the test waits for a host.
/// - The host gets the calls in the order in which [`call`](Self::call) was called, one in each turn.
/// - A host that sends its request again gets the same call again.
/// - Dropping it closes the port and every connection.
pub struct ScriptedModel {
    addr: SocketAddr,
    core: Arc<ModelCore>,
    _thread: ServerThread,
}

/// What became of a call that the model wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolOutcome {
    /// The host returned this text as the result of the tool.
    Result(String),
    /// The host returned this text and marked it as an error.
    Error(String),
    /// The host offered no tool of this name, but these.
    NotOffered(Vec<String>),
}

impl ScriptedModel {
    /// Starts the endpoint on a free loopback port.
    pub async fn start() -> Self {
        let thread = ServerThread::start("testkit-model");
        let core = Arc::new(ModelCore::default());
        let (spawner, serving) = (thread.spawner.clone(), core.clone());
        let addr = thread
            .run(async move {
                let port = PortListener::reserve(spawner.clone()).expect("a loopback port is free");
                let accept = move |stream| {
                    let core = serving.clone();
                    let service = hyper::service::service_fn(move |request| serve(core.clone(), request));
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    spawner.spawn(connection);
                };
                port.start(accept).await.expect("the port can be listened on");
                port.addr()
            })
            .await;
        Self { addr, core, _thread: thread }
    }

    /// Returns the URL without a path.
    pub fn origin(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Has the host call the offered tool that has this name, behind whatever prefix the host puts before it, and
    /// waits for its result. Canceling the wait does not take the call back.
    pub async fn call(&self, tool: &str, arguments: &Value) -> ToolOutcome {
        let (done, outcome) = oneshot::channel();
        self.core.state.lock().queue.push_back(WantedCall {
            tool: tool.to_owned(),
            arguments: arguments.clone(),
            done,
        });
        self.core.changed.notify_waiters();
        outcome.await.expect("the core keeps every call until it is done")
    }

    /// Ends the conversation: the next turn of the model is a text.
    pub fn finish(&self) {
        self.core.state.lock().is_finished = true;
        self.core.changed.notify_waiters();
    }

    /// Returns the path and body of every request so far, for failure messages.
    pub fn requests(&self) -> Vec<(String, Value)> {
        self.core.state.lock().requests.clone()
    }
}

/// The state of the conversation, shared by all requests.
#[derive(Default)]
struct ModelCore {
    state: Mutex<Conversation>,
    changed: Notify,
}

#[derive(Default)]
struct Conversation {
    queue: VecDeque<WantedCall>,
    current: Option<CurrentCall>,
    calls: usize,
    is_finished: bool,
    requests: Vec<(String, Value)>,
}

/// A call that waits for its turn.
struct WantedCall {
    tool: String,
    arguments: Value,
    done: oneshot::Sender<ToolOutcome>,
}

/// The call that the host was told to make.
struct CurrentCall {
    id: String,
    tool: OfferedTool,
    arguments: Value,
    done: oneshot::Sender<ToolOutcome>,
}

impl ModelCore {
    /// Waits for the next turn of the model.
    async fn next_turn(&self, request: &ModelRequest) -> ModelTurn {
        loop {
            // Registered before the state is read, so that no change is missed.
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(turn) = self.state.lock().take_turn(request) {
                return turn;
            }
            changed.await;
        }
    }
}

impl Conversation {
    fn take_turn(&mut self, request: &ModelRequest) -> Option<ModelTurn> {
        if let Some(call) = self.current.take() {
            let Some(outcome) = request.results.get(&call.id) else {
                let turn = call.turn();
                self.current = Some(call);
                return Some(turn);
            };
            let _ = call.done.send(outcome.clone());
        }
        while let Some(wanted) = self.queue.pop_front() {
            let Some(tool) = request.find_tool(&wanted.tool) else {
                let names = request.tools.iter().map(|tool| tool.name.clone()).collect();
                let _ = wanted.done.send(ToolOutcome::NotOffered(names));
                continue;
            };
            self.calls += 1;
            let id = format!("call_{:04}", self.calls);
            let tool = tool.clone();
            let call = CurrentCall { id, tool, arguments: wanted.arguments, done: wanted.done };
            let turn = call.turn();
            self.current = Some(call);
            return Some(turn);
        }
        self.is_finished.then_some(ModelTurn::Text("done"))
    }
}

impl CurrentCall {
    fn turn(&self) -> ModelTurn {
        ModelTurn::Call { id: self.id.clone(), tool: self.tool.clone(), arguments: self.arguments.clone() }
    }
}

async fn serve(
    core: Arc<ModelCore>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    if request.method() == Method::GET || path.ends_with("/count_tokens") {
        return Ok(json_response(StatusCode::OK, &json!({"data": [], "input_tokens": 1})));
    }
    let body = Limited::new(request.into_body(), MAX_REQUEST_BYTES).collect().await;
    let body = body.ok().and_then(|body| serde_json::from_slice::<Value>(&body.to_bytes()).ok());
    let (Some(dialect), Some(body)) = (Dialect::of_path(&path), body) else {
        return Ok(json_response(StatusCode::NOT_FOUND, &json!({"error": {"message": "no such endpoint"}})));
    };
    let request = dialect.read_request(&body);
    core.state.lock().requests.push((path, body));
    let turn =
        if request.tools.is_empty() { ModelTurn::Text("knots") } else { core.next_turn(&request).await };
    if !request.stream {
        return Ok(json_response(StatusCode::OK, &dialect.write_message(&turn)));
    }
    let events = Full::new(Bytes::from(dialect.write_stream(&turn)));
    let response = Response::builder().header("content-type", "text/event-stream").body(events);
    Ok(response.expect("a valid response"))
}

fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Full::new(Bytes::from(body.to_string()))).expect("a valid response")
}

/// Requests of hosts repeat the conversation, with the schemas of all tools.
const MAX_REQUEST_BYTES: usize = 16 << 20;
