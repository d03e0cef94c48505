//! Session loss: the call that discovers it still succeeds.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bowline::config::Protocol;
use bowline::{
    Cause, Client, ConnectionEventKind, ErrorKind, Event, Execution, Handler, Json, ServerRequest, Status,
    ToolResult, Topic,
};
use bowline_config::TransportSettings as _;
use bowline_testkit::{self as testkit, CannedResponse, Fault, HttpServer, Tool};
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, call_concurrently, http};

async fn connect(server: &HttpServer) -> Client {
    Client::connect(http(server).with_protocol(Protocol::Legacy)).await.unwrap()
}

async fn call_counter(client: &Client) -> ToolResult {
    client.call_tool("counter", &json!({})).await.unwrap()
}

/// The replies of various servers to a request on a lost session.
fn signatures() -> Vec<(&'static str, CannedResponse)> {
    let rpc = |code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
    vec![
        ("404 JSON-RPC", CannedResponse::new(404).json(&rpc(-32001, "Session not found"))),
        ("404 empty", CannedResponse::new(404)),
        ("404 text", CannedResponse::new(404).text("Not Found: Session not found")),
        ("400 text", CannedResponse::new(400).text("Bad Request: No valid session ID provided")),
        ("400 missing", CannedResponse::new(400).json(&rpc(-32600, "Bad Request: Missing session ID"))),
        ("400 not initialized", CannedResponse::new(400).json(&rpc(-32000, "Bad Request: Server not initialized"))),
        ("401 text", CannedResponse::new(401).text("Unauthorized: Session not found")),
        ("403", CannedResponse::new(403).text("session user mismatch")),
        ("409", CannedResponse::new(409).json(&json!({ "error": "session has expired" }))),
        ("410", CannedResponse::new(410)),
        ("422", CannedResponse::new(422).text("Unexpected message, expect initialize request")),
        ("500 nested", CannedResponse::new(500).json(&json!({ "error": "Error POSTing to endpoint (HTTP 400): {\"error\":{\"message\":\"No valid session ID provided\"}}" }))),
        ("503 text", CannedResponse::new(503).text("no active session")),
        ("200 error", CannedResponse::new(200).json(&json!({ "jsonrpc": "2.0", "id": "$id", "error": { "code": -32001, "message": "session not found" } }))),
        ("200 null id", CannedResponse::new(200).json(&rpc(-32600, "Invalid Request"))),
    ]
}

/// HL-03: every loss signature is recovered in the same call, with one handshake and no second
/// execution.
#[tokio::test]
async fn hl_03_every_loss_signature_is_recovered_in_the_same_call() {
    for (name, answer) in signatures() {
        let server = testkit::server().legacy().tool("counter").unknown_session_response(answer).run().await;
        let client = connect(&server).await;
        call_counter(&client).await;
        server.drop_sessions();
        let answered = client.call_tool("counter", &json!({})).await;
        assert!(answered.is_ok(), "{name}: {answered:?}");
        assert_eq!(server.initialize_count(), 2, "{name}");
        assert_eq!(server.executions("counter"), 2, "{name}");
        call_counter(&client).await;
        assert_eq!(server.initialize_count(), 2, "{name}");
        client.close().await;
    }
}

/// A thousand calls on a lost session: one handshake, a thousand responses, no second execution.
#[tokio::test]
async fn a_thousand_calls_share_one_recovery() {
    let server = testkit::server().legacy().tool("counter").tool("echo").run().await;
    // The recovery of a thousand calls takes a while on a busy machine.
    let entry = http(&server).with_protocol(Protocol::Legacy).with_reconnect_wait(TEST_TIMEOUT);
    let client = Client::connect(entry).await.unwrap();
    call_counter(&client).await;
    server.drop_sessions();
    let calls = (0..1_000).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let args = json!({ "text": n.to_string() });
            let (counted, echoed) =
                tokio::join!(client.call_tool("counter", &Value::Null), client.call_tool("echo", &args));
            counted.unwrap();
            assert!(echoed.unwrap().text().contains(&n.to_string()));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(server.initialize_count(), 2);
    assert_eq!(server.executions("counter"), 1_001);
    client.close().await;
}

/// A suspected loss that only a probe can settle: calls that come after the probe has been answered
/// and the link replaced are retried too.
#[tokio::test]
async fn one_probe_settles_a_suspicion_for_all_calls() {
    let said =
        json!({ "jsonrpc": "2.0", "id": "$id", "error": { "code": -32001, "message": "session not found" } });
    let script = testkit::server()
        .legacy()
        .tool("counter")
        .unknown_session_response(CannedResponse::new(200).json(&said));
    let server = script.run().await;
    let client = connect(&server).await;
    for round in 1..=5 {
        call_counter(&client).await;
        server.drop_sessions();
        call_concurrently(&client, 20, "counter").await;
        assert_eq!((server.initialize_count(), server.executions("counter")), (1 + round, 21 * round as u64));
    }
    client.close().await;
}

