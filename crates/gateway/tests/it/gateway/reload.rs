//! The servers of a gateway are reloaded while hosts are served.

mod load;
mod open_calls;
mod subscriptions;
mod views;

use bowline::{Event, Server, Topic};
use bowline_config::TransportSettings as _;
use bowline_gateway::{Gateway, Reload};
use bowline_testkit::{self as testkit, Control, StdioServer};
use serde_json::{Value, json};

use super::stateless_host::{Endpoint, call, soon};
use super::{at, gateway};
use crate::support::{TEST_TIMEOUT, TestHost, result_text};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// A process.
fn program(name: &str, server: &StdioServer) -> Server {
    let start = server.command();
    let program = Server::stdio(name, start.program.display().to_string()).args(start.args.clone());
    let program = start.env.iter().fold(program, |program, (name, value)| program.env(name, value.as_str()));
    program.build().expect("a command")
}

/// A server with the settings of `server` and another header.
fn with_header(server: &Server, value: &str) -> Server {
    server.clone().with_header("x-version", value).expect("a header")
}

/// What a reload has changed: names that were added, changed and removed, and how many were not.
fn changes(reload: &Reload) -> (Vec<&str>, Vec<&str>, Vec<&str>, usize) {
    let [added, changed, removed] = [&reload.added, &reload.changed, &reload.removed]
        .map(|names| names.iter().map(|name| &**name).collect());
    (added, changed, removed, reload.unchanged)
}

/// Everything that a server has seen of a gateway.
fn seen(server: &Control) -> (usize, Vec<String>) {
    let sessions = server.sessions().into_iter().map(|session| session.id);
    (server.received().len(), sessions.collect())
}

/// Waits until everything was sent to a server over HTTP that a session whose lists are known begins
/// with. The stream for its notifications is the last of it.
async fn wait_until_settled(server: &Control) {
    server.wait_until(|server| server.open_streams(testkit::StreamKind::Get) == 1, TEST_TIMEOUT).await;
}

async fn unknown_tool(host: &mut TestHost, tool: &str) {
    let answer = host.call_tool("unknown", tool, json!({})).await;
    assert_eq!(answer["error"], json!({"code": -32602, "message": format!("Unknown tool: {tool}")}));
}

