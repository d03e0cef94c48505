//! Owns the choice of the connection a request takes.
//!
//! A pool serves one server, so it is a list. Over HTTP/1.1 a connection belongs to one exchange at a
//! time, and that exchange drives it: no task stands between a request and its socket, and dropping the
//! exchange closes the socket. Over HTTP/2 one connection is shared.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bowline_proto::fault::{Cause, Fault, Limit};
use hyper::client::conn::{http1, http2};
use tokio::task::{AbortHandle, unconstrained};
use tokio::time::Instant;

use super::counted::Written;
use super::dial::{Dialer, Opened, Payload, Stream};
use super::flow::Tail;
use super::gate::Gate;

/// The connections to one server.
#[derive(Debug)]
pub(super) struct Pool {
    dialer: Dialer,
    connect: Duration,
    state: Mutex<State>,
    /// Held while the first connection is made, until it is known whether one is enough for all.
    first: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    idle: Vec<Idle>,
    /// Connections on which the end of an answer is still to come.
    tails: VecDeque<(Tail, Instant)>,
    shared: Option<http2::SendRequest<Payload>>,
    /// The server was seen to speak HTTP/1.1 over TLS.
    one_each: bool,
    /// Ends with the pool.
    reaper: Option<AbortHandle>,
}

struct Idle {
    line: Box<Line>,
    since: Instant,
    until: Instant,
}

/// A connection, for one request.
pub(super) enum Lease {
    Own(Box<Line>),
    Shared { sender: http2::SendRequest<Payload>, reused: bool },
}

/// An HTTP/1.1 connection.
pub(super) struct Line {
    pub(super) sender: http1::SendRequest<Payload>,
    pub(super) driven: Driven,
    pub(super) gate: Gate,
    pub(super) written: Written,
    pub(super) reused: bool,
}

/// A connection that moves when it is polled. `None` when it has ended.
pub(super) struct Driven(Option<http1::Connection<Stream, Payload>>);

// === impl Pool ===

impl Pool {
    pub(super) fn new(dialer: Dialer, connect: Duration) -> Self {
        Self { dialer, connect, state: Mutex::default(), first: tokio::sync::Mutex::default() }
    }

