//! Tests of mirrored headers: encoding, annotations, and their limits.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn annotations(schema: &serde_json::Value) -> Result<HeaderAnnotations, InvalidAnnotation> {
    HeaderAnnotations::from_schema(&Json::encode(schema).unwrap())
}

fn reason(schema: &serde_json::Value) -> InvalidReason {
    annotations(schema).unwrap_err().reason
}

fn headers(schema: &serde_json::Value, arguments: &str) -> Vec<(String, String)> {
    let mut headers = annotations(schema).unwrap().headers(&Json::parse(arguments.to_owned()).unwrap());
    headers.sort();
    headers
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// HM-08, HM-09: the vectors of Appendix F.
#[test]
fn hm_08_encoding_vectors() {
    for (value, header) in [
        ("us-west1", "us-west1"),
        ("us west 1", "us west 1"),
        ("", ""),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("\tindented", "=?base64?CWluZGVudGVk?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=", "SGVsbG8="),
        ("日本", "=?base64?5pel5pys?="),
        ("\u{7f}", "=?base64?fw==?="),
    ] {
        assert_eq!(encode_value(value), header, "{value:?}");
    }
}

/// GW-03: what a header may hold, and what it means.
#[test]
fn gw_03_decoding_vectors() {
    for (header, value) in [
        ("us-west1", Ok("us-west1")),
        (" \tus west 1 \t", Ok("us west 1")),
        ("", Ok("")),
        ("a\tb", Ok("a\tb")),
        ("=?base64?IHBhZGRlZCA=?=", Ok(" padded ")),
        (" =?base64?5pel5pys?= ", Ok("日本")),
        ("=?base64??=", Ok("")),
        ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", Ok("=?base64?literal?=")),
        ("SGVsbG8=", Ok("SGVsbG8=")),
        ("=?base64?SGVsbG8=", Ok("=?base64?SGVsbG8=")),
        ("=?BASE64?SGVsbG8=?=", Ok("=?BASE64?SGVsbG8=?=")),
        ("=?base64?SGVsbG8?=", Err(MalformedHeader)),
        ("=?base64?SGVs bG8=?=", Err(MalformedHeader)),
        ("=?base64?%%%?=", Err(MalformedHeader)),
        // Not UTF-8 once it is decoded.
        ("=?base64?/w==?=", Err(MalformedHeader)),
        ("日本", Err(MalformedHeader)),
        ("a\nb", Err(MalformedHeader)),
        ("\u{7f}", Err(MalformedHeader)),
    ] {
        assert_eq!(
            decode_value(header.as_bytes()).as_deref(),
            value.as_ref().map(|text| *text),
            "{header:?}"
        );
    }
    assert_eq!(decode_value(b"\xff"), Err(MalformedHeader));
    // The markers alone, which share a question mark.
    assert_eq!(decode_value(b"=?base64?=").as_deref(), Ok("=?base64?="));
}

/// GW-03: integers are compared as numbers, and everything else as text.
#[test]
fn gw_03_comparison() {
    for (header, value, is_same) in [
        ("42", "42", true),
        ("42.0", "42", true),
        ("42", "42.0", true),
        ("4.2e1", "42", true),
        ("-0", "0", true),
        ("042", "42", false),
        ("+42", "42", false),
        ("42x", "42", false),
        ("\"42\"", "42", false),
        ("43", "42", false),
        ("9007199254740993", "9007199254740992", false),
        ("9007199254740992", "9007199254740992", false),
        ("42", "\"42\"", true),
        ("42.0", "\"42\"", false),
        ("true", "true", true),
        ("True", "true", false),
        ("a", "\"a\"", true),
        ("A", "\"a\"", false),
        ("a", "\"\\u0061\"", true),
        ("null", "null", false),
        ("{}", "{}", false),
    ] {
        assert_eq!(repeats_value(header, &Json::try_from(value).unwrap()), is_same, "{header} {value}");
    }
}

/// HM-03, TN-07
#[test]
fn hm_03_names() {
    for (method, param) in [
        ("tools/call", Some("name")),
        ("prompts/get", Some("name")),
        ("resources/read", Some("uri")),
        ("tasks/get", Some("taskId")),
        ("tasks/update", Some("taskId")),
        ("tasks/cancel", Some("taskId")),
        ("tools/list", None),
        ("server/discover", None),
    ] {
        assert_eq!(name_param(method), param, "{method}");
    }
}

/// HM-04, HM-06: only annotated arguments are mirrored, at any depth of properties.
#[test]
fn hm_04_annotated_arguments_only() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "other": {"type": "string", "description": "not x-mcp-header"},
        "a": {"type": "object", "properties": {"b": {"type": "integer", "x-mcp-header": "Method"}}},
        "dry": {"x-mcp-header": "Dry", "type": "boolean"},
    }});
    assert_eq!(
        headers(&schema, r#"{"region":"us west","other":"x","b":9,"a":{"b":42},"dry":false,"Region":"no"}"#),
        pairs(&[("Mcp-Param-Dry", "false"), ("Mcp-Param-Method", "42"), ("Mcp-Param-Region", "us west")])
    );
    assert!(annotations(&json!({"type": "object"})).unwrap().is_empty());
}

