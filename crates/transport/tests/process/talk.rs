//! Messages to and from a server process.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Waker};

use crate::support::{LONG_GRACE, SHORT_GRACE, end, frame, message, next, sh, start, within};
use bowline_proto::fault::{Cause, Exit};
use bowline_transport::pipe::InboundFrame;
use tokio::task::JoinSet;

/// ST-01: one message is one line, whatever its text contains.
#[tokio::test]
async fn st_01_round_trip() {
    let mut process = start(&sh("exec cat"), LONG_GRACE).await;
    for text in ["plain", "two\nlines\r\n", "\u{2028}", ""] {
        let frame = frame(text);
        process.writer.send(&frame).await.unwrap();
        assert_eq!(message(&mut process.reader).await.as_bytes(), frame.body());
    }
    assert_eq!(process.handle.shutdown().await, Exit::Code(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_concurrent_sends_come_back_whole() {
    let mut process = start(&sh("exec cat"), LONG_GRACE).await;
    let mut senders = JoinSet::new();
    let text = |number: usize| format!("{number} {}", "x".repeat(number * 50));
    for number in 0..1000 {
        let writer = process.writer.clone();
        senders.spawn(async move { writer.send(&frame(&text(number))).await.unwrap() });
    }
    let mut expected: BTreeSet<_> = (0..1000).map(|number| frame(&text(number)).body()).collect();
    for _ in 0..1000 {
        let echoed = message(&mut process.reader).await;
        assert!(expected.remove(echoed.as_bytes()), "unknown or twice: {echoed}");
    }
    within(senders.join_all()).await;
}

/// ST-02
#[tokio::test]
async fn st_02_a_banner_is_noise() {
    let mut process = start(&sh(r#"echo 'Listening on stdio'; echo '{"a":1}'; exec cat"#), LONG_GRACE).await;
    assert_eq!(next(&mut process.reader).await, InboundFrame::Noise("Listening on stdio".into()));
    assert_eq!(message(&mut process.reader).await, r#"{"a":1}"#);
}

/// ST-03: were stderr not read, the script would block on it for ever.
#[tokio::test]
async fn st_03_a_megabyte_on_stderr() {
    let flood = r"head -c 1000000 /dev/zero | tr '\0' x >&2; echo >&2; echo last >&2";
    let mut process = start(&sh(&format!(r#"{flood}; echo '{{"done":1}}'; exec cat"#)), LONG_GRACE).await;
    assert_eq!(message(&mut process.reader).await, r#"{"done":1}"#);
    process.handle.shutdown().await;
    let tail = process.handle.stderr_tail();
    assert_eq!(tail.len(), 2);
    assert!(tail[0].len() < 2000, "{} bytes kept", tail[0].len());
    assert_eq!(tail[1], "last");
}

#[tokio::test]
async fn half_a_line_then_exit() {
    let mut process = start(&sh(r#"echo '{"a":1}'; printf '{"half'; exit 1"#), LONG_GRACE).await;
    assert_eq!(message(&mut process.reader).await, r#"{"a":1}"#);
    // Half a message is not a response.
    assert!(matches!(next(&mut process.reader).await, InboundFrame::Noise(half) if half == r#"{"half"#));
    assert_eq!(end(&mut process.reader).await.cause, Cause::Exited(Exit::Code(1)));
}

#[tokio::test]
async fn a_server_that_does_not_read_slows_the_caller_and_can_be_ended() {
    let process = start(&sh("exec sleep 1000"), SHORT_GRACE).await;
    let large = frame(&"x".repeat(1024 * 1024));
    let mut cx = Context::from_waker(Waker::noop());
    let mut sent = 0;
    while pin!(process.writer.send(&large)).poll(&mut cx).is_ready() {
        sent += 1;
        assert!(sent < 100, "no end to what is queued");
    }
    let waiting = process.writer.send(&large);
    let (fault, exit) = within(async { tokio::join!(waiting, process.handle.shutdown()) }).await;
    assert_eq!(fault.unwrap_err().cause, Cause::Closed);
    assert_eq!(exit, Exit::Signal(15));
}

#[tokio::test]
async fn sending_to_a_dead_process_fails() {
    let mut process = start(&sh("exit 0"), LONG_GRACE).await;
    end(&mut process.reader).await;
    let fault = within(process.writer.send(&frame("x"))).await;
    // The system may accept one frame before it notices.
    let fault = match fault {
        Ok(()) => within(process.writer.send(&frame("x"))).await.unwrap_err(),
        Err(fault) => fault,
    };
    assert_eq!(fault.cause, Cause::Cut);
}
