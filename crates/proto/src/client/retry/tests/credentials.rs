//! Tests of requests that are refused for their credentials.

use super::*;

const GUARDED: LinkFacts = LinkFacts { credentials: true, can_authorize: true, ..LINK };

fn denied() -> Fault {
    let cause = Cause::LoginRequired { code: 401, challenge: vec!["Bearer".to_owned()] };
    Fault::new(cause).not_executed()
}

fn play(link: LinkFacts) -> Scenario {
    let mut play = Scenario::new();
    play.link = link;
    play
}

#[test]
fn a_refused_request_goes_again_with_new_credentials() {
    let mut play = play(LinkFacts { proven: false, ..GUARDED });
    let step = play.fail(Reply::Fault(denied()));
    assert_eq!(step, Step::LogIn { refused: denied(), quietly: false });
    assert_eq!(play.retry.handle_login(play.now, Ok(())), Step::Send);
}

/// Before a person is asked, one new session shows whether the old session was refused.
#[test]
fn a_new_session_comes_before_a_person() {
    let mut play = play(GUARDED);
    let step = play.fail(Reply::Fault(denied()));
    assert_eq!(step, Step::LogIn { refused: denied(), quietly: true });
    assert_eq!(play.retry.handle_login(play.now, Err(denied())), Step::Reconnect);
    // The report keeps the challenge, which says how to log in.
    assert_eq!(play.retry.poll_report(), Some(Report::SessionLost(denied())));
    play.link.proven = false;
    assert_eq!(play.reconnect(), Step::Send);
    let step = play.fail(Reply::Fault(denied()));
    assert_eq!(step, Step::LogIn { refused: denied(), quietly: false });
    let (cause, execution) = final_fault(&play.retry.handle_login(play.now, Err(denied())));
    assert!(matches!(cause, Cause::LoginRequired { .. }));
    assert_eq!(execution, Execution::NotExecuted);
}

/// If no login can be obtained, that is reported.
#[test]
fn a_login_that_is_not_to_be_had_is_told() {
    let mut play = play(LinkFacts { can_authorize: false, credentials: false, ..LINK });
    let (cause, execution) = final_fault(&play.fail(Reply::Fault(denied())));
    assert!(matches!(cause, Cause::LoginRequired { .. }));
    assert_eq!(execution, Execution::NotExecuted);
    assert_eq!(play.retry.poll_report(), Some(Report::NeedsLogin(denied())));
}

/// SC-04: the number of logins is bounded.
#[test]
fn sc_04_credentials_are_asked_for_three_times() {
    let mut play = play(LinkFacts { proven: false, ..GUARDED });
    for _ in 0..3 {
        let mut step = play.fail(Reply::Fault(denied()));
        assert!(matches!(step, Step::LogIn { .. }), "{step:?}");
        step = play.retry.handle_login(play.now, Ok(()));
        if let Step::Wait(until) = step {
            play.now = until;
            step = play.retry.handle_timeout(play.now);
        }
        assert_eq!(step, Step::Send);
    }
    final_fault(&play.fail(Reply::Fault(denied())));
}

/// A 401 that mentions the session causes a probe, even without credentials.
#[test]
fn a_401_that_speaks_of_the_session_is_probed() {
    let gate = || {
        let cause = Cause::LoginRequired { code: 401, challenge: Vec::new() };
        Reply::Fault(Fault::new(cause).with_body(b"Unauthorized: Session not found").not_executed())
    };
    let mut play = play(LINK);
    assert_eq!(play.fail(gate()), Step::Probe(PING));
    assert_eq!(play.answer_probe(PING, gate()), Step::Reconnect);
    assert_eq!(play.reconnect(), Step::Send);
}
