//! Writes frames whole and in order, on the stack of the caller whenever the stream accepts them.
//!
//! The stream has one holder at a time. While nobody holds it, a sender takes it, writes its frame
//! and puts it back: one system call, no task, no copy. While somebody holds it, frames are queued,
//! and the holder writes them with its own before it lets go. A background task takes over what the
//! stream does not accept at once. A task is also the holder when many callers send at a time: it
//! yields until every ready sender has queued its frame, then writes them together, which costs
//! less than a system call for each.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use bowline_proto::fault::{Cause, Fault};
use bowline_proto::wire::outgoing::Frame;
use bytes::{Buf, Bytes};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::AsyncWrite;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::coop::has_budget_remaining;
use tokio::task::yield_now;

/// How many bytes may be queued, 16 MiB. Beyond that [`PipeWriter::send`] waits for room.
pub const MAX_QUEUED_BYTES: u32 = 16 * 1024 * 1024;

/// The sending half of a pipe. Clones share it; dropping the last one closes it.
#[derive(Clone)]
pub struct PipeWriter(Arc<CloseOnDrop>);

/// Closes the pipe when the last [`PipeWriter`] is dropped. A running [`WriteTask`] holds only the
/// [`Shared`] inside, so that it does not keep the pipe open.
struct CloseOnDrop(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// One permit per byte that may be queued. Closed when no more frames are accepted.
    queue_permits: Semaphore,
    runtime: Handle,
    /// Whether the reader received anything since the last frame that found the stream idle.
    has_received: Arc<AtomicBool>,
}

type Sink = Box<dyn AsyncWrite + Send + Unpin>;

enum State {
    /// Nobody holds the stream, and nothing is queued.
    Idle(Sink),
    /// A [`WriteTask`] holds the stream.
    Writing(WriteQueue),
    /// No more frames are accepted, for this reason.
    Ended(Fault),
}

/// What other callers leave for the holder of the stream.
#[derive(Default)]
struct WriteQueue {
    /// Frames that the holder must write before it lets go.
    frames: VecDeque<QueuedFrame>,
    /// Whether the holder shuts the stream when the queue is empty.
    closing: bool,
    /// Wakes a holder that waits for the stream.
    waker: Option<Waker>,
}

/// The part of a frame that is not written yet.
struct QueuedFrame {
    rest: Bytes,
    /// How many queue permits it holds. The frame that found the stream idle holds none.
    permits: usize,
}

/// How soon a frame must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A caller waits for the response to this frame alone: write it at once.
    Immediate,
    /// The frame is one of many: wait for the others and write them together.
    Batched,
}

// === impl PipeWriter ===

impl PipeWriter {
    pub(super) fn new(sink: impl AsyncWrite + Send + Unpin + 'static, has_received: Arc<AtomicBool>) -> Self {
        Self(Arc::new(CloseOnDrop(Arc::new(Shared {
            state: Mutex::new(State::Idle(Box::new(sink))),
            queue_permits: Semaphore::new(MAX_QUEUED_BYTES as usize),
            runtime: Handle::current(),
            has_received,
        }))))
    }

    /// Hands a frame over if that needs no waiting, and returns whether it did. This is the usual
    /// case of [`send`](Self::send), without its future.
    pub fn try_send(&self, frame: &Frame, urgency: Urgency) -> Result<bool, Fault> {
        let (shared, line) = (&self.0.0, frame.line());
        let room = queue_cost(&line);
        Ok(has_budget_remaining() && shared.write_or_queue(line, urgency, || shared.reserve(room))?.is_none())
    }

    /// Hands a frame over. It is then written, or will be unless the link breaks, which the reader
    /// reports.
    ///
    /// Waits only while [`MAX_QUEUED_BYTES`] are queued already. An error means that no byte of the
    /// frame was written.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the frame either handed over whole or not at all.
    pub async fn send(&self, frame: &Frame) -> Result<(), Fault> {
        if !has_budget_remaining() {
            // Without coop budget left, the stream would report that it is full.
            yield_now().await;
        }
        let shared = &self.0.0;
        let line = frame.line();
        let room = queue_cost(&line);
        let Some(line) = shared.write_or_queue(line, Urgency::Immediate, || shared.reserve(room))? else {
            return Ok(());
        };
        // A closed semaphore grants nothing; `write_or_queue` then fails with the reason.
        let granted = shared.queue_permits.acquire_many(room).await.ok();
        let refused = shared.write_or_queue(line, Urgency::Immediate, || {
            granted?.forget();
            Some(room as usize)
        })?;
        match refused {
            None => Ok(()),
            Some(_) => Err(closed_fault()),
        }
    }

