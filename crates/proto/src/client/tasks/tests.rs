//! Tests of following single tasks. `simulation` runs many at random.

mod simulation;

use super::*;

const S: Duration = Duration::from_secs(1);
const LIMITS: Limits = Limits { idle: Duration::from_secs(30), total: Duration::from_secs(600) };

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

/// A task state with these additional members.
fn state(dialect: TaskDialect, status: &str, more: &str) -> Task {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    Task::decode(&json(&format!(r#"{{"taskId":"t","status":"{status}"{more}}}"#)), dialect).unwrap()
}

fn follow_new(now: Instant, dialect: TaskDialect, poll: Option<Duration>) -> TaskFollower {
    let start = TaskStart {
        dialect,
        age: Duration::ZERO,
        ttl: None,
        poll_interval: poll,
        state: None,
        fetches_early: false,
        limits: LIMITS,
    };
    TaskFollower::new(now, start)
}

/// Advances the clock to the next timeout, and returns the next action.
fn advance(follow: &mut TaskFollower, now: &mut Instant) -> Option<Action> {
    if let Some(action) = follow.poll_action() {
        return Some(action);
    }
    *now = follow.poll_timeout(*now)?.max(*now);
    follow.handle_timeout(*now);
    follow.poll_action()
}

fn outcome(follow: &mut TaskFollower) -> TaskOutcome {
    match follow.poll_action() {
        Some(Action::End(end)) => end,
        other => panic!("not over: {other:?}"),
    }
}

fn follow_early(now: Instant) -> TaskFollower {
    let start = TaskStart {
        dialect: TaskDialect::Experiment,
        age: Duration::ZERO,
        ttl: None,
        poll_interval: Some(60 * S),
        state: None,
        fetches_early: true,
        limits: LIMITS,
    };
    TaskFollower::new(now, start)
}

/// TA-04: the server holds the result back until there is one, so no poll has to show that the task has ended.
#[test]
fn ta_04_a_result_that_is_requested_early_needs_no_poll() {
    let mut now = Instant::now();
    let working = state(TaskDialect::Experiment, "working", "");
    let mut follow = follow_early(now);
    assert_eq!(follow.poll_action(), Some(Action::FetchResult));
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &working, StateSource::Poll);
    assert_eq!(follow.poll_action(), None, "one request is enough");
    // One that is lost is sent again after the next poll.
    follow.handle_fetch_lost(now);
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &working, StateSource::Poll);
    assert_eq!(follow.poll_action(), Some(Action::FetchResult));
    follow.handle_outcome(now, Ok(json("{}")));
    assert_eq!(outcome(&mut follow), TaskOutcome::Result(json("{}")));
}

/// TA-04: an error is the outcome only if the task has failed, which is asked for at once, and once.
#[test]
fn ta_04_an_error_to_an_early_request_is_checked_at_once() {
    let refused = || RpcError::new(-32000, "not done");
    let mut now = Instant::now();
    for status in ["failed", "working"] {
        let mut follow = follow_early(now);
        assert_eq!(follow.poll_action(), Some(Action::FetchResult));
        assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
        follow.handle_state(now, &state(TaskDialect::Experiment, "working", ""), StateSource::Poll);
        follow.handle_outcome(now, Err(refused()));
        let begin = now;
        assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
        assert_eq!(now, begin, "it does not wait for the interval");
        follow.handle_state(now, &state(TaskDialect::Experiment, status, ""), StateSource::Poll);
        if status == "failed" {
            assert_eq!(follow.poll_action(), Some(Action::FetchResult));
            follow.handle_outcome(now, Err(refused()));
            assert_eq!(outcome(&mut follow), TaskOutcome::Error(refused()));
        } else {
            assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState), "no further early request");
            assert_eq!(now, begin + 60 * S);
        }
    }
}

/// A server that names an absurd interval is asked all the same, or its task would never be seen to end.
#[test]
fn the_interval_between_polls_is_bounded() {
    let mut now = Instant::now();
    let begin = now;
    let mut follow = follow_new(now, TaskDialect::Extension, Some(Duration::MAX));
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &state(TaskDialect::Extension, "working", ""), StateSource::Poll);
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    assert_eq!(now, begin + 60 * S);
}

