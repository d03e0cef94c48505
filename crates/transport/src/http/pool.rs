//! Chooses the connection that a request takes, and decides which connections are kept.
//!
//! A pool serves one server, so it is a list. Over HTTP/1.1 a connection belongs to one exchange at
//! a time, and that exchange drives it: no task stands between a request and its socket, and
//! dropping the exchange closes the socket. Over HTTP/2 one connection is shared.

use std::collections::VecDeque;
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::frame::SpareBuffer;
use bytes::BytesMut;
use hyper::client::conn::http2;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::dial::{Dialer, Opened, SharedDriver};
use super::flow::{Tail, TailEnd};
use super::line::Line;
use super::payload::Payload;

/// The connections to one server.
#[derive(Debug)]
pub(super) struct Pool {
    dialer: Dialer,
    connect: Duration,
    state: Mutex<State>,
    /// Locked while the first connection is made, until it is known whether one serves all
    /// requests.
    first: tokio::sync::Mutex<()>,
    closes: Arc<CloseAlarm>,
    /// Notifies `close_notifier`. Woken by events on kept connections.
    idle_waker: Waker,
    /// Whether the last kept connection that a request took, or tried to take, was closed. It only
    /// decides whether the next request waits a moment, so it orders no other memory.
    closes_early: AtomicBool,
}

/// Wakes tasks that wait for the server to close a kept connection.
#[derive(Debug, Default)]
struct CloseAlarm {
    /// Notified when something happened to a kept connection.
    rung: Notify,
}

#[derive(Default)]
struct State {
    idle: Vec<Idle>,
    /// Connections whose last response has not ended yet, each with its deadline.
    tails: VecDeque<(Tail, Instant)>,
    /// How many kept connections the server has closed so far.
    closed: u64,
    shared: Option<Shared>,
    /// How many HTTP/2 connections were made so far.
    shared_count: u64,
    /// Whether the server was seen to speak HTTP/1.1 over TLS.
    one_each: bool,
    /// The buffer of the last large body.
    spare: SpareBuffer,
    /// Whether a large body arrived since the last pruning.
    spare_was_used: bool,
    /// The pruning task; aborted with the pool.
    reaper: Option<AbortHandle>,
}

/// A kept HTTP/1.1 connection.
struct Idle {
    line: Box<Line>,
    until: Instant,
}

/// An HTTP/2 connection.
struct Shared {
    sender: http2::SendRequest<Payload>,
    /// Distinguishes it from its predecessors.
    number: u64,
}

/// A connection leased for one request.
pub(super) enum Lease {
    Own(Box<Line>),
    Shared { sender: http2::SendRequest<Payload>, reused: bool },
}

// === impl Pool ===

impl Pool {
    pub(super) fn new(dialer: Dialer, connect: Duration) -> Self {
        let closes = Arc::<CloseAlarm>::default();
        let idle_waker = Waker::from(Arc::clone(&closes));
        let (state, first) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { dialer, connect, state, first, closes, idle_waker, closes_early: AtomicBool::new(false) }
    }