    /// Accepts no more frames. Queued frames are still written, then the stream is shut down, so
    /// that the peer reads the end of its input.
    pub fn close(&self) {
        self.0.0.close();
    }

    /// Shuts the stream down now and drops what is queued.
    #[cfg(feature = "stdio")]
    pub(crate) fn abort(&self) {
        self.0.0.end(closed_fault());
    }
}

/// How many queue permits a frame needs. One larger than the queue needs all of them.
fn queue_cost(line: &Bytes) -> u32 {
    u32::try_from(line.len()).unwrap_or(MAX_QUEUED_BYTES).min(MAX_QUEUED_BYTES)
}

impl fmt::Debug for PipeWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.0.0.lock() {
            State::Idle(_) => "idle",
            State::Writing(_) => "writing",
            State::Ended(_) => "ended",
        };
        f.debug_struct("PipeWriter").field("state", &state).finish()
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic.
        self.state.lock()
    }

    fn reserve(&self, room: u32) -> Option<usize> {
        self.queue_permits.try_acquire_many(room).ok()?.forget();
        Some(room as usize)
    }

    /// Writes or queues a frame. Returns it if it must be queued and `reserve` finds no room.
    fn write_or_queue(
        self: &Arc<Self>,
        line: Bytes,
        urgency: Urgency,
        reserve: impl FnOnce() -> Option<usize>,
    ) -> Result<Option<Bytes>, Fault> {
        let mut state = self.lock();
        match &mut *state {
            State::Ended(fault) => return Err(fault.clone()),
            State::Writing(held) if held.closing => return Err(closed_fault()),
            State::Writing(held) => {
                let Some(room) = reserve() else { return Ok(Some(line)) };
                held.frames.push_back(QueuedFrame { rest: line, permits: room });
                return Ok(None);
            }
            State::Idle(_) => {}
        }
        let State::Idle(sink) = mem::replace(&mut *state, State::Writing(WriteQueue::default())) else {
            unreachable!("the other states have returned")
        };
        drop(state);
        let turn = WriteTask { shared: self.clone(), sink: Some(sink), batch: VecDeque::new() };
        // The first frame after something was received is written at once: a single caller waits
        // for each response. Further frames without anything received in between come from many
        // callers.
        if self.has_received.swap(false, Ordering::Relaxed) && urgency == Urgency::Immediate {
            turn.write_now(line)?;
        } else {
            turn.spawn_batched(line);
        }
        Ok(None)
    }

    fn close(&self) {
        let mut state = self.lock();
        self.queue_permits.close();
        match &mut *state {
            State::Writing(held) => held.closing = true,
            State::Idle(_) => drop(replace_state(state, State::Ended(closed_fault()))),
            State::Ended(_) => {}
        }
    }

    /// Ends the link with `fault`, unless it has ended already.
    fn end(&self, fault: Fault) {
        let state = self.lock();
        self.queue_permits.close();
        if !matches!(*state, State::Ended(_))
            && let State::Writing(WriteQueue { waker: Some(waker), .. }) =
                replace_state(state, State::Ended(fault))
        {
            waker.wake();
        }
    }
}

/// Replaces the state. If that drops the stream, shuts it down outside the lock.
fn replace_state(mut state: MutexGuard<'_, State>, new: State) -> State {
    let mut old = mem::replace(&mut *state, new);
    drop(state);
    if let State::Idle(sink) = &mut old {
        shut_down(sink);
    }
    old
}

/// Holds the stream until nothing is queued.
///
/// As a future it continues to write. Dropped before it is done (its runtime is gone), it ends the
/// link.
struct WriteTask {
    shared: Arc<Shared>,
    /// `None` once the stream was put back or dropped.
    sink: Option<Sink>,
    /// Frames taken from the queue and not yet written.
    batch: VecDeque<QueuedFrame>,
}

/// How many frames one write contains at most.
const MAX_BATCH_FRAMES: usize = 64;
/// How many bytes one poll writes before it lets other tasks run.
const MAX_BYTES_PER_POLL: usize = 512 * 1024;

