//! Batches, which hosts of 2025-03-26 send, outlive the process as single requests do.

use serde_json::json;

use crate::http_client::HttpClient;
use crate::restart::Memory;
use crate::test_server::{TestServer, notification, request, result};

async fn begin(memory: &Memory, server: &TestServer) -> HttpClient {
    let host = server.initialize("2025-03-26").await;
    memory.wait_for_record("2025-03-26").await;
    host
}

/// Each request of a batch has its response after a restart: the recorded one, or that of a request which is repeated.
#[tokio::test]
async fn hl_07_a_batch_is_answered_by_the_next_process() {
    let memory = Memory::default();
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    let batch = json!([
        request(1, "record", json!({})),
        request(2, "record", json!({"after": 2})),
        request(3, "talk", json!({"steps": 0})),
    ]);
    let mut events = host.post(&batch).await.expect_events();
    // One entry for all of them.
    memory.wait_for_entries(1).await;
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    let seen = events.next().await.unwrap();
    events.next().await.unwrap();
    memory.wait_for_entries(3).await;
    first.kill().await;
    drop(events);
    let second = memory.start().await;
    let host = host.at(second.client.addr());
    let mut resumed = host.with("last-event-id", &seen.id).get().await.expect_events();
    let mut responses = [resumed.message().await, resumed.message().await, resumed.message().await];
    responses.sort_by_key(|response| response["id"].as_u64());
    assert_eq!(
        responses,
        [
            result(1, json!({"repeated": false})),
            result(2, json!({"repeated": true})),
            result(3, json!({"said": 0})),
        ]
    );
    resumed.expect_end().await;
}

/// To cancel one request of a batch costs no other its response.
#[tokio::test]
async fn a_canceled_request_leaves_the_rest_of_its_batch_recorded() {
    let memory = Memory::default();
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    let batch = json!([
        request(1, "record", json!({})),
        request(2, "record", json!({"after": 2})),
        request(3, "record", json!({"after": 3})),
    ]);
    let mut events = host.post(&batch).await.expect_events();
    memory.wait_for_entries(1).await;
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    let seen = events.next().await.unwrap();
    assert_eq!(seen.message, result(1, json!({"repeated": false})));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    host.post(&cancel).await.expect_empty(202).await;
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    assert_eq!(events.message().await, result(2, json!({"repeated": false})));
    memory.wait_for_entries(3).await;
    first.kill().await;
    drop(events);
    let second = memory.start().await;
    let host = host.at(second.client.addr());
    let mut resumed = host.with("last-event-id", &seen.id).get().await.expect_events();
    for id in [1, 2] {
        assert_eq!(resumed.message().await, result(id, json!({"repeated": false})));
    }
}
