//! `bowline demo`: no call fails under faults, and the summary adds up.

use std::process::Output;

use serde_json::Value;

use crate::context::Context;

/// Runs the demo for four seconds and returns the exit code and the summary.
fn summary(seed: &str) -> (Option<i32>, Value) {
    let context = Context::new();
    let output = context.bowline(["demo", "--seconds", "4", "--seed", seed, "--json"]).output().unwrap();
    let summary =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), summary)
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn sum(rows: &Value, member: &str) -> u64 {
    let rows = rows.as_array().expect("a list");
    rows.iter().map(|row| row[member].as_u64().expect("a number")).sum()
}

/// The promise of the demo: faults of every kind, and no failed call.
#[test]
fn no_call_fails_under_faults_of_every_kind() {
    let (code, summary) = summary("3");
    assert_eq!(summary["failed"], 0, "{summary:#}");
    assert_eq!(summary["executions"]["twice"], 0, "{summary:#}");
    assert_eq!((code, &summary["ok"]), (Some(0), &Value::Bool(true)), "{summary:#}");
    // Precondition: faults occurred.
    let recovered = |row: &&Value| row["losses"].as_u64() > Some(0) && row["recoveries"] == row["losses"];
    let signatures = summary["signatures"].as_array().expect("a list");
    assert!(signatures.iter().filter(recovered).count() >= 3, "{summary:#}");
    assert!(summary["restarts"]["recoveries"].as_u64() >= Some(1), "{summary:#}");
    assert!(summary["calls"].as_u64() >= Some(50), "{summary:#}");
}

/// In a 200 the text of a session loss may be a tool's own, so a probe decides. Several calls are
/// pending then, and each of them must be retried.
#[test]
fn a_loss_that_needs_a_probe_is_recovered() {
    let (code, summary) = summary("5");
    let signatures = summary["signatures"].as_array().expect("a list");
    let in_success = |row: &&Value| row["signature"].as_str().is_some_and(|name| name.starts_with("200"));
    assert_eq!(signatures.iter().filter(in_success).count(), 2, "{summary:#}");
    assert_eq!((code, &summary["failed"]), (Some(0), &Value::from(0)), "{summary:#}");
}

#[test]
fn the_summary_adds_up() {
    let (_, summary) = summary("9");
    let number = |pointer: &str| summary.pointer(pointer).and_then(Value::as_u64).expect(pointer);
    assert_eq!(number("/calls"), number("/answered") + number("/failed"), "{summary:#}");
    // The server's count of executions, against the callers' successes.
    let ran = number("/executions/once") + number("/executions/repeatable");
    assert_eq!(ran, number("/answered"), "{summary:#}");
    let kinds = ["/restarts", "/cuts", "/stream_cuts", "/unplanned"];
    let of = |member: &str| -> u64 {
        let others: u64 = kinds.iter().map(|kind| number(&format!("{kind}/{member}"))).sum();
        sum(&summary["signatures"], member) + others
    };
    assert_eq!(of("losses"), number("/losses"), "{summary:#}");
    assert_eq!(of("recoveries"), number("/recoveries"), "{summary:#}");
    assert_eq!(number("/losses"), number("/recoveries"), "{summary:#}");
    assert_eq!(number("/streams_cut"), number("/streams_resumed"), "{summary:#}");
    // Only a cut connection can cause a second execution, and not if it was cut before the call ran.
    assert!(number("/executions/repeated") <= number("/connections_cut"), "{summary:#}");
}

#[test]
fn a_pipe_gets_one_line_per_event() {
    let context = Context::new();
    let output = context.bowline(["demo", "--seconds", "1", "--seed", "7"]).output().unwrap();
    let told = text(&output);
    for part in [
        "A server in this process: knots ",
        "strength  What a knotted rope holds",
        "4. take it back down the loop and draw it tight",
        "Trouble for 1 s, seed 7",
        "the server forgets all sessions: ",
        "the client recovered in ",
        "failed           0",
        "ran twice        0",
        "It held: ",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains('\u{1b}'), "{told}");
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

#[test]
fn the_duration_is_limited() {
    let context = Context::new();
    for seconds in ["0", "3601", "soon"] {
        let output = context.bowline(["demo", "--seconds", seconds]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{seconds}");
    }
}

#[cfg(unix)]
mod unix {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use crate::terminal::on_terminal_of;

    /// Returns what a terminal receives in a run of one second.
    fn on_terminal() -> String {
        let demo = ["demo", "--seconds", "1", "--seed", "9", "--color", "never"];
        on_terminal_of(80, Context::new().bowline(demo))
    }

    #[test]
    fn a_terminal_shows_a_live_view_and_is_restored() {
        let seen = on_terminal();
        let (before, rest) = seen.split_once("\x1b[?1049h").expect("the other screen is taken");
        let (picture, after) = rest.split_once("\x1b[?1049l").expect("and given back");
        assert!(before.contains("A call: tie"), "{before}");
        assert!(picture.contains("bowline demo   0.") && picture.contains("of 1 s"), "{picture}");
        assert!(picture.contains("the server forgets all sessions"), "{picture}");
        assert_eq!(picture.matches("\x1b[?25l").count(), picture.matches("\x1b[?25h").count());
        // The summary stays on the screen as plain text.
        assert!(after.contains("It held: ") && !after.contains('\x1b'), "{after:?}");
        assert!(after.lines().all(|line| line.trim_end().len() <= 80), "{after}");
    }

    #[test]
    fn ctrl_c_ends_it_with_the_summary() {
        let context = Context::new();
        let begun = Instant::now();
        let mut command = context.bowline(["demo", "--seconds", "60", "--seed", "9"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("recovered") {
            line.clear();
            assert_ne!(told.read_line(&mut line).unwrap(), 0, "it ended before it began");
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
        assert!(rest.contains("It held: "), "{rest}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
