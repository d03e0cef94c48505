//! What hosts of `bowline serve` hear of lists: changes, each once, and never a part of a list in place of the
//! whole one.

use std::time::{Duration, Instant};

use bowline_testkit::{self as testkit, Control, Cursors, Fault, HttpServer, Script};
use serde_json::{Value, json};

use crate::connect::host::{Host, TEST_TIMEOUT, result_text};
use crate::context::Context;
use crate::status::http_entry;

/// How long the gateway collects changes before it tells a host of them.
const CHANGE_WINDOW: Duration = Duration::from_millis(200);
/// How often a server announces its lists.
const ANNOUNCEMENTS: usize = 50;

/// A host of `bowline serve` in front of one server.
async fn join(context: &Context, server: &HttpServer) -> Host {
    context.user_config(&format!("{}{LIST_LIMIT}", http_entry("one", server)));
    Host::start_initialized(context.bowline(["serve", "--stdio", "--alone"])).await
}

/// Lets the server have one more resource, and returns the methods of all notifications before the one about
/// that, which is the last of those that the gateway sends together.
async fn heard_before_resource(host: &mut Host, server: &Control, uri: &str) -> Vec<String> {
    server.edit(|script| script.resource(uri, "a mark"));
    server.wait_until(|server| server.announce_resources() > 0, TEST_TIMEOUT).await;
    let mut heard = Vec::new();
    loop {
        let message = host.next_message().await;
        let method = message["method"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned();
        let is_about_resources = method == "notifications/resources/list_changed";
        heard.push(method);
        if is_about_resources && uris(host, &mut heard).await.iter().any(|listed| listed == uri) {
            return heard;
        }
    }
}

/// The URIs in the list of resources. Notifications that come before it are added to `heard`.
async fn uris(host: &mut Host, heard: &mut Vec<String>) -> Vec<String> {
    let id = host.send_request("resources/list", json!({})).await;
    loop {
        let message = host.next_message().await;
        if message["id"] == id {
            let listed = message["result"]["resources"].as_array().expect("a list");
            return listed.iter().map(|one| one["uri"].as_str().expect("a URI").to_owned()).collect();
        }
        heard.push(message["method"].as_str().expect("a notification").to_owned());
    }
}

fn count(heard: &[String], kind: &str) -> usize {
    heard.iter().filter(|method| **method == format!("notifications/{kind}/list_changed")).count()
}

/// A server that comes and goes, forgets its sessions and announces lists that are what they were is not
/// heard of. Of one that changes, each kind of list is announced once; of one that keeps changing, once in
/// each window.
#[tokio::test]
async fn a_flapping_server_is_heard_of_once_per_kind_and_window() {
    let context = Context::new();
    let script = testkit::server().legacy().tool("echo").prompt("greet", "Hello").resource("x://a", "a");
    let server = script.run().await;
    let mut host = join(&context, &server).await;
    // The first lists may come later than the first response.
    heard_before_resource(&mut host, &server, "x://settled").await;

    for _ in 0..3 {
        server.restart().await;
        assert_eq!(result_text(&host.call("echo").await), "{}");
        server.drop_sessions();
        assert_eq!(result_text(&host.call("echo").await), "{}");
    }
    let fetched = ["tools/list", "prompts/list"].map(|method| server.count(method));
    server.wait_until(|server| server.announce_tools() > 0, TEST_TIMEOUT).await;
    for _ in 1..ANNOUNCEMENTS {
        server.announce_tools();
        server.announce_prompts();
        server.announce_resources();
    }
    let is_fetched = |server: &Control| {
        server.count("tools/list") > fetched[0] && server.count("prompts/list") > fetched[1]
    };
    server.wait_until(is_fetched, TEST_TIMEOUT).await;
    let heard = heard_before_resource(&mut host, &server, "x://quiet").await;
    assert_eq!(heard, ["notifications/resources/list_changed"], "nothing but the mark has changed");

    server.edit(|script| script.tool("add").prompt("part", "Farewell"));
    for _ in 0..ANNOUNCEMENTS {
        server.announce_prompts();
        server.announce_tools();
    }
    let heard = heard_before_resource(&mut host, &server, "x://changed").await;
    assert_eq!((count(&heard, "tools"), count(&heard, "prompts")), (1, 1), "{heard:?}");

    let (begun, fetched) = (Instant::now(), server.count("tools/list"));
    for turn in 0..ANNOUNCEMENTS {
        let name = format!("turn_{turn}");
        server.edit(|script| script.tool(name.as_str()));
        server.announce_tools();
        server.wait_until(|server| server.count("tools/list") > fetched + turn / 4, TEST_TIMEOUT).await;
    }
    let heard = heard_before_resource(&mut host, &server, "x://flapped").await;
    let windows = begun.elapsed().as_millis() / CHANGE_WINDOW.as_millis();
    let announced = count(&heard, "tools");
    assert!(announced >= 1 && announced as u128 <= windows + 2, "{announced} in {windows} windows");
    assert_eq!(count(&heard, "prompts"), 0, "{heard:?}");
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// The list of tools: their names, and why it is stale, if it is.
async fn tools(host: &mut Host) -> (Vec<String>, Value) {
    let answer = host.request("tools/list", json!({})).await;
    let result = &answer["result"];
    assert_eq!(result["nextCursor"], Value::Null, "{answer}");
    let tools = result["tools"].as_array().unwrap_or_else(|| panic!("no tools in {answer}"));
    let names = tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect();
    (names, result["_meta"]["bowline/stale-servers"]["one"].clone())
}

/// How many filler tools there are, on pages of which size.
const FILLERS: usize = 20;
const PAGE_SIZE: usize = 10;
/// How long a list may take, however many pages it has. It ends the endless one.
const LIST_LIMIT: &str = "max_timeout = '5s'\n";

/// PA-02: pages whose cursors repeat, never end or fail are no list: the last good one stays, and says so.
#[tokio::test]
async fn pa_02_bad_pages_keep_the_last_good_list() {
    for (kind, damage) in [
        ("repeated", (|script| script.cursors(Cursors::Looping)) as fn(Script) -> Script),
        ("endless", |script| script.cursors(Cursors::Endless)),
        ("failing", |script| script),
    ] {
        let context = Context::new();
        let script = testkit::server().legacy().tool("echo").filler_tools(FILLERS, 20).page_size(PAGE_SIZE);
        let server = script.run().await;
        let mut host = join(&context, &server).await;
        let good = loop {
            // The first list may come before the server has answered.
            if let (names, Value::Null) = tools(&mut host).await {
                break names;
            }
        };
        assert_eq!(good.len(), FILLERS + 1, "{kind}");
        server.edit(|script| damage(script.tool("joined")));
        if kind == "failing" {
            // The first page comes, and no other.
            server.arm(Fault::error(-32603, "no such page").on("tools/list").skip(1).always());
        }
        server.wait_until(|server| server.announce_tools() > 0, TEST_TIMEOUT).await;
        loop {
            let (names, reason) = tools(&mut host).await;
            assert_eq!(names, good, "{kind}: {reason}");
            if reason.as_str().is_some_and(|reason| reason.starts_with("`tools/list` failed: ")) {
                break;
            }
            assert_eq!(reason, Value::Null, "{kind}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(result_text(&host.call("echo").await), "{}", "{kind}");
        server.disarm();
        server.edit(|script| script.cursors(Cursors::Plain));
        server.wait_until(|server| server.announce_tools() > 0, TEST_TIMEOUT).await;
        loop {
            let (names, reason) = tools(&mut host).await;
            if names != good {
                assert_eq!((names.len(), reason), (FILLERS + 2, Value::Null), "{kind}");
                assert!(names.iter().any(|name| name == "joined"), "{kind}");
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(host.close().await.status.code(), Some(0), "{kind}");
    }
}
