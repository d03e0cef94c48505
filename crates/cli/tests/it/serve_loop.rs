//! Gateways that have themselves among their servers, and gateways in a chain.

use std::path::Path;

use bowline_testkit::{self as testkit, HttpServer, StdioCommand};
use serde_json::{Value, json};

use crate::connect::host::{Host, result_text};
use crate::context::Context;
use crate::serve::{Gateway, tools};
use crate::serve_front::daemons::Daemons;
use crate::status::{http_entry, stdio_entry};

const LOOP: &str = "a loop: the server is this gateway itself, or leads back to it";

async fn server(tool: &str) -> HttpServer {
    testkit::server().legacy().tool(tool).run().await
}

/// The entry of a gateway on a socket.
fn gateway_entry(name: &str, socket: &Path) -> String {
    format!("[servers.{name}]\nurl = 'http://localhost/mcp'\nsocket = '{}'\n", socket.display())
}

/// The entry of a server that is the command itself, in this home.
fn own_entry(name: &str, home: &Context, args: &[&str]) -> String {
    let env = vec![("HOME".to_owned(), home.path("home").display().to_string())];
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    stdio_entry(name, &StdioCommand { program: env!("CARGO_BIN_EXE_bowline").into(), args, env })
}

async fn start(context: &Context, socket: &Path) -> Gateway {
    let mut gateway = Gateway::start(context, &["--socket", socket.to_str().expect("a path")]);
    assert!(gateway.note().await.starts_with("serving "));
    gateway
}

