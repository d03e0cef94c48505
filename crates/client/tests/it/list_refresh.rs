//! How often a changed list is fetched again.

use std::time::Duration;

use bowline::config::Protocol;
use bowline::{CallOptions, Client, Json, Server};
use bowline_proto::wire::{self, Message, outgoing};
use bowline_transport::pipe::{FrameReader as _, InboundFrame};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::support::{PipeEnd, io_pair};

/// A legacy server that delays its tool list while `is_held` is set, counts list requests, and
/// never answers the method `never`.
async fn serve(
    mut end: PipeEnd,
    list_count: watch::Sender<usize>,
    is_held: watch::Receiver<bool>,
    mut changes: mpsc::Receiver<()>,
) {
    loop {
        let received = tokio::select! {
            received = end.reader.recv() => received,
            Some(()) = changes.recv() => {
                let said = outgoing::notification("notifications/tools/list_changed", None);
                let _ = end.writer.send(&said).await;
                continue;
            }
        };
        let Ok(received) = received else { return };
        let InboundFrame::Message(frame) = received else { continue };
        let Ok(Message::Request { id, method, .. }) = wire::parse_one(&frame) else { continue };
        let result = match &*method {
            "never" => continue,
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "slow", "version": "1" },
            }),
            _ => json!({ "tools": [] }),
        };
        let frame = outgoing::response(&id, Ok(&Json::encode(&result).unwrap()));
        let (writer, mut held) = (end.writer.clone(), is_held.clone());
        let is_list = &*method == "tools/list";
        if is_list {
            list_count.send_modify(|asked| *asked += 1);
        }
        tokio::spawn(async move {
            if is_list {
                held.wait_for(|held| !*held).await.unwrap();
            }
            let _ = writer.send(&frame).await;
        });
    }
}

/// Waits until an unanswered call times out, which is longer than list changes are debounced.
async fn wait_past_debounce(client: &Client) {
    let options = CallOptions::new().idle_timeout(Duration::from_millis(250));
    client.request_with("never", &(), &options).await.unwrap_err();
}

/// TL-10: under constant change notifications, a new refresh starts only after the previous one,
/// and at most one waits.
#[tokio::test]
async fn tl_10_list_refreshes_do_not_queue_up() {
    let ((reader, writer), theirs) = io_pair();
    let ((sender, mut asked), (gate, held)) = (watch::channel(0), watch::channel(false));
    let (change, changes) = mpsc::channel(1);
    tokio::spawn(serve(theirs, sender, held, changes));
    let entry = Server::stdio("slow", "none").build().unwrap().with_protocol(Protocol::Legacy);
    let client = Client::builder(entry).connect_io(reader, writer).await.unwrap();
    client.track_tools();
    asked.wait_for(|asked| *asked == 1).await.unwrap();
    gate.send_replace(true);
    for _ in 0..8 {
        change.send(()).await.unwrap();
        wait_past_debounce(&client).await;
    }
    assert!(*asked.borrow() <= 2, "the others wait for the first");
    gate.send_replace(false);
    // One refresh covers all notifications that came meanwhile.
    asked.wait_for(|asked| *asked >= 3).await.unwrap();
    wait_past_debounce(&client).await;
    assert_eq!(*asked.borrow(), 3);
    client.close().await;
}

/// TL-10: a tracked list is fetched exactly the configured delay after the announcement of a
/// change; by default 200 ms.
#[tokio::test(start_paused = true)]
async fn tl_10_list_change_delay_is_the_configured_one() {
    for (delay, expected) in [(None, 200), (Some(0), 0), (Some(60_000), 60_000)] {
        let ((reader, writer), theirs) = io_pair();
        let ((sender, mut asked), (_gate, held)) = (watch::channel(0), watch::channel(false));
        let (change, changes) = mpsc::channel(1);
        tokio::spawn(serve(theirs, sender, held, changes));
        let entry = Server::stdio("slow", "none").build().unwrap().with_protocol(Protocol::Legacy);
        let mut builder = Client::builder(entry);
        if let Some(delay) = delay {
            builder = builder.list_change_delay(Duration::from_millis(delay));
        }
        let client = builder.connect_io(reader, writer).await.unwrap();
        client.track_tools();
        asked.wait_for(|asked| *asked == 1).await.unwrap();
        client.list_tools().await.unwrap();
        asked.wait_for(|asked| *asked == 2).await.unwrap();
        let announced = Instant::now();
        change.send(()).await.unwrap();
        asked.wait_for(|asked| *asked == 3).await.unwrap();
        // A timer fires up to one millisecond late.
        let (taken, expected) = (announced.elapsed(), Duration::from_millis(expected));
        assert!(taken >= expected && taken <= expected + Duration::from_millis(2), "{delay:?}: {taken:?}");
        client.close().await;
    }
}
