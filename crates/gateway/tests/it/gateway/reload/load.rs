//! Random reloads while many hosts call tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline::Client;
use bowline::config::Share;
use bowline_testkit::HttpServer;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;

const RELOADS: usize = 200;
const HOSTS_WITH_SESSION: usize = 4;
const HOSTS_WITHOUT_SESSION: usize = 4;

/// Small and reproducible.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The steady server somewhere among others, of which any may be missing or have another header.
fn random_servers(random: &mut Random, steady: &Server, others: &[HttpServer]) -> Vec<Server> {
    let mut servers = vec![steady.clone()];
    for (number, other) in others.iter().enumerate() {
        let version = random.below(3);
        if version > 0 {
            let mut server = with_header(&at(&format!("other-{number}"), other), &version.to_string());
            if number % 2 == 0 {
                server.share = Share::All;
            }
            let place = random.below(servers.len() as u64 + 1);
            servers.insert(usize::try_from(place).expect("small"), server);
        }
    }
    servers
}

/// Calls the steady server until it is told to stop, and any other in between. Returns how often.
async fn call_with_session(mut host: TestHost, stop: Arc<AtomicBool>) -> u64 {
    let mut calls = 0;
    while !stop.load(Ordering::Relaxed) {
        calls += 1;
        result_text(&host.call_tool(calls, "counter", json!({})).await);
        // It may be gone.
        host.call_tool("other", "tool-0", json!({})).await;
        host.call_tool("other", "tool-1", json!({})).await;
    }
    host.close().await;
    calls
}

async fn call_without_session(client: Client, stop: Arc<AtomicBool>) -> u64 {
    let mut calls = 0;
    while !stop.load(Ordering::Relaxed) {
        calls += 1;
        call(&client, "counter", json!({})).await;
        let _ = soon(client.call_tool("tool-1", &json!({}))).await;
    }
    soon(client.close()).await;
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_on_an_unchanged_server_fails_and_no_connection_is_left() {
    let steady = testkit::server().legacy().tool("counter").run().await;
    let mut others = Vec::new();
    for number in 0..3 {
        others.push(
            testkit::server()
                .legacy()
                .tool(testkit::Tool::like(&format!("tool-{number}"), "echo"))
                .run()
                .await,
        );
    }
    let configured = at("steady", &steady).with_share(Share::Session);
    let gateway = gateway([configured.clone()]);
    let endpoint = Endpoint::start(&gateway).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut calling = JoinSet::new();
    for _ in 0..HOSTS_WITH_SESSION {
        calling.spawn(call_with_session(TestHost::join_with(&gateway, json!({})).await, Arc::clone(&stop)));
    }
    for number in 0..HOSTS_WITHOUT_SESSION {
        let client = endpoint.client(&format!("host-{number}")).await;
        calling.spawn(call_without_session(client, Arc::clone(&stop)));
    }
    let mut observer = TestHost::join_with(&gateway, json!({})).await;
    let mut random = Random(7);
    for round in 0..RELOADS {
        let servers = random_servers(&mut random, &configured, &others);
        let reload = gateway.reload(servers.clone());
        assert!(reload.unchanged >= 1, "{reload:?}");
        // The reloads are no faster than calls.
        assert!(observer.call_tool("steady", "counter", json!({})).await["result"].is_object(), "{round}");
        let mut names = servers.iter().map(|server| server.name.as_str());
        if names.any(|name| name == "other-0") && round % 10 == 0 {
            result_text(&observer.call_tool("other", "tool-0", json!({})).await);
        }
    }
    gateway.reload([configured]);
    stop.store(true, Ordering::Relaxed);
    let mut calls = 0;
    while let Some(made) = timeout(TEST_TIMEOUT * 3, calling.join_next()).await.expect("they end") {
        calls += made.expect("no call fails");
    }
    for other in &others {
        // A session that was given up before its id arrived cannot be ended.
        let is_left = |other: &Control| {
            other.open_streams(testkit::StreamKind::Get) > 0
                || other.sessions().iter().any(|session| session.initialized)
        };
        other.wait_until(|other| !is_left(other), TEST_TIMEOUT).await;
        assert!(other.initialize_count() > 1, "it was reloaded");
    }
    assert_eq!(observer.tools().await, ["counter"]);
    observer.close().await;
    endpoint.stop().await;
    assert_eq!(steady.sessions().len(), 0);
    // One connection for each host, from the beginning to the end.
    assert_eq!(steady.initialize_count(), HOSTS_WITH_SESSION + HOSTS_WITHOUT_SESSION + 1);
    assert_eq!(steady.executions("counter"), calls + RELOADS as u64);
    assert_eq!(steady.violations(), [""; 0]);
}
