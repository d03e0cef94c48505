//! Lists: merged, complete, announced when they change, and kept while a server is down.

use std::time::{Duration, Instant, SystemTime};

use bowline::Server;
use bowline::config::{Exposure, ToolPattern};
use bowline_gateway::{FolderCatalog, Gateway, STALE_SERVERS, StaleLists};
use bowline_testkit::{self as testkit, Fault, StreamKind};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{at, gateway, wait_for_cached_lists};
use crate::support::{TEST_TIMEOUT, TestHost, result_text};

/// The port of a server that is not there.
fn dead(name: &str) -> Server {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    Server::http(name, format!("http://127.0.0.1:{port}/mcp")).build().expect("a loopback URL")
}

#[tokio::test]
async fn lists_of_all_servers_are_merged() {
    let one = testkit::server().legacy().tool("echo").tool("add").instructions("Use echo.").run().await;
    let two =
        testkit::server().modern().tool("echo").prompt("greet", "hi").resource("file:///b", "b").run().await;
    let mut host = TestHost::join(&gateway([at("one", &one), at("two", &two)]));
    let hello = host.initialize(json!({})).await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "bowline");
    assert_eq!(hello["result"]["instructions"], "# Server `one`\nUse echo.");
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(host.tools().await, ["one__echo", "add", "two__echo"]);
    assert_eq!(host.names("prompts/list", "prompts", "name").await, ["greet"]);
    assert_eq!(host.names("resources/list", "resources", "uri").await, ["file:///b"]);
    assert_eq!(host.names("resources/templates/list", "resourceTemplates", "uriTemplate").await, [""; 0]);
    let list = host.result("tools/list", Value::Null).await;
    assert_eq!(list.get("_meta"), None, "every server has answered");
    assert_eq!(list.get("nextCursor"), None);
}

/// PA-01: 2,500 tools in pages of 50 arrive as one list.
#[tokio::test]
async fn pa_01_all_pages_are_in_the_list() {
    let server = testkit::server().legacy().filler_tools(2_500, 100).page_size(50).run().await;
    let gateway = Gateway::builder([at("one", &server)]).list_wait(TEST_TIMEOUT).build();
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.tools().await.len(), 2_500);
    assert_eq!(server.count("tools/list"), 50, "each page is fetched once");
}

#[tokio::test]
async fn a_change_is_announced_once_and_only_if_there_is_one() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &server)]), json!({})).await;
    assert_eq!(host.tools().await, ["echo"]);
    server.wait_until(|server| server.open_streams(StreamKind::Get) > 0, TEST_TIMEOUT).await;
    // The server says so, and nothing has changed.
    let lists = server.count("tools/list");
    server.announce_tools();
    server.wait_until(|server| server.count("tools/list") > lists, TEST_TIMEOUT).await;
    server.edit(|script| script.tool("new"));
    server.announce_tools();
    host.notification("notifications/tools/list_changed").await;
    assert_eq!(host.tools().await, ["echo", "new"]);
    assert!(host.is_silent().await, "one change is announced once");
}

/// A host is answered at once, and told when a server that was down offers something.
#[tokio::test]
async fn a_server_that_comes_late_is_announced() {
    let up = testkit::server().legacy().tool("echo").run().await;
    let late = testkit::server().legacy().tool("late").run().await;
    late.stop().await;
    let mut host = TestHost::join_with(&gateway([at("up", &up), at("late", &late)]), json!({})).await;
    assert_eq!(host.tools().await, ["echo"]);
    let list = host.result("tools/list", Value::Null).await;
    let stale = list["_meta"][STALE_SERVERS].as_object().expect("a server is missing");
    assert_eq!(stale.keys().collect::<Vec<_>>(), ["late"]);
    // Nobody knows yet whether there is such a tool, so it is not said that there is none.
    let away = json!({"bowline": {"server": "late", "cause": "unlisted", "execution": "not_executed"}});
    let uri = json!({"uri": "a:1"});
    let calls = [
        ("resources/read", uri.clone()),
        ("resources/subscribe", uri),
        ("prompts/get", json!({"name": "p"})),
    ];
    for (method, params) in [("tools/call", json!({"name": "late"}))].into_iter().chain(calls) {
        let error = host.error(method, params).await;
        assert_eq!((&error["code"], &error["data"]), (&json!(-31050), &away), "{method}");
    }
    late.start().await;
    host.notification("notifications/tools/list_changed").await;
    assert_eq!(host.tools().await, ["echo", "late"]);
    result_text(&host.call_tool(11, "late", json!({})).await);
    let answer = host.call_tool(12, "none", json!({})).await;
    assert_eq!(answer["error"], json!({"code": -32602, "message": "Unknown tool: none"}));
}

