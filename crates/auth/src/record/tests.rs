//! Login records: their keys, their life cycle, and what is stored of a client.

use bowline_testkit::with;
use std::time::Duration;

use super::*;
use crate::testing::client_settings;

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
        registered_redirect: None,
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
pub(crate) fn record(access: &str, refresh: Option<&str>, expires_at: Option<SystemTime>) -> LoginRecord {
    let details = LoginDetails {
        server: "search",
        url: &url(),
        auth: &AuthSettings::default(),
        metadata: &metadata(),
        resource: Some("https://mcp.example.com/mcp".to_owned()),
        client: Some(&client()),
        requested: vec!["read".to_owned()],
        dpop: None,
    };
    LoginRecord::new(
        details,
        tokens(access, refresh, expires_at),
        SystemTime::UNIX_EPOCH + Duration::from_secs(400_000 * 3600),
    )
}

fn id_token(claims: serde_json::Value) -> Secret {
    let payload = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    Secret::new(format!("eyJhbGciOiJub25lIn0.{payload}.sig"))
}

#[test]
fn servers_with_one_url_have_separate_logins_unless_they_share_an_account() {
    let (none, work, home) = (AuthSettings::default(), account("work"), account("home"));
    let key = |server, auth| LoginRecord::key(server, auth, &url());
    assert_ne!(key("a", &none), key("b", &none));
    assert_ne!(key("a", &work), key("a", &home));
    assert_ne!(key("a", &work), key("a", &none));
    assert_eq!(key("a", &work), key("b", &work), "one account, under two names");
    assert_ne!(key("a", &work), key("work", &none), "a label is not a name");
    let elsewhere = "https://mcp.example.org/mcp".parse().unwrap();
    assert_ne!(key("a", &work), LoginRecord::key("a", &work, &elsewhere));
}

fn account(label: &str) -> AuthSettings {
    with!(AuthSettings::default(), account: Some(label.to_owned()))
}

#[test]
fn a_record_is_for_its_url_and_label_alone() {
    let mut kept = record("a", None, None);
    assert!(kept.belongs_to(&AuthSettings::default(), &url()));
    assert!(!kept.belongs_to(&account("work"), &url()));
    assert!(!kept.belongs_to(&AuthSettings::default(), &"https://mcp.example.com/other".parse().unwrap()));
    kept.label = Some("work".to_owned());
    assert!(kept.belongs_to(&account("work"), &url()));
}

// AX-06
#[test]
fn a_token_that_is_not_bound_is_not_used_where_it_has_to_be() {
    let auth = |dpop| with!(AuthSettings::default(), dpop: dpop);
    let bearer = record("a", None, None);
    let bound = LoginRecord { scheme: Scheme::Dpop, ..bearer.clone() };
    assert!(!bearer.belongs_to(&auth(Dpop::Always), &url()));
    assert!(bound.belongs_to(&auth(Dpop::Always), &url()));
    assert!(bearer.belongs_to(&auth(Dpop::Auto), &url()) && bound.belongs_to(&auth(Dpop::Auto), &url()));
}

#[test]
fn a_record_survives_storage_with_an_absolute_expiry() {
    let end = SystemTime::UNIX_EPOCH + Duration::from_millis(1_893_456_000_123);
    let kept = record("access", Some("refresh"), Some(end));
    let text = serde_json::to_string(&kept).unwrap();
    let read: LoginRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(read, kept);
    assert_eq!(read.expires_at, Some(end));
}

#[test]
fn an_answer_without_a_refresh_token_keeps_the_old_one() {
    let now = SystemTime::now();
    let old = LoginRecord { granted: Some(vec!["read".to_owned()]), ..record("a1", Some("r1"), Some(now)) };
    let new = old.with_refreshed_tokens(&tokens("a2", None, None), now);
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
    let settings = |secret: &str| client_settings("ours", secret);
    let auth = |secret| with!(AuthSettings::default(), client: Some(settings(secret)));
    let configured = OAuthClient {
        id: "ours".to_owned(),
        secret: Some("old-secret".into()),
        origin: ClientOrigin::Configured,
        ..client()
    };
    let mut kept = record("a", Some("r"), None);
    kept.client = Some(StoredClient::from_client(&configured));
    assert!(!serde_json::to_string(&kept).unwrap().contains("old-secret"));
    let found = kept.client(&auth("new-secret")).unwrap().unwrap();
    assert_eq!((found.secret, found.method), (Some("new-secret".into()), TokenAuth::Basic));
    let gone = kept.client(&AuthSettings::default()).unwrap_err();
    assert_eq!(gone.kind, AuthErrorKind::LoginNeeded, "the configuration names it no more");
    let registered = record("a", Some("r"), None).client(&AuthSettings::default()).unwrap().unwrap();
    assert_eq!(registered, client(), "our own comes with its secret");
}

#[test]
fn who_logged_in_is_read_from_the_id_token_and_fit_to_be_shown() {
    let name = |claims| display_name(&id_token(claims));
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
        assert_eq!(display_name(&Secret::new(odd)), None, "{odd}");
    }
}

#[test]
fn a_machine_keeps_no_refresh_token() {
    let auth = with!(AuthSettings::default(), grant: Grant::ClientCredentials);
    let details = LoginDetails {
        server: "search",
        url: &url(),
        auth: &auth,
        metadata: &metadata(),
        resource: None,
        client: None,
        requested: Vec::new(),
        dpop: None,
    };
    let kept = LoginRecord::new(details, tokens("a", Some("r"), None), SystemTime::now());
    assert_eq!(kept.refresh, None);
    assert_eq!(kept.with_refreshed_tokens(&tokens("b", Some("r2"), None), SystemTime::now()).refresh, None);
}
