//! Holds the state of the demo server, and decides which of its calls are cut.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::channel::Sender;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use super::host_session::{HostRequest, HostSession};
use super::ledger::Ledger;
use super::tools::Tool;

/// State that all connections share.
#[derive(Clone, Default)]
pub(crate) struct DemoState(Arc<Mutex<StateInner>>);

#[derive(Default)]
pub(super) struct StateInner {
    pub(super) sessions: HashMap<String, HostSession>,
    sessions_opened: u64,
    /// Index of the signature that reports an unknown session.
    pub(super) signature: usize,
    /// Each connection is closed after its current request.
    pub(super) draining: bool,
    pub(super) ledger: Ledger,
    /// Streams that are open for notifications.
    pub(super) streams: Vec<EventSender>,
    /// Cuts that wait for a call.
    pub(super) cuts: VecDeque<CutPoint>,
    pub(super) stream_cuts: usize,
    /// Calls that were cut: none is cut twice.
    cut_calls: HashSet<u64>,
    /// Calls that were cut and not answered since.
    pub(super) pending: HashSet<u64>,
    /// Streamed calls that were cut and can be resumed.
    pub(super) resumable_calls: HashMap<u64, StreamedCall>,
    pub(super) counters: ServerCounters,
    active_requests: usize,
    last_request: Option<Instant>,
}

/// Sends to an open stream.
pub(super) type EventSender = Sender<Bytes, ConnectionCut>;

/// Aborts a connection in the middle of a response.
#[derive(Debug)]
pub(super) struct ConnectionCut;

impl fmt::Display for ConnectionCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cut on purpose")
    }
}

impl std::error::Error for ConnectionCut {}

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutPoint {
    /// After the request was read, before it was executed.
    Before,
    /// After the call was executed, before the response.
    After,
    /// In the middle of the response.
    Halfway,
}

/// A call whose steps are sent on a stream.
#[derive(Clone)]
pub(super) struct StreamedCall {
    pub(super) request: Arc<HostRequest>,
    pub(super) progress_token: Value,
    pub(super) result: Value,
}

/// Counts of what the server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerCounters {
    /// Calls that were answered.
    pub(crate) served: u64,
    /// Connections that were cut.
    pub(crate) cuts: u64,
    /// Streams of calls that were cut.
    pub(crate) streams_cut: u64,
    /// How many of those were resumed.
    pub(crate) resumed: u64,
}

impl DemoState {
    pub(super) fn lock(&self) -> MutexGuard<'_, StateInner> {
        self.0.lock()
    }

    /// Returns the counts so far.
    pub(crate) fn counters(&self) -> ServerCounters {
        self.lock().counters
    }

    /// Reads the count of executed calls.
    pub(crate) fn ledger<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.lock().ledger)
    }

    /// Returns the index of the signature in use.
    pub(crate) fn signature(&self) -> usize {
        self.lock().signature
    }

    /// Marks the start of a request, which ends when the guard is dropped.
    pub(super) fn begin_request(&self) -> RequestGuard {
        let mut memory = self.lock();
        memory.active_requests += 1;
        memory.last_request = Some(Instant::now());
        RequestGuard(self.clone())
    }

    /// Returns whether no request has arrived for `time`, and all are answered.
    pub(super) fn is_quiet(&self, time: Duration) -> bool {
        let memory = self.lock();
        memory.active_requests == 0 && memory.last_request.is_none_or(|last| last.elapsed() >= time)
    }
}

impl StateInner {
    /// Remembers a new session, and returns its id.
    pub(super) fn add_session(&mut self, host: HostSession) -> String {
        self.sessions_opened += 1;
        let session = format!("demo-{}", self.sessions_opened);
        self.sessions.insert(session.clone(), host);
        session
    }

    /// Counts the execution of a call that has a ticket.
    pub(super) fn record_run(&mut self, ticket: Option<u64>, tool: Tool) {
        if let Some(ticket) = ticket {
            self.ledger.record_run(ticket, tool);
        }
    }

    pub(super) fn record_answer(&mut self, ticket: Option<u64>) {
        self.counters.served += 1;
        if let Some(ticket) = ticket {
            self.pending.remove(&ticket);
        }
    }

    /// Returns where this call is cut, if it is. Only calls that may be repeated are.
    pub(super) fn take_cut(&mut self, ticket: Option<u64>, tool: Tool) -> Option<CutPoint> {
        let ticket = ticket.filter(|ticket| tool.may_repeat() && !self.cut_calls.contains(ticket))?;
        let cut = self.cuts.pop_front()?;
        self.cut_calls.insert(ticket);
        self.pending.insert(ticket);
        self.counters.cuts += 1;
        Some(cut)
    }

    /// Returns whether the stream of this call is cut, to be resumed.
    pub(super) fn take_stream_cut(&mut self, ticket: u64, call: &StreamedCall) -> bool {
        if self.stream_cuts == 0 || self.cut_calls.contains(&ticket) {
            return false;
        }
        self.stream_cuts -= 1;
        self.cut_calls.insert(ticket);
        self.pending.insert(ticket);
        self.resumable_calls.insert(ticket, call.clone());
        self.counters.streams_cut += 1;
        true
    }
}

/// A request that is being served.
pub(super) struct RequestGuard(DemoState);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.lock().active_requests -= 1;
    }
}
