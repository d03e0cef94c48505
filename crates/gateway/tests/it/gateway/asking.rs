//! What servers ask, across both eras of hosts and servers.

mod attribution;
mod hostile;
mod leaving;
mod refusals;
mod rounds;

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use bowline::{Client, Era, Handler, HandlerResult, Json, RpcError, Server, ServerRequest};
use bowline_config::TransportSettings as _;
use bowline_gateway::Gateway;
use bowline_testkit::{self as testkit, Control, HttpServer, Script, ScriptedRequest, StdioServer, Tool};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::gateway;
use super::http_host::{RawEndpoint, Reply, ServedGateway, serve_on_loopback};
use crate::support::TEST_TIMEOUT;

/// A gateway on a socket.
struct Endpoint {
    raw: RawEndpoint,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Endpoint {
    async fn start(gateway: &Gateway) -> Self {
        let ServedGateway { address, stop, serving } = serve_on_loopback(gateway, TEST_TIMEOUT).await;
        Self { raw: RawEndpoint { address }, stop, serving }
    }

    /// A host of this era, with a handler.
    async fn host(&self, era: Era, handler: impl Handler) -> Client {
        let url = format!("http://{}/mcp", self.raw.address);
        let builder = Client::builder(Server::http("gateway", url).build().expect("a loopback URL"));
        let builder = builder.client_info("host", "1").without_negotiation_cache();
        let client = builder.begin_with(era).handler(handler).open().expect("it is configured");
        assert_eq!(soon(client.ready()).await.expect("it is served").era(), era);
        client
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        soon(self.serving).await.expect("no panic");
    }
}

/// A modern host that writes its requests itself.
struct RawHost<'a> {
    endpoint: &'a RawEndpoint,
    name: &'static str,
    capabilities: Value,
}

impl<'a> RawHost<'a> {
    fn new(endpoint: &'a Endpoint, capabilities: Value) -> Self {
        Self { endpoint: &endpoint.raw, name: "raw", capabilities }
    }

    /// Sends a call of a tool, with these params beside its name.
    async fn send(&self, tool: &str, params: &Value) -> Reply {
        let mut params = params.clone();
        params["name"] = tool.into();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": self.name, "version": "1"},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
        self.endpoint.post(&message, &headers).await
    }

    /// Calls a tool and returns the whole response.
    async fn call(&self, tool: &str, params: Value) -> Value {
        self.send(tool, &params).await.message().await
    }

    /// Calls a tool that asks, and returns the questions and the state.
    async fn begin(&self, tool: &str) -> (Value, Value) {
        let answer = self.call(tool, json!({})).await;
        let result = &answer["result"];
        assert_eq!(result["resultType"], "input_required", "{answer}");
        assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "bowline", "{answer}");
        (result["inputRequests"].clone(), result["requestState"].clone())
    }
}

/// The params of a retry.
fn retry(state: &Value, responses: Value) -> Value {
    json!({"requestState": state, "inputResponses": responses})
}

fn accept(city: &str) -> Value {
    json!({"action": "accept", "content": {"city": city}})
}

