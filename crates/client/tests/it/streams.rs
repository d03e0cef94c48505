//! Event streams that end, break or never open: resumed where possible, and never hammered.

use std::time::{Duration, Instant};

use bowline::config::Protocol;
use bowline::{Client, Event, Topic};
use bowline_testkit::{self as testkit, CannedResponse, Fault, HttpServer, StreamKind};
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, http};

async fn connect(server: &HttpServer) -> Client {
    Client::connect(http(server).with_protocol(Protocol::Legacy)).await.unwrap()
}

/// HL-08: a stream that is always cut is requested a few times and then less often, whatever
/// `retry` says: a request does not come before the waits between the earlier ones have passed.
#[tokio::test]
async fn hl_08_a_server_that_always_cuts_is_not_hammered() {
    let at_once = Some(Duration::ZERO);
    let word = "retry: 0\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n";
    let told = Fault::raw_as("text/event-stream", word);
    for (retry, cut, requests, not_before) in [
        // Without an event, each wait is twice the last, whatever `retry` says.
        (at_once, Fault::end_after(0), 4, 1_700),
        (None, Fault::end_after(0), 3, 2_900),
        (at_once, Fault::reset(), 4, 1_700),
        // With an event each time there is progress: the pace is steady at first, then slower.
        (at_once, told, 12, 3_600),
    ] {
        let mut script = testkit::server().legacy().tool("echo").priming().event_ids();
        if let Some(retry) = retry {
            script = script.sse_retry(retry);
        }
        let server = script.run().await;
        server.arm(cut.clone().on("GET").always());
        let client = connect(&server).await;
        server.wait_for(|received| received.has_method("GET"), TEST_TIMEOUT).await;
        let begun = Instant::now();
        server.wait_for_nth(requests - 1, |received| received.has_method("GET"), TEST_TIMEOUT).await;
        let waited = begun.elapsed();
        assert!(
            waited >= Duration::from_millis(not_before),
            "{requests} requests in {waited:?}: {retry:?}, {cut:?}"
        );
        client.call_tool("echo", &json!({ "text": "x" })).await.unwrap();
        assert_eq!(server.initialize_count(), 1, "a stream is no session");
        client.close().await;
    }
}

/// HL-05: a reply that is no stream is accepted once, silently.
#[tokio::test]
async fn hl_05_a_missing_stream_is_requested_once() {
    for answer in [
        CannedResponse::new(405),
        CannedResponse::new(404),
        CannedResponse::new(400).text("Failed to open SSE stream"),
        CannedResponse::new(200).json(&json!({})),
        CannedResponse::new(200),
        CannedResponse::new(406),
    ] {
        let server = testkit::server().legacy().tool("echo").run().await;
        server.arm(Fault::response(answer).on("GET").always());
        let client = connect(&server).await;
        server.wait_for(|received| received.has_method("GET"), TEST_TIMEOUT).await;
        client.call_tool("echo", &json!({ "text": "x" })).await.unwrap();
        client.ping().await.unwrap();
        assert_eq!((server.count("GET"), server.initialize_count()), (1, 1));
        client.close().await;
    }
}

/// A stream that is refused temporarily is requested again and then delivers.
#[tokio::test]
async fn a_stream_refused_at_first_is_opened_later() {
    for answer in
        [CannedResponse::new(503), CannedResponse::new(409).text("Conflict: only one stream per session")]
    {
        let server = testkit::server().legacy().tool("echo").run().await;
        server.arm(Fault::response(answer).on("GET"));
        let client = connect(&server).await;
        let mut events = client.events();
        server.wait_until(|server| server.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
        server.announce_tools();
        loop {
            let event = tokio::time::timeout(TEST_TIMEOUT, events.next()).await.unwrap().unwrap();
            if let Event::Notification(said) = event {
                assert_eq!(said.topic(), Topic::ToolsChanged);
                break;
            }
        }
        assert_eq!(server.initialize_count(), 1);
        client.close().await;
    }
}

/// HL-07, HL-09: a stream that breaks during a call is resumed where it stopped; the tool runs
/// once.
#[tokio::test]
async fn hl_07_a_broken_response_stream_is_resumed() {
    for fault in [Fault::end_after(1), Fault::cut_after(120)] {
        let script = testkit::server().legacy().tool("counter").reply_sse().event_ids().priming();
        let server = script.sse_retry(Duration::from_millis(50)).run().await;
        let client = connect(&server).await;
        server.arm(fault.on_tool("counter"));
        client.call_tool("counter", &Value::Null).await.unwrap();
        assert_eq!(server.executions("counter"), 1);
        let resumed =
            server.received_with_method("GET").iter().any(|get| get.header("last-event-id").is_some());
        assert!(resumed, "it was resumed, not repeated");
        client.close().await;
    }
}

/// HL-08: a server that refuses its stream for a while says for how long, and is left alone until then.
#[tokio::test]
async fn hl_08_the_standalone_stream_waits_as_long_as_retry_after() {
    for status in [429, 503] {
        let server = testkit::server().legacy().tool("echo").run().await;
        let refusal = CannedResponse::new(status).header("retry-after", "2");
        server.arm(Fault::response(refusal).on("GET").times(1));
        let begun = Instant::now();
        let client = connect(&server).await;
        server.wait_for_nth(1, |received| received.has_method("GET"), TEST_TIMEOUT).await;
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_secs(2), "{status}: {waited:?}");
        assert_eq!((server.count("GET"), server.initialize_count()), (2, 1), "{status}");
        client.close().await;
    }
}