#[tokio::test]
async fn servers_are_added_and_removed_and_others_hear_nothing_of_it() {
    let kept = testkit::server().legacy().tool("counter").run().await;
    let process = testkit::server().legacy().tool("slow").stdio().await;
    let other = testkit::server().legacy().tool("echo").run().await;
    let (first, second, third) = (at("kept", &kept), program("process", &process), at("other", &other));
    let gateway = gateway([first.clone(), second.clone()]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.tools().await, ["counter", "slow"]);
    wait_until_settled(&kept).await;
    let before = (seen(&kept), seen(&process), process.pid());

    let reload = gateway.reload([first.clone(), third.clone(), second.clone()]);
    assert_eq!(changes(&reload), (vec!["other"], vec![], vec![], 2));
    // The next request sees it, also before the server has answered anything.
    assert_eq!(result_text(&host.call_tool(1, "echo", json!({"a": 1})).await), r#"{"a":1}"#);
    host.notification(TOOLS_CHANGED).await;
    assert_eq!(host.tools().await, ["counter", "echo", "slow"], "in the configured order");

    let reload = gateway.reload([first.clone(), second.clone()]);
    assert_eq!(changes(&reload), (vec![], vec![], vec!["other"], 2));
    unknown_tool(&mut host, "echo").await;
    host.notification(TOOLS_CHANGED).await;
    assert_eq!(host.tools().await, ["counter", "slow"]);
    other.wait_until(|other| other.sessions().is_empty(), TEST_TIMEOUT).await;

    let reload = gateway.reload([second.clone(), first.clone()]);
    assert!(reload.is_empty() && reload.unchanged == 2);
    host.notification(TOOLS_CHANGED).await;
    assert_eq!(host.tools().await, ["slow", "counter"], "in the configured order");

    assert!(gateway.reload([second, first]).is_empty());
    assert!(host.is_silent().await, "one notification for each change");
    assert_eq!((seen(&kept), seen(&process), process.pid()), before);
    assert_eq!(result_text(&host.call_tool(2, "counter", json!({})).await), "1");
    assert_eq!(kept.initialize_count(), 1);
    host.close().await;
}

#[tokio::test]
async fn a_changed_server_is_connected_to_anew_and_offers_the_same() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let other = testkit::server().legacy().tool("echo").run().await;
    let (configured, kept) = (at("one", &server), at("kept", &other));
    let gateway = gateway([with_header(&configured, "1"), kept.clone()]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.result("logging/setLevel", json!({"level": "error"})).await, json!({}));
    assert_eq!(host.tools().await, ["counter", "echo"]);
    let set_level = |received: &testkit::ReceivedMessage| received.has_method("logging/setLevel");
    server.wait_for(set_level, TEST_TIMEOUT).await;
    other.wait_for(set_level, TEST_TIMEOUT).await;
    wait_until_settled(&other).await;
    let before = seen(&other);
    for version in 2..5 {
        let version = version.to_string();
        let reload = gateway.reload([with_header(&configured, &version), kept.clone()]);
        assert_eq!(changes(&reload), (vec![], vec!["one"], vec![], 1));
        let calls = server.count("tools/call");
        result_text(&host.call_tool(1, "counter", json!({})).await);
        let called = &server.received_with_method("tools/call")[calls];
        assert_eq!(called.header("x-version"), Some(&*version));
        // The new session is told what the host wants.
        let earlier = usize::try_from(version.parse::<u32>().unwrap() - 1).unwrap();
        let told = server.wait_for_nth(earlier, set_level, TEST_TIMEOUT).await;
        assert_eq!((told.header("x-version"), &told.params()["level"]), (Some(&*version), &json!("error")));
        assert_eq!(host.tools().await, ["counter", "echo"]);
    }
    server.wait_until(|server| server.sessions().len() == 1, TEST_TIMEOUT).await;
    assert_eq!((server.initialize_count(), server.executions("counter")), (4, 3));
    assert_eq!(seen(&other), before);
    // The lists are what they were, so that the next change is the first that is announced.
    gateway.reload([kept]);
    host.notification(TOOLS_CHANGED).await;
    assert_eq!(host.tools().await, ["echo"]);
    assert!(host.is_silent().await);
    host.close().await;
    server.wait_until(|server| server.sessions().is_empty(), TEST_TIMEOUT).await;
}

