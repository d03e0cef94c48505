//! Tests of reconnecting to servers that are down: the waits, and how demand shortens them.

use super::*;

/// `Retry-After` holds even while a caller waits.
#[test]
fn demand_does_not_override_what_the_server_asked_for() {
    for command in [Command::Connect, Command::Wake] {
        let mut rig = Rig::http();
        rig.command(Command::Connect);
        rig.event(Event::LinkLost(status(503, Some(9 * S))));
        assert_eq!(rig.command(command), NOTHING);
        assert_eq!(rig.wait(), 9 * S);
        assert_eq!(rig.pass(8_999 * MS), NOTHING);
        assert_eq!(rig.pass(MS), ["open http"]);
    }
}

/// Without `Retry-After`, demand and a wake-up cut the wait to the floor.
#[test]
fn demand_cuts_the_wait_to_the_floor() {
    for command in [Command::Connect, Command::Wake] {
        let mut rig = Rig::pipe();
        rig.command(Command::Connect);
        for _ in 0..16 {
            rig.event(refused());
            rig.run_timer();
        }
        rig.event(refused());
        assert!(rig.wait() > 10 * S, "{:?}", rig.wait());
        rig.command(command);
        assert_eq!(rig.wait(), S, "a twentieth of the trouble so far, but no more than a second");
        rig.command(command);
        assert_eq!(rig.wait(), S);
    }
    let mut rig = Rig::pipe();
    rig.command(Command::Connect);
    rig.event(refused());
    assert_eq!(rig.wait(), 250 * MS);
    rig.command(Command::Connect);
    assert_eq!(rig.wait(), 50 * MS, "the demand floor");
}

/// A closed port is tried more often than a server that answers 503.
#[test]
fn a_closed_port_is_tried_more_often_than_a_busy_server() {
    for (lost, wait) in [(refused(), 50 * MS), (Event::LinkLost(status(503, None)), 200 * MS)] {
        let mut rig = Rig::http().ready();
        rig.pass(60 * S);
        rig.event(lost.clone());
        rig.pass(4 * S);
        rig.event(lost);
        rig.command(Command::Connect);
        assert_eq!(rig.wait(), wait);
    }
}

#[test]
fn nothing_happens_before_somebody_wants_it() {
    let mut rig = Rig::http();
    assert_eq!(rig.command(Command::Wake), NOTHING);
    assert_eq!(rig.session.status(), Status::Idle);
    assert_eq!(rig.command(Command::Connect), ["open http"]);
    assert_eq!(rig.session.status(), Status::Connecting);
    assert_eq!(rig.wait(), 30 * S);
}

/// The first loss of a stable connection costs no wait, since most such losses are short.
#[test]
fn a_connection_that_held_is_opened_again_at_once_and_then_with_waits() {
    let mut rig = Rig::pipe().ready();
    rig.pass(60 * S);
    assert_eq!(rig.event(link_lost(Cause::Cut)), ["disconnected", "close", "open pipe"]);
    assert_eq!(rig.event(refused()), ["close"]);
    assert_eq!(rig.wait(), 250 * MS);
    assert_eq!(rig.run_timer(), ["open pipe"]);
    rig.complete_handshake();
    // Flapping is not recovery.
    rig.pass(29 * S);
    assert_eq!(rig.event(link_lost(Cause::Cut)), ["close", "disconnected"]);
    assert!(rig.wait() >= 250 * MS);
    rig.run_timer();
    rig.complete_handshake();
    // A stable connection is.
    rig.pass(30 * S);
    assert_eq!(rig.event(link_lost(Cause::Cut)), ["disconnected", "close", "open pipe"]);
    rig.event(refused());
    assert_eq!(rig.wait(), 250 * MS);
}

#[test]
fn waits_grow_and_never_end() {
    let mut rig = Rig::http();
    rig.command(Command::Connect);
    for n in 0..200 {
        assert!(rig.event(refused()).contains(&"close".to_owned()));
        assert!(rig.wait() >= 250 * MS && rig.wait() <= 60 * S);
        assert!(n < 20 || rig.wait() >= 30 * S);
        assert_eq!(rig.run_timer(), ["open http"]);
    }
    assert_eq!(rig.session.attempt_count(), 201);
    rig.complete_handshake();
    // The number of attempts is kept until the next outage begins.
    assert_eq!(rig.session.attempt_count(), 201);
    rig.pass(60 * S);
    rig.event(link_lost(Cause::Cut));
    assert_eq!(rig.session.attempt_count(), 1);
}

#[test]
fn a_server_that_does_not_answer_is_given_up_in_time_and_tried_again() {
    let mut rig = Rig::pipe();
    rig.command(Command::Connect);
    rig.event(Event::Opened { session: false });
    rig.pass(20 * S);
    assert_eq!(rig.session.status(), Status::Connecting);
    assert_eq!(rig.run_timer(), ["close", "disconnected"]);
    assert_eq!(rig.cause(), Cause::Timeout(Limit::Connect));
    assert_eq!(rig.run_timer(), ["open pipe"]);
}

