//! Which sessions share a connection to a server, and that nothing of one reaches another.

use std::time::Duration;

use bowline::Server;
use bowline::config::Share;
use bowline_testkit::{self as testkit, Control, HttpServer, Tool};
use serde_json::{Value, json};

use super::{at, gateway};
use crate::support::{TEST_TIMEOUT, TestHost, result_text};

fn shared(name: &str, server: &HttpServer) -> Server {
    at(name, server).with_share(Share::All)
}

fn capabilities() -> Value {
    json!({"roots": {}, "elicitation": {}})
}

/// Calls a tool that runs until it is canceled, and returns when the server has the call.
async fn hold_call(host: &mut TestHost, server: &Control, id: u64) {
    let earlier = server.received().iter().filter(|received| received.tool() == Some("slow")).count();
    host.send_request(id, "tools/call", json!({"name": "slow", "arguments": {"ms": 600_000}})).await;
    server.wait_for_nth(earlier, |received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
}

#[tokio::test]
async fn sessions_share_a_connection_if_the_server_says_so() {
    let (all, own) = (testkit::server().legacy().tool("counter"), testkit::server().legacy().tool("echo"));
    let (all, own) = (all.run().await, own.run().await);
    let session = at("own", &own).with_share(Share::Session);
    let gateway = gateway([shared("all", &all), session]);
    let mut hosts = Vec::new();
    for id in 0..3 {
        let mut host = TestHost::join_with(&gateway, capabilities()).await;
        assert_eq!(host.tools().await, ["counter", "echo"]);
        assert_eq!(result_text(&host.call_tool(id, "counter", json!({})).await), format!("{}", id + 1));
        hosts.push(host);
    }
    // The last host is answered with what is known before its own connection stands.
    own.wait_until(|own| own.initialize_count() == 3, TEST_TIMEOUT).await;
    assert_eq!(all.initialize_count(), 1);
    // A server that everybody shares is told of nobody's roots.
    let told = &all.received_with_method("initialize")[0];
    assert_eq!(told.params()["capabilities"], json!({"elicitation": {}}));
    let told = &own.received_with_method("initialize")[0];
    assert_eq!(told.params()["capabilities"], capabilities());
    // Another kind of host has its own connection.
    let mut plain = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(plain.tools().await, ["counter", "echo"]);
    assert_eq!(all.initialize_count(), 2);
    // The others keep the connection when one leaves.
    hosts.remove(0).close().await;
    result_text(&hosts[0].call_tool(9, "counter", json!({})).await);
    assert_eq!(all.initialize_count(), 2);
    assert_eq!(all.executions("counter"), 4);
}

/// GW-15: what a shared server asks reaches the host that alone has a call open, and nobody if
/// several have.
#[tokio::test]
async fn gw_15_a_question_of_a_shared_server_reaches_its_host_or_nobody() {
    let server = testkit::server().legacy().tool("ask").tool("slow").stdio().await;
    let start = server.command();
    let program = Server::stdio("one", start.program.display().to_string()).args(start.args.clone());
    let program = start.env.iter().fold(program, |program, (name, value)| program.env(name, value.as_str()));
    let configured = program.share(Share::All).build().unwrap();
    let gateway = gateway([configured]);
    let mut one = TestHost::join_with(&gateway, capabilities()).await;
    let mut two = TestHost::join_with(&gateway, capabilities()).await;
    let question = json!({"message": "which?", "requestedSchema": {"type": "object", "properties": {}}});
    let ask = json!({"name": "ask", "arguments": {"method": "elicitation/create", "params": question}});
    one.send_request(1, "tools/call", ask.clone()).await;
    let asked = one.next_server_request().await;
    assert_eq!(asked["params"]["message"], "which?");
    let declined = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    one.send_line(&declined.to_string()).await;
    assert!(result_text(&one.response(1).await).contains("decline"));
    // The other host has a call open as well: the server does not say for whom it asks.
    hold_call(&mut two, &server.control(), 1).await;
    one.send_request(2, "tools/call", ask.clone()).await;
    let answer = one.response(2).await;
    assert!(answer.to_string().contains("several hosts share this server"), "{answer}");
    // A canceled call may go on in the server, so it may be what asks.
    two.send_notification("notifications/cancelled", json!({"requestId": 1})).await;
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
    one.send_request(3, "tools/call", ask).await;
    let answer = one.response(3).await;
    assert!(answer.to_string().contains("several hosts share this server"), "{answer}");
    assert!(two.is_silent().await);
    assert_eq!(server.initialize_count(), 1);
}

/// GW-15: what a server says about a call is not taken for what it says about another, also if it says
/// it together with the response or after it.
#[tokio::test]
async fn gw_15_what_comes_with_a_response_reaches_no_other_host() {
    let server = testkit::server().legacy().tool("slow").tool("echo").stdio().await;
    let start = server.command();
    let program = Server::stdio("one", start.program.display().to_string()).args(start.args.clone());
    let program = start.env.iter().fold(program, |program, (name, value)| program.env(name, value.as_str()));
    let gateway = gateway([program.share(Share::All).build().unwrap()]);
    let mut one = TestHost::join_with(&gateway, capabilities()).await;
    let mut two = TestHost::join_with(&gateway, capabilities()).await;
    hold_call(&mut two, &server.control(), 1).await;
    for id in 1..5 {
        result_text(&one.call_tool(id, "echo", json!({})).await);
        // The call of the first host is answered; that of the second is open.
        server.send_log_message("emergency", &json!("about the call of the first host"));
        let question = json!({"message": "of the first?", "requestedSchema": {"type": "object"}});
        let asked = json!({"jsonrpc": "2.0", "id": format!("q{id}"), "method": "elicitation/create", "params": question});
        server.send(asked).await;
        let refused = |received: &testkit::ReceivedMessage| received.body["id"] == format!("q{id}");
        let answer = server.wait_for(refused, TEST_TIMEOUT).await;
        assert_eq!(answer.body["error"]["code"], -32600, "{}", answer.body);
    }
    assert!(one.is_silent().await && two.is_silent().await);
}

/// LC-16, SE-12: two conversations share one server, and hear nothing of each other.
#[tokio::test]
async fn progress_and_log_messages_of_a_shared_server_reach_their_host() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let gateway = gateway([shared("one", &server)]);
    let mut one = TestHost::join_with(&gateway, json!({})).await;
    let mut two = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(one.result("logging/setLevel", json!({"level": "debug"})).await, json!({}));
    assert_eq!(two.result("logging/setLevel", json!({"level": "error"})).await, json!({}));
    server.wait_for(|received| received.has_method("logging/setLevel"), TEST_TIMEOUT).await;
    server.wait_until(|server| server.open_streams(testkit::StreamKind::Get) > 0, TEST_TIMEOUT).await;
    hold_call(&mut two, &server.control(), 2).await;
    server.send_log_message("info", &json!("not severe enough"));
    server.send_log_message("error", &json!("it burns"));
    assert_eq!(two.notification("notifications/message").await["params"]["data"], "it burns");
    assert!(one.is_silent().await);
    let call = json!({"name": "slow", "arguments": {"ms": 20, "steps": 1}, "_meta": {"progressToken": "t"}});
    for (host, other) in [(0, 1), (1, 0)] {
        let hosts = [&mut one, &mut two];
        hosts[host].send_request(1, "tools/call", call.clone()).await;
        let progress = hosts[host].notification("notifications/progress").await;
        assert_eq!(progress["params"]["progressToken"], "t");
        hosts[host].response(1).await;
        assert!(hosts[other].is_silent().await);
    }
    // The server was asked for what the more curious host wants.
    let told = server.received_with_method("logging/setLevel");
    assert_eq!(told.last().unwrap().params()["level"], "debug");
}

