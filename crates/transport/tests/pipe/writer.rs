//! Every frame is written whole and in order, whatever the stream and the callers do.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bowline_proto::fault::{Cause, Execution, Exit};
use bowline_proto::wire::Json;
use bowline_proto::wire::outgoing::{Frame, notification};
use bowline_transport::pipe::{FrameReader, InboundFrame, MAX_QUEUED_BYTES, PipeReader, PipeWriter, pipe};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncWrite, empty};
use tokio::task::JoinSet;
use tokio::time::timeout;

const LIMIT: usize = 64 * 1024 * 1024;

/// A frame with its number at both ends, and `size` bytes between.
fn frame(number: usize, size: usize) -> Frame {
    let text = format!(r#"{{"n":{number},"fill":"{}","again":{number}}}"#, "x".repeat(size));
    notification("test", Some(&Json::parse(Bytes::from(text)).unwrap()))
}

async fn message(reader: &mut PipeReader) -> Bytes {
    match within(reader.recv()).await {
        Ok(InboundFrame::Message(message)) => message,
        other => panic!("expected a message, got {other:?}"),
    }
}

/// One end of a link inside this process.
struct LinkEnd {
    writer: PipeWriter,
    reader: PipeReader,
}

/// The two ends of a link, with one stream per direction, so that closing one leaves the other open.
fn pair() -> (LinkEnd, LinkEnd) {
    let (left_out, right_in) = tokio::io::duplex(64 * 1024);
    let (right_out, left_in) = tokio::io::duplex(64 * 1024);
    let (writer, reader) = pipe(left_in, left_out, LIMIT);
    let left = LinkEnd { writer, reader };
    let (writer, reader) = pipe(right_in, right_out, LIMIT);
    (left, LinkEnd { writer, reader })
}

/// No test waits for ever.
async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), future).await.expect("the test hangs")
}

fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A stream that accepts as many bytes as it is told to, and records them.
#[derive(Clone, Default)]
struct SlowStream(Arc<Mutex<SlowState>>);

#[derive(Default)]
struct SlowState {
    bytes: Vec<u8>,
    /// How many bytes one write accepts.
    write_limit: usize,
    /// How many bytes it accepts in all before it is full.
    capacity: usize,
    writes: usize,
    waker: Option<Waker>,
    dropped: bool,
}

impl SlowStream {
    fn new(at_once: usize, room: usize) -> Self {
        Self(Arc::new(Mutex::new(SlowState { write_limit: at_once, capacity: room, ..SlowState::default() })))
    }

    fn make_room(&self, room: usize) {
        let mut taken = self.0.lock();
        taken.capacity = room;
        if let Some(waker) = taken.waker.take() {
            waker.wake();
        }
    }

