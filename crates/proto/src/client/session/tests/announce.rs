//! Tests of announcements: each comes once, in order, with the right length of the outage.

use super::*;

#[test]
fn the_first_connection_is_announced_as_such() {
    let mut rig = Rig::http();
    rig.command(Command::Connect);
    // An outage before the first connection does not change that.
    assert_eq!(rig.event(refused()), ["close", "disconnected"]);
    rig.run_timer();
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored), ["ready", "connected"]);
}

#[test]
fn an_outage_is_announced_once_and_its_end_with_its_length() {
    let mut rig = Rig::pipe().ready();
    rig.pass(60 * S);
    assert_eq!(rig.event(link_lost(Cause::Cut)), ["disconnected", "close", "open pipe"]);
    let begun = rig.now;
    for _ in 0..5 {
        assert_eq!(rig.event(refused()), ["close"]);
        assert_eq!(rig.run_timer(), ["open pipe"]);
    }
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    rig.now += S;
    let outage = rig.now - begun;
    assert_eq!(rig.event(Event::Restored), ["ready".to_owned(), format!("recovered after {outage:?}")]);
    // The next loss is another outage.
    rig.pass(60 * S);
    assert_eq!(rig.event(link_lost(Cause::Cut))[0], "disconnected");
}

/// An outage is counted from its first sign, even if the loss was certain only later.
#[test]
fn an_outage_begins_with_its_first_evidence() {
    let mut rig = Rig::http().ready();
    rig.pass(60 * S);
    rig.session.suspect(rig.now);
    rig.now += 15 * S;
    assert_eq!(rig.event(link_lost(Cause::Cut))[0], "disconnected");
    rig.now += 20 * MS;
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored), ["ready", "recovered after 15.02s"]);
}

#[test]
fn a_lost_session_is_announced_and_so_is_the_new_one() {
    let mut rig = Rig::http().ready();
    rig.pass(60 * S);
    assert_eq!(rig.event(session_lost(true)), ["session lost", "close", "open http"]);
    rig.now += 20 * MS;
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored), ["ready", "recovered after 20ms"]);
}

/// A session loss followed by the loss of the server is one outage.
#[test]
fn a_server_that_goes_away_while_its_session_is_renewed_is_one_outage() {
    let mut rig = Rig::http().ready();
    rig.event(session_lost(true));
    rig.now += S;
    assert_eq!(rig.event(refused()), ["close", "disconnected"]);
    let wait = rig.wait();
    rig.run_timer();
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    let outage = S + wait;
    assert_eq!(rig.event(Event::Restored), ["ready".to_owned(), format!("recovered after {outage:?}")]);
}

/// The time until a person has logged in is an outage.
#[test]
fn a_login_is_an_outage_too() {
    let mut rig = Rig::http().ready();
    let login = || link_lost(Cause::LoginRequired { code: 401, challenge: vec![] });
    assert_eq!(rig.event(login()), ["close", "needs login"]);
    rig.now += 10 * S;
    assert_eq!(rig.command(Command::Connect), ["open http"]);
    assert_eq!(rig.event(login()), ["close", "needs login"]);
    rig.now += 10 * S;
    rig.command(Command::Connect);
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored), ["ready", "recovered after 20s"]);
}

/// A session becomes ready at the connect timeout, even if it could not be restored.
#[test]
fn restoring_has_an_end() {
    let mut rig = Rig::http();
    rig.command(Command::Connect);
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.session.status(), Status::Connecting);
    assert_eq!(rig.pass(30 * S), ["ready", "connected"]);
    assert!(rig.is_ready());
    // A late event changes nothing.
    assert_eq!(rig.event(Event::Restored), NOTHING);
}

/// A link that breaks while the session is restored is opened again with backoff.
#[test]
fn a_link_lost_while_restoring_is_opened_again() {
    let mut rig = Rig::http();
    rig.command(Command::Connect);
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(link_lost(Cause::Cut)), ["close", "disconnected"]);
    assert_eq!(rig.run_timer(), ["open http"]);
}

