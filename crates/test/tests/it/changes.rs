//! What changes while a client is connected: resources and tools.

use std::time::Duration;

use bowline::host::Host;
use bowline::{Client, Event};
use bowline_test::FakeServer;
use tokio::time::timeout;

use crate::support::everywhere;

/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(30);

async fn read(client: &Client) -> bool {
    let read = client.read_resource("note:///1").await.unwrap();
    read.contents[0].json.as_str().contains("second")
}

#[tokio::test]
async fn a_subscriber_hears_of_an_updated_resource() {
    let add = |server: FakeServer| server.resource("note:///1", "first").resource("note:///2", "other");
    for (server, client) in everywhere(&Host::new(), add).await {
        assert!(!read(&client).await);
        let mut subscription = client.subscribe("note:///1").await.unwrap();
        server.control().update_resource("note:///2", "nobody asked");
        server.control().update_resource("note:///1", "second");
        let change = timeout(LIMIT, subscription.next()).await.unwrap().unwrap();
        assert_eq!((&*change.uri, change.inferred), ("note:///1", false));
        assert!(read(&client).await);
        client.close().await;
    }
}

#[tokio::test]
async fn tools_come_and_go() {
    let add = |server: FakeServer| server.tool("steady", |_| "steady").tool("shy", |_| "here");
    for (server, client) in everywhere(&Host::new(), add).await {
        let (server, mut events) = (server.control(), client.events());
        client.track_tools();
        let mut next_change = async || loop {
            let event = timeout(LIMIT, events.next()).await.unwrap().unwrap();
            if let Event::ListChanged(change) = event {
                return (change.added.join(" "), change.removed.join(" "));
            }
        };
        assert_eq!(client.list_tools().await.unwrap().len(), 2);
        server.remove_tool("shy");
        assert_eq!(next_change().await, (String::new(), "shy".to_owned()));
        assert!(client.call_tool("shy", &()).await.unwrap_err().server_error().is_some());
        server.restore_tool("shy");
        assert_eq!(next_change().await, ("shy".to_owned(), String::new()));
        assert_eq!(client.call_tool("shy", &()).await.unwrap().text(), "here");
        server.assert_called("shy", 1);
        client.close().await;
    }
}
