//! The result cache (group CA) and list changes (TL-10).

use std::time::{Duration, Instant};

use bowline::{Client, Event, ListKind};
use bowline_testkit::{self as testkit, Fault, Script};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, http, run_everywhere, tool_pages_with_cursor};

const ONE_HOUR: Duration = Duration::from_secs(3600);

fn script() -> Script {
    testkit::server().tool("a").tool("b").resource("a:1", "one").template("t:{x}").prompt("p", "hi")
}

/// CA-01, CA-02: fresh results are reused; without a time to live, or after it, the server is
/// asked.
#[tokio::test]
async fn ca_01_results_are_kept_as_long_as_the_server_says() {
    for (ttl, asked) in [(ONE_HOUR, 1), (Duration::ZERO, 2)] {
        for (name, running, server) in run_everywhere(script().ttl(ttl)).await {
            let client = Client::connect(server).await.unwrap();
            for _ in 0..2 {
                assert_eq!(client.list_tools().await.unwrap().len(), 2);
                assert_eq!(client.list_prompts().await.unwrap().len(), 1);
                assert_eq!(client.list_resources().await.unwrap().len(), 1);
                assert_eq!(client.list_resource_templates().await.unwrap().len(), 1);
                client.read_resource("a:1").await.unwrap();
            }
            let asked = if name.starts_with("modern") { asked } else { 2 };
            for method in
                ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
            {
                assert_eq!(running.count(method), asked, "{name} {method} {ttl:?}");
            }
            client.close().await;
        }
    }
}

/// CA-01: without a valid time to live, the server is asked each time.
#[tokio::test]
async fn ca_01_without_a_hint_nothing_is_kept() {
    for hints in [json!({}), json!({ "ttlMs": -5 }), json!({ "ttlMs": "long" })] {
        let server = script().modern().run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        let mut list = json!({ "resultType": "complete", "tools": [], "cacheScope": "public" });
        list.as_object_mut().unwrap().extend(hints.as_object().unwrap().clone());
        server.arm(Fault::reply(list).on("tools/list").always());
        client.list_tools().await.unwrap();
        client.list_tools().await.unwrap();
        assert_eq!(server.count("tools/list"), 2, "{hints}");
        client.close().await;
    }
}

/// CA-03: a cached resource or page is never returned for another.
#[tokio::test]
async fn ca_03_resources_and_pages_are_cached_separately() {
    let server = script().modern().ttl(ONE_HOUR).resource("a:2", "two").page_size(1).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    for _ in 0..2 {
        for (uri, text) in [("a:1", "one"), ("a:2", "two")] {
            let read = client.read_resource(uri).await.unwrap();
            assert!(read.json.as_str().contains(text), "{uri}: {}", read.json);
        }
        assert_eq!(client.list_tools().await.unwrap().len(), 2);
    }
    assert_eq!((server.count("resources/read"), server.count("tools/list")), (2, 2));
    client.close().await;
}

/// CA-06: an expired page is fetched alone.
#[tokio::test]
async fn ca_06_pages_expire_separately() {
    let server = script().modern().ttl(ONE_HOUR).page_size(1).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let short = json!({
        "resultType": "complete", "ttlMs": 1, "cacheScope": "private",
        "tools": [{ "name": "b", "inputSchema": { "type": "object" } }],
    });
    server.arm(Fault::reply(short).on("tools/list").skip(1).times(1));
    client.list_tools().await.unwrap();
    while server.count("tools/list") < 3 {
        client.list_tools().await.unwrap();
    }
    let cursors: Vec<_> = server
        .received_with_method("tools/list")
        .iter()
        .map(|page| page.params().get("cursor").is_some())
        .collect();
    assert_eq!(cursors, [false, true, true]);
    client.close().await;
}

/// SB-02: a list for which no subscription is granted is cached for its time to live.
#[tokio::test]
async fn sb_02_lists_without_a_subscription_expire_by_ttl() {
    let server =
        script().modern().ttl(Duration::from_millis(50)).listen_grants(&["toolsListChanged"]).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let _events = client.events();
    server.wait_for(|received| received.has_method("subscriptions/listen"), TEST_TIMEOUT).await;
    client.list_prompts().await.unwrap();
    assert_eq!(server.announce_prompts(), 0, "it was not granted");
    // The list is fetched again only after its time to live.
    let again = async {
        while server.count("prompts/list") < 2 {
            client.list_prompts().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, again).await.unwrap();
    client.close().await;
}

/// CA-02: expiry triggers no request; the next caller does.
#[tokio::test]
async fn ca_02_stale_results_are_fetched_on_demand() {
    let server = script().modern().ttl(Duration::from_millis(50)).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let (begun, mut last) = (Instant::now(), 0);
    while last < 4 {
        assert_eq!(server.count("tools/list"), last, "nobody polls between two who ask");
        client.list_tools().await.unwrap();
        last = server.count("tools/list");
        tokio::task::yield_now().await;
    }
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_millis(150), "asked four times in {elapsed:?}");
    client.close().await;
}

