//! What is told to whoever listens: once, in order, with the right length.

use super::*;

#[test]
fn the_first_connection_is_announced_as_such() {
    let mut rig = Rig::http();
    rig.command(Command::Connect);
    // An outage before it does not change that.
    assert_eq!(rig.event(refused()), ["close", "disconnected"]);
    rig.strike();
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored), ["ready", "connected"]);
}

#[test]
fn an_outage_is_announced_once_and_its_end_with_its_length() {
    let mut rig = Rig::pipe().ready();
    rig.pass(60 * S);
    assert_eq!(rig.event(lost(Cause::Cut)), ["disconnected", "close", "open pipe"]);
    let begun = rig.now;
    for _ in 0..5 {
        assert_eq!(rig.event(refused()), ["close"]);
        assert_eq!(rig.strike(), ["open pipe"]);
    }
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    rig.now += S;
    let outage = rig.now - begun;
    assert_eq!(rig.event(Event::Restored), ["ready".to_owned(), format!("recovered after {outage:?}")]);
    // The next is another.
    rig.pass(60 * S);
    assert_eq!(rig.event(lost(Cause::Cut))[0], "disconnected");
}

#[test]
fn a_lost_session_is_announced_and_so_is_the_new_one() {
    let mut rig = Rig::http().ready();
    rig.pass(60 * S);
    assert_eq!(rig.event(forgotten(true)), ["session lost", "close", "open http"]);
    rig.now += 20 * MS;
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored), ["ready", "recovered after 20ms"]);
}

/// One outage, though first the session was gone and then the server.
#[test]
fn a_server_that_goes_away_while_its_session_is_renewed_is_one_outage() {
    let mut rig = Rig::http().ready();
    rig.event(forgotten(true));
    rig.now += S;
    assert_eq!(rig.event(refused()), ["close", "disconnected"]);
    let wait = rig.wait();
    rig.strike();
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    let outage = S + wait;
    assert_eq!(rig.event(Event::Restored), ["ready".to_owned(), format!("recovered after {outage:?}")]);
}

/// Only a person could help, and did.
#[test]
fn a_login_is_an_outage_too() {
    let mut rig = Rig::http().ready();
    let login = || lost(Cause::LoginRequired { code: 401, challenge: vec![] });
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

/// What could not be restored in time is not worth a server that can be called.
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
    // What comes late finds it done.
    assert_eq!(rig.event(Event::Restored), NOTHING);
}

/// A link that breaks while the session is restored is a link that breaks.
#[test]
fn a_link_lost_while_restoring_is_opened_again() {
    let mut rig = Rig::http();
    rig.command(Command::Connect);
    rig.event(Event::Opened { session: false });
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(lost(Cause::Cut)), ["close", "disconnected"]);
    assert_eq!(rig.strike(), ["open http"]);
}
