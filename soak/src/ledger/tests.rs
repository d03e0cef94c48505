//! Tests of the ledger: which calls are violations.

use super::*;
use crate::fault_log::FaultKind;
use crate::limits::{IDLE_LIMIT, RECONNECT_WAIT};
use crate::messages::{CallLimit, Failure, Micros, Tool};

const QUIET_BEGIN: Micros = Micros(1_000_000);

fn record(tool: Tool, number: u64, lasted: Duration, outcome: Outcome) -> CallRecord {
    CallRecord { world: 0, tool, number, begin: QUIET_BEGIN, end: QUIET_BEGIN.plus(lasted), outcome }
}

fn failed(label: Label, limit: Option<CallLimit>) -> Outcome {
    Outcome::Failed(Failure { label, kind: "cut".to_owned(), limit, text: "connection lost".to_owned() })
}

/// Returns a log with a fault that spans all of the time since the epoch.
fn struck(kind: FaultKind) -> FaultLog {
    let log = FaultLog::default();
    let _ = log.begin_at(kind, Micros(0));
    log
}

/// Returns the broken rules with their counts.
fn broken(book: &CallLedger, faults: &FaultLog) -> Vec<(Rule, u64)> {
    book.audit(faults).1.iter().map(|(rule, count, _)| (rule, count)).collect()
}

/// Records one call that was executed this often, and returns the broken rules.
fn judge(executions: u32, call: CallRecord, faults: &FaultLog) -> Vec<(Rule, u64)> {
    let book = CallLedger::default();
    for _ in 0..executions {
        book.record_execution(call.number);
    }
    book.record(call);
    broken(&book, faults)
}

const SHORT: Duration = Duration::from_millis(5);

#[test]
fn calls_that_agree_with_the_server_break_no_rule() {
    let quiet = FaultLog::default();
    assert_eq!(judge(1, record(Tool::Act, 7, SHORT, Outcome::Succeeded), &quiet), []);
    assert_eq!(judge(0, record(Tool::Act, 7, SHORT, failed(Label::NotExecuted, None)), &quiet), []);
    for executions in 0..=1 {
        assert_eq!(judge(executions, record(Tool::Act, 7, SHORT, Outcome::Left), &quiet), []);
        let unknown = record(Tool::Act, 7, SHORT, failed(Label::Unknown, None));
        assert_eq!(judge(executions, unknown, &struck(FaultKind::Reset)), []);
    }
}

#[test]
fn second_execution_is_a_violation_whatever_the_caller_was_told() {
    let faults = struck(FaultKind::Reset);
    for outcome in
        [Outcome::Succeeded, Outcome::Left, failed(Label::Unknown, None), failed(Label::NotExecuted, None)]
    {
        assert_eq!(judge(2, record(Tool::Act, 7, SHORT, outcome), &faults), [(Rule::AtMostOnce, 1)]);
    }
}

#[test]
fn success_without_execution_is_a_violation() {
    let quiet = FaultLog::default();
    assert_eq!(judge(0, record(Tool::Act, 7, SHORT, Outcome::Succeeded), &quiet), [(Rule::AtMostOnce, 1)]);
}

#[test]
fn not_executed_with_an_execution_is_a_violation() {
    let call = record(Tool::Act, 7, SHORT, failed(Label::NotExecuted, None));
    assert_eq!(judge(1, call, &struck(FaultKind::Reset)), [(Rule::ExactLabel, 1)]);
}

#[test]
fn unknown_without_a_fault_is_a_violation() {
    let unknown = record(Tool::Act, 7, SHORT, failed(Label::Unknown, None));
    assert_eq!(judge(0, unknown.clone(), &FaultLog::default()), [(Rule::UnknownHasFault, 1)]);
    assert_eq!(judge(0, unknown.clone(), &struck(FaultKind::SessionsLost)), [(Rule::UnknownHasFault, 1)]);
    assert_eq!(judge(0, unknown, &struck(FaultKind::Killed)), []);
}

#[test]
fn execution_without_a_caller_is_a_violation() {
    let book = CallLedger::default();
    book.record_execution(99);
    assert_eq!(broken(&book, &FaultLog::default()), [(Rule::OneOutcome, 1)]);
}

