//! Responses that belong to the login, and some that only look like it.

use proptest::prelude::*;

use super::*;

const ISSUER: &str = "https://as.example/t1";
const ENCODED: &str = "https%3A%2F%2Fas.example%2Ft1";
const EVIL: &str = "https%3A%2F%2Fevil.example";

fn pending(iss_required: bool) -> ExpectedResponse {
    ExpectedResponse { issuer: ISSUER.to_owned(), state: Secret::new("s-1"), iss_required }
}

fn code(text: &str) -> CallbackOutcome {
    CallbackOutcome::Code(Secret::new(text))
}

fn asked(brought: &str, iss_required: bool) -> Result<CallbackOutcome, AuthErrorKind> {
    parse(brought, &pending(iss_required)).map_err(|error| error.kind)
}

#[test]
fn af_03_another_state_is_not_ours() {
    for brought in [
        "code=c",
        "code=c&state=",
        "code=c&state=s-2",
        "code=c&state=S-1",
        "code=c&state=s-1&state=s-1",
        "code=c&state=s-2&state=s-1",
        "error=access_denied&state=s-2",
        "error=access_denied",
        "http://127.0.0.1:7/callback?code=c&state=s-2",
        "http://127.0.0.1:7/callback",
        "",
        "  ",
    ] {
        assert_eq!(asked(brought, false), Ok(CallbackOutcome::NotThisLogin), "{brought}");
    }
    assert_eq!(require_code("code=c&state=s-2", &pending(false)).unwrap_err().kind, AuthErrorKind::Untrusted);
}

#[test]
fn af_05_the_four_rows_and_a_wrong_issuer() {
    let refused = Err(AuthErrorKind::Untrusted);
    let good = format!("code=c&state=s-1&iss={ENCODED}");
    let wrong = format!("code=c&state=s-1&iss={EVIL}");
    assert_eq!(asked(&good, true), Ok(code("c")));
    assert_eq!(asked("code=c&state=s-1", true), refused);
    assert_eq!(asked(&good, false), Ok(code("c")));
    assert_eq!(asked("code=c&state=s-1", false), Ok(code("c")));
    assert_eq!(asked(&wrong, true), refused);
    assert_eq!(asked(&wrong, false), refused);
    assert_eq!(asked(&format!("{good}&iss={ENCODED}"), true), refused);
}

#[test]
fn af_06_nothing_is_normalized() {
    for iss in [
        "https%3A%2F%2Fas.example%2Ft1%2F",
        "https%3A%2F%2FAS.example%2Ft1",
        "https%3A%2F%2Fas.example%3A443%2Ft1",
        "https%3A%2F%2Fas.example%2F%25741",
        "",
    ] {
        let brought = format!("code=c&state=s-1&iss={iss}");
        assert_eq!(asked(&brought, false), Err(AuthErrorKind::Untrusted), "{iss}");
    }
}

#[test]
fn af_06_a_foreign_error_is_neither_shown_nor_acted_on() {
    for (brought, required) in [
        (format!("error=access_denied&error_description=call+1-800&state=s-1&iss={EVIL}"), false),
        ("error=access_denied&error_description=call+1-800&state=s-1".to_owned(), true),
    ] {
        let error = parse(&brought, &pending(required)).unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted);
        assert!(!error.what.contains("1-800") && !error.what.contains("access_denied"), "{error}");
    }
}

#[test]
fn errors_of_the_issuer_are_told_apart_and_shown_bounded() {
    let kind = |name: &str| asked(&format!("error={name}&state=s-1&iss={ENCODED}"), true).unwrap_err();
    assert_eq!(kind("access_denied"), AuthErrorKind::Declined);
    assert_eq!(kind("unauthorized_client"), AuthErrorKind::InvalidClient);
    assert_eq!(kind("temporarily_unavailable"), AuthErrorKind::Unavailable);
    assert_eq!(kind("invalid_scope"), AuthErrorKind::Refused);
    let long = "x".repeat(3000);
    let error = parse(&format!("error=odd%1B&error_description=why%0A{long}&state=s-1"), &pending(false))
        .unwrap_err();
    assert!(error.what.contains("why") && error.what.len() < 500, "{error}");
    assert!(!error.what.chars().any(char::is_control));
    // A response with both an error and a code is an error.
    assert_eq!(asked("error=access_denied&code=c&state=s-1", false), Err(AuthErrorKind::Declined));
}

#[test]
fn a_person_brings_an_address_a_query_or_a_code() {
    for brought in [
        "http://127.0.0.1:7/callback?code=a%2Bb&state=s-1",
        "  \"http://127.0.0.1:7/callback?code=a%2Bb&state=s-1\"\n",
        "<https://elsewhere.example/cb?state=s-1&code=a%2Bb#_=_>",
        "?state=s-1&code=a%2Bb",
        "'code=a%2Bb&state=s-1'",
        "http://127.0.0.1:7/callback?code=a%2\n   Bb&sta\nte=s-1",
    ] {
        assert_eq!(asked(brought, false), Ok(code("a+b")), "{brought}");
    }
    assert_eq!(asked(" a+b/c== ", false), Ok(code("a+b/c==")));
    assert_eq!(asked("`4/0AX4XfWh`", false), Ok(code("4/0AX4XfWh")));
}

#[test]
fn af_05_a_bare_code_cannot_say_who_gave_it() {
    assert_eq!(asked("a-code", true), Err(AuthErrorKind::Untrusted));
}

#[test]
fn the_address_of_the_login_page_is_no_answer() {
    let page = "https://as.example/authorize?response_type=code&client_id=c&state=s-1&code_challenge=x";
    assert_eq!(asked(page, false), Ok(CallbackOutcome::NotThisLogin));
}

#[test]
fn a_code_that_comes_twice_is_refused() {
    assert_eq!(asked("code=a&code=b&state=s-1", false), Err(AuthErrorKind::Untrusted));
}

#[test]
fn the_secrets_are_not_shown() {
    let shown = format!("{:?} {:?}", pending(true), parse("code=c-9&state=s-1", &pending(false)).unwrap());
    assert!(!shown.contains("s-1") && !shown.contains("c-9"), "{shown}");
}

proptest! {
    // AF-03, AF-05: with any query, a code needs the right state and a right or absent issuer.
    #[test]
    fn no_code_without_state_and_issuer(query in "((code|state|iss|error)=(c|s-1|s-2|https%3A%2F%2Fas.example%2Ft1|x)?&?){0,6}") {
        if let Ok(CallbackOutcome::Code(_)) = parse(&format!("http://127.0.0.1/cb?{query}"), &pending(true)) {
            let fields: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
            prop_assert!(fields.iter().filter(|(name, _)| name == "state").all(|(_, value)| value == "s-1"));
            prop_assert!(fields.iter().any(|(name, value)| name == "iss" && value == ISSUER));
            prop_assert!(fields.iter().all(|(name, _)| name != "error"));
        }
    }

    #[test]
    fn nothing_panics(brought in any::<String>(), iss_required in any::<bool>()) {
        let _ = parse(&brought, &pending(iss_required));
    }
}
