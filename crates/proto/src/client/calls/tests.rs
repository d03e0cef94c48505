//! Tests of the table of calls: deadlines, pauses, and what a retry learns.

use super::*;

const S: Duration = Duration::from_secs(1);
const LIMITS: Limits = Limits { idle: Duration::from_secs(10), total: Duration::from_secs(25) };

#[test]
fn bm_02_ids_are_never_used_twice() {
    let mut calls = Calls::default();
    let now = Instant::now();
    let ids: Vec<_> = (0..200).map(|n| calls.begin(now, LIMITS, n)).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(calls.end(ids[0]), Some(0));
    assert!(calls.begin(now, LIMITS, 0) > ids[199]);
}

/// CN-06: progress extends the call, but not past the cap.
#[test]
fn cn_06_progress_extends_up_to_the_cap() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, LIMITS, ());
    assert_eq!(calls.check_deadline(t0 + S, id), DeadlineCheck::At(t0 + 10 * S));
    assert!(calls.record_activity(t0 + 9 * S, id).is_some());
    assert_eq!(calls.check_deadline(t0 + 10 * S, id), DeadlineCheck::At(t0 + 19 * S));
    assert!(calls.record_activity(t0 + 18 * S, id).is_some());
    assert_eq!(calls.check_deadline(t0 + 19 * S, id), DeadlineCheck::At(t0 + 25 * S));
    assert_eq!(calls.check_deadline(t0 + 25 * S, id), DeadlineCheck::Expired((), Limit::Total));
    assert_eq!(calls.check_deadline(t0 + 25 * S, id), DeadlineCheck::Ended);
    // PR-02: late progress finds nothing.
    assert!(calls.record_activity(t0 + 26 * S, id).is_none());
}

#[test]
fn silence_ends_a_call_at_its_idle_limit() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, LIMITS, ());
    assert_eq!(calls.poll_timeout(t0), Some(t0 + 10 * S));
    assert_eq!(calls.check_deadline(t0 + 10 * S, id), DeadlineCheck::Expired((), Limit::Idle));
    assert!(calls.is_empty());
}

#[test]
fn the_clock_pauses_while_a_person_answers() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, LIMITS, ());
    assert!(calls.pause(t0 + 5 * S, id));
    assert!(matches!(calls.check_deadline(t0 + 3_600 * S, id), DeadlineCheck::At(_)));
    calls.resume(t0 + 3_600 * S, id);
    assert_eq!(calls.check_deadline(t0 + 3_600 * S, id), DeadlineCheck::At(t0 + 3_605 * S));
    assert!(!calls.pause(t0, id + 1), "there is no such call");
}

/// Ended pauses and one that is open when the call fails are told once, and forgotten with a
/// call that needs no retry.
#[test]
fn pauses_of_a_failed_call_are_told_to_its_retry() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let ids: Vec<_> = (0..4).map(|_| calls.begin(t0, LIMITS, ())).collect();
    for id in &ids[..3] {
        calls.pause(t0 + S, *id);
        calls.resume(t0 + 3 * S, *id);
        calls.pause(t0 + 4 * S, *id);
    }
    assert_eq!(calls.end_failed(t0 + 9 * S, ids[0]), Some(()));
    assert_eq!(calls.end_failed(t0 + 10 * S, ids[0]), None);
    assert_eq!(calls.take_failed(ids[0]), FailedCall { paused: 7 * S, was_heard_of: false });
    assert_eq!(calls.take_failed(ids[0]), FailedCall::default());
    assert_eq!(calls.end_failed(t0 + 2 * MAX_PAUSE, ids[1]), Some(()));
    assert_eq!(calls.take_failed(ids[1]).paused, MAX_PAUSE);
    // The caller left when the call had just failed.
    assert_eq!(calls.end_failed(t0 + 9 * S, ids[2]), Some(()));
    assert_eq!(calls.end(ids[2]), None);
    assert_eq!(calls.end_failed(t0 + 9 * S, ids[3]), Some(()));
    assert!(calls.failed.is_empty());
}

