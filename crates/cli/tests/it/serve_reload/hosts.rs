//! Reloads of what hosts see and may use: views and limits.

use super::*;

async fn two_tools() -> HttpServer {
    testkit::server().legacy().tool("echo").tool("counter").tool("slow").run().await
}

fn view(name: &str, tool: &str) -> String {
    format!("[views.{name}]\ntools = {{ one = ['{tool}'] }}\n")
}

/// A host on stdio without a daemon, after its handshake, and whatever its process says.
async fn start_alone(context: &Context, view: &str) -> Host {
    Host::start_initialized(context.bowline(["serve", "--stdio", "--alone", "--view", view])).await
}

fn hang_up(host: &Host) {
    rustix::process::kill_process(crate::context::to_pid(host.id()), Signal::HUP).expect("it runs");
}

/// A view that was added is at its path, one that was changed shows something else there, and the path of
/// one that was removed does not exist. What is not valid changes none of them.
#[tokio::test]
async fn views_are_added_changed_and_removed() {
    let context = Context::new();
    let one = two_tools().await;
    let entry = http_entry("one", &one);
    context.user_config(&format!("{entry}{}{}", view("v", "echo"), view("old", "echo")));
    let (mut gateway, url) = start(&context).await;
    gateway.note().await;
    gateway.note().await;
    assert_eq!(tools(&context, &format!("{url}/v")), ["echo"]);
    context.user_config(&format!("{entry}{}{}", view("v", "counter"), view("new", "slow")));
    gateway.signal(Signal::HUP);
    let note = "the configuration was reloaded: views: 1 added (new), 1 changed (v), 1 removed (old)";
    assert_eq!(gateway.note().await, note);
    assert_eq!(tools(&context, &format!("{url}/v")), ["counter"]);
    assert_eq!(tools(&context, &format!("{url}/new")), ["slow"]);
    assert_eq!(tools(&context, &url), ["echo", "counter", "slow"]);
    let old = context.bowline(["tools", &format!("{url}/old")]).output().expect("bowline starts");
    assert!(!old.status.success());
    // A view of a server that does not exist is none.
    context.user_config(&format!("{entry}{}[views.bad]\nservers = ['two']\n", view("v", "echo")));
    gateway.signal(Signal::HUP);
    let note = gateway.note().await;
    assert!(note.starts_with("the configuration was not reloaded, and nothing has changed: "), "{note}");
    assert_eq!(tools(&context, &format!("{url}/v")), ["counter"]);
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, note, "each signal is answered");
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A view that is added gets a token of its own, at once.
#[tokio::test]
async fn an_added_view_has_a_token() {
    let context = Context::new();
    let one = two_tools().await;
    context.user_config(&http_entry("one", &one));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0"]);
    let url = gateway.url().await;
    gateway.note().await;
    context.user_config(&format!("{}{}", http_entry("one", &one), view("v", "echo")));
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, "the configuration was reloaded: views: 1 added (v)");
    let token = std::fs::read_to_string(context.path("home/.local/state/bowline/serve-token.v"));
    let header = format!("Authorization: Bearer {}", token.expect("a token"));
    for (tool, expected) in [("echo", "exit: 0\n"), ("counter", "exit: ")] {
        let shown = context.run(context.bowline(["call", &url, tool, "--header", &header]));
        assert!(shown.starts_with(expected), "{shown}");
    }
    assert_eq!((one.executions("echo"), one.executions("counter")), (1, 0));
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A host on stdio is told of what it sees otherwise, and that its view is gone.
#[tokio::test]
async fn a_host_on_stdio_follows_its_view() {
    let context = Context::new();
    let one = two_tools().await;
    let entry = http_entry("one", &one);
    context.user_config(&format!("{entry}{}", view("v", "echo")));
    let mut host = start_alone(&context, "v").await;
    assert_eq!(crate::serve::tools(&mut host).await, ["echo"]);
    context.user_config(&format!("{entry}{}", view("v", "counter")));
    hang_up(&host);
    next_list_change(&mut host).await;
    assert_eq!(crate::serve::tools(&mut host).await, ["counter"]);
    assert_eq!(host.call("echo").await["error"]["code"], -32602);
    context.user_config(&entry);
    hang_up(&host);
    next_list_change(&mut host).await;
    let refused = host.call("counter").await;
    let message = "bowline: the view `v` was removed from the configuration (the request was not executed)";
    assert_eq!((&refused["error"]["code"], &refused["error"]["message"]), (&json!(-31050), &json!(message)));
    assert_eq!((one.executions("echo"), one.executions("counter")), (0, 0));
    let exit = host.close().await;
    assert_eq!(exit.status.code(), Some(0));
    assert!(exit.stderr.contains("reloaded: views: 1 removed (v)"), "{}", exit.stderr);
}

/// Limits hold from the reload on, also for a host that is there already, and for what it has open.
#[tokio::test]
async fn limits_are_taken_over() {
    let context = Context::new();
    let one = two_tools().await;
    let entry = http_entry("one", &one);
    context.user_config(&format!("{entry}{}", view("v", "*")));
    let mut host = start_alone(&context, "v").await;
    let arguments = json!({"name": "slow", "arguments": {"ms": 600_000}});
    let open = host.send_request("tools/call", arguments).await;
    one.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    // The change of the view tells when the limits hold.
    let limits = "[serve.limits]\nrequests_in_flight = 1\n";
    context.user_config(&format!("{entry}{limits}{}", view("v", "counter")));
    hang_up(&host);
    next_list_change(&mut host).await;
    let refused = host.call("counter").await;
    assert_eq!(refused["error"]["data"]["bowline"]["cause"], "busy", "{refused}");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": open}});
    host.send(&cancel).await;
    one.wait_until(|one| !one.cancellations().is_empty(), TEST_TIMEOUT).await;
    assert_eq!(result_text(&host.call("counter").await), "2");
    assert_eq!(host.close().await.status.code(), Some(0));
}
