//! Chooses the connection that a request takes, and decides which connections are kept.
//!
//! A pool serves one server, so it is a list. Over HTTP/1.1 a connection belongs to one exchange at
//! a time, and that exchange drives it: no task stands between a request and its socket, and
//! dropping the exchange closes the socket. Over HTTP/2 one connection is shared.

use std::collections::VecDeque;
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::frame::SpareBuffer;
use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::dial::{Dialer, NewConnection};
use super::exchange::{BodyTail, TailOutcome};
use super::http1_connection::Http1Connection;
use super::http2_connection::{Http2Driver, Http2Sender};
use crate::suspend::Moment;

/// The connections to one server.
#[derive(Debug)]
pub(super) struct Pool {
    dialer: Dialer,
    connect_timeout: Duration,
    state: Mutex<State>,
    /// Locked while the first connection is made, until it is known whether one serves all
    /// requests.
    first_dial: tokio::sync::Mutex<()>,
    close_notifier: Arc<CloseNotifier>,
    /// Notifies `close_notifier`. Woken by events on kept connections.
    idle_waker: Waker,
    /// Whether the last kept connection that a request took, or tried to take, was closed. It only
    /// decides whether the next request waits a moment, so it orders no other memory.
    server_closes_early: AtomicBool,
}

/// Wakes tasks that wait for the server to close a kept connection.
#[derive(Debug, Default)]
struct CloseNotifier {
    /// Notified when something happened to a kept connection.
    changed: Notify,
}

#[derive(Default)]
struct State {
    idle: Vec<IdleConnection>,
    /// Connections whose last response has not ended yet, each with its deadline.
    tails: VecDeque<(BodyTail, Moment)>,
    /// How many kept connections the server has closed so far.
    closed_count: u64,
    shared: Option<SharedConnection>,
    /// How many HTTP/2 connections were made so far.
    shared_count: u64,
    /// Whether the server was seen to speak HTTP/1.1 over TLS.
    is_http1_only: bool,
    /// The buffer of the last large body.
    spare: SpareBuffer,
    /// Whether a large body arrived since the last pruning.
    spare_was_used: bool,
    /// The pruning task; aborted with the pool.
    pruner: Option<AbortHandle>,
}

/// A kept HTTP/1.1 connection.
struct IdleConnection {
    connection: Box<Http1Connection>,
    expires_at: Instant,
    kept_at: Moment,
}

/// An HTTP/2 connection.
struct SharedConnection {
    sender: Http2Sender,
    /// When a request took it last.
    used_at: Moment,
    /// Distinguishes it from its predecessors.
    number: u64,
}

/// A connection leased for one request.
pub(super) enum ConnectionLease {
    Exclusive(Box<Http1Connection>),
    Shared { sender: Http2Sender, reused: bool },
}

// === impl Pool ===

impl Pool {
    pub(super) fn new(dialer: Dialer, connect_timeout: Duration) -> Self {
        let closes = Arc::<CloseNotifier>::default();
        let idle_waker = Waker::from(Arc::clone(&closes));
        let (state, first) = (Mutex::default(), tokio::sync::Mutex::default());
        Self {
            dialer,
            connect_timeout,
            state,
            first_dial: first,
            close_notifier: closes,
            idle_waker,
            server_closes_early: AtomicBool::new(false),
        }
    }

