//! Which credentials a client without a person sends to whom, from the server's refusal to the
//! tokens.

use bowline_config::{AuthSettings, Grant, Http, TokenSource};
use bowline_store::EncryptedStore;
use bowline_testkit::with;
use serde_json::json;

use super::*;
use crate::identity::{Identity, LoginOptions};
use crate::test_site::TestSite;
use crate::testing::{self, machine_auth};

fn identity(server: &TestSite, auth: AuthSettings) -> Identity {
    identity_with(server, auth, EncryptedStore::in_memory())
}

fn identity_with(server: &TestSite, auth: AuthSettings, store: EncryptedStore) -> Identity {
    testing::identity("metrics", with!(Http::from_url(server.url("/mcp")), auth: auth), store)
}

/// Makes a server name this authorization server.
fn names(server: &TestSite, issuer: &TestSite) {
    let about = json!({"resource": server.url("/mcp").as_str(), "authorization_servers": [issuer.origin()]});
    server.respond_only("/.well-known/oauth-protected-resource/mcp", 200, about);
}

/// An authorization server that issues tokens.
async fn issuer() -> TestSite {
    let site = TestSite::start().await;
    let about = json!({"issuer": site.origin(), "token_endpoint": site.url("/token").as_str()});
    site.respond("/.well-known/oauth-authorization-server", 200, about);
    site.respond("/token", 200, json!({"access_token": "t", "token_type": "Bearer"}));
    site
}

fn asked_for_tokens(site: &TestSite) -> usize {
    site.request_lines().iter().filter(|line| *line == "POST /token").count()
}

async fn log_in(identity: &Identity) -> Result<Account, AuthError> {
    identity.login(&LoginOptions::default()).await
}

// AD-07 is only for logins with a person: a machine client sends no secret to assumed endpoints.
#[tokio::test]
async fn a_machine_sends_nothing_to_assumed_endpoints() {
    let assertion = Grant::Workload(TokenSource::Value(Secret::new("a.b.c")));
    for auth in [machine_auth(), with!(AuthSettings::default(), grant: assertion)] {
        let server = TestSite::start().await;
        server.respond("/token", 200, json!({"access_token": "t", "token_type": "Bearer"}));
        let error = log_in(&identity(&server, auth)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup, "{error}");
        assert!(error.hint.unwrap().contains("`issuer`"));
        assert_eq!(asked_for_tokens(&server), 0);
        assert!(server.requests().iter().all(|asked| !asked.headers.contains_key("authorization")));
    }
}

// AR-04
#[tokio::test]
async fn a_configured_client_belongs_to_its_first_issuer_until_logout() {
    let (server, one, two) = (TestSite::start().await, issuer().await, issuer().await);
    let identity = identity(&server, machine_auth());
    names(&server, &one);
    log_in(&identity).await.unwrap();
    names(&server, &two);
    let error = log_in(&identity).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup, "{error}");
    assert!(error.hint.unwrap().contains("`issuer`"));
    assert_eq!(asked_for_tokens(&two), 0);
    identity.logout().await.unwrap();
    assert_eq!(log_in(&identity).await.unwrap().issuer, two.origin());
}

// AR-04: otherwise the first issuer that a server names, even by mistake, would exclude all others
// forever.
#[tokio::test]
async fn a_refusing_issuer_does_not_claim_a_configured_client() {
    let (server, one, two) = (TestSite::start().await, issuer().await, issuer().await);
    one.respond_only("/token", 401, json!({"error": "invalid_client"}));
    let identity = identity(&server, machine_auth());
    names(&server, &one);
    assert_eq!(log_in(&identity).await.unwrap_err().kind, AuthErrorKind::InvalidClient);
    names(&server, &two);
    assert_eq!(log_in(&identity).await.unwrap().issuer, two.origin());
}

#[tokio::test]
async fn a_configured_client_stays_where_another_account_is_logged_in_with_it() {
    let (server, one, two) = (TestSite::start().await, issuer().await, issuer().await);
    let store = EncryptedStore::in_memory();
    let account = |label: &str| {
        let auth = with!(machine_auth(), account: Some(label.to_owned()));
        identity_with(&server, auth, store.clone())
    };
    let (work, home) = (account("work"), account("home"));
    names(&server, &one);
    log_in(&work).await.unwrap();
    log_in(&home).await.unwrap();
    names(&server, &two);
    work.logout().await.unwrap();
    assert_eq!(log_in(&work).await.unwrap_err().kind, AuthErrorKind::Setup);
    home.logout().await.unwrap();
    log_in(&work).await.unwrap();
}

/// The responses of an open server to a request without credentials.
const LET_IN: [(u16, &str); 4] = [
    (200, r#"{"jsonrpc":"2.0","id":0,"result":{}}"#),
    (400, r#"{"error":"Missing session ID"}"#),
    (405, ""),
    (406, ""),
];

#[tokio::test]
async fn an_open_server_needs_no_login() {
    for (status, body) in LET_IN {
        for auth in [AuthSettings::default(), machine_auth()] {
            let server = TestSite::start().await;
            server.respond("/mcp", status, body);
            let identity = identity(&server, auth);
            let error = log_in(&identity).await.unwrap_err();
            assert_eq!(error.kind, AuthErrorKind::NotNeeded, "{status}: {error}");
            assert_eq!(asked_for_tokens(&server), 0);
            assert!(!server.request_lines().iter().any(|line| line == "POST /register"));
        }
        let server = TestSite::start().await;
        server.respond("/mcp", status, body);
        let begun = identity(&server, AuthSettings::default()).begin_login(&LoginOptions::default()).await;
        assert_eq!(begun.unwrap_err().kind, AuthErrorKind::NotNeeded);
    }
    // The server refuses without naming an authorization server, or does not exist.
    for status in [401, 403, 404] {
        let server = TestSite::start().await;
        server.respond("/mcp", status, "");
        assert_eq!(
            log_in(&identity(&server, machine_auth())).await.unwrap_err().kind,
            AuthErrorKind::Setup,
            "{status}"
        );
    }
}

// Some calls may still need a login.
#[tokio::test]
async fn an_open_server_that_names_an_authorization_server_is_logged_in_to() {
    let (server, one) = (TestSite::start().await, issuer().await);
    server.respond("/mcp", LET_IN[0].0, LET_IN[0].1);
    names(&server, &one);
    assert_eq!(log_in(&identity(&server, machine_auth())).await.unwrap().issuer, one.origin());
}
