//! Owns what the demo server remembers, and which of its calls is to be cut.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::Outlet;
use super::knots::Tool;
use super::ledger::Ledger;

/// Shared by all connections.
#[derive(Clone)]
pub(crate) struct State(Arc<Mutex<Memory>>);

pub(super) struct Memory {
    pub(super) sessions: HashSet<String>,
    opened: u64,
    /// How an unknown session is refused: one of the signatures.
    pub(super) signature: usize,
    /// No connection carries more than one request any more.
    pub(super) draining: bool,
    pub(super) ledger: Ledger,
    /// Streams that hang open for notifications.
    pub(super) streams: Vec<Outlet>,
    /// Cuts that wait for a call.
    pub(super) cuts: VecDeque<Cut>,
    pub(super) stream_cuts: usize,
    /// Calls that were cut: none is cut twice.
    cut: HashSet<u64>,
    /// Those of them that were not answered since.
    pub(super) pending: HashSet<u64>,
    /// Stories that were cut short and can be taken up.
    pub(super) untold: HashMap<u64, Story>,
    pub(super) done: Done,
    under_way: usize,
    last_request: Instant,
}

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The request was read and nothing done.
    Before,
    /// The call has run and nothing was said.
    After,
    /// Half of the answer is out.
    Halfway,
}

/// A knot that is being tied.
#[derive(Clone)]
pub(super) struct Story {
    pub(super) id: Value,
    pub(super) token: Value,
    pub(super) result: Value,
}

/// What the server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Calls that were answered.
    pub(crate) served: u64,
    /// Connections that were cut.
    pub(crate) cuts: u64,
    /// Streams of calls that were cut.
    pub(crate) streams_cut: u64,
    /// Those of them that were taken up again.
    pub(crate) resumed: u64,
}

impl State {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Memory {
            sessions: HashSet::new(),
            opened: 0,
            signature: 0,
            draining: false,
            ledger: Ledger::default(),
            streams: Vec::new(),
            cuts: VecDeque::new(),
            stream_cuts: 0,
            cut: HashSet::new(),
            pending: HashSet::new(),
            untold: HashMap::new(),
            done: Done::default(),
            under_way: 0,
            last_request: Instant::now(),
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server did so far.
    pub(crate) fn done(&self) -> Done {
        self.lock().done
    }

    /// Looks at the count of what ran.
    pub(crate) fn ledger<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.lock().ledger)
    }

    /// Which signature is in force.
    pub(crate) fn signature(&self) -> usize {
        self.lock().signature
    }

    /// A request begins; it is over when the guard is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        let mut memory = self.lock();
        memory.under_way += 1;
        memory.last_request = Instant::now();
        UnderWay(self.clone())
    }

    /// Whether nobody has asked for anything for so long, and everything is answered.
    pub(super) fn is_quiet(&self, time: Duration) -> bool {
        let memory = self.lock();
        memory.under_way == 0 && memory.last_request.elapsed() >= time
    }
}

impl Memory {
    /// A new session.
    pub(super) fn open(&mut self) -> String {
        self.opened += 1;
        let session = format!("demo-{}", self.opened);
        self.sessions.insert(session.clone());
        session
    }

    /// The call runs, as far as it is counted.
    pub(super) fn run(&mut self, ticket: Option<u64>, tool: Tool) {
        if let Some(ticket) = ticket {
            self.ledger.run(ticket, tool);
        }
    }

    /// The call is answered.
    pub(super) fn answered(&mut self, ticket: Option<u64>) {
        self.done.served += 1;
        if let Some(ticket) = ticket {
            self.pending.remove(&ticket);
        }
    }

    /// Whether this call is cut, and where. Only one that may be repeated is.
    pub(super) fn take_cut(&mut self, ticket: Option<u64>, tool: Tool) -> Option<Cut> {
        let ticket = ticket.filter(|ticket| tool.may_repeat() && !self.cut.contains(ticket))?;
        let cut = self.cuts.pop_front()?;
        self.cut.insert(ticket);
        self.pending.insert(ticket);
        self.done.cuts += 1;
        Some(cut)
    }

    /// Whether the stream of this call is cut, to be taken up again.
    pub(super) fn take_stream_cut(&mut self, ticket: u64, story: &Story) -> bool {
        if self.stream_cuts == 0 || self.cut.contains(&ticket) {
            return false;
        }
        self.stream_cuts -= 1;
        self.cut.insert(ticket);
        self.pending.insert(ticket);
        self.untold.insert(ticket, story.clone());
        self.done.streams_cut += 1;
        true
    }
}

/// A request that is under way.
pub(super) struct UnderWay(State);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}