#[tokio::test]
async fn subscriptions_to_a_shared_server_are_counted() {
    let server = testkit::server().legacy().resource("x://a", "a").run().await;
    let gateway = gateway([shared("one", &server)]);
    let mut one = TestHost::join_with(&gateway, json!({})).await;
    let mut two = TestHost::join_with(&gateway, json!({})).await;
    for host in [&mut one, &mut two] {
        assert_eq!(host.names("resources/list", "resources", "uri").await, ["x://a"]);
        assert_eq!(host.result("resources/subscribe", json!({"uri": "x://a"})).await, json!({}));
    }
    one.result("resources/unsubscribe", json!({"uri": "x://a"})).await;
    server.wait_until(|server| server.open_streams(testkit::StreamKind::Get) > 0, TEST_TIMEOUT).await;
    server.announce_resource("x://a");
    assert_eq!(two.notification("notifications/resources/updated").await["params"]["uri"], "x://a");
    assert!(one.is_silent().await);
    assert_eq!(server.count("resources/unsubscribe"), 0);
    two.result("resources/unsubscribe", json!({"uri": "x://a"})).await;
    server.wait_until(|server| server.count("resources/unsubscribe") == 1, TEST_TIMEOUT).await;
}

#[tokio::test]
async fn servers_that_keep_nothing_for_a_host_are_shared_once_that_is_known() {
    let modern = testkit::server().modern().tool("echo").run().await;
    let reading = testkit::server().legacy().tool(Tool::named("counter").read_only()).run().await;
    let writing = testkit::server().legacy().tool("fail").run().await;
    let gateway = gateway([at("modern", &modern), at("reading", &reading), at("writing", &writing)]);
    let mut hosts = Vec::new();
    for _ in 0..4 {
        let mut host = TestHost::join_with(&gateway, json!({})).await;
        assert_eq!(host.tools().await, ["echo", "counter", "fail"]);
        result_text(&host.call_tool(1, "counter", json!({})).await);
        hosts.push(host);
    }
    // The lists are known by then, so a host does not wait for its own connection to the last server.
    writing.wait_until(|writing| writing.initialize_count() == 4, TEST_TIMEOUT).await;
    // The first session has its own connection; then it is known what kind of server it is.
    assert_eq!((reading.initialize_count(), writing.initialize_count()), (2, 4));
}