/// HM-07: which arguments have no header, and which have an empty one.
#[test]
fn hm_07_values() {
    let schema = json!({"properties": {"v": {"type": "string", "x-mcp-header": "V"}}});
    for none in [
        "{}",
        r#"{"v":null}"#,
        r#"{"v":[1]}"#,
        r#"{"v":{}}"#,
        r#"{"v":1.5}"#,
        r#"{"v":9007199254740992}"#,
        r#"{"v":-9007199254740992}"#,
        r#"{"v":1e300}"#,
        r#"{"v":"\ud800"}"#,
        "[]",
        "null",
    ] {
        assert_eq!(headers(&schema, none), [], "{none}");
    }
    for (arguments, value) in [
        (r#"{"v":""}"#, ""),
        (r#"{"v":"a\tb"}"#, "=?base64?YQli?="),
        (r#"{"v":-7}"#, "-7"),
        (r#"{"v":42.0}"#, "42"),
        (r#"{"v":9007199254740991}"#, "9007199254740991"),
        (r#"{"v":true}"#, "true"),
    ] {
        assert_eq!(headers(&schema, arguments), pairs(&[("Mcp-Param-V", value)]), "{arguments}");
    }
}

/// HM-05: annotations with invalid names or types are refused.
#[test]
fn hm_05_bad_annotations() {
    let with = |kind: serde_json::Value, name: serde_json::Value| {
        reason(&json!({"properties": {"v": {"type": kind, "x-mcp-header": name}}}))
    };
    for name in [json!(""), json!(5), json!(null), json!({"a": 1})] {
        assert_eq!(with(json!("string"), name), InvalidReason::MissingName);
    }
    for name in ["a b", "a:b", "é", "a\r\n", "a\0", "(x)", "a/b"] {
        assert_eq!(with(json!("string"), json!(name)), InvalidReason::NotAToken, "{name:?}");
    }
    for kind in [json!("number"), json!("object"), json!("null"), json!(["string", "null"]), json!(null)] {
        assert_eq!(with(kind, json!("X")), InvalidReason::UnsupportedType);
    }
    assert_eq!(reason(&json!({"type": "object", "x-mcp-header": "X"})), InvalidReason::UnsupportedType);
    assert_eq!(
        reason(&json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "Region"},
            "b": {"properties": {"c": {"type": "string", "x-mcp-header": "REGION"}}},
        }})),
        InvalidReason::Duplicate
    );
    assert!(
        annotations(&json!({"properties": {"v": {"type": "string", "x-mcp-header": "!#$%&'*+-.^_`|~9aZ"}}}))
            .is_ok()
    );
}

/// HM-06: annotations below anything but `properties` are refused.
#[test]
fn hm_06_unreachable_annotations() {
    let leaf = json!({"type": "string", "x-mcp-header": "X"});
    for schema in [
        json!({"properties": {"v": {"type": "array", "items": leaf}}}),
        json!({"properties": {"v": {"prefixItems": [{}, leaf]}}}),
        json!({"properties": {"v": {"oneOf": [leaf, {"type": "null"}]}}}),
        json!({"anyOf": [{"properties": {"v": leaf}}]}),
        json!({"allOf": [{"properties": {"v": leaf}}]}),
        json!({"not": leaf}),
        json!({"if": {"properties": {"v": leaf}}}),
        json!({"then": {"properties": {"v": leaf}}}),
        json!({"else": {"properties": {"v": leaf}}}),
        json!({"properties": {"v": {"$ref": "#/$defs/v"}}, "$defs": {"v": leaf}}),
        json!({"definitions": {"v": leaf}}),
        json!({"patternProperties": {"^v": leaf}}),
        json!({"additionalProperties": leaf}),
        json!({"dependentSchemas": {"v": {"properties": {"w": leaf}}}}),
        json!({"x-components": {"schemas": {"v": leaf}}}),
    ] {
        let invalid = annotations(&schema).unwrap_err();
        assert_eq!(invalid.reason, InvalidReason::Unreachable, "{schema}");
    }
    let path = annotations(&json!({"properties": {"v": {"items": leaf}}})).unwrap_err().path;
    assert_eq!(path, "properties.v.items");
}

#[test]
fn the_name_of_the_keyword_elsewhere_is_no_annotation() {
    let schema = json!({
        "properties": {
            "x-mcp-header": {"type": "string"},
            "v": {"default": {"x-mcp-header": "A"}, "enum": [{"x-mcp-header": "B"}], "examples": [{"x-mcp-header": 1}]},
        },
        "required": ["x-mcp-header"],
        "description": "x-mcp-header",
    });
    assert_eq!(annotations(&schema), Ok(HeaderAnnotations::default()));
    for odd in ["true", "\"x-mcp-header\"", "[\"x-mcp-header\"]", r#"{"properties":"x-mcp-header"}"#] {
        assert!(HeaderAnnotations::from_schema(&Json::parse(odd).unwrap()).unwrap().is_empty(), "{odd}");
    }
}

#[test]
fn their_number_is_bounded() {
    let with = |count: usize| {
        let property = |n| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("H{n}")}));
        let properties: serde_json::Map<_, _> = (0..count).map(property).collect();
        annotations(&json!({"properties": properties}))
    };
    assert!(with(MAX_ANNOTATIONS).is_ok());
    assert_eq!(with(MAX_ANNOTATIONS + 1).unwrap_err().reason, InvalidReason::TooMany);
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| {
        let open = r#"{"properties":{"a":"#.repeat(levels);
        let text = open + r#"{"type":"string","x-mcp-header":"X"}"# + &"}}".repeat(levels);
        HeaderAnnotations::from_schema(&Json::parse(text).unwrap())
    };
    assert!(nested(30).is_ok());
    assert_eq!(nested(5000).unwrap_err().reason, InvalidReason::TooDeep);
    let text = "[".repeat(10_000) + r#"{"x-mcp-header":"X"}"# + &"]".repeat(10_000);
    let schema = Json::parse(format!(r#"{{"allOf":{text}}}"#)).unwrap();
    assert_eq!(HeaderAnnotations::from_schema(&schema).unwrap_err().reason, InvalidReason::TooDeep);
}

proptest! {
    /// HM-08: every value is encoded safely, and can be decoded.
    #[test]
    fn hm_08_round_trip(value in prop_oneof!["\\PC{0,20}", "[ -~\t]{0,12}", "=\\?base64\\?.{0,8}\\?="]) {
        let header = encode_value(&value);
        prop_assert!(header.bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
        prop_assert_eq!(header.trim(), &*header);
        prop_assert_eq!(&*decode_value(header.as_bytes()).unwrap(), &*value);
    }
}
