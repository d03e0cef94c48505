//! Modern subscriptions: granted filters, several at once, and their endings.

use std::time::Duration;

use bowline_testkit::{self as testkit, HttpServer, SubscriptionEnd, SubscriptionInfo};
use serde_json::{Value, json};

use crate::stdio::Pipes;
use crate::support::{Events, TEST_TIMEOUT, modern_client, modern_params, request};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(id: impl Into<Value>, filter: &Value) -> Value {
    request(id, "subscriptions/listen", modern_params(json!({"notifications": filter})))
}

async fn open(server: &HttpServer, id: impl Into<Value>, filter: &Value) -> Events {
    let client = modern_client(server.addr(), "subscriptions/listen", None);
    Events::open(&client, "POST", &listen(id, filter)).await
}

// SB-02
#[tokio::test]
async fn filters_are_limited_by_server_and_script() {
    let all = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///a"], "unheardOf": true,
    });
    let server = testkit::server().tool("echo").resource("file:///a", "").modern().run().await;
    let mut stream = open(&server, 1, &all).await;
    let granted = stream.next().await["params"]["notifications"].clone();
    assert_eq!(
        granted,
        json!({
            "toolsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["file:///a"],
        })
    );
    server.edit(|script| script.listen_grants(&["toolsListChanged"]));
    let mut limited = open(&server, 2, &all).await;
    assert_eq!(limited.next().await["params"]["notifications"], json!({"toolsListChanged": true}));
    assert_eq!(server.announce_resources(), 1);
    assert_eq!(server.announce_tools(), 2);
    assert_eq!(limited.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(
        server.open_subscriptions()[1],
        SubscriptionInfo { id: json!(2), filter: json!({"toolsListChanged": true}) }
    );
}

// SB-03, SB-04
#[tokio::test]
async fn concurrent_subscriptions_end_separately() {
    let server = testkit::server().tool("echo").modern().run().await;
    let filter = json!({"toolsListChanged": true});
    let mut streams = Vec::new();
    for id in [json!(1), json!("1"), json!("c")] {
        let mut stream = open(&server, id.clone(), &filter).await;
        assert_eq!(stream.next().await["params"]["_meta"][ID], id);
        streams.push(stream);
    }
    assert_eq!(server.announce_tools(), 3);
    for (stream, id) in streams.iter_mut().zip([json!(1), json!("1"), json!("c")]) {
        assert_eq!(stream.next().await["params"]["_meta"][ID], id);
    }
    assert_eq!(server.end_matching_subscriptions(Some(&json!(1)), SubscriptionEnd::Result), 1);
    let last = streams[0].next().await;
    assert_eq!((&last["id"], &last["result"]["_meta"][ID]), (&json!(1), &json!(1)));
    assert_eq!(server.end_matching_subscriptions(Some(&json!("1")), SubscriptionEnd::Cancelled), 1);
    let last = streams[1].next().await;
    assert_eq!(last["method"], "notifications/cancelled");
    assert_eq!(last["params"]["requestId"], "1");
    assert_eq!(server.end_matching_subscriptions(None, SubscriptionEnd::Silent), 1);
    for stream in &mut streams {
        assert_eq!(stream.next().await, Value::Null);
    }
    assert_eq!(server.subscription_count(), 0);
    assert!(server.cancellations().is_empty(), "the client left none of them");
}

// SB-03, SB-04, CN-05
#[tokio::test]
async fn subscriptions_share_one_pipe() {
    let server = testkit::server().tool("echo").prompt("p", "").stdio().await;
    let mut pipes = Pipes::start(&server.command());
    let tools = pipes.ask(&listen("a", &json!({"toolsListChanged": true}))).await;
    assert_eq!(tools["params"]["_meta"][ID], "a");
    let prompts = pipes.ask(&listen(2, &json!({"promptsListChanged": true}))).await;
    assert_eq!(prompts["params"]["_meta"][ID], 2);
    server.wait_until(|s| s.subscription_count() == 2, TEST_TIMEOUT).await;
    // There was no handshake here, so nothing is announced outside of the subscriptions.
    assert_eq!((server.announce_tools(), server.announce_prompts()), (1, 1));
    let told: Value = serde_json::from_str(&pipes.line().await).unwrap();
    assert_eq!(told["params"]["_meta"][ID], "a");
    let told: Value = serde_json::from_str(&pipes.line().await).unwrap();
    assert_eq!(told["params"]["_meta"][ID], 2);
    let cancelled = json!({"requestId": "a"});
    pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})).await;
    server.wait_until(|s| s.subscription_count() == 1, Duration::from_secs(5)).await;
    assert_eq!(server.announce_tools(), 0);
    server.end_matching_subscriptions(None, SubscriptionEnd::Cancelled);
    let last: Value = serde_json::from_str(&pipes.line().await).unwrap();
    assert_eq!(last["params"]["requestId"], 2);
}
