//! `resources/subscribe` of the legacy era and `subscriptions/listen` of the modern one behind one
//! API, against a server made with rmcp.

use bowline::types::ResourceBody;
use bowline::{Client, Era, Event, ListKind};
use serde_json::{Value, json};

use crate::interactive_servers;
use crate::limit::within;

/// RS-03 with legacy servers; RS-04, SB-01, SB-03 with modern ones.
#[tokio::test]
async fn a_subscription_hears_of_updates() {
    within("subscriptions", async {
        for (name, server) in interactive_servers().await {
            let client = Client::connect(server).await.unwrap();
            let mut load = client.subscribe("rig://load").await.unwrap();
            for expected in ["1", "2"] {
                client.call_tool("load", &json!({ "uri": "rig://load" })).await.unwrap();
                let update = load.next().await.unwrap();
                assert_eq!((&*update.uri, update.inferred), ("rig://load", false), "{name}");
                let read = client.read_resource(&update.uri).await.unwrap();
                let ResourceBody::Text(text) = &read.contents[0].body else { panic!("{read:?}") };
                assert_eq!(text.get(), expected, "{name}");
            }
            client.close().await;
            assert_eq!(load.next().await, None, "{name}");
        }
    })
    .await;
}

/// TL-10, CA-01, CA-05: a list is cached for its time to live, or until the server announces a
/// change.
#[tokio::test]
async fn a_list_is_kept_until_it_changes() {
    within("lists", async {
        for (name, server) in interactive_servers().await {
            let client = Client::connect(server).await.unwrap();
            let mut events = client.events();
            // A modern server's stream is open once the subscription is granted.
            let _listening = client.subscribe("rig://load").await.unwrap();
            let before = client.list_tools().await.unwrap().len();
            let asked = count_tool_lists(&client).await;
            for _ in 0..3 {
                assert_eq!(client.list_tools().await.unwrap().len(), before, "{name}");
            }
            let kept = client.peer().await.unwrap().era() == Era::Modern;
            assert_eq!(count_tool_lists(&client).await - asked, if kept { 0 } else { 3 }, "{name}");

            client.track_lists();
            client.call_tool("rig", &json!({ "name": "pulley" })).await.unwrap();
            let change = loop {
                if let Event::ListChanged(change) = events.next().await.unwrap() {
                    break change;
                }
            };
            assert_eq!((change.list, &*change.added), (ListKind::Tools, &["pulley".into()][..]), "{name}");
            assert_eq!(client.list_tools().await.unwrap().len(), before + 1, "{name}");
            client.close().await;
        }
    })
    .await;
}

/// Returns how often the tools were listed.
async fn count_tool_lists(client: &Client) -> i64 {
    client.call_tool("lists", &Value::Null).await.unwrap().text().parse().unwrap()
}