#[test]
fn second_outcome_of_a_call_is_a_violation() {
    let book = CallLedger::default();
    book.record_execution(7);
    book.record(record(Tool::Act, 7, SHORT, Outcome::Succeeded));
    book.record(record(Tool::Act, 7, SHORT, Outcome::Succeeded));
    assert_eq!(broken(&book, &FaultLog::default()), [(Rule::OneOutcome, 1)]);
}

#[test]
fn hung_late_and_mixed_up_calls_are_violations() {
    let quiet = FaultLog::default();
    let minute = Duration::from_secs(60);
    assert_eq!(judge(0, record(Tool::Look, 7, minute, Outcome::Hung), &quiet), [(Rule::OneOutcome, 1)]);
    assert_eq!(judge(0, record(Tool::Look, 7, minute, Outcome::Succeeded), &quiet), [(Rule::InTime, 1)]);
    assert_eq!(judge(0, record(Tool::List, 0, minute, Outcome::Succeeded), &quiet), []);
    let wrong = Outcome::WrongAnswer("8".to_owned());
    assert_eq!(judge(0, record(Tool::Look, 7, SHORT, wrong), &quiet), [(Rule::OwnResult, 1)]);
}

#[test]
fn harmless_call_may_fail_by_its_own_limit_only() {
    let faults = struck(FaultKind::Restart);
    for tool in [Tool::Put, Tool::Look, Tool::List] {
        for label in [Label::NotExecuted, Label::Unknown] {
            let other = record(tool, 7, SHORT, failed(label, None));
            assert_eq!(judge(0, other, &faults), [(Rule::HarmlessSucceeds, 1)]);
            for limit in [CallLimit::Idle, CallLimit::Total] {
                assert_eq!(judge(0, record(tool, 7, SHORT, failed(label, Some(limit))), &faults), []);
            }
        }
    }
}

#[test]
fn used_up_time_is_the_calls_own_limit() {
    let quiet = FaultLog::default();
    let failure = || failed(Label::Unknown, None);
    let almost = IDLE_LIMIT.checked_sub(SHORT).unwrap();
    assert_eq!(judge(0, record(Tool::Look, 7, almost, failure()), &quiet), [(Rule::HarmlessSucceeds, 1)]);
    assert_eq!(judge(0, record(Tool::Look, 7, IDLE_LIMIT, failure()), &quiet), []);
    // A list has other limits; it may give up after `reconnect_wait`, but only while the server is
    // down.
    let waited = record(Tool::List, 0, RECONNECT_WAIT, failure());
    assert_eq!(judge(0, waited.clone(), &quiet), [(Rule::HarmlessSucceeds, 1)]);
    assert_eq!(judge(0, waited.clone(), &struck(FaultKind::Reset)), [(Rule::HarmlessSucceeds, 1)]);
    assert_eq!(judge(0, waited, &struck(FaultKind::Restart)), []);
}

#[test]
fn tally_counts_each_outcome_once() {
    let book = CallLedger::default();
    for number in 0..3 {
        book.record_execution(number);
        book.record(record(Tool::Act, number, SHORT, Outcome::Succeeded));
    }
    book.record(record(Tool::Act, 3, SHORT, Outcome::Left));
    book.record(record(Tool::Act, 4, SHORT, failed(Label::NotExecuted, None)));
    book.record(record(Tool::Look, 0, SHORT, Outcome::Succeeded));
    book.record(record(Tool::Look, 0, SHORT, failed(Label::Unknown, Some(CallLimit::Idle))));
    let (tally, violations) = book.audit(&FaultLog::default());
    assert_eq!(violations, Violations::default());
    let effects = Outcomes { succeeded: 3, left: 1, not_executed: 1, ..Outcomes::default() };
    assert_eq!(tally.effects, effects);
    assert_eq!(tally.harmless, Outcomes { succeeded: 1, own_limit: 1, ..Outcomes::default() });
    assert_eq!((tally.calls(), tally.failures()), (6, 2));
    let unknown = tally.failed[&("cut".to_owned(), Label::Unknown)];
    assert_eq!(unknown, Failures { all: 1, harmless: 1 });
}

#[test]
fn examples_are_few_and_the_count_is_whole() {
    let mut violations = Violations::default();
    for number in 0..20 {
        violations.add(Rule::Wire, number.to_string());
    }
    let mut all = Violations::default();
    all.append("http", violations);
    let [(rule, count, examples)] = all.iter().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((rule, count, examples.len()), (Rule::Wire, 20, 5));
    assert_eq!(examples[0], "http: 0");
}
