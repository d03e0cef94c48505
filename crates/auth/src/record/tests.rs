//! Login records: their keys, their life cycle, and what is stored of a client.

use std::time::Duration;

use bowline_config::ClientSettings;

use super::*;

/// A server's endpoint.
pub(crate) fn url() -> Url {
    "https://mcp.example.com/mcp".parse().unwrap()
}

/// An authorization server.
pub(crate) fn metadata() -> Metadata {
    serde_json::from_value(serde_json::json!({
        "issuer": "https://as.example.com",
        "token_endpoint": "https://as.example.com/token",
        "client_id_metadata_document_supported": false,
        "authorization_response_iss_parameter_supported": false,
    }))
    .unwrap()
}

/// A client that we registered.
pub(crate) fn client() -> OAuthClient {
    OAuthClient {
        id: "client-1".to_owned(),
        secret: Some(Secret::new("client-secret")),
        method: TokenAuth::Basic,
        key: None,
        audience: None,
        issuer: "https://as.example.com".to_owned(),
        origin: ClientOrigin::Registered,
        redirect: None,
    }
}

/// Tokens as from a token endpoint.
pub(crate) fn tokens(access: &str, refresh: Option<&str>, expires_at: Option<SystemTime>) -> Tokens {
    Tokens {
        access: access.into(),
        scheme: Scheme::Bearer,
        refresh: refresh.map(Secret::from),
        expires_at,
        scopes: None,
        id_token: None,
    }
}

/// A login record.
pub(crate) fn record(access: &str, refresh: Option<&str>, expires_at: Option<SystemTime>) -> Record {
    let made = Made {
        server: "search",
        url: &url(),
        auth: &Auth::default(),
        metadata: &metadata(),
        resource: Some("https://mcp.example.com/mcp".to_owned()),
        client: Some(&client()),
        requested: vec!["read".to_owned()],
        dpop: None,
    };
    Record::new(
        made,
        tokens(access, refresh, expires_at),
        SystemTime::UNIX_EPOCH + Duration::from_secs(400_000 * 3600),
    )
}

fn id_token(claims: serde_json::Value) -> Secret {
    let payload = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    Secret::new(format!("eyJhbGciOiJub25lIn0.{payload}.sig"))
}

#[test]
fn entries_with_the_same_url_are_kept_apart_unless_they_name_the_same_account() {
    let (none, work, home) = (Auth::default(), account("work"), account("home"));
    let key = |server, auth| Record::key(server, auth, &url());
    assert_ne!(key("a", &none), key("b", &none));
    assert_ne!(key("a", &work), key("a", &home));
    assert_ne!(key("a", &work), key("a", &none));
    assert_eq!(key("a", &work), key("b", &work), "one account, under two names");
    assert_ne!(key("a", &work), key("work", &none), "a label is not a name");
    let elsewhere = "https://mcp.example.org/mcp".parse().unwrap();
    assert_ne!(key("a", &work), Record::key("a", &work, &elsewhere));
}

fn account(label: &str) -> Auth {
    Auth { account: Some(label.to_owned()), ..Auth::default() }
}

#[test]
fn a_record_is_for_its_url_and_label_alone() {
    let mut kept = record("a", None, None);
    assert!(kept.is_for(&Auth::default(), &url()));
    assert!(!kept.is_for(&account("work"), &url()));
    assert!(!kept.is_for(&Auth::default(), &"https://mcp.example.com/other".parse().unwrap()));
    kept.label = Some("work".to_owned());
    assert!(kept.is_for(&account("work"), &url()));
}

// AX-06
#[test]
fn a_token_that_is_not_bound_is_not_used_where_it_has_to_be() {
    let auth = |dpop| Auth { dpop, ..Auth::default() };
    let bearer = record("a", None, None);
    let bound = Record { scheme: Scheme::Dpop, ..bearer.clone() };
    assert!(!bearer.is_for(&auth(Dpop::Always), &url()));
    assert!(bound.is_for(&auth(Dpop::Always), &url()));
    assert!(bearer.is_for(&auth(Dpop::Auto), &url()) && bound.is_for(&auth(Dpop::Auto), &url()));
}