/// Waits until the lists that hosts get from the catalog are these: of which server, which, and why.
async fn wait_for_stale_lists(gateway: &Gateway, expected: &[(&str, &[&str], &str)]) -> Vec<StaleLists> {
    let waiting = async {
        loop {
            let found = gateway.stale_lists();
            let told = found.iter().map(|stale| (&*stale.server, &*stale.lists, &*stale.reason));
            if told.eq(expected.iter().copied()) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.expect("in time")
}

/// Which lists come from the catalog is known of the hosts that are served, with the time at which that began.
#[tokio::test]
async fn stale_lists_are_reported_while_there_are_hosts() {
    let one = testkit::server().legacy().tool("echo").prompt("greet", "hi").run().await;
    let two = testkit::server().legacy().tool("add").run().await;
    let impatient = at("one", &one).with_reconnect_wait(Duration::ZERO);
    let gateway = gateway([impatient, at("two", &two)]);
    assert_eq!(gateway.stale_lists(), [], "there is no host");
    let mut first = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(first.tools().await, ["echo", "add"]);
    // Lists that the host has not asked for may come later.
    wait_for_stale_lists(&gateway, &[]).await;
    let fresh_until = SystemTime::now();
    one.stop().await;
    assert!(first.call_tool(1, "echo", json!({})).await["error"].is_object());
    let expected: [(&str, &[&str], &str); 1] = [("one", &["tools", "prompts"], "connection refused")];
    let found = wait_for_stale_lists(&gateway, &expected).await;
    assert!((fresh_until..=SystemTime::now()).contains(&found[0].since), "{found:?}");
    // A second host has never had other lists, and does not make it later.
    let mut second = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(second.tools().await, ["echo", "add"]);
    assert_eq!(wait_for_stale_lists(&gateway, &expected).await[0].since, found[0].since);
    first.close().await;
    second.close().await;
    wait_for_stale_lists(&gateway, &[]).await;
}

/// A tool that is unknown while a server hangs may be of that server, as if the server were down.
#[tokio::test]
async fn an_unknown_tool_may_be_of_a_server_that_hangs() {
    let up = testkit::server().legacy().tool("echo").run().await;
    let listless = testkit::server().legacy().tool("late").run().await;
    listless.arm(Fault::silent().on("tools/list").always());
    // Connections to it are made, and nobody answers.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/mcp", mute.local_addr().expect("an address"));
    let mut hanging = vec![at("late", &listless), Server::http("late", url).build().expect("a loopback URL")];
    if cfg!(unix) {
        hanging.push(Server::stdio("late", "sleep").arg("1000").build().expect("a command"));
    }
    for server in hanging {
        let transport = format!("{:?}", server.transport);
        let gateway = Gateway::builder([at("up", &up), server]).list_wait(HANG_WAIT).build();
        let mut host = TestHost::join_with(&gateway, json!({})).await;
        wait_for_tools(&mut host, &["echo"]).await;
        let list = host.result("tools/list", Value::Null).await;
        assert_eq!(list["_meta"][STALE_SERVERS], json!({"late": "it has not answered yet"}), "{transport}");
        let unlisted = json!({
            "code": -31050,
            "message": "bowline: Unknown tool: late; it may be of `late`, whose lists are not known: it has not \
                        answered yet (the request was not executed)",
            "data": {"bowline": {"server": "late", "cause": "unlisted", "execution": "not_executed"}},
        });
        assert_eq!(host.error("tools/call", json!({"name": "late"})).await, unlisted, "{transport}");
    }
}

/// A server of which nothing is exposed cannot have what is unknown.
#[tokio::test]
async fn an_unknown_tool_is_not_of_a_server_without_enabled_tools() {
    let up = testkit::server().legacy().tool("echo").run().await;
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/mcp", mute.local_addr().expect("an address"));
    let (mut none_enabled, mut all_disabled, mut no_prompts) =
        (Exposure::default(), Exposure::default(), Exposure::default());
    none_enabled.enabled_tools = Some(Vec::new());
    all_disabled.disabled_tools = vec![ToolPattern::new("*")];
    no_prompts.prompts = false;
    let unknown = |what: &str| json!({"code": -32602, "message": format!("Unknown {what}: late")});
    for (exposure, method, what, other_method) in [
        (none_enabled, "tools/call", "tool", "prompts/get"),
        (all_disabled, "tools/call", "tool", "prompts/get"),
        (no_prompts, "prompts/get", "prompt", "tools/call"),
    ] {
        let late = Server::http("late", &*url).exposure(exposure).build().expect("a loopback URL");
        let gateway = Gateway::builder([at("up", &up), late]).list_wait(HANG_WAIT).build();
        let mut host = TestHost::join_with(&gateway, json!({})).await;
        wait_for_tools(&mut host, &["echo"]).await;
        assert_eq!(host.error(method, json!({"name": "late"})).await, unknown(what));
        let other = host.error(other_method, json!({"name": "late"})).await;
        let unlisted =
            json!({"bowline": {"server": "late", "cause": "unlisted", "execution": "not_executed"}});
        assert_eq!((&other["code"], &other["data"]), (&json!(-31050), &unlisted), "{other_method}");
    }
}

/// How long lists wait for a server that hangs.
const HANG_WAIT: Duration = Duration::from_millis(100);

/// Requests the tools until they are these.
async fn wait_for_tools(host: &mut TestHost, expected: &[&str]) {
    while host.tools().await != expected {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_server_that_is_down_keeps_its_tools_and_the_list_says_so() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let impatient = at("one", &server).with_reconnect_wait(Duration::ZERO);
    let mut host = TestHost::join_with(&gateway([impatient]), json!({})).await;
    assert_eq!(host.tools().await, ["echo"]);
    server.stop().await;
    // The client notices at the latest when it is used.
    host.call_tool(1, "echo", json!({})).await;
    let list = host.result("tools/list", Value::Null).await;
    assert_eq!(list["tools"][0]["name"], "echo");
    assert!(list["_meta"][STALE_SERVERS]["one"].is_string(), "{list}");
    server.start().await;
    while host.result("tools/list", Value::Null).await.get("_meta").is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(result_text(&host.call_tool(2, "echo", json!({"a": 1})).await), r#"{"a":1}"#);
    assert!(host.is_silent().await, "nothing has changed for the host");
}

/// A list that fails on a later page does not replace the one that was fetched before.
#[tokio::test]
async fn a_list_that_cannot_be_fetched_to_its_end_changes_nothing() {
    let server = testkit::server().legacy().filler_tools(30, 50).page_size(10).run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &server)]), json!({})).await;
    assert_eq!(host.tools().await.len(), 30);
    server.wait_until(|server| server.open_streams(StreamKind::Get) > 0, TEST_TIMEOUT).await;
    server.arm(Fault::error(-32603, "no page").on("tools/list").skip(1).always());
    server.edit(|script| script.tool("new"));
    let lists = server.count("tools/list");
    server.announce_tools();
    server.wait_until(|server| server.count("tools/list") > lists, TEST_TIMEOUT).await;
    assert_eq!(host.tools().await.len(), 30);
    server.disarm();
    host.notification("notifications/tools/list_changed").await;
    assert_eq!(host.tools().await.len(), 31);
}