/// The text of a result as JSON: what the tool was answered, by key.
fn answers(answer: &Value) -> Value {
    let text = answer["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("no text in {answer}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn form(key: &str) -> ScriptedRequest {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    ScriptedRequest::form_elicitation(key, "Where?", schema)
}

fn page(key: &str) -> ScriptedRequest {
    ScriptedRequest::url_elicitation(key, "Please pay", "http://127.0.0.1:9/pay")
}

fn sampling(key: &str) -> ScriptedRequest {
    ScriptedRequest::sampling(key, "Which knot?", 10)
}

async fn soon<F: Future>(what: F) -> F::Output {
    timeout(TEST_TIMEOUT, what).await.expect("in time")
}

/// A server behind the gateway.
enum TestServer {
    Http(HttpServer),
    Stdio(StdioServer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerKind {
    LegacyHttp,
    ModernHttp,
    LegacyStdio,
}

impl TestServer {
    async fn start(kind: ServerKind, script: Script) -> Self {
        match kind {
            ServerKind::LegacyHttp => Self::Http(script.legacy().run().await),
            ServerKind::ModernHttp => Self::Http(script.modern().run().await),
            ServerKind::LegacyStdio => Self::Stdio(script.legacy().stdio().await),
        }
    }

    fn configured(&self) -> Server {
        match self {
            Self::Http(server) => super::at("one", server),
            Self::Stdio(server) => {
                let command = server.command();
                let program = command.program.to_str().expect("UTF-8");
                let entry = Server::stdio("one", program).args(command.args).build().expect("a command");
                command.env.into_iter().fold(entry, |entry, (name, value)| {
                    entry.with_env(name, value).expect("a valid variable")
                })
            }
        }
    }
}

impl Deref for TestServer {
    type Target = Control;

    fn deref(&self) -> &Control {
        match self {
            Self::Http(server) => server,
            Self::Stdio(server) => server,
        }
    }
}

/// A host that answers every question of a kind in the same way, and counts them.
#[derive(Clone)]
struct ScriptedHost {
    action: &'static str,
    asked: Arc<Mutex<Vec<String>>>,
    /// Notified of each question.
    heard: Arc<Notify>,
}

impl ScriptedHost {
    fn new(action: &'static str) -> Self {
        Self { action, asked: Arc::default(), heard: Arc::default() }
    }
}

fn all_capabilities() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// What a host that does `action` answers.
fn scripted_answer(action: &str, method: &str, mode: &str) -> Result<Value, RpcError> {
    match (action, method) {
        ("accept", "elicitation/create") if mode == "url" => Ok(json!({"action": "accept"})),
        ("accept", "elicitation/create") => Ok(accept("Oslo")),
        (action, "elicitation/create") => Ok(json!({ "action": action })),
        ("accept", "sampling/createMessage") => {
            Ok(json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}))
        }
        ("accept", "roots/list") => Ok(json!({"roots": [{"uri": "file:///a", "name": "a"}]})),
        _ => Err(RpcError::new(-1, "User rejected it")),
    }
}

impl Handler for ScriptedHost {
    fn capabilities(&self) -> Json {
        Json::encode(&all_capabilities()).expect("JSON")
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        let mode = request.params.member("mode").and_then(|mode| mode.decode::<String>().ok());
        self.asked.lock().push(request.method.to_string());
        self.heard.notify_one();
        let answer = scripted_answer(self.action, &request.method, mode.as_deref().unwrap_or("form"));
        Box::pin(async move { answer.map(|answer| Json::encode(&answer).expect("JSON")) })
    }
}

const SERVERS: [ServerKind; 3] = [ServerKind::LegacyHttp, ServerKind::ModernHttp, ServerKind::LegacyStdio];
const HOSTS: [Era; 2] = [Era::Legacy, Era::Modern];

/// What a tool that asks these questions is answered by a host that does `action`, in all pairs of
/// eras. `Err` is the code of the error that the host gets.
async fn check_grid(rounds: &[Vec<ScriptedRequest>], action: &'static str, expected: &Value) {
    for kind in SERVERS {
        let tool = Tool::asks_in_rounds("book", rounds.to_vec());
        let server = TestServer::start(kind, testkit::server().tool(tool)).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        for (at, era) in HOSTS.into_iter().enumerate() {
            let host = ScriptedHost::new(action);
            let asked = Arc::clone(&host.asked);
            let client = endpoint.host(era, host).await;
            let result = soon(client.call_tool("book", &json!({"n": 1}))).await;
            let result = result.unwrap_or_else(|error| panic!("{era:?} {kind:?} {action}: {error}"));
            let answers: Value = serde_json::from_str(&result.text()).expect("JSON");
            assert_eq!(&answers, expected, "{era:?} {kind:?} {action}");
            assert_eq!(asked.lock().len(), rounds.iter().map(Vec::len).sum::<usize>(), "{era:?} {kind:?}");
            assert_eq!(server.executions("book"), at as u64 + 1, "{era:?} {kind:?}: it ran once");
            soon(client.close()).await;
        }
        endpoint.stop().await;
        assert_eq!(server.violations(), [""; 0], "{kind:?}");
    }
}

/// GW-16: an elicitation of either mode is accepted, declined or canceled, in all pairs of eras.
#[tokio::test]
async fn gw_16_elicitations_are_answered_across_eras() {
    for action in ["accept", "decline", "cancel"] {
        let answer = scripted_answer(action, "elicitation/create", "form").unwrap();
        check_grid(&[vec![form("where")]], action, &json!({ "where": answer })).await;
        let answer = json!({ "action": action });
        check_grid(&[vec![page("pay")]], action, &json!({ "pay": answer })).await;
    }
}

/// GW-16: sampling and roots are answered, in all pairs of eras.
#[tokio::test]
async fn gw_16_sampling_and_roots_are_answered_across_eras() {
    let message = scripted_answer("accept", "sampling/createMessage", "").unwrap();
    check_grid(&[vec![sampling("model")]], "accept", &json!({ "model": message })).await;
    let roots = scripted_answer("accept", "roots/list", "").unwrap();
    check_grid(&[vec![ScriptedRequest::roots("files")]], "accept", &json!({ "files": roots })).await;
}

/// GW-16, MR-08: two rounds, one of which has two questions, of every kind in either round, in all pairs of
/// eras.
#[tokio::test]
async fn gw_16_rounds_and_questions_are_answered_across_eras() {
    let roots = scripted_answer("accept", "roots/list", "").unwrap();
    let message = scripted_answer("accept", "sampling/createMessage", "").unwrap();
    let paid = json!({"action": "accept"});
    let rounds = [vec![form("where")], vec![page("pay"), ScriptedRequest::roots("files")]];
    let expected = json!({"where": accept("Oslo"), "pay": paid, "files": roots});
    check_grid(&rounds, "accept", &expected).await;
    let rounds = [vec![sampling("model"), page("pay")], vec![form("where")]];
    let expected = json!({"model": message, "pay": paid, "where": accept("Oslo")});
    check_grid(&rounds, "accept", &expected).await;
    let rounds = [vec![ScriptedRequest::roots("files")], vec![sampling("model"), sampling("other")]];
    let expected = json!({"files": roots, "model": message, "other": message});
    check_grid(&rounds, "accept", &expected).await;
}

/// GW-16, EL-11: a server of 2025-11-25 that refuses a call until a page was visited.
#[tokio::test]
async fn gw_16_a_call_that_needs_a_page_goes_on_when_it_was_visited() {
    for era in HOSTS {
        let tool = Tool::needs_url_elicitations("pay", [("page", "http://127.0.0.1:9/pay")]);
        let server = TestServer::start(ServerKind::LegacyHttp, testkit::server().tool(tool)).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        let host = ScriptedHost::new("accept");
        let (asked, heard) = (Arc::clone(&host.asked), Arc::clone(&host.heard));
        let client = endpoint.host(era, host).await;
        let calling = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("pay", &json!({"n": 1})).await }
        });
        soon(heard.notified()).await;
        server.wait_until(|server| server.complete_elicitation("page") > 0, TEST_TIMEOUT).await;
        let result =
            soon(calling).await.expect("no panic").unwrap_or_else(|error| panic!("{era:?}: {error}"));
        assert_eq!(result.text(), r#"{"n":1}"#, "{era:?}");
        assert_eq!(*asked.lock(), ["elicitation/create"], "{era:?}");
        assert_eq!(server.executions("pay"), 1, "{era:?}");
        endpoint.stop().await;
        // A host that declines gets an error, and the tool does not run.
        let tool = Tool::needs_url_elicitations("pay", [("page", "http://127.0.0.1:9/pay")]);
        let server = TestServer::start(ServerKind::LegacyHttp, testkit::server().tool(tool)).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        let client = endpoint.host(era, ScriptedHost::new("decline")).await;
        let error = soon(client.call_tool("pay", &json!({}))).await.unwrap_err();
        let code = if era == Era::Legacy { -32042 } else { -32603 };
        assert_eq!(error.server_error().map(|error| error.code), Some(code), "{era:?}: {error}");
        assert_eq!(server.executions("pay"), 0, "{era:?}");
        endpoint.stop().await;
    }
}