    /// Returns a kept connection, or else a new one.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<ConnectionLease, Fault> {
        match self.take_idle() {
            Some(ConnectionLease::Exclusive(line)) if self.server_closes_early.load(Ordering::Relaxed) => {
                Box::pin(self.lease_after_close_check(line)).await
            }
            Some(lease) => Ok(lease),
            // Rare and large, so it is boxed out of the future of every request.
            None => Box::pin(self.dial()).await,
        }
    }

    /// Returns a connection to a server that closes kept ones: one that it has left open for a
    /// moment, or else a new one. Some servers close after each response without saying so, and a
    /// request that crosses the close may have been read.
    async fn lease_after_close_check(
        self: &Arc<Self>,
        mut line: Box<Http1Connection>,
    ) -> Result<ConnectionLease, Fault> {
        loop {
            let until = line.kept_since.unwrap_or_else(Instant::now) + CLOSE_CHECK_DELAY;
            if Instant::now() >= until || line.stays_open_until(until).await {
                return Ok(ConnectionLease::Exclusive(line));
            }
            self.record_closed();
            match self.take_idle() {
                Some(ConnectionLease::Exclusive(next)) => line = next,
                Some(lease) => return Ok(lease),
                None => return self.dial().await,
            }
        }
    }

    /// Gives a connection back to the pool after its exchange.
    pub(super) fn put(self: &Arc<Self>, line: Box<Http1Connection>, keep: Duration) {
        let mut state = self.state.lock();
        self.keep(&mut state, line, keep, Moment::now());
        self.ensure_pruning(&mut state);
    }

    /// Keeps a connection if it can carry another exchange. It is parked under the lock, so that
    /// whoever is notified of a close finds the connection in the list.
    fn keep(&self, state: &mut State, mut line: Box<Http1Connection>, keep: Duration, kept_at: Moment) {
        if state.idle.len() < MAX_IDLE_CONNECTIONS && line.park(&self.idle_waker) {
            let now = Instant::now();
            line.kept_since = Some(now);
            state.idle.push(IdleConnection { connection: line, expires_at: now + keep, kept_at });
        }
    }

    /// Keeps a connection whose last response has not ended yet. The next caller that needs a
    /// connection checks whether it has.
    pub(super) fn keep_tail(self: &Arc<Self>, tail: BodyTail) {
        let mut state = self.state.lock();
        if state.tails.len() < MAX_IDLE_CONNECTIONS {
            self.settle_tail(&mut state, tail, Moment::now());
        }
        self.ensure_pruning(&mut state);
    }

    /// Returns an empty buffer for a body of this size: the buffer of an earlier body, if nobody
    /// holds it any more.
    pub(super) fn take_body_buffer(&self, size: usize) -> BytesMut {
        let spare = if size >= MIN_LARGE_BODY_BYTES { self.state.lock().spare.take(size) } else { None };
        spare.unwrap_or_else(|| BytesMut::with_capacity(size))
    }

    /// Keeps the buffer of a body of `length` bytes for the next one. `rest` is the unused part of
    /// it.
    pub(super) fn keep_body_buffer(self: &Arc<Self>, rest: BytesMut, length: usize) {
        if length >= MIN_LARGE_BODY_BYTES {
            let mut state = self.state.lock();
            state.spare.keep(rest, length);
            state.spare_was_used = true;
            self.ensure_pruning(&mut state);
        }
    }

    fn ensure_pruning(self: &Arc<Self>, state: &mut State) {
        if state.pruner.is_none() {
            let pruning =
                prune_periodically(Arc::downgrade(self), self.spare_keep_alive().min(PRUNE_INTERVAL));
            state.pruner = Some(tokio::spawn(pruning).abort_handle());
        }
    }

    fn take_idle(&self) -> Option<ConnectionLease> {
        let mut state = self.state.lock();
        if let Some(shared) = &mut state.shared {
            if !shared.sender.is_closed() && !shared.used_at.precedes_suspend() {
                shared.used_at = Moment::now();
                return Some(ConnectionLease::Shared { sender: shared.sender.clone(), reused: true });
            }
            self.retire_shared(&mut state);
        }
        if state.idle.is_empty() {
            self.settle_tails(&mut state);
        }
        // The most recently used connection is the least likely to be closed by now.
        let IdleConnection { connection: line, expires_at: until, kept_at } = state.idle.pop()?;
        if until <= Instant::now() || kept_at.precedes_suspend() {
            // All others are older. The difference may be small, but none is worth the risk. After a suspend
            // the server may be gone or may have closed them, which this machine has not been told.
            state.idle.clear();
            return None;
        }
        // Events on it must wake nobody but the request that takes it.
        line.wake_filter.detach();
        Some(ConnectionLease::Exclusive(line))
    }

    /// Keeps a connection whose last response has ended meanwhile.
    fn settle_tails(&self, state: &mut State) {
        // The oldest first: it had the most time. One that has not ended goes to the back, so that
        // a few that never end do not block all others.
        for _ in 0..state.tails.len().min(MAX_TAIL_CHECKS) {
            let Some((tail, kept_at)) = state.tails.pop_front() else { return };
            self.settle_tail(state, tail, kept_at);
            if !state.idle.is_empty() {
                return;
            }
        }
    }

    /// Keeps the connection of a tail that has ended, or the tail if it may still end. What was read before a suspend
    /// proves nothing of the connection after it.
    fn settle_tail(&self, state: &mut State, tail: BodyTail, kept_at: Moment) {
        if kept_at.precedes_suspend() {
            return;
        }
        match tail.poll_end(&self.idle_waker) {
            TailOutcome::Ended(line, keep) => self.keep(state, line, keep, kept_at),
            TailOutcome::Broken => self.count_closed(state, 1),
            TailOutcome::TooLong => {}
            TailOutcome::Pending(tail) if kept_at.elapsed() < TAIL_TIMEOUT => {
                state.tails.push_back((tail, kept_at));
            }
            TailOutcome::Pending(_) => {}
        }
    }

    /// Drops all kept connections: the network they were made on may be gone, and a connection does
    /// not notice.
    pub(super) fn forget_connections(&self) {
        let mut state = self.state.lock();
        state.idle.clear();
        state.tails.clear();
        state.shared = None;
    }

    /// Breaks every connection, whatever is under way on it.
    pub(super) fn abort(&self) {
        self.forget_connections();
        self.dialer.cut_all();
    }

    /// Waits until the server has closed a kept connection.
    pub(super) async fn wait_for_idle_close(&self) {
        let before = self.state.lock().closed_count;
        loop {
            let mut rung = pin!(self.close_notifier.changed.notified());
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
        let mut state = self.state.lock();
        let kept = state.idle.len();
        state.idle.retain_mut(|idle| idle.connection.park(&self.idle_waker));
        let dropped = kept - state.idle.len();
        self.count_closed(&mut state, dropped);
        for _ in 0..state.tails.len() {
            let Some((tail, kept_at)) = state.tails.pop_front() else { break };
            self.settle_tail(&mut state, tail, kept_at);
        }
        state.closed_count
    }

    /// Records that a kept connection was closed before a request could be written to it.
    pub(super) fn record_closed(&self) {
        self.server_closes_early.store(true, Ordering::Relaxed);
        self.count_closed(&mut self.state.lock(), 1);
    }

    /// Records that a kept connection ended after a request was written to it: the server may be
    /// one that closes them.
    pub(super) fn record_reuse_failure(&self) {
        self.server_closes_early.store(true, Ordering::Relaxed);
    }

    /// Records that the server responded on a kept connection.
    pub(super) fn record_reuse_success(&self) {
        if self.server_closes_early.load(Ordering::Relaxed) {
            self.server_closes_early.store(false, Ordering::Relaxed);
        }
    }

    fn count_closed(&self, state: &mut State, count: usize) {
        if count > 0 {
            state.closed_count += count as u64;
            self.close_notifier.changed.notify_waiters();
        }
    }

    /// Drops the HTTP/2 connection, on which the server accepts no more requests.
    fn retire_shared(&self, state: &mut State) {
        state.shared = None;
        self.count_closed(state, 1);
    }

    /// Keeps an HTTP/2 connection for all requests, and spawns its driver.
    fn share(self: &Arc<Self>, sender: Http2Sender, driver: Box<Http2Driver>) {
        let mut state = self.state.lock();
        state.shared_count += 1;
        let number = state.shared_count;
        state.shared = Some(SharedConnection { sender, used_at: Moment::now(), number });
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            // Each request on it learns how it ends.
            let _ = driver.await;
            let Some(pool) = pool.upgrade() else { return };
            let mut state = pool.state.lock();
            if state.shared.as_ref().is_some_and(|shared| shared.number == number) {
                pool.retire_shared(&mut state);
            }
        });
    }

    async fn dial(self: &Arc<Self>) -> Result<ConnectionLease, Fault> {
        let opening = async {
            let wait_for_first = self.dialer.may_share() && !self.state.lock().is_http1_only;
            let _first = if wait_for_first { Some(self.first_dial.lock().await) } else { None };
            // Another request has made the first connection meanwhile.
            if wait_for_first && let Some(lease) = self.take_idle() {
                return Ok(lease);
            }
            Ok(match self.dialer.open().await? {
                NewConnection::Exclusive(line) => {
                    self.state.lock().is_http1_only = true;
                    ConnectionLease::Exclusive(line)
                }
                NewConnection::Shared(sender, driver) => {
                    self.share(sender.clone(), driver);
                    ConnectionLease::Shared { sender, reused: false }
                }
            })
        };
        match tokio::time::timeout(self.connect_timeout, opening).await {
            Ok(result) => result,
            Err(_) => Err(Fault::before_sending(Cause::Timeout(Limit::Connect))
                .with_note(format!("no connection within {:?}", self.connect_timeout))),
        }
    }

    /// Drops what has been idle too long. Returns when to prune again, if anything is left.
    fn prune(&self) -> Option<Duration> {
        let spare_keep_alive = self.spare_keep_alive();
        let mut state = self.state.lock();
        let now = Instant::now();
        state.idle.retain(|idle| idle.expires_at > now);
        // The last one is the newest. It also tells when the server goes away.
        let mut spares = state.idle.len().saturating_sub(1);
        state.idle.retain(|idle| {
            let is_spare = spares > 0;
            spares = spares.saturating_sub(1);
            !is_spare || idle.connection.kept_since.is_some_and(|since| since + spare_keep_alive > now)
        });
        state.tails.retain(|(_, kept_at)| kept_at.elapsed() < TAIL_TIMEOUT);
        if !mem::take(&mut state.spare_was_used) {
            state.spare.release();
        }
        if state.idle.is_empty() && state.tails.is_empty() && state.spare.is_empty() {
            state.pruner = None;
        }
        let has_spares = state.idle.len() > 1;
        let interval = if has_spares { spare_keep_alive.min(PRUNE_INTERVAL) } else { PRUNE_INTERVAL };
        state.pruner.is_some().then_some(interval)
    }

    /// How long connections are kept that a burst leaves behind: each takes some 40 KB. To make one costs little
    /// without TLS.
    fn spare_keep_alive(&self) -> Duration {
        if self.dialer.is_encrypted() { ENCRYPTED_SPARE_KEEP_ALIVE } else { SPARE_KEEP_ALIVE }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(reaper) = &self.state.lock().pruner {
            reaper.abort();
        }
    }
}