/// A process that exits on the probe is restarted within the same connect timeout (DE-05).
#[test]
fn de_05_a_restart_does_not_get_more_time() {
    let mut rig = Rig::new(Settings::default());
    rig.command(Command::Connect);
    assert_eq!(rig.event(Event::Opened { session: false }), ["send discover"]);
    rig.pass(2 * S);
    assert_eq!(rig.event(link_lost(Cause::Exited(crate::fault::Exit::Code(1)))), ["close", "open pipe"]);
    assert_eq!(rig.wait(), 28 * S);
    assert_eq!(rig.event(Event::Opened { session: false }), ["send initialize"]);
}

/// A server that worked once is not given up: it may be half deployed.
#[test]
fn a_server_that_was_ready_is_never_failed() {
    let hopeless = [
        Cause::Spawn(crate::fault::SpawnError::NotFound),
        Cause::NoCommonVersion { supported: vec![] },
        Cause::Redirect { location: String::new() },
    ];
    for cause in hopeless {
        let mut fresh = Rig::http();
        fresh.command(Command::Connect);
        assert_eq!(fresh.event(link_lost(cause.clone())), ["close", "failed"]);
        assert_eq!(fresh.session.status(), Status::Failed(Fault::new(cause.clone())));
        let mut rig = Rig::http().ready();
        assert_eq!(rig.event(link_lost(cause.clone())), ["close", "disconnected"]);
        assert_eq!(rig.cause(), cause);
        assert_eq!(rig.run_timer(), ["open http"]);
        assert_eq!(rig.event(link_lost(cause)), ["close"]);
        assert_eq!(rig.run_timer(), ["open http"]);
    }
}

/// A fault that only a person can fix blocks attempts for ten seconds; then demand causes one.
#[test]
fn a_permanent_failure_is_retried_after_ten_seconds() {
    let login = Cause::LoginRequired { code: 401, challenge: vec![] };
    for cause in [login, Cause::Spawn(crate::fault::SpawnError::Denied)] {
        for command in [Command::Connect, Command::Wake] {
            let mut rig = Rig::http();
            rig.command(Command::Connect);
            assert_eq!(rig.session.blocking_fault(rig.now), None);
            rig.event(link_lost(cause.clone()));
            assert_eq!(rig.session.blocking_fault(rig.now).map(|fault| &fault.cause), Some(&cause));
            assert_eq!(rig.session.poll_timeout(), None, "nobody tries by himself");
            rig.now += 9_999 * MS;
            assert_eq!(rig.command(command), NOTHING);
            assert!(rig.session.blocking_fault(rig.now).is_some());
            rig.now += MS;
            assert_eq!(rig.session.blocking_fault(rig.now), None);
            assert_eq!(rig.command(command), ["open http"]);
            assert_eq!(rig.session.blocking_fault(rig.now), None);
        }
    }
}

#[test]
fn closing_ends_everything_for_good() {
    let mut open = Rig::http().ready();
    assert_eq!(open.command(Command::Close), ["close"]);
    let mut waiting = Rig::http();
    waiting.command(Command::Connect);
    waiting.event(refused());
    assert_eq!(waiting.command(Command::Close), NOTHING);
    for mut rig in [open, waiting, Rig::http()] {
        rig.command(Command::Close);
        for command in [Command::Connect, Command::Wake, Command::Close] {
            assert_eq!(rig.command(command), NOTHING);
        }
        for event in [Event::Opened { session: true }, Event::Restored, session_lost(true), refused()] {
            assert_eq!(rig.event(event), NOTHING);
        }
        assert_eq!((rig.session.status(), rig.session.poll_timeout()), (Status::Closed, None));
    }
}

/// Closing a link retires its attempt, whatever the reason, so late events of the driver are
/// dropped.
#[test]
fn a_closed_link_counts_no_more() {
    for event in
        [refused(), session_lost(true), link_lost(Cause::LoginRequired { code: 401, challenge: vec![] })]
    {
        let mut rig = Rig::http().ready();
        let attempt = rig.session.attempt();
        rig.event(event);
        assert_ne!(rig.session.attempt(), attempt);
    }
    let mut rig = Rig::pipe();
    rig.command(Command::Connect);
    let attempt = rig.session.attempt();
    assert_eq!(rig.run_timer(), ["close", "disconnected"]);
    assert_ne!(rig.session.attempt(), attempt);
}

/// The outcome of the request that found the link dead does not apply to the others on it.
#[test]
fn calls_under_way_on_a_closed_link_may_have_run() {
    for event in [refused(), session_lost(true)] {
        let mut rig = Rig::pipe().ready();
        rig.session.handle_event(rig.now, rig.session.attempt(), event);
        let closed = std::iter::from_fn(|| rig.session.poll_action())
            .find_map(|action| if let Action::Close(_, fault) = action { Some(fault) } else { None });
        assert_eq!(closed.unwrap().execution, Execution::Unknown);
    }
}