#[test]
fn everything_survives_being_kept_and_the_end_is_absolute() {
    let end = SystemTime::UNIX_EPOCH + Duration::from_millis(1_893_456_000_123);
    let kept = record("access", Some("refresh"), Some(end));
    let text = serde_json::to_string(&kept).unwrap();
    let read: Record = serde_json::from_str(&text).unwrap();
    assert_eq!(read, kept);
    assert_eq!(read.expires_at, Some(end));
}

#[test]
fn an_answer_without_a_refresh_token_keeps_the_old_one() {
    let now = SystemTime::now();
    let old = Record { granted: Some(vec!["read".to_owned()]), ..record("a1", Some("r1"), Some(now)) };
    let new = old.renewed(&tokens("a2", None, None), now);
    assert_eq!(new.refresh, Some("r1".into()));
    assert_eq!(new.granted, old.granted, "what is not said has not changed");
    assert_eq!(new.expires_at, None, "what is not said is not known");
    assert_eq!(new.logged_in_at, old.logged_in_at);
    assert_eq!(new.refreshed_at, Some(now));
}

// TK-03
#[test]
fn debug_shows_no_secret() {
    let kept = record("access-token", Some("refresh-token"), None);
    let shown = format!("{kept:?}");
    for secret in ["access-token", "refresh-token", "client-secret"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn a_configured_secret_is_looked_up_again_and_never_kept() {
    let settings = |secret: &str| ClientSettings {
        id: "ours".to_owned(),
        secret: Some(secret.into()),
        method: None,
        key: None,
        audience: None,
    };
    let auth = |secret| Auth { client: Some(settings(secret)), ..Auth::default() };
    let configured = OAuthClient {
        id: "ours".to_owned(),
        secret: Some("old-secret".into()),
        origin: ClientOrigin::Configured,
        ..client()
    };
    let mut kept = record("a", Some("r"), None);
    kept.client = Some(KeptClient::of(&configured));
    assert!(!serde_json::to_string(&kept).unwrap().contains("old-secret"));
    let found = kept.client(&auth("new-secret")).unwrap().unwrap();
    assert_eq!((found.secret, found.method), (Some("new-secret".into()), TokenAuth::Basic));
    let gone = kept.client(&Auth::default()).unwrap_err();
    assert_eq!(gone.kind, AuthErrorKind::LoginNeeded, "the configuration names it no more");
    let registered = record("a", Some("r"), None).client(&Auth::default()).unwrap().unwrap();
    assert_eq!(registered, client(), "our own comes with its secret");
}

#[test]
fn who_logged_in_is_read_from_the_id_token_and_fit_to_be_shown() {
    let name = |claims| who(&id_token(claims));
    assert_eq!(
        name(serde_json::json!({"sub": "1", "email": "ada@example.com"})).as_deref(),
        Some("ada@example.com")
    );
    assert_eq!(
        name(serde_json::json!({"sub": "1", "name": "\u{1b}[2JAda\n"})).as_deref(),
        Some("[2JAda"),
        "nothing that moves a cursor"
    );
    assert_eq!(name(serde_json::json!({"sub": "x".repeat(10_000)})).unwrap().len(), 200);
    assert_eq!(name(serde_json::json!({"email": 7, "sub": ""})), None);
    for odd in ["", "a", "a.b", "a.!!.c", "a.bnVsbA.c"] {
        assert_eq!(who(&Secret::new(odd)), None, "{odd}");
    }
}

#[test]
fn a_machine_keeps_no_refresh_token() {
    let auth = Auth { grant: Grant::ClientCredentials, ..Auth::default() };
    let made = Made {
        server: "search",
        url: &url(),
        auth: &auth,
        metadata: &metadata(),
        resource: None,
        client: None,
        requested: Vec::new(),
        dpop: None,
    };
    let kept = Record::new(made, tokens("a", Some("r"), None), SystemTime::now());
    assert_eq!(kept.refresh, None);
    assert_eq!(kept.renewed(&tokens("b", Some("r2"), None), SystemTime::now()).refresh, None);
}
