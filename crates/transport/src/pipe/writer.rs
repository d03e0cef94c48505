//! How frames leave: whole, in order, and from the caller's own stack whenever the stream takes them.
//!
//! The stream has one holder at a time. While nobody holds it, a sender takes it, writes its frame and
//! puts it back: one system call, no task, no copy. While somebody holds it, frames are queued, and the
//! holder writes them with its own before it lets go. What the stream does not take at once is written by
//! a task, which then is the holder. A task also is the holder when many send at a time: it waits until
//! all who are ready to send have sent, and writes their frames at once, which costs less than a system
//! call for each.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bowline_proto::fault::{Cause, Fault};
use bowline_proto::wire::outgoing::Frame;
use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::coop::has_budget_remaining;
use tokio::task::yield_now;

/// How many bytes may wait to be written. Beyond that [`PipeWriter::send`] waits for room.
pub const QUEUE: u32 = 16 * 1024 * 1024;

/// The sending half of a pipe. Clones share it; when the last is gone it is closed.
#[derive(Clone)]
pub struct PipeWriter(Arc<Clones>);

/// What the clones share and the writing task does not, so that it can tell that the last is gone.
struct Clones(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// One permit per byte that may wait. Closed when no frame will be taken any more.
    room: Semaphore,
    runtime: Handle,
    /// Whether anything was received since the last frame that found the stream idle.
    heard: Arc<AtomicBool>,
}

type Sink = Box<dyn AsyncWrite + Send + Unpin>;

enum State {
    /// Nobody holds the stream, and nothing waits.
    Idle(Sink),
    /// A [`Turn`] holds it.
    Held(Held),
    /// No frame will be taken any more, for this reason.
    Ended(Fault),
}

#[derive(Default)]
struct Held {
    /// What the holder must write before it lets go.
    queue: VecDeque<Waiting>,
    /// The holder drops the stream when it is done.
    closing: bool,
    /// How to reach a holder that waits for the stream.
    waker: Option<Waker>,
}

/// The part of a frame that is not written yet.
struct Waiting {
    rest: Bytes,
    /// How much room it takes. The frame that found the stream idle takes none.
    room: usize,
}

/// How urgent a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Somebody waits for it alone.
    Now,
    /// It is one of many that are on their way: together they cost one write.
    Soon,
}

// === impl PipeWriter ===

impl PipeWriter {
    pub(super) fn new(sink: impl AsyncWrite + Send + Unpin + 'static, heard: Arc<AtomicBool>) -> Self {
        Self(Arc::new(Clones(Arc::new(Shared {
            state: Mutex::new(State::Idle(Box::new(sink))),
            room: Semaphore::new(QUEUE as usize),
            runtime: Handle::current(),
            heard,
        }))))
    }

    /// Hands a frame over if that needs no waiting, and says whether it did: what [`send`](Self::send) comes
    /// to nearly always, without its future.
    pub fn try_send(&self, frame: &Frame, pace: Pace) -> Result<bool, Fault> {
        let (shared, line) = (&self.0.0, frame.line());
        let room = room_of(&line);
        Ok(has_budget_remaining() && shared.offer(line, pace, || shared.reserve(room))?.is_none())
    }

    /// Hands a frame over. It is then written, or will be unless the link breaks, which the reader
    /// reports.
    ///
    /// Waits only while [`QUEUE`] bytes are waiting already. An error means that no byte of the frame was
    /// written.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the frame either handed over whole or not at all.
    pub async fn send(&self, frame: &Frame) -> Result<(), Fault> {
        if !has_budget_remaining() {
            // The stream would claim to be full.
            yield_now().await;
        }
        let shared = &self.0.0;
        let line = frame.line();
        let room = room_of(&line);
        let Some(line) = shared.offer(line, Pace::Now, || shared.reserve(room))? else { return Ok(()) };
        // A closed semaphore grants nothing; the offer then fails with the reason.
        let granted = shared.room.acquire_many(room).await.ok();
        let refused = shared.offer(line, Pace::Now, || {
            granted?.forget();
            Some(room as usize)
        })?;
        match refused {
            None => Ok(()),
            Some(_) => Err(closed()),
        }
    }

    /// Takes no further frame. What waits is still written, then the stream is shut: the peer reads the
    /// end of its input.
    pub fn close(&self) {
        self.0.0.close();
    }

    /// Shuts the stream now and forgets what waits.
    pub(crate) fn abort(&self) {
        self.0.0.end(closed());
    }
}

/// What a frame takes of the queue. One larger than the queue takes all of it.
fn room_of(line: &Bytes) -> u32 {
    u32::try_from(line.len()).unwrap_or(QUEUE).min(QUEUE)
}

impl fmt::Debug for PipeWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.0.0.lock() {
            State::Idle(_) => "idle",
            State::Held(_) => "writing",
            State::Ended(_) => "ended",
        };
        f.debug_struct("PipeWriter").field("state", &state).finish()
    }
}

impl Drop for Clones {
    fn drop(&mut self) {
        self.0.close();
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self, room: u32) -> Option<usize> {
        self.room.try_acquire_many(room).ok()?.forget();
        Some(room as usize)
    }

