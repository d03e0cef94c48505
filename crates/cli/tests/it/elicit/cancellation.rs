//! Forms that close before they are answered, and calls that wait for a form.

use bowline_testkit::Script;
use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::{TEST_TIMEOUT, context_with_server, form_server, start_call, tool_reply};
use crate::context::Context;
use crate::pty::{CTRL_C, DOWN, ENTER, ESCAPE, Person};

/// Checks that the call is canceled on the server, the terminal restored, and the exit code that of
/// an interrupt.
async fn check_interrupt(script: Script, how: impl FnOnce(&mut Person), code: i32) {
    let server = script.stdio().await;
    let context = context_with_server(&server);
    let mut person = start_call(&context);
    person.sees("> Answer");
    person.answers(ENTER, "1/6");
    assert!(person.is_asked());
    how(&mut person);
    let end = person.leaves();
    assert_eq!(end.code, code, "{}", end.screen);
    assert_eq!(end.stdout, "");
    assert!(!end.screen.contains("1/6"), "{}", end.screen);
    server.expect_all_exited().await;
    // A modern server's request was over when it required input: there is nothing to cancel and no
    // retry.
    let calls = server.received().iter().filter(|received| received.tool() == Some("book")).count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn ctrl_c_in_a_form_cancels_the_call() {
    let script = form_server().legacy();
    let server = script.stdio().await;
    let context = context_with_server(&server);
    let mut person = start_call(&context);
    person.sees("> Answer");
    person.presses(CTRL_C);
    let end = person.leaves();
    assert_eq!(end.code, 130, "{}", end.screen);
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
}

#[tokio::test]
async fn ctrl_c_in_a_modern_form_sends_nothing() {
    check_interrupt(form_server().modern(), |person| _ = person.presses(CTRL_C), 130).await;
}

#[tokio::test]
async fn a_signal_in_a_form_leaves_the_terminal_as_it_was() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        for script in [form_server().legacy(), form_server().modern()] {
            let send = |person: &mut Person| kill_process(person.pid(), signal).expect("it is there");
            check_interrupt(script, send, code).await;
        }
    }
}

/// CN-04: the server cancels its elicitation; the dialog closes, and the call goes on.
#[tokio::test]
async fn cn_04_a_canceled_elicitation_leaves_the_screen() {
    let server = form_server().legacy().stdio().await;
    let context = context_with_server(&server);
    let mut person = start_call(&context);
    person.sees("> Answer");
    person.answers(ENTER, "1/6");
    let asked = server.pending_server_requests();
    assert!(server.cancel_server_request(&asked[0].id, "never mind"));
    person.sees_no("1/6");
    let end = person.leaves();
    assert_eq!(tool_reply(&end, "stay"), json!({"cancelled": "never mind"}));
    assert_eq!(server.violations(), [""; 0]);
}

/// Runs another call that times out after this time.
fn run_call_with_timeout(context: &Context, limit: &str) {
    let call = ["call", "hotel", "slow", "ms:=60000", "--timeout", limit, "--max-timeout", limit];
    let shown = context.run(context.bowline(call));
    assert!(shown.contains("in time"), "{shown}");
}

/// The deadline of the call is paused while a person answers.
#[tokio::test]
async fn the_call_deadline_pauses_for_the_person() {
    for script in [form_server().tool("slow").legacy(), form_server().tool("slow").modern()] {
        let server = script.stdio().await;
        let context = context_with_server(&server);
        let limits = ["--timeout", "3s", "--max-timeout", "4s"];
        let mut person =
            Person::sits_at(context.bowline(["call", "--json", "hotel", "book"].into_iter().chain(limits)));
        person.sees("> Answer");
        // Longer than either timeout: this time must not count.
        run_call_with_timeout(&context, "5s");
        person.answers(DOWN, "> Decline");
        person.presses(ENTER);
        assert_eq!(tool_reply(&person.leaves(), "stay"), json!({"action": "decline"}));
    }
}

/// A moving progress bar or notes would overwrite the form.
#[tokio::test]
async fn the_progress_bar_stops_during_a_form() {
    let server = form_server().tool("slow").modern().stdio().await;
    let context = context_with_server(&server);
    let mut person = Person::sits_at(context.bowline(["call", "hotel", "book", "-v"]));
    person.sees("> Answer");
    let before = person.answers(ENTER, "1/6");
    // The bar is drawn ten times a second; it must not be during this time.
    run_call_with_timeout(&context, "500ms");
    assert_eq!(person.screen(), before);
    assert_eq!(before.matches("book").count(), 1, "the heading alone names it: {before}");
    person.presses(ESCAPE);
    let end = person.leaves();
    assert!(end.stdout.contains("cancel"), "{}", end.stdout);
}
