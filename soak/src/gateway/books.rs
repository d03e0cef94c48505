//! The books of calls: what hosts got, and what servers have executed.

use std::collections::HashMap;
use std::fmt;

use parking_lot::Mutex;

/// What became of a call, for its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The host got its result.
    Result,
    /// The host got this error, which says that the call was not executed.
    NotExecuted(String),
    /// The host got this error, which says that the call may have been executed.
    Unknown(String),
}

/// The books of all calls.
#[derive(Default)]
pub(super) struct Books {
    executed: Mutex<HashMap<String, u64>>,
    /// By the name of a call: whether it was harmless, and what became of it.
    ended: Mutex<HashMap<String, (bool, Outcome)>>,
    /// By the name of a server: how many results hosts got from it.
    answers: Mutex<HashMap<String, u64>>,
    violations: Mutex<Vec<String>>,
}

/// How many calls there were.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) harmless: u64,
    pub(super) with_effects: u64,
    unknown: u64,
    not_executed: u64,
}

impl Books {
    /// A server has executed a call with effects.
    pub(super) fn executed(&self, call: &str) {
        *self.executed.lock().entry(call.to_owned()).or_default() += 1;
    }

    /// A host has the outcome of a call.
    pub(super) fn ended(&self, call: String, is_harmless: bool, outcome: Outcome) {
        if let Some((_, earlier)) = self.ended.lock().insert(call.clone(), (is_harmless, outcome)) {
            self.violate(format!("{call} has a second outcome besides {earlier:?}"));
        }
    }

    /// A host got a result from this server.
    pub(super) fn answered(&self, server: &str) {
        *self.answers.lock().entry(server.to_owned()).or_default() += 1;
    }

    /// How many results hosts got from this server.
    pub(super) fn count_answers(&self, server: &str) -> u64 {
        self.answers.lock().get(server).copied().unwrap_or(0)
    }

    pub(super) fn violate(&self, violation: String) {
        self.violations.lock().push(violation);
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (is_harmless, outcome) in self.ended.lock().values() {
            match is_harmless {
                true => totals.harmless += 1,
                false => totals.with_effects += 1,
            }
            match outcome {
                Outcome::Result => {}
                Outcome::NotExecuted(_) => totals.not_executed += 1,
                Outcome::Unknown(_) => totals.unknown += 1,
            }
        }
        totals
    }

    /// Compares what hosts were told with what servers have done.
    pub(super) fn audit(&self) -> Vec<String> {
        let mut violations = self.violations.lock().clone();
        let executed = self.executed.lock();
        let ended = self.ended.lock();
        for (call, times) in executed.iter().filter(|(_, times)| **times > 1) {
            violations.push(format!("{call} was executed {times} times"));
        }
        for (call, (is_harmless, outcome)) in &*ended {
            let times = executed.get(call).copied().unwrap_or(0);
            match (is_harmless, outcome) {
                (true, Outcome::Result) | (false, Outcome::Unknown(_)) => {}
                (true, failed) => violations.push(format!("{call} is harmless and failed: {failed:?}")),
                (false, Outcome::Result) if times == 1 => {}
                (false, Outcome::NotExecuted(_)) if times == 0 => {}
                (false, told) => violations.push(format!("{call} was executed {times} times: {told:?}")),
            }
        }
        violations
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { harmless, with_effects, unknown, not_executed } = self;
        write!(
            f,
            "{harmless} harmless calls, {with_effects} with effects, of which {unknown} are unknown and \
             {not_executed} were not executed"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hosts_are_told_is_compared_with_what_was_done() {
        let error = || "lost".to_owned();
        for (is_harmless, outcome, times, is_right) in [
            (true, Outcome::Result, 0, true),
            (true, Outcome::Unknown(error()), 0, false),
            (false, Outcome::Result, 1, true),
            (false, Outcome::Result, 0, false),
            (false, Outcome::Unknown(error()), 0, true),
            (false, Outcome::Unknown(error()), 1, true),
            (false, Outcome::Unknown(error()), 2, false),
            (false, Outcome::NotExecuted(error()), 0, true),
            (false, Outcome::NotExecuted(error()), 1, false),
        ] {
            let books = Books::default();
            for _ in 0..times {
                books.executed("a");
            }
            books.ended("a".to_owned(), is_harmless, outcome.clone());
            assert_eq!(books.audit().is_empty(), is_right, "{is_harmless} {outcome:?} {times}");
        }
        let books = Books::default();
        books.ended("a".to_owned(), true, Outcome::Result);
        books.ended("a".to_owned(), true, Outcome::Result);
        assert_eq!(books.audit().len(), 1, "a call ends once");
    }
}
