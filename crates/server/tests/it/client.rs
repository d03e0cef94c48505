//! The library's own client as a host of the listener.

use bowline::{CallOptions, Client, Event, Server};
use bowline_testkit::FaultProxy;
use serde_json::{Value, json};
use tokio::sync::mpsc;

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

/// HL-07: all connections are reset in the middle of a call that must not be sent twice. The client
/// resumes its stream, and gets the rest of its progress and the response.
#[tokio::test]
async fn hl_07_own_client_resumes_a_call_after_a_cut() {
    let mut test = TestServer::start().await;
    let proxy = FaultProxy::start(test.client.addr()).await;
    let client = Client::builder(Server::http("test", proxy.url("/mcp")).build().unwrap()).open().unwrap();
    let (sender, mut progress) = mpsc::unbounded_channel();
    let options = CallOptions::new().on_raw_progress(move |params| {
        let number: u64 = params.member("progress").unwrap().decode().unwrap();
        let _ = sender.send(number);
    });
    let calling = {
        let client = client.clone();
        tokio::spawn(async move { client.request_with("talk", &json!({"steps": 3}), &options).await })
    };
    test.expect(Report::Arrived("talk".into())).await;
    soon(client.notify("notifications/go", &json!({}))).await.unwrap();
    assert_eq!(soon(progress.recv()).await, Some(1));
    proxy.reset_all().await;
    for _ in 0..3 {
        soon(client.notify("notifications/go", &json!({}))).await.unwrap();
    }
    assert_eq!((soon(progress.recv()).await, soon(progress.recv()).await), (Some(2), Some(3)));
    assert_eq!(soon(calling).await.unwrap().unwrap().as_str(), r#"{"said":3}"#);
    while let Ok(report) = test.reports.try_recv() {
        assert_ne!(report, Report::Arrived("talk".into()), "it was sent once");
    }
}
