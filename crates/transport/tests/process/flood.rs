//! A server that floods stderr costs no memory and delays no call. Alone in its file, and so in its
//! process, because it measures memory.

use std::time::{Duration, Instant};

use crate::support::{LONG_GRACE, frame, message, peak, sh, start};

/// ST-03: 100 MB in lines, as fast as they are taken, while calls go on.
#[tokio::test]
async fn st_03_a_hundred_megabytes_on_stderr_while_calls_go_on() {
    let line = "x".repeat(199);
    let flood = format!(r#"(yes {line} | head -c 100000000 >&2; echo '{{"flood":"over"}}') &"#);
    let before = peak();
    let mut process = start(&sh(&format!("{flood} exec cat")), LONG_GRACE).await;
    let (mut calls, mut slowest) = (0, Duration::ZERO);
    let mut flooding = true;
    let begun = Instant::now();
    while flooding {
        let call = frame(&calls.to_string());
        let asked = Instant::now();
        process.writer.send(&call).await.unwrap();
        loop {
            let answer = message(&mut process.reader).await;
            if answer.as_bytes() == call.body() {
                break;
            }
            assert_eq!(answer, r#"{"flood":"over"}"#);
            flooding = false;
        }
        slowest = slowest.max(asked.elapsed());
        calls += 1;
    }
    // The number of calls depends on the machine; that none waited for the end of the flood does
    // not.
    assert!(calls >= 5, "only {calls} calls: nothing was seen");
    let lasted = begun.elapsed();
    let limit = (lasted / 2).max(Duration::from_millis(500));
    assert!(slowest < limit, "the slowest of {calls} calls took {slowest:?} of {lasted:?}");
    let grown = peak() - before;
    assert!(grown < 16 * 1024 * 1024, "grew by {grown} bytes");
    let tail = process.handle.stderr_tail();
    assert!(tail.len() > 1 && tail.iter().rev().skip(1).all(|kept| *kept == line), "{tail:?}");
}
