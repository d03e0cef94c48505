//! Tests of refusals, and of what hostile hosts send.

mod hostile;

use super::*;

#[test]
fn refusals_echo_the_id_and_carry_their_data() {
    // GW-01
    let refusal = Refusal::unsupported_version("1900-01-01", &[Revision::V2026_07_28]);
    assert_eq!(refusal.status, 400);
    let body = refusal.to_frame(Some(&Id::from_string("a"))).body();
    assert_eq!(
        str::from_utf8(&body).unwrap(),
        r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32022,"message":"unsupported protocol version; supported: 2026-07-28","data":{"supported":["2026-07-28"],"requested":"1900-01-01"}}}"#
    );
    // GW-04
    let missing = Refusal::missing_capability(&Json::try_from(r#"{"elicitation":{}}"#).unwrap());
    assert_eq!((missing.status, missing.error.code), (400, -32021));
    assert_eq!(missing.error.data.unwrap().as_str(), r#"{"requiredCapabilities":{"elicitation":{}}}"#);
}

#[test]
fn capabilities_count_unless_they_are_null_or_false() {
    let capabilities = Json::try_from(r#"{"a":{"b":{}},"c":null,"d":false,"e":true}"#).unwrap();
    for (path, is_declared) in [
        (&["a"][..], true),
        (&["a", "b"], true),
        (&["a", "x"], false),
        (&["c"], false),
        (&["d"], false),
        (&["e"], true),
        (&["e", "f"], false),
    ] {
        assert_eq!(declares(&capabilities, path), is_declared, "{path:?}");
    }
}

#[test]
fn statuses_follow_the_codes() {
    // HM-11
    for (code, status) in [
        (-32700, 400),
        (-32600, 400),
        (-32601, 404),
        (-32602, 200),
        (-32603, 200),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (7, 200),
    ] {
        assert_eq!(Refusal::from_error(RpcError::new(code, "")).status, status, "{code}");
    }
}

#[test]
fn malformed_bodies_are_answered_without_an_id() {
    // BM-03
    let refusal = Refusal::malformed(Defect::NotJson);
    assert_eq!((refusal.status, refusal.error.code), (400, -32700));
    assert_eq!(Refusal::malformed(Defect::NoShape).error.code, -32600);
    assert_eq!(
        str::from_utf8(&refusal.to_frame(None).body()).unwrap(),
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"the message cannot be used: not valid JSON"}}"#
    );
}
