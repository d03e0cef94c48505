//! What was recorded of sessions is loaded when their hosts come back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bowline_server::HttpSettings;
use serde_json::json;
use tokio::task::JoinSet;

use crate::http_client::HttpClient;
use crate::restart::{Memory, begin};
use crate::test_server::{TestServer, notification, refusal, request, result};

/// Expects that a request of each of these hosts is answered.
fn echo_all(hosts: impl IntoIterator<Item = HttpClient>) -> JoinSet<()> {
    let echoed = hosts.into_iter().zip(1..).map(|(host, id)| async move {
        let echo = request(id, "echo", json!({"a": 1}));
        assert_eq!(host.post(&echo).await.expect_json(200).await, result(id, json!({"a": 1})));
    });
    echoed.collect()
}

/// HL-03: after 404 a host begins another session, so it is the answer only if there is no session.
#[tokio::test]
async fn hl_03_a_session_that_cannot_be_loaded_now_has_not_ended() {
    let memory = Memory::default();
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    let ended = begin(&memory, &first).await;
    ended.delete().await.expect_empty(204).await;
    first.kill().await;
    let second = memory.start().await;
    let (host, ended) = (host.at(second.client.addr()), ended.at(second.client.addr()));
    memory.is_unreadable.store(true, Ordering::Relaxed);
    let echo = request(1, "echo", json!({"a": 1}));
    for refused in [host.post(&echo).await, host.get().await, host.delete().await, ended.get().await] {
        assert_eq!(refused.header("retry-after"), Some("5"));
        let words = "what was recorded cannot be loaded now";
        assert_eq!(refused.expect_json(503).await, refusal(-32603, words));
    }
    memory.is_unreadable.store(false, Ordering::Relaxed);
    assert_eq!(host.post(&echo).await.expect_json(200).await, result(1, json!({"a": 1})));
    assert_eq!(ended.get().await.expect_json(404).await, refusal(-32600, "no such session"));
}

/// Hosts do not wait for one another, and each session is loaded once, however many requests wait for it.
#[tokio::test]
async fn several_sessions_are_restored_at_once() {
    let memory = Memory::default();
    let first = memory.start().await;
    let mut hosts = Vec::new();
    for _ in 0..20 {
        hosts.push(begin(&memory, &first).await);
    }
    first.kill().await;
    let second = memory.start().await;
    let hosts = hosts.iter().map(|host| host.at(second.client.addr()));
    let gate = memory.load_gate.write().await;
    let echoing = echo_all(hosts.flat_map(|host| vec![host; 3]));
    memory.wait_for_loads(8).await;
    // Another exchange with the listener shows that no more sessions are loaded.
    for _ in 0..20 {
        second.client.send("GET", "/healthz", "").await;
    }
    assert_eq!(memory.loads.load(Ordering::Relaxed), 8);
    drop(gate);
    echoing.join_all().await;
    assert_eq!(memory.loads.load(Ordering::Relaxed), 20);
}

/// HL-07: a host that waits for one response has its session; another one has nothing yet.
#[tokio::test]
async fn resumes_hold_up_no_restoration() {
    let memory = Memory::default();
    let first = memory.start().await;
    let waiting = begin(&memory, &first).await;
    first.kill().await;
    let settings = HttpSettings::new().with_session_store(Arc::new(memory.clone()));
    let second = TestServer::start_with(settings.with_event_log(1_024, 20)).await;
    let host = second.initialize("2025-11-25").await;
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    let mut events = host.post(&request(7, "record", json!({}))).await.expect_events();
    let begun = events.next().await.unwrap().id;
    assert_eq!(events.message().await, result(7, json!({"repeated": false})));
    events.expect_end().await;
    let gate = memory.load_gate.write().await;
    let resuming: JoinSet<_> = vec![host.with("last-event-id", &begun); 10]
        .into_iter()
        .map(|host| async move { host.get().await.status })
        .collect();
    memory.wait_for_loads(4).await;
    let echoing = echo_all([waiting.at(second.client.addr())]);
    memory.wait_for_loads(5).await;
    drop(gate);
    echoing.join_all().await;
    assert_eq!(resuming.join_all().await, [200; 10]);
}
