//! Faults of the way to a server: what the fault proxy does to connections.

use std::time::Duration;

use bowline_testkit::{self as testkit, Fault, FaultProxy, HttpServer, ProxyRules};

use super::{Examined, assert_reset_is_named, configure_url, verdict, verdict_of_url};
use crate::context::Context;

async fn server_behind_proxy() -> (HttpServer, FaultProxy) {
    let server = testkit::server().legacy().tool("echo").run().await;
    let proxy = FaultProxy::start(server.addr()).await;
    (server, proxy)
}

/// Examines a server behind a proxy with these rules.
async fn verdict_with(rules: ProxyRules) -> String {
    let (_server, proxy) = server_behind_proxy().await;
    proxy.set_rules(rules);
    verdict_of_url(&proxy.url("/mcp"))
}

#[tokio::test]
pub(super) async fn proxy_without_rules_is_not_noticed() {
    verdict!(verdict_with(ProxyRules::new()).await, @"exit 0");
}

#[tokio::test]
pub(super) async fn short_delay_is_no_fault() {
    verdict!(verdict_with(ProxyRules::new().delay(Duration::from_millis(20))).await, @"exit 0");
}

#[tokio::test]
pub(super) async fn stall_is_named() {
    verdict!(verdict_with(ProxyRules::new().stall()).await, @"
    exit 4
    connection failed, server: the server did not become ready in time
      the server accepts connections and does not answer: allow more time, or ask who runs it
      $ bowline doctor docs --connect-timeout 2m
    ");
}

#[tokio::test]
pub(super) async fn stalled_reply_is_named() {
    verdict!(verdict_with(ProxyRules::new().stall_reply()).await, @"
    exit 4
    connection failed, server: the server did not become ready in time
      the server accepts connections and does not answer: allow more time, or ask who runs it
      $ bowline doctor docs --connect-timeout 2m
    ");
}

#[tokio::test]
pub(super) async fn cut_request_is_named() {
    verdict!(verdict_with(ProxyRules::new().cut_request_after(10)).await, @"
    exit 3
    connection failed, server: connection lost: connection closed before message completed
      the server, or something in front of it, closes connections: ask who runs it
      $ bowline doctor docs
    ");
}

#[tokio::test]
pub(super) async fn cut_reply_is_named() {
    verdict!(verdict_with(ProxyRules::new().cut_reply_after(10)).await, @"
    exit 3
    connection failed, server: connection lost: connection closed before message completed
      the server, or something in front of it, closes connections: ask who runs it
      $ bowline doctor docs
    ");
}

#[tokio::test]
pub(super) async fn reset_connection_is_named() {
    // Before anything was answered, so that the reset is the only thing to be seen.
    let shown = verdict_with(ProxyRules::new().cut_request_after(1).with_reset()).await;
    verdict!(shown, @"
    exit 3
    connection failed, server: connection lost: connection error: Connection reset by peer
      the server, or something in front of it, closes connections: ask who runs it
      $ bowline doctor docs
    ");
}

#[tokio::test]
pub(super) async fn refused_connection_is_named() {
    let (_server, proxy) = server_behind_proxy().await;
    proxy.refuse_connections().await;
    verdict!(verdict_of_url(&proxy.url("/mcp")), @"
    exit 3
    tcp failed, server: 127.0.0.1:[PORT] refuses connections: nothing listens there
      start the server, or correct the port in the URL
      $ bowline doctor docs
    ");
}

#[tokio::test]
pub(super) async fn proxy_without_a_server_is_named() {
    let (server, proxy) = server_behind_proxy().await;
    server.stop().await;
    assert_reset_is_named(&verdict_of_url(&proxy.url("/mcp")));
}

/// A connection that breaks during a request is made again, and that it broke is a warning.
#[tokio::test]
pub(super) async fn connection_that_breaks_once_is_made_again() {
    let (server, proxy) = server_behind_proxy().await;
    server.arm(Fault::silent().on("tools/list"));
    let context = Context::new();
    configure_url(&context, &proxy.url("/mcp"));
    let command = context.bowline(["doctor", "docs"]);
    let examining = tokio::task::spawn_blocking(move || Examined::run(command));
    server.wait_for(|received| received.has_method("tools/list"), Duration::from_secs(20)).await;
    proxy.reset_all().await;
    let examined = examining.await.unwrap();
    let session = examined.check("session");
    assert_eq!((&session["status"], &session["blame"]), (&"warning".into(), &"server".into()), "{session}");
    let seen = session["seen"].as_str().unwrap();
    assert!(seen.starts_with("the connection broke once within this check: connection lost"), "{seen}");
    assert_eq!((examined.code, examined.status("requests")), (0, "ok"));
}
