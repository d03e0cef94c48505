//! Owns the rules that every call is checked against. This file alone decides what is a violation.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{EffectfulCall, ReportedOutcome};
use crate::fault_log::FaultLog;
use crate::limits::{HANG_TIMEOUT, IDLE_LIMIT, RECONNECT_WAIT, TOTAL_LIMIT};
use crate::messages::{CallRecord, Failure, Label, Outcome, Tool};

/// An invariant of the soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Every call ends, and ends once.
    OneOutcome,
    /// A call ends within its limits.
    InTime,
    /// A result belongs to the call it was returned for.
    OwnResult,
    /// A call that may have effects is executed once if it succeeded, and never twice.
    AtMostOnce,
    /// `not_executed` means that the server did not execute the call.
    ExactLabel,
    /// `unknown` means that a fault struck the call.
    UnknownHasFault,
    /// A call that may be retried fails only by a limit of its own.
    HarmlessSucceeds,
    /// After the faults every client works and can be closed.
    Recovers,
    /// The client keeps to the protocol.
    Wire,
    /// Nothing is left behind: files, tasks, processes.
    NoLeak,
    /// Memory does not grow with the number of calls.
    Memory,
}

/// Violations, with the first few examples of each rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Violations {
    by_rule: BTreeMap<Rule, (u64, Vec<String>)>,
}

/// Checks what can be decided from the record of the call alone.
pub(super) fn check_call(call: &CallRecord, violations: &mut Violations) {
    match &call.outcome {
        Outcome::Hung => {
            violations.add(Rule::OneOutcome, format!("{}: none within {HANG_TIMEOUT:?}", describe(call)));
            return;
        }
        Outcome::WrongAnswer(text) => {
            let text: String = text.chars().take(80).collect();
            violations.add(Rule::OwnResult, format!("{}: got {text:?}", describe(call)));
        }
        Outcome::Succeeded | Outcome::Failed(_) | Outcome::Left => {}
    }
    // A list may be several requests, so its time is not that of one call.
    if call.tool != Tool::List && call.took() > TOTAL_LIMIT + LOAD_SLACK {
        violations.add(Rule::InTime, format!("{}: may take {TOTAL_LIMIT:?}", describe(call)));
    }
}

/// Compares the caller's outcome with the server's executions.
pub(super) fn check_executions(number: u64, act: &EffectfulCall, violations: &mut Violations) {
    let EffectfulCall { reported: told, executions } = act;
    let wrong = match (told, executions) {
        (None, _) => Some(Rule::OneOutcome),
        (_, 2..) => Some(Rule::AtMostOnce),
        (Some(ReportedOutcome::Succeeded), 0) => Some(Rule::AtMostOnce),
        (Some(ReportedOutcome::NotExecuted), 1) => Some(Rule::ExactLabel),
        (Some(_), _) => None,
    };
    if let Some(rule) = wrong {
        let told = told.map_or("nothing".to_owned(), |told| format!("{told:?}"));
        violations.add(rule, format!("act {number}: the caller was told {told}, executions: {executions}"));
    }
}

/// Whether a limit of the call itself ended it, so that the client could not have done more.
///
/// Either the error says so (idle or total limit), or the time does: the call was silent for as
/// long as it may be, or it waited `reconnect_wait` for a server that was down. While a call waits
/// for a server to come back, its error says why there is no connection, and not that the time is
/// up.
pub(super) fn is_own_limit(call: &CallRecord, failure: &Failure, faults: &FaultLog) -> bool {
    let silence_used = call.tool != Tool::List && call.took() >= IDLE_LIMIT;
    let wait_used = call.took() >= RECONNECT_WAIT && faults.was_down(call);
    failure.limit.is_some() || silence_used || wait_used
}

/// Checks a failed call, now that all faults are known.
pub(super) fn check_failure(
    call: &CallRecord,
    failure: &Failure,
    own_limit: bool,
    faults: &FaultLog,
    violations: &mut Violations,
) {
    if call.tool.is_harmless() {
        if !own_limit {
            violations.add(Rule::HarmlessSucceeds, describe(call));
        }
    } else if failure.label == Label::Unknown && !faults.may_hide_outcome(call) {
        violations.add(Rule::UnknownHasFault, describe(call));
    }
}

/// Describes the call, for an example.
pub(super) fn describe(call: &CallRecord) -> String {
    let how = match &call.outcome {
        Outcome::Failed(failure) => format!("failed after {:.3?}: {}", call.took(), failure.text),
        Outcome::Succeeded => format!("succeeded after {:.3?}", call.took()),
        other => format!("{other:?} after {:.3?}", call.took()),
    };
    format!("{} {}: {how}", call.tool.name(), call.number)
}

impl Rule {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneOutcome => "a call has exactly one outcome",
            Self::InTime => "a call ends within its limits",
            Self::OwnResult => "a result belongs to its call",
            Self::AtMostOnce => "a call with effects is executed once if it succeeds, and never twice",
            Self::ExactLabel => "`not_executed` means that the server did not act",
            Self::UnknownHasFault => "`unknown` means that a fault struck the call",
            Self::HarmlessSucceeds => "a harmless call fails only by its own limit",
            Self::Recovers => "every client works after the faults and can be closed",
            Self::Wire => "the client keeps to the protocol",
            Self::NoLeak => "no file, task or process is left behind",
            Self::Memory => "memory does not grow with the number of calls",
        }
    }
}

impl Violations {
    pub(crate) fn add(&mut self, rule: Rule, example: String) {
        self.add_many(rule, 1, [example]);
    }

    fn add_many(&mut self, rule: Rule, count: u64, examples: impl IntoIterator<Item = String>) {
        let (sum, kept) = self.by_rule.entry(rule).or_default();
        *sum += count;
        kept.extend(examples);
        kept.truncate(MAX_EXAMPLES);
    }

    /// Adds the violations of a world, each example under the world's name.
    pub(crate) fn append(&mut self, world: &str, other: Self) {
        for (rule, (count, examples)) in other.by_rule {
            self.add_many(rule, count, examples.into_iter().map(|example| format!("{world}: {example}")));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_rule.is_empty()
    }

    /// Iterates over the broken rules, with counts and examples.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Rule, u64, &[String])> {
        self.by_rule.iter().map(|(rule, (count, examples))| (*rule, *count, examples.as_slice()))
    }
}

/// Time that a loaded machine may add to a call.
const LOAD_SLACK: Duration = Duration::from_secs(2);
const MAX_EXAMPLES: usize = 5;
