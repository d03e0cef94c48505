//! `bowline serve` reads its configuration again while it runs.

mod hosts;

use bowline_testkit::{self as testkit, HttpServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::connect::host::{Host, TEST_TIMEOUT, result_text};
use crate::context::Context;
use crate::serve::Gateway;
use crate::status::{http_entry, stdio_entry};

const CONFIG: &str = "home/.config/bowline/config.toml";
const NOTHING_CHANGED: &str = "the configuration was read again: nothing has changed";

async fn server(tool: &str) -> HttpServer {
    testkit::server().legacy().tool(tool).run().await
}

fn entry_with_header(name: &str, server: &HttpServer, value: &str) -> String {
    format!("{}headers = {{ X-Version = '{value}' }}\n", http_entry(name, server))
}

/// A gateway for hosts over HTTP, after the notes of its start.
async fn start(context: &Context) -> (Gateway, String) {
    start_command(context, None).await
}

/// A gateway that also logs what it does when a file has changed.
async fn start_logging(context: &Context) -> (Gateway, String) {
    start_command(context, Some("bowline::commands::serve::reload=debug")).await
}

async fn start_command(context: &Context, log: Option<&str>) -> (Gateway, String) {
    let mut command = context.bowline(["serve", "--listen", "127.0.0.1:0", "--no-token"]);
    if let Some(log) = log {
        command.env("BOWLINE_LOG", log);
    }
    let mut gateway = Gateway::start_command(command);
    let url = gateway.url().await;
    assert!(gateway.note().await.starts_with("no token is required"));
    (gateway, url)
}

/// The tools that a host is offered.
fn tools(context: &Context, url: &str) -> Vec<String> {
    let output = context.bowline(["tools", url, "--json"]).output().expect("bowline starts");
    let lines: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let tools = lines["tools"].as_array().or(lines.as_array()).expect("a list").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

pub(crate) async fn next_list_change(host: &mut Host) {
    while host.next_message().await["method"] != "notifications/tools/list_changed" {}
}

#[tokio::test]
async fn sighup_reloads_and_says_what_has_changed() {
    let context = Context::new();
    let (github, old, docs) = (server("counter").await, server("slow").await, server("echo").await);
    context.user_config(&format!("{}{}", http_entry("github", &github), http_entry("old", &old)));
    let (mut gateway, url) = start(&context).await;
    assert_eq!(tools(&context, &url), ["counter", "slow"]);
    context.user_config(&format!(
        "{}{}",
        entry_with_header("github", &github, "2"),
        http_entry("docs", &docs)
    ));
    gateway.signal(Signal::HUP);
    assert_eq!(
        gateway.note().await,
        "the configuration was reloaded: 1 added (docs), 1 changed (github), 1 removed (old)"
    );
    assert_eq!(tools(&context, &url), ["echo", "counter"]);
    let called = context.run(context.bowline(["call", &url, "counter"]));
    assert_eq!(called, "exit: 0\n--- stdout\n1\n--- stderr\n---");
    assert_eq!(github.received_with_method("tools/call")[0].header("x-version"), Some("2"));
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, NOTHING_CHANGED);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A host on stdio keeps its session, and hears of the change, without any signal.
#[tokio::test]
async fn a_changed_file_is_reloaded_by_itself() {
    let context = Context::new();
    let (kept, added) = (server("counter").await, testkit::server().legacy().tool("echo").stdio().await);
    context.user_config(&http_entry("kept", &kept));
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio", "--alone"])).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    let session = kept.sessions()[0].id.clone();
    context.user_config(&format!("{}{}", http_entry("kept", &kept), stdio_entry("added", &added.command())));
    next_list_change(&mut host).await;
    let answer = host.request("tools/call", json!({"name": "echo", "arguments": {"a": 1}})).await;
    assert_eq!(result_text(&answer), r#"{"a":1}"#);
    assert_eq!(result_text(&host.call("counter").await), "2");
    assert_eq!((kept.initialize_count(), kept.sessions()[0].id.clone()), (1, session));
    context.user_config(&http_entry("kept", &kept));
    next_list_change(&mut host).await;
    assert!(testkit::wait_for_exit(added.pid().expect("it ran"), TEST_TIMEOUT).await);
    let exit = host.close().await;
    assert_eq!(
        (exit.status.code(), &*exit.stderr),
        (
            Some(0),
            "note: the configuration was reloaded: 1 added (added)\n\
             note: the configuration was reloaded: 1 removed (added)\n"
        )
    );
}

#[tokio::test]
async fn an_invalid_file_changes_nothing_and_is_said_once() {
    let context = Context::new();
    let one = server("counter").await;
    let valid = http_entry("one", &one);
    context.user_config(&valid);
    let (mut gateway, url) = start_logging(&context).await;
    let path = context.path(CONFIG);
    let refused =
        |reason: &str| format!("the configuration was not reloaded, and nothing has changed: {reason}");
    let unclosed = format!("{}:3:6: not valid TOML: unclosed array, expected `]`", path.display());
    context.user_config(&format!("{valid}x = [\n"));
    assert_eq!(gateway.note().await, refused(&unclosed));
    assert!(gateway.line().await.ends_with("the configuration was not reloaded"));
    assert_eq!(tools(&context, &url), ["counter"]);
    // Another file with the same fault.
    context.user_config(&format!("{valid}y = [\n"));
    assert!(gateway.line().await.ends_with("the configuration was not reloaded"));
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, refused(&unclosed), "who asks is told again");
    gateway.line().await;
    // An entry that is served, and one that is not.
    context.user_config("[servers.one]\nurl = 'http://${NOWHERE}/'\n[servers.two]\ncommand = 'x'\n");
    gateway.signal(Signal::HUP);
    let note = gateway.note().await;
    assert!(
        note.starts_with(&refused("the entry `one` cannot be used: ")) && note.contains("NOWHERE"),
        "{note}"
    );
    gateway.line().await;
    context.user_config("");
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, refused("no servers are configured"));
    gateway.line().await;
    context.user_config(&format!("{valid}enabled = false\n"));
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, refused("no server can be served"));
    gateway.line().await;
    context.user_config(&format!("{valid}[servers.broken]\nurl = 'http://${{NOWHERE}}/'\n"));
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, "`broken` is left out; see `bowline config check`");
    assert_eq!(gateway.note().await, NOTHING_CHANGED);
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, NOTHING_CHANGED, "what is left out is said once");
    assert_eq!(tools(&context, &url), ["counter"]);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

