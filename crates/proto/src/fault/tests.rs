use super::*;

#[test]
fn says_what_it_costs() {
    let status = |code| Fault::new(Cause::Status { code, retry_after: None }).recovery();
    assert_eq!(status(429), Recovery::Retry { not_before: Duration::from_secs(1) });
    for (asked, waited) in [(0, 1), (9, 9)] {
        let asked = Cause::Status { code: 429, retry_after: Some(Duration::from_secs(asked)) };
        let waited = Recovery::Retry { not_before: Duration::from_secs(waited) };
        assert_eq!(Fault::new(asked).recovery(), waited);
    }
    assert!(matches!(status(503), Recovery::Retry { .. }));
    assert!(matches!(status(404), Recovery::Retry { .. }));
    let later = Cause::Status { code: 429, retry_after: Some(Duration::from_secs(9)) };
    assert_eq!(Fault::new(later).recovery(), Recovery::Retry { not_before: Duration::from_secs(9) });
    assert_eq!(Fault::new(Cause::LoginRequired { code: 401, challenge: vec![] }).recovery(), Recovery::Login);
    assert_eq!(Fault::new(Cause::Spawn(SpawnError::NotFound)).recovery(), Recovery::GiveUp);
    assert_eq!(Fault::protocol(Misbehavior::Echo).recovery(), Recovery::GiveUp);
    assert!(matches!(Fault::protocol(Misbehavior::NoAnswer).recovery(), Recovery::Retry { .. }));
}

/// A pending call does not end with the status that another request got.
#[test]
fn calls_under_way_are_not_told_the_answer_to_another() {
    let login = Fault::new(Cause::LoginRequired { code: 401, challenge: vec![] }).not_executed();
    let status = Fault::new(Cause::Status { code: 404, retry_after: None }).not_executed();
    for fault in [login, status] {
        let told = fault.with_body(b"Session not found").for_pending_calls();
        assert_eq!((told.cause, told.execution), (Cause::Cut, Execution::Unknown));
        assert_eq!(told.evidence.body, None);
    }
    for cause in [Cause::Closed, Cause::SessionLost, Cause::Exited(Exit::Code(1))] {
        let told = Fault::before_sending(cause.clone()).for_pending_calls();
        assert_eq!((told.cause, told.execution), (cause, Execution::Unknown));
    }
}

/// Which causes are an outage, an unreachable server, and a failure to connect.
#[test]
fn outages_are_told_apart_from_answers() {
    let of = |cause: Cause| {
        let fault = Fault::new(cause);
        (fault.is_outage(), fault.is_unreachable(), fault.is_connect_failure())
    };
    for cause in [Cause::Refused, Cause::Dns, Cause::Unreachable, Cause::Tls] {
        assert_eq!(of(cause.clone()), (true, true, true), "{cause:?}");
    }
    let status = |code| Cause::Status { code, retry_after: None };
    for cause in [
        Cause::Cut,
        Cause::Timeout(Limit::Connect),
        Cause::Exited(Exit::Eof),
        Cause::SessionLost,
        Cause::NotAffine,
        status(502),
        status(504),
        status(520),
        status(527),
        status(530),
    ] {
        assert_eq!(of(cause.clone()), (true, true, false), "{cause:?}");
    }
    assert_eq!(of(Cause::Protocol(Misbehavior::NoAnswer)), (true, false, false));
    for cause in [
        Cause::Timeout(Limit::Idle),
        Cause::Timeout(Limit::Total),
        Cause::Protocol(Misbehavior::BadResult),
        Cause::LoginRequired { code: 401, challenge: vec![] },
        Cause::Loop,
        Cause::Closed,
        status(501),
        status(505),
        status(519),
        status(528),
    ] {
        assert_eq!(of(cause.clone()), (false, false, false), "{cause:?}");
    }
}

/// Scripts match on the kind, and people read the sentence.
#[test]
fn causes_have_a_kind_and_a_sentence() {
    for (cause, kind, sentence) in [
        (Cause::Refused, "refused", "connection refused"),
        (Cause::Loop, "loop", "a loop: the server is this gateway itself, or leads back to it"),
        (Cause::Timeout(Limit::Idle), "timeout", "no answer in time"),
        (Cause::Status { code: 502, retry_after: None }, "status", "HTTP status 502"),
        (Cause::Exited(Exit::Code(3)), "exited", "the server exited with code 3"),
        (Cause::SessionLost, "session_lost", "the server lost the session"),
        (
            Cause::Protocol(Misbehavior::TooLarge { limit: 9 }),
            "protocol",
            "the server sent a message larger than 9 bytes",
        ),
        (
            Cause::Protocol(Misbehavior::Malformed(Defect::NotJson)),
            "protocol",
            "the server sent a bad message: not valid JSON",
        ),
        (
            Cause::Protocol(Misbehavior::NoAnswer),
            "protocol",
            "the server ended the exchange without an answer",
        ),
    ] {
        assert_eq!((cause.kind(), cause.to_string().as_str()), (kind, sentence));
    }
}

#[test]
fn evidence_is_bounded() {
    let fault = Fault::new(Cause::Cut).with_body(&[b'x'; 10_000]).with_note("reset by peer");
    assert_eq!(fault.evidence.body.as_ref().unwrap().len(), 4_096);
    assert_eq!(fault.to_string(), "connection lost: reset by peer");
}
