//! Parsing of what a headers command prints.

use proptest::prelude::*;

use super::*;

#[test]
fn an_object_of_texts_is_taken_and_marked_as_secret() {
    let headers =
        parse_headers(br#"{"Authorization": "Bearer t", "X-Name": "J\u00f6rg", "X-Empty": ""}"#).unwrap();
    assert_eq!(headers.len(), 3);
    assert_eq!(headers["authorization"], "Bearer t");
    assert_eq!(headers["x-name"].as_bytes(), "Jörg".as_bytes());
    assert!(headers.values().all(HeaderValue::is_sensitive));
    assert!(parse_headers(b" {} \n").unwrap().is_empty());
}

#[test]
fn what_the_transport_sets_is_not_a_programs_to_set() {
    for name in ["Content-Length", "mcp-session-id", "MCP-Anything", "DPoP", "accept", "Transfer-Encoding"] {
        let error = parse_headers(format!(r#"{{"{name}": "x"}}"#).as_bytes()).unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup, "{name}");
    }
}

#[test]
fn the_number_of_headers_is_bounded() {
    let many: Map<String, Value> = (0..=MAX_HEADERS).map(|n| (format!("x-{n}"), Value::from("v"))).collect();
    let error = parse_headers(&serde_json::to_vec(&many).unwrap()).unwrap_err();
    assert!(error.what.contains("more than"), "{error}");
}

proptest! {
    // Any output yields headers that can be sent, or an error that shows no value.
    #[test]
    fn nothing_that_breaks_a_request_gets_through(name in "[ -~\r\n]{0,12}", value in "(s3cret)[\\x00-\\x7f]{0,8}") {
        let mut object = Map::new();
        object.insert(name, Value::from(value.clone()));
        match parse_headers(&serde_json::to_vec(&object).unwrap()) {
            Ok(headers) => prop_assert!(headers.values().all(|it| !it.as_bytes().contains(&b'\n'))),
            Err(error) => {
                let shown = format!("{error:?}");
                prop_assert!(!shown.contains(&value), "{}", shown);
            }
        }
    }
}
