//! Views of hosts on stdio, which share a daemon whatever view they have.

use super::*;
use crate::serve::tools;

/// Two views of a server that all hosts share.
fn configure(context: &Context, child: &StdioServer) {
    let entry = stdio_entry("child", &child.command());
    context.user_config(&format!(
        "{entry}share = 'all'\n\
         [views.read]\ntools = {{ child = ['get_*'] }}\n\
         [views.write]\ntools = {{ child = ['counter'] }}\n"
    ));
}

/// One daemon and one process serve both, and neither reaches what the other does.
#[tokio::test]
async fn hosts_with_different_views_share_a_daemon_and_a_process() {
    let context = Context::new();
    let child = testkit::server().legacy().tool("get_x").tool("counter").stdio().await;
    configure(&context, &child);
    let daemons = Daemons::of(&context);
    let mut all = start(&context, &[]).await;
    let mut read = start(&context, &["--view", "read"]).await;
    let mut write = start(&context, &["--view", "write"]).await;
    daemons.only();
    assert_eq!(tools(&mut all).await, ["get_x", "counter"]);
    assert_eq!(tools(&mut read).await, ["get_x"]);
    assert_eq!(tools(&mut write).await, ["counter"]);
    assert_eq!(result_text(&write.call("counter").await), "1");
    let refused = read.call("counter").await;
    let expected = json!({"code": -32602, "message": "Unknown tool: counter"});
    assert_eq!(refused["error"], expected);
    assert_eq!((running(&child), child.executions("counter")), (1, 1));
    for host in [all, read, write] {
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

/// The next daemon serves the session with the view that it began with.
#[tokio::test]
async fn a_host_keeps_its_view_when_the_daemon_is_killed() {
    let context = Context::new();
    let child = testkit::server().legacy().tool("get_x").tool("counter").stdio().await;
    configure(&context, &child);
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &["--view", "read"]).await;
    assert_eq!(tools(&mut host).await, ["get_x"]);
    let killed = daemons.kill();
    assert_eq!(tools(&mut host).await, ["get_x"]);
    assert_ne!(daemons.only(), killed);
    assert_eq!(host.call("counter").await["error"]["code"], -32602);
    assert_eq!(child.executions("counter"), 0);
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// A daemon has the views that its hosts know of: a changed one needs another daemon.
#[tokio::test]
async fn the_views_are_a_part_of_the_key_of_a_daemon() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").tool("counter").run().await;
    let entry = http_entry("web", &web);
    let daemons = Daemons::of(&context);
    context.user_config(&format!("{entry}[views.v]\ntools = {{ web = ['echo'] }}\n"));
    let mut first = start(&context, &["--view", "v"]).await;
    assert_eq!(tools(&mut first).await, ["echo"]);
    context.user_config(&format!("{entry}[views.v]\ntools = {{ web = ['counter'] }}\n"));
    let mut second = start(&context, &["--view", "v"]).await;
    assert_eq!(tools(&mut second).await, ["counter"]);
    assert_eq!(tools(&mut first).await, ["echo"], "it has its own daemon");
    assert_eq!(daemons.all().len(), 2);
}

#[tokio::test]
async fn a_host_that_is_served_alone_has_its_view() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").tool("counter").run().await;
    context.user_config(&format!("{}[views.v]\ntools = {{ web = ['echo'] }}\n", http_entry("web", &web)));
    let mut host = start(&context, &["--alone", "--view", "v"]).await;
    assert_eq!(tools(&mut host).await, ["echo"]);
    let expected = json!({"code": -32602, "message": "Unknown tool: counter"});
    assert_eq!(host.call("counter").await["error"], expected);
    assert_eq!((web.executions("counter"), Daemons::of(&context).all().len()), (0, 0));
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// The roots of a host select its view, over the daemon and when it is killed. A host that selects a view
/// is not asked.
#[tokio::test]
async fn the_roots_of_a_host_select_its_view() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").tool("counter").run().await;
    let entry = http_entry("web", &web);
    context.user_config(&format!(
        "{entry}[views.work]\ntools = {{ web = ['echo'] }}\nroots = ['/work/*', '~/code']\n\
         [views.other]\ntools = {{ web = ['counter'] }}\n"
    ));
    let daemons = Daemons::of(&context);
    let home = context.path("home");
    let code = format!("file://{}/code/x", home.display());
    for (root, args, expected) in [
        ("file:///work/a/b", &[][..], &["echo"][..]),
        (&*code, &[], &["echo"]),
        ("file:///work", &[], &["echo", "counter"]),
        ("file:///work/a", &["--view", "other"], &["counter"]),
    ] {
        let mut host = Host::start(context.bowline([&["serve", "--stdio"], args].concat()));
        let client = json!({"name": "host", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": client});
        host.request("initialize", params).await;
        host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(tools_with_root(&mut host, root).await, expected, "{root}");
        daemons.kill();
        assert_eq!(tools_with_root(&mut host, root).await, expected, "{root}");
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

/// A host that speaks both eras is brought to the one in which it can be asked for its roots, as long as
/// they decide what it sees.
#[tokio::test]
async fn a_host_with_roots_begins_a_session_if_they_select_its_view() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").tool("counter").run().await;
    let views = "[views.work]\ntools = { web = ['echo'] }\nroots = ['/work']\n";
    context.user_config(&format!("{}{views}", http_entry("web", &web)));
    let _daemons = Daemons::of(&context);
    let discover = |capabilities: serde_json::Value| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        json!({ "_meta": meta })
    };
    for args in [&["serve", "--stdio"][..], &["serve", "--stdio", "--alone"]] {
        let mut host = Host::start(context.bowline(args));
        let refused = host.request("server/discover", discover(json!({"roots": {}}))).await;
        assert_eq!(refused["error"]["code"], -32_022, "{refused}");
        let supported = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
        assert_eq!(refused["error"]["data"]["supported"], json!(supported));
        let client = json!({"name": "host", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": client});
        host.request("initialize", params).await;
        host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(tools_with_root(&mut host, "file:///work/a").await, ["echo"]);
        assert_eq!(host.close().await.status.code(), Some(0));
        // Without roots there is nothing to ask for, and with a view nothing to decide.
        let mut host = Host::start(context.bowline(args));
        let found = host.request("server/discover", discover(json!({}))).await;
        assert!(found["result"]["supportedVersions"].is_array(), "{found}");
        assert_eq!(host.close().await.status.code(), Some(0));
        let mut host = Host::start(context.bowline([args, &["--view", "work"]].concat()));
        let found = host.request("server/discover", discover(json!({"roots": {}}))).await;
        assert!(found["result"]["supportedVersions"].is_array(), "{found}");
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

/// The tools of a host that has this root, and is asked for it or not.
async fn tools_with_root(host: &mut Host, root: &str) -> Vec<String> {
    let id = host.send_request("tools/list", json!({})).await;
    loop {
        let message = host.next_message().await;
        if message["method"] == "roots/list" {
            let roots = json!({"roots": [{"uri": root}]});
            host.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": roots})).await;
        } else if message["id"] == id && message.get("method").is_none() {
            let tools = message["result"]["tools"].as_array().expect("a list").iter();
            return tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect();
        }
    }
}

/// A view that is removed ends for the hosts of the daemon: their requests fail, and say why.
#[tokio::test]
async fn the_hosts_of_a_removed_view_are_refused() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").run().await;
    let entry = http_entry("web", &web);
    context.user_config(&format!("{entry}[views.v]\n"));
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &["--view", "v"]).await;
    assert_eq!(result_text(&host.call("echo").await), "{}");
    context.user_config(&entry);
    daemons.signal(rustix::process::Signal::HUP);
    wait_until(|| daemons.log().contains("reloaded: views: 1 removed (v)")).await;
    let refused = host.call("echo").await;
    let cause = json!({"cause": "view_removed", "execution": "not_executed"});
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["bowline"]), (&json!(-31050), &cause));
    let message = "bowline: the view `v` was removed from the configuration (the request was not executed)";
    assert_eq!(refused["error"]["message"], message);
    // It is back when the view is.
    context.user_config(&format!("{entry}[views.v]\n"));
    daemons.signal(rustix::process::Signal::HUP);
    wait_until(|| daemons.log().contains("reloaded: views: 1 added (v)")).await;
    assert_eq!(result_text(&host.call("echo").await), "{}");
    assert_eq!(web.executions("echo"), 2);
    assert_eq!(host.close().await.status.code(), Some(0));
}
