//! Tests of the limits of phases and waits, and of the public getters.

use super::*;

/// A clock that jumps past the connect timeout ends a probe with it.
#[test]
fn time_for_connecting_ends_a_probe_too() {
    let mut probing = Rig::new(Settings::default());
    probing.command(Command::Connect);
    assert_eq!(probing.event(Event::Opened { session: false }), ["send discover"]);
    let mut resuming = Rig::http().ready();
    resuming.event(link_lost(Cause::Cut));
    assert_eq!(resuming.event(Event::Opened { session: true }), ["send resume"]);
    for (mut rig, actions) in [(probing, &["close", "disconnected"][..]), (resuming, &["close"])] {
        assert_eq!(rig.pass(30 * S), actions);
        assert_eq!(rig.cause(), Cause::Timeout(Limit::Connect));
    }
}

/// A session of an earlier process is probed by the first link.
#[test]
fn session_that_was_left_by_another_is_resumed() {
    let Status::Ready(peer) = Rig::http().ready().session.status() else { panic!("not ready") };
    let mut rig = Rig::http();
    rig.session.resume(peer);
    assert_eq!(rig.command(Command::Connect), ["open http"]);
    assert_eq!(rig.event(Event::Opened { session: true }), ["send resume"]);
    let actions = rig.event(Event::Reply(Reply::Result(json("{}"))));
    assert_eq!(actions, ["ready", "connected"]);
}

/// Without a login, a handshake shows whether the 401 meant the old session.
#[test]
fn refused_resumption_without_a_login_is_a_handshake() {
    let mut rig = Rig::http().ready();
    rig.event(link_lost(Cause::Cut));
    rig.event(Event::Opened { session: true });
    let refused = Fault::new(Cause::LoginRequired { code: 401, challenge: vec![] });
    assert_eq!(rig.event(Event::Reply(Reply::Fault(refused))), ["send initialize"]);
}

/// An overloaded server gets longer waits than one that is down, even while a caller waits.
#[test]
fn server_that_says_429_is_left_alone_for_a_second() {
    for (code, asked, waited) in
        [(429, None, S), (429, Some(Duration::ZERO), S), (429, Some(3 * S), 3 * S), (503, None, 50 * MS)]
    {
        let mut rig = Rig::http();
        rig.command(Command::Connect);
        rig.event(Event::Opened { session: false });
        rig.event(Event::Reply(Reply::Fault(status(code, asked))));
        rig.command(Command::Wake);
        assert_eq!(rig.session.poll_timeout(), Some(rig.now + waited), "{code}, {asked:?}");
    }
}

/// The old session is probed for five seconds while a gateway answers for the server.
#[test]
fn gateway_is_asked_for_the_old_session_for_five_seconds() {
    for (after, hello) in [(4_999 * MS, "send resume"), (5_000 * MS, "send initialize")] {
        let mut rig = Rig::http().ready();
        rig.pass(60 * S);
        rig.event(link_lost(Cause::Cut));
        rig.event(Event::Opened { session: true });
        rig.now += after;
        rig.event(Event::Reply(Reply::Fault(status(502, None).with_body(b"Bad Gateway"))));
        assert_eq!(rig.run_timer(), ["open http"]);
        assert_eq!(rig.event(Event::Opened { session: true }), [hello], "{after:?}");
    }
}

/// Over HTTP a single exchange may have broken, so further losses use the budget of new sessions.
#[test]
fn losses_in_a_row_over_http_cost_no_wait_within_the_budget() {
    let mut rig = Rig::http().ready();
    for n in 0..31 {
        assert_eq!(rig.event(link_lost(Cause::Cut)), ["disconnected", "close", "open http"], "{n}");
        rig.complete_handshake();
    }
    assert_eq!(rig.event(link_lost(Cause::Cut)), ["close", "disconnected"]);
}

/// HTTP+SSE that requires a login works, so the login is reported and the transport kept.
#[test]
fn login_that_the_older_transport_wants_is_reported() {
    let mut rig = Rig::new(Settings {
        transport: TransportKind::Http,
        era_choice: EraChoice::Legacy,
        fallback: true,
        ..Settings::default()
    });
    rig.command(Command::Connect);
    assert_eq!(rig.event(Event::Opened { session: false }), ["send initialize"]);
    // A refusal may be a JSON-RPC error too.
    assert_eq!(rig.event(error(Some(404), -32601, "no")), ["close", "open event stream"]);
    assert_eq!(rig.session.current_transport(), TransportKind::EventStream);
    let login = Cause::LoginRequired { code: 401, challenge: vec![] };
    assert_eq!(rig.event(link_lost(login.clone())), ["close", "needs login"]);
    assert_eq!(rig.cause(), login);
    assert_eq!(rig.session.current_transport(), TransportKind::EventStream);
}

/// Starting a process is expensive, so a refused connection does not shorten the waits of a pipe.
#[test]
fn process_is_not_started_as_often_as_a_port_is_tried() {
    let mut rig = Rig::pipe();
    rig.command(Command::Connect);
    rig.event(refused());
    assert_eq!(rig.pass(4 * S), ["open pipe"]);
    rig.event(refused());
    rig.command(Command::Connect);
    assert_eq!(rig.wait(), 200 * MS);
}

#[test]
fn session_is_down_once_something_was_lost_or_not_had() {
    let mut rig = Rig::http();
    rig.command(Command::Connect);
    assert!(!rig.session.has_connected_or_failed());
    rig.event(refused());
    assert!(rig.session.has_connected_or_failed());
    let ready = Rig::http().ready();
    assert!(ready.session.has_connected_or_failed());
}

/// The attempt of a denied login is retired, so its late result is dropped.
#[test]
fn denied_login_counts_no_more() {
    let mut rig = Rig::authorizing();
    rig.command(Command::Connect);
    rig.event(link_lost(Cause::LoginRequired { code: 401, challenge: vec![] }));
    let attempt = rig.session.attempt();
    rig.event(Event::Denied(Fault::before_sending(Cause::LoginUnavailable)));
    assert!(rig.session.attempt() > attempt);
}

/// The fault of a server that is not affine keeps what the server said about the last session.
#[test]
fn server_that_is_not_affine_is_shown_with_its_words() {
    let mut rig = Rig::http().ready();
    for _ in 0..2 {
        let fault = Fault::before_sending(Cause::SessionLost).with_body(b"Session not found");
        rig.event(Event::SessionLost { fault, proven: false });
        if rig.session.status() == Status::Connecting {
            rig.complete_handshake();
        }
    }
    let Status::BackingOff { cause, .. } = rig.session.status() else { panic!("not backing off") };
    assert_eq!(cause, Fault::before_sending(Cause::NotAffine).with_body(b"Session not found"));
}
