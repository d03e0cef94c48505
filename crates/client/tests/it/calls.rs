//! Calls on the wire: ids, deadlines, progress, cancellation (groups BM, PR, CN).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bowline::{CallOptions, Cause, Client, ErrorKind, Execution, Limit};
use bowline_testkit::{self as testkit, Fault};
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::json;

use crate::support::{TEST_TIMEOUT, http, run_everywhere, stdio};

/// BM-02, PR-01: 200 concurrent calls have unique ids and tokens, and each gets its own response.
#[tokio::test]
async fn bm_02_two_hundred_calls_at_once() {
    for (name, running, server) in run_everywhere(testkit::server().tool("echo")).await {
        let client = Client::connect(server).await.unwrap();
        let calls = (0..200).map(|n| {
            let client = client.clone();
            async move { client.call_tool("echo", &json!({ "n": format!("<{n}>") })).await }
        });
        for (n, result) in join_all(calls).await.into_iter().enumerate() {
            assert!(result.unwrap().text().contains(&format!("<{n}>")), "{name}");
        }
        let calls = running.received_with_method("tools/call");
        let ids: HashSet<_> = calls.iter().map(|call| call.body["id"].to_string()).collect();
        let tokens: HashSet<_> =
            calls.iter().map(|call| call.params()["_meta"]["progressToken"].to_string()).collect();
        assert_eq!((ids.len(), tokens.len()), (200, 200), "{name}");
        assert!(!ids.contains("null") && !tokens.contains("null"), "{name}");
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// PR-02: progress reaches its call, in order.
#[tokio::test]
async fn pr_02_progress_reaches_the_caller_in_order() {
    for (name, _running, server) in run_everywhere(testkit::server().tool("slow")).await {
        let client = Client::connect(server).await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let options = CallOptions::new().on_progress(move |progress| sink.lock().push(progress.progress));
        client.call_tool_with("slow", &json!({ "ms": 100, "steps": 5 }), &options).await.unwrap();
        assert_eq!(*seen.lock(), [1.0, 2.0, 3.0, 4.0, 5.0], "{name}");
        client.close().await;
    }
}

/// CN-06: the idle timeout ends a silent call, progress extends it, and the maximum timeout still
/// holds.
#[tokio::test]
async fn cn_06_deadlines() {
    for (name, running, server) in run_everywhere(testkit::server().tool("slow").tool("echo")).await {
        let client = Client::connect(server).await.unwrap();
        let limits = |idle, total| {
            CallOptions::new().idle_timeout(Duration::from_millis(idle)).timeout(Duration::from_millis(total))
        };
        // Forty steps of 100 ms outlast an idle timeout of three seconds.
        let slow = json!({ "ms": 4_000, "steps": 40 });
        let result = client.call_tool_with("slow", &slow, &limits(3_000, 60_000)).await;
        assert!(result.is_ok(), "{name}: {result:?}");
        // The maximum timeout ends the call despite progress.
        let endless = json!({ "ms": 60_000, "steps": 1_000 });
        let error = client.call_tool_with("slow", &endless, &limits(3_000, 3_300)).await.unwrap_err();
        assert_eq!(error.fault().unwrap().cause, Cause::Timeout(Limit::Total), "{name}");
        assert_eq!(error.execution(), Execution::Unknown);
        // The server is silent.
        running.arm(Fault::silent().on_tool("echo"));
        let error = client.call_tool_with("echo", &json!({}), &limits(200, 60_000)).await.unwrap_err();
        assert_eq!(error.fault().unwrap().cause, Cause::Timeout(Limit::Idle), "{name}");
        // The connection is unaffected.
        client.call_tool("echo", &json!({})).await.unwrap();
        client.close().await;
    }
}

/// CN-06: a server that ends the exchange because of the cancellation does not change why the call
/// ended.
#[tokio::test]
async fn cn_06_a_canceled_call_still_ends_with_the_timeout() {
    let server = testkit::server().legacy().tool("slow").tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let short = CallOptions::new().idle_timeout(Duration::from_secs(1));
    let arguments = json!({ "ms": 60_000 });
    let call = client.call_tool_with("slow", &arguments, &short);
    tokio::pin!(call);
    tokio::select! {
        biased;
        _ = server.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT) => {}
        result = &mut call => panic!("{result:?}"),
    }
    // The caller does not run until the server has ended the exchange.
    server.wait_for(|received| received.has_method("notifications/cancelled"), TEST_TIMEOUT).await;
    for _ in 0..20 {
        client.call_tool("echo", &json!({})).await.unwrap();
    }
    let error = call.await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Timeout(Limit::Idle));
    assert_eq!(error.execution(), Execution::Unknown);
    client.close().await;
}

