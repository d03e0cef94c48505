//! A gateway in front of hosts of revision 2026-07-28, which have no session.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline::{CallOptions, Client, Era, Event, Server, Topic};
use bowline_gateway::Gateway;
use bowline_testkit as testkit;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::http_host::{RawEndpoint, ServedGateway, serve_on_loopback};
use super::{at, gateway};
use crate::support::TEST_TIMEOUT;

/// A gateway on a socket.
pub(super) struct Endpoint {
    url: String,
    raw: RawEndpoint,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// Longer than a test may take: nothing that ends in order waits for it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(600);

impl Endpoint {
    pub(super) async fn start(gateway: &Gateway) -> Self {
        let ServedGateway { address, stop, serving } = serve_on_loopback(gateway, DRAIN_TIMEOUT).await;
        Self { url: format!("http://{address}/mcp"), raw: RawEndpoint { address }, stop, serving }
    }

    /// A client of the gateway, connected in the modern era.
    pub(super) async fn client(&self, name: &str) -> Client {
        let server = Server::http("gateway", &self.url).build().expect("a loopback URL");
        let builder = Client::builder(server).client_info(name, "1").without_negotiation_cache();
        let client = builder.open().expect("it is configured");
        let peer = soon(client.ready()).await.expect("it is served");
        assert_eq!(peer.era(), Era::Modern);
        client
    }

    /// Sends one request with its headers, and returns the status and the message.
    async fn post(&self, method: &str, params: Value, headers: &[(&str, &str)]) -> (String, Value) {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut all = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        all.extend(headers);
        let reply = self.raw.post(&message, &all).await;
        (reply.status.clone(), reply.message().await)
    }

    pub(super) async fn stop(self) {
        let _ = self.stop.send(());
        soon(self.serving).await.expect("no panic");
    }
}

pub(super) async fn soon<F: Future>(what: F) -> F::Output {
    timeout(TEST_TIMEOUT, what).await.expect("in time")
}

pub(super) async fn call(client: &Client, tool: &str, arguments: Value) -> String {
    let result = soon(client.call_tool(tool, &arguments)).await.expect("a result");
    let result: Value = result.json.decode().expect("JSON");
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

/// GW-10: servers of both eras, hosts of both eras.
#[tokio::test]
async fn gw_10_modern_hosts_are_served_beside_those_with_sessions() {
    let one = testkit::server().legacy().tool("counter").prompt("greet", "of one").run().await;
    let two = testkit::server().modern().tool("echo").resource("file:///b", "of two").run().await;
    let endpoint = Endpoint::start(&gateway([at("one", &one), at("two", &two)])).await;
    let legacy = Client::builder(Server::http("gateway", &endpoint.url).build().unwrap());
    let legacy = legacy.begin_with(Era::Legacy).without_negotiation_cache().open().unwrap();
    assert_eq!(soon(legacy.ready()).await.unwrap().era(), Era::Legacy);
    let modern = endpoint.client("host").await;
    for client in [&modern, &legacy] {
        let tools = soon(client.list_tools()).await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, ["counter", "echo"]);
        assert_eq!(call(client, "echo", json!({"a": 1})).await, r#"{"a":1}"#);
        let read = soon(client.read_resource("file:///b")).await.unwrap();
        assert!(read.json.as_str().contains("of two"), "{:?}", read.json);
        let prompt = soon(client.get_prompt("greet", &BTreeMap::new())).await.unwrap();
        assert!(prompt.json.as_str().contains("of one"), "{:?}", prompt.json);
    }
    assert_eq!((call(&modern, "counter", json!({})).await, one.executions("counter")), ("1".into(), 1));
    let missing = soon(modern.read_resource("nobody://has/this")).await.unwrap_err();
    assert_eq!(missing.server_error().map(|error| error.code), Some(-32602));
    soon(legacy.close()).await;
    soon(modern.close()).await;
    endpoint.stop().await;
    assert_eq!(one.sessions().len(), 0, "every connection was closed");
    assert_eq!(one.violations(), [""; 0]);
    assert_eq!(two.violations(), [""; 0]);
}

/// Hosts of the same name share connections, and servers are told that name.
#[tokio::test]
async fn connections_are_shared_by_hosts_of_the_same_name() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
    for (name, connections) in [("a", 1), ("a", 1), ("b", 2), ("a", 2)] {
        let client = endpoint.client(name).await;
        call(&client, "echo", json!({})).await;
        soon(client.close()).await;
        assert_eq!(server.initialize_count(), connections, "{name}");
    }
    let hellos = server.received_with_method("initialize");
    let names: Vec<_> = hellos.iter().map(|hello| hello.params()["clientInfo"]["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(hellos[0].params()["capabilities"], json!({}));
    let called = server.received_with_method("tools/call");
    for call in &called {
        assert!(!call.params().to_string().contains("io.modelcontextprotocol"), "{}", call.params());
    }
    endpoint.stop().await;
    assert_eq!(server.sessions().len(), 0);
}

/// PR-02, GW-09: progress is on the stream of its call.
#[tokio::test]
async fn pr_02_progress_reaches_the_host_that_calls() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool("slow").run().await;
        let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
        let client = endpoint.client("host").await;
        let (sender, mut progress) = mpsc::unbounded_channel();
        let options = CallOptions::new().on_raw_progress(move |params| {
            let _ = sender.send(params.member("progress").expect("a number").decode::<f64>().unwrap());
        });
        let arguments = json!({"ms": 20, "steps": 3});
        soon(client.call_tool_with("slow", &arguments, &options)).await.expect("a result");
        drop(options);
        let mut seen = Vec::new();
        while let Some(number) = soon(progress.recv()).await {
            seen.push(number);
        }
        assert!(seen.len() >= 3 && seen.is_sorted(), "{seen:?}");
        endpoint.stop().await;
    }
}

/// GW-09, CN-01: a host that closes its connection has canceled.
#[tokio::test]
async fn gw_09_a_closed_connection_cancels_the_call_upstream() {
    let server = testkit::server().legacy().tool("slow").tool("echo").run().await;
    let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
    let client = endpoint.client("host").await;
    let calling = {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool("slow", &json!({"ms": 600_000})).await })
    };
    let received = server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    calling.abort();
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
    assert_eq!(server.cancellations(), [received.body["id"].clone()]);
    assert_eq!(call(&client, "echo", json!({})).await, "{}");
    endpoint.stop().await;
}

