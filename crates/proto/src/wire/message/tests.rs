use proptest::prelude::*;
use proptest::sample::Index;
use serde::de::IgnoredAny;

use super::*;

fn one(text: impl AsRef<[u8]>) -> ParseResult {
    parse_one(&Bytes::copy_from_slice(text.as_ref()))
}

fn defect(text: impl AsRef<[u8]>) -> (Option<String>, Defect) {
    let malformed = one(text).unwrap_err();
    (malformed.id.map(|id| id.to_string()), malformed.defect)
}

fn json(text: &'static str) -> Json {
    Json::parse(Bytes::from_static(text.as_bytes())).unwrap()
}

#[test]
fn the_four_shapes() {
    assert_eq!(
        one(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#),
        Ok(Message::Request { id: Id::from_string("a"), method: "ping".into(), params: None })
    );
    assert_eq!(
        one(r#"{"method":"notifications/progress","params":{"progress":1.0},"jsonrpc":"2.0"}"#),
        Ok(Message::Notification {
            method: "notifications/progress".into(),
            params: Some(json(r#"{"progress":1.0}"#))
        })
    );
    assert_eq!(
        one(r#" {"jsonrpc":"2.0","id":7,"result":{ "a" : 1 }} "#),
        Ok(Message::Result { id: Id::Int(7), result: json(r#"{ "a" : 1 }"#) })
    );
    assert_eq!(
        one(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no","data":[1]}}"#),
        Ok(Message::Error {
            id: Some(Id::Int(7)),
            error: RpcError { code: -32601, message: "no".into(), data: Some(json("[1]")) }
        })
    );
}

/// BM-02: a host that writes `null` for an id waits for a response, while some servers write it in notifications.
#[test]
fn bm_02_null_is_no_id_of_a_request() {
    let from_host = |text: &str| {
        let mut found = Vec::new();
        parse_from_host(&Bytes::copy_from_slice(text.as_bytes()), |message| found.push(message));
        found
    };
    let refused = Err(MalformedMessage { id: None, defect: Defect::InvalidId });
    for id in ["null", "{}", "[]", "true"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        assert_eq!(from_host(&text), std::slice::from_ref(&refused), "{id}");
        assert_eq!(from_host(&format!("[{text}]")), std::slice::from_ref(&refused), "{id}");
        assert!(matches!(one(&text), Ok(Message::Notification { .. })), "{id}");
    }
    for text in [
        r#"{"jsonrpc":"2.0","method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":"null","method":"x"}"#,
    ] {
        assert!(from_host(text)[0].is_ok(), "{text}");
    }
}

#[test]
fn a_part_of_a_number_is_no_id() {
    let damaged = |id| Err(MalformedMessage { id, defect: Defect::NotJson });
    for id in ["0001", "1x", "1.2.3"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#);
        assert_eq!(one(&text), damaged(None), "{id}");
    }
    assert_eq!(one(r#"{"jsonrpc":"2.0","id":7 x,"method":"x"}"#), damaged(Some(Id::Int(7))));
}

/// BM-03: an error without an id, or with a null one, is still an error.
#[test]
fn bm_03_errors_without_an_id() {
    for text in [
        r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"}}"#,
    ] {
        let Ok(Message::Error { id: None, error }) = one(text) else { panic!("{text}") };
        assert_eq!(error.code, -32001);
    }
}

#[test]
fn shapes_that_the_wild_sends() {
    // Empty members that are written as `null`.
    let written_out = r#"{"id":1,"method":null,"params":null,"result":{},"error":null}"#;
    assert!(matches!(one(written_out), Ok(Message::Result { .. })));
    assert!(matches!(
        one(r#"{"id":1,"result":null,"error":{"code":1,"message":"x"}}"#),
        Ok(Message::Error { .. })
    ));
    assert!(matches!(one(r#"{"id":1,"result":null}"#), Ok(Message::Result { .. })));
    assert!(matches!(one(r#"{"method":"x","params":null}"#), Ok(Message::Notification { params: None, .. })));
    let Ok(Message::Error { error, .. }) = one(r#"{"id":1,"error":{"code":-32000.0,"message":{"a":1}}}"#)
    else {
        panic!()
    };
    assert_eq!((error.code, error.message.as_str()), (-32000, r#"{"a":1}"#));
}

#[test]
fn defects_name_the_call_where_they_can() {
    let seven = || Some("7".to_owned());
    for (text, found) in [
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}"#, Defect::ResultAndError),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"a":"#, Defect::NotJson),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"result":{}}"#, Defect::DuplicateMember),
        (r#"{"jsonrpc":"2.0","id":7,"id":8,"result":{}}"#, Defect::DuplicateMember),
        (r#"{"jsonrpc":"2.0","id":7,"error":"boom"}"#, Defect::InvalidError),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"message":"boom"}}"#, Defect::InvalidError),
        (r#"{"jsonrpc":"2.0","id":7}"#, Defect::NoShape),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"code"#, Defect::NotJson),
        (r#"{"jsonrpc":"2.0","id":7,"res"#, Defect::NotJson),
        (r#"{"id":7,"jsonrpc":"2.0","method":"ping","params":{"a":}}"#, Defect::NotJson),
        (r#"{"jsonrpc":"2.0","id":7,"result":{}} trailing"#, Defect::NotJson),
        // The most used SDK writes the id last.
        (r#"{"result":{},"result":{},"jsonrpc":"2.0","id":7}"#, Defect::DuplicateMember),
    ] {
        assert_eq!(defect(text), (seven(), found), "{text}");
    }
    assert_eq!(defect(b"{\"result\":\"\xff\xfe\",\"jsonrpc\":\"2.0\",\"id\":7}"), (seven(), Defect::NotJson));
    assert_eq!(defect(r#"{"result":{}}"#), (None, Defect::ResultWithoutId));
    assert_eq!(defect("5"), (None, Defect::NotAnObject));
    assert_eq!(defect("[]"), (None, Defect::NotAnObject));
    assert_eq!(defect("Server listening on port 80"), (None, Defect::NotJson));
}

/// ST-02: a log record on stdout may have an `id`; without `jsonrpc` it must not end a call.
#[test]
fn st_02_a_damaged_message_without_jsonrpc_names_no_call() {
    for (text, found) in [
        (r#"{"id":7,"level":"info","msg":"x"}"#, Defect::NoShape),
        (r#"{"id":7}"#, Defect::NoShape),
        (r#"{"jsonrpc":2.0,"id":7}"#, Defect::NoShape),
        (r#"{"id":7,"payload":{"jsonrpc":"2.0","result":{}}}"#, Defect::NoShape),
        (r#"{"level":"error","id":7,"error":"no such file"}"#, Defect::InvalidError),
        (r#"{"id":7,"error":{"message":"no such file"}}"#, Defect::InvalidError),
        (r#"{"id":7,"result":{},"error":{"code":1,"message":""}}"#, Defect::ResultAndError),
        (r#"{"id":7,"level":"info","msg":"x"#, Defect::NotJson),
        (r#"{"id":7,"method":"GET","path":"/","status":,"#, Defect::NotJson),
        (r#"{"level":"info","msg":"x","msg":,"id":7}"#, Defect::NotJson),
        (r#"{"id":7,"id":7,"msg":"x"}"#, Defect::DuplicateMember),
    ] {
        assert_eq!(defect(text), (None, found), "{text}");
    }
}

/// ST-02: a log record in the shape of a message, but with other members, is not a message.
#[test]
fn st_02_a_log_record_in_the_shape_of_a_message_is_none() {
    let parsed = |text: &'static str| {
        let mut all = Vec::new();
        parse(&Bytes::from_static(text.as_bytes()), |one| all.push(one));
        all.remove(0)
    };
    for record in [
        r#"{"level":"error","error":{"code":14,"message":"unavailable"}}"#,
        r#"{"level":"error","id":7,"error":{"code":14,"message":"unavailable"}}"#,
        r#"{"level":"info","id":7,"result":"stored"}"#,
        r#"{"level":"info","id":7,"method":"GET"}"#,
        r#"{"level":"info","method":"GET"}"#,
    ] {
        assert_eq!(parsed(record), Err(MalformedMessage { id: None, defect: Defect::LogRecord }), "{record}");
    }
    for answer in [
        r#"{"error":{"code":14,"message":"unavailable"}}"#,
        r#"{"id":null,"error":{"code":14,"message":"unavailable"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":14,"message":"unavailable"},"level":"error"}"#,
    ] {
        assert!(matches!(parsed(answer), Ok(Message::Error { id: None, .. })), "{answer}");
    }
    assert!(matches!(parsed(r#"{"id":7,"result":{}}"#), Ok(Message::Result { .. })));
    // The body of a refusal can only be meant for its own request.
    let record = r#"{"level":"error","error":{"code":14,"message":"unavailable"}}"#;
    assert!(matches!(one(record), Ok(Message::Error { id: None, .. })));
}

/// BM-01, HL-11: each element of a batch is parsed by itself.
#[test]
fn bm_01_batches_from_2025_03_26() {
    let mut all = Vec::new();
    parse(&Bytes::from_static(br#" [{"id":1,"result":1},{"jsonrpc":"2.0","id":2},{"method":"x"}]"#), |one| {
        all.push(one);
    });
    assert!(matches!(all[0], Ok(Message::Result { .. })));
    assert!(matches!(all[1], Err(MalformedMessage { id: Some(Id::Int(2)), .. })));
    assert!(matches!(all[2], Ok(Message::Notification { .. })));
    assert_eq!(all.len(), 3);
    all.clear();
    parse(&Bytes::from_static(b"[]"), |one| all.push(one));
    assert_eq!(all, [Err(MalformedMessage { id: None, defect: Defect::NotAnObject })]);
}

#[test]
fn a_hostile_batch_is_cut() {
    let batch = format!("[{}1]", "1,".repeat(1_000_000));
    let mut seen = Vec::new();
    parse(&Bytes::from(batch), |one| seen.push(one));
    assert_eq!(seen.len(), MAX_BATCH_LEN + 1);
    assert_eq!(seen.pop(), Some(Err(MalformedMessage { id: None, defect: Defect::TooMany })));
}

type Members<T> = std::collections::HashMap<String, T>;

proptest! {
    /// The parser accepts only valid JSON, and reports `NotJson` only for invalid JSON.
    #[test]
    fn agrees_with_serde_json_on_what_is_valid(
        members in proptest::collection::vec((any_name(), any_value()), 0..6),
        changes in proptest::collection::vec((any::<Index>(), 0..3u8, any::<u8>()), 0..3),
    ) {
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("\"{name}\" :{value}")).collect();
        let mut text = format!("{{{}}}", members.join(", ")).into_bytes();
        for (at, change, byte) in changes {
            let at = at.index(text.len().max(1));
            match change {
                0 => text.insert(at, byte),
                1 if at < text.len() => text[at] = byte,
                _ => drop(text.drain(at..text.len().min(at + 1))),
            }
        }
        match one(&text) {
            // The value of a member that JSON-RPC does not define need not be UTF-8.
            Ok(_) => prop_assert!(serde_json::from_slice::<Members<Option<IgnoredAny>>>(&text).is_ok()),
            Err(MalformedMessage { defect: Defect::NotJson, .. }) => {
                prop_assert!(serde_json::from_slice::<Members<&RawValue>>(&text).is_err());
            }
            Err(_) => {}
        }
    }
}

fn any_name() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&["id", "method", "params", "result", "error", "jsonrpc", "x", "\\u0069d"][..])
}

fn any_value() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(
        &["7", "\"2.0\"", "null", "{}", "[ 1 ]", "{\"code\":1,\"message\":\"ä\"}", "\"a\\nb\"", "-0.5e3"][..],
    )
}

#[test]
fn ten_thousand_levels_inside_a_result_are_just_text() {
    let deep = format!(r#"{{"id":1,"result":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    assert!(matches!(one(deep), Ok(Message::Result { .. })));
}
