//! GET: the event stream of a session.

use std::time::Duration;

use bowline_server::HttpSettings;
use serde_json::{Value, json};

use crate::test_server::{Report, TestServer, notification, refusal, request, result};

/// HL-05: what belongs to no request is on the stream of the session.
#[tokio::test]
async fn hl_05_unrelated_messages_are_on_the_session_stream() {
    let mut server = TestServer::start().await;
    let host = server.initialize("2025-11-25").await;
    let mut events = host.get().await.expect_events();
    let begin = events.next().await.unwrap();
    assert_eq!((&*begin.id, begin.message), ("0-0", Value::Null));
    host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    let event = events.next().await.unwrap();
    assert_eq!((&*event.id, &event.message), ("0-1", &notification("notifications/tools/list_changed")));
    host.post(&notification("notifications/question")).await.expect_empty(202).await;
    let question = events.message().await;
    host.post(&result(question["id"].clone(), json!({"roots": []}))).await.expect_empty(202).await;
    server.expect(Report::Answered(Ok(json!({"roots": []})))).await;
}

/// HL-09: hosts before 2025-11-25 are spared the event without a message.
#[tokio::test]
async fn hl_09_older_hosts_get_messages_only() {
    let server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    let mut events = host.get().await.expect_events();
    host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
}

/// Without a stream, senders do not wait: messages and questions are kept until a host comes.
#[tokio::test]
async fn messages_are_kept_until_a_stream_is_opened() {
    let mut server = TestServer::start_with(HttpSettings::new().with_event_log(4, 10_000)).await;
    let host = server.initialize("2025-06-18").await;
    for _ in 0..10 {
        host.post(&notification("notifications/announce")).await.expect_empty(202).await;
        server.expect(Report::Arrived("notifications/announce".into())).await;
    }
    host.post(&notification("notifications/question")).await.expect_empty(202).await;
    let mut events = host.get().await.expect_events();
    let mut kept = Vec::new();
    loop {
        let event = events.next().await.unwrap();
        if event.message["method"] == "roots/list" {
            host.post(&result(event.message["id"].clone(), json!({}))).await.expect_empty(202).await;
            break;
        }
        kept.push(event.id);
    }
    server.expect(Report::Answered(Ok(json!({})))).await;
    // The question may have come just after the stream was opened.
    assert!(kept.ends_with(&["0-8".into(), "0-9".into(), "0-10".into()]), "{kept:?}");
    assert!(kept.len() <= 4, "{kept:?}");
}

/// A question that is dropped before any host reads it fails at once.
#[tokio::test]
async fn question_that_is_dropped_unread_fails() {
    let mut server = TestServer::start_with(HttpSettings::new().with_event_log(2, 10_000)).await;
    let host = server.initialize("2025-06-18").await;
    host.post(&notification("notifications/question")).await.expect_empty(202).await;
    server.expect(Report::Arrived("notifications/question".into())).await;
    let outcome = Report::Answered(Err("the host has no event stream open".into()));
    // The question is sent by another task, so it may come after some of these.
    let report = loop {
        host.post(&notification("notifications/announce")).await.expect_empty(202).await;
        match server.reports.recv().await.unwrap() {
            Report::Arrived(_) => {}
            report => break report,
        }
    };
    assert_eq!(report, outcome);
}

#[tokio::test]
async fn second_stream_replaces_the_first() {
    let server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    let first = host.get().await.expect_events();
    let mut second = host.get().await.expect_events();
    first.expect_end().await;
    host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    assert_eq!(second.next().await.unwrap().id, "0-1");
}

#[tokio::test]
async fn silent_stream_carries_comments() {
    let settings = HttpSettings::new().with_keep_alive_interval(Duration::from_millis(10));
    let server = TestServer::start_with(settings).await;
    let host = server.initialize("2025-06-18").await;
    let mut events = host.get().await.expect_events();
    for _ in 0..3 {
        assert_eq!(events.comment().await, ": \n\n");
    }
}

#[tokio::test]
async fn stream_must_be_accepted() {
    let server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    let refused = host.with("accept", "application/json").get().await;
    let message = "Accept must allow application/json or text/event-stream";
    assert_eq!(refused.expect_json(406).await, refusal(-32600, message));
    for accept in ["text/event-stream", "*/*", "text/*;q=0.1"] {
        host.with("accept", accept).get().await.expect_events();
    }
}

/// A host that does not read its stream holds up only those who have something to say on it.
#[tokio::test]
async fn slow_reader_holds_up_its_own_stream_only() {
    let mut server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    let flood = json!({"count": 2000, "bytes": 10_000});
    let mut slow = host.post(&request(1, "flood", flood)).await.expect_events();
    server.expect(Report::Arrived("flood".into())).await;
    assert_eq!(host.post(&request(2, "echo", json!({}))).await.expect_json(200).await, result(2, json!({})));
    assert!(server.reports.try_recv().is_ok_and(|report| report == Report::Arrived("echo".into())));
    for number in 0..2000 {
        assert_eq!(slow.message().await["params"]["number"], number);
    }
    assert_eq!(slow.message().await, result(1, json!({})));
    slow.expect_end().await;
}

/// A host whose connection broke holds up nobody.
#[tokio::test]
async fn broken_connection_holds_up_nobody() {
    let mut server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    let flood = request(1, "flood", json!({"count": 2000, "bytes": 10_000}));
    let mut events = host.post(&flood).await.expect_events();
    events.next().await.unwrap();
    drop(events);
    server.expect(Report::Gone("flood".into())).await;
}

/// A host that reads nothing for too long is cut off, so that whoever serves it can go on.
#[tokio::test]
async fn stalled_reader_is_cut_off() {
    let settings = HttpSettings::new().with_stall_timeout(Duration::from_millis(50));
    let mut server = TestServer::start_with(settings).await;
    let host = server.initialize("2025-06-18").await;
    let stalled = host.post(&request(1, "flood", json!({"count": 2000, "bytes": 10_000}))).await;
    server.expect(Report::Gone("flood".into())).await;
    assert_eq!(host.post(&request(2, "echo", json!({}))).await.expect_json(200).await, result(2, json!({})));
    drop(stalled);
}
