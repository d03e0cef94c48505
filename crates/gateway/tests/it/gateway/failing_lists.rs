//! A list that cannot be fetched: the other lists of its server are used, and it is named with the reason.

use std::time::{Duration, Instant};

use bowline_gateway::{Gateway, Naming, STALE_SERVERS};
use bowline_testkit::{self as testkit, Fault, HttpServer, StreamKind};
use serde_json::{Value, json};

use super::{at, gateway};
use crate::support::{TEST_TIMEOUT, TestHost, result_text};

/// A server that has something in every list.
async fn server() -> HttpServer {
    let script = testkit::server().legacy().tool("echo").prompt("greet", "hi");
    script.resource("file:///a", "a").template("file:///{name}").run().await
}

/// What a host gets: tools, prompts, resources and templates.
async fn lists(host: &mut TestHost) -> [Vec<String>; 4] {
    [
        host.tools().await,
        host.names("prompts/list", "prompts", "name").await,
        host.names("resources/list", "resources", "uri").await,
        host.names("resources/templates/list", "resourceTemplates", "uriTemplate").await,
    ]
}

fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// Waits until a list says this of the server.
async fn wait_for_reason(host: &mut TestHost, expected: &Value) {
    let waiting = async {
        loop {
            let list = host.result("tools/list", Value::Null).await;
            if list["_meta"][STALE_SERVERS]["one"] == *expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("in time");
}

#[tokio::test]
async fn a_list_that_the_server_does_not_know_is_empty() {
    let server = server().await;
    server.arm(Fault::error(-32601, "Method not found").on("resources/templates/list").always());
    let gateway = gateway([at("one", &server)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    let expected = [names(["echo"]), names(["greet"]), names(["file:///a"]), names([])];
    assert_eq!(lists(&mut host).await, expected);
    assert_eq!(host.result("tools/list", Value::Null).await.get("_meta"), None);
    assert_eq!(gateway.stale_lists(), []);
    assert_eq!(result_text(&host.call_tool(1, "echo", json!({"a": 1})).await), r#"{"a":1}"#);
}

/// Whoever declares tools has a list of them, and may not be ready yet. It is fetched again without a change.
#[tokio::test]
async fn tools_that_are_denied_at_first_are_fetched_again() {
    let server = server().await;
    for method in ["tools/list", "prompts/list"] {
        server.arm(Fault::error(-32601, "Method not found").on(method).always());
    }
    let gateway = gateway([at("one", &server)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    wait_for_reason(&mut host, &json!("`tools/list` failed: error -32601")).await;
    assert_eq!(
        lists(&mut host).await,
        [names([]), names([]), names(["file:///a"]), names(["file:///{name}"])]
    );
    let stale = gateway.stale_lists();
    assert_eq!((stale.len(), &stale[0].lists[..]), (1, &["tools"][..]), "{stale:?}");
    server.disarm();
    host.notification("notifications/tools/list_changed").await;
    assert_eq!(host.tools().await, ["echo"]);
    wait_for_reason(&mut host, &Value::Null).await;
    assert_eq!(server.count("prompts/list"), 1, "what is not there is not asked for again");
}

#[tokio::test]
async fn a_list_that_fails_is_named_and_hides_no_other() {
    let bad = "the server sent a bad message: ";
    for (fault, method, list, at_index, reason) in [
        (Fault::error(-32603, "secret"), "prompts/list", "prompts", 1, "error -32603"),
        (Fault::reply(json!({"resources": null})), "resources/list", "resources", 2, bad),
        (Fault::reply(json!({})), "resources/list", "resources", 2, bad),
    ] {
        let server = server().await;
        server.arm(fault.on(method).always());
        let gateway = gateway([at("one", &server)]);
        let mut host = TestHost::join_with(&gateway, json!({})).await;
        let mut expected =
            [names(["echo"]), names(["greet"]), names(["file:///a"]), names(["file:///{name}"])];
        expected[at_index].clear();
        assert_eq!(lists(&mut host).await, expected, "{method}");
        let stale = gateway.stale_lists();
        let [stale] = &stale[..] else { panic!("{stale:?}") };
        assert_eq!((&*stale.server, &stale.lists[..]), ("one", &[list][..]));
        if reason == bad {
            // What is wrong with it is the client's to say.
            assert!(stale.reason.starts_with(&format!("`{method}` failed: ")), "{stale:?}");
        } else {
            assert_eq!(*stale.reason, *format!("`{method}` failed: {reason}"));
        }
        let meta = host.result(method, Value::Null).await["_meta"][STALE_SERVERS].clone();
        assert_eq!(meta, json!({"one": &*stale.reason}));
        assert_eq!(result_text(&host.call_tool(1, "echo", json!({"a": 1})).await), r#"{"a":1}"#);
    }
}

#[tokio::test]
async fn a_list_that_hangs_does_not_delay_the_others() {
    for naming in [Naming::default(), Naming::Unchanged] {
        let server = server().await;
        server.arm(Fault::silent().on("prompts/list").always());
        let gateway = Gateway::builder([at("one", &server)]).naming(naming).list_wait(TEST_TIMEOUT).build();
        let begun = Instant::now();
        let mut host = TestHost::join_with(&gateway, json!({})).await;
        assert_eq!(host.tools().await, ["echo"]);
        assert_eq!(host.names("resources/list", "resources", "uri").await, ["file:///a"]);
        let templates = host.names("resources/templates/list", "resourceTemplates", "uriTemplate").await;
        assert_eq!(templates, ["file:///{name}"]);
        assert!(begun.elapsed() < TEST_TIMEOUT / 2, "{:?}", begun.elapsed());
        wait_for_reason(&mut host, &json!("`prompts/list` has not been answered yet")).await;
        let stale = gateway.stale_lists();
        assert_eq!((stale.len(), &stale[0].lists[..]), (1, &["prompts"][..]), "{stale:?}");
    }
}

/// The last good list of the kind that fails stays, and a new tool is announced meanwhile.
#[tokio::test]
async fn a_known_list_stays_while_it_fails_and_others_change() {
    let server = server().await;
    let mut host = TestHost::join_with(&gateway([at("one", &server)]), json!({})).await;
    let known = [names(["echo"]), names(["greet"]), names(["file:///a"]), names(["file:///{name}"])];
    assert_eq!(lists(&mut host).await, known);
    server.wait_until(|server| server.open_streams(StreamKind::Get) > 0, TEST_TIMEOUT).await;
    server.arm(Fault::error(-32603, "secret").on("prompts/list").always());
    server.edit(|script| script.tool("new").prompt("more", "hi"));
    server.announce_prompts();
    wait_for_reason(&mut host, &json!("`prompts/list` failed: error -32603")).await;
    server.announce_tools();
    host.notification("notifications/tools/list_changed").await;
    let [_, prompts, resources, templates] = known;
    let expected = [names(["echo", "new"]), prompts, resources, templates];
    assert_eq!(lists(&mut host).await, expected);
    assert!(host.is_silent().await, "one change is announced once");
    server.disarm();
    host.notification("notifications/prompts/list_changed").await;
    assert_eq!(host.names("prompts/list", "prompts", "name").await, ["greet", "more"]);
    wait_for_reason(&mut host, &Value::Null).await;
}

/// A server that is not ready yet may deny a list that it has.
#[tokio::test]
async fn a_known_list_stays_while_the_server_does_not_know_it() {
    let server = server().await;
    let gateway = gateway([at("one", &server)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    let known = [names(["echo"]), names(["greet"]), names(["file:///a"]), names(["file:///{name}"])];
    assert_eq!(lists(&mut host).await, known);
    server.wait_until(|server| server.open_streams(StreamKind::Get) > 0, TEST_TIMEOUT).await;
    server.arm(Fault::error(-32601, "Method not found").on("prompts/list").always());
    server.announce_prompts();
    let reason = json!("`prompts/list` failed: error -32601");
    wait_for_reason(&mut host, &reason).await;
    assert_eq!(lists(&mut host).await, known);
    // Another host has what the first one had.
    let mut other = TestHost::join_with(&gateway, json!({})).await;
    wait_for_reason(&mut other, &reason).await;
    assert_eq!(lists(&mut other).await, known);
    // It is fetched again without a change.
    server.edit(|script| script.prompt("more", "hi"));
    server.disarm();
    host.notification("notifications/prompts/list_changed").await;
    assert_eq!(host.names("prompts/list", "prompts", "name").await, ["greet", "more"]);
    wait_for_reason(&mut host, &Value::Null).await;
}
