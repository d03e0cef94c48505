//! What was recorded of sessions is loaded when their hosts come back.

use std::sync::atomic::Ordering;

use crate::restart::{Memory, begin};
use crate::test_server::{refusal, request, result};

use serde_json::json;

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
