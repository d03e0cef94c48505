//! Which client is used at an authorization server, as its requests show.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline_config::{AuthSettings, Secret};
use bowline_testkit::with;
use serde_json::json;

use super::*;
use crate::discovery::tests::bare_discovery;
use crate::test_site::TestSite;
use crate::testing::client_settings;

const DOCUMENT: &str = "https://bowline.example/client.json";

/// An authorization server at this site that allows registration.
fn discovery(site: &TestSite) -> Discovery {
    let mut discovery = bare_discovery();
    discovery.metadata.issuer = site.origin().to_owned();
    discovery.metadata.registration_endpoint = Some(site.url("/register"));
    discovery
}

fn registers(site: &TestSite, id: &str) {
    site.respond("/register", 201, json!({"client_id": id}));
}

fn redirect(port: u16) -> Url {
    format!("http://127.0.0.1:{port}/callback").parse().unwrap()
}

fn list(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn configured_auth(issuer: Option<&str>) -> AuthSettings {
    with!(AuthSettings::default(), client: Some(client_settings("by-hand", "s")), issuer: issuer.map(str::to_owned))
}

#[tokio::test]
async fn ar_01_configured_then_document_then_registration_then_nothing() {
    let site = TestSite::start().await;
    registers(&site, "dynamic");
    let mut discovery = discovery(&site);
    discovery.metadata.client_id_metadata_document_supported = true;
    let document = Some(Url::parse(DOCUMENT).unwrap());
    let mut auth = with!(configured_auth(None), client_metadata_url: document.clone());
    let to = redirect(1);

    let client = client_for(&site.ctx("/", auth.clone()), &discovery, &to, &[]).await.unwrap();
    assert_eq!((client.id.as_str(), client.origin), ("by-hand", ClientOrigin::Configured));
    assert_eq!(client.method, TokenAuth::Basic);

    auth.client = None;
    let client = client_for(&site.ctx("/", auth.clone()), &discovery, &to, &[]).await.unwrap();
    assert_eq!((client.id.as_str(), client.origin), (DOCUMENT, ClientOrigin::Document));
    assert_eq!((client.method, client.secret), (TokenAuth::None, None));
    assert_eq!(site.request_lines(), [""; 0], "nobody was asked so far");

    // Without support for documents, or without a document.
    discovery.metadata.client_id_metadata_document_supported = false;
    let client = client_for(&site.ctx("/", auth), &discovery, &to, &[]).await.unwrap();
    assert_eq!((client.id.as_str(), client.origin), ("dynamic", ClientOrigin::Registered));
    discovery.metadata.client_id_metadata_document_supported = true;
    let client = client_for(&site.ctx("/", AuthSettings::default()), &discovery, &to, &[]).await.unwrap();
    assert_eq!(client.origin, ClientOrigin::Registered);

    discovery.metadata.registration_endpoint = None;
    let error = client_for(&site.ctx("/", AuthSettings::default()), &discovery, &to, &[]).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert!(error.hint.unwrap().contains("client_id"));
}

#[tokio::test]
async fn the_document_of_the_app_is_used_where_the_server_has_none() {
    let site = TestSite::start().await;
    let mut discovery = discovery(&site);
    discovery.metadata.client_id_metadata_document_supported = true;
    let mut ctx = site.ctx("/", AuthSettings::default());
    ctx.app = std::sync::Arc::new(App { metadata_url: Some(DOCUMENT.parse().unwrap()), ..App::default() });
    let client = client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap();
    assert_eq!(client.id, DOCUMENT);
}

#[test]
fn ar_02_what_can_be_a_client_id() {
    let check = |text: &str| check_document_url(&text.parse().unwrap()).map_err(|error| error.kind);
    for fine in [DOCUMENT, "https://x.example/a/b?c=d", "https://x.example:8443/a"] {
        assert_eq!(check(fine), Ok(()), "{fine}");
    }
    // The URL is used after dot segments are resolved.
    assert_eq!(Url::parse("https://x.example/a/%2e%2E/b/./c").unwrap().as_str(), "https://x.example/b/c");
    for bad in [
        "http://x.example/a",
        "https://x.example",
        "https://x.example/",
        "https://x.example/a#b",
        "https://me@x.example/a",
        "https://x.example/a/..",
        "https://x.example/%2e",
        "file:///a",
    ] {
        assert_eq!(check(bad), Err(AuthErrorKind::Setup), "{bad}");
    }
}

#[test]
fn ar_02_the_document_names_its_own_url() {
    let app = App {
        name: "Bowline".into(),
        uri: Some("https://bowline.example/".parse().unwrap()),
        metadata_url: None,
    };
    let document = client_metadata_document(&app, &DOCUMENT.parse().unwrap()).unwrap();
    assert_eq!(document["client_id"], DOCUMENT);
    assert_eq!(document["client_name"], "Bowline");
    assert_eq!(document["client_uri"], "https://bowline.example/");
    assert_eq!(document["application_type"], "native");
    // TK-05
    assert!(document["grant_types"].as_array().unwrap().contains(&json!("refresh_token")));
    assert!(!document["redirect_uris"].as_array().unwrap().is_empty());
    assert!(client_metadata_document(&app, &"http://x.example/a".parse().unwrap()).is_err());
}

#[tokio::test]
async fn ar_04_a_registration_is_kept_for_its_issuer_and_shown_to_no_other() {
    let (one, two) = (TestSite::start().await, TestSite::start().await);
    one.respond("/register", 201, json!({"client_id": "c-1", "client_secret": "s-1"}));
    two.respond("/register", 201, json!({"client_id": "c-2", "client_secret": "s-2"}));
    let ctx = one.ctx("/", AuthSettings::default());
    let (at_one, at_two) = (discovery(&one), discovery(&two));
    let first = client_for(&ctx, &at_one, &redirect(1), &[]).await.unwrap();
    assert_eq!(first.secret, Some(Secret::new("s-1")));
    assert_eq!(client_for(&ctx, &at_one, &redirect(1), &[]).await.unwrap(), first);
    assert_eq!(one.request_lines().len(), 1, "it was kept, secret and all");
    let second = client_for(&ctx, &at_two, &redirect(1), &[]).await.unwrap();
    assert_eq!((second.id.as_str(), second.issuer.as_str()), ("c-2", two.origin()));
    assert!(two.requests().iter().all(|asked| !asked.body.contains("c-1") && !asked.body.contains("s-1")));
    confirm_client(&ctx, &first).await.unwrap();
    assert_eq!(client_for(&ctx, &at_one, &redirect(1), &[]).await.unwrap(), first);
}

/// An authorization server that has forgotten a client says so only on a page. The login fails, and
/// the next one has to work.
#[tokio::test]
async fn a_client_in_doubt_is_registered_again() {
    let site = TestSite::start().await;
    registers(&site, "c-1");
    registers(&site, "c-2");
    let (ctx, mut discovery) = (site.ctx("/", AuthSettings::default()), discovery(&site));
    let first = client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap();
    for _ in 0..3 {
        confirm_client(&ctx, &first).await.unwrap();
        assert_eq!(
            client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap().id,
            "c-1",
            "as long as it is good"
        );
    }
    // Where no other client can be registered, it is used again.
    let endpoint = discovery.metadata.registration_endpoint.take();
    assert_eq!(client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap().id, "c-1");
    discovery.metadata.registration_endpoint = endpoint;
    assert_eq!(client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap().id, "c-2");
}

#[tokio::test]
async fn ar_04_a_configured_client_stays_with_its_issuer() {
    let (one, two) = (TestSite::start().await, TestSite::start().await);
    let (at_one, at_two) = (discovery(&one), discovery(&two));
    // With a configured issuer.
    let ctx = one.ctx("/", configured_auth(Some(one.origin())));
    assert!(client_for(&ctx, &at_one, &redirect(1), &[]).await.is_ok());
    let error = client_for(&ctx, &at_two, &redirect(1), &[]).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert!(error.what.contains(one.origin()) && error.what.contains(two.origin()), "{error}");
    // Without one, the first issuer that issues tokens. Before that it belongs to none.
    let mut ctx = one.ctx("/", configured_auth(None));
    assert!(client_for(&ctx, &at_two, &redirect(1), &[]).await.is_ok());
    let client = client_for(&ctx, &at_one, &redirect(1), &[]).await.unwrap();
    confirm_client(&ctx, &client).await.unwrap();
    assert!(client_for(&ctx, &at_one, &redirect(1), &[]).await.is_ok());
    let error = client_for(&ctx, &at_two, &redirect(1), &[]).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert!(error.what.contains(one.origin()) && error.what.contains(two.origin()), "{error}");
    assert!(error.hint.unwrap().contains("set `issuer`"));
    // A configured issuer overrides the stored one.
    ctx.auth = std::sync::Arc::new(configured_auth(Some(two.origin())));
    let client = client_for(&ctx, &at_two, &redirect(1), &[]).await.unwrap();
    // With a configured issuer, nothing is stored or changed.
    confirm_client(&ctx, &client).await.unwrap();
    ctx.auth = std::sync::Arc::new(configured_auth(None));
    assert!(client_for(&ctx, &at_two, &redirect(1), &[]).await.is_err());
    unbind_client(&ctx, "by-hand", &ctx.url).await.unwrap();
    assert!(client_for(&ctx, &at_two, &redirect(1), &[]).await.is_ok());
    assert_eq!((one.request_lines().len(), two.request_lines().len()), (0, 0));
}

#[tokio::test]
async fn a_registration_is_for_one_redirect_and_its_port_is_remembered() {
    let site = TestSite::start().await;
    registers(&site, "c-1");
    registers(&site, "c-2");
    registers(&site, "c-3");
    let (ctx, discovery) = (site.ctx("/", AuthSettings::default()), discovery(&site));
    assert_eq!(stored_port(&ctx, &discovery).await, None);
    let first = client_for(&ctx, &discovery, &redirect(4001), &[]).await.unwrap();
    assert_eq!(stored_port(&ctx, &discovery).await, Some(4001));
    // Another program uses the port.
    let second = client_for(&ctx, &discovery, &redirect(4002), &[]).await.unwrap();
    assert_eq!((first.id.as_str(), second.id.as_str()), ("c-1", "c-2"));
    assert_eq!(stored_port(&ctx, &discovery).await, Some(4002));
    assert_eq!(client_for(&ctx, &discovery, &redirect(4001), &[]).await.unwrap(), first);
    // A redirect elsewhere has no listener.
    let elsewhere = "https://bowline.example/callback".parse().unwrap();
    client_for(&ctx, &discovery, &elsewhere, &[]).await.unwrap();
    assert_eq!(stored_port(&ctx, &discovery).await, Some(4002));
    assert_eq!(site.request_lines().len(), 3);
}

#[tokio::test]
async fn a_registration_is_for_the_scopes_it_was_made_for() {
    let site = TestSite::start().await;
    registers(&site, "c-1");
    registers(&site, "c-2");
    let (ctx, mut discovery) = (site.ctx("/", AuthSettings::default()), discovery(&site));
    discovery.scopes = Some(list("a b"));
    client_for(&ctx, &discovery, &redirect(1), &list("a")).await.unwrap();
    assert_eq!(site.requests()[0].json()["scope"], "a b", "what the server knows may be asked for later");
    assert_eq!(client_for(&ctx, &discovery, &redirect(1), &list("b a")).await.unwrap().id, "c-1");
    assert_eq!(client_for(&ctx, &discovery, &redirect(1), &list("a z")).await.unwrap().id, "c-2");
    assert_eq!(site.requests()[1].json()["scope"], "a z b");
    assert_eq!(client_for(&ctx, &discovery, &redirect(1), &list("z")).await.unwrap().id, "c-2");
}

#[tokio::test]
async fn the_number_of_stored_clients_is_bounded() {
    let site = TestSite::start().await;
    registers(&site, "c");
    let (ctx, discovery) = (site.ctx("/", AuthSettings::default()), discovery(&site));
    for port in 1..=20 {
        client_for(&ctx, &discovery, &redirect(port), &[]).await.unwrap();
    }
    let latest = client_for(&ctx, &discovery, &redirect(20), &[]).await.unwrap();
    confirm_client(&ctx, &latest).await.unwrap();
    client_for(&ctx, &discovery, &redirect(13), &[]).await.unwrap();
    assert_eq!(site.request_lines().len(), 20);
    client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap();
    assert_eq!(site.request_lines().len(), 21, "the oldest is forgotten");
}

#[tokio::test]
async fn a_secret_that_has_ended_is_not_used() {
    let site = TestSite::start().await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ends = |at: Duration| json!({"client_id": "c", "client_secret": "s", "client_secret_expires_at": at.as_secs()});
    let (ctx, discovery) = (site.ctx("/", AuthSettings::default()), discovery(&site));
    for (n, at) in [now + Duration::from_secs(3600), Duration::ZERO].into_iter().enumerate() {
        site.respond_only("/register", 201, ends(at));
        let to = redirect(u16::try_from(n).unwrap() + 1);
        client_for(&ctx, &discovery, &to, &[]).await.unwrap();
        client_for(&ctx, &discovery, &to, &[]).await.unwrap();
    }
    assert_eq!(site.request_lines().len(), 2, "one hour is good, and 0 is for ever");
    site.respond_only("/register", 201, ends(now));
    client_for(&ctx, &discovery, &redirect(9), &[]).await.unwrap();
    client_for(&ctx, &discovery, &redirect(9), &[]).await.unwrap();
    assert_eq!(site.request_lines().len(), 4);
    assert_eq!(stored_port(&ctx, &discovery).await, Some(2), "nor is its port");
}

#[tokio::test]
async fn a_dead_registration_is_forgotten_and_a_configured_client_never() {
    let site = TestSite::start().await;
    registers(&site, "c-1");
    registers(&site, "c-2");
    let (ctx, discovery) = (site.ctx("/", AuthSettings::default()), discovery(&site));
    let client = client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap();
    forget_client(&ctx, &OAuthClient { origin: ClientOrigin::Configured, ..client.clone() }).await.unwrap();
    assert_eq!(client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap().id, "c-1");
    forget_client(&ctx, &client).await.unwrap();
    assert_eq!(client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap().id, "c-2");
    // It was replaced already; the replacement stays.
    forget_client(&ctx, &client).await.unwrap();
    assert_eq!(client_for(&ctx, &discovery, &redirect(1), &[]).await.unwrap().id, "c-2");
}

#[tokio::test]
async fn ax_01_a_client_that_acts_for_itself_is_not_registered() {
    let site = TestSite::start().await;
    registers(&site, "c");
    let ctx = site.ctx("/", with!(AuthSettings::default(), grant: Grant::ClientCredentials));
    let error = client_for(&ctx, &discovery(&site), &redirect(1), &[]).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert_eq!(site.request_lines().len(), 0);
}