/// A dropped call is not retried.
#[tokio::test]
async fn a_dropped_call_is_not_retried() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = connect(&server).await;
    call_counter(&client).await;
    server.drop_sessions();
    server.arm(Fault::delay(Duration::from_secs(2)).on("initialize"));
    tokio::select! {
        biased;
        // It was refused, and waits for the new session.
        _ = server.wait_for_nth(1, |received| received.has_method("initialize"), TEST_TIMEOUT) => {}
        result = client.call_tool("counter", &Value::Null) => panic!("it was to be given up: {result:?}"),
    }
    call_counter(&client).await;
    assert_eq!(server.executions("counter"), 2);
    assert_eq!(server.count("tools/call"), 3, "one before, one refused, one after; none for who left");
    client.close().await;
}

/// The log level and subscriptions are restored before any waiting call goes; changed lists are
/// announced.
#[tokio::test]
async fn a_new_session_restores_log_level_and_subscriptions() {
    let script =
        testkit::server().legacy().tool("counter").resource("file:///a", "a").resource("file:///b", "b");
    let server = script.run().await;
    let client = connect(&server).await;
    client.request("logging/setLevel", &json!({ "level": "warning" })).await.unwrap();
    for uri in ["file:///a", "file:///b"] {
        client.request("resources/subscribe", &json!({ "uri": uri })).await.unwrap();
    }
    client.request("resources/unsubscribe", &json!({ "uri": "file:///a" })).await.unwrap();
    client.list_tools().await.unwrap();
    client.list_resources().await.unwrap();
    let mut events = client.events();
    server.edit(|script| script.tool("echo"));
    server.drop_sessions();
    call_counter(&client).await;

    let sessions = server.sessions();
    let session = sessions.last().unwrap();
    assert_eq!(session.log_level.as_deref(), Some("warning"));
    assert_eq!(session.subscriptions.iter().collect::<Vec<_>>(), ["file:///b"]);
    let order: Vec<_> =
        server.received().into_iter().filter(|r| r.run == 1).map(|r| r.method.clone()).collect();
    let last = |method: &str| order.iter().rposition(|seen| seen == method).unwrap();
    assert!(
        last("logging/setLevel") < last("tools/call") && last("resources/subscribe") < last("tools/call"),
        "{order:?}"
    );

    let (mut seen, mut updated) = (Vec::new(), None);
    loop {
        match tokio::time::timeout(TEST_TIMEOUT, events.next()).await.unwrap().unwrap() {
            Event::Connection(life) => seen.push(life.kind),
            // The list may have changed meanwhile.
            Event::Notification(said) if said.inferred && updated.is_none() => updated = Some(said),
            Event::Notification(said) if said.inferred => {
                assert_eq!(said.topic(), Topic::ToolsChanged, "the list of resources is the same");
                break;
            }
            _ => {}
        }
    }
    assert_eq!(updated.unwrap().topic(), Topic::ResourceUpdated { uri: "file:///b".to_owned() });
    assert_eq!(seen, [ConnectionEventKind::SessionLost, ConnectionEventKind::Recovered]);
    assert_eq!(client.health().sessions_lost, 1);
    client.close().await;
}

/// A reply that only resembles a loss is passed on unchanged, without a handshake.
#[tokio::test]
async fn decoys_are_not_taken_for_a_loss() {
    let rpc = |code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": "$id", "error": { "code": code, "message": message } });
    let decoys = [
        ("200 tool error", CannedResponse::new(200).json(&rpc(-32001, "Browser session not found"))),
        ("200 own business", CannedResponse::new(200).json(&rpc(-32000, "Your login session has expired"))),
        ("400 params", CannedResponse::new(400).json(&rpc(-32602, "Invalid params: name"))),
        ("400 version", CannedResponse::new(400).text("Bad Request: Unsupported protocol version")),
        (
            "406",
            CannedResponse::new(406)
                .text("Not Acceptable: Client must accept both application/json and text/event-stream"),
        ),
        ("413", CannedResponse::new(413).text("Payload too large")),
        ("429", CannedResponse::new(429).text("Too many sessions")),
        ("404 method", CannedResponse::new(404).json(&rpc(-32601, "Method not found"))),
        ("403 scope", CannedResponse::new(403).text("insufficient scope")),
    ];
    for (name, answer) in decoys {
        let server = testkit::server().legacy().tool("counter").run().await;
        let client = connect(&server).await;
        call_counter(&client).await;
        server.arm(Fault::response(answer).on("tools/call"));
        let failed = client.call_tool("counter", &json!({})).await;
        assert!(failed.is_err(), "{name}");
        assert_eq!(server.initialize_count(), 1, "{name}");
        assert_eq!(server.count("tools/call"), 2, "{name}: sent once");
        call_counter(&client).await;
        client.close().await;
    }
}