/// A refused connection causes a login, after which the link is opened again.
#[test]
fn a_login_is_a_phase() {
    let login = || link_lost(Cause::LoginRequired { code: 401, challenge: vec![] });
    let mut rig = Rig::authorizing();
    rig.command(Command::Connect);
    assert_eq!(rig.event(login()), ["close", "authorize"]);
    assert!(matches!(rig.session.status(), Status::LoggingIn(_)));
    assert_eq!(rig.session.blocking_fault(rig.now), None, "it is worth waiting for");
    for command in [Command::Connect, Command::Wake, Command::LoggedIn] {
        assert_eq!(rig.command(command), NOTHING);
    }
    assert_eq!(rig.event(Event::Authorized), ["open http"]);
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored), ["ready", "connected"]);
    // A login after the first connection is an outage.
    assert_eq!(rig.event(login()), ["close", "disconnected", "authorize"]);
    rig.now += S;
    assert_eq!(rig.event(Event::Authorized), ["open http"]);
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored), ["ready", "recovered after 1s"]);
}

/// A login that is unavailable is tried again; one that is denied waits for a person.
#[test]
fn a_login_that_fails_says_for_how_long() {
    let login = Cause::LoginRequired { code: 401, challenge: vec![] };
    let mut rig = Rig::authorizing();
    rig.command(Command::Connect);
    rig.event(link_lost(login.clone()));
    let away = Event::Denied(Fault::before_sending(Cause::LoginUnavailable));
    assert_eq!(rig.event(away), ["disconnected"]);
    assert_eq!(rig.cause(), Cause::LoginUnavailable);
    assert_eq!(rig.run_timer(), ["open http"], "it is tried again by itself");
    rig.event(link_lost(login.clone()));
    assert_eq!(rig.event(Event::Denied(Fault::new(login.clone()))), ["needs login"]);
    assert_eq!(rig.session.poll_timeout(), None, "nobody tries by himself");
    // A login elsewhere causes an attempt at once.
    assert_eq!(rig.command(Command::LoggedIn), ["open http"]);
    // A login that times out is denied, and its late result is dropped.
    rig.event(link_lost(login));
    let name = rig.session.attempt();
    assert_eq!(rig.wait(), 15 * 60 * S);
    assert_eq!(rig.run_timer(), ["needs login"]);
    assert_eq!(rig.event_of(name, Event::Authorized), NOTHING);
    assert_eq!(rig.command(Command::Close), NOTHING);
    assert_eq!(rig.session.status(), Status::Closed);
}

/// SC-04, TK-04: a server that requires a login each time gets a bounded number of them.
#[test]
fn logins_in_vain_are_counted() {
    let login = || link_lost(Cause::LoginRequired { code: 401, challenge: vec![] });
    let mut rig = Rig::authorizing();
    rig.command(Command::Connect);
    for _ in 0..3 {
        assert_eq!(rig.event(login()), ["close", "authorize"]);
        assert_eq!(rig.event(Event::Authorized), ["open http"]);
    }
    assert_eq!(rig.event(login()), ["close", "needs login"]);
}

/// An unavailable login does not count as one in vain, and a successful connection resets the
/// count.
#[test]
fn only_logins_in_vain_are_counted() {
    let login = || link_lost(Cause::LoginRequired { code: 401, challenge: vec![] });
    let mut rig = Rig::authorizing();
    rig.command(Command::Connect);
    for _ in 0..20 {
        assert!(rig.event(login()).ends_with(&["authorize".to_owned()]));
        rig.event(Event::Denied(Fault::before_sending(Cause::LoginUnavailable)));
        assert_eq!(rig.run_timer(), ["open http"]);
    }
    for _ in 0..3 {
        for _ in 0..2 {
            assert!(rig.event(login()).ends_with(&["authorize".to_owned()]));
            assert_eq!(rig.event(Event::Authorized), ["open http"]);
        }
        rig.complete_handshake();
    }
}

/// The old session is probed again after the login that its probe required.
#[test]
fn a_session_is_resumed_after_a_login() {
    let mut rig = Rig::authorizing().ready();
    rig.event(link_lost(Cause::Cut));
    assert_eq!(rig.event(Event::Opened { session: true }), ["send resume"]);
    let refused = Fault::new(Cause::LoginRequired { code: 401, challenge: vec![] });
    assert!(rig.event(Event::Reply(Reply::Fault(refused))).ends_with(&["authorize".to_owned()]));
    assert_eq!(rig.event(Event::Authorized), ["open http"]);
    assert_eq!(rig.event(Event::Opened { session: true }), ["send resume"]);
}