/// A server with another address has other tools. Until these are known, the old ones are listed, so that
/// the host hears of one change.
#[tokio::test]
async fn a_server_at_another_address_replaces_the_lists() {
    let old = testkit::server().legacy().tool("counter").run().await;
    let new = testkit::server().legacy().tool("echo").run().await;
    let gateway = gateway([at("one", &old)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.tools().await, ["counter"]);
    new.stop().await;
    let reload = gateway.reload([at("one", &new)]);
    assert_eq!(changes(&reload), (vec![], vec!["one"], vec![], 0));
    let listed = host.result("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["name"], "counter");
    assert!(listed["_meta"]["bowline/stale-servers"]["one"].is_string(), "{listed}");
    new.start().await;
    host.notification(TOOLS_CHANGED).await;
    assert_eq!(host.tools().await, ["echo"]);
    unknown_tool(&mut host, "counter").await;
    assert!(host.is_silent().await);
    old.wait_until(|old| old.sessions().is_empty(), TEST_TIMEOUT).await;
}

/// What the configuration exposes of a server counts at once.
#[tokio::test]
async fn another_exposure_changes_the_lists() {
    let server = testkit::server().legacy().tool("counter").tool("echo").run().await;
    let gateway = gateway([at("one", &server)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.tools().await, ["counter", "echo"]);
    let mut less = at("one", &server);
    less.exposure.tool_names = [("echo".to_owned(), "say".to_owned())].into();
    gateway.reload([less]);
    assert_eq!(host.tools().await, ["counter", "say"]);
    host.notification(TOOLS_CHANGED).await;
    assert!(host.is_silent().await);
}

/// TL-09: a plain name stays with the tool that had it, whatever is reloaded.
#[tokio::test]
async fn tl_09_names_do_not_move_when_servers_are_reloaded() {
    let one = testkit::server().legacy().tool("echo").run().await;
    let two = testkit::server().legacy().tool("echo").run().await;
    let gateway = gateway([at("one", &one)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.tools().await, ["echo"]);
    for (servers, tools) in [
        (vec![at("one", &one), at("two", &two)], vec!["one__echo", "two__echo"]),
        (vec![at("two", &two)], vec!["two__echo"]),
        (vec![at("one", &one)], vec!["echo"]),
        (vec![at("renamed", &one)], vec!["renamed__echo"]),
        (vec![with_header(&at("one", &one), "2")], vec!["echo"]),
    ] {
        gateway.reload(servers);
        assert_eq!(host.tools().await, tools);
        assert!(host.call_tool(1, tools[0], json!({})).await["result"].is_object());
    }
}

/// Hosts without a session see the new servers, and hear of them.
#[tokio::test]
async fn hosts_without_a_session_follow_a_reload() {
    let one = testkit::server().legacy().tool("counter").run().await;
    let two = testkit::server().modern().tool("echo").run().await;
    let gateway = gateway([at("one", &one)]);
    let endpoint = Endpoint::start(&gateway).await;
    let client = endpoint.client("host").await;
    client.listen_for_list_changes();
    let mut events = client.events();
    let tools = async || {
        let tools = soon(client.list_tools()).await.expect("a list");
        tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(tools().await, ["counter"]);
    assert_eq!(call(&client, "counter", json!({})).await, "1");
    let mut next_change = async || loop {
        let event = soon(events.next()).await.expect("it is connected");
        if let Event::Notification(said) = event
            && said.topic() == Topic::ToolsChanged
        {
            return;
        }
    };
    soon(client.ready()).await.expect("it is connected");
    let seen_before = one.sessions().len();
    gateway.reload([at("one", &one), at("two", &two)]);
    next_change().await;
    assert_eq!(tools().await, ["counter", "echo"]);
    assert_eq!(call(&client, "echo", json!({})).await, "{}");
    gateway.reload([at("two", &two)]);
    next_change().await;
    assert_eq!(tools().await, ["echo"]);
    one.wait_until(|one| one.sessions().is_empty(), TEST_TIMEOUT).await;
    assert_eq!((seen_before, one.initialize_count()), (1, 1));
    soon(client.close()).await;
    endpoint.stop().await;
}

/// A gateway may begin without servers, and lose all of them.
#[tokio::test]
async fn a_gateway_can_have_no_servers() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let gateway: Gateway = gateway([]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.tools().await, [""; 0]);
    gateway.reload([at("one", &server)]);
    assert_eq!(host.tools().await, ["counter"]);
    // A method that is not known here is for the only server.
    host.send_request(1, "nobody/knows", Value::Null).await;
    host.response(1).await;
    assert_eq!(server.count("nobody/knows"), 1);
    gateway.reload([]);
    assert_eq!(host.tools().await, [""; 0]);
    host.close().await;
    server.wait_until(|server| server.sessions().is_empty(), TEST_TIMEOUT).await;
}

/// A tool that was prefixed because of another server is still found under that name when the other one
/// is gone: its own server was not touched.
#[tokio::test]
async fn a_prefixed_name_is_still_known_when_the_other_server_is_gone() {
    let one = testkit::server().legacy().tool("counter").run().await;
    let two = testkit::server().legacy().tool("counter").run().await;
    let gateway = gateway([at("one", &one), at("two", &two)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.tools().await, ["one__counter", "two__counter"]);
    gateway.reload([at("one", &one)]);
    assert_eq!(result_text(&host.call_tool("a", "one__counter", json!({})).await), "1");
    assert_eq!(host.tools().await, ["counter"]);
    assert_eq!(result_text(&host.call_tool("b", "counter", json!({})).await), "2");
    unknown_tool(&mut host, "two__counter").await;
    assert_eq!((one.executions("counter"), two.executions("counter")), (2, 0));
}