#[tokio::test]
async fn a_replaced_file_is_seen_and_the_same_content_is_not_news() {
    let context = Context::new();
    let (one, two) = (server("counter").await, server("echo").await);
    let config = http_entry("one", &one);
    context.user_config(&config);
    let (mut gateway, url) = start_logging(&context).await;
    // The same content in the same file, then in another one.
    context.user_config(&config);
    assert!(gateway.line().await.ends_with("a configuration file was written again, with the same content"));
    let draft = context.write("draft", &config);
    std::fs::rename(&draft, context.path(CONFIG)).expect("a file");
    assert!(gateway.line().await.ends_with("a configuration file was written again, with the same content"));
    let draft = context.write("draft", format!("{config}{}", http_entry("two", &two)));
    std::fs::rename(&draft, context.path(CONFIG)).expect("a file");
    assert_eq!(gateway.note().await, "the configuration was reloaded: 1 added (two)");
    assert_eq!(tools(&context, &url), ["counter", "echo"]);
    assert_eq!(one.count("initialize"), 1, "one host, and one connection");
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A project's file counts when it is trusted, and what was trusted is served until then.
#[tokio::test]
async fn a_project_file_is_used_as_it_is_trusted() {
    let context = Context::new();
    let (mine, project, other) = (server("counter").await, server("echo").await, server("slow").await);
    context.user_config(&http_entry("mine", &mine));
    let (mut gateway, url) = start(&context).await;
    // It did not exist before.
    context.project_config(&http_entry("project", &project));
    let path = std::fs::canonicalize(context.path("project/bowline.toml")).expect("a file");
    let path = path.display();
    let trust = format!(
        "it can run programs and send out your environment variables: `bowline trust {path}` shows what it \
         would do, and asks you"
    );
    assert_eq!(gateway.note().await, format!("{path} is not used: it is not trusted; {trust}"));
    context.trust_project();
    assert_eq!(gateway.note().await, "the configuration was reloaded: 1 added (project)");
    assert_eq!(tools(&context, &url), ["counter", "echo"]);
    context.project_config(&http_entry("project", &other));
    assert_eq!(
        gateway.note().await,
        format!(
            "the configuration was not reloaded, and nothing has changed: {path} is not used: it has changed \
             since you trusted it; {trust}"
        )
    );
    assert_eq!(tools(&context, &url), ["counter", "echo"]);
    context.trust_project();
    assert_eq!(gateway.note().await, "the configuration was reloaded: 1 changed (project)");
    // The tools of before are listed until the server has listed its own.
    other.wait_for(|received| received.has_method("tools/list"), TEST_TIMEOUT).await;
    while tools(&context, &url) == ["counter", "echo"] {}
    assert_eq!(tools(&context, &url), ["counter", "slow"]);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// Only the servers that were named are served, also later.
#[tokio::test]
async fn named_servers_stay_named() {
    let context = Context::new();
    let (one, two) = (server("counter").await, server("echo").await);
    context.user_config(&http_entry("one", &one));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0", "--no-token", "one"]);
    let url = gateway.url().await;
    gateway.note().await;
    context.user_config(&format!("{}{}", http_entry("one", &one), http_entry("two", &two)));
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, NOTHING_CHANGED);
    assert_eq!(tools(&context, &url), ["counter"]);
    context.user_config(&http_entry("two", &two));
    gateway.signal(Signal::HUP);
    assert_eq!(
        gateway.note().await,
        "the configuration was not reloaded, and nothing has changed: no server named `one` is configured"
    );
    assert_eq!(tools(&context, &url), ["counter"]);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A server that was added is logged in to with a command that is said.
#[tokio::test]
async fn the_login_command_of_an_added_server_is_said() {
    let context = Context::new();
    let auth = testkit::auth_server().start().await;
    let one = server("counter").await;
    let guarded =
        testkit::server().legacy().protected(testkit::Protection::with_auth_server(&auth.control()));
    let guarded = guarded.tool("echo").run().await;
    context.user_config(&http_entry("one", &one));
    let (mut gateway, url) = start(&context).await;
    // The connections of this host are kept for a while, and follow the reload.
    assert_eq!(tools(&context, &url), ["counter"]);
    context.user_config(&format!("{}{}", http_entry("one", &one), http_entry("guarded", &guarded)));
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, "the configuration was reloaded: 1 added (guarded)");
    let note = gateway.note().await;
    assert!(note.starts_with("`guarded` requires a login: "), "{note}");
    assert_eq!(gateway.line().await.trim(), "run `bowline login guarded`");
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A terminal that is gone ends it, as before; anybody else who sends SIGHUP wants a reload.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_hangup_of_a_terminal_ends_it() {
    let context = Context::new();
    let one = server("counter").await;
    context.user_config(&http_entry("one", &one));
    let crate::pty::Pty { master, slave } = crate::pty::Pty::open(40, 100);
    let command = context.bowline(["serve", "--listen", "127.0.0.1:0", "--no-token"]);
    let mut command = command.run_by("setsid", ["--ctty"]);
    command.stdin(slave);
    let mut gateway = Gateway::start_command(command);
    gateway.url().await;
    gateway.note().await;
    gateway.signal(Signal::HUP);
    assert_eq!(gateway.note().await, NOTHING_CHANGED);
    drop(master);
    assert_eq!(gateway.wait().await.code(), Some(0));
}