/// A response that breaks off on a stream without event ids cannot be resumed: the call ends at
/// once with its true outcome, and no stream is requested.
#[tokio::test]
async fn hl_07_a_stream_without_event_ids_is_not_resumed() {
    for fault in [Fault::end_after(0).executed(), Fault::cut_after(30)] {
        let server = testkit::server().legacy().tool("counter").reply_sse().no_get_stream().run().await;
        let client = connect(&server).await;
        client.list_tools().await.unwrap();
        server.arm(fault.on_tool("counter"));
        let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
        assert_eq!(error.execution(), bowline::Execution::Unknown, "{error}");
        assert_eq!(server.executions("counter"), 1);
        let resumed =
            server.received_with_method("GET").iter().any(|get| get.header("last-event-id").is_some());
        assert!(!resumed);
        client.call_tool("counter", &Value::Null).await.unwrap();
        client.close().await;
    }
}

/// HL-09: the standalone stream is cut within an event. The partial event is discarded, and the
/// stream is reopened after the last whole event, so it arrives in full.
#[tokio::test]
async fn hl_09_a_cut_event_is_discarded_and_resumed() {
    let server = testkit::server().legacy().tool("echo").event_ids().run().await;
    let half = "id: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\nid: 8\ndata: {\"jsonrpc\":\"2.0\",";
    server.arm(Fault::raw_as("text/event-stream", half).on("GET"));
    let client = Client::builder(http(&server).with_protocol(Protocol::Legacy)).open().unwrap();
    let mut events = client.events();
    client.ready().await.unwrap();
    let resumed = server.wait_for_nth(1, |received| received.has_method("GET"), TEST_TIMEOUT).await;
    assert_eq!(resumed.header("last-event-id"), Some("7"));
    // Both streams are standalone ones now, and the cut one waits to be resumed. The last is the
    // newest.
    server.wait_until(|server| server.open_streams(StreamKind::Get) == 2, TEST_TIMEOUT).await;
    assert_eq!(server.announce_tools(), 1);
    let mut said = Vec::new();
    while said.len() < 2 {
        let event = tokio::time::timeout(TEST_TIMEOUT, events.next()).await.unwrap().unwrap();
        if let Event::Notification(notification) = event {
            said.push(notification.method);
        }
    }
    assert_eq!(said, ["notifications/x".into(), "notifications/tools/list_changed".into()] as [Box<str>; 2]);
    assert_eq!(server.initialize_count(), 1);
    client.close().await;
}

/// HM-14: comments, and a change notification that belongs onto another stream, do not disturb a call.
#[tokio::test]
async fn hm_14_what_does_not_belong_to_a_call_does_not_disturb_it() {
    let server = testkit::server().modern().tool("counter").run().await;
    let body = ": keep-alive\n\n\
        data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n:\n\n\
        data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[],\"resultType\":\"complete\"}}\n\n: end\n";
    let stream = CannedResponse::new(200).header("content-type", "text/event-stream").body(body);
    let client = Client::connect(http(&server).with_protocol(Protocol::Modern)).await.unwrap();
    server.arm(Fault::response(stream).on_tool("counter"));
    let result = client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!((result.content.len(), result.is_error), (0, false));
    // The next one is as usual.
    let result = client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!((result.content.len(), server.executions("counter")), (1, 1));
    client.close().await;
}

/// A server that has not noticed the cut refuses the stream for a while: the call still gets its
/// response.
#[tokio::test]
async fn hl_07_a_refused_resumption_is_retried() {
    let refusals = [
        CannedResponse::new(409),
        CannedResponse::new(425),
        CannedResponse::new(429).header("retry-after", "1"),
        CannedResponse::new(503).header("retry-after", "1"),
    ];
    for refusal in refusals {
        let script = testkit::server().legacy().tool("counter").reply_sse().event_ids().priming();
        let server = script.sse_retry(Duration::from_millis(50)).run().await;
        let client = connect(&server).await;
        // The standalone stream is requested first, and is not affected.
        server.wait_for(|received| received.has_method("GET"), TEST_TIMEOUT).await;
        server.arm(Fault::end_after(1).on_tool("counter"));
        server.arm(Fault::response(refusal.clone()).on("GET").times(2));
        let result = client.call_tool("counter", &Value::Null).await;
        let result = result.unwrap_or_else(|error| panic!("{refusal:?}: {error}"));
        assert_eq!((result.text().as_str(), server.executions("counter")), ("1", 1), "{refusal:?}");
        client.close().await;
    }
}
