//! Idle connections: keepalive where configured, recovery elsewhere.

use std::time::Duration;

use bowline::config::Protocol;
use bowline::{CallOptions, Client, ConnectionEventKind};
use bowline_testkit::{self as testkit, Fault};
use serde_json::Value;

use crate::support::{TEST_TIMEOUT, call_concurrently, http, stdio};

const ONE_SECOND: Duration = Duration::from_secs(1);

/// PG-02: with keepalive, pings alone keep a session at a server that drops idle ones. Without it,
/// the next call recovers.
#[tokio::test]
async fn pg_02_an_idle_session_is_kept_warm() {
    let script = testkit::server()
        .legacy()
        .tool("counter")
        .session_idle_timeout(Duration::from_millis(6_500))
        .filler_tools(50, 100);
    let (warm, cold) = (script.clone().run().await, script.run().await);
    let entry = |server| http(server).with_protocol(Protocol::Legacy);
    let kept = Client::connect(entry(&warm).with_keepalive(Some(5 * ONE_SECOND))).await.unwrap();
    let left = Client::connect(entry(&cold).with_keepalive(None)).await.unwrap();
    for client in [&kept, &left] {
        client.call_tool("counter", &Value::Null).await.unwrap();
    }
    // The second ping comes later than the idle limit of the server.
    warm.wait_for_nth(1, |received| received.has_method("ping"), TEST_TIMEOUT).await;
    for client in [&kept, &left] {
        client.call_tool("counter", &Value::Null).await.unwrap();
    }
    assert_eq!((warm.initialize_count(), warm.count("tools/list")), (1, 0));
    assert_eq!((cold.initialize_count(), cold.count("ping")), (2, 0));
    assert_eq!((kept.health().sessions_lost, left.health().sessions_lost), (0, 1));
    kept.close().await;
    left.close().await;
}