/// The retry of a failed call learns whether the server sent a message about it.
#[test]
fn messages_about_a_failed_call_are_told_to_its_retry() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let ids: Vec<_> = (0..4).map(|_| calls.begin(t0, LIMITS, ())).collect();
    assert!(calls.record_activity(t0, ids[0]).is_some());
    calls.record_message(ids[1]);
    calls.record_message(ids[3] + 1);
    for (id, was_heard_of) in [(ids[0], true), (ids[1], true), (ids[2], false)] {
        calls.end_failed(t0, id);
        assert_eq!(calls.take_failed(id), FailedCall { paused: Duration::ZERO, was_heard_of });
    }
    // A call that was answered needs no retry.
    calls.record_message(ids[3]);
    calls.end(ids[3]);
    assert!(calls.failed.is_empty());
}

/// A message that comes after the failure is told as well, until the call is sent again.
#[test]
fn late_messages_about_a_failed_call_are_told_to_its_retry() {
    let t0 = Instant::now();
    let messages: [fn(&mut Calls<()>, u64, Instant); 3] = [
        |calls, id, _| calls.record_message(id),
        |calls, id, now| assert!(calls.record_activity(now, id).is_none()),
        |calls, _, _| calls.record_message_about_any(|()| true),
    ];
    for message in messages {
        let mut calls = Calls::default();
        let [first, second] = [(), ()].map(|()| calls.begin(t0, LIMITS, ()));
        calls.end_failed(t0, first);
        calls.watch_failed(first);
        assert!(!calls.was_heard_of_late(first));
        message(&mut calls, first, t0);
        assert!(calls.was_heard_of_late(first));
        assert!(!calls.was_heard_of_late(second));
        calls.unwatch_failed(first);
        message(&mut calls, first, t0);
        assert!(!calls.was_heard_of_late(first));
        assert!(calls.watched.is_empty());
    }
}

/// With two pauses at once, the clocks run when the last one ends.
#[test]
fn pauses_are_counted() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, LIMITS, ());
    calls.pause(t0 + S, id);
    calls.pause(t0 + 2 * S, id);
    calls.resume(t0 + 50 * S, id);
    assert!(matches!(calls.check_deadline(t0 + 60 * S, id), DeadlineCheck::At(_)));
    calls.resume(t0 + 101 * S, id);
    assert_eq!(calls.check_deadline(t0 + 102 * S, id), DeadlineCheck::At(t0 + 110 * S));
    // One more than there are changes nothing.
    calls.resume(t0 + 105 * S, id);
    assert_eq!(calls.check_deadline(t0 + 110 * S, id), DeadlineCheck::Expired((), Limit::Idle));
}

/// Progress during a pause restarts the idle limit once.
#[test]
fn progress_in_a_pause_is_not_counted_twice() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, LIMITS, ());
    calls.pause(t0 + 5 * S, id);
    calls.record_activity(t0 + 15 * S, id);
    calls.resume(t0 + 25 * S, id);
    assert_eq!(
        calls.check_deadline(t0 + 25 * S, id),
        DeadlineCheck::At(t0 + 35 * S),
        "ten seconds from the end of the pause"
    );
}

/// Pauses are bounded, so both limits hold whatever a handler does.
#[test]
fn a_pause_has_an_end() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, LIMITS, ());
    calls.pause(t0, id);
    calls.record_activity(t0 + S, id);
    assert!(matches!(calls.check_deadline(t0 + MAX_PAUSE / 2, id), DeadlineCheck::At(_)));
    assert_eq!(calls.check_deadline(t0 + MAX_PAUSE + S, id), DeadlineCheck::At(t0 + MAX_PAUSE + 10 * S));
    assert_eq!(calls.check_deadline(t0 + MAX_PAUSE + 10 * S, id), DeadlineCheck::Expired((), Limit::Idle));
    // Many short ones add up.
    let id = calls.begin(t0, LIMITS, ());
    for n in 0..4 {
        calls.pause(t0 + n * MAX_PAUSE / 2, id);
        calls.resume(t0 + (n + 1) * MAX_PAUSE / 2, id);
    }
    assert_eq!(calls.check_deadline(t0 + 2 * MAX_PAUSE, id), DeadlineCheck::Expired((), Limit::Idle));
}

/// A paused call is checked once a second, until it has been paused for as long as allowed.
#[test]
fn paused_call_is_looked_at_until_its_pauses_are_used_up() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, LIMITS, ());
    calls.pause(t0, id);
    let last = t0 + Duration::from_secs(3_599);
    assert_eq!(calls.check_deadline(last, id), DeadlineCheck::At(last + S));
    assert_eq!(calls.check_deadline(t0 + MAX_PAUSE, id), DeadlineCheck::At(t0 + MAX_PAUSE + 10 * S));
    assert_eq!(calls.poll_timeout(t0 + MAX_PAUSE), Some(t0 + MAX_PAUSE + 10 * S));
}

