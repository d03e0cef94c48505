//! The end of a command whose server does not end by itself: which step ended the server.

use std::time::{Duration, Instant};

use bowline_testkit::{self as testkit, Fault, ProcessEvent, Script};

use crate::context::Context;

/// How long a command waits after it closed the stdin of a server, before it sends SIGTERM.
const EXIT_WAIT: Duration = Duration::from_millis(300);

/// Calls a tool of a server with these faults. Returns what its process saw in the end, and how long the command took.
async fn events_after_a_call(faults: impl IntoIterator<Item = Fault>) -> (Vec<ProcessEvent>, Duration) {
    let context = Context::new();
    let script = faults.into_iter().fold(testkit::server().tool("echo"), Script::fault);
    let server = script.stdio().await;
    let mut command = context.bowline_with(&["call", "echo", "message=ahoy"], &server.command());
    let begun = Instant::now();
    let output = command.output().expect("bowline starts");
    let took = begun.elapsed();
    assert_eq!(
        (output.status.code(), &*String::from_utf8_lossy(&output.stdout)),
        (Some(0), "{\"message\":\"ahoy\"}\n")
    );
    server.expect_all_exited().await;
    (server.processes()[0].events.clone(), took)
}

#[tokio::test]
async fn server_that_ends_with_its_input_gets_no_signal() {
    let (events, _) = events_after_a_call([]).await;
    assert_eq!(events, [ProcessEvent::Eof, ProcessEvent::Ended]);
}

/// The end of the command is bounded by the wait and by the signal that follows it: without either, the server would
/// run on, and the command with it.
#[tokio::test]
async fn server_that_ignores_a_closed_stdin_is_ended_by_sigterm() {
    let (events, took) = events_after_a_call([Fault::ignore_eof()]).await;
    assert_eq!(events, [ProcessEvent::Eof, ProcessEvent::Term, ProcessEvent::Ended]);
    assert!(took >= EXIT_WAIT, "SIGTERM came before the wait was over: {took:?}");
}