#[tokio::test]
async fn a_lost_session_of_a_server_is_restored_within_the_call() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
    let client = endpoint.client("host").await;
    assert_eq!(call(&client, "counter", json!({})).await, "1");
    server.drop_sessions();
    assert_eq!(call(&client, "counter", json!({})).await, "2");
    assert_eq!((server.initialize_count(), server.executions("counter")), (2, 2));
    endpoint.stop().await;
}

/// GW-05: what is not of this revision, and what nobody serves.
#[tokio::test]
async fn gw_05_unknown_and_removed_methods_are_not_found() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let only = Endpoint::start(&gateway([at("one", &server)])).await;
    for removed in
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list", "tasks/get"]
    {
        let (status, answer) = only.post(removed, json!({}), &[]).await;
        assert_eq!((&*status, &answer["error"]["code"]), ("HTTP/1.1 404 Not Found\r\n", &json!(-32601)));
        assert_eq!(server.count(removed), usize::from(removed == "initialize") * server.initialize_count());
    }
    let (status, answer) = only.post("com.example/do", json!({}), &[]).await;
    assert_eq!((&*status, &answer["error"]["code"]), ("HTTP/1.1 404 Not Found\r\n", &json!(-32601)));
    assert_eq!(server.count("com.example/do"), 1, "the only server was asked");
    let retry = json!({"name": "echo", "requestState": "mine"});
    let (_, answer) = only.post("tools/call", retry, &[("mcp-name", "echo")]).await;
    assert_eq!(
        answer["error"],
        json!({"code": -32602, "message": "requestState is not valid for this request"})
    );
    only.stop().await;
    let both = Endpoint::start(&gateway([at("one", &server), at("two", &server)])).await;
    let (status, answer) = both.post("com.example/do", json!({}), &[]).await;
    assert_eq!(status, "HTTP/1.1 404 Not Found\r\n");
    assert_eq!(answer["error"], json!({"code": -32601, "message": "Method not found: com.example/do"}));
    assert_eq!(server.count("com.example/do"), 1);
    both.stop().await;
}

/// GW-01, GW-06: discovery and lists.
#[tokio::test]
async fn gw_06_results_have_type_cache_hints_and_identity() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
    let identity = json!({"name": "bowline", "version": env!("CARGO_PKG_VERSION")});
    let (_, discovered) = endpoint.post("server/discover", json!({}), &[]).await;
    let result = &discovered["result"];
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    let changing = json!({"listChanged": true});
    assert_eq!(
        result["capabilities"],
        json!({
            "tools": changing, "prompts": changing, "completions": {},
            "resources": {"listChanged": true, "subscribe": true},
        })
    );
    let (_, listed) = endpoint.post("tools/list", json!({}), &[]).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "echo");
    for result in [result, &listed["result"]] {
        assert_eq!(
            (&result["resultType"], &result["ttlMs"], &result["cacheScope"]),
            (&json!("complete"), &json!(0), &json!("private"))
        );
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"], identity);
    }
    let (_, called) = endpoint.post("tools/call", json!({"name": "echo"}), &[("mcp-name", "echo")]).await;
    assert_eq!(called["result"]["resultType"], "complete");
    endpoint.stop().await;
}

