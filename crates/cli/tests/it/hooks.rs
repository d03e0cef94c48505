//! Hooks for all servers with `connect` to a URL or a command that no file names.

use bowline_testkit as testkit;
use serde_json::Value;

use crate::connect::host::Host;
use crate::context::{Command, Context};

/// Makes a hook for all servers that writes its events to a file.
fn hook(context: &Context) -> String {
    format!("[[hooks]]\ncommand = '/bin/sh'\nargs = ['-c', 'cat >> {}']\n", context.path("told").display())
}

/// Connects and disconnects, which waits for hooks, and returns the events.
async fn run_and_read_events(context: &Context, command: Command) -> Vec<String> {
    let ended = Host::start_initialized(command).await.close().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let told = std::fs::read_to_string(context.path("told")).unwrap_or_default();
    let event = |line: &str| Some(serde_json::from_str::<Value>(line).ok()?["event"].as_str()?.to_owned());
    told.lines().map(|line| event(line).unwrap_or_else(|| panic!("{told}"))).collect()
}

#[tokio::test]
async fn a_url_has_the_hooks_for_all() {
    let context = Context::new();
    context.user_config(&hook(&context));
    let server = testkit::server().legacy().tool("echo").run().await;
    assert_eq!(
        run_and_read_events(&context, context.bowline(["connect", &server.url()])).await,
        ["connected"]
    );
}

#[tokio::test]
async fn a_command_has_the_hooks_for_all() {
    let context = Context::new();
    context.user_config(&hook(&context));
    let server = testkit::server().legacy().tool("echo").stdio().await;
    assert_eq!(
        run_and_read_events(&context, context.bowline_with(&["connect"], &server.command())).await,
        ["connected"]
    );
}

/// A hook is a command, and anybody can write a project's file.
#[tokio::test]
async fn project_hooks_run_only_if_trusted() {
    let context = Context::new();
    context.project_config(&hook(&context));
    let server = testkit::server().legacy().tool("echo").run().await;
    let connect = || context.bowline(["connect", &server.url()]);
    assert_eq!(run_and_read_events(&context, connect()).await, [""; 0]);
    context.trust_project();
    assert_eq!(run_and_read_events(&context, connect()).await, ["connected"]);
}

/// The command needs no file, so a broken one does not stop it.
#[tokio::test]
async fn a_broken_file_does_not_stand_in_the_way() {
    let context = Context::new();
    context.user_config("[[[");
    let server = testkit::server().legacy().tool("echo").run().await;
    let ended = Host::start_initialized(context.bowline(["connect", &server.url()])).await.close().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("has problems: see `bowline config check`"), "{}", ended.stderr);
}