/// What a gateway has seen once, the next one knows at once, with every server down.
#[tokio::test]
async fn the_catalog_outlives_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = testkit::server().legacy().tool("echo").instructions("Use echo.").run().await;
    let build = || {
        Gateway::builder([at("one", &server)])
            .catalog_cache(FolderCatalog::new(folder.path()))
            .list_wait(Duration::from_secs(600))
            .build()
    };
    let mut host = TestHost::join_with(&build(), json!({})).await;
    assert_eq!(host.tools().await, ["echo"]);
    host.close().await;
    wait_for_cached_lists(folder.path()).await;
    server.stop().await;
    let mut host = TestHost::join(&build());
    let hello = host.initialize(json!({})).await;
    assert_eq!(hello["result"]["instructions"], "# Server `one`\nUse echo.");
    let list = host.result("tools/list", Value::Null).await;
    assert_eq!(list["tools"][0]["name"], "echo");
    assert!(list["_meta"][STALE_SERVERS]["one"].is_string(), "{list}");
}

/// A server that is down for good does not hold up the list beyond the configured wait.
#[tokio::test]
async fn a_list_does_not_wait_for_a_server_that_is_down() {
    let up = testkit::server().legacy().tool("echo").run().await;
    let gateway = Gateway::builder([at("up", &up), dead("down")]).list_wait(Duration::from_secs(600)).build();
    let begun = Instant::now();
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.tools().await, ["echo"]);
    assert!(begun.elapsed() < Duration::from_secs(300), "it is known to be down");
}

