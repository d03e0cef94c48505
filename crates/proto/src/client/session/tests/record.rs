//! Tests of negotiation records: how they are used, made and deleted (DE-09).

use super::*;
use crate::revision::Revision;

const LEGACY: NegotiationRecord =
    NegotiationRecord { revision: Revision::V2025_11_25, transport: TransportKind::Http };
const OLDER: NegotiationRecord =
    NegotiationRecord { revision: Revision::V2024_11_05, transport: TransportKind::EventStream };
const MODERN: NegotiationRecord =
    NegotiationRecord { revision: Revision::V2026_07_28, transport: TransportKind::Http };

fn rig(recorded: Option<NegotiationRecord>) -> Rig {
    Rig::new(Settings {
        transport: TransportKind::Http,
        fallback: true,
        record: recorded,
        ..Settings::default()
    })
}

fn refused_with(code: u16) -> Event {
    Event::Reply(Reply::Fault(status(code, None).not_executed()))
}

fn discovered() -> Event {
    Event::Reply(Reply::Result(json(
        r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}"#,
    )))
}

#[test]
fn de_09_what_was_found_out_is_recorded_once() {
    let mut rig = rig(None);
    rig.command(Command::Connect);
    assert_eq!(rig.event(Event::Opened { session: false }), ["send discover"]);
    assert_eq!(rig.event(refused_with(400)), ["send initialize"]);
    assert_eq!(rig.event(initialized()), ["send initialized"]);
    let accepted = rig.event(Event::Reply(Reply::Accepted));
    assert_eq!(accepted, ["record 2025-11-25 Http", "restore"]);
    rig.event(Event::Restored);
    // A new session of a known server records nothing.
    rig.event(session_lost(true));
    rig.complete_handshake();
}

#[test]
fn de_09_a_record_saves_the_probe_and_keeps_its_age() {
    let mut rig = rig(Some(LEGACY));
    assert_eq!(rig.command(Command::Connect), ["open http"]);
    rig.complete_handshake();
}

#[test]
fn de_09_a_modern_server_is_recorded_even_if_a_legacy_one_was_expected() {
    let mut rig = rig(Some(LEGACY));
    rig.command(Command::Connect);
    assert_eq!(rig.event(Event::Opened { session: false }), ["send initialize"]);
    assert_eq!(rig.event(refused_with(400)), ["forget record", "send discover"]);
    assert_eq!(rig.event(discovered()), ["record 2026-07-28 Http", "restore"]);
}

#[test]
fn de_09_a_record_of_the_modern_era_changes_nothing() {
    let mut rig = rig(Some(MODERN));
    rig.command(Command::Connect);
    assert_eq!(rig.event(Event::Opened { session: false }), ["send discover"]);
    assert_eq!(rig.event(refused_with(404)), ["send initialize"]);
    rig.event(initialized());
    assert_eq!(rig.event(Event::Reply(Reply::Accepted)), ["record 2025-11-25 Http", "restore"]);
}

#[test]
fn de_09_the_older_transport_is_recorded_and_opened_first() {
    let mut first = rig(None);
    first.command(Command::Connect);
    first.event(Event::Opened { session: false });
    first.event(refused_with(405));
    assert_eq!(first.event(refused_with(405)), ["close", "open event stream"]);
    assert_eq!(first.event(Event::Opened { session: false }), ["send initialize"]);
    first.event(initialized());
    let accepted = first.event(Event::Reply(Reply::Accepted));
    assert_eq!(accepted, ["record 2025-11-25 EventStream", "restore"]);

    let mut second = rig(Some(OLDER));
    assert_eq!(second.command(Command::Connect), ["open event stream"]);
    second.complete_handshake();
}

#[test]
fn de_09_a_refused_recorded_transport_gives_way_in_the_same_attempt() {
    let refusals = [
        link_lost(Cause::Status { code: 405, retry_after: None }),
        link_lost(Cause::Protocol(Misbehavior::ContentType)),
        link_lost(Cause::Cut),
    ];
    for refusal in refusals {
        let mut rig = rig(Some(OLDER));
        rig.command(Command::Connect);
        rig.now += S;
        assert_eq!(rig.event(refusal), ["forget record", "close", "open http"]);
        assert_eq!(rig.wait(), 29 * S, "in the same attempt");
        assert_eq!(rig.event(Event::Opened { session: false }), ["send discover"]);
        assert_eq!(rig.event(discovered()), ["record 2026-07-28 Http", "restore"]);
    }
}

#[test]
fn de_09_a_recorded_stream_without_an_endpoint_is_left_in_time() {
    let mut rig = rig(Some(OLDER));
    rig.command(Command::Connect);
    assert_eq!(rig.wait(), 3 * S);
    assert_eq!(rig.run_timer(), ["forget record", "close", "open http"]);
    assert_eq!(rig.wait(), 27 * S);
}

#[test]
fn de_09_a_recorded_transport_is_kept_during_outages_and_logins() {
    for fault in [Fault::before_sending(Cause::Refused), status(503, None)] {
        let mut rig = rig(Some(OLDER));
        rig.command(Command::Connect);
        assert_eq!(rig.event(Event::LinkLost(fault)), ["close", "disconnected"]);
        assert_eq!(rig.run_timer(), ["open event stream"]);
    }
    let login = Cause::LoginRequired { code: 401, challenge: vec!["Bearer".into()] };
    let mut rig = rig(Some(OLDER));
    rig.command(Command::Connect);
    assert_eq!(rig.event(link_lost(login)), ["close", "needs login"]);
    assert_eq!(rig.command(Command::LoggedIn), ["open event stream"]);
}

#[test]
fn de_09_an_attempt_that_runs_out_of_time_forgets_the_record() {
    let mut rig = rig(Some(LEGACY));
    rig.command(Command::Connect);
    rig.event(Event::Opened { session: false });
    assert_eq!(rig.run_timer(), ["forget record", "close", "disconnected"]);
    assert_eq!(rig.run_timer(), ["open http"]);
    assert_eq!(rig.event(Event::Opened { session: false }), ["send discover"]);
}

#[test]
fn de_09_a_record_is_not_used_where_the_settings_leave_nothing_open() {
    let base = || Settings { transport: TransportKind::Http, fallback: true, ..Settings::default() };
    let strict = Settings { fallback: false, record: Some(OLDER), ..base() };
    let modern = Settings { era_choice: EraChoice::Modern, record: Some(OLDER), ..base() };
    let preferred = Settings { preferred_era: Some(Era::Modern), record: Some(LEGACY), ..base() };
    for settings in [strict, modern, preferred] {
        let mut rig = Rig::new(settings);
        assert_eq!(rig.command(Command::Connect), ["open http"]);
        assert_eq!(rig.event(Event::Opened { session: false }), ["send discover"]);
    }
    // A preferred handshake comes first, whatever the record says.
    let mut rig = Rig::new(Settings { preferred_era: Some(Era::Legacy), record: Some(MODERN), ..base() });
    rig.command(Command::Connect);
    rig.complete_handshake();
}

/// A preferred handshake does not show whether the server is modern, so nothing is recorded.
#[test]
fn de_09_a_preferred_handshake_records_nothing() {
    let base = Settings { transport: TransportKind::Http, fallback: true, ..Settings::default() };
    let mut rig = Rig::new(Settings { preferred_era: Some(Era::Legacy), ..base });
    rig.command(Command::Connect);
    rig.complete_handshake();
}