/// CN-01, HM-12, HL-10: dropping the future cancels the call in the way of its transport.
#[tokio::test]
async fn cn_01_dropping_the_future_cancels_the_call() {
    for (name, running, server) in run_everywhere(testkit::server().tool("slow").tool("echo")).await {
        let client = Client::connect(server).await.unwrap();
        // This holds for every kind of call.
        let call = tokio::spawn({
            let (client, params) = (client.clone(), json!({ "name": "slow", "arguments": { "ms": 30_000 } }));
            async move { client.request("tools/call", &params).await }
        });
        running.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        call.abort();
        running.wait_until(|server| server.cancellations().len() == 1, TEST_TIMEOUT).await;
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("slow", &json!({ "ms": 30_000 })).await }
        });
        let sent = running.wait_for_nth(1, |received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        call.abort();
        if name == "modern http" {
            running.wait_until(|server| server.cancellations().len() == 2, TEST_TIMEOUT).await;
            assert_eq!(
                running.count("notifications/cancelled"),
                0,
                "modern HTTP cancels by closing the stream"
            );
        } else {
            let is_cancelled =
                |received: &testkit::ReceivedMessage| received.has_method("notifications/cancelled");
            let cancelled = running.wait_for_nth(1, is_cancelled, TEST_TIMEOUT).await;
            assert_eq!(cancelled.params()["requestId"], sent.body["id"], "{name}");
        }
        // CN-01: a call that has ended is never canceled.
        client.call_tool("echo", &json!({})).await.unwrap();
        client.close().await;
        assert!(running.count("notifications/cancelled") <= 2, "{name}");
    }
}

/// CN-03: the response to a call that timed out is discarded.
#[tokio::test]
async fn cn_03_late_answers_are_discarded() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::connect(stdio(&server)).await.unwrap();
    server.arm(Fault::silent().on_tool("echo"));
    let short = CallOptions::new().idle_timeout(Duration::from_millis(50));
    client.call_tool_with("echo", &json!({ "n": "late" }), &short).await.unwrap_err();
    let call = server.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
    let id = &call.body["id"];
    let late =
        json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": "late" }] } });
    server.write_stdout(format!("{late}\n"));
    for n in 0..10 {
        let result = client.call_tool("echo", &json!({ "n": n })).await.unwrap();
        assert!(!result.text().contains("late"));
    }
    client.close().await;
}

/// BM-08, TL-07: errors of the server, of the tool and of the client are distinct.
#[tokio::test]
async fn bm_08_server_tool_and_client_errors_are_distinct() {
    for (name, running, server) in run_everywhere(testkit::server().tool("echo").tool("fail")).await {
        let client = Client::connect(server).await.unwrap();
        running.arm(Fault::error(-32050, "out of rope").on("tools/call"));
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        let ErrorKind::Server(said) = error.kind() else { panic!("{name}: {error}") };
        assert_eq!((said.code, said.message.as_str()), (-32050, "out of rope"), "{name}");
        assert!(client.call_tool("fail", &json!({})).await.unwrap().is_error, "{name}");
        let error = client.call_tool("echo", &json!(["not", "an object"])).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Usage(_)), "{name}");
        client.close().await;
    }
}

/// HT-03, HT-05: a refused request fails alone.
#[tokio::test]
async fn ht_03_a_refused_request_fails_alone() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    for status in [413, 431, 500, 502] {
        server.arm(Fault::status(status).on("tools/call"));
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        assert!(
            matches!(error.fault().unwrap().cause, Cause::Status { code, .. } if code == status),
            "{error}"
        );
        assert_eq!(error.execution(), Execution::Unknown);
        client.call_tool("echo", &json!({})).await.unwrap();
    }
    assert_eq!(server.initialize_count(), 1);
    client.close().await;
}