/// GW-12: two hosts get the same list, byte for byte.
#[tokio::test]
async fn gw_12_lists_do_not_depend_on_the_connection() {
    let one = testkit::server().legacy().tool("b").tool("a").run().await;
    let two = testkit::server().legacy().tool("c").tool("a").run().await;
    let gateway = gateway([at("one", &one), at("two", &two)]);
    let mut lines = Vec::new();
    for _ in 0..2 {
        let mut host = TestHost::join_with(&gateway, json!({})).await;
        lines.push(host.result("tools/list", Value::Null).await["tools"].to_string());
    }
    assert_eq!(lines[0], lines[1]);
}

/// Servers list some tools only for hosts that can answer what they ask, so hosts with other
/// capabilities have other lists, also in the cache.
#[tokio::test]
async fn hosts_with_other_capabilities_have_their_own_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = testkit::server().legacy().tool("echo").run().await;
    let build =
        || Gateway::builder([at("one", &server)]).catalog_cache(FolderCatalog::new(folder.path())).build();
    let gateway = build();
    let mut first = TestHost::join_with(&gateway, json!({"roots": {}})).await;
    assert_eq!(first.tools().await, ["echo"]);
    server.edit(|script| script.tool("new"));
    let mut second = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(second.tools().await, ["echo", "new"]);
    assert_eq!(first.tools().await, ["echo"], "nobody announced a change");
    assert!(first.is_silent().await);
}

/// A server may offer something to one session alone: others do not see it, and it is not
/// remembered for the next.
#[tokio::test]
async fn what_one_session_is_offered_others_do_not_see() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let gateway = gateway([at("one", &server)]);
    let mut alice = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(alice.tools().await, ["echo"]);
    server.wait_until(|server| server.open_streams(StreamKind::Get) > 0, TEST_TIMEOUT).await;
    server.edit(|script| script.tool("secret"));
    server.announce_tools();
    alice.notification("notifications/tools/list_changed").await;
    assert_eq!(alice.tools().await, ["echo", "secret"]);
    server.edit(|script| script.without_tool("secret"));
    let mut bob = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(bob.tools().await, ["echo"], "it is not what alice has");
    assert_eq!(alice.tools().await, ["echo", "secret"], "nobody told her of a change");
    // A change that only his connection is told of is his.
    server.edit(|script| script.tool("other"));
    server.wait_until(|server| server.open_streams(StreamKind::Get) > 1, TEST_TIMEOUT).await;
    server.announce_tools();
    bob.notification("notifications/tools/list_changed").await;
    assert_eq!(bob.tools().await, ["echo", "other"]);
}
