//! Which credentials are sent over plain `http`.

use bowline_config::{AuthSettings, HeadersCommand, Http, Program};
use bowline_store::{EncryptedStore, Precondition};
use bowline_testkit::with;

use super::*;
use crate::error::{AuthError, AuthErrorKind};
use crate::identity::{Identity, LoginOptions, RefusedRequest};
use crate::record::LoginRecord;
use crate::record::tests::record;
use crate::testing::{self, client_settings, machine_auth};

/// An identity with a stored login.
async fn identity(http: Http) -> Identity {
    let store = EncryptedStore::in_memory();
    let login = LoginRecord { url: http.url.clone(), ..record("s3cret-token", None, None) };
    let key = LoginRecord::key("search", &http.auth, &http.url);
    store.put(&key, &login, Precondition::Absent).await.unwrap();
    testing::identity("search", http, store)
}

fn at(url: &str) -> Http {
    Http::from_url(url.parse().unwrap())
}

fn signed(identity: &Identity, url: &str) -> Option<String> {
    let mut headers = HeaderMap::new();
    identity.credentials().sign(&Method::POST, &url.parse().unwrap(), &mut headers);
    headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned())
}

fn is_plain_http(error: &AuthError) {
    assert_eq!(error.kind, AuthErrorKind::PlainHttp, "{error}");
    assert!(error.hint.as_ref().unwrap().contains("`allow_http = true`"));
}

#[tokio::test]
async fn a_token_is_not_sent_over_plain_http_to_another_machine() {
    let url = "http://mcp.example.com/mcp";
    let identity = identity(at(url)).await;
    is_plain_http(&identity.load().await.unwrap_err());
    // A caller that ignores the error sends no credentials.
    assert!(identity.has_credentials());
    assert_eq!(signed(&identity, url), None);
    let refusal = RefusedRequest {
        status: 401,
        challenges: Vec::new(),
        generation: identity.generation(),
        operation: "tools/list".to_owned(),
        background: false,
    };
    is_plain_http(&identity.reauthenticate(&refusal).await.unwrap_err());
    is_plain_http(&identity.login(&LoginOptions::default()).await.unwrap_err());
    is_plain_http(&identity.begin_login(&LoginOptions::default()).await.unwrap_err());
    is_plain_http(&identity.finish_login("http://127.0.0.1/callback?code=a&state=b").await.unwrap_err());
}

#[tokio::test]
async fn a_token_is_sent_where_it_is_allowed() {
    for http in [
        at("https://mcp.example.com/mcp"),
        at("http://127.0.0.1:1/mcp"),
        at("http://[::1]:1/mcp"),
        at("http://localhost:1/mcp"),
        with!(at("http://mcp.example.com/mcp"), allow_http: true),
    ] {
        let url = http.url.to_string();
        let identity = identity(http).await;
        identity.load().await.unwrap();
        assert_eq!(signed(&identity, &url).as_deref(), Some("Bearer s3cret-token"), "{url}");
    }
}

#[tokio::test]
async fn the_headers_command_is_not_run_if_headers_cannot_be_sent() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let program = Program::new("touch", [ran.to_str().unwrap()]);
    let command = HeadersCommand::new(program);
    let http = with!(at("http://mcp.example.com/mcp"), headers_command: Some(command));
    is_plain_http(&identity(http).await.load().await.unwrap_err());
    assert!(!ran.exists());
}

#[tokio::test]
async fn a_machine_requests_no_tokens_that_cannot_be_sent() {
    let http = with!(at("http://mcp.example.com/mcp"), auth: machine_auth());
    is_plain_http(&identity(http).await.login(&LoginOptions::default()).await.unwrap_err());
}

// Without credentials, plain `http` to another machine is allowed.
#[tokio::test]
async fn nothing_is_wrong_with_plain_http_without_credentials() {
    let http = at("http://mcp.example.com/mcp");
    testing::identity("search", http, EncryptedStore::in_memory()).load().await.unwrap();
}

// A response may still contain the token that was just replaced.
#[tokio::test]
async fn current_and_recent_secrets_are_redacted() {
    let store = EncryptedStore::in_memory();
    let client = Some(client_settings("bot", "configured-secret"));
    let http = with!(at("https://mcp.example.com/mcp"), auth: with!(AuthSettings::default(), client: client));
    let key = LoginRecord::key("search", &http.auth, &http.url);
    let identity = testing::identity("search", http, store.clone());
    let shown = |text: &str| identity.credentials().redactor().unwrap().redact_text(text).into_owned();
    assert_eq!(shown("configured-secret client-secret"), "[redacted] client-secret");
    let said = "token-one refresh-one token-two refresh-two client-secret";
    store.put(&key, &record("token-one", Some("refresh-one"), None), Precondition::Absent).await.unwrap();
    identity.load().await.unwrap();
    assert_eq!(shown(said), "[redacted] [redacted] token-two refresh-two [redacted]");
    store.put(&key, &record("token-two", Some("refresh-two"), None), Precondition::Any).await.unwrap();
    identity.load().await.unwrap();
    assert_eq!(shown(said), "[redacted] [redacted] [redacted] [redacted] [redacted]");
}
