//! `subscriptions/listen` against a server of the Python SDK, which FastMCP builds on but does not
//! expose.

use bowline::types::ResourceBody;
use bowline::{Client, Era, Event, ListKind, Subscription};
use serde_json::json;

use crate::Peer;
use crate::limit::within;

const SCRIPT: &str = "python_sdk_server.py";

async fn start_both() -> [Peer; 2] {
    [Peer::stdio(SCRIPT), Peer::http(SCRIPT).await]
}

async fn update_resource(client: &Client, uri: &str) {
    client.call_tool("load", &json!({ "uri": uri })).await.unwrap();
}

/// Waits for an update and reads the resource.
async fn read_after_update(client: &Client, subscription: &mut Subscription) -> String {
    let update = subscription.next().await.unwrap();
    assert_eq!((&*update.uri, update.inferred), (subscription.uri(), false));
    let read = client.read_resource(&update.uri).await.unwrap();
    let ResourceBody::Text(text) = &read.contents[0].body else { panic!("{read:?}") };
    text.get().into_owned()
}

/// SB-01, SB-03, SB-06, RS-04: each subscriber gets its own updates, before and after the filter
/// changes.
#[tokio::test]
async fn resources_are_listened_to() {
    within("listening", async {
        for peer in start_both().await {
            let client = Client::connect(peer.server.clone()).await.unwrap();
            assert_eq!(client.peer().await.unwrap().era(), Era::Modern);
            let mut a = client.subscribe("block://a").await.unwrap();
            update_resource(&client, "block://a").await;
            assert_eq!(read_after_update(&client, &mut a).await, "2");

            let mut b = client.subscribe("block://b").await.unwrap();
            update_resource(&client, "block://a").await;
            update_resource(&client, "block://b").await;
            assert_eq!(read_after_update(&client, &mut a).await, "3");
            assert_eq!(read_after_update(&client, &mut b).await, "2");

            // Dropping one subscription does not disturb the other.
            drop(a);
            update_resource(&client, "block://b").await;
            assert_eq!(read_after_update(&client, &mut b).await, "3");
            client.close().await;
            assert_eq!(b.next().await, None);
        }
    })
    .await;
}

/// TL-10, SB-02: tools, prompts and resources added at run time are announced with their
/// difference.
#[tokio::test]
async fn list_changes_are_announced() {
    within("listening", async {
        for peer in start_both().await {
            let client = Client::connect(peer.server.clone()).await.unwrap();
            let before = client.list_tools().await.unwrap().len();
            client.list_prompts().await.unwrap();
            client.list_resources().await.unwrap();
            client.track_lists();
            let mut events = client.events();
            // The wait ends when the server has acknowledged the filter.
            let _listening = client.subscribe("block://a").await.unwrap();
            client.call_tool("rig", &json!({ "name": "tackle" })).await.unwrap();
            let mut changes = Vec::new();
            while changes.len() < 3 {
                if let Event::ListChanged(change) = events.next().await.unwrap() {
                    assert!(change.removed.is_empty() && change.changed.is_empty(), "{change:?}");
                    changes.push((change.list.as_str(), change.added.join(" ")));
                }
            }
            changes.sort_unstable();
            let expected = [
                (ListKind::Prompts.as_str(), "tackle".to_owned()),
                (ListKind::Resources.as_str(), "block://tackle".to_owned()),
                (ListKind::Tools.as_str(), "tackle".to_owned()),
            ];
            assert_eq!(changes, expected);
            assert_eq!(client.list_tools().await.unwrap().len(), before + 1);
            assert_eq!(client.call_tool("tackle", &json!({})).await.unwrap().text(), "tackle");
            client.close().await;
        }
    })
    .await;
}

/// SB-06: no update is missed while one subscription replaces another, however often.
#[tokio::test]
async fn subscriptions_come_and_go() {
    within("listening", async {
        for peer in start_both().await {
            let client = Client::connect(peer.server.clone()).await.unwrap();
            let mut a = client.subscribe("block://a").await.unwrap();
            for _ in 0..20 {
                let mut b = client.subscribe("block://b").await.unwrap();
                update_resource(&client, "block://b").await;
                assert_eq!(b.next().await.unwrap().uri, "block://b");
                drop(b);
                update_resource(&client, "block://a").await;
                assert_eq!(a.next().await.unwrap().uri, "block://a");
            }
            client.close().await;
        }
    })
    .await;
}
