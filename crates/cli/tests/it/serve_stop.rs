//! Signals to `bowline serve` at its beginning and at its end.

use std::process::Stdio;

use bowline_testkit as testkit;
use rustix::process::Signal;
use serde_json::json;

use crate::connect::host::{Host, TEST_TIMEOUT};
use crate::context::{Context, to_pid};
use crate::status::http_entry;

/// A host on stdio learns what has become of its calls.
#[tokio::test]
async fn open_calls_on_stdio_are_answered_at_the_end() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("slow").run().await;
    context.user_config(&http_entry("one", &one));
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio", "--alone"])).await;
    let params = json!({"name": "slow", "arguments": {"ms": 60_000}});
    let call = host.send_request("tools/call", params).await;
    one.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    rustix::process::kill_process(to_pid(host.id()), Signal::TERM).expect("it runs");
    let answer = host.wait_for_response(call).await;
    let facts = json!({"cause": "closed", "execution": "unknown"});
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["bowline"]), (&json!(-31050), &facts));
    assert_eq!(host.close().await.status.code(), Some(0));
    assert_eq!(one.cancellations().len(), 1);
}

/// SIGHUP means to read the configuration, also before it was read for the first time.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn sighup_while_it_starts_does_not_end_it() {
    let context = Context::new();
    // It takes a while to read this, and then to find that nothing can be served.
    let entries = (0..5_000).map(|number| format!("[servers.s{number}]\nurl = 'http://127.0.0.1:9/mcp'\n"));
    context.user_config(&entries.collect::<String>());
    let mut command = context.bowline(["serve", "--listen", "127.0.0.1:0", "nobody"]);
    command.stderr(Stdio::piped());
    let mut child = command.spawn_async().expect("bowline starts");
    let status = format!("/proc/{}/status", child.id().expect("it runs"));
    let hears_hangups = || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).expect("a mask") & 1 == 1)
    };
    while !hears_hangups() {
        assert!(child.try_wait().expect("a process").is_none(), "it never heard SIGHUP");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    rustix::process::kill_process(to_pid(child.id().expect("it runs")), Signal::HUP).expect("it runs");
    let ended = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.expect("it ends").expect("it ends");
    assert_eq!(ended.code(), Some(2), "it ends by itself");
}

/// To read a pipe that nobody writes to would take forever.
#[tokio::test]
async fn a_token_file_that_is_no_file_is_refused() {
    let context = Context::new();
    context.user_config("[servers.one]\nurl = 'http://127.0.0.1:9/mcp'\n");
    let pipe = context.path("token");
    let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let path = pipe.to_str().expect("text");
    let shown = context.run(context.bowline(["serve", "--listen", "127.0.0.1:0", "--token-file", path]));
    assert!(shown.starts_with("exit: 2\n") && shown.contains("it is not a regular file"), "{shown}");
}
