//! The ledger of one world: the outcome that each caller was given, beside what the server
//! executed.

mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::fault_log::FaultLog;
use crate::messages::{CallRecord, Label, Outcome};

pub(crate) use rules::{Rule, Violations};

/// All calls of one world, from both sides.
#[derive(Default)]
pub(crate) struct CallLedger {
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    /// Calls that must not run twice, by number. A server may execute one before the caller's
    /// record arrives here, so either side creates the entry.
    acts: HashMap<u64, EffectfulCall>,
    /// Failed calls, checked once all faults are known.
    failed: Vec<CallRecord>,
    tally: Tally,
    violations: Violations,
}

/// One call that must not run twice.
#[derive(Default)]
struct EffectfulCall {
    /// The outcome that its caller was given. `None` until its record arrives.
    reported: Option<ReportedOutcome>,
    executions: u32,
}

/// The outcome that a caller was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedOutcome {
    Succeeded,
    NotExecuted,
    Unknown,
    Left,
    /// No outcome at all, which is a violation of its own.
    Hung,
}

/// Counts of calls by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Calls that must not run twice.
    pub(crate) effects: Outcomes,
    /// Calls that may be retried.
    pub(crate) harmless: Outcomes,
    /// Failures by kind and label.
    pub(crate) failed: BTreeMap<(String, Label), Failures>,
    pub(crate) slowest: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) succeeded: u64,
    /// Failed because a limit of the call ran out; not counted by the labels below.
    pub(crate) own_limit: u64,
    pub(crate) not_executed: u64,
    pub(crate) unknown: u64,
    pub(crate) left: u64,
    /// Hung, or answered with what belongs to another call.
    pub(crate) broken: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(crate) all: u64,
    pub(crate) harmless: u64,
}

impl CallLedger {
    /// Records that the server executed the call with this number.
    pub(crate) fn record_execution(&self, number: u64) {
        self.pages().acts.entry(number).or_default().executions += 1;
    }

    /// Records the outcome of a call.
    pub(crate) fn record(&self, call: CallRecord) {
        let mut pages = self.pages();
        if !call.tool.is_harmless() {
            let twice = pages
                .acts
                .entry(call.number)
                .or_default()
                .reported
                .replace(ReportedOutcome::from(&call.outcome));
            if twice.is_some() {
                pages.violations.add(Rule::OneOutcome, rules::describe(&call));
            }
        }
        rules::check_call(&call, &mut pages.violations);
        pages.tally.slowest = pages.tally.slowest.max(call.took());
        if matches!(call.outcome, Outcome::Failed(_)) {
            pages.failed.push(call);
        } else {
            pages.tally.count_end(&call);
        }
    }

    pub(crate) fn record_violation(&self, rule: Rule, text: String) {
        self.pages().violations.add(rule, text);
    }

    /// Checks everything against the rules. Called when nothing can be executed any more.
    pub(crate) fn audit(&self, faults: &FaultLog) -> (Tally, Violations) {
        let mut pages = self.pages();
        let Pages { acts, failed, tally, violations } = &mut *pages;
        for (number, act) in &*acts {
            rules::check_executions(*number, act, violations);
        }
        for call in failed.drain(..) {
            if let Outcome::Failed(failure) = &call.outcome {
                let own_limit = rules::is_own_limit(&call, failure, faults);
                tally.count_failure(&call, failure, own_limit);
                rules::check_failure(&call, failure, own_limit, faults, violations);
            }
        }
        (std::mem::take(tally), std::mem::take(violations))
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock()
    }
}

impl From<&Outcome> for ReportedOutcome {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            // The content is checked separately; here it counts that the call is reported as
            // executed.
            Outcome::Succeeded | Outcome::WrongAnswer(_) => Self::Succeeded,
            Outcome::Failed(failure) => match failure.label {
                Label::NotExecuted => Self::NotExecuted,
                Label::Unknown => Self::Unknown,
            },
            Outcome::Left => Self::Left,
            Outcome::Hung => Self::Hung,
        }
    }
}

impl Tally {
    fn count_end(&mut self, call: &CallRecord) {
        let outcomes = self.outcomes(call);
        match call.outcome {
            Outcome::Succeeded => outcomes.succeeded += 1,
            Outcome::Left => outcomes.left += 1,
            Outcome::WrongAnswer(_) | Outcome::Hung | Outcome::Failed(_) => outcomes.broken += 1,
        }
    }

    fn count_failure(&mut self, call: &CallRecord, failure: &crate::messages::Failure, own_limit: bool) {
        let outcomes = self.outcomes(call);
        match failure.label {
            _ if own_limit => outcomes.own_limit += 1,
            Label::NotExecuted => outcomes.not_executed += 1,
            Label::Unknown => outcomes.unknown += 1,
        }
        let failures = self.failed.entry((failure.kind.clone(), failure.label)).or_default();
        failures.all += 1;
        failures.harmless += u64::from(call.tool.is_harmless());
    }

    fn outcomes(&mut self, call: &CallRecord) -> &mut Outcomes {
        if call.tool.is_harmless() { &mut self.harmless } else { &mut self.effects }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.effects.calls() + self.harmless.calls()
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().map(|failures| failures.all).sum()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.effects.add(&other.effects);
        self.harmless.add(&other.harmless);
        self.slowest = self.slowest.max(other.slowest);
        for (kind, failures) in &other.failed {
            let sum = self.failed.entry(kind.clone()).or_default();
            sum.all += failures.all;
            sum.harmless += failures.harmless;
        }
    }
}

impl Outcomes {
    /// Returns the number of calls that ended by themselves, without those that their callers
    /// dropped.
    pub(crate) fn calls(&self) -> u64 {
        let Self { succeeded, own_limit, not_executed, unknown, left: _, broken } = self;
        succeeded + own_limit + not_executed + unknown + broken
    }

    fn add(&mut self, other: &Self) {
        self.succeeded += other.succeeded;
        self.own_limit += other.own_limit;
        self.not_executed += other.not_executed;
        self.unknown += other.unknown;
        self.left += other.left;
        self.broken += other.broken;
    }
}
