//! Tests of the limits and waits of retries.

use super::*;

/// A harmless request fails only by its own limit, and is sent with backoff until then.
#[test]
fn a_harmless_request_is_sent_until_its_time_is_up() {
    let mut play = Scenario::with_harmless(Some(true));
    let mut sent = Vec::new();
    let mut step = play.fail(cut_reply());
    let end = loop {
        step = match step {
            Step::Reconnect => play.reconnect(),
            Step::Wait(until) => {
                play.now = until;
                play.retry.handle_timeout(play.now)
            }
            Step::Send => {
                sent.push(play.now - play.start);
                assert!(sent.len() < 100, "it does not end: {sent:?}");
                play.fail(cut_reply())
            }
            other => break other,
        };
    };
    assert_eq!(final_fault(&end), (Cause::Cut, Execution::Unknown));
    assert_eq!(play.now - play.start, LIMITS.idle, "nothing was heard for as long as the call may be silent");
    assert_eq!(sent[0], Duration::ZERO, "the first time at once");
    assert!(sent.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(sent.len(), 7, "{sent:?}");
}

/// A sending that outlasts the idle limit restarts it, but not the total limit.
#[test]
fn progress_starts_the_silence_anew() {
    let mut play = Scenario::with_harmless(Some(true));
    assert_eq!(play.fail(cut_reply()), Step::Reconnect);
    assert_eq!(play.retry.deadline(), play.start + LIMITS.idle);
    assert_eq!(play.reconnect(), Step::Send);
    play.now = play.start + Duration::from_secs(10);
    assert_eq!(play.fail(cut_reply()), Step::Reconnect);
    assert_eq!(play.retry.deadline(), play.start + Duration::from_secs(18));
    assert_eq!(play.retry.limits(play.now).total, Duration::from_secs(10));
}

/// A sending that fails exactly at the idle limit does not restart it.
#[test]
fn silence_of_exactly_the_limit_is_no_progress() {
    let mut play = Scenario::with_harmless(Some(true));
    play.fail(cut_reply());
    assert_eq!(play.reconnect(), Step::Send);
    play.now = play.start + LIMITS.idle;
    play.fail(cut_reply());
    assert_eq!(play.retry.deadline(), play.start + LIMITS.idle);
}

/// A limit is kept up to a year, and a longer one does not overflow.
#[test]
fn deadline_is_at_most_a_year_away() {
    let day = Duration::from_secs(24 * 60 * 60);
    for (total, kept) in [(364 * day, 364 * day), (366 * day, 365 * day), (Duration::MAX, 365 * day)] {
        let start = Scenario::new();
        let limits = Limits { idle: Duration::MAX, total };
        let retry = Retry::new(start.retry.request, start.now, limits);
        assert_eq!(retry.deadline(), start.now + kept);
    }
}

/// Every step ends at the deadline of the call, with the failure that is known.
#[test]
fn every_step_has_an_end() {
    let gate = || error_reply(400, -32000, "No valid session ID provided");
    let late = |mut play: Scenario| {
        play.now = play.retry.deadline();
        play.retry.handle_timeout(play.now)
    };
    let mut play = Scenario::new();
    play.fail(gate());
    assert_server_error(&late(play), "No valid session ID provided");
    let mut play = Scenario::new();
    play.fail(text_reply(400, "session not found"));
    assert_eq!(final_fault(&late(play)).1, Execution::Unknown);
    let mut play = Scenario::new();
    play.fail(gate());
    play.answer_probe(PING, gate());
    assert_eq!(final_fault(&late(play)), (Cause::SessionLost, Execution::NotExecuted));
    let mut play = Scenario::with_harmless(None);
    play.fail(cut_reply());
    play.reconnect();
    assert_eq!(final_fault(&late(play)), (Cause::Cut, Execution::Unknown));
}

/// The time that a person takes is excluded from the limits.
#[test]
fn time_of_a_person_does_not_count() {
    let mut play = Scenario::with_harmless(Some(true));
    play.fail(cut_reply());
    let before = play.retry.deadline();
    play.retry.exclude_pause(Duration::from_secs(60));
    assert_eq!(play.retry.deadline(), before + Duration::from_secs(60));
    assert_eq!(play.retry.limits(play.start).total, LIMITS.total + Duration::from_secs(60));
}

/// The time that a person takes is not a sign of life.
#[test]
fn time_of_a_person_is_no_progress() {
    let mut play = Scenario::with_harmless(Some(true));
    play.fail(cut_reply());
    assert_eq!(play.reconnect(), Step::Send);
    play.retry.exclude_pause(Duration::from_secs(60));
    play.now = play.start + Duration::from_secs(65);
    play.fail(cut_reply());
    assert_eq!(play.retry.deadline(), play.start + Duration::from_secs(60) + LIMITS.idle);
}

/// Refuses the request with 404, and also the probe, if there is one.
fn not_found(play: &mut Scenario) -> Step {
    match play.fail(text_reply(404, "")) {
        Step::Probe(probe) => play.answer_probe(probe, text_reply(404, "")),
        step => step,
    }
}

/// After five sessions in a row that never answered, the request fails.
#[test]
fn a_server_that_forgets_at_once_is_not_asked_for_ever() {
    for harmless in [Some(true), Some(false)] {
        let mut play = Scenario::with_harmless(harmless);
        assert_eq!(play.fail(text_reply(404, "")), Step::Reconnect);
        play.link.proven = false;
        let mut lost = 0;
        let end = loop {
            let mut step = play.reconnect();
            if let Step::Wait(until) = step {
                play.now = until;
                step = play.retry.handle_timeout(play.now);
            }
            assert_eq!(step, Step::Send);
            lost += 1;
            match not_found(&mut play) {
                Step::Reconnect => {}
                end => break end,
            }
        };
        assert_eq!((lost, final_fault(&end)), (5, (Cause::NotAffine, Execution::Unknown)));
    }
}

/// A session that answered something in between resets the count.
#[test]
fn a_session_that_answered_is_no_sign_of_a_server_that_forgets_at_once() {
    let mut play = Scenario::with_harmless(Some(true));
    for round in 0..8 {
        play.link.proven = round % 2 == 0;
        assert_eq!(not_found(&mut play), Step::Reconnect, "{round}");
        if let Step::Wait(until) = play.reconnect() {
            play.now = until;
            play.retry.handle_timeout(play.now);
        }
    }
}

/// A request that was not sent does not count as a retry.
#[test]
fn a_link_that_was_left_costs_no_retry() {
    let mut play = Scenario::new();
    for _ in 0..5 {
        let step = play.retry.handle_failure(play.now, play.link, SendFailure::NotSent);
        assert_eq!(step, Step::Reconnect);
        assert_eq!(play.retry.poll_report(), Some(Report::LinkSuperseded));
        assert_eq!(play.reconnect(), Step::Send);
    }
    assert_eq!(play.retry.resends(), 0);
}

/// A call that finds its link superseded until its deadline says that the session was lost. What an
/// earlier sending may have done stays in its label.
#[test]
fn a_request_that_is_never_sent_again_keeps_its_label() {
    let superseded = |play: &mut Scenario| {
        let step = play.retry.handle_failure(play.now, play.link, SendFailure::NotSent);
        assert_eq!(step, Step::Reconnect);
        play.now = play.retry.deadline();
        final_fault(&play.retry.handle_timeout(play.now))
    };
    let mut unsent = Scenario::new();
    assert_eq!(superseded(&mut unsent), (Cause::SessionLost, Execution::NotExecuted));

    let mut cut = Scenario::with_harmless(Some(true));
    assert_eq!(cut.fail(cut_reply()), Step::Reconnect);
    assert_eq!(cut.reconnect(), Step::Send);
    assert_eq!(superseded(&mut cut), (Cause::SessionLost, Execution::Unknown));
}

/// A timeout of the request ends it, whether or not it is harmless.
#[test]
fn a_timeout_of_the_request_is_the_end() {
    let idle = Fault::new(Cause::Timeout(crate::fault::Limit::Idle));
    for harmless in [Some(true), Some(false), None] {
        let mut play = Scenario::with_harmless(harmless);
        let (_, execution) = final_fault(&play.fail(Reply::Fault(idle.clone())));
        assert_eq!(execution, Execution::Unknown);
    }
}
