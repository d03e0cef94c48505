//! Views that follow from the roots of a host.

use bowline::config::{RootFolder, View};
use bowline_gateway::Gateway;
use bowline_testkit::{self as testkit, HttpServer, with};
use serde_json::{Value, json};

use super::super::at;
use crate::support::{TestHost, result_text};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

struct Fixture {
    work: HttpServer,
    home: HttpServer,
    gateway: Gateway,
}

async fn start() -> Fixture {
    let work = testkit::server().legacy().tool("deploy").resource("work://a", "a").run().await;
    let home = testkit::server().legacy().tool("lights").resource("home://a", "b").run().await;
    let view = |server: &str, folder: &str| {
        let servers = Some([server.to_owned()].into());
        with!(View::default(), servers: servers, roots: vec![RootFolder::new(folder)])
    };
    let gateway = Gateway::builder([at("work", &work), at("home", &home)])
        .view("work", view("work", "/w/*"))
        .view("home", view("home", "/h"))
        .build();
    Fixture { work, home, gateway }
}

/// Answers the question of the gateway for the roots of the host.
async fn answer_roots(host: &mut TestHost, roots: &[&str]) {
    let question = host.next_server_request().await;
    assert_eq!(question["method"], "roots/list");
    let roots: Vec<_> = roots.iter().map(|folder| json!({"uri": format!("file://{folder}")})).collect();
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": roots}});
    host.send_line(&answer.to_string()).await;
}

async fn tools_after(host: &mut TestHost, id: &str, roots: &[&str]) -> Vec<Value> {
    host.send_request(id, "tools/list", json!({})).await;
    answer_roots(host, roots).await;
    let list = host.response(id).await;
    let tools = list["result"]["tools"].as_array().expect("a list").iter();
    tools.map(|tool| tool["name"].clone()).collect()
}

/// What the view hides is in no list and cannot be called, read, subscribed to or completed, and a server
/// that it hides hears nothing.
#[tokio::test]
async fn the_roots_of_a_host_select_its_view() {
    let Fixture { work, home, gateway } = start().await;
    let mut host = TestHost::join_with(&gateway, json!({"roots": {"listChanged": true}})).await;
    assert_eq!(tools_after(&mut host, "first", &["/elsewhere", "/w/a"]).await, ["deploy"]);
    assert_eq!(result_text(&host.call_tool(1, "deploy", json!({})).await), "{}");
    let answer = host.call_tool(2, "lights", json!({})).await;
    assert_eq!(answer["error"], json!({"code": -32602, "message": "Unknown tool: lights"}));
    for method in ["resources/read", "resources/subscribe"] {
        host.result(method, json!({"uri": "work://a"})).await;
        host.error(method, json!({"uri": "home://a"})).await;
    }
    let of = json!({"type": "ref/resource", "uri": "home://a"});
    host.error("completion/complete", json!({"ref": of, "argument": {"name": "x", "value": ""}})).await;
    assert_eq!((home.received().len(), work.initialize_count()), (0, 1));
    host.close().await;
}

/// The host is told when its roots, and with them its view, are others. Its subscription ends with the view.
#[tokio::test]
async fn a_host_with_other_roots_gets_another_view() {
    let Fixture { work, home, gateway } = start().await;
    let mut host = TestHost::join_with(&gateway, json!({"roots": {"listChanged": true}})).await;
    assert_eq!(tools_after(&mut host, "first", &["/w/a"]).await, ["deploy"]);
    host.result("resources/subscribe", json!({"uri": "work://a"})).await;
    host.send_notification("notifications/roots/list_changed", json!({})).await;
    answer_roots(&mut host, &["/h/x"]).await;
    host.notification(TOOLS_CHANGED).await;
    assert_eq!(host.tools().await, ["lights"]);
    let answer = host.call_tool(1, "deploy", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602);
    work.announce_resource("work://a");
    assert_eq!(result_text(&host.call_tool(2, "lights", json!({})).await), "{}");
    host.send_notification("notifications/roots/list_changed", json!({})).await;
    answer_roots(&mut host, &[]).await;
    host.notification(TOOLS_CHANGED).await;
    assert_eq!(host.tools().await, ["deploy", "lights"], "no root lies in a folder of a view");
    assert_eq!(home.initialize_count(), 1);
    let rest = host.close().await;
    let is_update = |message: &&Value| message["method"] == "notifications/resources/updated";
    assert_eq!(rest.iter().filter(is_update).count(), 0, "{rest:?}");
}

/// Until a host has said which roots it has, it sees nothing. One that declares none is not asked, and
/// one that has selected a view neither.
#[tokio::test]
async fn nothing_is_shown_before_the_roots_are_known() {
    let Fixture { work, home, gateway } = start().await;
    let mut host = TestHost::join_with(&gateway, json!({"roots": {}})).await;
    host.send_request("list", "tools/list", json!({})).await;
    host.send_request("call", "tools/call", json!({"name": "deploy", "arguments": {}})).await;
    let question = host.next_server_request().await;
    let refused = json!({"code": -32601, "message": "not now"});
    host.send_line(&json!({"jsonrpc": "2.0", "id": question["id"], "error": refused}).to_string()).await;
    assert_eq!(host.response("list").await["result"]["tools"], json!([]));
    let question = host.next_server_request().await;
    host.send_line(&json!({"jsonrpc": "2.0", "id": question["id"], "error": refused}).to_string()).await;
    assert_eq!(host.response("call").await["error"]["code"], -32602);
    assert_eq!((work.received().len(), home.received().len()), (0, 0));
    assert_eq!(tools_after(&mut host, "second", &["/h"]).await, ["lights"]);
    host.notification(TOOLS_CHANGED).await;
    host.close().await;

    let mut without = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(without.tools().await, ["deploy", "lights"]);
    assert!(without.is_silent().await);
    let mut selected = TestHost::join_view(&gateway, "work");
    selected.initialize(json!({"roots": {}})).await;
    assert_eq!(selected.tools().await, ["deploy"]);
    selected.close().await;
}
