//! Tasks of hosts of 2026-07-28 behind a gateway.

use bowline_config::TransportSettings as _;
use bowline_testkit::ScriptedRequest;
use serde_json::{Value, json};

use super::super::http_host::{RawEndpoint, ServedGateway, serve_on_loopback};
use super::*;

/// A gateway on a socket, and requests of hosts to it.
struct Endpoint {
    raw: RawEndpoint,
    served: Option<(tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<()>)>,
}

impl Endpoint {
    async fn start(gateway: &Gateway) -> Self {
        let ServedGateway { address, stop, serving } = serve_on_loopback(gateway, TEST_TIMEOUT).await;
        Self { raw: RawEndpoint { address }, served: Some((stop, serving)) }
    }

    /// Sends one request of a host with these extensions, and returns the status and the message.
    async fn post_with(
        &self,
        extensions: Value,
        method: &str,
        params: Value,
        name: Option<&str>,
    ) -> (String, Value) {
        self.post_as(json!({"extensions": extensions}), method, params, name).await
    }

    /// Sends one request of a host with these capabilities.
    async fn post_as(
        &self,
        capabilities: Value,
        method: &str,
        params: Value,
        name: Option<&str>,
    ) -> (String, Value) {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        headers.extend(name.map(|name| ("mcp-name", name)));
        let reply = self.raw.post(&message, &headers).await;
        (reply.status.clone(), reply.message().await)
    }

    async fn post(&self, method: &str, params: Value, name: Option<&str>) -> (String, Value) {
        self.post_with(tasks(), method, params, name).await
    }

    async fn create(&self, tool: &str) -> String {
        let call = json!({"name": tool, "arguments": {"n": 1}});
        let (_, answer) = self.post("tools/call", call, Some(tool)).await;
        assert_eq!(answer["result"]["resultType"], "task", "{answer}");
        answer["result"]["taskId"].as_str().expect("an id").to_owned()
    }

    async fn stop(mut self) {
        let (stop, serving) = self.served.take().expect("it is served");
        let _ = stop.send(());
        tokio::time::timeout(TEST_TIMEOUT, serving).await.expect("in time").expect("no panic");
    }
}

fn tasks() -> Value {
    json!({"io.modelcontextprotocol/tasks": {}})
}

const OK: &str = "HTTP/1.1 200 OK\r\n";
const BAD_REQUEST: &str = "HTTP/1.1 400 Bad Request\r\n";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\n";

