//! Responses that the log of a session has no room for are not lost to a host that resumes.

use std::sync::Arc;

use bowline_server::HttpSettings;
use serde_json::{Value, json};

use crate::http_client::HttpClient;
use crate::restart::Memory;
use crate::test_server::{TestServer, notification, request, result};

/// Less than any response has.
const LOG_BYTES: usize = 20;

async fn go(host: &HttpClient) {
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
}

/// The error in place of a response that is nowhere.
fn lost(id: u64) -> Value {
    let message = "bowline: the response was not read to its end, and was too large to be kept (the server may have \
                   executed the request)";
    let data = json!({"bowline": {"cause": "too_large", "execution": "unknown"}});
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
        assert_eq!(answer.message, lost(1));
        resumed.expect_end().await;
    }
    let unknown = host.with("last-event-id", "99-0").get().await;
    assert_eq!(unknown.expect_json(400).await["error"]["message"], "no such event is known in this session");
}
