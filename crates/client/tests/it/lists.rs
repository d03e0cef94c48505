//! Complete lists (group PA), undeclared capabilities (LC-05) and malformed elements.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline::{Cause, Client, ErrorKind, Limit, Misbehavior};
use bowline_testkit::{self as testkit, Cursors, Fault};
use serde_json::json;

use crate::support::{http, run_everywhere, tool_pages_with_cursor};

/// PA-01, PA-02, LC-09: all pages are fetched, cursors are passed unchanged, and each request has
/// full `_meta`.
#[tokio::test]
async fn pa_02_all_pages() {
    let script = testkit::server()
        .filler_tools(25, 100)
        .page_size(10)
        .resource("a:1", "x")
        .template("t:{a}")
        .prompt("p", "hi");
    for (name, running, server) in run_everywhere(script).await {
        let client = Client::connect(server).await.unwrap();
        assert_eq!(client.list_tools().await.unwrap().len(), 25, "{name}");
        assert_eq!(running.count("tools/list"), 3);
        assert_eq!(client.list_resources().await.unwrap().len(), 1);
        assert_eq!(client.list_resource_templates().await.unwrap().len(), 1);
        assert_eq!(client.list_prompts().await.unwrap().len(), 1);
        if name.starts_with("modern") {
            let meta: Vec<_> = running
                .received_with_method("tools/list")
                .iter()
                .map(|page| page.params()["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone())
                .collect();
            assert_eq!(meta, vec![json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }); 3]);
        }
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// PA-02: the empty string is a valid cursor.
#[tokio::test]
async fn pa_02_an_empty_cursor_is_not_the_end() {
    let server =
        testkit::server().filler_tools(15, 50).page_size(10).cursors(Cursors::EmptyString).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    assert_eq!(client.list_tools().await.unwrap().len(), 15);
    assert_eq!(server.received_with_method("tools/list")[1].params()["cursor"], "");
    client.close().await;
}

/// PA-02: a repeated cursor and endless pages are errors.
#[tokio::test]
async fn pa_02_lists_that_do_not_end_are_caught() {
    let server = testkit::server().filler_tools(15, 50).page_size(5).cursors(Cursors::Looping).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let error = client.list_tools().await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::EndlessList));
    assert!(server.count("tools/list") < 10);
    client.close().await;

    let server = testkit::server().filler_tools(3, 20).page_size(1).cursors(Cursors::Endless).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let error = client.list_tools().await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::EndlessList));
    client.close().await;
}

/// PA-02: a list that does not end in its time fails, and the error says that pages came.
#[tokio::test]
async fn pa_02_a_list_without_end_is_limited_in_time() {
    let server = testkit::server().filler_tools(3, 20).page_size(1).cursors(Cursors::Endless).run().await;
    server.arm(Fault::delay(Duration::from_millis(20)).on("tools/list").always());
    let limited = http(&server).with_timeout(Duration::from_secs(1));
    let client = Client::connect(limited).await.unwrap();
    let error = client.list_tools().await.unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!(fault.cause, Cause::Timeout(Limit::Total));
    let note = fault.evidence.note.as_deref().unwrap();
    let pages =
        note.strip_prefix("page ").and_then(|rest| rest.strip_suffix(" of the list was not its last"));
    let pages: usize = pages.and_then(|pages| pages.parse().ok()).unwrap_or_else(|| panic!("{note}"));
    let asked = server.count("tools/list");
    assert!(asked == pages || asked == pages + 1, "{asked} pages were asked for, {pages} counted");
    client.close().await;
}

/// PA-03: an invalid cursor restarts the list, once.
#[tokio::test]
async fn pa_03_an_invalid_cursor_starts_over() {
    let server = testkit::server().filler_tools(15, 50).page_size(10).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::error(-32602, "Invalid cursor").on("tools/list").skip(1));
    assert_eq!(client.list_tools().await.unwrap().len(), 15);
    assert_eq!(tool_pages_with_cursor(&server), [false, true, false, true]);
    client.close().await;
}