/// TN-01, TN-02: the extension is offered if a server has tasks of either kind, and a host that does not
/// declare it gets results.
#[tokio::test]
async fn tn_01_only_a_host_that_declares_tasks_gets_them() {
    for server in [legacy_server().await, modern_server().await] {
        let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
        let (_, discovered) = endpoint.post("server/discover", json!({}), None).await;
        assert_eq!(discovered["result"]["capabilities"]["extensions"], tasks());
        let call = json!({"name": "only", "arguments": {"n": 1}});
        let (_, answer) = endpoint.post_with(json!({}), "tools/call", call, Some("only")).await;
        assert_eq!(result_text(&answer), r#"{"n":1}"#);
        endpoint.create("only").await;
        let call = json!({"name": "echo", "arguments": {"n": 1}});
        let (_, answer) = endpoint.post("tools/call", call, Some("echo")).await;
        assert_eq!(result_text(&answer), r#"{"n":1}"#);
        endpoint.stop().await;
        assert_eq!(server.violations(), [""; 0]);
    }
    let plain = testkit::server().modern().tool("echo").run().await;
    let endpoint = Endpoint::start(&gateway([at("one", &plain)])).await;
    let (_, discovered) = endpoint.post("server/discover", json!({}), None).await;
    assert_eq!(discovered["result"]["capabilities"].get("extensions"), None);
    endpoint.stop().await;
}

/// TN-07, TN-08, TN-10: the header repeats the id, the extension has to be declared, and requests of the
/// other kind of tasks do not exist.
#[tokio::test]
async fn tn_07_requests_about_tasks_are_checked() {
    let server = modern_server().await;
    let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
    let id = endpoint.create("work").await;
    let about = json!({"taskId": id});
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for name in [None, Some("other")] {
            let (status, answer) = endpoint.post(method, about.clone(), name).await;
            assert_eq!((&*status, &answer["error"]["code"]), (BAD_REQUEST, &json!(-32020)), "{method}");
        }
        let (status, answer) = endpoint.post_with(json!({}), method, about.clone(), Some(&id)).await;
        assert_eq!((&*status, &answer["error"]["code"]), (BAD_REQUEST, &json!(-32021)), "{method}");
        assert_eq!(answer["error"]["data"]["requiredCapabilities"]["extensions"], tasks());
        let unknown = server.tasks()[0].id.clone();
        let (status, answer) = endpoint.post(method, json!({"taskId": unknown}), Some(&unknown)).await;
        assert_eq!((&*status, &answer["error"]["code"]), (OK, &json!(-32602)), "{method}");
    }
    for method in ["tasks/result", "tasks/list"] {
        let (status, answer) = endpoint.post(method, about.clone(), None).await;
        assert_eq!((&*status, &answer["error"]["code"]), (NOT_FOUND, &json!(-32601)), "{method}");
    }
    let (_, answer) = endpoint.post("tasks/update", about, Some(&id)).await;
    assert_eq!(answer["error"]["message"], "inputResponses must be an object");
    assert_eq!(["tasks/get", "tasks/update", "tasks/cancel"].map(|method| server.count(method)), [0, 0, 0]);
    endpoint.stop().await;
}

/// TN-08: a host that listens is told of each state of its tasks, at servers of both kinds, and of those of
/// nobody else.
#[tokio::test]
async fn tn_08_a_host_that_listens_is_told_of_its_tasks() {
    for server in [legacy_server().await, modern_server().await] {
        let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
        let id = endpoint.create("work").await;
        let own = server.tasks()[0].id.clone();
        let filter = json!({"notifications": {"taskIds": [id, own, "unknown"]}});
        let mut params = filter.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": tasks()},
        });
        let message = json!({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params});
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
        let mut stream = endpoint.raw.post(&message, &headers).await;
        let granted = stream.event().await;
        assert_eq!(granted["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(granted["params"]["notifications"], json!({"taskIds": [id]}));
        let state = stream.event().await;
        assert_eq!(
            (&state["method"], &state["params"]["status"]),
            (&json!("notifications/tasks"), &json!("working"))
        );
        let meta = json!({"io.modelcontextprotocol/subscriptionId": 5});
        assert_eq!((&state["params"]["_meta"], state["params"].get("resultType")), (&meta, None));
        assert!(server.set_task_message(&own, "half"));
        assert_eq!(stream.event().await["params"]["statusMessage"], "half");
        assert!(server.finish_task(&own));
        let ended = stream.event().await;
        assert_eq!(
            (&ended["params"]["taskId"], &ended["params"]["status"]),
            (&json!(id), &json!("completed"))
        );
        assert_eq!(ended["params"]["result"]["content"][0]["text"], r#"{"n":1}"#);
        drop(stream);
        let (status, answer) = endpoint.post_with(json!({}), "subscriptions/listen", filter, None).await;
        assert_eq!((&*status, &answer["error"]["code"]), (BAD_REQUEST, &json!(-32021)));
        endpoint.stop().await;
    }
}

/// TN-05: a server of 2025-11-25 that asks a host which does not ask about its task is told that nobody
/// answers.
#[tokio::test]
async fn tn_05_questions_of_a_task_that_nobody_asks_about_are_given_up() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let form = ScriptedRequest::form_elicitation("k", "Where?", schema);
    let plan = TaskPlan::after_polls(1).asks([form]);
    let server = testkit::server().legacy().tool(Tool::named("asks").task(plan)).stdio().await;
    let command = server.command();
    let program = command.program.to_str().expect("UTF-8");
    let configured = bowline::Server::stdio("one", program).args(command.args).build().unwrap();
    let configured = command.env.into_iter().fold(configured, |configured, (name, value)| {
        configured.with_env(name, value).expect("a valid variable")
    });
    let gateway = Gateway::builder([configured]).input_timeout(Duration::from_millis(200)).build();
    let endpoint = Endpoint::start(&gateway).await;
    let forms = json!({"elicitation": {"form": {}}, "extensions": tasks()});
    let call = json!({"name": "asks", "arguments": {}});
    let (_, answer) = endpoint.post_as(forms.clone(), "tools/call", call, Some("asks")).await;
    let id = answer["result"]["taskId"].as_str().expect("an id").to_owned();
    let (_, state) = endpoint.post_as(forms, "tasks/get", json!({"taskId": id}), Some(&id)).await;
    assert_eq!(state["result"]["status"], "input_required", "{state}");
    let is_answered =
        |server: &testkit::Control| server.tasks()[0].input_responses["k"]["action"] == "cancel";
    server.wait_until(is_answered, TEST_TIMEOUT).await;
    endpoint.stop().await;
}
