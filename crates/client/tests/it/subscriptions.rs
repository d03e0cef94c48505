//! Resource subscriptions and list changes: `subscriptions/listen` of modern servers behind the API
//! that legacy servers share (groups SB and RS).

use std::time::Duration;

use bowline::config::Protocol;
use bowline::{Cause, Client, ErrorKind, Event, EventReceiver, Limit, Topic};
use bowline_testkit::{self as testkit, Control, Fault, Script, StreamKind, SubscriptionEnd};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{RunningServer, TEST_TIMEOUT, http, run_everywhere};

fn script() -> Script {
    let server = testkit::server().tool("echo").prompt("p", "hi");
    server.resource("a:1", "one").resource("a:2", "two").resource("a:10", "ten")
}

/// Waits for a notification with a matching topic.
async fn wait_for_topic(events: &mut EventReceiver<Event>, wanted: impl Fn(&Topic<'_>) -> bool) -> bool {
    let heard = async {
        loop {
            if let Event::Notification(said) = events.next().await.unwrap()
                && wanted(&said.topic())
            {
                return said.inferred;
            }
        }
    };
    timeout(TEST_TIMEOUT, heard).await.expect("the notification comes")
}

/// Waits for the nth listen request and returns its filter.
async fn wait_for_listen(running: &RunningServer, nth: usize) -> Value {
    let received = running
        .wait_for_nth(nth - 1, |received| received.has_method("subscriptions/listen"), TEST_TIMEOUT)
        .await;
    received.params()["notifications"].clone()
}

/// RS-03, RS-04, SB-03: a subscriber gets updates in either era and over either transport, and none
/// after it has unsubscribed.
#[tokio::test]
async fn rs_04_a_subscription_is_the_same_everywhere() {
    for (name, running, server) in run_everywhere(script()).await {
        let client = Client::connect(server).await.unwrap();
        let mut one = client.subscribe("a:1").await.unwrap();
        let mut two = client.subscribe("a:2").await.unwrap();
        assert!(running.announce_resource("a:2") > 0, "{name}");
        assert!(running.announce_resource("a:1") > 0, "{name}");
        let update = timeout(TEST_TIMEOUT, one.next()).await.unwrap().unwrap();
        assert_eq!((&*update.uri, update.inferred), ("a:1", false), "{name}");
        assert_eq!(timeout(TEST_TIMEOUT, two.next()).await.unwrap().unwrap().uri, "a:2", "{name}");
        // Dropping the last subscription unsubscribes.
        let again = client.subscribe("a:1").await.unwrap();
        drop(one);
        drop(again);
        if name.starts_with("legacy") {
            let left =
                running.wait_for(|received| received.has_method("resources/unsubscribe"), TEST_TIMEOUT).await;
            assert_eq!(left.params()["uri"], "a:1");
            assert_eq!(running.count("resources/unsubscribe"), 1, "{name}");
        } else {
            // The other subscription stays.
            let left = |server: &Control| {
                let open = server.open_subscriptions();
                open.len() == 1 && open[0].filter["resourceSubscriptions"] == json!(["a:2"])
            };
            running.wait_until(left, TEST_TIMEOUT).await;
        }
        client.close().await;
        assert!(timeout(TEST_TIMEOUT, two.next()).await.unwrap().is_none(), "{name}: closed means no more");
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// A subscription is a stream of its changes that ends with the connection.
#[tokio::test]
async fn subscription_is_a_stream() {
    use futures_util::StreamExt as _;

    for (name, running, server) in run_everywhere(script()).await {
        let client = Client::connect(server).await.unwrap();
        let changes = client.subscribe("a:1").await.unwrap();
        let read = tokio::spawn(changes.map(|change| change.uri).take(2).collect::<Vec<_>>());
        for _ in 0..2 {
            assert!(running.announce_resource("a:1") > 0, "{name}");
        }
        let uris = timeout(TEST_TIMEOUT, read).await.expect("two changes are enough").unwrap();
        assert_eq!(uris, ["a:1", "a:1"], "{name}");

        let rest = tokio::spawn(client.subscribe("a:2").await.unwrap().collect::<Vec<_>>());
        client.close().await;
        let rest = timeout(TEST_TIMEOUT, rest).await.expect("the stream ends").unwrap();
        assert_eq!(rest, [], "{name}");
    }
}

/// RS-03: a server without the capability gets no request.
#[tokio::test]
async fn rs_03_no_subscription_without_the_capability() {
    for (name, running, server) in run_everywhere(script().without_capability("resources.subscribe")).await {
        let client = Client::connect(server).await.unwrap();
        let error = client.subscribe("a:1").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotOffered(_)), "{name}: {error}");
        assert_eq!(running.count("resources/subscribe") + running.count("subscriptions/listen"), 0);
        client.close().await;
    }
}

/// SB-01: the filter contains what the server offers, and is sent only when somebody listens.
#[tokio::test]
async fn sb_01_the_filter_is_what_is_offered() {
    for (name, running, server) in run_everywhere(script().without_capability("prompts.listChanged")).await {
        let client = Client::connect(server).await.unwrap();
        client.list_tools().await.unwrap();
        assert_eq!(running.count("subscriptions/listen"), 0, "{name}");
        let mut events = client.events();
        if name.starts_with("modern") {
            let filter = wait_for_listen(&running, 1).await;
            assert_eq!(filter, json!({ "toolsListChanged": true, "resourcesListChanged": true }), "{name}");
            running.wait_until(|server| server.subscription_count() == 1, TEST_TIMEOUT).await;
        }
        running.announce_tools();
        assert!(!wait_for_topic(&mut events, |topic| *topic == Topic::ToolsChanged).await, "{name}");
        // MT-03: the subscription id is not passed on.
        running.announce_prompts();
        while let Some(event) = events.try_next() {
            if let Event::Notification(said) = event {
                assert_eq!(said.params.as_ref().and_then(|params| params.member("_meta")), None, "{name}");
            }
        }
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// SB-02: a resource that the server does not grant is an error for its subscriber.
#[tokio::test]
async fn sb_02_a_resource_that_is_not_granted_is_an_error() {
    let server = script().modern().listen_grants(&["toolsListChanged"]).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let error = client.subscribe("a:1").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotGranted(_)), "{error}");
    client.close().await;
}

/// SB-03, ST-06: a notification for an unknown subscription is ignored.
#[tokio::test]
async fn sb_03_unknown_subscriptions_are_ignored() {
    for (name, running, server) in run_everywhere(script()).await {
        // On a pipe all of them share one stream.
        if name != "modern stdio" {
            continue;
        }
        let client = Client::connect(server).await.unwrap();
        let mut events = client.events();
        running.wait_until(|server| server.subscription_count() == 1, TEST_TIMEOUT).await;
        let said = |method: &str, id: Value| {
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
            json!({ "jsonrpc": "2.0", "method": method, "params": { "_meta": meta } })
        };
        let own = running.open_subscriptions()[0].id.clone();
        for strange in [json!(999_999), json!("mine")] {
            running.send(said("notifications/tools/list_changed", strange)).await;
        }
        running.send(said("notifications/prompts/list_changed", own)).await;
        let Event::Notification(first) = timeout(TEST_TIMEOUT, events.next()).await.unwrap().unwrap() else {
            panic!("{name}: a notification comes")
        };
        assert_eq!(first.topic(), Topic::PromptsChanged, "{name}");
        client.close().await;
    }
}

/// SB-04, SB-05, CN-05: a subscription ended by a result or by the server's cancellation is not
/// reopened; a cut one is, and the possible gap is announced.
#[tokio::test]
async fn sb_04_an_ended_subscription_is_not_reopened_by_itself() {
    for how in [SubscriptionEnd::Result, SubscriptionEnd::Cancelled] {
        for (name, running, server) in run_everywhere(script()).await {
            if name.starts_with("legacy") {
                continue;
            }
            let client = Client::connect(server).await.unwrap();
            let _events = client.events();
            running.wait_until(|server| server.subscription_count() == 1, TEST_TIMEOUT).await;
            assert_eq!(running.end_matching_subscriptions(None, how), 1);
            // A new subscriber causes a new request, for everything.
            let _subscription = client.subscribe("a:1").await.unwrap();
            let filter = wait_for_listen(&running, 2).await;
            assert_eq!(filter["resourceSubscriptions"], json!(["a:1"]), "{name} {how:?}");
            assert_eq!(filter["toolsListChanged"], true, "{name} {how:?}");
            assert_eq!(running.count("subscriptions/listen"), 2, "{name} {how:?}");
            client.close().await;
        }
    }
}

/// SB-05: a cut stream is reopened, and the lists and resources that may have changed are
/// refreshed.
#[tokio::test]
async fn sb_05_a_cut_subscription_is_opened_again() {
    let server = script().modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    let mut events = client.events();
    let mut subscription = client.subscribe("a:1").await.unwrap();
    server.wait_until(|server| server.subscription_count() == 1, TEST_TIMEOUT).await;
    let before = server.count("tools/list");
    server.edit(|script| script.tool("new"));
    assert_eq!(server.end_matching_subscriptions(None, SubscriptionEnd::Silent), 1);
    let update = timeout(TEST_TIMEOUT, subscription.next()).await.unwrap().unwrap();
    assert!(update.inferred, "nobody knows whether it changed");
    assert!(wait_for_topic(&mut events, |topic| *topic == Topic::ToolsChanged).await, "seen, not heard");
    assert!(server.count("tools/list") > before);
    // The new stream delivers.
    server.announce_resource("a:1");
    let heard = async { while subscription.next().await.unwrap().inferred {} };
    timeout(TEST_TIMEOUT, heard).await.unwrap();
    client.close().await;
}

/// RS-04, HL-08: a legacy server cuts its stream and keeps the session. What it announced meanwhile is not sent again
/// without event ids, so resources and lists that may have changed are refreshed; with ids it is sent again.
#[tokio::test]
async fn rs_04_updates_missed_by_a_legacy_stream_are_inferred() {
    let server = script().legacy().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    let mut events = client.events();
    let mut subscription = client.subscribe("a:1").await.unwrap();
    server.wait_until(|server| server.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    server.edit(|script| script.tool("new"));
    server.close_streams();
    let update = timeout(TEST_TIMEOUT, subscription.next()).await.unwrap().unwrap();
    assert_eq!((&*update.uri, update.inferred), ("a:1", true), "nobody knows whether it changed");
    assert!(wait_for_topic(&mut events, |topic| *topic == Topic::ToolsChanged).await, "seen, not heard");
    assert_eq!((server.initialize_count(), server.count("GET")), (1, 2));
    // The new stream delivers.
    server.announce_resource("a:1");
    assert_eq!(next_update(&mut subscription).await, "a:1");
    client.close().await;
}

/// SB-05, ST-05: subscriptions are restored after a restart of the server, over either transport.
#[tokio::test]
async fn sb_05_a_restarted_server_is_subscribed_to_again() {
    let server = script().modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let mut subscription = client.subscribe("a:1").await.unwrap();
    server.restart().await;
    let heard = async {
        loop {
            server.announce_resource("a:1");
            let update = timeout(Duration::from_millis(100), subscription.next()).await;
            if update.is_ok_and(|update| !update.unwrap().inferred) {
                return;
            }
        }
    };
    timeout(TEST_TIMEOUT, heard).await.unwrap();
    client.close().await;

    let server = script().modern().stdio().await;
    let client = Client::connect(crate::support::stdio(&server)).await.unwrap();
    let mut subscription = client.subscribe("a:1").await.unwrap();
    server.exit(1);
    let update = timeout(TEST_TIMEOUT, subscription.next()).await.unwrap().unwrap();
    assert!(update.inferred);
    server.wait_until(|server| server.subscription_count() == 1, TEST_TIMEOUT).await;
    server.announce_resource("a:1");
    let heard = async { while subscription.next().await.unwrap().inferred {} };
    timeout(TEST_TIMEOUT, heard).await.unwrap();
    client.close().await;
}

/// SB-06: a larger filter opens the new subscription before the old one is closed.
#[tokio::test]
async fn sb_06_a_new_filter_leaves_no_gap() {
    for (name, running, server) in run_everywhere(script()).await {
        if name.starts_with("legacy") {
            continue;
        }
        let client = Client::connect(server).await.unwrap();
        let _one = client.subscribe("a:1").await.unwrap();
        running.wait_until(|server| server.subscription_count() == 1, TEST_TIMEOUT).await;
        let first = running.open_subscriptions()[0].id.clone();
        let _two = client.subscribe("a:2").await.unwrap();
        running
            .wait_until(
                |server| server.open_subscriptions().iter().all(|open| open.id != first),
                TEST_TIMEOUT,
            )
            .await;
        assert_eq!(running.subscription_count(), 1, "{name}");
        if name.ends_with("stdio") {
            // On a pipe the order shows: the new one was requested before the old one was canceled.
            let order: Vec<_> = running
                .received()
                .iter()
                .filter(|received| {
                    received.has_method("subscriptions/listen")
                        || received.has_method("notifications/cancelled")
                })
                .map(|received| received.has_method("notifications/cancelled"))
                .collect();
            assert_eq!(order.first(), Some(&false));
            let cancelled = order.iter().position(|cancelled| *cancelled).expect("it was cancelled");
            assert!(order[..cancelled].len() >= 2, "{name}: {order:?}");
        }
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// SB-06, PG-02: an open subscription is no call: the connection counts as idle and has no idle
/// timeout.
#[tokio::test]
async fn sb_06_a_quiet_subscription_is_no_call() {
    let server = script().modern().stdio().await;
    let entry = crate::support::stdio(&server)
        .with_protocol(Protocol::Modern)
        .with_idle_timeout(Duration::from_millis(300));
    let client = Client::connect(entry).await.unwrap();
    let mut subscription = client.subscribe("a:1").await.unwrap();
    // Wait as long as a silent call takes to time out.
    server.arm(Fault::silent().on("tools/call").times(2));
    for _ in 0..2 {
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        assert_eq!(error.fault().unwrap().cause, Cause::Timeout(Limit::Idle));
    }
    assert_eq!(server.announce_resource("a:1"), 1);
    assert!(!timeout(TEST_TIMEOUT, subscription.next()).await.unwrap().unwrap().inferred);
    assert_eq!((server.count("subscriptions/listen"), server.runs()), (1, 1));
    client.close().await;
}

/// Waits for the next update that the server itself announces.
async fn next_update(subscription: &mut bowline::Subscription) -> String {
    let told = async {
        loop {
            let update = subscription.next().await.expect("the subscription goes on");
            if !update.inferred {
                return update.uri;
            }
        }
    };
    timeout(TEST_TIMEOUT, told).await.expect("an update comes")
}

/// RS-03: unsubscribing and subscribing again at once leaves the subscription active: the server's
/// last message matches the last request.
#[tokio::test]
async fn rs_03_resubscribing_at_once_keeps_the_subscription() {
    for (name, running, server) in run_everywhere(script()).await {
        let client = Client::connect(server).await.unwrap();
        for _ in 0..5 {
            drop(client.subscribe("a:1").await.unwrap());
        }
        let mut subscription = client.subscribe("a:1").await.unwrap();
        // All pending messages have been sent by then.
        client.call_tool("echo", &json!({})).await.unwrap();
        running.wait_until(|server| server.announce_resource("a:1") > 0, TEST_TIMEOUT).await;
        assert_eq!(next_update(&mut subscription).await, "a:1", "{name}");
        client.close().await;
    }
}

/// RS-03: an update of a sub-resource counts, one with only a common prefix does not.
#[tokio::test]
async fn rs_03_a_common_prefix_is_not_the_same_resource() {
    for (name, running, server) in run_everywhere(script()).await {
        let client = Client::connect(server).await.unwrap();
        let mut one = client.subscribe("a:1").await.unwrap();
        let _ten = client.subscribe("a:10").await.unwrap();
        running.wait_until(|server| server.announce_resource("a:10") > 0, TEST_TIMEOUT).await;
        running.wait_until(|server| server.announce_resource("a:1") > 0, TEST_TIMEOUT).await;
        assert_eq!(next_update(&mut one).await, "a:1", "{name}");
        client.close().await;
    }
}

/// RS-03: dropping the subscribe future before its response unsubscribes.
#[tokio::test]
async fn rs_03_a_dropped_future_unsubscribes() {
    let server = script().legacy().stdio().await;
    let client =
        Client::connect(crate::support::stdio(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    server.arm(Fault::silent().executed().on("resources/subscribe"));
    {
        let subscribing = client.subscribe("a:1");
        tokio::pin!(subscribing);
        tokio::select! {
            _ = &mut subscribing => panic!("nobody answers"),
            _ = server.wait_for(|received| received.has_method("resources/subscribe"), TEST_TIMEOUT) => {}
        }
    }
    server.wait_for(|received| received.has_method("resources/unsubscribe"), TEST_TIMEOUT).await;
    client.close().await;
}

/// SB-04: a subscription that the server has ended ends here too, and can be requested again.
#[tokio::test]
async fn sb_04_an_ended_subscription_ends_for_its_subscriber() {
    let server = script().modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let mut one = client.subscribe("a:1").await.unwrap();
    assert_eq!(server.end_matching_subscriptions(None, SubscriptionEnd::Result), 1);
    assert_eq!(timeout(TEST_TIMEOUT, one.next()).await.unwrap(), None);
    let mut again = client.subscribe("a:1").await.unwrap();
    assert_eq!(server.subscription_count(), 1);
    server.announce_resource("a:1");
    assert_eq!(next_update(&mut again).await, "a:1");
    client.close().await;
}

/// SB-02, SB-06: a refused filter does not affect the old subscription.
#[tokio::test]
async fn sb_06_a_refused_filter_leaves_the_old_one() {
    for (name, running, server) in run_everywhere(script()).await {
        if name.starts_with("legacy") {
            continue;
        }
        let client = Client::connect(server).await.unwrap();
        let mut one = client.subscribe("a:1").await.unwrap();
        running.arm(Fault::error(-32602, "no such resource").on("subscriptions/listen"));
        let error = client.subscribe("a:2").await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NotGranted(why) if why.contains("no such resource")),
            "{error}"
        );
        assert_eq!(running.announce_resource("a:1"), 1, "{name}");
        assert_eq!(next_update(&mut one).await, "a:1", "{name}");
        // It does not prevent another attempt.
        let mut two = client.subscribe("a:2").await.unwrap();
        running.announce_resource("a:2");
        assert_eq!(next_update(&mut two).await, "a:2", "{name}");
        client.close().await;
    }
}

/// SB-05: one bad response while reopening, as in a rolling deployment, does not end a
/// subscription.
#[tokio::test]
async fn sb_05_a_subscription_survives_a_bad_reopening() {
    for trouble in [Fault::status(404), Fault::status(503), Fault::error(-32000, "not now")] {
        let server = script().modern().run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        let mut one = client.subscribe("a:1").await.unwrap();
        server.arm(trouble.on("subscriptions/listen").times(1));
        assert_eq!(server.end_matching_subscriptions(None, SubscriptionEnd::Silent), 1);
        server.wait_until(|server| server.subscription_count() == 1, TEST_TIMEOUT).await;
        server.announce_resource("a:1");
        assert_eq!(next_update(&mut one).await, "a:1");
        client.close().await;
    }
}

/// SB-05: whoever subscribes does not wait until a subscription that was cut is opened again by itself.
#[tokio::test]
async fn sb_05_a_new_subscriber_has_a_cut_subscription_opened_at_once() {
    let server = script().modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let _one = client.subscribe("a:1").await.unwrap();
    // While a blocking task runs, time stands still: nothing is tried again by itself.
    tokio::time::pause();
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    let frozen = tokio::task::spawn_blocking(move || resumed.recv_timeout(TEST_TIMEOUT).is_ok());
    assert_eq!(server.end_matching_subscriptions(None, SubscriptionEnd::Silent), 1);
    // Meanwhile the client sees the end of the stream, and waits.
    for _ in 0..20 {
        client.call_tool("echo", &json!({})).await.unwrap();
    }
    let _two = client.subscribe("a:2").await.unwrap();
    let _ = resume.send(());
    assert!(frozen.await.unwrap(), "it was opened while time stood still");
    tokio::time::resume();
    assert_eq!((server.count("subscriptions/listen"), server.subscription_count()), (2, 1));
    client.close().await;
}

/// SB-02: an unanswered listen request has granted nothing and is sent again.
#[tokio::test]
async fn sb_02_an_unanswered_listen_is_sent_again() {
    let server = script().modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::silent().on("subscriptions/listen").times(1));
    let subscribing = tokio::spawn({
        let client = client.clone();
        async move { client.subscribe("a:1").await }
    });
    server.wait_for(|received| received.has_method("subscriptions/listen"), TEST_TIMEOUT).await;
    // The time for an answer passes at once; the exchanges after it take real time.
    tokio::time::pause();
    for _ in 0..11 {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::resume();
    let mut one = subscribing.await.unwrap().unwrap();
    assert_eq!((server.count("subscriptions/listen"), server.subscription_count()), (2, 1));
    server.announce_resource("a:1");
    assert_eq!(next_update(&mut one).await, "a:1");
    client.close().await;
}

/// SB-05: lists are refreshed after the subscription is open, so no change falls in between.
#[tokio::test]
async fn sb_05_lists_are_refreshed_after_the_subscription_is_open() {
    let late = || Fault::delay(Duration::from_millis(700)).on("subscriptions/listen").times(1);
    // The process was restarted.
    let server = script().modern().stdio().await;
    let client = Client::connect(crate::support::stdio(&server)).await.unwrap();
    let mut one = client.subscribe("a:1").await.unwrap();
    server.arm(late());
    server.exit(1);
    assert!(timeout(TEST_TIMEOUT, one.next()).await.unwrap().unwrap().inferred);
    assert_eq!(server.subscription_count(), 1, "from here on it would be told");
    client.close().await;
    // A list changes between the first fetch and the subscription.
    let server = script().ttl(Duration::from_secs(3600)).modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    server.arm(late());
    let mut events = client.events();
    client.track_lists();
    // The tools are fetched last.
    server.wait_for_nth(1, |received| received.has_method("tools/list"), TEST_TIMEOUT).await;
    client.ping().await.unwrap();
    server.edit(|script| script.tool("new"));
    assert_eq!(server.announce_tools(), 0, "nobody listens yet");
    let seen = async {
        loop {
            if let Event::ListChanged(change) = events.next().await.unwrap() {
                return change.added.clone();
            }
        }
    };
    assert_eq!(
        timeout(TEST_TIMEOUT, seen).await.expect("it is not stale for an hour"),
        [Box::<str>::from("new")]
    );
    client.close().await;
}

/// SB-05: a gap is announced once. A later subscription has none.
#[tokio::test]
async fn sb_05_a_gap_is_announced_once() {
    let server = script().modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let mut one = client.subscribe("a:1").await.unwrap();
    server.end_matching_subscriptions(None, SubscriptionEnd::Silent);
    assert!(timeout(TEST_TIMEOUT, one.next()).await.unwrap().unwrap().inferred);
    let _two = client.subscribe("a:2").await.unwrap();
    server.wait_until(|server| server.announce_resource("a:1") > 0, TEST_TIMEOUT).await;
    let update = timeout(TEST_TIMEOUT, one.next()).await.unwrap().unwrap();
    assert!(!update.inferred, "the server's own word");
    client.close().await;
}

/// SB-06, ST-06: a server on a pipe gets the cancellation before its stdin closes, so it need not
/// be killed over an open request.
#[tokio::test]
async fn st_06_a_closed_connection_ends_its_subscriptions() {
    let server = script().modern().stdio().await;
    let client = Client::connect(crate::support::stdio(&server)).await.unwrap();
    let _one = client.subscribe("a:1").await.unwrap();
    let id = server.open_subscriptions()[0].id.clone();
    client.close().await;
    let told = server.cancellations();
    assert!(told.contains(&id), "{told:?}");
}