/// Prunes the pool until it is empty. Nobody drives an idle connection, so nobody else would close
/// it in time.
async fn prune_periodically(pool: Weak<Pool>, first_interval: Duration) {
    let mut interval = first_interval;
    loop {
        // Sleeps first, since a busy pool is often empty: the task must not start with every
        // request.
        tokio::time::sleep(interval).await;
        match pool.upgrade().and_then(|pool| pool.prune()) {
            Some(next) => interval = next,
            None => return,
        }
    }
}

/// How long connections over plain HTTP are kept beside the newest one.
const SPARE_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// How long connections over TLS are kept beside the newest one.
const ENCRYPTED_SPARE_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Longest interval between prunings.
const PRUNE_INTERVAL: Duration = Duration::from_secs(5);

/// Bodies of this size or more leave their buffer for the next one, until a pruning finds it
/// unused.
const MIN_LARGE_BODY_BYTES: usize = 128 * 1024;

/// How long a connection is kept when the server announces no limit: less than the minute after
/// which common load balancers close theirs.
pub(super) const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(50);

/// How long after its response a server that closes early may take to close. The wait ends with the
/// close, so it runs out only for a server that no longer closes early, and then only once.
const CLOSE_CHECK_DELAY: Duration = Duration::from_millis(10);

/// How long the end of a response may take to arrive after the part that mattered.
const TAIL_TIMEOUT: Duration = Duration::from_secs(2);

