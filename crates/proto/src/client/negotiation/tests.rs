//! Tests of the negotiation with every kind of reply that was seen in practice.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fault::{Limit, Misbehavior};

const INITIALIZE_STEP: Step = Step::Initialize(Revision::V2025_11_25);
const DISCOVER_STEP: Step = Step::Discover(Revision::V2026_07_28);

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn result(text: &str) -> Reply {
    Reply::Result(json(text))
}

fn error(status: Option<u16>, code: i64, data: Option<&str>) -> Reply {
    Reply::Error {
        status,
        error: RpcError { code, message: "no".into(), data: data.map(json) },
        stray: false,
    }
}

fn status(code: u16) -> Reply {
    Reply::Fault(Fault::new(Cause::Status { code, retry_after: None }))
}

fn discovered(versions: &str) -> Reply {
    result(&format!(
        r#"{{"resultType":"complete","supportedVersions":{versions},"capabilities":{{"tools":{{}}}},"instructions":"be kind","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"s","version":"1"}}}}}}"#
    ))
}

fn initialized(version: &str) -> Reply {
    result(&format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"s","version":"1"}}}}"#
    ))
}

fn auto(link: LinkKind) -> Negotiation {
    let (negotiation, step) = Negotiation::begin(link, EraChoice::Auto, StartHint::Unknown);
    // DE-01: the probe comes first.
    assert_eq!(step, DISCOVER_STEP);
    negotiation
}