    /// Returns a kept connection, or else a new one.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, Fault> {
        match self.idle() {
            Some(Lease::Own(line)) if self.closes_early.load(Ordering::Relaxed) => {
                Box::pin(self.lease_warily(line)).await
            }
            Some(lease) => Ok(lease),
            // Rare and large, so it is boxed out of the future of every request.
            None => Box::pin(self.dial()).await,
        }
    }

    /// Returns a connection to a server that closes kept ones: one that it has left open for a
    /// moment, or else a new one. Some servers close after each response without saying so, and a
    /// request that crosses the close may have been read.
    async fn lease_warily(self: &Arc<Self>, mut line: Box<Line>) -> Result<Lease, Fault> {
        loop {
            let until = line.kept.unwrap_or_else(Instant::now) + CLOSE_DELAY;
            if Instant::now() >= until || line.outlasts(until).await {
                return Ok(Lease::Own(line));
            }
            self.found_closed();
            match self.idle() {
                Some(Lease::Own(next)) => line = next,
                Some(lease) => return Ok(lease),
                None => return self.dial().await,
            }
        }
    }

    /// Gives a connection back to the pool after its exchange.
    pub(super) fn put(self: &Arc<Self>, line: Box<Line>, keep: Duration) {
        let mut state = self.state();
        self.keep(&mut state, line, keep);
        self.watch(&mut state);
    }

    /// Keeps a connection if it can carry another exchange. It is parked under the lock, so that
    /// whoever is notified of a close finds the connection in the list.
    fn keep(&self, state: &mut State, mut line: Box<Line>, keep: Duration) {
        if state.idle.len() < MOST_IDLE && line.rest(&self.idle_waker) {
            let now = Instant::now();
            line.kept = Some(now);
            state.idle.push(Idle { line, until: now + keep });
        }
    }

    /// Keeps a connection whose last response has not ended yet. The next caller that needs a
    /// connection checks whether it has.
    pub(super) fn linger(self: &Arc<Self>, tail: Tail) {
        let mut state = self.state();
        if state.tails.len() < MOST_IDLE {
            let until = Instant::now() + LINGER;
            self.settle_tail(&mut state, tail, until);
        }
        self.watch(&mut state);
    }

    /// Returns an empty buffer for a body of this size: the buffer of an earlier body, if nobody
    /// holds it any more.
    pub(super) fn body_buffer(&self, size: usize) -> BytesMut {
        let spare = if size >= LARGE_BODY { self.state().spare.take(size) } else { None };
        spare.unwrap_or_else(|| BytesMut::with_capacity(size))
    }

    /// Keeps the buffer of a body of `length` bytes for the next one. `rest` is the unused part of
    /// it.
    pub(super) fn keep_body_buffer(self: &Arc<Self>, rest: BytesMut, length: usize) {
        if length >= LARGE_BODY {
            let mut state = self.state();
            state.spare.keep(rest, length);
            state.spare_was_used = true;
            self.watch(&mut state);
        }
    }

    fn watch(self: &Arc<Self>, state: &mut State) {
        if state.reaper.is_none() {
            state.reaper = Some(tokio::spawn(reap(Arc::downgrade(self))).abort_handle());
        }
    }

    fn idle(&self) -> Option<Lease> {
        let mut state = self.state();
        if let Some(shared) = &state.shared {
            if !shared.sender.is_closed() {
                return Some(Lease::Shared { sender: shared.sender.clone(), reused: true });
            }
            self.retire(&mut state);
        }
        if state.idle.is_empty() {
            self.ended_tail(&mut state);
        }
        // The most recently used connection is the least likely to be closed by now.
        let Idle { line, until } = state.idle.pop()?;
        if until <= Instant::now() {
            // All others are older. The difference may be small, but none is worth the risk.
            state.idle.clear();
            return None;
        }
        // Events on it must wake nobody but the request that takes it.
        line.gate.detach();
        Some(Lease::Own(line))
    }

    /// Keeps a connection whose last response has ended meanwhile.
    fn ended_tail(&self, state: &mut State) {
        // The oldest first: it had the most time. One that has not ended goes to the back, so that
        // a few that never end do not block all others.
        for _ in 0..state.tails.len().min(TAILS_LOOK) {
            let Some((tail, until)) = state.tails.pop_front() else { return };
            self.settle_tail(state, tail, until);
            if !state.idle.is_empty() {
                return;
            }
        }
    }

    /// Keeps the connection of a tail that has ended, or the tail if it may still end.
    fn settle_tail(&self, state: &mut State, tail: Tail, until: Instant) {
        match tail.end(&self.idle_waker) {
            TailEnd::Ended(line, keep) => self.keep(state, line, keep),
            TailEnd::Cut => self.count_closed(state, 1),
            TailEnd::TooLong => {}
            TailEnd::Pending(tail) if until > Instant::now() => state.tails.push_back((tail, until)),
            TailEnd::Pending(_) => {}
        }
    }

    /// Drops all kept connections: the network they were made on may be gone, and a connection does
    /// not notice.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.idle.clear();
        state.tails.clear();
        state.shared = None;
    }

    /// Breaks every connection, whatever is under way on it.
    pub(super) fn abort(&self) {
        self.forget();
        self.dialer.cut_all();
    }

    /// Waits until the server has closed a kept connection.
    pub(super) async fn idle_closed(&self) {
        let before = self.state().closed;
        loop {
            let mut rung = pin!(self.closes.rung.notified());
            // From here on no notification is missed.
            rung.as_mut().enable();
            if self.drop_closed() != before {
                return;
            }
            rung.await;
        }
    }

    /// Drops the connections that the server has closed. Returns how many it has closed so far.
    fn drop_closed(&self) -> u64 {
        let mut state = self.state();
        let kept = state.idle.len();
        state.idle.retain_mut(|idle| idle.line.rest(&self.idle_waker));
        let dropped = kept - state.idle.len();
        self.count_closed(&mut state, dropped);
        for _ in 0..state.tails.len() {
            let Some((tail, until)) = state.tails.pop_front() else { break };
            self.settle_tail(&mut state, tail, until);
        }
        state.closed
    }

    /// Records that a kept connection was closed before a request could be written to it.
    pub(super) fn found_closed(&self) {
        self.closes_early.store(true, Ordering::Relaxed);
        self.count_closed(&mut self.state(), 1);
    }

    /// Records that a kept connection ended after a request was written to it: the server may be
    /// one that closes them.
    pub(super) fn cut_on_kept(&self) {
        self.closes_early.store(true, Ordering::Relaxed);
    }

    /// Records that the server responded on a kept connection.
    pub(super) fn answered_on_kept(&self) {
        if self.closes_early.load(Ordering::Relaxed) {
            self.closes_early.store(false, Ordering::Relaxed);
        }
    }

    fn count_closed(&self, state: &mut State, count: usize) {
        if count > 0 {
            state.closed += count as u64;
            self.closes.rung.notify_waiters();
        }
    }

    /// Drops the HTTP/2 connection, on which the server accepts no more requests.
    fn retire(&self, state: &mut State) {
        state.shared = None;
        self.count_closed(state, 1);
    }

    /// Keeps an HTTP/2 connection for all requests, and spawns its driver.
    fn share(self: &Arc<Self>, sender: http2::SendRequest<Payload>, driver: Box<SharedDriver>) {
        let mut state = self.state();
        state.shared_count += 1;
        let number = state.shared_count;
        state.shared = Some(Shared { sender, number });
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            // Each request on it learns how it ends.
            let _ = driver.await;
            let Some(pool) = pool.upgrade() else { return };
            let mut state = pool.state();
            if state.shared.as_ref().is_some_and(|shared| shared.number == number) {
                pool.retire(&mut state);
            }
        });
    }

    async fn dial(self: &Arc<Self>) -> Result<Lease, Fault> {
        let opening = async {
            let wait_for_first = self.dialer.may_share() && !self.state().one_each;
            let _first = if wait_for_first { Some(self.first.lock().await) } else { None };
            // Another request has made the first connection meanwhile.
            if wait_for_first && let Some(lease) = self.idle() {
                return Ok(lease);
            }
            Ok(match self.dialer.open().await? {
                Opened::Own(line) => {
                    self.state().one_each = true;
                    Lease::Own(line)
                }
                Opened::Shared(sender, driver) => {
                    self.share(sender.clone(), driver);
                    Lease::Shared { sender, reused: false }
                }
            })
        };
        match tokio::time::timeout(self.connect, opening).await {
            Ok(result) => result,
            Err(_) => Err(Fault::before_sending(Cause::Timeout(Limit::Connect))
                .with_note(format!("no connection within {:?}", self.connect))),
        }
    }

    /// Drops what has been idle too long. Returns whether anything is left to prune.
    fn prune(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        state.idle.retain(|idle| idle.until > now);
        state.tails.retain(|(_, until)| *until > now);
        if !mem::take(&mut state.spare_was_used) {
            state.spare.release();
        }
        if state.idle.is_empty() && state.tails.is_empty() && state.spare.is_empty() {
            state.reaper = None;
        }
        state.reaper.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(reaper) = &self.state().reaper {
            reaper.abort();
        }
    }
}

