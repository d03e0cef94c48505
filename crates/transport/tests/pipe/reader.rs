//! How lines are received, and how a pipe ends.

use std::time::Duration;

use bowline_proto::fault::{Cause, Exit};
use bowline_transport::pipe::{FrameReader, InboundFrame, PipeReader, pipe};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex, sink};
use tokio::time::timeout;

const LIMIT: usize = 1000;

fn reader() -> (DuplexStream, PipeReader) {
    let (far, near) = duplex(64 * 1024);
    (far, pipe(near, sink(), LIMIT).1)
}

async fn next(reader: &mut PipeReader) -> InboundFrame {
    timeout(Duration::from_secs(60), reader.recv()).await.expect("the test hangs").unwrap()
}

fn message(text: &'static str) -> InboundFrame {
    InboundFrame::Message(text.into())
}

/// ST-02
#[tokio::test]
async fn st_02_noise_is_no_end() {
    let (mut far, mut reader) = reader();
    far.write_all(b"Server running on stdio\r\n\n{\"a\":1}\r\nwarn\n[1]\n").await.unwrap();
    assert_eq!(next(&mut reader).await, InboundFrame::Noise("Server running on stdio".into()));
    assert_eq!(next(&mut reader).await, message("{\"a\":1}"));
    assert_eq!(next(&mut reader).await, InboundFrame::Noise("warn".into()));
    assert_eq!(next(&mut reader).await, message("[1]"));
}

#[tokio::test]
async fn a_message_over_the_limit_costs_itself_only() {
    let (mut far, mut reader) = reader();
    let long = format!("{{\"id\":7,\"x\":\"{}\"}}\n{{\"b\":2}}\n", "x".repeat(3 * LIMIT));
    far.write_all(long.as_bytes()).await.unwrap();
    match next(&mut reader).await {
        InboundFrame::TooLarge { head, limit } => {
            assert!(head.starts_with(b"{\"id\":7,"));
            assert_eq!(limit, LIMIT);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(next(&mut reader).await, message("{\"b\":2}"));
}

#[tokio::test]
async fn a_last_line_needs_no_newline() {
    let (mut far, mut reader) = reader();
    far.write_all(b"{\"a\":1}\n{\"b\":2}").await.unwrap();
    drop(far);
    assert_eq!(next(&mut reader).await, message("{\"a\":1}"));
    assert_eq!(next(&mut reader).await, message("{\"b\":2}"));
    for _ in 0..2 {
        assert_eq!(reader.recv().await.unwrap_err().cause, Cause::Exited(Exit::Eof));
    }
}

#[tokio::test]
async fn a_dropped_recv_loses_nothing() {
    let (mut far, mut reader) = reader();
    let text = b"{\"a\":1}\nnoise\n{\"b\":2}\n";
    let mut seen = vec![];
    for byte in text {
        far.write_all(&[*byte]).await.unwrap();
        // Polled once and dropped, after every byte.
        tokio::select! {
            biased;
            received = reader.recv() => seen.push(received.unwrap()),
            () = std::future::ready(()) => {}
        }
    }
    assert_eq!(seen, [message("{\"a\":1}"), InboundFrame::Noise("noise".into()), message("{\"b\":2}")]);
}

/// A large message is not read in small pieces, and small ones do not hold large buffers.
#[tokio::test]
async fn sizes_may_alternate() {
    let (far, near) = duplex(64 * 1024);
    let mut reader = pipe(near, sink(), 10_000_000).1;
    let sizes = [1, 3_000_000, 5, 70_000, 16_384, 2, 1_000_000];
    let writing = async move {
        let mut far = far;
        for size in sizes {
            far.write_all(format!("[\"{}\"]\n", "y".repeat(size)).as_bytes()).await.unwrap();
        }
    };
    let reading = async {
        for size in sizes {
            let InboundFrame::Message(message) = next(&mut reader).await else { panic!("no message") };
            assert_eq!(message.len(), size + 4);
        }
    };
    tokio::join!(writing, reading);
}

/// The memory of a large message is kept for the next one, but not for ever.
#[tokio::test(start_paused = true)]
async fn memory_of_a_large_message_is_given_back_after_a_while() {
    let (mut far, near) = duplex(64 * 1024);
    let mut reader = pipe(near, sink(), 1_000_000).1;
    let line = format!("[{}]\n", " ".repeat(600_000));
    let writing = tokio::spawn(async move {
        far.write_all(line.as_bytes()).await.unwrap();
        far
    });
    let InboundFrame::Message(large) = next(&mut reader).await else { panic!() };
    let mut far = writing.await.unwrap();
    assert!(timeout(Duration::from_secs(1), reader.recv()).await.is_err());
    assert!(!large.is_unique(), "the reader holds its memory too");
    // Small messages do not put it off.
    for _ in 0..3 {
        far.write_all(b"{}\n").await.unwrap();
        assert_eq!(next(&mut reader).await, message("{}"));
        assert!(timeout(Duration::from_secs(2), reader.recv()).await.is_err());
    }
    assert!(large.is_unique());
}
