//! Which login pages a person is sent to, and which hosts they are asked about.

use parking_lot::Mutex;

use bowline_config::{AuthSettings, Http};
use bowline_testkit::{AuthServer, with};
use bowline_transport::http::Proxies;

use super::*;
use crate::context::AuthContext;
use crate::discovery::Discovery;
use crate::discovery::tests::bare_discovery;
use crate::http_client::AuthHttpClient;
use crate::prompt::{DeviceCode, LoginPage, PageReply, PromptFuture};
use crate::testing::{self, RESOURCE};

/// Makes the same choice for every host, and records which hosts it was asked about.
struct Person {
    reply: ForeignHostChoice,
    hosts: Mutex<Vec<(String, String)>>,
}

impl Person {
    fn who(reply: ForeignHostChoice) -> Self {
        Self { reply, hosts: Mutex::default() }
    }

    fn hosts(&self) -> Vec<(String, String)> {
        self.hosts.lock().clone()
    }
}

impl LoginPrompt for Person {
    fn show_page(&self, _: LoginPage) -> PromptFuture<'_, PageReply> {
        panic!("nobody is to be sent there")
    }

    fn show_device_code(&self, _: DeviceCode) -> PromptFuture<'_, ()> {
        panic!("nobody is to be sent there")
    }

    fn confirm_foreign_host(&self, question: ForeignLoginHost) -> PromptFuture<'_, ForeignHostChoice> {
        self.hosts.lock().push((question.issuer_host, question.page_host));
        Box::pin(std::future::ready(self.reply))
    }
}

/// The context of a server at this URL, whose authorization server is `https://as.example`.
fn ctx(server: &str, auth: AuthSettings) -> AuthContext {
    let http = with!(Http::from_url(server.parse().unwrap()), auth: auth.clone());
    AuthContext {
        url: http.url.clone(),
        http_client: AuthHttpClient::new(&http, Proxies::Direct),
        ..testing::ctx(auth)
    }
}

async fn checked(ctx: &AuthContext, page: &str, prompt: Option<&Person>) -> Result<(), AuthError> {
    checked_by(ctx, &bare_discovery(), page, prompt).await
}

async fn checked_by(
    ctx: &AuthContext,
    discovery: &Discovery,
    page: &str,
    prompt: Option<&Person>,
) -> Result<(), AuthError> {
    let login = LoginParams { ctx, discovery, scopes: &[], resource: None, dpop: None };
    check(&login, &page.parse().unwrap(), prompt.map(|it| it as &dyn LoginPrompt)).await
}

// SE-01
#[tokio::test]
async fn se_01_a_public_server_sends_nobody_to_a_private_page() {
    let ctx = ctx("https://8.8.8.8/mcp", AuthSettings::default());
    let person = Person::who(ForeignHostChoice::Allowed);
    for page in [
        "http://127.0.0.1:8080/authorize",
        "http://localhost/authorize",
        "https://[::1]/",
        "https://10.0.0.1/",
        "https://0xa000001/",
        "https://192.168.1.1/cgi?set=1",
        "https://169.254.169.254/",
        "https://[fd00::1]/",
    ] {
        let error = checked(&ctx, page, Some(&person)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted, "{page}: {error}");
        assert!(error.hint.unwrap().contains("`issuer`"), "{page}");
    }
    assert_eq!(person.hosts(), []);
    // The user chose the configured issuer.
    let chosen = with!(AuthSettings::default(), issuer: Some("http://127.0.0.1:8080/realm".into()));
    let ctx = self::ctx("https://8.8.8.8/mcp", chosen);
    checked(&ctx, "http://127.0.0.1:8080/authorize", None).await.unwrap();
    assert_eq!(
        checked(&ctx, "http://127.0.0.1:8081/", None).await.unwrap_err().kind,
        AuthErrorKind::Untrusted
    );
}