/// A process that hangs is replaced once a call has timed out.
#[tokio::test]
async fn a_hung_process_is_replaced() {
    let server = testkit::server().legacy().tool("counter").stdio().await;
    let client = Client::connect(stdio(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    let mut events = client.events();
    server.arm(Fault::silent().always());
    let hurried = CallOptions::new().idle_timeout(ONE_SECOND);
    client.call_tool_with("counter", &Value::Null, &hurried).await.unwrap_err();
    server.wait_for(|received| received.has_method("ping"), TEST_TIMEOUT).await;
    server.disarm();
    loop {
        let event = tokio::time::timeout(60 * ONE_SECOND, events.next()).await.unwrap().unwrap();
        if let bowline::Event::Connection(life) = event
            && life.kind == ConnectionEventKind::Recovered
        {
            break;
        }
    }
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!(server.runs(), 2);
    client.close().await;
}

/// On a pipe any response proves life: a process that answers a probe with an error is kept.
#[tokio::test]
async fn a_process_that_answers_ping_with_an_error_is_kept() {
    let server = testkit::server().legacy().tool("counter").stdio().await;
    let client = Client::connect(stdio(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    server.arm(Fault::error(-32603, "no such thing here").on("ping").always());
    server.arm(Fault::silent().on("tools/call"));
    let hurried = CallOptions::new().idle_timeout(ONE_SECOND);
    client.call_tool_with("counter", &Value::Null, &hurried).await.unwrap_err();
    server.wait_for(|received| received.has_method("ping"), TEST_TIMEOUT).await;
    for _ in 0..3 {
        client.call_tool("counter", &Value::Null).await.unwrap();
    }
    assert_eq!((server.runs(), server.initialize_count()), (1, 1));
    client.close().await;
}

/// Over HTTP an error to `ping` is confirmed by a list request before a session is dropped.
#[tokio::test]
async fn a_session_that_refuses_only_ping_is_kept() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let entry = http(&server).with_protocol(Protocol::Legacy);
    let client = Client::connect(entry).await.unwrap();
    server.arm(
        Fault::response(testkit::CannedResponse::new(400).text("session not found")).on("ping").always(),
    );
    server.arm(Fault::silent().on("tools/call"));
    let hurried = CallOptions::new().idle_timeout(ONE_SECOND);
    client.call_tool_with("counter", &Value::Null, &hurried).await.unwrap_err();
    server.wait_for(|received| received.has_method("tools/list"), TEST_TIMEOUT).await;
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!(server.initialize_count(), 1);
    client.close().await;
}

/// A caller that gives up earlier than our timeout has also seen no answer: the server is probed,
/// even without keepalive. A call dropped at once proves nothing.
#[tokio::test]
async fn a_caller_leaving_a_silent_server_triggers_a_probe() {
    let server = testkit::server().legacy().tool("counter").stdio().await;
    let entry = stdio(&server).with_protocol(Protocol::Legacy).with_keepalive(None);
    let client = Client::connect(entry).await.unwrap();
    server.arm(Fault::silent().on_tool("counter").always());
    let limit = CallOptions::new().idle_timeout(6 * ONE_SECOND);
    let leave_after = async |patience| {
        let call = client.call_tool_with("counter", &Value::Null, &limit);
        tokio::time::timeout(patience, call).await.unwrap_err();
    };
    leave_after(ONE_SECOND / 10).await;
    // A probe would come before the second of these requests.
    for _ in 0..2 {
        client.request("tools/list", &Value::Null).await.unwrap();
    }
    assert_eq!(server.count("ping"), 0);
    // A response clears the suspicion, so no probe follows when its time comes.
    leave_after(5 * ONE_SECOND + ONE_SECOND / 2).await;
    client.request("tools/list", &Value::Null).await.unwrap();
    leave_after(5 * ONE_SECOND + ONE_SECOND / 2).await;
    assert_eq!(server.count("ping"), 0);
    server.wait_for(|received| received.has_method("ping"), TEST_TIMEOUT).await;
    assert_eq!(server.runs(), 1, "it answered, and goes on");
    client.close().await;
}

/// Older calls, which have their own deadlines, delay the probe: the server may be working on them.
#[tokio::test]
async fn an_older_call_delays_the_probe() {
    let server = testkit::server().legacy().tool("counter").stdio().await;
    let entry = stdio(&server).with_protocol(Protocol::Legacy).with_keepalive(None);
    let client = Client::connect(entry).await.unwrap();
    server.arm(Fault::silent().on_tool("counter").always());
    let call = async |limit, patience| {
        let limit = CallOptions::new().idle_timeout(limit);
        let call = client.call_tool_with("counter", &Value::Null, &limit);
        tokio::time::timeout(patience, call).await.unwrap_err();
    };
    let younger = async {
        server.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        call(6 * ONE_SECOND, 5 * ONE_SECOND + ONE_SECOND / 2).await;
    };
    let older = async {
        call(60 * ONE_SECOND, 8 * ONE_SECOND).await;
        assert_eq!(server.count("ping"), 0, "it may be at work");
    };
    tokio::join!(older, younger);
    server.wait_for(|received| received.has_method("ping"), TEST_TIMEOUT).await;
    client.close().await;
}

/// A server that answers other requests is alive and stays, although it ignores the probe.
#[tokio::test]
async fn a_server_that_answers_other_requests_is_not_replaced() {
    let server = testkit::server().legacy().tool("counter").stdio().await;
    let entry = stdio(&server).with_protocol(Protocol::Legacy).with_keepalive(None);
    let client = Client::connect(entry).await.unwrap();
    server.arm(Fault::silent().on("ping").always());
    server.arm(Fault::silent().on_tool("counter"));
    let hurried = CallOptions::new().idle_timeout(ONE_SECOND);
    client.call_tool_with("counter", &Value::Null, &hurried).await.unwrap_err();
    server.wait_for(|received| received.has_method("ping"), TEST_TIMEOUT).await;
    client.call_tool("counter", &Value::Null).await.unwrap();
    // The first probe has timed out, and the next one goes to the same process.
    let again = server.wait_for_nth(1, |received| received.has_method("ping"), 60 * ONE_SECOND).await;
    assert_eq!((again.run, server.runs()), (1, 1));
    client.close().await;
}

/// Over HTTP a silence may be the network's: after a dropped call, idle connections are not reused.
#[tokio::test]
async fn idle_connections_are_dropped_after_a_silence() {
    let server = testkit::server().legacy().tool("counter").no_get_stream().run().await;
    let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    // At least two connections are open, one of them idle during the hanging call.
    call_concurrently(&client, 8, "counter").await;
    server.arm(Fault::silent().on_tool("counter"));
    let before = server.connections();
    assert!(before >= 2, "{before}");
    let call = client.call_tool("counter", &Value::Null);
    tokio::time::timeout(5 * ONE_SECOND + ONE_SECOND / 2, call).await.unwrap_err();
    // The cancellation reaches the server over some connection.
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert!(server.connections() > before, "what was idle meanwhile was used");
    assert_eq!((server.initialize_count(), server.count("ping")), (1, 0));
    client.close().await;
}

/// A notification has no answer. The server's refusal of one still shows that it forgot the session,
/// which is restored before the next call.
#[tokio::test]
async fn a_refused_notification_has_the_session_restored() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    server.drop_sessions();
    client.notify("notifications/x-vendor", &Value::Null).await.unwrap();
    server.wait_until(|server| server.initialize_count() == 2, TEST_TIMEOUT).await;
    let result = client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!((result.report.attempts, result.report.recoveries, server.initialize_count()), (1, 0, 2));
    client.close().await;
}
