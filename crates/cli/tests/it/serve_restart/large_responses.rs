//! Hosts of every revision that come back for the response to a call after the gateway was killed, also for one that
//! is larger than what is kept of a session otherwise.

use bowline_testkit::{self as testkit};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{Lines, RawHost, start, text};
use crate::connect::host::TEST_TIMEOUT;
use crate::context::Context;
use crate::status::http_entry;

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
const MIB: u64 = 1024 * 1024;

/// A call that reports progress once and has a result of this many bytes.
fn call(bytes: u64) -> Value {
    let arguments = json!({"ms": 20, "steps": 1, "bytes": bytes});
    json!({"name": "slow", "arguments": arguments, "_meta": {"progressToken": "steps"}})
}

/// Reads a response up to the progress in it, and returns the id of that event.
async fn read_progress(answer: &mut Lines) -> String {
    let mut id = String::new();
    loop {
        let line = answer.next().await.expect("progress");
        if let Some(value) = line.strip_prefix("id: ") {
            value.clone_into(&mut id);
        }
        if line.contains("notifications/progress") {
            return id;
        }
    }
}

/// Waits until the file of the only session has a whole entry of at least this many bytes. Nobody says when it has.
async fn wait_for_journal(context: &Context, bytes: u64) {
    let folder = context.path("home/.local/state/bowline/sessions");
    let is_recorded = || {
        let files = std::fs::read_dir(&folder).expect("a folder").flatten();
        files.filter_map(|file| std::fs::read(file.path()).ok()).any(|file| has_entry(&file, bytes))
    };
    let waiting = async {
        while !is_recorded() {
            sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.expect("it is recorded in time");
}

/// Whether one of the frames of a file is whole and has at least this many bytes. A frame begins with its length.
fn has_entry(file: &[u8], bytes: u64) -> bool {
    let mut rest = file.get(HEADER_LENGTH..).unwrap_or_default();
    while let Some((length, frames)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length);
        let Some((_, next)) = frames.split_at_checked(length as usize) else { return false };
        if u64::from(length) >= bytes {
            return true;
        }
        rest = next;
    }
    false
}

/// The length of what is before the frames of a file: a name, and the time at which it may be removed.
const HEADER_LENGTH: usize = 16 + 8;

/// Kills the gateway after the response was recorded, or begun if it is too large for that, and returns what the host
/// gets when it comes back.
async fn response_after_kill(revision: &str, bytes: u64) -> Value {
    let context = Context::new();
    let one = testkit::server().legacy().tool("slow").run().await;
    context.user_config(&http_entry("one", &one));
    let (gateway, url) = start(&context).await;
    let mut host = RawHost::new(&url);
    host.initialize_with(revision).await;
    let mut answer = host.request(7, "tools/call", call(bytes)).await;
    let progress = read_progress(&mut answer).await;
    if bytes <= 6 * MIB {
        wait_for_journal(&context, bytes).await;
    } else {
        assert_ne!(answer.value_of("id: ").await, progress);
    }
    gateway.kill().await;
    let (gateway, url) = start(&context).await;
    host.move_to(&url);
    // The connection may break again.
    for _ in 0..2 {
        let mut resumed = host.send("GET", &format!("last-event-id: {progress}\r\n"), "").await;
        assert_eq!(resumed.next().await.as_deref(), Some("HTTP/1.1 200 OK"), "{revision}");
    }
    let mut resumed = host.send("GET", &format!("last-event-id: {progress}\r\n"), "").await;
    let message = resumed.message().await;
    assert_eq!(message["id"], 7, "{revision}");
    assert_eq!(one.executions("slow"), 1);
    assert_eq!(gateway.terminate().await.code(), Some(0));
    message
}

/// HL-07: a result that was recorded is what the host gets.
#[tokio::test]
async fn hl_07_a_recorded_result_of_five_mebibytes_is_resumed() {
    for revision in REVISIONS {
        let message = response_after_kill(revision, 5 * MIB).await;
        assert_eq!(text(&message), "x".repeat(5 * 1024 * 1024), "{revision}");
    }
}

/// HL-07: in place of a result that is too large to be recorded, the host gets an error for its request.
#[tokio::test]
async fn hl_07_a_result_that_is_too_large_is_resumed_as_an_error() {
    for revision in REVISIONS {
        let message = response_after_kill(revision, 7 * MIB).await;
        assert_eq!(message["error"]["code"], -31050, "{revision}");
        let facts = json!({"cause": "too_large", "execution": "unknown"});
        assert_eq!(message["error"]["data"]["bowline"], facts, "{revision}");
    }
}

/// HL-07: what the log in memory has no room for, a host that comes back to a live gateway gets as well as after a
/// restart.
#[tokio::test]
async fn hl_07_a_large_result_is_resumed_from_a_live_gateway() {
    for (bytes, is_kept) in [(5 * MIB, true), (7 * MIB, false)] {
        let context = Context::new();
        let one = testkit::server().legacy().tool("slow").run().await;
        context.user_config(&http_entry("one", &one));
        let (gateway, url) = start(&context).await;
        let mut host = RawHost::new(&url);
        host.initialize().await;
        let mut answer = host.request(7, "tools/call", call(bytes)).await;
        let progress = read_progress(&mut answer).await;
        let result = answer.message().await;
        assert_eq!(text(&result).len() as u64, bytes);
        drop(answer);
        for _ in 0..2 {
            let mut resumed = host.send("GET", &format!("last-event-id: {progress}\r\n"), "").await;
            let message = resumed.message().await;
            if is_kept {
                assert!(message == result, "the same result of {bytes} bytes");
            } else {
                let facts = json!({"cause": "too_large", "execution": "unknown"});
                assert_eq!((&message["id"], &message["error"]["code"]), (&json!(7), &json!(-31050)));
                assert_eq!(message["error"]["data"]["bowline"], facts);
            }
        }
        assert_eq!(one.executions("slow"), 1);
        assert_eq!(gateway.terminate().await.code(), Some(0));
    }
}

/// A call of an older host that was open when the gateway was killed is answered, and not sent again.
#[tokio::test]
async fn an_open_call_of_an_older_host_is_answered_after_a_kill() {
    for revision in REVISIONS {
        let context = Context::new();
        let one = testkit::server().legacy().tool("slow").tool("counter").run().await;
        context.user_config(&http_entry("one", &one));
        let (gateway, url) = start(&context).await;
        let mut host = RawHost::new(&url);
        host.initialize_with(revision).await;
        // An older host gets this response as JSON, without an event to resume from.
        assert_eq!(text(&host.call(1, "counter", json!({})).await), "1");
        let arguments = json!({"ms": 600_000, "steps": 60_000});
        let params = json!({"name": "slow", "arguments": arguments, "_meta": {"progressToken": "steps"}});
        let mut answer = host.request(7, "tools/call", params).await;
        let progress = read_progress(&mut answer).await;
        gateway.kill().await;
        let (gateway, url) = start(&context).await;
        host.move_to(&url);
        let mut resumed = host.send("GET", &format!("last-event-id: {progress}\r\n"), "").await;
        let message = resumed.message().await;
        assert_eq!((&message["id"], &message["error"]["code"]), (&json!(7), &json!(-31050)), "{revision}");
        assert_eq!(message["error"]["data"]["bowline"]["execution"], "unknown");
        assert_eq!((one.executions("slow"), one.executions("counter")), (1, 1));
        assert_eq!(gateway.terminate().await.code(), Some(0));
    }
}
