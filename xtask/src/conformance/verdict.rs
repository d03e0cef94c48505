//! Decides whether the result of a run is as expected.

use super::{expected::Expectation, scenario::RunResult};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed(String),
    /// Failed, as listed, for this reason.
    ExpectedFailure(String),
    /// Listed as failing for this reason, and left out to save time.
    NotRun(String),
    /// Passed in a way that proves nothing, as listed.
    Vacuous(String),
    /// Passed although listed as failing, for this reason.
    Stale(String),
}

impl Verdict {
    /// Whether the whole command must fail.
    pub(super) fn is_error(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Stale(_))
    }
}

pub(super) fn judge(result: &RunResult, expectation: Expectation<'_>) -> Verdict {
    let outcome = classify(result);
    // A pass that proves nothing neither counts for us nor makes an expected failure stale.
    if let (Outcome::Passed | Outcome::ProvedNothing, Some(reason)) = (&outcome, expectation.vacuous) {
        return Verdict::Vacuous(reason.to_owned());
    }
    match (outcome, expectation.failure) {
        (Outcome::Passed, None) => Verdict::Passed,
        (Outcome::Passed, Some(reason)) => Verdict::Stale(reason.to_owned()),
        (Outcome::ProvedNothing | Outcome::Failed(_), Some(reason)) => {
            Verdict::ExpectedFailure(reason.to_owned())
        }
        (Outcome::ProvedNothing, None) => {
            Verdict::Failed("vacuous: the suite passed it, but no check succeeded".to_owned())
        }
        (Outcome::Failed(why), None) => Verdict::Failed(why),
    }
}

enum Outcome {
    Passed,
    /// The suite passes it, but nothing was checked: a client that does nothing gets this far.
    ProvedNothing,
    Failed(String),
}

fn classify(result: &RunResult) -> Outcome {
    let fail = |why: &str| Outcome::Failed(why.to_owned());
    if result.out_of_time {
        return fail("out of time");
    }
    let Some(checks) = &result.checks else {
        return fail("the suite wrote no checks");
    };
    match result.exit {
        _ if checks.failure + checks.warning > 0 => {
            Outcome::Failed(format!("not ok: {}", summarize_names(&checks.not_ok)))
        }
        Some(0) if checks.success == 0 => Outcome::ProvedNothing,
        Some(0) => Outcome::Passed,
        Some(_) => fail("no check failed, but the client exited with an error or ran out of time"),
        None => fail("the suite was killed"),
    }
}

/// Formats the first few names, and how many more there are.
fn summarize_names(names: &[String]) -> String {
    match names {
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::scenario::Checks;

    const PLAIN: Expectation<'static> = Expectation { failure: None, vacuous: None };
    const LISTED: Expectation<'static> = Expectation { failure: Some("why"), vacuous: None };

    fn result(exit: i32, success: u32, failure: u32) -> RunResult {
        let checks = Checks { success, failure, ..Checks::default() };
        RunResult { exit: Some(exit), out_of_time: false, checks: Some(checks), seconds: 1.0 }
    }

    #[test]
    fn a_pass_needs_exit_zero_and_a_check_that_succeeded() {
        assert_eq!(judge(&result(0, 1, 0), PLAIN), Verdict::Passed);
        assert!(judge(&result(0, 0, 0), PLAIN).is_error());
        assert!(judge(&result(1, 3, 0), PLAIN).is_error());
        assert!(judge(&result(1, 3, 1), PLAIN).is_error());
        assert!(judge(&result(0, 3, 1), PLAIN).is_error());
    }

    #[test]
    fn a_warning_a_kill_and_missing_checks_are_failures() {
        let mut warned = result(0, 3, 0);
        warned.checks = Some(Checks { success: 3, warning: 1, ..Checks::default() });
        assert!(judge(&warned, PLAIN).is_error());
        let killed = RunResult { exit: None, out_of_time: true, ..result(0, 3, 0) };
        assert_eq!(judge(&killed, PLAIN), Verdict::Failed("out of time".to_owned()));
        let silent = RunResult { checks: None, ..result(0, 3, 0) };
        assert!(judge(&silent, PLAIN).is_error());
    }

    #[test]
    fn a_listed_failure_is_fine_and_a_listed_pass_is_stale() {
        assert_eq!(judge(&result(1, 0, 2), LISTED), Verdict::ExpectedFailure("why".to_owned()));
        assert_eq!(judge(&result(0, 0, 0), LISTED), Verdict::ExpectedFailure("why".to_owned()));
        let stale = judge(&result(0, 2, 0), LISTED);
        assert_eq!(stale, Verdict::Stale("why".to_owned()));
        assert!(stale.is_error());
    }

    #[test]
    fn a_pass_listed_as_vacuous_proves_nothing_and_spoils_nothing() {
        let vacuous = Expectation { failure: Some("why"), vacuous: Some("empty") };
        assert_eq!(judge(&result(0, 1, 0), vacuous), Verdict::Vacuous("empty".to_owned()));
        assert_eq!(judge(&result(0, 0, 0), vacuous), Verdict::Vacuous("empty".to_owned()));
        assert_eq!(judge(&result(1, 0, 1), vacuous), Verdict::ExpectedFailure("why".to_owned()));
        let only = Expectation { failure: None, ..vacuous };
        assert!(judge(&result(1, 0, 1), only).is_error());
    }
}
