//! What a server reads when the host cancels a call.

use bowline_testkit as testkit;
use serde_json::{Value, json};

use super::host::{Host, TEST_TIMEOUT};
use crate::context::Context;
use crate::status::http_entry;

/// CN-01: the server reads why the host has canceled a call, in at most 1,000 characters.
#[tokio::test]
async fn cn_01_the_reason_of_a_cancellation_reaches_the_server() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("slow").run().await;
    context.user_config(&http_entry("web", &server));
    let long = "é".repeat(1_000);
    let mut sent = 0;
    for args in [&["connect", "web"][..], &["serve", "--stdio", "--alone"]] {
        let mut host = Host::start_initialized(context.bowline(args)).await;
        for (reason, expected) in [
            (json!("the user has changed the plan"), "the user has changed the plan"),
            (json!(format!("{long}x")), &*long),
            (Value::Null, "the caller no longer waits"),
        ] {
            let call = json!({"name": "slow", "arguments": {"ms": 600_000}});
            let id = host.send_request("tools/call", call).await;
            let call = server.wait_for_nth(sent, |it| it.tool() == Some("slow"), TEST_TIMEOUT).await;
            let params = json!({"requestId": id, "reason": reason});
            host.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
                .await;
            let is_cancellation = |it: &testkit::ReceivedMessage| it.has_method("notifications/cancelled");
            let canceled = server.wait_for_nth(sent, is_cancellation, TEST_TIMEOUT).await;
            assert_eq!(canceled.body["params"], json!({"requestId": call.body["id"], "reason": expected}));
            sent += 1;
        }
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}
