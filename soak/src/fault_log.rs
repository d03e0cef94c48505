//! Records which fault struck a world, and when. The ledger uses it to decide whether a failure has
//! an explanation.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::messages::{CallRecord, Micros};

/// A fault that a world can be struck with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    Closed,
    ConnectionsClosed,
    ConnectionsReset,
    Delay,
    Exit,
    Killed,
    LineCut,
    NoAnswer,
    Noise,
    Refused,
    ReplyCut,
    RequestCut,
    Reset,
    Restart,
    SessionsLost,
    /// On HTTP+SSE, where a client that learns of it leaves the stream that other responses arrive
    /// on.
    SessionsLostWithStream,
    Slow,
    Stall,
    Status502,
    Status503,
    StderrFlood,
    StreamsClosed,
}

/// All faults of one world, with the time in which each may have struck calls.
#[derive(Default)]
pub(crate) struct FaultLog {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    windows: Vec<Window>,
    /// Indexes of the faults that wait in the server for their request.
    armed: Vec<usize>,
}

struct Window {
    kind: FaultKind,
    begin: Micros,
    /// `None` while the fault goes on.
    end: Option<Micros>,
}

/// Identifies an ongoing fault for [`FaultLog::end`].
#[must_use]
pub(crate) struct FaultId(usize);

impl FaultLog {
    /// Records a fault that begins now.
    pub(crate) fn begin(&self, kind: FaultKind) -> FaultId {
        self.begin_at(kind, Micros::now())
    }

    pub(crate) fn begin_at(&self, kind: FaultKind, begin: Micros) -> FaultId {
        let mut entries = self.entries();
        entries.windows.push(Window { kind, begin, end: None });
        FaultId(entries.windows.len() - 1)
    }

    /// Records the end of a fault.
    pub(crate) fn end(&self, fault: FaultId) {
        self.entries().windows[fault.0].end = Some(Micros::now());
    }

    /// Records that the fault waits for the next matching request; [`FaultLog::end_armed`] ends it.
    pub(crate) fn mark_armed(&self, fault: FaultId) {
        self.entries().armed.push(fault.0);
    }

    /// Records that no armed fault is left in the server: all of them have struck by now.
    pub(crate) fn end_armed(&self) {
        let mut entries = self.entries();
        for index in std::mem::take(&mut entries.armed) {
            entries.windows[index].end = Some(Micros::now());
        }
    }

    pub(crate) fn has_armed(&self) -> bool {
        !self.entries().armed.is_empty()
    }

    /// Whether a fault that can hide a request's outcome from the client may have struck this call.
    pub(crate) fn may_hide_outcome(&self, call: &CallRecord) -> bool {
        self.overlaps(call, FAULT_AFTERMATH, FaultKind::hides_outcome)
    }

    /// Whether the server was unreachable at some time during this call.
    pub(crate) fn was_down(&self, call: &CallRecord) -> bool {
        self.overlaps(call, FAULT_AFTERMATH, FaultKind::is_outage)
    }

    pub(crate) fn counts(&self) -> BTreeMap<FaultKind, u64> {
        let mut counts = BTreeMap::new();
        for window in &self.entries().windows {
            *counts.entry(window.kind).or_default() += 1;
        }
        counts
    }

    fn overlaps(&self, call: &CallRecord, aftermath: Duration, of: fn(FaultKind) -> bool) -> bool {
        self.entries().windows.iter().any(|window| {
            let ended_before = window.end.is_some_and(|end| end.plus(aftermath) < call.begin);
            of(window.kind) && window.begin <= call.end && !ended_before
        })
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

impl FaultKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::ConnectionsClosed => "connections closed",
            Self::ConnectionsReset => "connections reset",
            Self::Delay => "delay",
            Self::Exit => "exit",
            Self::Killed => "killed",
            Self::LineCut => "line cut",
            Self::NoAnswer => "no answer",
            Self::Noise => "noise",
            Self::Refused => "refused",
            Self::ReplyCut => "reply cut",
            Self::RequestCut => "request cut",
            Self::Reset => "reset",
            Self::Restart => "restart",
            Self::SessionsLost => "sessions lost",
            Self::SessionsLostWithStream => "sessions lost with stream",
            Self::Slow => "slow",
            Self::Stall => "stall",
            Self::Status502 => "status 502",
            Self::Status503 => "status 503",
            Self::StderrFlood => "stderr flood",
            Self::StreamsClosed => "streams closed",
        }
    }

    /// Whether a client that meets this fault may be unable to tell if its request was executed.
    fn hides_outcome(self) -> bool {
        match self {
            Self::Closed
            | Self::ConnectionsClosed
            | Self::ConnectionsReset
            | Self::Exit
            | Self::Killed
            | Self::LineCut
            | Self::NoAnswer
            | Self::Refused
            | Self::ReplyCut
            | Self::RequestCut
            | Self::Reset
            | Self::Restart
            | Self::SessionsLostWithStream
            | Self::Stall
            | Self::Status502
            | Self::Status503
            | Self::StreamsClosed
            // Each is shorter than the limits of a call, but two of them may strike the same call.
            | Self::Slow
            | Self::Delay => true,
            // The server responds; its response about a lost session says that it did not execute
            // the request.
            Self::Noise | Self::SessionsLost | Self::StderrFlood => false,
        }
    }

    /// Whether the server is unreachable during this fault.
    fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Exit | Self::Killed | Self::LineCut | Self::Refused | Self::Restart | Self::Stall
        )
    }
}

/// How long after its end a fault may still strike: a process takes time to exit, and a client to
/// notice. Generous, because a machine under load is slow; a label that is wrong by rule is wrong
/// in calmer moments too.
const FAULT_AFTERMATH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Outcome, Tool};

    fn call(begin: u64, end: u64) -> CallRecord {
        let (begin, end) = (Micros(begin * 1_000_000), Micros(end * 1_000_000));
        CallRecord { world: 0, tool: Tool::Act, number: 0, begin, end, outcome: Outcome::Succeeded }
    }

    fn log(kind: FaultKind, begin: u64, end: Option<u64>) -> FaultLog {
        let at = |second: u64| Micros(second * 1_000_000);
        let entries =
            Entries { windows: vec![Window { kind, begin: at(begin), end: end.map(at) }], armed: Vec::new() };
        FaultLog { entries: Mutex::new(entries) }
    }

    #[test]
    fn fault_explains_only_calls_of_its_own_time() {
        let log = log(FaultKind::Reset, 10, Some(12));
        assert!(!log.may_hide_outcome(&call(5, 9)));
        assert!(log.may_hide_outcome(&call(9, 10)));
        assert!(log.may_hide_outcome(&call(11, 11)));
        assert!(log.may_hide_outcome(&call(13, 20)));
        assert!(!log.may_hide_outcome(&call(14, 20)));
    }

    #[test]
    fn armed_fault_explains_calls_until_it_has_struck() {
        let log = FaultLog::default();
        let now = Micros::now().0 / 1_000_000;
        let fault = log.begin(FaultKind::NoAnswer);
        log.mark_armed(fault);
        assert!(log.has_armed());
        assert!(log.may_hide_outcome(&call(now + 100, now + 200)));
        log.end_armed();
        assert!(!log.has_armed());
        assert!(!log.may_hide_outcome(&call(now + 100, now + 200)));
    }

    #[test]
    fn lost_session_leaves_no_doubt_and_is_no_outage() {
        let log = log(FaultKind::SessionsLost, 10, Some(10));
        assert!(!log.may_hide_outcome(&call(9, 11)));
        assert!(!log.was_down(&call(9, 11)));
    }
}
