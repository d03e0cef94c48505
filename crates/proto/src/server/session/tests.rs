//! Tests of the session with a host: its phases, its ids, and what is refused.

use proptest::prelude::*;

use super::*;
use crate::wire::{parse_from_host, parse_one};

type TestSession = Session<u32, char>;

fn tell(session: &mut TestSession, line: &str) -> Action<u32, char> {
    session.handle_message(parse_one(&line.to_owned().into()))
}

fn request(session: &mut TestSession, id: &str, method: &str) -> Action<u32, char> {
    tell(session, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#))
}

fn notify(session: &mut TestSession, method: &str) -> Action<u32, char> {
    tell(session, &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{}}}}"#))
}

fn initialize(session: &mut TestSession, id: &str) -> (RequestKey, Attempt) {
    match request(session, id, "initialize") {
        Action::Initialize { key, attempt, .. } => (key, attempt),
        other => panic!("{other:?}"),
    }
}

fn key(action: Action<u32, char>) -> RequestKey {
    match action {
        Action::Serve { key, .. } => key,
        other => panic!("{other:?}"),
    }
}

fn text(action: &Action<u32, char>) -> String {
    match action {
        Action::Send(frame) => String::from_utf8(frame.body().to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn ready() -> TestSession {
    let mut session = TestSession::default();
    let (key, attempt) = initialize(&mut session, "\"hello\"");
    assert!(session.respond(key, &Id::from_string("hello"), Ok(&Json::empty_object())).is_some());
    session.accept(attempt);
    session.end_request(key);
    notify(&mut session, method::INITIALIZED);
    assert_eq!(session.handshake().status(attempt), HandshakeStatus::Ready);
    session
}

/// PG-01: in any phase.
#[test]
fn pg_01_pings_are_answered_at_once() {
    let mut session = TestSession::default();
    for _ in 0..2 {
        assert_eq!(text(&request(&mut session, "7", "ping")), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        session = ready();
    }
}

#[test]
fn hosts_of_both_eras_learn_that_the_handshake_is_needed() {
    let mut session = TestSession::default();
    assert!(text(&request(&mut session, "1", "server/discover")).contains("-32601"));
    assert!(text(&request(&mut session, "1", "tools/list")).contains("the first request must be initialize"));
    assert_eq!(notify(&mut session, "notifications/x"), Action::Ignore(IgnoreReason::Handshake));
    let (_, attempt) = initialize(&mut session, "1");
    assert_eq!(session.handshake().status(attempt), HandshakeStatus::Pending);
    assert!(text(&request(&mut session, "2", "initialize")).contains("initialize was said before"));
}

const MODERN: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;

fn modern() -> TestSession {
    let mut session = TestSession::default();
    session.serve_modern();
    session
}

fn modern_request(session: &mut TestSession, id: &str, method: &str) -> Action<u32, char> {
    tell(session, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{MODERN}}}"#))
}

fn modern_key(action: Action<u32, char>) -> RequestKey {
    match action {
        Action::ServeModern { key, client, .. } => {
            assert_eq!(client.client_capabilities, Json::empty_object());
            key
        }
        other => panic!("{other:?}"),
    }
}

/// GW-10, DE-12: the first request that belongs to one era decides; `server/discover` belongs to both.
#[test]
fn gw_10_the_first_request_decides_the_era_of_a_pipe() {
    let mut session = modern();
    modern_key(modern_request(&mut session, "1", "server/discover"));
    let (key, attempt) = initialize(&mut session, "2");
    session.respond(key, &Id::Int(2), Ok(&Json::empty_object())).unwrap();
    session.accept(attempt);
    assert!(text(&modern_request(&mut session, "3", "server/discover")).contains("-32601"));
    assert!(matches!(modern_request(&mut session, "4", "tools/list"), Action::Serve { .. }));

    let mut session = modern();
    modern_key(modern_request(&mut session, "1", "tools/list"));
    let refused = text(&request(&mut session, "2", "initialize"));
    assert!(refused.contains("-32022") && refused.contains(r#""supported":["2026-07-28"]"#), "{refused}");
    // GW-02: what an earlier request said does not count.
    assert!(text(&request(&mut session, "3", "tools/list")).contains("-32602"));
    modern_key(modern_request(&mut session, "4", "server/discover"));
    modern_key(modern_request(&mut session, "5", "ping"));
    assert_eq!(notify(&mut session, method::INITIALIZED), Action::Ignore(IgnoreReason::Handshake));
}

/// GW-01: a request that is refused decides nothing.
#[test]
fn gw_01_refused_modern_requests_decide_nothing() {
    let mut session = modern();
    let other = MODERN.replace("2026-07-28", "1900-01-01");
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{other}}}"#);
    assert!(text(&tell(&mut session, &line)).contains("-32022"));
    assert!(text(&request(&mut session, "1", "server/discover")).contains("-32602"));
    initialize(&mut session, "1");
    // Where modern hosts are not served, they are told to use the handshake.
    let mut legacy = TestSession::default();
    assert!(text(&modern_request(&mut legacy, "1", "server/discover")).contains("-32601"));
}

/// CN-03: on a pipe a request is canceled by a notification, in both eras.
#[test]
fn cn_03_modern_requests_are_canceled_by_a_notification() {
    let mut session = modern();
    let first = modern_key(modern_request(&mut session, "1", "tools/call"));
    session.attach(first, 10);
    assert_eq!(
        modern_request(&mut session, "1", "tools/list"),
        Action::Ignore(IgnoreReason::DuplicateId(Id::Int(1)))
    );
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(tell(&mut session, cancel), Action::Cancel { task: 10, reason: None });
    assert_eq!(tell(&mut session, cancel), Action::Ignore(IgnoreReason::UnknownRequest));
    assert!(session.respond(first, &Id::Int(1), Ok(&Json::empty_object())).is_none());
}

#[test]
fn hosts_are_ready_when_they_say_so_or_go_on() {
    for (early, late) in [(Some("initialized"), None), (None, Some("initialized")), (None, Some("request"))] {
        let mut session = TestSession::default();
        let (_, attempt) = initialize(&mut session, "1");
        let go_on = |session: &mut TestSession, how| match how {
            Some("request") => drop(request(session, "2", "tools/list")),
            Some(_) => drop(notify(session, method::INITIALIZED)),
            None => {}
        };
        go_on(&mut session, early);
        assert_eq!(session.handshake().status(attempt), HandshakeStatus::Pending);
        session.accept(attempt);
        if late.is_some() {
            assert_eq!(session.handshake().status(attempt), HandshakeStatus::Accepted);
        }
        go_on(&mut session, late);
        assert_eq!(session.handshake().status(attempt), HandshakeStatus::Ready);
        session.refuse(attempt);
        assert_eq!(session.handshake().status(attempt), HandshakeStatus::Ready);
    }
}

/// An id is free again as soon as it was answered, even while the first attempt is wound up.
#[test]
fn refused_hosts_may_initialize_again() {
    let mut session = TestSession::default();
    let (first_key, first) = initialize(&mut session, "1");
    session.respond(first_key, &Id::Int(1), Err(&out_of_order("no"))).unwrap();
    session.refuse(first);
    assert_eq!(session.handshake().status(first), HandshakeStatus::Refused);
    let (_, second) = initialize(&mut session, "1");
    session.accept(first);
    session.refuse(first);
    assert_eq!(session.handshake().status(first), HandshakeStatus::Refused);
    assert_eq!(session.handshake().status(second), HandshakeStatus::Pending);
}

#[test]
fn cancellations_reach_what_serves_the_request() {
    let mut session = ready();
    let first = key(request(&mut session, "1", "tools/call"));
    session.attach(first, 10);
    let second = key(request(&mut session, "2", "tools/call"));
    session.attach(second, 20);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    assert_eq!(tell(&mut session, cancel), Action::Cancel { task: 20, reason: None });
    assert_eq!(tell(&mut session, cancel), Action::Ignore(IgnoreReason::UnknownRequest));
    assert!(session.respond(second, &Id::Int(2), Ok(&Json::empty_object())).is_none());
    assert!(session.respond(first, &Id::Int(1), Ok(&Json::empty_object())).is_some());
    assert!(session.respond(first, &Id::Int(1), Ok(&Json::empty_object())).is_none());
}

#[test]
fn duplicate_ids_are_ignored() {
    let mut session = ready();
    key(request(&mut session, "1", "tools/call"));
    let reason = IgnoreReason::DuplicateId(Id::Int(1));
    assert_eq!(request(&mut session, "1", "tools/call"), Action::Ignore(reason.clone()));
    // An answer to any of these would be taken for that of the open request.
    assert_eq!(request(&mut session, "1", "ping"), Action::Ignore(reason.clone()));
    assert_eq!(request(&mut session, "1", "initialize"), Action::Ignore(reason.clone()));
    assert_eq!(tell(&mut session, r#"{"jsonrpc":"2.0","id":1,"method":5}"#), Action::Ignore(reason));
}

/// CN-03: an id is a JSON value, however a host spells it.
#[test]
fn cn_03_an_escaped_id_names_the_same_request() {
    let mut session = ready();
    let open = key(request(&mut session, r#""\u00e9a""#, "tools/call"));
    session.attach(open, 10);
    let duplicate = request(&mut session, r#""éa""#, "tools/call");
    assert!(matches!(duplicate, Action::Ignore(IgnoreReason::DuplicateId(_))), "{duplicate:?}");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"é\u0061"}}"#;
    assert_eq!(tell(&mut session, cancel), Action::Cancel { task: 10, reason: None });
}

/// CN-01: the reason of the host is passed on, as far as it is a text of bounded length.
#[test]
fn cn_01_a_cancellation_has_the_reason_of_the_host() {
    let long = "é".repeat(MAX_CANCEL_REASON_CHARS);
    for (reason, expected) in [
        (r#""enough""#.to_owned(), Some("enough")),
        (format!(r#""{long}""#), Some(&*long)),
        (format!(r#""{long}x""#), Some(&*long)),
        (r#""""#.to_owned(), None),
        ("7".to_owned(), None),
    ] {
        let mut session = ready();
        let open = key(request(&mut session, "1", "tools/call"));
        session.attach(open, 10);
        let cancel = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":1,"reason":{reason}}}}}"#
        );
        let reason = expected.map(str::to_owned);
        assert_eq!(tell(&mut session, &cancel), Action::Cancel { task: 10, reason });
    }
}

/// Whoever passes notifications on does not check them as requests.
#[test]
fn requests_without_an_id_are_dropped() {
    let (mut began, mut in_session, mut modern) = (TestSession::default(), ready(), modern());
    modern_key(modern_request(&mut modern, "1", "tools/list"));
    for method in [
        "initialize",
        "tools/call",
        "resources/subscribe",
        "subscriptions/listen",
        "tasks/cancel",
        "logging/setLevel",
        "com.example/do",
        "Notifications/x",
        "notifications",
        "",
    ] {
        for session in [&mut began, &mut in_session, &mut modern] {
            let dropped = Action::Ignore(IgnoreReason::RequestWithoutId);
            assert_eq!(notify(session, method), dropped, "{method}");
        }
    }
    for method in ["notifications/roots/list_changed", "notifications/x"] {
        assert!(matches!(notify(&mut in_session, method), Action::Notify { .. }), "{method}");
    }
}

#[test]
fn responses_reach_their_waiter() {
    let mut session = ready();
    let (id, _) = session.send_request("roots/list", &Json::empty_object(), 'w').unwrap();
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    let delivered = Action::Deliver { waiter: 'w', outcome: Ok(Json::empty_object()) };
    assert_eq!(tell(&mut session, &answer), delivered);
    assert_eq!(tell(&mut session, &answer), Action::Ignore(IgnoreReason::UnknownResponse));
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0}}"#;
    assert_eq!(tell(&mut session, progress), Action::Ignore(IgnoreReason::UnknownRequest));
}

#[test]
fn malformed_messages_are_answered_by_their_id() {
    let mut session = ready();
    let answer = text(&tell(&mut session, r#"{"jsonrpc":"2.0","id":5}"#));
    assert!(answer.contains(r#""id":5"#) && answer.contains("-32600"), "{answer}");
}

/// A filter that decides by one of two names would let the other one pass.
#[test]
fn ambiguous_params_are_refused_before_anything_is_served() {
    let tell_host = |session: &mut TestSession, line: String| {
        let mut messages = Vec::new();
        parse_from_host(&line.into(), |message| messages.push(message));
        session.handle_message(messages.remove(0))
    };
    let refused = concat!(
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"#,
        r#""message":"invalid params: the member name stands twice in params"}}"#
    );
    let meta = MODERN.strip_prefix('{').and_then(|meta| meta.strip_suffix('}')).unwrap();
    for meta in [r#""x":{}"#, meta] {
        let params = format!(r#""params":{{"name":"hidden","name":"do",{meta}}}"#);
        let call = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call",{params}}}"#);
        let notification = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x",{params}}}"#);
        let mut session = ready();
        session.serve_modern();
        assert_eq!(text(&tell_host(&mut session, call.clone())), refused);
        let ignored = tell_host(&mut session, notification);
        assert!(matches!(ignored, Action::Ignore(IgnoreReason::Malformed(_))), "{ignored:?}");
        let mut session = TestSession::default();
        session.serve_modern();
        assert_eq!(text(&tell_host(&mut session, call)), refused);
        // It has not decided the era.
        initialize(&mut session, "6");
    }
}

/// BM-03: a host that wrote something unreadable learns that, without an id. What may be a response is not
/// answered.
#[test]
fn bm_03_unreadable_messages_are_answered_without_an_id() {
    let mut session = ready();
    for (frame, code) in [("{", -32700), ("[", -32700), ("[]", -32600), ("7", -32600)] {
        let answer = text(&tell(&mut session, frame));
        assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"#)), "{answer}");
    }
    for frame in ["{}", r#"{"jsonrpc":"2.0"}"#, r#"{"jsonrpc":"2.0","result":{}}"#] {
        assert!(matches!(tell(&mut session, frame), Action::Ignore(IgnoreReason::Malformed(_))), "{frame}");
    }
}

proptest! {
    /// Whatever a host sends, no request is served before the handshake, and each has one response.
    #[test]
    fn every_request_has_one_response(steps in prop::collection::vec((0..6u8, 0..6u8), 0..60)) {
        let mut session = TestSession::default();
        let mut open: Vec<(RequestKey, u8)> = Vec::new();
        let mut attempts = Vec::new();
        for (step, id) in steps {
            match step {
                0 => if let Action::Initialize { key, attempt, .. } =
                    request(&mut session, &id.to_string(), "initialize")
                {
                    attempts.push(attempt);
                    open.push((key, id));
                },
                1 => match request(&mut session, &id.to_string(), "tools/call") {
                    Action::Serve { key, .. } => {
                        prop_assert!(session.handshake().phase != Phase::ExpectInitialize);
                        prop_assert!(open.iter().all(|(_, other)| *other != id));
                        open.push((key, id));
                    }
                    Action::Ignore(IgnoreReason::DuplicateId(_)) => {
                        prop_assert!(open.iter().any(|(_, other)| *other == id));
                    }
                    other => prop_assert!(text(&other).contains("must be initialize")),
                },
                2 => drop(notify(&mut session, method::INITIALIZED)),
                3 => if let Some(attempt) = attempts.last() { session.accept(*attempt) },
                4 => if let Some(attempt) = attempts.last() { session.refuse(*attempt) },
                _ => if let Some((key, id)) = open.pop() {
                    let id = Id::Int(id.into());
                    prop_assert!(session.respond(key, &id, Ok(&Json::empty_object())).is_some());
                    prop_assert!(session.respond(key, &id, Ok(&Json::empty_object())).is_none());
                    session.end_request(key);
                }
            }
        }
    }
}