/// LC-05, TL-01: without the capability the server is not asked, and lists are empty.
#[tokio::test]
async fn lc_05_what_is_not_offered_is_not_asked_for() {
    let script = testkit::server()
        .without_capability("tools")
        .without_capability("resources")
        .without_capability("prompts");
    for (name, running, server) in run_everywhere(script).await {
        let client = Client::connect(server).await.unwrap();
        assert!(client.list_tools().await.unwrap().is_empty(), "{name}");
        assert!(client.list_resources().await.unwrap().is_empty());
        assert!(client.list_resource_templates().await.unwrap().is_empty());
        assert!(client.list_prompts().await.unwrap().is_empty());
        for error in [
            client.call_tool("x", &json!({})).await.unwrap_err(),
            client.read_resource("a:1").await.unwrap_err(),
            client.get_prompt("x", &BTreeMap::new()).await.unwrap_err(),
        ] {
            assert!(matches!(error.kind(), ErrorKind::NotOffered(_)), "{name}: {error}");
        }
        client.close().await;
        let handshake = ["server/discover", "initialize", "notifications/initialized", "GET", "DELETE"];
        for received in running.received() {
            assert!(handshake.contains(&received.method.as_str()), "{name}: {}", received.method);
        }
    }
}

/// BM-08: a malformed tool is left out alone; unknown members survive.
#[tokio::test]
async fn a_malformed_tool_is_left_out_of_the_list() {
    let server = testkit::server().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::reply(json!({
        "resultType": "complete",
        "tools": [
            { "name": "good", "inputSchema": { "type": "object" }, "x-vendor": 1 },
            { "name": 7, "inputSchema": { "type": "object" } },
            "not even an object",
            { "name": "odd", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": "yes" } },
        ],
    })).on("tools/list"));
    let list = client.list_tools_full().await.unwrap();
    let names: Vec<_> = list.items.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["good", "odd"]);
    assert!(list.items[0].json.as_str().contains("x-vendor"));
    let dropped: Vec<_> = list.dropped.iter().map(|dropped| dropped.index).collect();
    assert_eq!(dropped, [1, 2]);
    client.close().await;
}

#[tokio::test]
async fn resources_and_prompts_are_read() {
    let script = testkit::server().resource("mem:note", "a bowline holds").prompt("greet", "Hello");
    for (name, running, server) in run_everywhere(script).await {
        let client = Client::connect(server).await.unwrap();
        let read = client.read_resource("mem:note").await.unwrap();
        assert_eq!(read.contents.len(), 1, "{name}");
        assert!(read.json.as_str().contains("a bowline holds"));
        let prompt = client.get_prompt("greet", &[("who".to_owned(), "7".to_owned())].into()).await.unwrap();
        assert_eq!(prompt.messages.len(), 1);
        // PM-01: arguments are strings.
        assert_eq!(
            running.received_with_method("prompts/get")[0].params()["arguments"],
            json!({ "who": "7" })
        );
        let error = client.read_resource("mem:nothing").await.unwrap_err();
        // RS-02: both error codes mean that the resource is missing.
        assert!(matches!(error.server_error().unwrap().code, -32602 | -32002), "{name}");
        client.close().await;
    }
}

/// The timeout applies to the whole list, not to each page.
#[tokio::test]
async fn a_list_has_one_timeout_for_all_its_pages() {
    let server = testkit::server().legacy().filler_tools(200, 10).page_size(1).run().await;
    let limit = Duration::from_secs(3);
    let entry = http(&server).with_idle_timeout(limit).with_timeout(limit);
    let client = Client::connect(entry).await.unwrap();
    // Each page is well within the timeout; two hundred of them are far beyond it.
    server.arm(Fault::delay(limit / 12).on("tools/list").always());
    let error = client.list_tools().await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Timeout(Limit::Total), "{error}");
    client.close().await;
}
