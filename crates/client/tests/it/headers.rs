//! HTTP headers of requests, and the handling of reply streams (groups HT, HL, HM).

use std::collections::BTreeMap;

use bowline::{Client, Server};
use bowline_config::TransportSettings as _;
use bowline_testkit::{self as testkit, CannedResponse, Fault};
use serde_json::json;

use crate::support::{TEST_TIMEOUT, http};

/// HT-01, HL-01, HL-02, HL-04: a legacy connection from its first POST to its DELETE.
#[tokio::test]
async fn hl_01_legacy_headers() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let entry = http(&server).with_header("Authorization", "Bearer t0ken").unwrap();
    let client = Client::connect(entry).await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    server.wait_for(|received| received.has_method("GET"), TEST_TIMEOUT).await;
    client.close().await;
    let session = server.received_with_method("tools/call")[0].session.clone().expect("a session");
    for received in server.received() {
        let what = format!("{} {}", received.http_method, received.method);
        assert_eq!(received.header("authorization"), Some("Bearer t0ken"), "{what}");
        let accept = received.header("accept").unwrap_or_default();
        match received.http_method.as_str() {
            "POST" => {
                assert!(
                    accept.contains("application/json") && accept.contains("text/event-stream"),
                    "{what}"
                );
                assert_eq!(received.header("content-type"), Some("application/json"), "{what}");
            }
            "GET" => assert!(accept.contains("text/event-stream"), "{what}"),
            _ => {}
        }
        let (version, id) = (received.header("mcp-protocol-version"), received.session.as_deref());
        match received.method.as_str() {
            "server/discover" => assert_eq!((version, id), (Some("2026-07-28"), None)),
            "initialize" => assert_eq!((version, id), (None, None)),
            _ => assert_eq!((version, id), (Some("2025-11-25"), Some(session.as_str())), "{what}"),
        }
    }
    assert_eq!(server.count("DELETE"), 1);
}

/// HL-01: 2025-03-26 has no version header.
#[tokio::test]
async fn hl_01_no_version_header_for_2025_03_26() {
    let server = testkit::server().legacy_only("2025-03-26").tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
    assert_eq!(server.received_with_method("tools/call")[0].header("mcp-protocol-version"), None);
}

/// HL-04, HL-05: a server may support neither GET nor DELETE.
#[tokio::test]
async fn hl_05_no_stream_and_no_delete_are_fine() {
    let server = testkit::server().legacy().tool("echo").no_get_stream().no_delete().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.wait_for(|received| received.has_method("GET"), TEST_TIMEOUT).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
    assert_eq!(server.count("GET"), 1, "405 is final");
}

/// HM-01 to HM-03, LC-08, LC-10: headers and body agree in every modern request.
#[tokio::test]
async fn hm_01_modern_headers() {
    let server =
        testkit::server().modern().tool("日本").resource("file:///ä b", "x").prompt("p", "x").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.call_tool("日本", &json!({})).await.unwrap();
    client.read_resource("file:///ä b").await.unwrap();
    client.get_prompt("p", &BTreeMap::new()).await.unwrap();
    client.close().await;
    for received in server.received() {
        assert_eq!(received.http_method, "POST");
        assert_eq!(received.header("mcp-method"), Some(received.method.as_str()));
        let meta = &received.params()["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(received.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(
            meta["io.modelcontextprotocol/clientCapabilities"],
            json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
        );
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "bowline");
        assert_eq!(received.session, None);
    }
    let name = |method: &str| server.received_with_method(method)[0].header("mcp-name").map(str::to_owned);
    assert_eq!(name("tools/call").as_deref(), Some("=?base64?5pel5pys?="));
    assert_eq!(name("resources/read").as_deref(), Some("=?base64?ZmlsZTovLy/DpCBi?="));
    assert_eq!(name("prompts/get").as_deref(), Some("p"));
    assert_eq!(server.violations(), Vec::<String>::new());
}

/// HM-04, HM-05, HM-07: annotated arguments are mirrored into headers; a tool with an invalid
/// annotation is left out.
#[tokio::test]
async fn hm_04_annotated_arguments() {
    let tool = |name: &str, kind: &str, header: &str| json!({ "name": name, "inputSchema": { "type": "object", "properties": { "region": { "type": kind, "x-mcp-header": header } } } });
    let server = testkit::server()
        .modern()
        .tool_json(tool("good", "string", "Region"))
        .tool_json(tool("bad", "number", "Region"))
        .run()
        .await;
    let client = Client::connect(http(&server)).await.unwrap();
    let tools = client.list_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["good"]);
    for arguments in [json!({ "region": "us west" }), json!({ "region": null }), json!({ "region": "" })] {
        client.call_tool("good", &arguments).await.unwrap();
    }
    let sent: Vec<_> = server
        .received_with_method("tools/call")
        .iter()
        .map(|received| received.header("mcp-param-region").map(str::to_owned))
        .collect();
    assert_eq!(sent, [Some("us west".to_owned()), None, Some(String::new())]);
    client.close().await;
    assert_eq!(server.violations(), Vec::<String>::new());
}

