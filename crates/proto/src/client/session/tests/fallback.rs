//! Tests of the fallback from Streamable HTTP to HTTP+SSE (DE-04).

use super::*;

fn settings() -> Settings {
    Settings { transport: TransportKind::Http, fallback: true, ..Settings::default() }
}

/// Refuses Streamable HTTP with `code`, in both eras.
fn refuse(rig: &mut Rig, code: u16) -> Vec<String> {
    let refusal = || Event::Reply(Reply::Fault(status(code, None).not_executed()));
    assert_eq!(rig.event(Event::Opened { session: false }), ["send discover"]);
    assert_eq!(rig.event(refusal()), ["send initialize"]);
    rig.event(refusal())
}

#[test]
fn de_04_a_refused_transport_gives_way_to_the_older_one() {
    for code in [400, 404, 405] {
        let mut rig = Rig::new(settings());
        rig.command(Command::Connect);
        rig.now += S;
        assert_eq!(refuse(&mut rig, code), ["close", "open event stream"]);
        assert_eq!(rig.wait(), 29 * S, "in the same breath");
        // HTTP+SSE is older than the modern era, so there is no probe.
        assert_eq!(rig.event(Event::Opened { session: false }), ["send initialize"]);
        assert_eq!(rig.event(initialized()), ["send initialized"]);
        let accepted = rig.event(Event::Reply(Reply::Accepted));
        assert_eq!(accepted, ["record 2025-11-25 EventStream", "restore"]);
        assert_eq!(rig.event(Event::Restored), ["ready", "connected"]);
        // The transport that works is kept.
        rig.event(session_lost(true));
        rig.complete_handshake();
        assert_eq!(rig.event(link_lost(Cause::Cut)), ["disconnected", "close", "open event stream"]);
    }
}

/// If HTTP+SSE fails as well, the first refusal is reported.
#[test]
fn de_04_the_first_refusal_is_reported() {
    let mut rig = Rig::new(settings());
    rig.command(Command::Connect);
    refuse(&mut rig, 404);
    assert_eq!(
        rig.event(link_lost(Cause::Status { code: 405, retry_after: None })),
        ["close", "disconnected"]
    );
    assert_eq!(rig.cause(), Cause::Status { code: 404, retry_after: None });
    // The next attempt begins with the configured transport.
    assert_eq!(rig.run_timer(), ["open http"]);
    assert_eq!(refuse(&mut rig, 405), ["close", "open event stream"]);
}

/// A server that does speak HTTP+SSE, and names an endpoint that cannot be used.
#[test]
fn de_04_an_endpoint_that_cannot_be_used_is_reported() {
    let foreign = Misbehavior::ForeignEndpoint { origin: "http://elsewhere.test/".into() };
    // An answer that is wrong once may be right later; an endpoint elsewhere is how the server is set up.
    for (misbehavior, next) in [(Misbehavior::BadResult, "disconnected"), (foreign, "failed")] {
        let mut rig = Rig::new(settings());
        rig.command(Command::Connect);
        refuse(&mut rig, 405);
        let unusable = Cause::Protocol(misbehavior);
        assert_eq!(rig.event(link_lost(unusable.clone())), ["close", next]);
        assert_eq!(rig.cause(), unusable);
    }
}

#[test]
fn de_04_only_a_refusal_is_one() {
    let others = [
        Event::Reply(Reply::Fault(status(503, None))),
        Event::Reply(Reply::Fault(Fault::before_sending(Cause::Refused))),
        error(None, -32602, "no"),
        link_lost(Cause::Exited(crate::fault::Exit::Eof)),
    ];
    for other in others {
        let mut rig = Rig::new(settings());
        rig.command(Command::Connect);
        rig.event(Event::Opened { session: false });
        rig.event(error(Some(400), -32601, "no"));
        assert_eq!(rig.event(other.clone()), ["close", "disconnected"], "{other:?}");
        assert_eq!(rig.run_timer(), ["open http"]);
    }
}

#[test]
fn de_04_nothing_gives_way_that_was_not_allowed_to_or_that_worked() {
    let mut pinned = Rig::new(Settings { fallback: false, ..settings() });
    pinned.command(Command::Connect);
    assert_eq!(refuse(&mut pinned, 404), ["close", "disconnected"]);

    // HTTP+SSE has no modern servers.
    let mut modern = Rig::new(Settings { era_choice: EraChoice::Modern, ..settings() });
    modern.command(Command::Connect);
    modern.event(Event::Opened { session: false });
    let refusal = Event::Reply(Reply::Fault(status(404, None).not_executed()));
    assert_eq!(modern.event(refusal.clone()), ["close", "disconnected"]);

    let mut worked = Rig::new(Settings { era_choice: EraChoice::Legacy, ..settings() }).ready();
    worked.event(session_lost(true));
    worked.event(Event::Opened { session: false });
    assert_eq!(worked.event(refusal), ["close", "disconnected"]);
    assert_eq!(worked.run_timer(), ["open http"]);
}
