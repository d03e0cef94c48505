//! Metadata documents that are valid, invalid, and meant to mislead.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const ISSUER: &str = "https://as.example/t1";

fn server() -> Url {
    Url::parse("https://h.example/a/mcp").unwrap()
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

#[test]
fn everything_that_is_used_is_read() {
    let document = json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://as.example/authorize?p=1",
        "token_endpoint": "https://as.example/token",
        "registration_endpoint": "https://as.example/register",
        "device_authorization_endpoint": "https://as.example/device",
        "revocation_endpoint": "https://as.example/revoke",
        "scopes_supported": ["a", "offline_access", "not a scope", 3],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
        "grant_types_supported": ["authorization_code"],
        "authorization_grant_profiles_supported": ["urn:ietf:params:oauth:grant-profile:id-jag"],
        "dpop_signing_alg_values_supported": ["ES256"],
        "client_id_metadata_document_supported": true,
        "authorization_response_iss_parameter_supported": "true",
        "unknown": {"deep": [1, 2]},
    });
    let url = |text: &str| Some(Url::parse(text).unwrap());
    let expected = Metadata {
        issuer: ISSUER.to_owned(),
        authorization_endpoint: url("https://as.example/authorize?p=1"),
        token_endpoint: url("https://as.example/token"),
        registration_endpoint: url("https://as.example/register"),
        device_authorization_endpoint: url("https://as.example/device"),
        revocation_endpoint: url("https://as.example/revoke"),
        scopes_supported: Some(list(&["a", "offline_access"])),
        code_challenge_methods_supported: Some(list(&["S256"])),
        token_endpoint_auth_methods_supported: Some(list(&["none"])),
        token_endpoint_auth_signing_alg_values_supported: Some(list(&["ES256"])),
        grant_types_supported: Some(list(&["authorization_code"])),
        grant_profiles_supported: Some(list(&["urn:ietf:params:oauth:grant-profile:id-jag"])),
        dpop_signing_alg_values_supported: Some(list(&["ES256"])),
        client_id_metadata_document_supported: true,
        authorization_response_iss_parameter_supported: true,
    };
    assert_eq!(Metadata::parse(&document, &[ISSUER]).unwrap(), expected);
}

#[test]
fn ad_06_the_issuer_is_compared_to_the_letter() {
    for other in [
        json!("https://as.example/t1/"),
        json!("https://as.example:443/t1"),
        json!("https://AS.example/t1"),
        json!("https://as.example/%741"),
        json!("https://as.example"),
        json!("https://evil.example"),
        json!([ISSUER]),
        json!(null),
    ] {
        let error = Metadata::parse(&json!({"issuer": other}), &[ISSUER]).unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted, "{other}");
    }
    assert!(Metadata::parse(&json!({}), &[ISSUER]).is_err());
    let error = Metadata::parse(&json!({"issuer": "https://evil.example"}), &[ISSUER]).unwrap_err();
    assert!(error.what.contains(ISSUER) && error.what.contains("https://evil.example"), "{error}");
}

#[test]
fn errors_show_no_key_in_the_path_of_a_url() {
    const KEY: &str = "AbCdEf0123456789xyz";
    let server = Url::parse(&format!("https://h.example/mcp/{KEY}?key={KEY}")).unwrap();
    let resource = json!({"resource": format!("https://h.example/other/{KEY}")});
    let issuer = format!("https://as.example/tenants/{KEY}");
    let issuer_of = |other: &str| json!({"issuer": format!("https://as.example/{other}/{KEY}")});
    let endpoint = json!({"issuer": issuer, "token_endpoint": format!("http://as.example/{KEY}/token")});
    for (error, shown) in [
        (
            ResourceMetadata::parse(&resource, &server, None).unwrap_err(),
            "the metadata of https://h.example/mcp/… is about https://h.example/other/…, which is another server",
        ),
        (
            Metadata::parse(&issuer_of("others"), &[&issuer]).unwrap_err(),
            "the metadata of https://as.example/tenants/… names the issuer https://as.example/others/…, so it is \
             not used",
        ),
        (
            Metadata::parse(&endpoint, &[&issuer]).unwrap_err(),
            "token_endpoint of https://as.example/tenants/… cannot be used: http://as.example/…/token is neither \
             https nor on this machine",
        ),
        (
            parse_issuer(&format!("{issuer}?key={KEY}")).unwrap_err(),
            "the authorization server cannot be used: https://as.example/tenants/… has a query or a space, which \
             an issuer may not have",
        ),
        (
            parse_issuer(&format!("as.example/{KEY}")).unwrap_err(),
            "the authorization server cannot be used: as.example/… is not a valid URL",
        ),
    ] {
        assert_eq!(error.what, shown);
    }
}

#[test]
fn af_07_every_endpoint_is_https_or_on_this_machine() {
    let endpoints = [
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
        "device_authorization_endpoint",
        "revocation_endpoint",
    ];
    for name in endpoints {
        let with = |address: &str| Metadata::parse(&json!({"issuer": ISSUER, name: address}), &[ISSUER]);
        for fine in ["https://as.example/x", "http://127.0.0.1:9/x", "http://[::1]:9/x", "http://localhost/x"]
        {
            assert!(with(fine).is_ok(), "{name} {fine}");
        }
        for bad in [
            "http://as.example/x",
            "http://10.0.0.1/x",
            "http://localhost.evil.example/x",
            "http://127.0.0.1.evil.example/x",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "ftp://127.0.0.1/x",
            "https://as.example/x#y",
            "https://me:pw@as.example/x",
            "/relative",
            "",
        ] {
            assert_eq!(with(bad).unwrap_err().kind, AuthErrorKind::Untrusted, "{name} {bad}");
        }
        assert!(Metadata::parse(&json!({"issuer": ISSUER, name: 7}), &[ISSUER]).is_err());
        assert!(Metadata::parse(&json!({"issuer": ISSUER, name: null}), &[ISSUER]).is_ok());
    }
}