/// How many tails are checked before a new connection is made.
const MAX_TAIL_CHECKS: usize = 4;

/// How many connections are kept: enough for a burst, and a bound to what a burst leaves behind.
const MAX_IDLE_CONNECTIONS: usize = 128;

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

impl Wake for CloseNotifier {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use bowline_config::Tls;
    use tokio::net::TcpListener;

    use super::super::dial::ResolverConfig;
    use super::super::proxy::Route;
    use super::super::target::Target;
    use super::super::tls::{OfferedVersions, TlsSettings};
    use super::*;

    /// Connections that were kept when the machine was suspended are not used again, not even by the first request
    /// after it.
    #[tokio::test]
    async fn kept_connections_are_not_used_after_a_suspend() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let target = Target::new(url.parse().unwrap()).unwrap();
        let trust = Arc::new(TlsSettings::new(Tls::default(), OfferedVersions::Any));
        let dialer = Dialer::new(&target, Route::Direct, trust, ResolverConfig::default()).unwrap();
        let pool = Arc::new(Pool::new(dialer, Duration::from_secs(10)));
        for suspend in [Duration::ZERO, Duration::from_secs(600)] {
            for _ in 0..2 {
                let NewConnection::Exclusive(line) = pool.dialer.open().await.unwrap() else {
                    panic!("there is no TLS to agree on HTTP/2 in")
                };
                pool.put(line, DEFAULT_KEEP_ALIVE);
            }
            for idle in &mut pool.state.lock().idle {
                idle.kept_at = idle.kept_at.before_suspend(suspend);
            }
            let taken = (pool.take_idle().is_some(), pool.take_idle().is_some());
            assert_eq!(taken, (suspend.is_zero(), suspend.is_zero()), "{suspend:?}");
        }
    }
}