/// The result of a failed tool is never inspected for a loss.
#[tokio::test]
async fn a_failed_tool_is_never_inspected() {
    let server = testkit::server()
        .legacy()
        .tool_fn(
            "browse",
            json!({ "type": "object" }),
            |_| json!({ "isError": true, "content": [{ "type": "text", "text": "session not found" }] }),
        )
        .run()
        .await;
    let client = connect(&server).await;
    let result = client.call_tool("browse", &json!({})).await.unwrap();
    assert!(result.is_error);
    assert_eq!((server.initialize_count(), server.count("ping")), (1, 0));
    client.close().await;
}

/// A server that loses every session at once is reported as not affine, and not hammered.
#[tokio::test]
async fn a_server_without_affinity_is_reported_and_left_alone() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = connect(&server).await;
    server.arm(Fault::drop_sessions().on("tools/call").always());
    let error = client.call_tool("counter", &json!({})).await.unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!((&fault.cause, fault.execution), (&Cause::NotAffine, Execution::NotExecuted), "{error}");
    assert_eq!(server.initialize_count(), 5);
    let mut status = client.status();
    status.wait_for(|status| matches!(status, Status::BackingOff { .. })).await.unwrap();
    assert_eq!(server.executions("counter"), 0);
    client.close().await;
}

/// A login challenge is no loss: no handshake without credentials, and exactly one with them.
#[tokio::test]
async fn a_login_challenge_is_not_a_session_loss() {
    let refusal = || CannedResponse::new(401).header("www-authenticate", "Bearer error=\"invalid_token\"");
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = connect(&server).await;
    call_counter(&client).await;
    server.arm(Fault::response(refusal()).on("tools/call").always());
    let error = client.call_tool("counter", &json!({})).await.unwrap_err();
    assert!(matches!(error.fault().unwrap().cause, Cause::LoginRequired { .. }), "{error}");
    assert_eq!(server.initialize_count(), 1);
    client.close().await;

    // Credentials were valid a moment ago, so one new session is worth a try.
    let server = testkit::server().legacy().tool("counter").run().await;
    let entry =
        http(&server).with_protocol(Protocol::Legacy).with_header("Authorization", "Bearer x").unwrap();
    let client = Client::connect(entry).await.unwrap();
    call_counter(&client).await;
    server.arm(Fault::response(refusal()).on("tools/call"));
    call_counter(&client).await;
    assert_eq!((server.initialize_count(), server.executions("counter")), (2, 2));
    server.arm(Fault::response(refusal()).on("tools/call").always());
    let error = client.call_tool("counter", &json!({})).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Fault(_)), "{error}");
    assert!(matches!(error.fault().unwrap().cause, Cause::LoginRequired { .. }), "{error}");
    assert_eq!(server.initialize_count(), 3, "one try, no loop");
    client.close().await;
}

/// Idempotent calls may run again, others never do.
#[tokio::test]
async fn only_harmless_calls_are_repeated() {
    let script = testkit::server()
        .legacy()
        .tool(Tool::like("charge", "counter"))
        .tool(Tool::like("set", "counter").idempotent());
    for known in [true, false] {
        let server = script.clone().run().await;
        let client = connect(&server).await;
        if known {
            client.list_tools().await.unwrap();
        }
        server.arm(Fault::reset().on_tool("set").executed());
        client.call_tool("set", &Value::Null).await.unwrap();
        assert_eq!(server.executions("set"), 2, "known {known}");
        server.arm(Fault::reset().on_tool("charge").executed());
        let error = client.call_tool("charge", &Value::Null).await.unwrap_err();
        assert_eq!(error.execution(), Execution::Unknown, "{error}");
        assert_eq!(server.executions("charge"), 1, "known {known}");
        // The session survived the connection.
        client.call_tool("charge", &Value::Null).await.unwrap();
        assert_eq!(server.initialize_count(), 1);
        client.close().await;
    }
}

/// Declares roots with change notifications, and has one root.
struct RootsHandler;