#[test]
fn an_unusable_address_says_why() {
    for (address, shown, why) in [
        ("/relative", "/relative", "is not a valid URL"),
        ("http://as.example/x", "http://as.example/x", "is neither https nor on this machine"),
        (
            "https://as.example/x#y",
            "https://as.example/x",
            "has a fragment or credentials, which are not allowed",
        ),
        (
            "https://me:pw@as.example/x",
            "https://as.example/x",
            "has a fragment or credentials, which are not allowed",
        ),
    ] {
        let error = parse_endpoint(address, "the page").unwrap_err();
        assert_eq!(error.what, format!("the page cannot be used: {shown} {why}"));
    }
    let error = parse_issuer("https://as.example/?x").unwrap_err();
    let why = "has a query or a space, which an issuer may not have";
    assert_eq!(error.what, format!("the authorization server cannot be used: https://as.example/ {why}"));
}

#[test]
fn ad_07_an_origin_that_describes_nothing_has_three_addresses() {
    let found = Metadata::with_default_endpoints("https://h.example:8443").unwrap();
    let text = |url: &Option<Url>| url.as_ref().map(Url::to_string).unwrap_or_default();
    assert_eq!(found.issuer, "https://h.example:8443");
    assert_eq!(text(&found.authorization_endpoint), "https://h.example:8443/authorize");
    assert_eq!(text(&found.token_endpoint), "https://h.example:8443/token");
    assert_eq!(text(&found.registration_endpoint), "https://h.example:8443/register");
    // AF-07 applies to default endpoints too.
    assert_eq!(
        Metadata::with_default_endpoints("http://h.example").unwrap_err().kind,
        AuthErrorKind::Untrusted
    );
}

#[test]
fn ad_03_metadata_of_another_server_is_refused() {
    let with = |resource: Value| ResourceMetadata::parse(&json!({"resource": resource}), &server(), None);
    let found = with(json!("https://h.example/a")).unwrap();
    assert_eq!(found.resource, "https://h.example/a");
    for other in [json!("https://evil.example/a/mcp"), json!("https://h.example/b"), json!(7), json!(null)] {
        assert_eq!(with(other.clone()).unwrap_err().kind, AuthErrorKind::Untrusted, "{other}");
    }
    // A user who configures `resource` vouches for the server.
    let document = json!({"resource": "api://mcp"});
    assert!(ResourceMetadata::parse(&document, &server(), Some("api://mcp")).is_ok());
    assert!(ResourceMetadata::parse(&document, &server(), Some("api://mcp/")).is_err());
}

#[test]
fn a_server_says_that_it_takes_bound_tokens() {
    let with = |more: Value| {
        let mut document = json!({"resource": "https://h.example"});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ResourceMetadata::parse(&document, &server(), None).unwrap().wants_dpop
    };
    assert!(with(json!({"dpop_bound_access_tokens_required": true})));
    assert!(with(json!({"dpop_signing_alg_values_supported": ["ES256"]})));
    assert!(!with(
        json!({"dpop_bound_access_tokens_required": false, "dpop_signing_alg_values_supported": []})
    ));
}

#[test]
fn lists_are_bounded() {
    let many: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    let document = json!({"resource": "https://h.example", "authorization_servers": many});
    let found = ResourceMetadata::parse(&document, &server(), None).unwrap();
    assert_eq!(found.authorization_servers.len(), MAX_LIST_LENGTH);
}

#[test]
fn what_is_said_in_an_error_is_bounded_and_harmless() {
    let evil = format!("https://evil.example/\u{1b}[2J{}", "x".repeat(1500));
    for error in [
        ResourceMetadata::parse(&json!({"resource": evil}), &server(), None).unwrap_err(),
        Metadata::parse(&json!({"issuer": evil}), &[ISSUER]).unwrap_err(),
        parse_endpoint(&format!("ftp{evil}"), "the address").unwrap_err(),
    ] {
        assert!(error.what.len() < 500 && !error.what.contains('\u{1b}'), "{error}");
    }
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "(https?://)?[ -~]{0,20}".prop_map(Value::from),
        Just(json!(ISSUER)),
    ];
    let value =
        leaf.prop_recursive(2, 16, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from));
    let name = prop::sample::select(vec![
        "issuer",
        "resource",
        "authorization_servers",
        "token_endpoint",
        "authorization_endpoint",
        "scopes_supported",
        "code_challenge_methods_supported",
        "client_id_metadata_document_supported",
    ]);
    prop::collection::hash_map(name, value, 0..8)
        .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

proptest! {
    // AD-06, AF-07: whatever the document says, accepted metadata has the right issuer and safe
    // URLs.
    #[test]
    fn what_is_believed_is_safe(document in document()) {
        if let Ok(found) = Metadata::parse(&document, &[ISSUER]) {
            prop_assert_eq!(&found.issuer, ISSUER);
            for url in [&found.authorization_endpoint, &found.token_endpoint].into_iter().flatten() {
                prop_assert!(url.scheme() == "https" || is_loopback(url), "{}", url);
            }
        }
        if let Ok(found) = ResourceMetadata::parse(&document, &server(), None) {
            prop_assert!(resource::covers(&found.resource, &server()));
        }
    }
}
