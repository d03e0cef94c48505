//! Disconnects are announced to event subscribers without a call.

use bowline::config::Protocol;
use bowline::{CallOptions, Client, ConnectionEventKind, Event, EventReceiver, Status};
use bowline_testkit::{self as testkit, Fault, Script, Tool};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

use parking_lot::Mutex;

use crate::support::{TEST_TIMEOUT, http};

async fn next_connection_event(events: &mut EventReceiver<Event>) -> ConnectionEventKind {
    let wait = async {
        loop {
            if let Event::Connection(life) = events.next().await.unwrap() {
                return life.kind;
            }
        }
    };
    timeout(TEST_TIMEOUT, wait).await.expect("somebody who watches is told")
}

/// Both eras, with and without a session, with and without a stream. Keepalive is off: only the
/// closing connections show the end.
#[tokio::test]
async fn the_end_of_a_server_is_noticed_without_a_call() {
    let scripts: [(&str, Script, Protocol); 3] = [
        ("legacy", testkit::server().legacy().tool("echo"), Protocol::Legacy),
        ("legacy, no sessions", testkit::server().legacy().sessionless().tool("echo"), Protocol::Legacy),
        ("modern", testkit::server().modern().tool("echo"), Protocol::Modern),
    ];
    for (name, script, protocol) in scripts {
        let server = script.run().await;
        let entry = http(&server).with_protocol(protocol).with_keepalive(None);
        let client = Client::connect(entry).await.unwrap();
        let mut events = client.events();
        client.list_tools().await.unwrap();
        server.stop().await;
        assert_eq!(next_connection_event(&mut events).await, ConnectionEventKind::Disconnected, "{name}");
        server.start().await;
        assert_eq!(next_connection_event(&mut events).await, ConnectionEventKind::Recovered, "{name}");
        client.close().await;
    }
}

/// A watch of the status is as good as a subscription to events, and a client that nobody watches stays silent.
#[tokio::test]
async fn the_end_of_a_server_is_noticed_by_a_watch_of_its_status() {
    let scripts = [
        ("legacy, no sessions", testkit::server().legacy().sessionless(), Protocol::Legacy),
        ("modern", testkit::server().modern(), Protocol::Modern),
    ];
    for (name, script, protocol) in scripts {
        let server = script.tool("echo").run().await;
        let entry = || http(&server).with_protocol(protocol).with_keepalive(None);
        let (watched, unwatched) =
            (Client::connect(entry()).await.unwrap(), Client::connect(entry()).await.unwrap());
        let mut status = watched.status();
        for client in [&watched, &unwatched] {
            client.list_tools().await.unwrap();
        }
        server.stop().await;
        let left = status.wait_for(|status| !matches!(status, Status::Ready(_)));
        timeout(TEST_TIMEOUT, left).await.expect(name).expect(name);
        assert_eq!((is_ready(&watched), is_ready(&unwatched)), (false, true), "{name}");
        watched.close().await;
        unwatched.close().await;
    }
}

fn is_ready(client: &Client) -> bool {
    matches!(client.status().current(), Status::Ready(_))
}

/// A server that still accepts connections but answers nothing is found to be down by a probe, in both eras, with
/// no session and without a call.
#[tokio::test]
async fn a_server_that_falls_silent_is_noticed_after_one_interval() {
    let scripts = [
        (testkit::server().legacy().sessionless(), Protocol::Legacy),
        (testkit::server().modern(), Protocol::Modern),
    ];
    let watches = scripts.map(|(script, protocol)| async move {
        let server = script.tool("echo").run().await;
        let interval = Duration::from_secs(5);
        let entry = http(&server).with_protocol(protocol).with_keepalive(Some(interval));
        let client = Client::connect(entry).await.unwrap();
        let mut status = client.status();
        client.list_tools().await.unwrap();
        let begun = Instant::now();
        server.arm(Fault::silent().always());
        let left = status.wait_for(|status| !matches!(status, Status::Ready(_)));
        timeout(TEST_TIMEOUT, left).await.expect("the probe has a limit").expect("it is open");
        assert!(begun.elapsed() >= interval, "{protocol:?}: nobody asked before");
        client.close().await;
    });
    futures_util::future::join_all(watches).await;
}

/// A server that closes an idle connection is probed, and nothing is announced.
#[tokio::test]
async fn a_healthy_server_is_not_reported_as_disconnected() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let entry = http(&server).with_protocol(Protocol::Legacy).with_keepalive(None);
    let client = Client::connect(entry).await.unwrap();
    let mut events = client.events();
    client.list_tools().await.unwrap();
    server.close_connections().await;
    server.wait_for(|received| received.has_method("ping"), TEST_TIMEOUT).await;
    client.list_tools().await.unwrap();
    while let Some(event) = events.try_next() {
        assert!(!matches!(event, Event::Connection(_)), "{event:?}");
    }
    client.close().await;
}

/// Progress never falls, even when the call is retried.
#[tokio::test]
async fn progress_does_not_run_backwards_after_a_retry() {
    let script = testkit::server().legacy().tool(Tool::like("wait", "slow").idempotent());
    let server = script.run().await;
    let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    client.list_tools().await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let options = CallOptions::new().on_progress({
        let heard = Arc::clone(&heard);
        move |progress| heard.lock().push(progress.progress)
    });
    server.arm(Fault::end_after(2).on_tool("wait"));
    let arguments: Value = json!({ "ms": 200, "steps": 4 });
    timeout(TEST_TIMEOUT, client.call_tool_with("wait", &arguments, &options)).await.unwrap().unwrap();
    let heard = heard.lock().clone();
    assert!(heard.len() >= 3, "{heard:?}");
    assert!(heard.windows(2).all(|pair| pair[0] < pair[1]), "{heard:?}");
    assert_eq!(server.count("tools/call"), 2, "it was sent again");
    client.close().await;
}
