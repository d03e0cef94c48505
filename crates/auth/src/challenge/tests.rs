//! Parses challenges as servers send them, as they might, and as no server should.

use proptest::prelude::*;

use super::*;

fn parse(headers: &[&str]) -> Challenge {
    let headers: Vec<String> = headers.iter().map(ToString::to_string).collect();
    Challenge::parse(&headers)
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn ad_01_bearer_among_others_in_one_header() {
    let found = parse(&[concat!(
        r#"Basic realm="say \"hi\", then go", charset=UTF-8, "#,
        r#"bearer scope="a b", Error=invalid_token , resource_metadata = "https://h.example/prm?x=1,2", "#,
        "Negotiate YII=, Digest nonce=abc, scope=other",
    )]);
    let expected = Challenge {
        resource_metadata: Some(url("https://h.example/prm?x=1,2")),
        scope: Some(vec!["a".into(), "b".into()]),
        error: Some("invalid_token".into()),
        ..Challenge::default()
    };
    assert_eq!(found, expected);
}

#[test]
fn ad_01_any_order_and_unquoted_and_over_several_headers() {
    let expected = Challenge {
        resource_metadata: Some(url("https://h.example/.well-known/oauth-protected-resource/mcp")),
        scope: Some(vec!["files:read".into()]),
        ..Challenge::default()
    };
    let address = "https://h.example/.well-known/oauth-protected-resource/mcp";
    for headers in [
        vec![format!("Bearer scope=files:read,resource_metadata={address}")],
        vec![format!("Bearer resource_metadata=\"{address}\", scope=\"files:read\"")],
        vec!["Bearer scope=\"files:read\"".to_owned(), format!("BEARER\tresource_metadata={address}")],
        vec![
            "Basic".to_owned(),
            format!("NTLM, Bearer ,, scope=files:read ,resource_metadata=\"{address}\","),
        ],
    ] {
        assert_eq!(Challenge::parse(&headers), expected, "{headers:?}");
    }
}

#[test]
fn parameters_of_other_schemes_are_not_ours() {
    let found = parse(&[r#"Basic realm="x", scope="admin", resource_metadata="https://evil.example/""#]);
    assert_eq!(found, Challenge::default());
}

#[test]
fn a_token68_is_not_taken_for_a_scheme() {
    let found = parse(&[r#"Negotiate abc, Bearer error="insufficient_scope""#]);
    assert!(found.is_insufficient_scope());
    let found = parse(&[r#"Bearer mF_9.B5f-4.1JqM==, realm="r""#]);
    assert_eq!(found.realm.as_deref(), Some("r"));
}

#[test]
fn dpop_is_noticed_and_bearer_takes_precedence() {
    let found = parse(&[
        r#"DPoP error="use_dpop_nonce", algs="ES256 PS256", scope="bound""#,
        r#"Bearer scope="plain""#,
    ]);
    assert!(found.dpop && found.wants_nonce());
    assert_eq!(found.scope, Some(vec!["plain".into()]));
}

#[test]
fn the_first_of_two_values_counts() {
    let found = parse(&[r#"Bearer scope="a", SCOPE="b""#, r#"Bearer scope="c""#]);
    assert_eq!(found.scope, Some(vec!["a".into()]));
}

#[test]
fn an_unusable_metadata_url_is_ignored() {
    for address in ["/relative", "javascript:alert(1)", "file:///etc/passwd", "data:,x", "https://"] {
        let found = parse(&[&format!("Bearer resource_metadata=\"{address}\"")]);
        assert_eq!(found.resource_metadata, None, "{address}");
    }
}

#[test]
fn what_is_shown_is_bounded_and_harmless() {
    let long = "x".repeat(5000);
    let found = parse(&[&format!("Bearer error_description=\"\u{1b}[2J\u{7}{long}\", error=\"{long}\"")]);
    let shown = found.error_description.unwrap();
    assert!(shown.chars().count() <= 200 && !shown.chars().any(char::is_control), "{shown:?}");
    assert!(found.error.unwrap().len() <= 200);
}

#[test]
fn scopes_are_tokens_and_bounded() {
    let found = parse(&["Bearer scope=\"a  a b\u{e9} c\\\\d \\\"e\\\" f\""]);
    assert_eq!(found.scope, Some(vec!["a".into(), "f".into()]));
    let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let found = parse(&[&format!("Bearer scope=\"{}\"", many.join(" "))]);
    assert_eq!(found.scope.unwrap().len(), MAX_SCOPES);
    assert_eq!(parse(&["Bearer scope=\"\""]).scope, None);
}

#[test]
fn an_unfinished_quote_ends_with_the_header() {
    let found = parse(&["Bearer error=\"invalid_token", "Bearer realm=\"x\\"]);
    assert_eq!(found.error.as_deref(), Some("invalid_token"));
    assert_eq!(found.realm.as_deref(), Some("x"));
}

#[test]
fn what_comes_late_in_a_huge_header_is_not_read() {
    let with = |filler: usize| format!("Bearer realm=\"{}\", error=\"invalid_token\"", "x".repeat(filler));
    assert_eq!(parse(&[&with(MAX_HEADER_LENGTH - 100)]).error.as_deref(), Some("invalid_token"));
    assert_eq!(parse(&[&with(MAX_HEADER_LENGTH)]).error, None);
}

#[test]
fn a_huge_header_is_cut_within_no_character() {
    let header = format!("Bearer realm=\"{}", "\u{1f980}".repeat(MAX_HEADER_LENGTH));
    assert_eq!(parse(&[&header]).realm.unwrap().chars().count(), 200);
}

/// A parameter as a server might write it: name, value, and quoted form.
fn param() -> impl Strategy<Value = (String, String, String)> {
    let quoted = ("[a-z_]{1,12}", "[ -~]{0,30}").prop_map(|(name, value)| {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
        (format!("{name}=\"{escaped}\""), name, value)
    });
    let bare = ("[a-zA-Z_]{1,12}", "[a-z0-9:/._-]{1,20}", "[ \t]{0,2}").prop_map(|(name, value, space)| {
        let written = format!("{name}{space}={space}{value}");
        (written, name.to_ascii_lowercase(), value)
    });
    prop_oneof![quoted, bare]
}

type Written = (String, String, Vec<(String, String)>);

fn challenge() -> impl Strategy<Value = Written> {
    let params = prop::collection::vec(param(), 1..5);
    ("[A-Za-z][A-Za-z0-9-]{0,10}", params, "[ \t]{0,2},[ \t]{0,2}").prop_map(|(scheme, params, comma)| {
        let mut seen: Vec<(String, String)> = Vec::new();
        let mut written = Vec::new();
        for (text, name, value) in params {
            if seen.iter().all(|(known, _)| *known != name) {
                written.push(text);
                seen.push((name, value));
            }
        }
        (format!("{scheme} {}", written.join(&comma)), scheme, seen)
    })
}

proptest! {
    // AD-01: every written parameter is parsed, with any quoting, order and number.
    #[test]
    fn what_is_written_is_read(challenges in prop::collection::vec(challenge(), 1..5)) {
        let header = challenges.iter().map(|(text, ..)| text.as_str()).collect::<Vec<_>>().join(", ");
        let found: Vec<(String, Vec<(String, String)>)> =
            split_challenges(&header).into_iter().map(|raw| (raw.scheme.to_owned(), raw.params)).collect();
        let expected: Vec<_> = challenges.into_iter().map(|(_, scheme, params)| (scheme, params)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn nothing_panics(headers in prop::collection::vec(any::<String>(), 0..4)) {
        Challenge::parse(&headers);
    }

    #[test]
    fn nothing_that_looks_right_panics(header in "((Bearer|DPoP|x)|[ \t,=\"\\\\a-z\u{e9}\u{1f980}])*") {
        let found = Challenge::parse(&[header]);
        prop_assert!(found.scope.is_none_or(|scope| scope.iter().all(|scope| is_scope(scope))));
    }
}

// SC-03
#[test]
fn scopes_are_shown_only_if_they_are_wanted_and_harmless() {
    let wanted = |header: &str| missing_scopes(&[header.to_owned()]);
    assert_eq!(wanted("Bearer error=insufficient_scope, scope=\"a:read b\"").unwrap(), ["a:read", "b"]);
    assert_eq!(wanted("Bearer scope=b, error=\"insufficient_scope\"").unwrap(), ["b"]);
    assert_eq!(wanted("Bearer error=\"invalid_token\", scope=\"a\""), None);
    let odd = ["a $(reboot)".to_owned(), "x".repeat(101), "a;b".to_owned(), "a ".repeat(11) + "'"];
    for scope in odd {
        let header = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
        assert_eq!(wanted(&header).unwrap(), [""; 0], "{scope}");
    }
}