#[tokio::test]
async fn a_server_that_asks_hosts_is_not_shared_unasked() {
    let server = testkit::server().legacy().tool(Tool::named("ask").read_only()).run().await;
    let gateway = gateway([at("one", &server)]);
    for count in 1..4 {
        let mut host = TestHost::join_with(&gateway, capabilities()).await;
        let ask = json!({"name": "ask", "arguments": {"method": "roots/list", "params": {}}});
        host.send_request(1, "tools/call", ask).await;
        let asked = host.next_server_request().await;
        let roots = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}});
        host.send_line(&roots.to_string()).await;
        result_text(&host.response(1).await);
        assert_eq!(server.initialize_count(), count);
    }
}

#[tokio::test]
async fn an_idle_server_is_stopped_and_started_by_a_call() {
    let server = testkit::server().legacy().tool("counter").tool("slow").run().await;
    let other = testkit::server().legacy().tool("echo").run().await;
    let soon = Some(Duration::from_millis(1));
    let gateway = gateway([at("one", &server).with_idle_stop(soon), at("two", &other).with_idle_stop(soon)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.tools().await, ["counter", "slow", "echo"]);
    server.wait_until(|server| server.sessions().is_empty(), TEST_TIMEOUT).await;
    // Its tools stay listed, and nobody is told that anything has changed.
    assert_eq!(host.tools().await, ["counter", "slow", "echo"]);
    result_text(&host.call_tool(1, "counter", json!({})).await);
    assert_eq!(server.initialize_count(), 2);
    // A server that works is not idle: another one that was used later is stopped before it.
    hold_call(&mut host, &server.control(), 2).await;
    result_text(&host.call_tool(3, "echo", json!({})).await);
    other.wait_until(|other| other.sessions().is_empty(), TEST_TIMEOUT).await;
    assert_eq!(server.sessions().len(), 1);
    host.send_notification("notifications/cancelled", json!({"requestId": 2})).await;
    server.wait_until(|server| server.sessions().is_empty(), TEST_TIMEOUT).await;
    // The next host finds it stopped, and its lists known.
    let mut next = TestHost::join_with(&gateway, json!({})).await;
    let listed = next.result("tools/list", json!({})).await;
    assert_eq!(listed["tools"].as_array().unwrap().len(), 3);
    assert_eq!(listed["_meta"]["bowline/stale-servers"]["one"], "it is not running; a call starts it");
    assert_eq!(server.initialize_count(), 2);
    result_text(&next.call_tool(1, "counter", json!({})).await);
    assert_eq!(server.initialize_count(), 3);
    assert!(host.is_silent().await);
}