/// Waits until the lists say why a server cannot be asked.
async fn stale_reason(host: &mut Host, server: &str) -> String {
    loop {
        let list = host.request("tools/list", json!({})).await;
        match &list["result"]["_meta"]["bowline/stale-servers"][server] {
            Value::String(reason) if reason != "connecting" => return reason.clone(),
            _ => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    }
}

/// A gateway whose own URL is one of its servers fails that server, and serves the others.
#[tokio::test]
async fn a_gateway_that_is_its_own_server_fails_that_server() {
    let (context, hosts) = (Context::new(), Context::new());
    let (socket, one) = (context.path("a.sock"), server("echo").await);
    context.user_config(&format!("{}{}", gateway_entry("me", &socket), http_entry("one", &one)));
    let gateway = start(&context, &socket).await;
    hosts.user_config(&gateway_entry("gateway", &socket));
    let mut host = Host::start_initialized(hosts.bowline(["connect", "gateway"])).await;
    assert!(stale_reason(&mut host, "me").await.contains(LOOP), "{}", stale_reason(&mut host, "me").await);
    assert_eq!(tools(&mut host).await, ["echo"]);
    assert_eq!(result_text(&host.call("echo").await), "{}");
    assert_eq!(one.initialize_count(), 1, "no session led to another one");
    assert_eq!(host.close().await.status.code(), Some(0));
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// Checks that a gateway fails its server `me`, which is this command in this home, and serves another one.
async fn check_own_process(context: &Context, hosts: &Context, entry: &str) {
    let (socket, one) = (context.path("a.sock"), server("echo").await);
    context.user_config(&format!("{entry}{}", http_entry("one", &one)));
    hosts.user_config(&gateway_entry("gateway", &socket));
    let gateway = start(context, &socket).await;
    let mut host = Host::start_initialized(hosts.bowline(["connect", "gateway"])).await;
    let reason = stale_reason(&mut host, "me").await;
    assert!(reason.contains(LOOP), "{reason}");
    assert_eq!(tools(&mut host).await, ["echo"]);
    assert_eq!(result_text(&host.call("echo").await), "{}");
    assert_eq!(one.initialize_count(), 1, "no process led to another one");
    assert_eq!(host.close().await.status.code(), Some(0));
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

#[tokio::test]
async fn a_gateway_that_starts_itself_fails_that_server() {
    let (context, hosts) = (Context::new(), Context::new());
    let entry = own_entry("me", &context, &["serve", "--stdio", "--alone"]);
    check_own_process(&context, &hosts, &entry).await;
}

/// The entry of a server that is the command itself in this home, started without the variables of the gateway.
fn own_entry_without_variables(name: &str, home: &Context, args: &[&str]) -> String {
    let home = format!("HOME={}", home.path("home").display());
    let words = ["-i", &home, env!("CARGO_BIN_EXE_bowline")].into_iter().chain(args.iter().copied());
    let args = words.map(str::to_owned).collect();
    stdio_entry(name, &StdioCommand { program: "/usr/bin/env".into(), args, env: Vec::new() })
}

/// The message of the gateway says which gateways were passed, too.
#[tokio::test]
async fn a_gateway_that_starts_itself_without_variables_fails_that_server() {
    let (context, hosts) = (Context::new(), Context::new());
    let entry = own_entry_without_variables("me", &context, &["serve", "--stdio", "--alone"]);
    check_own_process(&context, &hosts, &entry).await;
    let relay = own_entry_without_variables("me", &hosts, &["connect", "gateway"]);
    check_own_process(&context, &hosts, &relay).await;
}

#[tokio::test]
async fn a_gateway_that_starts_a_front_of_itself_fails_that_server() {
    let (context, hosts) = (Context::new(), Context::new());
    let daemons = Daemons::of(&context);
    check_own_process(&context, &hosts, &own_entry("me", &context, &["serve", "--stdio"])).await;
    assert_eq!(daemons.all(), [0; 0], "no daemon was started");
}

#[tokio::test]
async fn a_gateway_that_starts_a_relay_to_itself_fails_that_server() {
    let (context, hosts) = (Context::new(), Context::new());
    check_own_process(&context, &hosts, &own_entry("me", &hosts, &["connect", "gateway"])).await;
}

/// A daemon that serves a front which it has started is found too, whatever its variables are.
#[tokio::test]
async fn a_daemon_that_starts_its_own_front_fails_that_server() {
    let context = Context::new();
    let (daemons, one) = (Daemons::of(&context), server("echo").await);
    let front = own_entry("me", &context, &["serve", "--stdio"]);
    context.user_config(&format!("{front}{}", http_entry("one", &one)));
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio"])).await;
    let reason = stale_reason(&mut host, "me").await;
    assert!(reason.contains(LOOP), "{reason}");
    assert_eq!(tools(&mut host).await, ["echo"]);
    assert_eq!((daemons.all().len(), one.initialize_count()), (1, 1));
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// The variables of the two processes may differ: servers are started with few of them.
#[tokio::test]
async fn a_gateway_with_other_variables_than_its_server_fails_that_server() {
    for args in [&["serve", "--stdio"][..], &["serve", "--stdio", "--alone"]] {
        let context = Context::new();
        let (daemons, one) = (Daemons::of(&context), server("echo").await);
        context.user_config(&format!("{}{}", own_entry("me", &context, args), http_entry("one", &one)));
        for own in [&["serve", "--stdio"][..], &["serve", "--stdio", "--alone"]] {
            let mut command = context.bowline(own);
            command.env("BOWLINE_LOG", "error").env("LANG", "C");
            let mut host = Host::start_initialized(command).await;
            let reason = stale_reason(&mut host, "me").await;
            assert!(reason.contains(LOOP), "{reason}");
            assert_eq!(tools(&mut host).await, ["echo"]);
            assert_eq!(host.close().await.status.code(), Some(0));
        }
        assert_eq!(daemons.all().len(), 1);
    }
}

/// Two gateways that are servers of each other both serve what the other one has of its own.
#[tokio::test]
async fn gateways_in_a_circle_serve_their_other_servers() {
    let (first, second, hosts) = (Context::new(), Context::new(), Context::new());
    let (a, b) = (first.path("a.sock"), second.path("b.sock"));
    let (one, two) = (server("echo").await, server("counter").await);
    first.user_config(&format!("{}{}", http_entry("one", &one), gateway_entry("b", &b)));
    second.user_config(&format!("{}{}", http_entry("two", &two), gateway_entry("a", &a)));
    let gateways = [start(&first, &a).await, start(&second, &b).await];
    hosts.user_config(&format!("{}{}", gateway_entry("a", &a), gateway_entry("b", &b)));
    for (entry, expected) in [("a", ["counter", "echo"]), ("b", ["echo", "counter"])] {
        let mut host = Host::start_initialized(hosts.bowline(["connect", entry])).await;
        // What is known of earlier hosts is answered at first.
        while tools(&mut host).await != expected {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        for tool in expected {
            assert_eq!(host.call(tool).await["error"], Value::Null);
        }
        assert_eq!(host.close().await.status.code(), Some(0));
    }
    assert_eq!((one.executions("echo"), two.executions("counter")), (2, 2));
    for gateway in gateways {
        assert_eq!(gateway.terminate().await.code(), Some(0));
    }
}

/// Gateways in a chain are no loop, whatever the revision of the host.
#[tokio::test]
async fn gateways_in_a_chain_serve_what_is_at_its_end() {
    let (first, second, third) = (Context::new(), Context::new(), Context::new());
    let (a, b) = (first.path("a.sock"), second.path("b.sock"));
    let one = server("counter").await;
    second.user_config(&http_entry("one", &one));
    first.user_config(&gateway_entry("b", &b));
    third.user_config(&gateway_entry("a", &a));
    let gateways = [start(&second, &b).await, start(&first, &a).await];
    let mut host = Host::start_initialized(third.bowline(["serve", "--stdio", "--alone"])).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    assert_eq!(host.close().await.status.code(), Some(0));
    let called = third.run(third.bowline(["call", "a", "counter"]));
    assert_eq!(called, "exit: 0\n--- stdout\n2\n--- stderr\n---");
    for gateway in gateways {
        assert_eq!(gateway.terminate().await.code(), Some(0));
    }
}