/// TN-03: the first poll is made at once. TN-04: later ones use the last interval of the server.
#[test]
fn tn_04_polls_at_the_pace_of_the_server() {
    let mut now = Instant::now();
    let begin = now;
    let mut follow = follow_new(now, TaskDialect::Extension, Some(2 * S));
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    assert_eq!(now, begin);
    follow.handle_state(now, &state(TaskDialect::Extension, "working", ""), StateSource::Poll);
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    assert_eq!(now, begin + 2 * S);
    follow.handle_state(
        now,
        &state(TaskDialect::Extension, "working", r#""pollIntervalMs":7000"#),
        StateSource::Poll,
    );
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    assert_eq!(now, begin + 9 * S);
    let done = state(TaskDialect::Extension, "completed", r#""result":{"content":[],"isError":true}"#);
    follow.handle_state(now, &done, StateSource::Poll);
    // A task whose tool failed is completed.
    assert_eq!(outcome(&mut follow), TaskOutcome::Result(json(r#"{"content":[],"isError":true}"#)));
    assert_eq!(follow.poll_timeout(now), None);
}

/// TN-04: a failed task has a JSON-RPC error.
#[test]
fn tn_04_a_failed_task_is_its_error() {
    let now = Instant::now();
    for (more, end) in [
        (
            r#""error":{"code":-32000.0,"message":"no rope","data":[1]}"#,
            TaskOutcome::Error(RpcError { code: -32000, message: "no rope".into(), data: Some(json("[1]")) }),
        ),
        (r#""error":7"#, TaskOutcome::Malformed("a failed task has no error")),
        ("", TaskOutcome::Malformed("a failed task has no error")),
    ] {
        let failed = state(TaskDialect::Extension, "failed", more);
        let mut follow = follow_new(now, TaskDialect::Extension, None);
        follow.handle_timeout(now);
        assert_eq!(follow.poll_action(), Some(Action::PollState));
        follow.handle_state(now, &failed, StateSource::Poll);
        assert_eq!(outcome(&mut follow), end);
    }
}

/// TN-05: an input is requested once, and sent again until it is acknowledged.
#[test]
fn tn_05_a_key_is_asked_once() {
    let mut now = Instant::now();
    let asks = |keys: &[&str]| {
        let wants: Vec<_> = keys.iter().map(|key| format!(r#""{key}":{{"method":"roots/list"}}"#)).collect();
        let more = format!(r#""inputRequests":{{{}}}"#, wants.join(","));
        state(TaskDialect::Extension, "input_required", &more)
    };
    let asked = |action: Option<Action>| match action {
        Some(Action::RequestInputs(requests)) => requests.into_iter().map(|(key, _)| key).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let answers = |keys: &[&str]| {
        keys.iter().map(|key| (Box::from(*key), json(r#"{"roots":[]}"#))).collect::<Vec<(Box<str>, Json)>>()
    };
    let mut follow = follow_new(now, TaskDialect::Extension, Some(S));
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &asks(&["a", "b"]), StateSource::Poll);
    assert_eq!(asked(follow.poll_action()), [Box::from("a"), Box::from("b")]);
    // A person may take longer than the idle limit.
    now += 100 * S;
    follow.handle_timeout(now);
    assert_eq!(follow.poll_action(), None);
    follow.handle_inputs(now, answers(&["a", "b"]));
    assert_eq!(follow.poll_action(), Some(Action::Update(answers(&["a", "b"]))));
    follow.handle_update_lost(now);
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    // One of the inputs arrived, and there is a new request.
    follow.handle_state(now, &asks(&["b", "c"]), StateSource::Poll);
    assert_eq!(asked(follow.poll_action()), [Box::from("c")]);
    follow.handle_inputs(now, answers(&["c"]));
    assert_eq!(follow.poll_action(), Some(Action::Update(answers(&["b", "c"]))));
    follow.handle_updated(now);
    // TN-06: the server acknowledges an update before it acts on it.
    for _ in 0..3 {
        assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
        follow.handle_state(now, &asks(&["b", "c"]), StateSource::Poll);
    }
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
}

/// TA-03, TA-04: in the experiment the result is fetched, early if the task requires input.
#[test]
fn ta_04_the_outcome_is_fetched_early_for_a_task_that_asks() {
    let mut now = Instant::now();
    let experiment = |status: &str| state(TaskDialect::Experiment, status, r#""pollInterval":1000"#);
    let mut follow = follow_new(now, TaskDialect::Experiment, None);
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &experiment("input_required"), StateSource::Poll);
    assert_eq!(follow.poll_action(), Some(Action::FetchResult));
    // Polls continue while it is pending.
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &experiment("input_required"), StateSource::Poll);
    assert_eq!(follow.poll_action(), None);
    // If it is lost with the session, the next poll repeats it.
    follow.handle_fetch_lost(now);
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &experiment("input_required"), StateSource::Poll);
    assert_eq!(follow.poll_action(), Some(Action::FetchResult));
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    // The task ended while the request is pending, so there is no second one.
    follow.handle_state(now, &experiment("completed"), StateSource::Poll);
    assert_eq!(follow.poll_action(), None);
    follow.handle_outcome(now, Ok(json(r#"{"content":[]}"#)));
    assert_eq!(outcome(&mut follow), TaskOutcome::Result(json(r#"{"content":[]}"#)));
}

/// TA-05, TN-09: a task that the server does not know is not found; one that outlives its `ttl`
/// without a change is expired.
#[test]
fn tn_09_unknown_and_expired_tasks_end() {
    let mut now = Instant::now();
    let unknown = RpcError { code: code::INVALID_PARAMS, message: "no such task".into(), data: None };
    for dialect in [TaskDialect::Experiment, TaskDialect::Extension] {
        let mut follow = follow_new(now, dialect, None);
        assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
        follow.handle_poll_error(now, unknown.clone());
        assert_eq!(outcome(&mut follow), TaskOutcome::NotFound);
    }
    // Completed, but dropped by the server.
    let mut follow = follow_new(now, TaskDialect::Experiment, None);
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &state(TaskDialect::Experiment, "completed", ""), StateSource::Poll);
    assert_eq!(follow.poll_action(), Some(Action::FetchResult));
    follow.handle_outcome(now, Err(unknown));
    assert_eq!(outcome(&mut follow), TaskOutcome::NotFound);
    // A task that is taken up after its `ttl` is polled twice before it is given up.
    let start = TaskStart {
        dialect: TaskDialect::Extension,
        age: 1000 * S,
        ttl: Some(60 * S),
        poll_interval: None,
        state: None,
        fetches_early: false,
        limits: LIMITS,
    };
    let mut follow = TaskFollower::new(now, start);
    let working =
        |updated: u32| state(TaskDialect::Extension, "working", &format!(r#""lastUpdatedAt":"{updated}""#));
    for updated in 1..4 {
        assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
        follow.handle_state(now, &working(updated), StateSource::Poll);
    }
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &working(3), StateSource::Poll);
    assert_eq!(outcome(&mut follow), TaskOutcome::Expired);
}

/// An answered poll is a sign of life, and the time between polls does not count as silence,
/// however long the interval: only the total limit ends a working task.
#[test]
fn a_task_that_answers_is_not_silent() {
    for interval in [S, 10 * S, 600 * S] {
        let mut now = Instant::now();
        let start = now;
        let mut follow = follow_new(now, TaskDialect::Extension, Some(interval));
        let mut polls = 0;
        let end = loop {
            match advance(&mut follow, &mut now) {
                Some(Action::PollState) => {
                    polls += 1;
                    follow.handle_state(
                        now,
                        &state(TaskDialect::Extension, "working", ""),
                        StateSource::Poll,
                    );
                }
                Some(Action::End(end)) => break end,
                other => assert_eq!(other, None),
            }
        };
        assert_eq!(end, TaskOutcome::Timeout(Limit::Total), "{interval:?}");
        assert!(polls >= 1 && now - start >= interval, "{interval:?}");
    }
}

/// A server that answers nothing is given up after the idle limit.
#[test]
fn a_task_of_a_silent_server_is_given_up() {
    let mut now = Instant::now();
    let mut follow = follow_new(now, TaskDialect::Extension, Some(S));
    let end = loop {
        match advance(&mut follow, &mut now) {
            Some(Action::PollState) => {
                now += S;
                follow.handle_poll_lost(now);
            }
            Some(Action::End(end)) => break end,
            other => assert_eq!(other, None),
        }
    };
    assert_eq!(end, TaskOutcome::Timeout(Limit::Idle));
}

/// TN-05: inputs are sent until the server accepts them or refuses them for good.
#[test]
fn tn_05_answers_survive_an_error() {
    let asks = r#""inputRequests":{"k":{"method":"elicitation/create"}}"#;
    let answered = |now: &mut Instant| {
        let mut follow = follow_new(*now, TaskDialect::Extension, Some(S));
        assert_eq!(advance(&mut follow, now), Some(Action::PollState));
        follow.handle_state(*now, &state(TaskDialect::Extension, "input_required", asks), StateSource::Poll);
        assert!(matches!(advance(&mut follow, now), Some(Action::RequestInputs(_))));
        follow.handle_inputs(*now, vec![("k".into(), json("{}"))]);
        follow
    };
    let error = |code| RpcError { code, message: "no".into(), data: None };
    for (code, tries) in [(-32603, 3), (-32602, 1)] {
        let mut now = Instant::now();
        let mut follow = answered(&mut now);
        let mut updates = 0;
        let end = loop {
            match advance(&mut follow, &mut now) {
                Some(Action::Update(_)) => {
                    updates += 1;
                    follow.handle_update_error(now, error(code));
                }
                Some(Action::PollState) => {
                    follow.handle_state(
                        now,
                        &state(TaskDialect::Extension, "input_required", asks),
                        StateSource::Poll,
                    );
                }
                Some(Action::End(end)) => break end,
                other => assert_eq!(other, None),
            }
        };
        assert_eq!((end, updates), (TaskOutcome::Error(error(code)), tries));
    }
    // A temporary error costs nothing but time.
    let mut now = Instant::now();
    let mut follow = answered(&mut now);
    assert!(matches!(advance(&mut follow, &mut now), Some(Action::Update(_))));
    follow.handle_update_error(now, error(-32603));
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &state(TaskDialect::Extension, "input_required", asks), StateSource::Poll);
    assert!(matches!(advance(&mut follow, &mut now), Some(Action::Update(_))));
    follow.handle_updated(now);
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
}

/// TA-03, TN-08: a notification is as good as a poll, but nothing depends on it.
#[test]
fn tn_08_an_end_that_is_told_needs_no_poll() {
    let mut now = Instant::now();
    let mut follow = follow_new(now, TaskDialect::Extension, Some(100 * S));
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &state(TaskDialect::Extension, "working", ""), StateSource::Poll);
    now += S;
    let done = state(TaskDialect::Extension, "completed", r#""result":{"content":[]}"#);
    follow.handle_state(now, &done, StateSource::Notification);
    assert_eq!(outcome(&mut follow), TaskOutcome::Result(json(r#"{"content":[]}"#)));
    // This also holds while a poll is pending, whose reply comes too late.
    let mut follow = follow_new(now, TaskDialect::Extension, None);
    assert_eq!(advance(&mut follow, &mut now), Some(Action::PollState));
    follow.handle_state(now, &done, StateSource::Notification);
    assert!(matches!(outcome(&mut follow), TaskOutcome::Result(_)));
    follow.handle_state(now, &done, StateSource::Poll);
    assert_eq!(follow.poll_action(), None);
}

/// MR-06: the number of inputs that a task may request is bounded.
#[test]
fn a_task_that_asks_for_ever_is_left() {
    let mut now = Instant::now();
    let mut follow = follow_new(now, TaskDialect::Extension, Some(S));
    for number in 0.. {
        match advance(&mut follow, &mut now) {
            Some(Action::PollState) => {
                let more = format!(r#""inputRequests":{{"{number}":{{"method":"roots/list"}}}}"#);
                follow.handle_state(
                    now,
                    &state(TaskDialect::Extension, "input_required", &more),
                    StateSource::Poll,
                );
            }
            Some(Action::RequestInputs(wanted)) => {
                let answers = wanted.into_iter().map(|(key, _)| (key, json("{}"))).collect();
                follow.handle_inputs(now, answers);
            }
            Some(Action::Update(_)) => follow.handle_updated(now),
            Some(Action::End(end)) => {
                assert_eq!(end, TaskOutcome::TooManyInputs);
                assert!(number < 10_000);
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_handle_is_read_back_as_it_was_written() {
    let task = state(TaskDialect::Experiment, "working", r#""ttl":60000"#);
    let handle = TaskHandle::new(&task, std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567));
    let text = serde_json::to_string(&handle).unwrap();
    assert_eq!(text, r#"{"id":"t","dialect":"experiment","created_ms":1234567,"ttl_ms":60000}"#);
    assert_eq!(serde_json::from_str::<TaskHandle>(&text).unwrap(), handle);
    assert_eq!(handle.age(handle.created_at + 5 * S), 5 * S);
    assert_eq!(handle.expires_at(), Some(handle.created_at + 60 * S));
}