/// CA-05, CA-06, TL-10, PM-02: a change makes every page of the list stale at once, and no other
/// list.
#[tokio::test]
async fn ca_05_a_change_makes_lists_stale() {
    for (name, running, server) in run_everywhere(script().ttl(ONE_HOUR).page_size(1)).await {
        if name.starts_with("legacy") {
            continue;
        }
        let client = Client::connect(server).await.unwrap();
        let mut events = client.events();
        let _subscription = client.subscribe("a:1").await.unwrap();
        let look = async || {
            client.list_tools().await.unwrap();
            client.list_prompts().await.unwrap();
            client.list_resources().await.unwrap();
            client.list_resource_templates().await.unwrap();
            client.read_resource("a:1").await.unwrap();
        };
        let counts = || {
            ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
                .map(|method| running.count(method))
        };
        look().await;
        look().await;
        assert_eq!(counts(), [2, 1, 1, 1, 1], "{name}");
        let mut expected = counts();
        for (announce, stale) in [
            (Box::new(|| running.announce_tools()) as Box<dyn Fn() -> usize>, [2, 0, 0, 0, 0]),
            (Box::new(|| running.announce_prompts()), [0, 1, 0, 0, 0]),
            (Box::new(|| running.announce_resources()), [0, 0, 1, 1, 0]),
            (Box::new(|| running.announce_resource("a:1")), [0, 0, 0, 0, 1]),
        ] {
            assert_eq!(announce(), 1, "{name}");
            let heard = async { while !matches!(events.next().await.unwrap(), Event::Notification(_)) {} };
            timeout(TEST_TIMEOUT, heard).await.unwrap();
            look().await;
            look().await;
            for (count, more) in expected.iter_mut().zip(stale) {
                *count += more;
            }
            assert_eq!(counts(), expected, "{name}");
        }
        client.close().await;
    }
}

/// CA-04, RS-04: a read that needed input is not cached.
#[tokio::test]
async fn ca_04_results_that_needed_input_are_not_cached() {
    let server = script().modern().ttl(ONE_HOUR).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let asked = json!({ "resultType": "input_required", "requestState": "s" });
    server.arm(Fault::reply(asked).on("resources/read").times(1));
    client.read_resource("a:1").await.unwrap();
    assert_eq!(server.count("resources/read"), 2, "the question and its answer");
    client.read_resource("a:1").await.unwrap();
    assert_eq!(server.count("resources/read"), 3, "fetched anew");
    client.read_resource("a:1").await.unwrap();
    assert_eq!(server.count("resources/read"), 3, "and this one is kept");
    client.close().await;
}

/// CA-06, PA-03: a refused cursor discards all pages, cached or not.
#[tokio::test]
async fn ca_06_an_invalid_cursor_drops_all_pages() {
    let server = script().modern().ttl(ONE_HOUR).page_size(1).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::error(-32602, "unknown cursor").on("tools/list").skip(1).times(1));
    assert_eq!(client.list_tools().await.unwrap().len(), 2);
    assert_eq!(tool_pages_with_cursor(&server), [false, true, false, true]);
    client.close().await;
}

/// TL-10: a tracked list is refreshed after a change notification, once for many of them, and the
/// event carries the difference.
#[tokio::test]
async fn tl_10_list_changes_are_announced_with_their_difference() {
    for (name, running, server) in run_everywhere(script().ttl(ONE_HOUR)).await {
        let client = Client::connect(server).await.unwrap();
        let mut events = client.events();
        client.list_tools().await.unwrap();
        client.track_lists();
        for list in ["prompts/list", "resources/list", "resources/templates/list"] {
            running.wait_for(|received| received.has_method(list), TEST_TIMEOUT).await;
        }
        if name.starts_with("modern") {
            running.wait_for(|received| received.has_method("subscriptions/listen"), TEST_TIMEOUT).await;
        }
        let before = running.count("tools/list");
        running.edit(|script| {
            script.without_tool("a").tool("c").tool_json(json!({
                "name": "b", "description": "another one", "inputSchema": { "type": "object" }
            }))
        });
        while running.announce_tools() == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            running.announce_tools();
        }
        let change = async {
            loop {
                if let Event::ListChanged(change) = events.next().await.unwrap() {
                    return change;
                }
            }
        };
        let change = timeout(TEST_TIMEOUT, change).await.unwrap();
        assert_eq!(change.list, ListKind::Tools, "{name}");
        assert_eq!(change.added, [Box::<str>::from("c")], "{name}");
        assert_eq!(change.removed, [Box::<str>::from("a")], "{name}");
        assert_eq!(change.changed, [Box::<str>::from("b")], "{name}");
        assert!(running.count("tools/list") <= before + 2, "{name}: one look for many words");
        client.close().await;
    }
}
