//! Tests of servers that are busy and say for how long.

use super::*;

/// A rate limit that asks for this wait.
pub(super) fn busy(seconds: u64) -> Reply {
    let retry_after = Some(Duration::from_secs(seconds));
    Reply::Fault(Fault::new(Cause::Status { code: 429, retry_after }).with_body(b"slow down"))
}

/// A rate limit refuses the probe too. A tool that was limited elsewhere has run.
#[test]
fn a_busy_server_is_waited_for_where_it_says_so_of_everything() {
    let mut play = Scenario::new();
    assert_eq!(play.fail(busy(2)), Step::Probe(PING));
    let until = play.now + Duration::from_secs(2);
    assert_eq!(play.answer_probe(PING, busy(2)), Step::Wait(until));
    play.now = until;
    assert_eq!(play.retry.handle_timeout(play.now), Step::Send);
    let mut play = Scenario::new();
    play.fail(busy(2));
    assert_eq!(final_fault(&play.answer_probe(PING, result())).1, Execution::Unknown);
    // Longer than the request may wait.
    let mut play = Scenario::new();
    assert_eq!(final_fault(&play.fail(busy(11))).1, Execution::Unknown);
    let mut play = Scenario::with_harmless(Some(true));
    assert_eq!(play.fail(busy(2)), Step::Wait(play.now + Duration::from_secs(2)));
}

/// If the probe proves nothing, a tool that turns out to be harmless waits for as long as it was told.
#[test]
fn busy_server_is_waited_for_once_a_tool_is_known_as_harmless() {
    let unknown =
        (Cause::Status { code: 429, retry_after: Some(Duration::from_secs(2)) }, Execution::Unknown);
    for answer in [cut_reply(), text_reply(404, "Session not found")] {
        let play_until_asked = || {
            let mut play = Scenario::with_harmless(None);
            assert_eq!(play.fail(busy(2)), Step::Probe(PING));
            assert_eq!(play.answer_probe(PING, answer.clone()), Step::CheckHarmless);
            play
        };
        let mut play = play_until_asked();
        let until = play.now + Duration::from_secs(2);
        assert_eq!(play.retry.handle_harmless(play.now, true), Step::Wait(until));
        play.now = until;
        assert_eq!(play.retry.handle_timeout(play.now), Step::Send);
        let mut play = play_until_asked();
        assert_eq!(final_fault(&play.retry.handle_harmless(play.now, false)), unknown);
    }
    // A session that answers the probe makes it the answer of the tool, which may be harmless.
    let mut play = Scenario::with_harmless(None);
    play.fail(busy(2));
    assert_eq!(play.answer_probe(PING, result()), Step::CheckHarmless);
    let until = play.now + Duration::from_secs(2);
    assert_eq!(play.retry.handle_harmless(play.now, true), Step::Wait(until));
    let mut play = Scenario::with_harmless(None);
    play.fail(busy(2));
    play.answer_probe(PING, result());
    assert_eq!(final_fault(&play.retry.handle_harmless(play.now, false)), unknown);
    let mut play = Scenario::new();
    play.fail(busy(2));
    assert_eq!(final_fault(&play.answer_probe(PING, cut_reply())), unknown);
}

/// A 429 without `Retry-After` is waited for by harmless requests only.
#[test]
fn busy_server_without_a_time_is_waited_for_by_harmless_requests() {
    let unknown = (Cause::Status { code: 429, retry_after: None }, Execution::Unknown);
    assert_eq!(final_fault(&Scenario::new().fail(text_reply(429, "slow down"))), unknown);
    let mut play = Scenario::with_harmless(Some(true));
    let until = play.now + Duration::from_millis(50);
    assert_eq!(play.fail(text_reply(429, "slow down")), Step::Wait(until));
    for harmless in [true, false] {
        let mut play = Scenario::with_harmless(None);
        assert_eq!(play.fail(text_reply(429, "slow down")), Step::CheckHarmless);
        let step = play.retry.handle_harmless(play.now, harmless);
        if harmless {
            assert_eq!(step, Step::Wait(play.now + Duration::from_millis(50)));
        } else {
            assert_eq!(final_fault(&step), unknown);
        }
    }
}

/// `Retry-After` of any status is respected before a request is sent again, for as long as the request
/// waits for a busy server.
#[test]
fn retry_after_of_an_outage_is_respected() {
    let second = Duration::from_secs(1);
    for (asked, waited) in [(2 * second, 2 * second), (60 * second, LIMITS.idle)] {
        let mut play = Scenario::with_harmless(Some(true));
        let cause = Cause::Status { code: 503, retry_after: Some(asked) };
        assert_eq!(play.fail(Reply::Fault(Fault::new(cause.clone()))), Step::Probe(PING));
        assert_eq!(play.answer_probe(PING, result()), Step::Wait(play.now + waited), "{asked:?}");
        // The time that it took to connect counts.
        let mut play = Scenario::with_harmless(Some(true));
        assert_eq!(play.fail(Reply::Fault(Fault::new(cause.clone()))), Step::Probe(PING));
        assert_eq!(play.answer_probe(PING, refused_reply()), Step::Reconnect);
        play.now += second;
        let Step::Wait(until) = play.reconnect() else { panic!("it is sent at once") };
        assert_eq!(until, play.start + waited, "{asked:?}");
    }
    // One that names no time is sent again at once.
    let mut play = Scenario::with_harmless(Some(true));
    assert_eq!(play.fail(text_reply(503, "")), Step::Probe(PING));
    assert_eq!(play.answer_probe(PING, refused_reply()), Step::Reconnect);
    assert_eq!(play.reconnect(), Step::Send);
}

/// A busy server is waited for within the request's `max_retry_after` and the call's deadline.
#[test]
fn busy_server_is_waited_for_within_patience_and_deadline() {
    let second = Duration::from_secs(1);
    let tick = Duration::from_millis(1);
    let busy = |wait| {
        let cause = Cause::Status { code: 429, retry_after: Some(wait) };
        (Reply::Fault(Fault::new(cause.clone())), (cause, Execution::Unknown))
    };
    for (patience, longest) in [(5 * second, 5 * second), (10 * second, 7_999 * tick)] {
        let start = |harmless| {
            let mut play = Scenario::with_harmless(harmless);
            play.retry.request.max_retry_after = patience;
            play
        };
        assert_eq!(start(Some(false)).fail(busy(longest).0), Step::Probe(PING));
        let mut play = start(Some(true));
        assert_eq!(play.fail(busy(longest).0), Step::Wait(play.now + longest));
        let (reply, end) = busy(longest + tick);
        assert_eq!(final_fault(&start(Some(false)).fail(reply.clone())), end);
        assert_eq!(final_fault(&start(Some(true)).fail(reply)), end);
    }
}