fn agreed(step: Step) -> Peer {
    match step {
        Step::Agreed(peer) => *peer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn de_02_a_discovery_result_is_modern() {
    for link in [LinkKind::Pipe, LinkKind::Http] {
        let peer = agreed(auto(link).handle(discovered(r#"["2026-07-28","2025-11-25"]"#)));
        assert_eq!((peer.revision, peer.era()), (Revision::V2026_07_28, Era::Modern));
        assert_eq!(peer.instructions.as_deref(), Some("be kind"));
        assert_eq!(&*peer.server.unwrap().name, "s");
        assert!(peer.capabilities.tools.is_some() && peer.capabilities.prompts.is_none());
    }
}

#[test]
fn de_11_a_server_with_only_legacy_versions_is_initialized() {
    assert_eq!(
        auto(LinkKind::Http).handle(discovered(r#"["2025-06-18"]"#)),
        Step::Initialize(Revision::V2025_06_18)
    );
    let unsupported = error(Some(400), -32022, Some(r#"{"supported":["2025-03-26","2024-11-05"]}"#));
    assert_eq!(auto(LinkKind::Http).handle(unsupported), Step::Initialize(Revision::V2025_03_26));
    // A lax server that answers any method with some result proves nothing.
    assert_eq!(auto(LinkKind::Http).handle(result("{}")), INITIALIZE_STEP);
}

/// DE-03: any error but a modern one, in any framing, and silence mean legacy.
#[test]
fn de_03_everything_else_is_legacy() {
    for link in [LinkKind::Pipe, LinkKind::Http] {
        for code in [-32601, -32602, -32000, -32600, -32001, -32002, 7] {
            assert_eq!(auto(link).handle(error(None, code, None)), INITIALIZE_STEP, "{code}");
        }
        assert_eq!(auto(link).handle(Reply::Silence), INITIALIZE_STEP);
    }
    for code in [400, 404, 405, 406, 415, 500, 502, 503] {
        assert_eq!(auto(LinkKind::Http).handle(status(code)), INITIALIZE_STEP, "{code}");
    }
    // A server that hangs up on an unknown method.
    assert_eq!(auto(LinkKind::Http).handle(Reply::Fault(Fault::new(Cause::Cut))), INITIALIZE_STEP);
    // DE-07: unreadable bodies too.
    let html = Reply::Fault(Fault::protocol(Misbehavior::ContentType));
    assert_eq!(auto(LinkKind::Http).handle(html), INITIALIZE_STEP);
    assert_eq!(auto(LinkKind::Http).handle(Reply::Accepted), INITIALIZE_STEP);
}

/// DE-06: never `initialize` after one of these.
#[test]
fn de_06_modern_errors_stay_modern() {
    for link in [LinkKind::Pipe, LinkKind::Http] {
        for code in [-32020, -32021] {
            assert!(matches!(auto(link).handle(error(Some(400), code, None)), Step::Failed(_)));
        }
        let unsupported =
            || error(Some(400), -32022, Some(r#"{"supported":["2026-07-28"],"requested":"x"}"#));
        let mut negotiation = auto(link);
        // LC-12: one retry, never a loop.
        assert_eq!(negotiation.handle(unsupported()), DISCOVER_STEP);
        assert!(matches!(negotiation.handle(unsupported()), Step::Failed(_)));
        let nothing = error(Some(400), -32022, Some(r#"{"supported":["2030-01-01"]}"#));
        let Step::Failed(fault) = auto(link).handle(nothing) else { panic!() };
        assert_eq!(fault.cause, Cause::NoCommonVersion { supported: vec!["2030-01-01".into()] });
    }
}

/// DE-10: no evidence, no verdict.
#[test]
fn de_10_logins_limits_and_networks_say_nothing() {
    let login = Cause::LoginRequired { code: 401, challenge: vec!["Bearer".into()] };
    let limited = Cause::Status { code: 429, retry_after: Some(Duration::from_secs(3)) };
    for cause in [login, limited, Cause::Refused, Cause::Dns, Cause::Tls] {
        let step = auto(LinkKind::Http).handle(Reply::Fault(Fault::new(cause.clone())));
        assert_eq!(step, Step::Failed(Fault::new(cause)));
    }
}

/// DE-05: a process that exits on the probe is started again and gets a legacy handshake.
#[test]
fn de_05_a_process_that_dies_on_the_probe_is_started_again() {
    let mut negotiation = auto(LinkKind::Pipe);
    let exited = Reply::Fault(Fault::new(Cause::Exited(Exit::Code(1))));
    assert_eq!(negotiation.handle(exited.clone()), Step::Restart);
    assert_eq!(negotiation.restart_step(), INITIALIZE_STEP);
    assert!(!negotiation.is_probing());
    // A second exit is a failure.
    assert!(matches!(negotiation.handle(exited.clone()), Step::Failed(_)));
    // A modern server that crashed once is still recognized.
    let mut negotiation = auto(LinkKind::Pipe);
    assert_eq!(negotiation.handle(exited), Step::Restart);
    assert_eq!(
        negotiation.handle(error(None, -32022, Some(r#"{"supported":["2026-07-28"]}"#))),
        DISCOVER_STEP
    );
}

#[test]
fn lc_03_the_handshake_is_confirmed_before_anything_else() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut negotiation = auto(LinkKind::Http);
        assert_eq!(negotiation.handle(Reply::Silence), INITIALIZE_STEP);
        let revision = Revision::parse(version).unwrap();
        assert_eq!(negotiation.handle(initialized(version)), Step::Confirm(revision));
        assert_eq!(agreed(negotiation.handle(Reply::Accepted)).revision, revision);
    }
}

#[test]
fn a_refused_confirmation_is_not_the_end() {
    let mut negotiation = auto(LinkKind::Http);
    negotiation.handle(Reply::Silence);
    negotiation.handle(initialized("2025-11-25"));
    assert!(matches!(negotiation.handle(status(405)), Step::Agreed(_)));
}

/// LC-02: an unknown revision ends the negotiation. LC-06: the fault names what the server speaks.
#[test]
fn lc_02_unknown_versions_end_the_connection() {
    for version in ["1999-01-01", "2026-07-28"] {
        let mut negotiation = auto(LinkKind::Http);
        negotiation.handle(Reply::Silence);
        let Step::Failed(fault) = negotiation.handle(initialized(version)) else { panic!() };
        assert_eq!(fault.cause, Cause::NoCommonVersion { supported: vec![version.into()] });
    }
}

#[test]
fn lc_06_a_refusal_that_names_versions_is_followed_once() {
    let refusal = || error(None, -32602, Some(r#"{"supported":["2024-11-05"],"requested":"2025-11-25"}"#));
    let mut negotiation = auto(LinkKind::Pipe);
    negotiation.handle(Reply::Silence);
    assert_eq!(negotiation.handle(refusal()), Step::Initialize(Revision::V2024_11_05));
    let Step::Failed(fault) = negotiation.handle(refusal()) else { panic!() };
    assert!(fault.to_string().contains("2024-11-05"));
}

/// DE-09: a preferred era saves the probe, until it proves wrong.
#[test]
fn de_09_memory_is_used_and_mistrusted() {
    let (mut negotiation, step) =
        Negotiation::begin(LinkKind::Http, EraChoice::Auto, StartHint::Prefer(Era::Legacy));
    assert_eq!(step, INITIALIZE_STEP);
    assert_eq!(negotiation.handle(error(Some(404), -32601, None)), DISCOVER_STEP);
    assert!(matches!(negotiation.handle(discovered(r#"["2026-07-28"]"#)), Step::Agreed(_)));
    // Both eras are refused: the negotiation ends.
    let (mut negotiation, _) =
        Negotiation::begin(LinkKind::Http, EraChoice::Auto, StartHint::Prefer(Era::Legacy));
    assert_eq!(negotiation.handle(error(None, -32601, None)), DISCOVER_STEP);
    assert_eq!(negotiation.handle(error(None, -32601, None)), INITIALIZE_STEP);
    assert!(matches!(negotiation.handle(error(None, -32601, None)), Step::Failed(_)));
}

fn cut_off() -> Reply {
    Reply::Fault(Fault::new(Cause::Cut))
}

/// Each message of the handshake is harmless, so over HTTP it is sent once more if it is cut off.
#[test]
fn a_handshake_that_is_cut_off_is_sent_once_more() {
    let mut negotiation = auto(LinkKind::Http);
    assert_eq!(negotiation.handle(status(400)), INITIALIZE_STEP);
    assert_eq!(negotiation.handle(cut_off()), INITIALIZE_STEP);
    assert_eq!(negotiation.handle(initialized("2025-06-18")), Step::Confirm(Revision::V2025_06_18));
    assert_eq!(negotiation.handle(cut_off()), Step::Confirm(Revision::V2025_06_18));
    assert_eq!(agreed(negotiation.handle(Reply::Accepted)).revision, Revision::V2025_06_18);
    // Only once: a server that cuts everything off fails.
    let mut negotiation = auto(LinkKind::Http);
    negotiation.handle(status(400));
    negotiation.handle(cut_off());
    assert_eq!(negotiation.handle(cut_off()), Step::Failed(Fault::new(Cause::Cut)));
    let mut negotiation = auto(LinkKind::Http);
    negotiation.handle(status(400));
    negotiation.handle(initialized("2025-06-18"));
    negotiation.handle(cut_off());
    assert_eq!(negotiation.handle(cut_off()), Step::Failed(Fault::new(Cause::Cut)));
    // A pipe that is cut is lost.
    let mut negotiation = auto(LinkKind::Pipe);
    negotiation.handle(error(None, -32601, None));
    assert_eq!(negotiation.handle(cut_off()), Step::Failed(Fault::new(Cause::Cut)));
}

fn recorded(link: LinkKind) -> Negotiation {
    let (negotiation, step) = Negotiation::begin(link, EraChoice::Auto, StartHint::Recorded(Era::Legacy));
    assert_eq!(step, INITIALIZE_STEP);
    negotiation
}

/// DE-09: a server that has become modern is recognized in the same negotiation, whatever it
/// answers to the handshake.
#[test]
fn de_09_a_recorded_handshake_that_fails_is_followed_by_the_probe() {
    let html = Reply::Fault(Fault::protocol(Misbehavior::ContentType));
    let answers = [status(400), status(404), status(405), status(500), status(501), html];
    let errors = [error(Some(400), -32600, None), error(None, -32602, None), Reply::Accepted, result("{}")];
    for answer in answers.into_iter().chain(errors).chain([initialized("2026-07-28")]) {
        let mut negotiation = recorded(LinkKind::Http);
        assert_eq!(negotiation.handle(answer.clone()), DISCOVER_STEP, "{answer:?}");
        assert!(negotiation.is_probing(), "with the limit of a probe");
        let peer = agreed(negotiation.handle(discovered(r#"["2026-07-28"]"#)));
        assert_eq!(peer.era(), Era::Modern, "{answer:?}");
    }
    let mut negotiation = recorded(LinkKind::Http);
    assert_eq!(
        negotiation.handle(cut_off()),
        INITIALIZE_STEP,
        "a handshake that was cut off is sent once more"
    );
    assert_eq!(negotiation.handle(cut_off()), DISCOVER_STEP);
    assert!(matches!(negotiation.handle(discovered(r#"["2026-07-28"]"#)), Step::Agreed(_)));
}

/// The handshake is tried once. If the probe fails as well, the failure of the handshake is
/// reported.
#[test]
fn de_09_a_failed_handshake_is_not_repeated() {
    for answer in [status(404), error(None, -32601, None), Reply::Silence] {
        let mut negotiation = recorded(LinkKind::Http);
        assert_eq!(negotiation.handle(status(405)), DISCOVER_STEP);
        let Step::Failed(fault) = negotiation.handle(answer.clone()) else { panic!("{answer:?}") };
        assert_eq!(fault.cause, Cause::Status { code: 405, retry_after: None });
        assert_eq!(negotiation.is_probe_refused(), answer != Reply::Silence);
    }
}

/// A reply that says nothing about the era ends the attempt but keeps the record.
#[test]
fn de_09_an_outage_is_no_reason_to_doubt_a_record() {
    for code in [429, 502, 503, 504, 522] {
        let mut negotiation = recorded(LinkKind::Http);
        assert!(matches!(negotiation.handle(status(code)), Step::Failed(_)), "{code}");
        assert_eq!(negotiation.failed_handshake(), None);
    }
    let mut negotiation = recorded(LinkKind::Http);
    assert!(matches!(negotiation.handle(Reply::Fault(Fault::new(Cause::Refused))), Step::Failed(_)));
    // Nor does the loss of the connection after the server has answered the handshake.
    let mut negotiation = recorded(LinkKind::Http);
    negotiation.handle(initialized("2025-11-25"));
    negotiation.handle(cut_off());
    assert!(matches!(negotiation.handle(cut_off()), Step::Failed(_)));
    assert_eq!(negotiation.failed_handshake(), None);
}

/// A process that ends on the handshake is started again, and probed.
#[test]
fn de_09_a_process_that_ends_on_a_recorded_handshake_is_started_again() {
    let exited = || Reply::Fault(Fault::new(Cause::Exited(Exit::Code(1))));
    let mut negotiation = recorded(LinkKind::Pipe);
    assert_eq!(negotiation.handle(exited()), Step::Restart);
    assert_eq!(negotiation.restart_step(), DISCOVER_STEP);
    assert!(matches!(negotiation.handle(discovered(r#"["2026-07-28"]"#)), Step::Agreed(_)));
    // A second end is a failure.
    let mut negotiation = recorded(LinkKind::Pipe);
    negotiation.handle(exited());
    assert!(matches!(negotiation.handle(exited()), Step::Failed(_)));
    // Without a record the first exit is a failure: a crashing server is not started twice per
    // attempt.
    let (mut negotiation, _) =
        Negotiation::begin(LinkKind::Pipe, EraChoice::Auto, StartHint::Prefer(Era::Legacy));
    assert!(matches!(negotiation.handle(exited()), Step::Failed(_)));
}

/// Over HTTP a preferred era gives way if the server refuses the request as a whole.
#[test]
fn de_09_a_preferred_handshake_that_is_refused_is_followed_by_the_probe() {
    let preferred = || preferred(LinkKind::Http);
    for code in [400, 404, 405] {
        let mut negotiation = preferred();
        assert_eq!(negotiation.handle(status(code)), DISCOVER_STEP, "{code}");
        assert!(matches!(negotiation.handle(discovered(r#"["2026-07-28"]"#)), Step::Agreed(_)));
    }
    assert!(matches!(preferred().handle(status(500)), Step::Failed(_)));
}

fn preferred(link: LinkKind) -> Negotiation {
    Negotiation::begin(link, EraChoice::Auto, StartHint::Prefer(Era::Legacy)).0
}

/// DE-01, DE-03: a modern server that refuses `initialize` is found, whatever code it does so with,
/// if it was not probed before or was still starting then.
#[test]
fn de_03_a_refused_handshake_is_followed_by_the_probe_on_any_code() {
    let silent = |link| {
        let mut negotiation = auto(link);
        assert_eq!(negotiation.handle(Reply::Silence), INITIALIZE_STEP);
        negotiation
    };
    for link in [LinkKind::Pipe, LinkKind::Http] {
        for code in [-32602, -32600, -32603, -32000, 7] {
            for mut negotiation in [preferred(link), silent(link)] {
                assert_eq!(negotiation.handle(error(None, code, None)), DISCOVER_STEP, "{link:?} {code}");
                assert!(negotiation.is_probing(), "with the limit of a probe");
                let peer = agreed(negotiation.handle(discovered(r#"["2026-07-28"]"#)));
                assert_eq!(peer.revision, Revision::V2026_07_28);
            }
        }
    }
}

/// DE-03: a legacy server that refuses `initialize` for another reason gives that reason, whatever it
/// makes of the probe.
#[test]
fn de_03_a_legacy_server_that_refuses_the_handshake_gives_its_own_reason() {
    for link in [LinkKind::Pipe, LinkKind::Http] {
        for answer in [error(None, -32601, None), Reply::Silence, result("{}"), cut_off()] {
            let mut negotiation = preferred(link);
            assert_eq!(negotiation.handle(error(None, -32602, None)), DISCOVER_STEP);
            let Step::Failed(fault) = negotiation.handle(answer.clone()) else { panic!("{answer:?}") };
            assert!(fault.to_string().contains("no (code -32602)"), "{answer:?}: {fault}");
        }
        // What says nothing about the era is not followed by a probe: a limit, an outage, a loop.
        for refusal in [error(Some(429), -32000, None), error(Some(503), -32000, None)] {
            assert!(matches!(preferred(link).handle(refusal), Step::Failed(_)));
        }
        let looping = Reply::Error { status: None, error: crate::via::loop_error("x"), stray: false };
        let Step::Failed(fault) = preferred(link).handle(looping) else { panic!() };
        assert_eq!(fault.cause, Cause::Loop);
        // A probe that was answered is not repeated.
        let mut negotiation = auto(link);
        assert_eq!(negotiation.handle(error(None, -32602, None)), INITIALIZE_STEP);
        assert!(matches!(negotiation.handle(error(None, -32602, None)), Step::Failed(_)));
    }
}

/// Only an answer to the probe that is not a modern one makes a record for the next connection.
#[test]
fn only_an_answer_to_the_probe_proves_a_legacy_server() {
    let html = Reply::Fault(Fault::protocol(Misbehavior::ContentType));
    for (answer, proves) in [
        (error(None, -32601, None), true),
        (status(404), true),
        (html, true),
        (result("{}"), true),
        (status(503), false),
        (Reply::Fault(Fault::new(Cause::Cut)), false),
        (Reply::Silence, false),
    ] {
        let mut negotiation = auto(LinkKind::Http);
        assert_eq!(negotiation.handle(answer.clone()), INITIALIZE_STEP);
        negotiation.handle(initialized("2025-11-25"));
        assert!(matches!(negotiation.handle(Reply::Accepted), Step::Agreed(_)));
        assert_eq!(negotiation.is_probe_refused(), proves, "{answer:?}");
    }
    let mut negotiation = recorded(LinkKind::Http);
    negotiation.handle(initialized("2025-11-25"));
    assert!(!negotiation.is_probe_refused(), "it was not asked");
}

/// DE-02: silence proves nothing. A server that was still starting when the probe timed out, and
/// then says that it is modern, is believed once, and gets the full connect timeout.
#[test]
fn de_02_a_slow_start_is_no_sign_of_the_legacy_era() {
    let refusal = || error(None, -32022, Some(r#"{"supported":["2026-07-28"]}"#));
    let mut negotiation = auto(LinkKind::Pipe);
    assert!(negotiation.is_probing());
    assert_eq!(negotiation.handle(Reply::Silence), INITIALIZE_STEP);
    assert_eq!(negotiation.handle(refusal()), DISCOVER_STEP);
    assert!(!negotiation.is_probing(), "no short limit this time");
    assert!(matches!(negotiation.handle(discovered(r#"["2026-07-28"]"#)), Step::Agreed(_)));
    // After an answered probe there is no way back to the modern era.
    let mut negotiation = auto(LinkKind::Pipe);
    assert_eq!(negotiation.handle(error(None, -32601, None)), INITIALIZE_STEP);
    assert!(matches!(negotiation.handle(refusal()), Step::Failed(_)));
    // Nor for a server that contradicts itself.
    let mut negotiation = auto(LinkKind::Pipe);
    negotiation.handle(Reply::Silence);
    negotiation.handle(refusal());
    assert!(matches!(negotiation.handle(error(None, -32601, None)), Step::Failed(_)));
}

/// DE-02: a restart that cuts the probe off, or an outage that refuses it, proves nothing either: a
/// modern server that is there for the handshake is found all the same.
#[test]
fn de_02_a_probe_that_is_cut_off_is_no_sign_of_the_legacy_era() {
    for broken in [cut_off(), status(503), status(500)] {
        for code in [-32022, -32602] {
            let mut negotiation = auto(LinkKind::Http);
            assert_eq!(negotiation.handle(broken.clone()), INITIALIZE_STEP);
            let refusal = error(Some(400), code, Some(r#"{"supported":["2026-07-28"]}"#));
            assert_eq!(negotiation.handle(refusal), DISCOVER_STEP, "{broken:?} {code}");
            assert!(matches!(negotiation.handle(discovered(r#"["2026-07-28"]"#)), Step::Agreed(_)));
        }
    }
}

/// A modern server that is cut off at every probe, and knows no handshake, is away and not one that speaks neither
/// era.
#[test]
fn server_whose_probes_are_cut_off_fails_with_the_outage() {
    let unknown = || error(Some(404), -32601, None);
    for broken in [cut_off(), status(503)] {
        let mut negotiation = auto(LinkKind::Http);
        assert_eq!(negotiation.handle(broken.clone()), INITIALIZE_STEP);
        assert_eq!(negotiation.handle(unknown()), DISCOVER_STEP);
        assert_eq!(negotiation.handle(broken.clone()), INITIALIZE_STEP);
        let Step::Failed(fault) = negotiation.handle(unknown()) else { panic!("{broken:?}") };
        assert!(fault.is_outage(), "{broken:?}: {fault}");
    }
    // After a probe that was answered, the refusal of the handshake is the fault.
    let mut negotiation = auto(LinkKind::Http);
    assert_eq!(negotiation.handle(unknown()), INITIALIZE_STEP);
    let Step::Failed(fault) = negotiation.handle(unknown()) else { panic!("it speaks neither era") };
    assert!(!fault.is_outage(), "{fault}");
}

/// DE-04: a pinned era is never left, in either direction.
#[test]
fn de_04_a_pinned_era_is_kept() {
    let (mut negotiation, step) = Negotiation::begin(LinkKind::Pipe, EraChoice::Modern, StartHint::Unknown);
    assert_eq!(step, DISCOVER_STEP);
    assert!(!negotiation.is_probing(), "silence is no evidence when there is no alternative");
    assert!(matches!(negotiation.handle(error(None, -32601, None)), Step::Failed(_)));
    let (mut negotiation, step) =
        Negotiation::begin(LinkKind::Pipe, EraChoice::Legacy, StartHint::Prefer(Era::Modern));
    assert_eq!(step, INITIALIZE_STEP);
    assert!(matches!(negotiation.handle(error(None, -32022, None)), Step::Failed(_)));
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let code =
        prop_oneof![Just(-32022), Just(-32021), Just(-32020), Just(-32601), Just(-32602), any::<i64>()];
    let data = prop_oneof![
        Just(None),
        Just(Some(r#"{"supported":["2026-07-28"]}"#)),
        Just(Some(r#"{"supported":["2025-11-25"]}"#)),
        Just(Some(r#"{"supported":["2026-07-28","2024-11-05"]}"#)),
        Just(Some(r#"{"supported":7}"#)),
    ];
    prop_oneof![
        (proptest::option::of(400u16..600), code, data)
            .prop_map(|(status, code, data)| error(status, code, data)),
        Just(discovered(r#"["2025-06-18"]"#)),
        Just(discovered(r#"["2029-01-01"]"#)),
        Just(result("{}")),
        Just(Reply::Silence),
        Just(Reply::Accepted),
        (400u16..600).prop_map(status),
        Just(Reply::Fault(Fault::new(Cause::Exited(Exit::Eof)))),
        Just(Reply::Fault(Fault::new(Cause::Timeout(Limit::Idle)))),
    ]
}

proptest! {
    /// Whatever a server answers, and in whatever order, the negotiation ends after a few steps.
    #[test]
    fn it_always_ends(replies in proptest::collection::vec(any_reply(), 16), http: bool, start in 0usize..4) {
        let link = if http { LinkKind::Http } else { LinkKind::Pipe };
        let starts = [
            StartHint::Unknown,
            StartHint::Prefer(Era::Legacy),
            StartHint::Prefer(Era::Modern),
            StartHint::Recorded(Era::Legacy),
        ];
        let (mut negotiation, _) = Negotiation::begin(link, EraChoice::Auto, starts[start]);
        let steps = replies.into_iter().map(|reply| negotiation.handle(reply));
        let ended = steps.take(8).any(|step| matches!(step, Step::Failed(_) | Step::Agreed(_)));
        prop_assert!(ended);
    }
}
