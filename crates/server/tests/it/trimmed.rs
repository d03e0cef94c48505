//! Responses that the log of a session has no room for are not lost to a host that resumes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bowline_server::HttpSettings;
use serde_json::{Value, json};

use crate::http_client::HttpClient;
use crate::restart::Memory;
use crate::test_server::{TestServer, notification, refusal, request, result};

/// Less than any response has.
const LOG_BYTES: usize = 20;

async fn go(host: &HttpClient) {
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
}

/// The error in place of a response that is nowhere.
fn lost(id: u64, told: &str, cause: &str) -> Value {
    let message = format!(
        "bowline: the response was not read to its end, and {told} (the server may have executed the request)"
    );
    let data = json!({"bowline": {"cause": cause, "execution": "unknown"}});
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -31050, "message": message, "data": data}})
}

/// HL-07: a response that was recorded is what the host gets, however often it comes back.
#[tokio::test]
async fn hl_07_a_trimmed_response_comes_from_the_journal() {
    let memory = Memory::default();
    let settings = HttpSettings::new().with_session_store(Arc::new(memory.clone()));
    let server = TestServer::start_with(settings.with_event_log(1_024, LOG_BYTES)).await;
    let host = server.initialize("2025-11-25").await;
    let mut calls = Vec::new();
    go(&host).await;
    for id in [7, 8] {
        let mut events = host.post(&request(id, "record", json!({}))).await.expect_events();
        calls.push((id, events.next().await.unwrap().id));
        assert_eq!(events.message().await, result(id, json!({"repeated": false})));
        // From here on it is not in the log.
        events.expect_end().await;
    }
    for _ in 0..2 {
        for (id, begun) in &calls {
            let mut resumed = host.with("last-event-id", begun).get().await.expect_events();
            assert_eq!(resumed.message().await, result(*id, json!({"repeated": false})));
            resumed.expect_end().await;
        }
    }
}

/// HL-07: what is recorded nowhere is answered with the error that it would have after a restart.
#[tokio::test]
async fn hl_07_a_trimmed_response_that_is_nowhere_is_an_error() {
    let server = TestServer::start_with(HttpSettings::new().with_event_log(1_024, LOG_BYTES)).await;
    let host = server.initialize("2025-06-18").await;
    let call = request(1, "talk", json!({"steps": 1, "token": 1}));
    go(&host).await;
    let mut events = host.post(&call).await.expect_events();
    let progress = events.next().await.unwrap();
    go(&host).await;
    assert_eq!(events.message().await, result(1, json!({"said": 1})));
    events.expect_end().await;
    for _ in 0..2 {
        let mut resumed = host.with("last-event-id", &progress.id).get().await.expect_events();
        let answer = resumed.next().await.unwrap();
        assert_eq!(answer.message, lost(1, "was too large to be kept", "too_large"));
        resumed.expect_end().await;
    }
    let unknown = host.with("last-event-id", "99-0").get().await;
    assert_eq!(unknown.expect_json(400).await["error"]["message"], "no such event is known in this session");
}

/// HL-07: the error says that the response was too large only if it was.
#[tokio::test]
async fn hl_07_a_small_trimmed_response_is_not_called_too_large() {
    let server = TestServer::start_with(HttpSettings::new().with_event_log(1, 64 * 1024)).await;
    let host = server.initialize("2025-06-18").await;
    for _ in 0..2 {
        go(&host).await;
    }
    let mut begun = Vec::new();
    for id in [1, 2] {
        let call = request(id, "talk", json!({"steps": 1, "token": id}));
        let mut events = host.post(&call).await.expect_events();
        begun.push(events.next().await.unwrap().id);
        assert_eq!(events.message().await, result(id, json!({"said": 1})));
        events.expect_end().await;
    }
    let mut resumed = host.with("last-event-id", &begun[0]).get().await.expect_events();
    assert_eq!(resumed.message().await, lost(1, "is no longer kept", "closed"));
    resumed.expect_end().await;
}

/// HL-07: a store that is away for a while costs the host no response.
#[tokio::test]
async fn hl_07_a_resume_is_refused_while_the_journal_is_unavailable() {
    let memory = Memory::default();
    let settings = HttpSettings::new().with_session_store(Arc::new(memory.clone()));
    let server = TestServer::start_with(settings.with_event_log(1_024, LOG_BYTES)).await;
    let host = server.initialize("2025-11-25").await;
    go(&host).await;
    let mut events = host.post(&request(7, "record", json!({}))).await.expect_events();
    let begun = events.next().await.unwrap().id;
    assert_eq!(events.message().await, result(7, json!({"repeated": false})));
    events.expect_end().await;
    let host = host.with("last-event-id", &begun);
    memory.is_unreadable.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let refused = host.get().await;
        assert_eq!(refused.header("retry-after"), Some("5"));
        let words = "what was recorded cannot be loaded now";
        assert_eq!(refused.expect_json(503).await, refusal(-32603, words));
    }
    memory.is_unreadable.store(false, Ordering::Relaxed);
    let mut resumed = host.get().await.expect_events();
    assert_eq!(resumed.message().await, result(7, json!({"repeated": false})));
    resumed.expect_end().await;
}