/// Prunes the pool until it is empty. Nobody drives an idle connection, so nobody else would close
/// it in time.
async fn reap(pool: Weak<Pool>) {
    loop {
        // Sleeps first, since a busy pool is often empty: the task must not start with every
        // request.
        tokio::time::sleep(SWEEP).await;
        if !pool.upgrade().is_some_and(|pool| pool.prune()) {
            return;
        }
    }
}

/// Interval between prunings.
const SWEEP: Duration = Duration::from_secs(5);

/// Bodies of this size or more leave their buffer for the next one, until a pruning finds it
/// unused.
const LARGE_BODY: usize = 128 * 1024;

/// How long a connection is kept when the server announces no limit: less than the minute after
/// which common load balancers close theirs.
pub(super) const KEEP: Duration = Duration::from_secs(50);

/// How long after its response a server that closes early may take to close. The wait ends with the
/// close, so it runs out only for a server that no longer closes early, and then only once.
const CLOSE_DELAY: Duration = Duration::from_millis(10);

/// How long the end of a response may take to arrive after the part that mattered.
const LINGER: Duration = Duration::from_secs(2);

/// How many tails are checked before a new connection is made.
const TAILS_LOOK: usize = 4;

/// How many connections are kept: enough for a burst, and a bound to what a burst leaves behind.
const MOST_IDLE: usize = 128;

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { idle, tails, shared, .. } = self;
        f.debug_struct("State")
            .field("idle", &idle.len())
            .field("tails", &tails.len())
            .field("shared", &shared.is_some())
            .finish()
    }
}

// === impl CloseAlarm ===

impl Wake for CloseAlarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.notify_waiters();
    }
}