    async fn wait_until_dropped(&self) {
        let is_dropped = || self.0.lock().dropped;
        within(async {
            while !is_dropped() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().bytes.clone()
    }
}

/// The end that the link holds, so that its drop can be observed.
struct SlowWriter(SlowStream);

impl AsyncWrite for SlowWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut taken = self.0.0.lock();
        if taken.capacity == 0 {
            taken.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let part = bytes.len().min(taken.write_limit).min(taken.capacity);
        taken.capacity -= part;
        taken.bytes.extend_from_slice(&bytes[..part]);
        taken.writes += 1;
        Poll::Ready(Ok(part))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.poll_write(cx, &bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for SlowWriter {
    fn drop(&mut self) {
        self.0.0.lock().dropped = true;
    }
}

fn slow_pipe(slow: &SlowStream) -> PipeWriter {
    pipe(empty(), SlowWriter(slow.clone()), LIMIT).0
}

/// The hot path: no task is needed, since none runs between the two lines.
#[tokio::test]
async fn a_ready_stream_is_written_by_the_caller_in_one_write() {
    let slow = SlowStream::new(usize::MAX, usize::MAX);
    let writer = slow_pipe(&slow);
    let frame = frame(1, 100);
    assert_eq!(poll_once(pin!(writer.send(&frame))), Poll::Ready(Ok(())));
    assert_eq!(slow.bytes(), frame.line());
    assert_eq!(slow.0.lock().writes, 1);
}

/// The hot path with many callers: they share a write.
#[tokio::test]
async fn many_callers_at_a_time_share_a_write() {
    let slow = SlowStream::new(usize::MAX, usize::MAX);
    let writer = slow_pipe(&slow);
    let mut senders = JoinSet::new();
    for number in 0..64 {
        let writer = writer.clone();
        senders.spawn(async move { writer.send(&frame(number, 100)).await });
    }
    within(senders.join_all()).await;
    writer.close();
    slow.wait_until_dropped().await;
    let expected: Vec<u8> = (0..64).flat_map(|number| frame(number, 100).line()).collect();
    assert_eq!(String::from_utf8(slow.bytes()), String::from_utf8(expected));
    let count = slow.0.lock().writes;
    assert!(count <= 3, "{count} writes");
}

#[tokio::test]
async fn a_stream_that_takes_little_gets_whole_frames() {
    let slow = SlowStream::new(7, usize::MAX);
    let writer = slow_pipe(&slow);
    let mut expected = vec![];
    for number in 0..50 {
        let frame = frame(number, number);
        within(writer.send(&frame)).await.unwrap();
        expected.extend(frame.line());
    }
    writer.close();
    slow.wait_until_dropped().await;
    assert_eq!(String::from_utf8(slow.bytes()), String::from_utf8(expected));
}

/// ST-01
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn st_01_a_thousand_concurrent_sends_arrive_whole() {
    let (here, mut there) = pair();
    let mut senders = JoinSet::new();
    for number in 0..1000 {
        let writer = here.writer.clone();
        // Some much larger than what the stream holds, so that most of them meet a full one.
        let size = [10, 1_000, 200_000][number % 3];
        senders.spawn(async move { writer.send(&frame(number, size)).await });
    }
    let mut seen = BTreeMap::new();
    for _ in 0..1000 {
        let message = message(&mut there.reader).await;
        let params = Json::parse(message.clone()).unwrap().member("params").unwrap();
        let number: usize = params.member("n").unwrap().to_string().parse().unwrap();
        *seen.entry(number).or_insert(0) += 1;
        assert_eq!(message, frame(number, [10, 1_000, 200_000][number % 3]).body());
    }
    assert_eq!(seen.len(), 1000);
    while let Some(sent) = within(senders.join_next()).await {
        sent.unwrap().unwrap();
    }
}

/// One caller's frames stay in order, whether the stream takes them or not.
#[tokio::test]
async fn frames_of_one_caller_stay_in_order() {
    let (here, mut there) = pair();
    let sent = async {
        for number in 0..500 {
            here.writer.send(&frame(number, if number % 7 == 0 { 100_000 } else { 10 })).await.unwrap();
        }
    };
    let received = async {
        for number in 0..500 {
            let message = message(&mut there.reader).await;
            assert!(message.ends_with(format!(r#""again":{number}}}}}"#).as_bytes()));
        }
    };
    within(async { tokio::join!(sent, received) }).await;
}

#[tokio::test]
async fn a_dropped_send_leaves_the_whole_frame_or_nothing() {
    let slow = SlowStream::new(usize::MAX, 0);
    let writer = slow_pipe(&slow);
    let size = MAX_QUEUED_BYTES as usize / 4;
    let (mut handed_over, mut given_up) = (vec![], 0);
    for number in 0..10 {
        // Polled once and dropped: a send that waits for room is given up.
        match poll_once(pin!(writer.send(&frame(number, size)))) {
            Poll::Ready(sent) => handed_over.push((number, sent.unwrap())),
            Poll::Pending => given_up += 1,
        }
        // Odd amounts, so that frames are cut anywhere.
        slow.make_room(number * 1001 + 1);
        tokio::task::yield_now().await;
    }
    assert!(given_up > 0, "the queue was never full");
    slow.make_room(usize::MAX);
    writer.close();
    slow.wait_until_dropped().await;
    let expected: Vec<u8> = handed_over.iter().flat_map(|(number, ())| frame(*number, size).line()).collect();
    assert!(slow.bytes() == expected);
}

#[tokio::test]
async fn send_waits_while_the_peer_does_not_read() {
    let (here, mut there) = pair();
    let frame = frame(0, 1024 * 1024);
    let mut taken = 0;
    while poll_once(pin!(here.writer.send(&frame))).is_ready() {
        taken += frame.line().len();
    }
    // The frame under way and what the stream holds come on top of the queue.
    assert!(taken <= MAX_QUEUED_BYTES as usize + 2 * 1024 * 1024, "{taken} bytes were taken");
    let mut waiting = pin!(here.writer.send(&frame));
    assert!(poll_once(waiting.as_mut()).is_pending());
    message(&mut there.reader).await;
    message(&mut there.reader).await;
    within(waiting).await.unwrap();
}

#[tokio::test]
async fn after_a_write_error_nothing_is_sent() {
    let (here, there) = pair();
    drop(there);
    for number in 0..3 {
        let fault = within(here.writer.send(&frame(number, 10))).await.unwrap_err();
        assert_eq!((fault.cause, fault.execution), (Cause::Cut, Execution::NotExecuted));
    }
}

#[tokio::test]
async fn a_write_error_ends_those_who_wait() {
    let (here, there) = pair();
    let frame = frame(0, 1024 * 1024);
    while poll_once(pin!(here.writer.send(&frame))).is_ready() {}
    let waiting = pin!(here.writer.send(&frame));
    let (failed, ()) = within(async { tokio::join!(waiting, async { drop(there) }) }).await;
    assert_eq!(failed.unwrap_err().cause, Cause::Cut);
}

#[tokio::test]
async fn closing_writes_what_waits_first() {
    let (here, mut there) = pair();
    for number in 0..3 {
        here.writer.send(&frame(number, 100_000)).await.unwrap();
    }
    here.writer.close();
    let fault = here.writer.send(&frame(9, 1)).await.unwrap_err();
    assert_eq!((fault.cause, fault.execution), (Cause::Closed, Execution::NotExecuted));
    for number in 0..3 {
        assert_eq!(message(&mut there.reader).await, frame(number, 100_000).body());
    }
    // The link stays ended.
    for _ in 0..2 {
        assert_eq!(within(there.reader.recv()).await.unwrap_err().cause, Cause::Exited(Exit::Eof));
    }
    // The other direction is open.
    there.writer.send(&frame(4, 4)).await.unwrap();
}

#[tokio::test]
async fn the_last_clone_closes() {
    let (here, mut there) = pair();
    let clone = here.writer.clone();
    drop(here.writer);
    clone.send(&frame(1, 100_000)).await.unwrap();
    drop(clone);
    assert_eq!(message(&mut there.reader).await, frame(1, 100_000).body());
    assert_eq!(within(there.reader.recv()).await.unwrap_err().cause, Cause::Exited(Exit::Eof));
}

#[test]
fn a_runtime_that_ends_while_frames_wait_ends_the_link() {
    let slow = SlowStream::new(usize::MAX, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let writer = runtime.block_on(async {
        let writer = slow_pipe(&slow);
        writer.send(&frame(0, 10)).await.unwrap();
        writer
    });
    drop(runtime);
    assert!(slow.0.lock().dropped);
    let Poll::Ready(Err(fault)) = poll_once(pin!(writer.send(&frame(1, 10)))) else {
        panic!("the link takes frames nobody will write")
    };
    assert_eq!(fault.cause, Cause::Cut);
}
