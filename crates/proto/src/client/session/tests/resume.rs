//! Tests of resuming a session after its link was lost.

use super::*;

/// A session over HTTP that was ready and lost its link, and whose new link probes the old session.
fn resuming() -> Rig {
    let mut rig = Rig::http().ready();
    rig.pass(60 * S);
    assert_eq!(rig.event(link_lost(Cause::Cut)), ["disconnected", "close", "open http"]);
    assert_eq!(rig.event(Event::Opened { session: true }), ["send resume"]);
    assert_eq!(rig.wait(), 3 * S);
    rig
}

fn reply(fault: Fault) -> Event {
    Event::Reply(Reply::Fault(fault))
}

#[test]
fn the_old_session_is_asked_for_first() {
    let mut rig = resuming();
    rig.now += S;
    let actions = rig.event(Event::Reply(Reply::Result(json("{}"))));
    assert_eq!(actions, ["ready", "recovered after 1s"], "nothing is restored: it knows it all");
    assert!(rig.is_ready());
    // Any answer proves the session, unless it reports a loss.
    assert_eq!(resuming().event(error(None, -32601, "no ping here"))[0], "ready");
}

#[test]
fn a_new_session_is_opened_only_if_the_old_one_is_gone() {
    let gone = [
        error(Some(404), -32001, "Session not found"),
        reply(status(404, None).not_executed()),
        reply(status(400, None).with_body(b"Bad Request: No valid session ID provided").not_executed()),
        // An unclear answer that waiting does not fix: a handshake settles it.
        reply(status(500, None).with_body(b"undefined is not a function")),
        reply(status(405, None).with_body(b"Method Not Allowed").not_executed()),
        reply(Fault::protocol(Misbehavior::NoAnswer)),
        Event::Reply(Reply::Accepted),
    ];
    for gone in gone {
        let mut rig = resuming();
        assert_eq!(rig.event(gone.clone()), ["send initialize"], "{gone:?}");
        assert_eq!(rig.session.status(), Status::Connecting);
        assert_eq!(rig.event(initialized()), ["send initialized"]);
    }
}

#[test]
fn a_session_that_does_not_answer_is_no_use() {
    let mut rig = resuming();
    assert_eq!(rig.pass(3 * S), ["send initialize"]);
    assert_eq!(rig.wait(), 27 * S, "within the time for connecting");
    // A late answer to the probe is not the expected one, and the driver drops it.
    rig.event(initialized());
    rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(rig.event(Event::Restored)[0], "ready");
}

#[test]
fn a_link_that_cannot_name_it_makes_a_new_one() {
    let mut rig = Rig::http().ready();
    rig.event(link_lost(Cause::Cut));
    assert_eq!(rig.event(Event::Opened { session: false }), ["send initialize"]);
}

/// A probe that did not reach the server proves nothing, so the session is kept.
#[test]
fn a_refused_connection_keeps_the_session_for_the_next_try() {
    let refusals = || {
        let fault = Fault::before_sending(Cause::Refused);
        [reply(fault.clone()), Event::LinkLost(fault)]
    };
    for n in 0..refusals().len() {
        let mut rig = resuming();
        for _ in 0..20 {
            assert_eq!(rig.event(refusals()[n].clone()), ["close"]);
            assert_eq!(rig.cause(), Cause::Refused);
            assert_eq!(rig.run_timer(), ["open http"]);
            assert_eq!(rig.event(Event::Opened { session: true }), ["send resume"]);
        }
        assert_eq!(rig.event(Event::Reply(Reply::Result(json("{}"))))[0], "ready");
    }
    // This also holds if the link could not be opened.
    let mut rig = Rig::http().ready();
    rig.event(link_lost(Cause::Cut));
    rig.event(refused());
    rig.run_timer();
    assert_eq!(rig.event(Event::Opened { session: true }), ["send resume"]);
}

/// A gateway may answer forever that the node of an old session is down.
#[test]
fn a_gateway_that_answers_in_its_place_is_not_asked_for_ever() {
    let mut rig = resuming();
    let mut asked = 1;
    loop {
        assert_eq!(rig.event(reply(status(502, None).with_body(b"Bad Gateway"))), ["close"]);
        assert_eq!(rig.run_timer(), ["open http"]);
        match rig.event(Event::Opened { session: true })[0].as_str() {
            "send resume" => asked += 1,
            other => break assert_eq!(other, "send initialize"),
        }
        assert!(asked < 20, "asked for ever");
    }
    assert!(asked > 2, "a gateway that restarts costs no session");
}

/// A server that is killed again long after the outage began has said nothing of the session, nor has one that cannot
/// look for it yet. One that breaks down at every probe is not probed for ever.
#[test]
fn a_session_outlives_probes_that_are_cut_late_in_an_outage() {
    let cut = || Fault::new(Cause::Cut);
    let put_off = status(503, Some(S)).with_body(b"what was recorded cannot be loaded now");
    for event in [Event::LinkLost(cut()), reply(cut()), reply(put_off)] {
        let mut rig = resuming();
        let cut_late = |rig: &mut Rig| {
            rig.now += RESUME_RETRY_WINDOW;
            assert_eq!(rig.event(event.clone()), ["close"]);
            assert_eq!(rig.run_timer(), ["open http"]);
            rig.event(Event::Opened { session: true })
        };
        for _ in 1..MAX_LATE_PROBES {
            assert_eq!(cut_late(&mut rig), ["send resume"]);
        }
        // The next outage is counted by itself.
        assert_eq!(rig.event(Event::Reply(Reply::Result(json("{}"))))[0], "ready");
        rig.pass(60 * S);
        rig.event(link_lost(Cause::Cut));
        assert_eq!(rig.event(Event::Opened { session: true }), ["send resume"]);
        for _ in 1..MAX_LATE_PROBES {
            assert_eq!(cut_late(&mut rig), ["send resume"]);
        }
        assert_eq!(cut_late(&mut rig), ["send initialize"]);
    }
}

#[test]
fn what_the_server_asked_for_holds_while_its_session_is_asked_for() {
    let mut rig = resuming();
    let busy = status(429, Some(7 * S)).not_executed();
    assert_eq!(rig.event(reply(busy)), ["close"]);
    rig.command(Command::Connect);
    assert_eq!(rig.wait(), 7 * S);
    rig.run_timer();
    assert_eq!(rig.event(Event::Opened { session: true }), ["send resume"]);
}

/// Only a legacy session over Streamable HTTP can outlive its connection.
#[test]
fn only_legacy_http_sessions_are_resumed() {
    let mut pipe = Rig::pipe().ready();
    pipe.event(link_lost(Cause::Cut));
    assert_eq!(pipe.event(Event::Opened { session: true }), ["send initialize"]);

    let mut sse = Rig::new(Settings { transport: TransportKind::EventStream, ..Settings::default() }).ready();
    sse.event(link_lost(Cause::Cut));
    assert_eq!(sse.event(Event::Opened { session: true }), ["send initialize"]);

    let mut modern = Rig::new(Settings { transport: TransportKind::Http, ..Settings::default() });
    modern.command(Command::Connect);
    assert_eq!(modern.event(Event::Opened { session: false }), ["send discover"]);
    let found = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}"#;
    modern.event(Event::Reply(Reply::Result(json(found))));
    modern.event(Event::Restored);
    assert!(modern.is_ready());
    modern.event(link_lost(Cause::Cut));
    assert_eq!(modern.event(Event::Opened { session: true }), ["send discover"]);
}