/// HM-10: after a header mismatch the list is fetched again and the call retried once, with a new
/// id.
#[tokio::test]
async fn hm_10_a_header_mismatch_is_retried_with_a_fresh_tool_list() {
    let hour = std::time::Duration::from_secs(3600);
    let server = testkit::server().modern().tool("echo").ttl(hour).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    let error =
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32020, "message": "a header is missing" } });
    server.arm(Fault::response(CannedResponse::new(400).json(&error)).on("tools/call").times(1));
    client.call_tool("echo", &json!({})).await.unwrap();
    let methods: Vec<_> = server.received().iter().map(|received| received.method.clone()).collect();
    assert_eq!(methods, ["server/discover", "tools/list", "tools/call", "tools/list", "tools/call"]);
    client.close().await;
}

/// HM-10: a second mismatch is reported.
#[tokio::test]
async fn hm_10_a_header_mismatch_is_retried_once() {
    let server = testkit::server().modern().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let mismatch = || {
        let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32020, "message": "Mcp-Param-X is missing" } });
        Fault::response(CannedResponse::new(400).json(&error)).on("tools/call")
    };
    server.arm(mismatch());
    client.call_tool("echo", &json!({})).await.unwrap();
    let methods: Vec<_> = server.received().iter().map(|received| received.method.clone()).collect();
    assert_eq!(methods, ["server/discover", "tools/call", "tools/list", "tools/call"]);
    let ids: Vec<_> = server
        .received_with_method("tools/call")
        .iter()
        .map(|received| received.body["id"].clone())
        .collect();
    assert_ne!(ids[0], ids[1]);
    server.arm(mismatch().times(2));
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, -32020);
    client.close().await;
}

/// HM-10: without status 400 it is what the tool says, perhaps in the words of a server of its own.
#[tokio::test]
async fn hm_10_a_header_mismatch_is_an_answer_without_its_status() {
    let server = testkit::server().modern().tool("counter").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    server.arm(Fault::error(-32020, "a header is missing").on("tools/call").executed());
    let error = client.call_tool("counter", &json!({})).await.unwrap_err();
    assert_eq!((error.server_error().unwrap().code, server.executions("counter")), (-32020, 1));
    assert_eq!(server.received_with_method("tools/list").len(), 1);
    client.close().await;
}

/// HT-02: one method may be answered with JSON or with an event stream.
#[tokio::test]
async fn ht_02_json_and_event_streams() {
    for script in [testkit::server().reply_json(), testkit::server().reply_sse()] {
        for script in [script.clone().legacy(), script.modern()] {
            let server = script.tool("echo").run().await;
            let client = Client::connect(http(&server)).await.unwrap();
            assert!(client.call_tool("echo", &json!({ "a": 1 })).await.unwrap().text().contains('1'));
            client.close().await;
        }
    }
}

/// HL-07, HL-09: a stream that ends after its first event is resumed, and the call succeeds.
#[tokio::test]
async fn hl_09_a_stream_that_ends_early_is_resumed() {
    let server = testkit::server()
        .legacy()
        .tool("counter")
        .reply_sse()
        .priming()
        .sse_retry(std::time::Duration::from_millis(20))
        .run()
        .await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::end_after(1).on("tools/call").executed());
    client.call_tool("counter", &json!({})).await.unwrap();
    assert_eq!(server.executions("counter"), 1);
    assert!(
        server.received_with_method("GET").iter().any(|received| received.header("last-event-id").is_some())
    );
    client.close().await;
}

/// HT-04: events of other types and junk between messages are skipped.
#[tokio::test]
async fn ht_04_other_events_on_a_stream_are_skipped() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool("echo").run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        let last =
            server.received().iter().filter_map(|received| received.body["id"].as_u64()).max().unwrap();
        let result = json!({ "jsonrpc": "2.0", "id": last + 1, "result": { "content": [{ "type": "text", "text": "here" }] } });
        let stream =
            format!(": hello\n\nevent: ping\ndata: {{}}\n\ndata: junk\n\nevent: message\ndata: {result}\n\n");
        server.arm(Fault::raw_as("text/event-stream", stream).on("tools/call"));
        assert_eq!(client.call_tool("echo", &json!({})).await.unwrap().text(), "here");
        client.close().await;
    }
}

/// HM-13: a broken modern stream is not resumed; the outcome is unknown.
#[tokio::test]
async fn hm_13_a_modern_stream_is_not_resumed() {
    let server = testkit::server().modern().tool("counter").reply_sse().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::cut_after(5).on("tools/call").executed());
    let error = client.call_tool("counter", &json!({})).await.unwrap_err();
    assert_eq!(error.execution(), bowline::Execution::Unknown);
    assert_eq!((server.count("GET"), server.count("tools/call")), (0, 1));
    client.close().await;
}

/// A refused connection is reported with its reason, and nothing was executed.
#[tokio::test]
async fn a_refused_connection_was_not_executed() {
    let server = testkit::server().run().await;
    let url = server.url();
    server.stop().await;
    let error = Client::connect(Server::http("gone", &url)).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, bowline::Cause::Refused, "{error}");
    assert_eq!(error.execution(), bowline::Execution::NotExecuted);
}