    /// Writes or queues a frame. Gives it back if it must be queued and `reserve` finds no room.
    fn offer(
        self: &Arc<Self>,
        line: Bytes,
        pace: Pace,
        reserve: impl FnOnce() -> Option<usize>,
    ) -> Result<Option<Bytes>, Fault> {
        let mut state = self.lock();
        match &mut *state {
            State::Ended(fault) => return Err(fault.clone()),
            State::Held(held) if held.closing => return Err(closed()),
            State::Held(held) => {
                let Some(room) = reserve() else { return Ok(Some(line)) };
                held.queue.push_back(Waiting { rest: line, room });
                return Ok(None);
            }
            State::Idle(_) => {}
        }
        let State::Idle(sink) = mem::replace(&mut *state, State::Held(Held::default())) else {
            unreachable!("the other states have returned")
        };
        drop(state);
        let turn = Turn { shared: self.clone(), sink: Some(sink), batch: VecDeque::new() };
        // The first frame after something was received goes out at once: a caller by itself waits for
        // each answer. More without anything received between them are one of many.
        if self.heard.swap(false, Ordering::Relaxed) && pace == Pace::Now {
            turn.begin(line)?;
        } else {
            turn.begin_later(line);
        }
        Ok(None)
    }

    fn close(&self) {
        let mut state = self.lock();
        self.room.close();
        match &mut *state {
            State::Held(held) => held.closing = true,
            State::Idle(_) => drop(replace(state, State::Ended(closed()))),
            State::Ended(_) => {}
        }
    }

    /// Ends the link unless it ended before.
    fn end(&self, fault: Fault) {
        let state = self.lock();
        self.room.close();
        if !matches!(*state, State::Ended(_))
            && let State::Held(Held { waker: Some(waker), .. }) = replace(state, State::Ended(fault))
        {
            waker.wake();
        }
    }
}

/// Changes the state, and shuts the stream if that lets go of it, outside the lock.
fn replace(mut state: MutexGuard<'_, State>, new: State) -> State {
    let mut old = mem::replace(&mut *state, new);
    drop(state);
    if let State::Idle(sink) = &mut old {
        shut(sink);
    }
    old
}

/// The time in which one holder has the stream: until nothing waits.
///
/// As a future it goes on writing. Dropped before it is done (its runtime is gone), it ends the link.
struct Turn {
    shared: Arc<Shared>,
    /// Taken when the turn is over.
    sink: Option<Sink>,
    /// Taken from the queue, not yet written.
    batch: VecDeque<Waiting>,
}

/// How many frames go into one write.
const BATCH: usize = 64;
/// How much one poll writes before it lets other tasks run.
const SHARE: usize = 512 * 1024;

impl Turn {
    /// Writes the frame that began the turn. An error means that no byte of it was written.
    fn begin(mut self, mut line: Bytes) -> Result<(), Fault> {
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
            self.batch.push_back(Waiting { rest: line, room: 0 });
        } else if Pin::new(&mut self).poll(&mut cx).is_ready() {
            // Frames that were queued meanwhile are written too.
            return Ok(());
        }
        // The stream is full. The task polls it again with a waker of its own.
        let runtime = self.shared.runtime.clone();
        runtime.spawn(self);
        Ok(())
    }

    /// Writes the frame together with those that others are about to queue.
    fn begin_later(mut self, line: Bytes) {
        self.batch.push_back(Waiting { rest: line, room: 0 });
        let runtime = self.shared.runtime.clone();
        runtime.spawn(async move {
            // Lets every task run that is ready to.
            yield_now().await;
            self.await;
        });
    }

    /// Takes more from the queue. If there is none, the turn is over and the stream is put back.
    fn refill(&mut self) -> bool {
        let mut state = self.shared.lock();
        let State::Held(held) = &mut *state else {
            drop(state);
            self.sink = None;
            return false;
        };
        if !held.queue.is_empty() {
            let some = held.queue.len().min(BATCH);
            self.batch.extend(held.queue.drain(..some));
            return true;
        }
        let closing = held.closing;
        if let Some(sink) = self.sink.take() {
            let held = mem::replace(&mut *state, State::Idle(sink));
            if closing {
                drop(replace(state, State::Ended(closed())));
            }
            drop(held);
        }
        false
    }

    fn poll_write_batch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let sink = self.sink.as_mut().expect("a turn that is over is not polled");
        let mut slices = [IoSlice::new(&[]); BATCH];
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

    fn written(&mut self, mut taken: usize) {
        while let Some(first) = self.batch.front_mut() {
            let part = taken.min(first.rest.len());
            first.rest.advance(part);
            taken -= part;
            if !first.rest.is_empty() {
                return;
            }
            self.shared.room.add_permits(first.room);
            self.batch.pop_front();
        }
    }

    /// Whether the link was ended by another. If not, that other will find the waker.
    fn is_ended(&self, waker: &Waker) -> bool {
        match &mut *self.shared.lock() {
            State::Held(held) => {
                held.waker = Some(waker.clone());
                false
            }
            State::Idle(_) | State::Ended(_) => true,
        }
    }

    fn fail(&mut self, error: &io::Error) -> Fault {
        self.sink = None;
        let fault = Fault::before_sending(Cause::Cut).note(error.to_string());
        self.shared.end(fault.clone());
        fault
    }
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut share = SHARE;
        while share > 0 {
            if self.batch.is_empty() && !self.refill() {
                return Poll::Ready(());
            }
            match self.poll_write_batch(cx) {
                Poll::Ready(Ok(taken)) => {
                    self.written(taken);
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

impl Drop for Turn {
    fn drop(&mut self) {
        if self.sink.is_some() {
            self.fail(&io::Error::other("the runtime was shut down"));
        }
    }
}

/// For streams whose other half lives on, dropping alone is no end.
fn shut(sink: &mut Sink) {
    let _ = Pin::new(sink).poll_shutdown(&mut Context::from_waker(Waker::noop()));
}

fn closed() -> Fault {
    Fault::before_sending(Cause::Closed)
}
