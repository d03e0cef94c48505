//! Interrupts: the call is canceled on the server before bowline exits.

use std::process::{Child, Stdio};
use std::time::Duration;

use bowline_testkit::{self as testkit, Control, Fault, ProcessEvent};
use rustix::process::{Pid, Signal, kill_process};

use crate::context::{Command, Context};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bowline starts")
}

fn send(signal: Signal, child: &Child) {
    kill_process(Pid::from_child(child), signal).expect("it is still there");
}

/// Signals `child` once the tool runs, and returns its exit code.
async fn exit_code_after_signal(child: Child, server: &Control, signal: Signal) -> Option<i32> {
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    send(signal, &child);
    let server = server.clone();
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().expect("it ends"));
    let output = tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("it ends in time").expect("no panic");
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
    output.status.code()
}

#[tokio::test]
async fn a_legacy_http_server_gets_a_cancellation() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("slow").run().await;
    let child = spawn(context.bowline(["call", &server.url(), "slow", "ms=60000"]));
    assert_eq!(exit_code_after_signal(child, &server, Signal::INT).await, Some(130));
    assert_eq!(server.count("notifications/cancelled"), 1);
    // The session was closed too.
    assert_eq!(server.count("DELETE"), 1);
}

#[tokio::test]
async fn a_modern_http_server_sees_the_stream_close() {
    let context = Context::new();
    let server = testkit::server().modern().tool("slow").run().await;
    let child = spawn(context.bowline(["call", &server.url(), "slow", "ms=60000"]));
    assert_eq!(exit_code_after_signal(child, &server, Signal::INT).await, Some(130));
}

#[tokio::test]
async fn a_stdio_server_gets_a_cancellation_and_is_ended() {
    let context = Context::new();
    let server = testkit::server().tool("slow").stdio().await;
    let child = spawn(context.bowline_with(&["call", "slow", "ms=60000"], &server.command()));
    assert_eq!(exit_code_after_signal(child, &server, Signal::TERM).await, Some(143));
    assert_eq!(server.count("notifications/cancelled"), 1);
    server.expect_all_exited().await;
}

#[tokio::test]
async fn connecting_can_be_interrupted() {
    let context = Context::new();
    let server = testkit::server().tool("slow").fault(Fault::silent().always()).stdio().await;
    let child = spawn(context.bowline_with(&["tools"], &server.command()));
    server.wait_until(|server| !server.received().is_empty(), TEST_TIMEOUT).await;
    send(Signal::INT, &child);
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().expect("it ends"));
    let output = tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("it ends in time").expect("no panic");
    assert_eq!(output.status.code(), Some(130));
    server.expect_all_exited().await;
}

/// A server that ignores everything, and its children, do not outlive bowline.
#[tokio::test]
async fn a_stubborn_server_does_not_outlive_an_interrupted_connect() {
    let context = Context::new();
    let script = testkit::server()
        .tool("slow")
        .fault(Fault::silent().always())
        .fault(Fault::ignore_term())
        .fault(Fault::ignore_eof());
    let server = script.stdio().await;
    let child = spawn(context.bowline_with(&["tools"], &server.command()));
    server.wait_until(|server| !server.received().is_empty(), TEST_TIMEOUT).await;
    let grandchild = server.spawn_grandchild().await;
    // Two signals: the second one skips the orderly shutdown.
    send(Signal::INT, &child);
    // The end of the server's stdin shows that the first signal was handled: it begins the orderly
    // shutdown.
    server.wait_until(|_| server.processes()[0].events.contains(&ProcessEvent::Eof), TEST_TIMEOUT).await;
    send(Signal::INT, &child);
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().expect("it ends"));
    let output = tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("it ends in time").expect("no panic");
    assert_eq!(output.status.code(), Some(130));
    server.wait_until(|_| server.processes().iter().all(|process| !process.is_running()), TEST_TIMEOUT).await;
    assert!(testkit::wait_for_exit(grandchild, TEST_TIMEOUT).await, "the grandchild is still there");
}

