//! Tests of mirrored headers against the body of a request.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::revision::Revision;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// The outcome of a check.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    /// The header, and what is wrong with it.
    Refused(String, HeaderProblem),
}

fn check(headers: &[(&str, &str)], method: &str, params: &str) -> Verdict {
    let params = Json::parse(format!("{{{params}{META}}}")).unwrap();
    let request = ModernRequest::parse(Some(&params), &[Revision::V2026_07_28]).unwrap();
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "deep": {"type": "object", "properties": {"x": {"type": "string", "x-mcp-header": "Method"}}},
    }});
    let annotations = HeaderAnnotations::from_schema(&Json::encode(&schema).unwrap()).unwrap();
    let mirrored =
        MirroredRequest { request: &request, method, params: Some(&params), annotations: Some(&annotations) };
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    let Err(mismatch) = check_headers(headers, &mirrored) else { return Verdict::Accepted };
    let refusal = mismatch.refusal();
    assert_eq!((refusal.status, refusal.error.code), (400, -32020));
    assert!(refusal.error.message.contains(&*mismatch.header), "{}", refusal.error.message);
    Verdict::Refused(mismatch.header.into(), mismatch.problem)
}

/// Checks a call of the tool `t` with these arguments and these further headers.
fn check_call(arguments: &str, more: &[(&str, &str)]) -> Verdict {
    let mut headers =
        vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "t")];
    headers.extend_from_slice(more);
    check(&headers, "tools/call", &format!(r#""name":"t","arguments":{arguments},"#))
}

fn wrong(header: &str, problem: HeaderProblem) -> Verdict {
    Verdict::Refused(header.to_owned(), problem)
}

// GW-03
#[test]
fn version_and_method_are_always_expected() {
    use HeaderProblem::{Different, Malformed, Missing, Repeated};
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let method = ("Mcp-Method", "tools/list");
    for (headers, expected) in [
        (&[version, method][..], Verdict::Accepted),
        (&[("mcp-protocol-version", " 2026-07-28\t"), ("MCP-METHOD", " tools/list ")], Verdict::Accepted),
        (
            &[version, method, ("Mcp-Session-Id", "x"), ("Last-Event-ID", "7"), ("mcp", "x")],
            Verdict::Accepted,
        ),
        (&[method], wrong("MCP-Protocol-Version", Missing)),
        (&[version], wrong("Mcp-Method", Missing)),
        (&[("MCP-Protocol-Version", "2025-11-25"), method], wrong("MCP-Protocol-Version", Different)),
        (&[version, ("Mcp-Method", "TOOLS/LIST")], wrong("Mcp-Method", Different)),
        (&[version, ("Mcp-Method", "tools/call")], wrong("Mcp-Method", Different)),
        (&[version, ("Mcp-Method", "")], wrong("Mcp-Method", Different)),
        // A method is not encoded: a proxy compares it as it stands.
        (&[version, ("Mcp-Method", "=?base64?dG9vbHMvbGlzdA==?=")], wrong("Mcp-Method", Different)),
        (&[version, ("Mcp-Method", "tools/list\u{0}")], wrong("Mcp-Method", Malformed)),
        (&[version, method, ("mcp-method", "tools/list")], wrong("Mcp-Method", Repeated)),
    ] {
        assert_eq!(check(headers, "tools/list", ""), expected, "{headers:?}");
    }
}

// GW-03
#[test]
fn names_are_expected_where_the_method_has_one() {
    use HeaderProblem::{Different, Malformed, Missing, Unexpected};
    for (method, params, name, expected) in [
        ("tools/call", r#""name":"a.search","#, Some("a.search"), Verdict::Accepted),
        ("tools/call", r#""name":"日本","#, Some("=?base64?5pel5pys?="), Verdict::Accepted),
        ("tools/call", r#""name":"t","#, Some("=?base64?dA==?="), Verdict::Accepted),
        ("tools/call", r#""name":"t","#, None, wrong("Mcp-Name", Missing)),
        ("tools/call", r#""name":"t","#, Some("T"), wrong("Mcp-Name", Different)),
        ("tools/call", r#""name":"t","#, Some("=?base64?d?="), wrong("Mcp-Name", Malformed)),
        ("tools/call", r#""name":"t","#, Some("日本"), wrong("Mcp-Name", Malformed)),
        ("tools/call", "", None, Verdict::Accepted),
        ("tools/call", r#""name":null,"#, None, Verdict::Accepted),
        ("tools/call", r#""name":7,"#, None, Verdict::Accepted),
        ("tools/call", "", Some("t"), wrong("Mcp-Name", Unexpected)),
        ("tools/call", r#""name":7,"#, Some("7"), wrong("Mcp-Name", Unexpected)),
        ("prompts/get", r#""name":"p","#, Some("p"), Verdict::Accepted),
        ("prompts/get", r#""name":"p","#, Some("q"), wrong("Mcp-Name", Different)),
        ("resources/read", r#""uri":"file:///a","#, Some("file:///a"), Verdict::Accepted),
        ("resources/read", r#""uri":"file:///a","name":"b","#, Some("b"), wrong("Mcp-Name", Different)),
        ("tasks/get", r#""taskId":"1","#, Some("1"), Verdict::Accepted),
        ("tasks/cancel", r#""taskId":"1","#, None, wrong("Mcp-Name", Missing)),
        // No name to compare with.
        ("tools/list", "", Some("t"), Verdict::Accepted),
    ] {
        let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        assert_eq!(check(&headers, method, params), expected, "{method} {params} {name:?}");
    }
}

// GW-03: the matrix of Appendix F. What a client writes is accepted.
#[test]
fn every_encoded_value_is_accepted() {
    for (value, header) in [
        ("us-west1", "us-west1"),
        ("us west 1", "us west 1"),
        ("us-west1", "  us-west1\t"),
        ("", ""),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("\tindented", "=?base64?CWluZGVudGVk?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
    ] {
        let arguments = json!({ "region": value }).to_string();
        for name in ["Mcp-Param-Region", "MCP-PARAM-REGION", "mcp-param-region"] {
            assert_eq!(check_call(&arguments, &[(name, header)]), Verdict::Accepted, "{value:?} {header:?}");
        }
    }
}

// GW-03: the matrix of Appendix F.
#[test]
fn arguments_are_compared_with_their_headers() {
    use HeaderProblem::{Different, Malformed, Missing, Repeated, Unexpected};
    let region = |problem| wrong("Mcp-Param-Region", problem);
    let count = |problem| wrong("Mcp-Param-Count", problem);
    for (arguments, headers, expected) in [
        ("{}", &[][..], Verdict::Accepted),
        ("null", &[], Verdict::Accepted),
        (r#"{"region":null}"#, &[], Verdict::Accepted),
        (r#"{"region":"a"}"#, &[], region(Missing)),
        (r#"{"region":""}"#, &[], region(Missing)),
        (r#"{"region":"a"}"#, &[("Mcp-Param-Region", "A")], region(Different)),
        (r#"{"region":"a"}"#, &[("Mcp-Param-Region", "")], region(Different)),
        (r#"{"region":"Hello"}"#, &[("Mcp-Param-Region", "SGVsbG8=")], region(Different)),
        (r#"{"region":"Hello"}"#, &[("Mcp-Param-Region", "=?base64?SGVsbG8=")], region(Different)),
        (r#"{"region":"Hello"}"#, &[("Mcp-Param-Region", "=?BASE64?SGVsbG8=?=")], region(Different)),
        (r#"{"region":"Hello"}"#, &[("Mcp-Param-Region", "=?base64?SGVs?bG8=?=")], region(Malformed)),
        (r#"{"region":"Hello"}"#, &[("Mcp-Param-Region", "=?base64?SGVsbG8?=")], region(Malformed)),
        (r#"{"region":null}"#, &[("Mcp-Param-Region", "a")], region(Unexpected)),
        (r#"{"region":null}"#, &[("Mcp-Param-Region", "null")], region(Unexpected)),
        ("{}", &[("Mcp-Param-Region", "")], region(Unexpected)),
        (r#"{"region":"a"}"#, &[("Mcp-Param-Region", "a"), ("mcp-param-region", "a")], region(Repeated)),
        (r#"{"count":42}"#, &[("Mcp-Param-Count", "42")], Verdict::Accepted),
        (r#"{"count":42}"#, &[("Mcp-Param-Count", "42.0")], Verdict::Accepted),
        (r#"{"count":42.0}"#, &[("Mcp-Param-Count", "42")], Verdict::Accepted),
        (r#"{"count":-7}"#, &[("Mcp-Param-Count", "-7")], Verdict::Accepted),
        (r#"{"count":42}"#, &[("Mcp-Param-Count", "=?base64?NDI=?=")], Verdict::Accepted),
        (r#"{"count":42}"#, &[("Mcp-Param-Count", "43")], count(Different)),
        (r#"{"count":42}"#, &[("Mcp-Param-Count", "x")], count(Different)),
        (r#"{"count":42}"#, &[], count(Missing)),
        // Not a safe integer, which no client mirrors.
        (r#"{"count":9007199254740992}"#, &[], Verdict::Accepted),
        (r#"{"count":9007199254740992}"#, &[("Mcp-Param-Count", "9007199254740992")], count(Unexpected)),
        (r#"{"count":[1]}"#, &[], Verdict::Accepted),
        (r#"{"dry":true}"#, &[("Mcp-Param-Dry", "true")], Verdict::Accepted),
        (r#"{"dry":true}"#, &[("Mcp-Param-Dry", "TRUE")], wrong("Mcp-Param-Dry", Different)),
        (r#"{"dry":false}"#, &[], wrong("Mcp-Param-Dry", Missing)),
        (r#"{"deep":{"x":"v"}}"#, &[("Mcp-Param-Method", "v")], Verdict::Accepted),
        (r#"{"deep":{"x":"v"}}"#, &[], wrong("Mcp-Param-Method", Missing)),
        // Not annotated.
        (r#"{"other":"v"}"#, &[("Mcp-Param-Other", "w"), ("Mcp-Param-", "x")], Verdict::Accepted),
    ] {
        assert_eq!(check_call(arguments, headers), expected, "{arguments} {headers:?}");
    }
}

// GW-13: without the schema of the tool, headers of arguments cannot be compared.
#[test]
fn headers_of_unknown_tools_are_ignored() {
    let params = Json::parse(format!(r#"{{"name":"t","arguments":{{"region":"a"}},{META}}}"#)).unwrap();
    let request = ModernRequest::parse(Some(&params), &[Revision::V2026_07_28]).unwrap();
    let mirrored =
        MirroredRequest { request: &request, method: "tools/call", params: Some(&params), annotations: None };
    let headers: [(&str, &[u8]); 4] = [
        ("MCP-Protocol-Version", b"2026-07-28"),
        ("Mcp-Method", b"tools/call"),
        ("Mcp-Name", b"t"),
        ("Mcp-Param-Region", b"\xff"),
    ];
    assert_eq!(check_headers(headers, &mirrored), Ok(()));
}

proptest! {
    // GW-03, HM-08: what the client half writes is accepted, and a header of another value is not.
    #[test]
    fn headers_of_the_client_half_are_accepted(
        name in "\\PC{0,12}",
        region in prop_oneof!["\\PC{0,12}", "[ -~\t]{0,8}", "=\\?base64\\?.{0,4}\\?="],
        other in "[ -~]{0,8}",
        count: i32,
        dry: bool,
    ) {
        let arguments = json!({"region": region, "count": count, "dry": dry});
        let params = json!({ "name": name, "arguments": arguments });
        let text = params.to_string();
        let annotations = HeaderAnnotations::from_schema(&Json::try_from(
            r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"count":{"type":"integer","x-mcp-header":"Count"},"dry":{"type":"boolean","x-mcp-header":"Dry"}}}"#,
        ).unwrap()).unwrap();
        let mut headers = annotations.headers(&Json::encode(&arguments).unwrap());
        headers.push(("Mcp-Name".into(), mirror::encode_value(&name).into_owned()));
        headers.push(("Mcp-Method".into(), "tools/call".into()));
        headers.push(("MCP-Protocol-Version".into(), "2026-07-28".into()));
        let members = format!("{},", &text[1..text.len() - 1]);
        let borrowed = |headers: &[(String, String)]| -> Verdict {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
            check(&headers, "tools/call", &members)
        };
        prop_assert_eq!(borrowed(&headers), Verdict::Accepted);
        headers[0].1 = mirror::encode_value(&other).into_owned();
        let expected = if other == region { Verdict::Accepted } else { wrong("Mcp-Param-Region", HeaderProblem::Different) };
        prop_assert_eq!(borrowed(&headers), expected);
    }
}

// GW-03
#[test]
fn the_version_header_repeats_any_version_of_the_body() {
    use HeaderProblem::{Different, Repeated};
    let body = |version: &str| {
        Json::parse(format!(r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":{version}}}}}"#))
            .unwrap()
    };
    let header = |value: &'static str| ("MCP-Protocol-Version", value.as_bytes());
    let verdict = |headers: &[(&'static str, &'static [u8])], body: &Json| {
        check_version_header(headers.iter().copied(), Some(body)).map_err(|mismatch| mismatch.problem)
    };
    let unknown = body(r#""v999""#);
    assert_eq!(verdict(&[header("v999")], &unknown), Ok(()));
    assert_eq!(verdict(&[header("2026-07-28")], &unknown), Err(Different));
    assert_eq!(verdict(&[header("v999"), header("v999")], &unknown), Err(Repeated));
    assert_eq!(verdict(&[], &unknown), Ok(()), "what is missing is looked at later");
    assert_eq!(verdict(&[header("v999")], &body("7")), Ok(()));
    assert_eq!(check_version_header([header("v999")], None), Ok(()));
}