impl WriteTask {
    /// Writes the first frame on the stack of the caller. An error means that no byte of it was
    /// written.
    fn write_now(mut self, mut line: Bytes) -> Result<(), Fault> {
        let mut cx = Context::from_waker(Waker::noop());
        let sink = self.sink.as_mut().expect("the turn has just begun");
        match Pin::new(sink).poll_write(&mut cx, &line) {
            Poll::Ready(Ok(taken)) if taken > 0 => line.advance(taken),
            Poll::Ready(Ok(_)) => return Err(self.fail(&io::ErrorKind::WriteZero.into())),
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Poll::Ready(Err(error)) => return Err(self.fail(&error)),
            Poll::Pending => {}
        }
        if !line.is_empty() {
            self.batch.push_back(QueuedFrame { rest: line, permits: 0 });
        } else if Pin::new(&mut self).poll(&mut cx).is_ready() {
            // The poll has also written the frames that were queued meanwhile.
            return Ok(());
        }
        // The stream is full. The spawned task polls it again with its own waker.
        let runtime = self.shared.runtime.clone();
        runtime.spawn(self);
        Ok(())
    }

    /// Spawns a task that writes the frame together with those that others are about to queue.
    fn spawn_batched(mut self, line: Bytes) {
        self.batch.push_back(QueuedFrame { rest: line, permits: 0 });
        let runtime = self.shared.runtime.clone();
        runtime.spawn(async move {
            // Lets every task run that is ready to send.
            yield_now().await;
            self.await;
        });
    }

    /// Moves frames from the queue into the batch. Returns `false` if there are none: then the
    /// stream was put back or shut down.
    fn refill(&mut self) -> bool {
        let mut state = self.shared.lock();
        let State::Writing(held) = &mut *state else {
            drop(state);
            self.sink = None;
            return false;
        };
        if !held.frames.is_empty() {
            let some = held.frames.len().min(MAX_BATCH_FRAMES);
            self.batch.extend(held.frames.drain(..some));
            return true;
        }
        let closing = held.closing;
        if let Some(sink) = self.sink.take() {
            let held = mem::replace(&mut *state, State::Idle(sink));
            if closing {
                drop(replace_state(state, State::Ended(closed_fault())));
            }
            drop(held);
        }
        false
    }

    fn poll_write_batch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let sink = self.sink.as_mut().expect("a turn that is over is not polled");
        let mut slices = [IoSlice::new(&[]); MAX_BATCH_FRAMES];
        let mut filled = 0;
        for (slice, waiting) in slices.iter_mut().zip(&self.batch) {
            *slice = IoSlice::new(&waiting.rest);
            filled += 1;
        }
        match ready!(Pin::new(sink).poll_write_vectored(cx, &slices[..filled])) {
            Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Poll::Ready(Ok(0)),
            taken => Poll::Ready(taken),
        }
    }

    fn advance_batch(&mut self, mut taken: usize) {
        while let Some(first) = self.batch.front_mut() {
            let part = taken.min(first.rest.len());
            first.rest.advance(part);
            taken -= part;
            if !first.rest.is_empty() {
                return;
            }
            self.shared.queue_permits.add_permits(first.permits);
            self.batch.pop_front();
        }
    }

    /// Whether another caller ended the link. If not, registers `waker`, so that ending it wakes
    /// the task.
    fn is_ended(&self, waker: &Waker) -> bool {
        match &mut *self.shared.lock() {
            State::Writing(held) => {
                held.waker = Some(waker.clone());
                false
            }
            State::Idle(_) | State::Ended(_) => true,
        }
    }

    fn fail(&mut self, error: &io::Error) -> Fault {
        self.sink = None;
        let fault = Fault::before_sending(Cause::Cut).with_note(error.to_string());
        self.shared.end(fault.clone());
        fault
    }
}

impl Future for WriteTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut share = MAX_BYTES_PER_POLL;
        while share > 0 {
            if self.batch.is_empty() && !self.refill() {
                return Poll::Ready(());
            }
            match self.poll_write_batch(cx) {
                Poll::Ready(Ok(taken)) => {
                    self.advance_batch(taken);
                    share = share.saturating_sub(taken);
                }
                Poll::Ready(Err(error)) => {
                    self.fail(&error);
                    return Poll::Ready(());
                }
                Poll::Pending => break,
            }
        }
        if share == 0 {
            cx.waker().wake_by_ref();
        }
        if self.is_ended(cx.waker()) {
            self.sink = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for WriteTask {
    fn drop(&mut self) {
        if self.sink.is_some() {
            self.fail(&io::Error::other("the runtime was shut down"));
        }
    }
}

/// Shuts a stream down. Dropping it is not enough where the other half of the same stream lives on.
fn shut_down(sink: &mut Sink) {
    let _ = Pin::new(sink).poll_shutdown(&mut Context::from_waker(Waker::noop()));
}

fn closed_fault() -> Fault {
    Fault::before_sending(Cause::Closed)
}