/// A server that exits slowly delays neither the result nor the error of a command.
#[tokio::test]
async fn outcomes_are_printed_before_a_stubborn_server_has_ended() {
    let context = Context::new();
    let script =
        testkit::server().tool("echo").tool("slow").fault(Fault::ignore_term()).fault(Fault::ignore_eof());
    let (echo, slow) = (["call", "echo", "text=here"], ["call", "--timeout", "1s", "slow", "ms=60000"]);
    for (words, code) in [(&echo[..], 0), (&slow, 4)] {
        let server = script.clone().stdio().await;
        let mut child = spawn(context.bowline_with(words, &server.command()));
        let mut output: Box<dyn std::io::Read + Send> = match code {
            0 => Box::new(child.stdout.take().expect("a pipe")),
            _ => Box::new(child.stderr.take().expect("a pipe")),
        };
        let told = tokio::task::spawn_blocking(move || {
            output.read_exact(&mut [0]).expect("a byte");
            output
        });
        let output = tokio::time::timeout(TEST_TIMEOUT, told).await.expect("it is told").expect("no panic");
        assert!(server.processes()[0].is_running(), "{words:?}: only told after the server had ended");
        let ended = tokio::task::spawn_blocking(move || child.wait().expect("it ends"));
        let status =
            tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("it ends in time").expect("no panic");
        assert_eq!(status.code(), Some(code), "{words:?}");
        drop(output);
        server.expect_all_exited().await;
    }
}

/// One signal is enough while a stubborn server is being closed, and the server is killed.
#[tokio::test]
async fn a_signal_ends_unread_output_while_a_stubborn_server_is_closed() {
    let context = Context::new();
    let script = testkit::server().tool("big").fault(Fault::ignore_term()).fault(Fault::ignore_eof());
    let server = script.stdio().await;
    let mut child = spawn(context.bowline_with(&["call", "big", "bytes=4000000"], &server.command()));
    let _unread = child.stdout.take();
    let is_closed =
        |_: &Control| server.processes().iter().any(|process| process.events.contains(&ProcessEvent::Eof));
    server.wait_until(is_closed, TEST_TIMEOUT).await;
    send(Signal::INT, &child);
    let ended = tokio::task::spawn_blocking(move || child.wait().expect("it ends"));
    let status = tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("it ends in time").expect("no panic");
    assert_eq!(status.code(), Some(130));
    server.wait_until(|_| server.processes().iter().all(|process| !process.is_running()), TEST_TIMEOUT).await;
}

/// A signal ends bowline while it writes to a pipe that nobody reads.
#[tokio::test]
async fn a_signal_ends_output_that_nobody_reads() {
    let context = Context::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        // More than a pipe holds.
        let text = "x".repeat(4 << 20);
        let server = testkit::server()
            .tool_fn("say", serde_json::json!({"type": "object"}), move |_| text.clone().into())
            .run()
            .await;
        let mut child = spawn(context.bowline(["call", &server.url(), "say"]));
        // After the first byte of output nothing listens for signals any more.
        let mut stdout = child.stdout.take().expect("a pipe");
        let stdout = tokio::task::spawn_blocking(move || {
            std::io::Read::read_exact(&mut stdout, &mut [0]).expect("a byte");
            stdout
        });
        let stdout = tokio::time::timeout(TEST_TIMEOUT, stdout).await.expect("output").expect("no panic");
        send(signal, &child);
        let ended = tokio::task::spawn_blocking(move || child.wait().expect("it ends"));
        let status =
            tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("it ends in time").expect("no panic");
        assert_eq!(status.code(), Some(code));
        drop(stdout);
    }
}

/// `nohup` works: a hangup does not end a command that ignores it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_signal_that_is_ignored_stays_ignored() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("slow").run().await;
    let bowline = context.bowline(["call", &server.url(), "slow", "ms=60000"]);
    let child = spawn(bowline.run_by("/bin/sh", ["-c", "trap '' HUP; exec \"$@\"", "sh"]));
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    send(Signal::HUP, &child);
    // If SIGHUP had ended it, the exit code would differ.
    assert_eq!(exit_code_after_signal(child, &server, Signal::TERM).await, Some(143));
}