impl Handler for RootsHandler {
    fn capabilities(&self) -> Json {
        Json::parse(r#"{"roots":{"listChanged":true}}"#).unwrap()
    }

    fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = bowline::HandlerResult> + Send + '_>> {
        Box::pin(async { Ok(Json::parse(r#"{"roots":[{"uri":"file:///a"}]}"#).unwrap()) })
    }
}

/// The server info of the new session replaces the old one, and a server with roots is told to
/// request them again.
#[tokio::test]
async fn a_new_session_replaces_the_server_info() {
    let server = testkit::server().legacy().tool("counter").instructions("old").run().await;
    let entry = http(&server).with_protocol(Protocol::Legacy);
    let client = Client::builder(entry).handler(RootsHandler).connect().await.unwrap();
    call_counter(&client).await;
    assert_eq!(client.peer().await.unwrap().instructions.as_deref(), Some("old"));
    server.edit(|script| script.instructions("new").prompt("p", "hello"));
    server.drop_sessions();
    call_counter(&client).await;
    let peer = client.peer().await.unwrap();
    assert_eq!(peer.instructions.as_deref(), Some("new"));
    assert!(peer.capabilities.prompts.is_some());
    server.wait_for(|received| received.has_method("notifications/roots/list_changed"), TEST_TIMEOUT).await;
    client.close().await;
}

/// A detached session can be resumed by another client; a lost one is replaced.
#[tokio::test]
async fn a_detached_session_can_be_resumed() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let entry = || http(&server).with_protocol(Protocol::Legacy);
    let client = Client::connect(entry()).await.unwrap();
    call_counter(&client).await;
    let saved = client.leave().await.expect("there is a session");
    assert_eq!(server.received().iter().filter(|received| received.http_method == "DELETE").count(), 0);
    let session = server.sessions()[0].id.clone();
    assert!(!format!("{saved:?}").contains(&session), "it is as good as a password");
    // Serialized, as it would be on disk.
    let saved: bowline::SavedSession = serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap();
    let client = Client::builder(entry()).resume(saved.clone()).connect().await.unwrap();
    call_counter(&client).await;
    assert_eq!(server.initialize_count(), 1, "no second handshake");
    assert!(client.peer().await.unwrap().capabilities.tools.is_some(), "what it offers is still known");
    // BM-02: no id is used twice in a session, although another client resumes it.
    let ids: Vec<_> = server.received().iter().filter_map(|received| received.body["id"].as_u64()).collect();
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), ids.len(), "{ids:?}");
    // HL-04: closing ends the session.
    client.close().await;
    assert_eq!(server.received().iter().filter(|received| received.http_method == "DELETE").count(), 1);
    let client = Client::builder(entry()).resume(saved).connect().await.unwrap();
    call_counter(&client).await;
    assert_eq!(server.initialize_count(), 2, "it was gone");
    client.close().await;
}

/// HL-04: a session whose server did not answer the probe in time is replaced, and ended: the server may still have
/// it.
#[tokio::test]
async fn session_that_is_given_up_for_silence_is_ended() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let entry = || http(&server).with_protocol(Protocol::Legacy);
    let client = Client::connect(entry()).await.unwrap();
    call_counter(&client).await;
    let old = server.sessions()[0].id.clone();
    let saved = client.leave().await.expect("there is a session");
    server.arm(Fault::silent().on("ping").times(1));
    let client = Client::builder(entry()).resume(saved).connect().await.unwrap();
    call_counter(&client).await;
    let ended = server.wait_for(|received| received.http_method == "DELETE", TEST_TIMEOUT).await;
    assert_eq!(ended.header("mcp-session-id"), Some(&*old));
    assert_eq!(server.initialize_count(), 2);
    let ids: Vec<_> = server.sessions().into_iter().map(|session| session.id).collect();
    assert!(ids.len() == 1 && ids[0] != old, "{ids:?}");
    client.close().await;
}

/// A session behind a proxy that answers 502 in its server's place is given up after a while, and ended: the server may
/// still have it.
#[tokio::test]
async fn session_that_is_given_up_behind_a_proxy_is_ended() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = connect(&server).await;
    call_counter(&client).await;
    let [session] = server.sessions().try_into().unwrap_or_else(|sessions| panic!("{sessions:?}"));
    let bad_gateway = || Fault::response(CannedResponse::new(502).html("<h1>bad gateway</h1>"));
    server.arm(bad_gateway().on("ping").always());
    server.arm(bad_gateway().on_tool("counter"));
    client.call_tool("counter", &Value::Null).await.unwrap_err();
    let ended = server.wait_for(|received| received.http_method == "DELETE", TEST_TIMEOUT).await;
    assert_eq!(ended.header("mcp-session-id"), Some(&*session.id), "the old session");
    call_counter(&client).await;
    assert_eq!((server.initialize_count(), server.sessions().len()), (2, 1));
    client.close().await;
}