/// GW-03: headers repeat the arguments that a tool names.
#[tokio::test]
async fn gw_03_headers_of_arguments_are_checked() {
    let properties = json!({"region": {"type": "string", "x-mcp-header": "Region"}});
    let schema = json!({"type": "object", "properties": properties});
    let server = testkit::server().legacy().tool_json(json!({"name": "echo", "inputSchema": schema}));
    let server = server.run().await;
    let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
    let client = endpoint.client("host").await;
    soon(client.list_tools()).await.unwrap();
    call(&client, "echo", json!({"region": "north"})).await;
    let arguments = json!({"name": "echo", "arguments": {"region": "north"}});
    for (header, problem) in [("south", "does not match the body"), ("North", "does not match the body")] {
        let headers = [("mcp-name", "echo"), ("mcp-param-region", header)];
        let (status, answer) = endpoint.post("tools/call", arguments.clone(), &headers).await;
        assert_eq!(status, "HTTP/1.1 400 Bad Request\r\n");
        assert_eq!(
            answer["error"],
            json!({"code": -32020, "message": format!("header Mcp-Param-Region: {problem}")})
        );
    }
    let (_, missing) = endpoint.post("tools/call", arguments, &[("mcp-name", "echo")]).await;
    assert_eq!(missing["error"]["message"], "header Mcp-Param-Region: missing");
    assert_eq!(server.executions("echo"), 1);
    endpoint.stop().await;
}

/// GW-08: changes of lists and of resources reach those who listen.
#[tokio::test]
async fn gw_08_changes_reach_hosts_that_listen() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool("echo").resource("file:///a", "a").resource("file:///b", "b").run().await;
        let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
        let client = endpoint.client("host").await;
        assert_eq!(soon(client.list_tools()).await.unwrap().len(), 1);
        let mut subscription = soon(client.subscribe("file:///a")).await.expect("it is granted");
        let mut events = client.events();
        client.listen_for_list_changes();
        // Nobody wants to know of this one.
        server.announce_resource("file:///b");
        server.wait_until(|server| server.announce_resource("file:///a") > 0, TEST_TIMEOUT).await;
        assert_eq!(soon(subscription.next()).await.expect("it goes on").uri, "file:///a");
        server.edit(|script| script.tool("counter"));
        server.wait_until(|server| server.announce_tools() > 0, TEST_TIMEOUT).await;
        let changed = async {
            loop {
                let Some(event) = events.next().await else { panic!("the client is open") };
                if matches!(&event, Event::Notification(said) if matches!(said.topic(), Topic::ToolsChanged))
                {
                    return;
                }
            }
        };
        soon(changed).await;
        assert_eq!(soon(client.list_tools()).await.unwrap().len(), 2);
        // The open subscription ends in order, long before the drain timeout.
        endpoint.stop().await;
    }
}

/// GW-08: a resource of a server that is down is granted all the same. When the server is back it is subscribed to, and
/// counts as changed.
#[tokio::test]
async fn gw_08_a_server_that_is_down_is_subscribed_to_when_it_is_back() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool("echo").resource("file:///a", "a").run().await;
        let gateway = Gateway::builder([at("one", &server)]).list_wait(Duration::from_millis(200)).build();
        let endpoint = Endpoint::start(&gateway).await;
        let client = endpoint.client("host").await;
        while soon(client.list_resources()).await.unwrap().is_empty() {}
        server.stop().await;
        let mut subscription = soon(client.subscribe("file:///a")).await.expect("it is granted");
        server.start().await;
        assert_eq!(soon(subscription.next()).await.expect("it goes on").uri, "file:///a");
        server.wait_until(|server| server.announce_resource("file:///a") > 0, TEST_TIMEOUT).await;
        assert_eq!(soon(subscription.next()).await.expect("it goes on").uri, "file:///a");
        endpoint.stop().await;
    }
}

/// GW-08: the acknowledgment comes first, names what is granted, and the end is a result.
#[tokio::test]
async fn gw_08_the_acknowledgment_comes_first_and_the_end_is_a_result() {
    let server = testkit::server().legacy().resource("file:///a", "a").run().await;
    let endpoint = Endpoint::start(&gateway([at("one", &server)])).await;
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a", "file:///none"]});
    let params = json!({"notifications": wanted, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let listen = json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params});
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let mut stream = endpoint.raw.post(&listen, &headers).await;
    let acknowledged = stream.event().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        acknowledged["params"],
        json!({
            "notifications": {"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]},
            "_meta": {"io.modelcontextprotocol/subscriptionId": "l"},
        })
    );
    server.wait_until(|server| server.announce_resource("file:///a") > 0, TEST_TIMEOUT).await;
    let updated = stream.event().await;
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "file:///a");
    assert_eq!(updated["params"]["_meta"], acknowledged["params"]["_meta"]);
    endpoint.stop().await;
    let end = stream.event().await;
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!("l"), &json!("complete")));
}
