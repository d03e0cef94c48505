//! The library's own client as a host of the listener.

use bowline::{Client, Event, Server};
use serde_json::{Value, json};

use crate::http_client::soon;
use crate::test_server::{Report, TestServer};

#[tokio::test]
async fn own_client_is_served() {
    let mut test = TestServer::start().await;
    let url = format!("http://{}/mcp", test.client.addr());
    let client = Client::builder(Server::http("test", url).build().unwrap()).open().unwrap();
    let mut events = client.events();
    let echoed: Value = soon(client.request("echo", &json!({"x": [1, 2]}))).await.unwrap().decode().unwrap();
    assert_eq!(echoed["x"], json!([1, 2]));
    // The response comes after 50 other messages on an event stream.
    let flooded = soon(client.request("flood", &json!({"count": 50, "bytes": 1000}))).await.unwrap();
    assert_eq!(flooded.as_str(), "{}");
    // This one is on the stream of the session.
    soon(client.notify("notifications/announce", &json!({}))).await.unwrap();
    let changed = async {
        loop {
            match events.next().await.expect("the client is open") {
                Event::Notification(said) if *said.method == *"notifications/tools/list_changed" => return,
                _ => {}
            }
        }
    };
    soon(changed).await;
    soon(client.close()).await;
    test.expect(Report::Ended).await;
}