/// A pause extends both limits.
#[test]
fn pause_extends_the_cap() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, LIMITS, ());
    calls.pause(t0, id);
    calls.resume(t0 + 100 * S, id);
    calls.record_activity(t0 + 109 * S, id);
    calls.record_activity(t0 + 118 * S, id);
    assert_eq!(calls.check_deadline(t0 + 119 * S, id), DeadlineCheck::At(t0 + 125 * S));
    assert_eq!(calls.check_deadline(t0 + 125 * S, id), DeadlineCheck::Expired((), Limit::Total));
}

#[test]
fn limits_that_end_together_are_an_idle_timeout() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, Limits { idle: S, total: S }, ());
    assert_eq!(calls.check_deadline(t0 + S, id), DeadlineCheck::Expired((), Limit::Idle));
}

#[test]
fn silence_is_counted_from_the_last_sign_of_life() {
    let mut calls = Calls::default();
    let t0 = Instant::now();
    let id = calls.begin(t0, LIMITS, ());
    assert_eq!(calls.silence(t0 + 4 * S, id), Some((4 * S, 6 * S)));
    calls.record_activity(t0 + 9 * S, id);
    calls.record_activity(t0 + 18 * S, id);
    assert_eq!(calls.silence(t0 + 22 * S, id), Some((4 * S, 3 * S)), "the cap comes first");
    calls.pause(t0 + 22 * S, id);
    assert_eq!(calls.silence(t0 + 23 * S, id), None);
    calls.resume(t0 + 23 * S, id);
    assert_eq!(calls.silence(t0 + 23 * S, id), Some((4 * S, 3 * S)));
    calls.end(id);
    assert_eq!(calls.silence(t0 + 23 * S, id), None);
}

#[test]
fn calls_are_known_until_they_end() {
    let now = Instant::now();
    let mut calls = Calls::with_first_id(7);
    assert!(calls.is_empty());
    assert_eq!(calls.poll_timeout(now), None);
    let slow = Limits { idle: 20 * S, ..LIMITS };
    assert_eq!((calls.begin(now, slow, "a"), calls.begin(now, LIMITS, "b"), calls.next_id()), (7, 8, 9));
    assert_eq!((calls.len(), calls.is_empty()), (2, false));
    assert_eq!(calls.poll_timeout(now), Some(now + 10 * S));
    assert_eq!(calls.get(7), Some(&"a"));
    *calls.get_mut(8).unwrap() = "c";
    assert_eq!(calls.record_activity(now, 8), Some(&mut "c"));
    assert_eq!(calls.get(9), None);
    assert_eq!(calls.get_mut(9), None);
    let mut ids: Vec<_> = calls.ids().collect();
    ids.sort_unstable();
    assert_eq!(ids, [7, 8]);
    assert_eq!((calls.end(7), calls.end(7)), (Some("a"), None));
    assert_eq!(calls.end(8), Some("c"));
    assert_eq!((calls.len(), calls.is_empty()), (0, true));
}

/// A map uses the top bits of a hash and the bottom ones, so consecutive ids must differ in
/// both.
#[test]
fn ids_are_spread_over_the_whole_hash() {
    let hash = |id: u64| {
        let mut spread = IdHasher::default();
        spread.write_u64(id);
        spread.finish()
    };
    assert_eq!(hash(1), 0x9e37_79b9_e17d_05ac);
    let mut bytes = IdHasher::default();
    bytes.write(&[1, 4]);
    assert_eq!(bytes.finish(), hash(4 ^ hash(1)));
}

/// A limit is kept up to a year, and a longer one does not overflow.
#[test]
fn endless_limits_end_after_a_year() {
    let mut calls = Calls::default();
    let now = Instant::now();
    let day = 24 * 60 * 60 * S;
    for (wanted, kept) in [(364 * day, 364 * day), (366 * day, 365 * day), (Duration::MAX, 365 * day)] {
        let id = calls.begin(now, Limits { idle: wanted, total: wanted }, ());
        assert_eq!(calls.check_deadline(now, id), DeadlineCheck::At(now + kept));
        calls.record_activity(now + S, id);
        assert_eq!(calls.check_deadline(now + S, id), DeadlineCheck::At(now + kept));
    }
}
