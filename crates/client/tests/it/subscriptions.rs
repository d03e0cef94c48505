//! Hearing of changes: `subscriptions/listen` of modern servers behind the API that legacy servers have too
//! (groups SB and RS).

use bowline::config::Protocol;
use bowline::{Client, ErrorKind, Event, Topic};
use bowline_testkit::{self as testkit, ListenEnd, Script};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

use crate::support::{Running, SOON, everywhere, http};

fn script() -> Script {
    testkit::server().tool("echo").resource("a:1", "one").resource("a:2", "two").prompt("p", "hi")
}

/// The next notification about this, whatever else is said before.
async fn hear(events: &mut Receiver<Event>, wanted: impl Fn(&Topic<'_>) -> bool) -> bool {
    let heard = async {
        loop {
            if let Event::Notification(said) = events.recv().await.unwrap()
                && wanted(&said.topic())
            {
                return said.inferred;
            }
        }
    };
    timeout(SOON, heard).await.expect("the notification comes")
}

/// Waits for the nth listen request, and gives its filter.
async fn listens(running: &Running, nth: usize) -> Value {
    let received = running.wait_for_nth(nth - 1, |received| received.is("subscriptions/listen"), SOON).await;
    received.params()["notifications"].clone()
}

async fn until(what: &str, reached: impl Fn() -> bool) {
    let tried = async {
        while !reached() {
            tokio::task::yield_now().await;
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, tried).await.unwrap_or_else(|_| panic!("{what}"));
}

/// RS-03, RS-04, SB-03: the same program hears of an update in either era, over either transport; and of nothing
/// more once it has left.
#[tokio::test]
async fn rs_04_a_subscription_is_the_same_everywhere() {
    for (name, running, server) in everywhere(script()).await {
        let client = Client::connect(server).await.unwrap();
        let mut one = client.subscribe("a:1").await.unwrap();
        let mut two = client.subscribe("a:2").await.unwrap();
        assert!(running.announce_resource("a:2") > 0, "{name}");
        assert!(running.announce_resource("a:1") > 0, "{name}");
        let update = timeout(SOON, one.next()).await.unwrap().unwrap();
        assert_eq!((&*update.uri, update.inferred), ("a:1", false), "{name}");
        assert_eq!(timeout(SOON, two.next()).await.unwrap().unwrap().uri, "a:2", "{name}");
        // The last who leaves says so.
        let again = client.subscribe("a:1").await.unwrap();
        drop(one);
        drop(again);
        if name.starts_with("legacy") {
            let left = running.wait_for(|received| received.is("resources/unsubscribe"), SOON).await;
            assert_eq!(left.params()["uri"], "a:1");
            assert_eq!(running.count("resources/unsubscribe"), 1, "{name}");
        } else {
            until("the other one stays", || {
                let open = running.listening();
                open.len() == 1 && open[0].filter["resourceSubscriptions"] == json!(["a:2"])
            })
            .await;
        }
        client.close().await;
        assert!(timeout(SOON, two.next()).await.unwrap().is_none(), "{name}: closed means no more");
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// RS-03: nothing is asked of a server that does not offer it.
#[tokio::test]
async fn rs_03_no_subscription_without_the_capability() {
    for (name, running, server) in everywhere(script().without("resources.subscribe")).await {
        let client = Client::connect(server).await.unwrap();
        let error = client.subscribe("a:1").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotOffered(_)), "{name}: {error}");
        assert_eq!(running.count("resources/subscribe") + running.count("subscriptions/listen"), 0);
        client.close().await;
    }
}

/// SB-01: what is asked for is what the server offers, and nothing before somebody listens.
#[tokio::test]
async fn sb_01_the_filter_is_what_is_offered() {
    for (name, running, server) in everywhere(script().without("prompts.listChanged")).await {
        let client = Client::connect(server).await.unwrap();
        client.list_tools().await.unwrap();
        assert_eq!(running.count("subscriptions/listen"), 0, "{name}");
        let mut events = client.events();
        if name.starts_with("modern") {
            let filter = listens(&running, 1).await;
            assert_eq!(filter, json!({ "toolsListChanged": true, "resourcesListChanged": true }), "{name}");
            until("it is open", || running.subscriptions() == 1).await;
        }
        running.announce_tools();
        assert!(!hear(&mut events, |topic| *topic == Topic::ToolsChanged).await, "{name}");
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// SB-02: a resource that the server does not grant is not silently unheard of.
#[tokio::test]
async fn sb_02_what_is_not_granted_is_said() {
    let server = script().modern().listen_grants(&["toolsListChanged"]).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let error = client.subscribe("a:1").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotGranted(_)), "{error}");
    client.close().await;
}

/// SB-03, ST-06: a notification of a subscription that is not open is nobody's.
#[tokio::test]
async fn sb_03_unknown_subscriptions_are_ignored() {
    for (name, running, server) in everywhere(script()).await {
        // On a pipe they all come the same way.
        if name != "modern stdio" {
            continue;
        }
        let client = Client::connect(server).await.unwrap();
        let mut events = client.events();
        until("it is open", || running.subscriptions() == 1).await;
        let said = |method: &str, id: Value| {
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
            json!({ "jsonrpc": "2.0", "method": method, "params": { "_meta": meta } })
        };
        let own = running.listening()[0].id.clone();
        for strange in [json!(999_999), json!("mine")] {
            running.send(said("notifications/tools/list_changed", strange)).await;
        }
        running.send(said("notifications/prompts/list_changed", own)).await;
        let Event::Notification(first) = timeout(SOON, events.recv()).await.unwrap().unwrap() else {
            panic!("{name}: a notification comes")
        };
        assert_eq!(first.topic(), Topic::PromptsChanged, "{name}");
        client.close().await;
    }
}

/// SB-04, SB-05, CN-05: ended in good order, by a result or by the server's cancellation, it is not asked for again;
/// cut, it is, and what may have been missed is said.
#[tokio::test]
async fn sb_04_three_endings() {
    for how in [ListenEnd::Result, ListenEnd::Cancelled] {
        for (name, running, server) in everywhere(script()).await {
            if name.starts_with("legacy") {
                continue;
            }
            let client = Client::connect(server).await.unwrap();
            let _events = client.events();
            until("it is open", || running.subscriptions() == 1).await;
            assert_eq!(running.end_listening(None, how), 1);
            // Something new is wanted: then it is asked, for all of it.
            let _subscription = client.subscribe("a:1").await.unwrap();
            let filter = listens(&running, 2).await;
            assert_eq!(filter["resourceSubscriptions"], json!(["a:1"]), "{name} {how:?}");
            assert_eq!(filter["toolsListChanged"], true, "{name} {how:?}");
            assert_eq!(running.count("subscriptions/listen"), 2, "{name} {how:?}");
            client.close().await;
        }
    }
}

/// SB-05: a stream that was cut is opened again, with the lists and resources looked at that may have changed.
#[tokio::test]
async fn sb_05_a_cut_subscription_is_opened_again() {
    let server = script().modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    let mut events = client.events();
    let mut subscription = client.subscribe("a:1").await.unwrap();
    until("it is open", || server.subscriptions() == 1).await;
    let before = server.count("tools/list");
    server.edit(|script| script.tool("new"));
    assert_eq!(server.end_listening(None, ListenEnd::Silent), 1);
    let update = timeout(SOON, subscription.next()).await.unwrap().unwrap();
    assert!(update.inferred, "nobody knows whether it changed");
    assert!(hear(&mut events, |topic| *topic == Topic::ToolsChanged).await, "seen, not heard");
    assert!(server.count("tools/list") > before);
    // And the new one is heard.
    server.announce_resource("a:1");
    let heard = async { while subscription.next().await.unwrap().inferred {} };
    timeout(SOON, heard).await.unwrap();
    client.close().await;
}

/// SB-05, ST-05: the same after the server was started anew, on either transport.
#[tokio::test]
async fn sb_05_a_restarted_server_is_subscribed_to_again() {
    let server = script().modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let mut subscription = client.subscribe("a:1").await.unwrap();
    server.restart().await;
    let heard = async {
        loop {
            server.announce_resource("a:1");
            let update = timeout(std::time::Duration::from_millis(100), subscription.next()).await;
            if update.is_ok_and(|update| !update.unwrap().inferred) {
                return;
            }
        }
    };
    timeout(SOON, heard).await.unwrap();
    client.close().await;

    let server = script().modern().stdio().await;
    let client = Client::connect(crate::support::stdio(&server)).await.unwrap();
    let mut subscription = client.subscribe("a:1").await.unwrap();
    server.exit(1);
    let update = timeout(SOON, subscription.next()).await.unwrap().unwrap();
    assert!(update.inferred);
    until("it is open", || server.subscriptions() == 1).await;
    server.announce_resource("a:1");
    let heard = async { while subscription.next().await.unwrap().inferred {} };
    timeout(SOON, heard).await.unwrap();
    client.close().await;
}

/// SB-06: to want more opens the new subscription before the old one is left.
#[tokio::test]
async fn sb_06_a_new_filter_leaves_no_gap() {
    for (name, running, server) in everywhere(script()).await {
        if name.starts_with("legacy") {
            continue;
        }
        let client = Client::connect(server).await.unwrap();
        let _one = client.subscribe("a:1").await.unwrap();
        until("the first is open", || running.subscriptions() == 1).await;
        let first = running.listening()[0].id.clone();
        let _two = client.subscribe("a:2").await.unwrap();
        until("the first is left", || running.listening().iter().all(|open| open.id != first)).await;
        assert_eq!(running.subscriptions(), 1, "{name}");
        if name.ends_with("stdio") {
            // In the order of the pipe: the new one was asked for before the old one was cancelled.
            let order: Vec<_> = running
                .received()
                .iter()
                .filter(|received| {
                    received.is("subscriptions/listen") || received.is("notifications/cancelled")
                })
                .map(|received| received.is("notifications/cancelled"))
                .collect();
            assert_eq!(order.first(), Some(&false));
            let cancelled = order.iter().position(|cancelled| *cancelled).expect("it was cancelled");
            assert!(order[..cancelled].len() >= 2, "{name}: {order:?}");
        }
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// SB-06, PG-02: an open subscription is no call: the connection counts as idle, and is not given up for silence.
#[tokio::test]
async fn sb_06_a_quiet_subscription_is_no_call() {
    let server = script().modern().stdio().await;
    let entry = crate::support::stdio(&server)
        .with_protocol(Protocol::Modern)
        .with_timeout(std::time::Duration::from_millis(300));
    let client = Client::connect(entry).await.unwrap();
    let mut subscription = client.subscribe("a:1").await.unwrap();
    // Longer than any call may be silent.
    tokio::time::sleep(std::time::Duration::from_millis(900)).await;
    assert_eq!(server.announce_resource("a:1"), 1);
    assert!(!timeout(SOON, subscription.next()).await.unwrap().unwrap().inferred);
    assert_eq!((server.count("subscriptions/listen"), server.runs()), (1, 1));
    client.close().await;
}
