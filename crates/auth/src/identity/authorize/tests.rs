//! Which credentials a client without a person sends to whom, from the server's refusal to the
//! tokens.

use bowline_config::{Auth, ClientSettings, Grant, Http, Supply};
use bowline_transport::http::Proxies;
use serde_json::json;

use super::*;
use crate::ctx::App;
use crate::identity::{Identity, IdentitySetup};
use crate::site::Site;

fn machine() -> Auth {
    let client = ClientSettings {
        id: "bot".to_owned(),
        secret: Some(Secret::new("hunter2")),
        method: None,
        key: None,
        audience: None,
    };
    Auth { grant: Grant::ClientCredentials, client: Some(client), ..Auth::default() }
}

fn identity(server: &Site, auth: Auth) -> Identity {
    Identity::new(IdentitySetup {
        server: "metrics".into(),
        http: Http { auth, ..Http::plain(server.url("/mcp")) },
        app: Arc::new(App::default()),
        safe: Safe::in_memory(),
        prompt: None,
        proxies: Proxies::Direct,
    })
}

/// Makes a server name this authorization server.
fn names(server: &Site, issuer: &Site) {
    let about = json!({"resource": server.url("/mcp").as_str(), "authorization_servers": [issuer.origin()]});
    server.replace("/.well-known/oauth-protected-resource/mcp", 200, about);
}

/// An authorization server that issues tokens.
async fn issuer() -> Site {
    let site = Site::start().await;
    let about = json!({"issuer": site.origin(), "token_endpoint": site.url("/token").as_str()});
    site.answer("/.well-known/oauth-authorization-server", 200, about);
    site.answer("/token", 200, json!({"access_token": "t", "token_type": "Bearer"}));
    site
}

fn asked_for_tokens(site: &Site) -> usize {
    site.lines().iter().filter(|line| *line == "POST /token").count()
}

async fn log_in(identity: &Identity) -> Result<Account, AuthError> {
    identity.login(&LoginOptions::default()).await
}

// AD-07 is only for logins with a person: a machine client sends no secret to assumed endpoints.
#[tokio::test]
async fn a_machine_shows_nothing_to_an_address_that_nobody_described() {
    let assertion = Grant::Workload(Supply::Value(Secret::new("a.b.c")));
    for auth in [machine(), Auth { grant: assertion, ..Auth::default() }] {
        let server = Site::start().await;
        server.answer("/token", 200, json!({"access_token": "t", "token_type": "Bearer"}));
        let error = log_in(&identity(&server, auth)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup, "{error}");
        assert!(error.hint.unwrap().contains("`issuer`"));
        assert_eq!(asked_for_tokens(&server), 0);
        assert!(server.asked().iter().all(|asked| !asked.headers.contains_key("authorization")));
    }
}

// AR-04
#[tokio::test]
async fn a_configured_client_belongs_to_who_gave_tokens_for_it_until_the_logout() {
    let (server, one, two) = (Site::start().await, issuer().await, issuer().await);
    let identity = identity(&server, machine());
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
async fn a_configured_client_does_not_belong_to_who_refuses_it() {
    let (server, one, two) = (Site::start().await, issuer().await, issuer().await);
    one.replace("/token", 401, json!({"error": "invalid_client"}));
    let identity = identity(&server, machine());
    names(&server, &one);
    assert_eq!(log_in(&identity).await.unwrap_err().kind, AuthErrorKind::InvalidClient);
    names(&server, &two);
    assert_eq!(log_in(&identity).await.unwrap().issuer, two.origin());
}

#[tokio::test]
async fn a_configured_client_stays_where_another_account_is_logged_in_with_it() {
    let (server, one, two) = (Site::start().await, issuer().await, issuer().await);
    let safe = Safe::in_memory();
    let account = |label: &str| {
        Identity::new(IdentitySetup {
            server: "metrics".into(),
            http: Http {
                auth: Auth { account: Some(label.to_owned()), ..machine() },
                ..Http::plain(server.url("/mcp"))
            },
            app: Arc::new(App::default()),
            safe: safe.clone(),
            prompt: None,
            proxies: Proxies::Direct,
        })
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
        for auth in [Auth::default(), machine()] {
            let server = Site::start().await;
            server.answer("/mcp", status, body);
            let identity = identity(&server, auth);
            let error = log_in(&identity).await.unwrap_err();
            assert_eq!(error.kind, AuthErrorKind::NotNeeded, "{status}: {error}");
            assert_eq!(asked_for_tokens(&server), 0);
            assert!(!server.lines().iter().any(|line| line == "POST /register"));
        }
        let server = Site::start().await;
        server.answer("/mcp", status, body);
        let begun = identity(&server, Auth::default()).begin_login(&LoginOptions::default()).await;
        assert_eq!(begun.unwrap_err().kind, AuthErrorKind::NotNeeded);
    }
    // The server refuses without naming an authorization server, or does not exist.
    for status in [401, 403, 404] {
        let server = Site::start().await;
        server.answer("/mcp", status, "");
        assert_eq!(
            log_in(&identity(&server, machine())).await.unwrap_err().kind,
            AuthErrorKind::Setup,
            "{status}"
        );
    }
}

// Some calls may still need a login.
#[tokio::test]
async fn an_open_server_that_names_an_authorization_server_is_logged_in_to() {
    let (server, one) = (Site::start().await, issuer().await);
    server.answer("/mcp", LET_IN[0].0, LET_IN[0].1);
    names(&server, &one);
    assert_eq!(log_in(&identity(&server, machine())).await.unwrap().issuer, one.origin());
}
