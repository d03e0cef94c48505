//! Tests of session loss: one replacement for all who report it, and bounded replacements.

use super::*;

#[test]
fn a_forgotten_session_is_renewed_at_once() {
    let mut rig = Rig::http().ready();
    assert_eq!(rig.event(session_lost(true)), ["session lost", "close", "open http"]);
    assert_eq!(rig.session.status(), Status::Connecting);
    // The old session id is not used again, even if the link still has it.
    assert_eq!(rig.event(Event::Opened { session: true }), ["send initialize"]);
}

/// Single flight: a thousand reports of one session loss open one link.
#[test]
fn a_thousand_reports_of_one_attempt_cause_one_open() {
    let mut rig = Rig::http().ready();
    let attempt = rig.session.attempt();
    let opens: usize = (0..1_000)
        .map(|_| rig.event_of(attempt, session_lost(true)))
        .map(|actions| actions.iter().filter(|action| action.starts_with("open")).count())
        .sum();
    assert_eq!(opens, 1);
    rig.complete_handshake();
    // Later reports change nothing.
    for _ in 0..1_000 {
        assert_eq!(rig.event_of(attempt, session_lost(true)), NOTHING);
    }
    assert!(rig.is_ready());
}

#[test]
fn a_report_of_an_older_attempt_changes_nothing() {
    let mut rig = Rig::http().ready();
    let old = rig.session.attempt();
    rig.event(session_lost(true));
    let events = || {
        let reply = Event::Reply(Reply::Accepted);
        [Event::Opened { session: true }, reply, Event::Restored, session_lost(true), link_lost(Cause::Cut)]
    };
    let mut phases = 0;
    let mut check = |rig: &mut Rig| {
        let before = (rig.session.status(), rig.session.poll_timeout(), rig.session.attempt());
        for event in events() {
            assert_eq!(rig.event_of(old, event), NOTHING);
        }
        assert_eq!(before, (rig.session.status(), rig.session.poll_timeout(), rig.session.attempt()));
        phases += 1;
    };
    check(&mut rig);
    rig.event(Event::Opened { session: false });
    check(&mut rig);
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    check(&mut rig);
    rig.event(Event::Restored);
    check(&mut rig);
    rig.event(Event::LinkLost(status(503, Some(S))));
    check(&mut rig);
    rig.run_timer();
    check(&mut rig);
    assert_eq!(phases, 6);
}

/// A session lost while it is being restored counts as unproven.
#[test]
fn a_session_forgotten_while_it_is_restored_never_answered() {
    let mut rig = Rig::http();
    rig.command(Command::Connect);
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    assert_eq!(rig.event(Event::Reply(Reply::Accepted)), ["restore"]);
    // Even if it is reported as proven.
    assert_eq!(rig.event(session_lost(true)), ["session lost", "close", "open http"]);
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(session_lost(true)), ["session lost", "close", "disconnected"]);
    assert_eq!(rig.cause(), Cause::NotAffine);
}

#[test]
fn two_sessions_forgotten_at_once_are_a_server_that_is_not_affine() {
    let mut rig = Rig::http().ready();
    assert_eq!(rig.event(session_lost(false)), ["session lost", "close", "open http"]);
    rig.complete_handshake();
    rig.now += 2_999 * MS;
    assert_eq!(rig.event(session_lost(false)), ["session lost", "close", "disconnected"]);
    assert_eq!(rig.cause(), Cause::NotAffine);
    assert!(rig.wait() >= 250 * MS);
    // It is tried again with growing waits, and each attempt costs one handshake only.
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        assert_eq!(rig.run_timer(), ["open http"]);
        rig.complete_handshake();
        assert_eq!(rig.event(session_lost(false)), ["session lost", "close", "disconnected"]);
        longest = longest.max(rig.wait());
    }
    assert!(longest > 30 * S);
    // A session that answers ends that.
    rig.run_timer();
    rig.complete_handshake();
    assert_eq!(rig.event(session_lost(true)), ["session lost", "close", "open http"]);
    rig.complete_handshake();
    assert_eq!(rig.event(session_lost(false)), ["session lost", "close", "open http"]);
}

/// A session that lasted for a while counts as proven, even if it was not used.
#[test]
fn an_unused_session_that_lasted_is_renewed() {
    let mut rig = Rig::http().ready();
    for _ in 0..10 {
        rig.pass(3 * S);
        assert_eq!(rig.event(session_lost(false)), ["session lost", "close", "open http"]);
        rig.complete_handshake();
    }
}

/// A stable connection in between resets the count of unproven sessions.
#[test]
fn two_sessions_forgotten_at_once_with_a_good_one_between_are_no_proof() {
    let mut rig = Rig::http().ready();
    rig.event(session_lost(false));
    rig.complete_handshake();
    rig.pass(30 * S);
    rig.event(link_lost(Cause::Cut));
    rig.complete_handshake();
    assert_eq!(rig.event(session_lost(false)), ["session lost", "close", "open http"]);
}

/// A server that loses the session after every call gets a bounded number of handshakes.
#[test]
fn renewals_are_bounded_however_often_sessions_are_forgotten() {
    let mut rig = Rig::http().ready();
    let (begun, mut opens, mut at_once) = (rig.now, 0_u32, 0_u32);
    while rig.now < begun + 60 * S {
        let actions = rig.event(session_lost(true));
        assert_eq!(actions[..2], ["session lost", "close"]);
        if actions.len() == 2 {
            // Demand does not shorten this wait, which protects the server.
            rig.command(Command::Connect);
            rig.command(Command::Wake);
            assert!(rig.wait() > Duration::ZERO && rig.wait() <= 500 * MS, "{:?}", rig.wait());
            assert_eq!(rig.cause(), Cause::SessionLost);
            assert_eq!(rig.run_timer(), ["open http"]);
        } else {
            assert_eq!(actions[2], "open http");
            at_once += u32::from(rig.now == begun);
        }
        opens += 1;
        assert!(opens <= 150, "a storm");
        rig.complete_handshake();
    }
    assert_eq!(at_once, 30, "a burst");
    assert_eq!(opens, 30 + 120, "then two in a second");
}

/// A wait for the budget is not announced as a disconnection.
#[test]
fn a_session_that_waits_for_its_budget_is_not_disconnected() {
    let mut rig = Rig::http().ready();
    for _ in 0..30 {
        rig.event(session_lost(true));
        rig.complete_handshake();
    }
    assert_eq!(rig.event(session_lost(true)), ["session lost", "close"]);
    rig.run_timer();
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored), ["ready", "recovered after 500ms"]);
}
