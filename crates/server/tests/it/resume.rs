//! Resumption: what a broken connection did not carry is replayed on its own stream.

use bowline_server::HttpSettings;
use serde_json::json;

use crate::http_client::HttpClient;
use crate::test_server::{Report, TestServer, notification, refusal, request, result};

const UNKNOWN: &str = "no such event is known in this session";

async fn go(host: &HttpClient) {
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
}

/// HL-07, HL-10: a cut in the middle of a stream cancels nothing, and GET goes on from there.
#[tokio::test]
async fn hl_07_cut_stream_is_resumed_by_get() {
    let mut server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    go(&host).await;
    let mut events = host.post(&request(1, "talk", json!({"steps": 3, "token": 1}))).await.expect_events();
    let first = events.next().await.unwrap();
    assert_eq!(first.message["params"]["progress"], 1);
    drop(events);
    for _ in 0..3 {
        go(&host).await;
    }
    server.expect(Report::Gone("talk".into())).await;
    let mut resumed = host.with("last-event-id", &first.id).get().await.expect_events();
    for step in [2, 3] {
        assert_eq!(resumed.message().await["params"]["progress"], step);
    }
    let response = resumed.next().await.unwrap();
    assert_eq!(response.message, result(1, json!({"said": 3})));
    resumed.expect_end().await;
    // Once more from the middle, and from the end.
    let mut again = host.with("last-event-id", &response.id.replace("-4", "-3")).get().await.expect_events();
    assert_eq!(again.next().await.unwrap(), response);
    again.expect_end().await;
    host.with("last-event-id", &response.id).get().await.expect_events().expect_end().await;
    // None of it is on the stream of the session.
    let mut standalone = host.get().await.expect_events();
    host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    assert_eq!(standalone.next().await.unwrap().id, "0-1");
}

/// HL-07: a stream that is resumed before its end goes on.
#[tokio::test]
async fn hl_07_resumed_stream_goes_on() {
    let server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    go(&host).await;
    let mut events = host.post(&request(1, "talk", json!({"steps": 1, "token": 1}))).await.expect_events();
    let first = events.next().await.unwrap();
    // The first connection is still open; it is replaced.
    let mut resumed = host.with("last-event-id", &first.id).get().await.expect_events();
    events.expect_end().await;
    go(&host).await;
    assert_eq!(resumed.message().await, result(1, json!({"said": 1})));
    resumed.expect_end().await;
}

/// HL-09: the event at the beginning is enough to resume a request that said nothing yet.
#[tokio::test]
async fn hl_09_silent_request_is_resumed_from_its_first_event() {
    let settings = HttpSettings::new().with_keep_alive_interval(std::time::Duration::from_millis(20));
    let server = TestServer::start_with(settings).await;
    let host = server.initialize("2025-11-25").await;
    let mut events = host.post(&request(1, "talk", json!({"steps": 0}))).await.expect_events();
    let begin = events.next().await.unwrap();
    drop(events);
    go(&host).await;
    let mut resumed = host.with("last-event-id", &begin.id).get().await.expect_events();
    assert_eq!(resumed.message().await, result(1, json!({"said": 0})));
    resumed.expect_end().await;
}

#[tokio::test]
async fn session_stream_is_resumed_after_the_last_event() {
    let server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    let mut events = host.get().await.expect_events();
    for _ in 0..3 {
        host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    }
    for number in 1..=3 {
        assert_eq!(events.next().await.unwrap().id, format!("0-{number}"));
    }
    drop(events);
    host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    let mut resumed = host.with("last-event-id", "0-2").get().await.expect_events();
    assert_eq!(resumed.next().await.unwrap().id, "0-3");
    assert_eq!(resumed.next().await.unwrap().id, "0-4");
}

#[tokio::test]
async fn forged_and_old_event_ids_are_refused() {
    let server = TestServer::start_with(HttpSettings::new().with_event_log(2, 10_000)).await;
    let host = server.initialize("2025-06-18").await;
    let mut events = host.get().await.expect_events();
    for _ in 0..4 {
        host.post(&notification("notifications/announce")).await.expect_empty(202).await;
        events.next().await.unwrap();
    }
    for forged in ["", "x", "0", "0-5", "9-1", "-1--1", "0-18446744073709551616", "0-1;drop", "../../etc"] {
        let reply = host.with("last-event-id", forged).get().await;
        assert_eq!(reply.expect_json(400).await, refusal(-32600, UNKNOWN), "{forged}");
    }
    let old = host.with("last-event-id", "0-1").get().await;
    assert_eq!(old.expect_json(400).await, refusal(-32600, "events after this one are no longer kept"));
    // The session goes on, and so does the stream that was open.
    host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    assert_eq!(events.next().await.unwrap().id, "0-5");
    let mut kept = host.with("last-event-id", "0-3").get().await.expect_events();
    assert_eq!(kept.next().await.unwrap().id, "0-4");
}

/// HL-10: a connection that breaks before the response cancels nothing.
#[tokio::test]
async fn hl_10_broken_post_does_not_cancel_the_request() {
    let mut server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    let posting = {
        let host = host.clone();
        tokio::spawn(async move { host.post(&request(1, "ask", json!({}))).await.expect_events() })
    };
    server.expect(Report::Arrived("ask".into())).await;
    let mut events = posting.await.unwrap();
    let question = events.next().await.unwrap();
    drop(events);
    host.post(&result(question.message["id"].clone(), json!({"roots": []}))).await.expect_empty(202).await;
    server.expect(Report::Gone("ask".into())).await;
    let mut resumed = host.with("last-event-id", &question.id).get().await.expect_events();
    assert_eq!(resumed.message().await, result(1, json!({"roots": []})));
}