    /// A connection that is there, or else a new one.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, Fault> {
        if self.is_cold() {
            // Lets the runtime see what has happened to the connections meanwhile. A request that is written
            // to one that the server has closed may or may not have been read: nobody can tell any more.
            tokio::task::yield_now().await;
        }
        match self.idle() {
            Some(lease) => Ok(lease),
            // Rare and large, so it is kept out of the future of every request.
            None => Box::pin(self.dial()).await,
        }
    }

    /// Gives back a connection whose exchange is over.
    pub(super) fn put(self: &Arc<Self>, mut line: Box<Line>, keep: Duration) {
        line.reused = true;
        let mut state = self.state();
        if state.idle.len() < MOST_IDLE {
            let since = Instant::now();
            state.idle.push(Idle { line, since, until: since + keep });
        }
        self.watch(&mut state);
    }

    /// Takes a connection on which the end of an answer is still to come. Whoever needs one next looks
    /// whether it has.
    pub(super) fn linger(self: &Arc<Self>, tail: Tail) {
        let mut state = self.state();
        if state.tails.len() < MOST_IDLE {
            state.tails.push_back((tail, Instant::now() + LINGER));
        }
        self.watch(&mut state);
    }

    fn watch(self: &Arc<Self>, state: &mut State) {
        if state.reaper.is_none() {
            state.reaper = Some(tokio::spawn(reap(Arc::downgrade(self))).abort_handle());
        }
    }

    fn idle(self: &Arc<Self>) -> Option<Lease> {
        let mut state = self.state();
        if let Some(sender) = &state.shared {
            if !sender.is_closed() {
                return Some(Lease::Shared { sender: sender.clone(), reused: true });
            }
            state.shared = None;
        }
        if state.idle.is_empty() {
            return self.ended_tail(&mut state).map(Lease::Own);
        }
        let now = Instant::now();
        // The one used last is the least likely to be closed by now.
        while let Some(Idle { mut line, since, until }) = state.idle.pop() {
            if until <= now {
                // All others are older, and need not be so by much, but none is worth the doubt.
                state.idle.clear();
            } else if now < since + COLD || line.rest() {
                return Some(Lease::Own(line));
            }
        }
        None
    }

    /// Whether the connections were left alone long enough for the server to have closed them unnoticed.
    fn is_cold(&self) -> bool {
        let state = self.state();
        state.idle.last().is_some_and(|idle| idle.since.elapsed() >= COLD)
    }

    /// A connection whose last answer has ended since it was left.
    fn ended_tail(self: &Arc<Self>, state: &mut State) -> Option<Box<Line>> {
        let now = Instant::now();
        // The oldest first: it had the most time. One that is not done goes to the back, so that a few that
        // never end do not stand before all others.
        for _ in 0..state.tails.len().min(TAILS_LOOK) {
            let (tail, until) = state.tails.pop_front()?;
            match tail.end(self) {
                Ok(Some(mut line)) => {
                    line.reused = true;
                    return Some(line);
                }
                Err(tail) if until > now => state.tails.push_back((tail, until)),
                Ok(None) | Err(_) => {}
            }
        }
        None
    }

    /// Uses no connection again that is there now: the network they were made on may be gone, and a
    /// connection does not notice.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.idle.clear();
        state.tails.clear();
        state.shared = None;
    }

    async fn dial(self: &Arc<Self>) -> Result<Lease, Fault> {
        let opening = async {
            let wait_for_first = self.dialer.may_share() && !self.state().one_each;
            let _first = if wait_for_first { Some(self.first.lock().await) } else { None };
            // Somebody was first.
            if wait_for_first && let Some(lease) = self.idle() {
                return Ok(lease);
            }
            Ok(match self.dialer.open().await? {
                Opened::Own(line) => {
                    self.state().one_each = true;
                    Lease::Own(line)
                }
                Opened::Shared(sender) => {
                    self.state().shared = Some(sender.clone());
                    Lease::Shared { sender, reused: false }
                }
            })
        };
        match tokio::time::timeout(self.connect, opening).await {
            Ok(result) => result,
            Err(_) => Err(Fault::before_sending(Cause::Timeout(Limit::Connect))
                .note(format!("no connection within {:?}", self.connect))),
        }
    }

    /// Forgets what has been idle too long. Says whether anything is left to be looked after.
    fn prune(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        state.idle.retain(|idle| idle.until > now);
        state.tails.retain(|(_, until)| *until > now);
        if state.idle.is_empty() && state.tails.is_empty() {
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

/// Nobody drives an idle connection, so nobody would notice that it should be closed.
async fn reap(pool: Weak<Pool>) {
    loop {
        // First of all, since a pool that is busy is often empty: this shall not start with every request.
        tokio::time::sleep(SWEEP).await;
        if !pool.upgrade().is_some_and(|pool| pool.prune()) {
            return;
        }
    }
}

const SWEEP: Duration = Duration::from_secs(5);

/// A connection that was used a moment ago is used again without a look: a busy client does not pay for it.
const COLD: Duration = Duration::from_millis(1);

/// How long a connection is kept when the server says nothing about it: less than the minute after which
/// common load balancers close theirs.
pub(super) const KEEP: Duration = Duration::from_secs(50);

/// How long the end of an answer may take to come after the answer.
const LINGER: Duration = Duration::from_secs(2);

/// How many such connections are looked at before a new one is made.
const TAILS_LOOK: usize = 4;

/// Enough for a burst, and a bound to what a burst leaves behind.
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

// === impl Driven ===

impl Driven {
    /// Moves bytes. When the connection has ended it is dropped, which tells everybody who waits on it.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.0
            && Pin::new(connection).poll(cx).is_ready()
        {
            self.0 = None;
        }
    }
}

// === impl Line ===

impl Line {
    pub(super) fn new(
        sender: http1::SendRequest<Payload>,
        connection: http1::Connection<Stream, Payload>,
        written: Written,
    ) -> Self {
        Self { sender, driven: Driven(Some(connection)), gate: Gate::default(), written, reused: false }
    }

    /// Ends an exchange. Says whether there can be another on this connection.
    pub(super) fn rest(&mut self) -> bool {
        let mut drive = pin!(unconstrained(poll_fn(|cx| {
            self.driven.drive(cx);
            Poll::Ready(())
        })));
        // Makes it forget who drove it, or the next request would wake that task for nothing.
        let _ = drive.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready()
    }
}