#[tokio::test]
async fn a_server_of_this_machine_sends_people_anywhere() {
    let ctx = ctx(RESOURCE, AuthSettings::default());
    for page in ["http://127.0.0.1:8080/", "https://10.0.0.1/", "https://as.example/authorize"] {
        checked(&ctx, page, Some(&Person::who(ForeignHostChoice::Allowed))).await.unwrap();
    }
}

#[tokio::test]
async fn a_page_at_another_host_is_for_the_person_to_allow() {
    let ctx = ctx(RESOURCE, AuthSettings::default());
    let page = "https://accounts.example.org/authorize";
    let allows = Person::who(ForeignHostChoice::Allowed);
    checked(&ctx, page, Some(&allows)).await.unwrap();
    assert_eq!(allows.hosts(), [("as.example".to_owned(), "accounts.example.org".to_owned())]);

    let error = checked(&ctx, page, Some(&Person::who(ForeignHostChoice::Refused))).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Declined);
    for nobody in [None, Some(&Person::who(ForeignHostChoice::NotAsked))] {
        let error = checked(&ctx, page, nobody).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup);
        assert!(error.what.contains("accounts.example.org") && error.what.contains("https://as.example"));
        assert!(error.hint.unwrap().contains("`issuer = \"https://as.example\"`"));
    }
    let trusted = with!(AuthSettings::default(), issuer: Some("https://as.example".into()));
    checked(&self::ctx(RESOURCE, trusted), page, None).await.unwrap();
}

#[tokio::test]
async fn issuer_with_a_key_is_not_written_out() {
    let mut discovery = bare_discovery();
    discovery.metadata.issuer = "https://as.example/tenants/AbCdEf0123456789xyz".to_owned();
    let ctx = ctx(RESOURCE, AuthSettings::default());
    let page = "https://accounts.example.org/authorize";
    let error = checked_by(&ctx, &discovery, page, None).await.unwrap_err();
    assert!(error.what.starts_with("https://as.example/tenants/… has its login page at"), "{error}");
    let hint = "if that is right, set `issuer` in the server's `auth` to this authorization server";
    assert_eq!(error.hint.as_deref(), Some(hint));
}

#[test]
fn one_site_is_a_host_and_what_is_below_it() {
    let same = |one: &str, other: &str| {
        let url = |host: &str| Url::parse(&format!("https://{host}/")).unwrap();
        assert_eq!(is_same_site(&url(one), &url(other)), is_same_site(&url(other), &url(one)));
        is_same_site(&url(one), &url(other))
    };
    for (one, other) in [
        ("as.example", "as.example"),
        ("as.example", "AS.example."),
        ("as.example", "login.as.example"),
        ("as.example:8443", "as.example"),
        ("127.0.0.1:1", "localhost:2"),
        ("10.0.0.1", "10.0.0.1"),
    ] {
        assert!(same(one, other), "{one} {other}");
    }
    for (one, other) in [
        ("as.example", "as.example.org"),
        ("as.example", "notas.example"),
        ("login.as.example", "auth.as.example"),
        ("example", "as.example"),
        ("10.0.0.1", "0.0.1"),
        ("10.0.0.1", "10.0.0.2"),
    ] {
        assert!(!same(one, other), "{one} {other}");
    }
}

// A complete login: no client is registered and no page is shown.
#[tokio::test]
async fn nothing_is_registered_for_a_page_that_is_refused() {
    let server = AuthServer::start().await;
    let mut discovery = testing::discovery(&server);
    discovery.metadata.authorization_endpoint =
        Some("https://accounts.example.org/authorize".parse().unwrap());
    let ctx = testing::ctx(AuthSettings::default());
    let login =
        LoginParams { ctx: &ctx, discovery: &discovery, scopes: &[], resource: Some(RESOURCE), dpop: None };
    let refuses = Person::who(ForeignHostChoice::Refused);
    let error = super::super::login(&login, &refuses, super::super::LoginMethod::Page).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Declined);
    let error = super::super::begin(&login).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert_eq!(server.count("register"), 0);
    assert_eq!(refuses.hosts().len(), 1);
}
