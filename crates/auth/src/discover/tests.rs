//! Which addresses discovery asks, and in which order: every test checks the recorded requests.

use bowline_config::AuthSettings;
use bowline_testkit::with;
use serde_json::{Value, json};

use super::*;
use crate::test_site::TestSite;

const PRM: &str = "/.well-known/oauth-protected-resource";
const RFC: &str = "/.well-known/oauth-authorization-server";
const OIDC: &str = "/.well-known/openid-configuration";

fn prm(resource: &str, servers: &[&str]) -> Value {
    json!({"resource": resource, "authorization_servers": servers, "scopes_supported": ["a", "b"]})
}

fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "code_challenge_methods_supported": ["S256"],
    })
}

fn challenge(resource_metadata: Option<Url>) -> Challenge {
    Challenge { resource_metadata, ..Challenge::default() }
}

fn gets(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| format!("GET {path}")).collect()
}

fn texts(urls: Vec<Url>) -> Vec<String> {
    urls.into_iter().map(String::from).collect()
}

#[test]
fn ad_02_the_addresses_of_a_server_in_order() {
    let server = Url::parse("https://me:pw@h.example/a/mcp?x=1#f").unwrap();
    let below = "https://h.example/.well-known/oauth-protected-resource/a/mcp?x=1";
    let top = "https://h.example/.well-known/oauth-protected-resource";
    assert_eq!(texts(resource_metadata_urls(&server, None)), [below, top]);
    let named = Url::parse("https://elsewhere.example/x").unwrap();
    assert_eq!(texts(resource_metadata_urls(&server, Some(&named))), [named.as_str(), below, top]);
    let named = Url::parse(top).unwrap();
    assert_eq!(texts(resource_metadata_urls(&server, Some(&named))), [top, below], "nobody is asked twice");
    for bare in ["https://h.example", "https://h.example/"] {
        assert_eq!(texts(resource_metadata_urls(&Url::parse(bare).unwrap(), None)), [top]);
    }
}

#[test]
fn ad_05_the_addresses_of_an_issuer_in_order() {
    let of = |issuer: &str| texts(issuer_metadata_urls(&Url::parse(issuer).unwrap()));
    let with_path = [
        "https://as.example/.well-known/oauth-authorization-server/t1/x",
        "https://as.example/.well-known/openid-configuration/t1/x",
        "https://as.example/t1/x/.well-known/openid-configuration",
    ];
    assert_eq!(of("https://as.example/t1/x"), with_path);
    assert_eq!(of("https://as.example/t1/x/"), with_path);
    let without = [
        "https://as.example/.well-known/oauth-authorization-server",
        "https://as.example/.well-known/openid-configuration",
    ];
    assert_eq!(of("https://as.example"), without);
    assert_eq!(of("https://as.example/"), without);
}

#[tokio::test]
async fn ad_02_described_where_the_header_says_below_a_path() {
    let site = TestSite::start().await;
    let resource = format!("{}/a/mcp", site.origin());
    site.respond(&format!("{PRM}/a/mcp"), 200, prm(&resource, &[site.origin()]));
    site.respond(RFC, 200, metadata(site.origin()));
    let named = site.url(&format!("{PRM}/a/mcp"));
    let discovery =
        locate(&site.ctx("/a/mcp", AuthSettings::default()), &challenge(Some(named))).await.unwrap();
    assert_eq!(site.request_lines(), gets(&[&format!("{PRM}/a/mcp"), RFC]));
    assert_eq!(discovery.resource, Some(resource));
    assert_eq!(discovery.scopes, Some(vec!["a".into(), "b".into()]));
    assert_eq!(
        (discovery.kind, discovery.metadata.issuer.as_str()),
        (DiscoveryKind::Described, site.origin())
    );
}

#[tokio::test]
async fn ad_02_described_below_a_path_that_no_header_names() {
    let site = TestSite::start().await;
    site.respond(&format!("{PRM}/a/mcp"), 200, prm(&format!("{}/a", site.origin()), &[site.origin()]));
    site.respond(PRM, 500, "a trap");
    site.respond(OIDC, 200, metadata(site.origin()));
    locate(&site.ctx("/a/mcp", AuthSettings::default()), &challenge(None)).await.unwrap();
    assert_eq!(site.request_lines(), gets(&[&format!("{PRM}/a/mcp"), RFC, OIDC]));
}

#[tokio::test]
async fn ad_02_described_at_the_root_that_no_header_names() {
    let site = TestSite::start().await;
    let issuer = format!("{}/tenant1", site.origin());
    // Verbatim: no slash follows the origin.
    site.respond(PRM, 200, prm(site.origin(), &[&issuer]));
    site.respond(&format!("{RFC}/tenant1"), 200, metadata(&issuer));
    let discovery = locate(&site.ctx("/a/mcp", AuthSettings::default()), &challenge(None)).await.unwrap();
    assert_eq!(site.request_lines(), gets(&[&format!("{PRM}/a/mcp"), PRM, &format!("{RFC}/tenant1")]));
    assert_eq!(discovery.resource.as_deref(), Some(site.origin()));
}

#[tokio::test]
async fn ad_02_described_at_an_address_of_its_own() {
    let site = TestSite::start().await;
    let issuer = format!("{}/tenant1", site.origin());
    site.respond("/custom", 200, prm(&format!("{}/a/mcp", site.origin()), &[&issuer]));
    let oidc = format!("/tenant1{OIDC}");
    site.respond(&oidc, 200, metadata(&issuer));
    let discovery =
        locate(&site.ctx("/a/mcp", AuthSettings::default()), &challenge(Some(site.url("/custom"))))
            .await
            .unwrap();
    // AD-05: in this order, and no further than the first that exists.
    let order = ["/custom", &format!("{RFC}/tenant1"), &format!("{OIDC}/tenant1"), &oidc];
    assert_eq!(site.request_lines(), gets(&order));
    assert_eq!(discovery.metadata.issuer, issuer);
}

#[tokio::test]
async fn ad_03_another_resource_ends_the_search() {
    for resource in ["https://evil.example/a/mcp", "{}/b", "{}/a/mcp/child"] {
        let site = TestSite::start().await;
        let resource = resource.replace("{}", site.origin());
        site.respond(&format!("{PRM}/a/mcp"), 200, prm(&resource, &[site.origin()]));
        site.respond(RFC, 200, metadata(site.origin()));
        let error = locate(&site.ctx("/a/mcp", AuthSettings::default()), &challenge(None)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted, "{resource}");
        assert_eq!(site.request_lines(), gets(&[&format!("{PRM}/a/mcp")]), "{resource}");
    }
}

#[tokio::test]
async fn ad_04_the_first_that_is_there_is_chosen() {
    let (site, gone, second) = (TestSite::start().await, TestSite::start().await, TestSite::start().await);
    let busy = format!("{}/busy", site.origin());
    site.respond(PRM, 200, prm(site.origin(), &[gone.origin(), &busy, second.origin()]));
    site.respond(&format!("{RFC}/busy"), 503, "");
    second.respond(RFC, 200, metadata(second.origin()));
    let discovery = locate(&site.ctx("/", AuthSettings::default()), &challenge(None)).await.unwrap();
    assert_eq!(discovery.metadata.issuer, second.origin());
    assert_eq!(gone.request_lines(), gets(&[RFC, OIDC]));
}

#[tokio::test]
async fn ad_04_invalid_metadata_ends_the_search() {
    let (site, second) = (TestSite::start().await, TestSite::start().await);
    site.respond(PRM, 200, prm(site.origin(), &[site.origin(), second.origin()]));
    site.respond(RFC, 200, metadata("https://attacker.example"));
    second.respond(RFC, 200, metadata(second.origin()));
    let error = locate(&site.ctx("/", AuthSettings::default()), &challenge(None)).await.unwrap_err();
    // AD-06
    assert_eq!(error.kind, AuthErrorKind::Untrusted);
    assert!(error.what.contains("https://attacker.example"), "{error}");
    assert_eq!(second.request_lines(), gets(&[]));
    assert_eq!(site.request_lines(), gets(&[PRM, RFC]), "nor is it asked elsewhere");
}

#[tokio::test]
async fn ad_06_a_slash_too_many_is_another_issuer() {
    let site = TestSite::start().await;
    site.respond(PRM, 200, prm(site.origin(), &[&format!("{}/", site.origin())]));
    site.respond(RFC, 200, metadata(site.origin()));
    let error = locate(&site.ctx("/", AuthSettings::default()), &challenge(None)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Untrusted);
}

#[tokio::test]
async fn ad_04_the_configured_one_is_chosen_if_it_is_named() {
    let (site, second) = (TestSite::start().await, TestSite::start().await);
    site.respond(PRM, 200, prm(site.origin(), &[site.origin(), second.origin()]));
    site.respond(RFC, 200, metadata(site.origin()));
    second.respond(RFC, 200, metadata(second.origin()));
    let with = |issuer: &str| site.ctx("/", with!(AuthSettings::default(), issuer: Some(issuer.to_owned())));
    let discovery = locate(&with(second.origin()), &challenge(None)).await.unwrap();
    assert_eq!(discovery.metadata.issuer, second.origin());
    let error = locate(&with("https://third.example"), &challenge(None)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert!(error.what.contains("https://third.example") && error.what.contains(second.origin()), "{error}");
}

#[tokio::test]
async fn ad_04_nobody_named_and_nobody_there() {
    let site = TestSite::start().await;
    site.respond(PRM, 200, prm(site.origin(), &[]));
    let ctx = site.ctx("/", AuthSettings::default());
    assert_eq!(locate(&ctx, &challenge(None)).await.unwrap_err().kind, AuthErrorKind::Setup);
    site.respond_only(PRM, 200, prm(site.origin(), &[site.origin()]));
    assert_eq!(locate(&ctx, &challenge(None)).await.unwrap_err().kind, AuthErrorKind::Untrusted);
}

#[tokio::test]
async fn af_07_an_issuer_or_endpoint_without_tls_is_refused() {
    let site = TestSite::start().await;
    site.respond(PRM, 200, prm(site.origin(), &["http://as.example"]));
    let ctx = site.ctx("/", AuthSettings::default());
    assert_eq!(locate(&ctx, &challenge(None)).await.unwrap_err().kind, AuthErrorKind::Untrusted);
    assert_eq!(site.request_lines(), gets(&[PRM]));
    site.respond_only(PRM, 200, prm(site.origin(), &[site.origin()]));
    let mut poisoned = metadata(site.origin());
    poisoned["token_endpoint"] = json!("http://as.example/token");
    site.respond(RFC, 200, poisoned);
    assert_eq!(locate(&ctx, &challenge(None)).await.unwrap_err().kind, AuthErrorKind::Untrusted);
}

#[tokio::test]
async fn ad_07_the_origin_of_an_old_server_describes_itself() {
    let site = TestSite::start().await;
    for issuer in [site.origin().to_owned(), format!("{}/", site.origin())] {
        site.respond_only(RFC, 200, metadata(&issuer));
        let discovery = locate(&site.ctx("/mcp", AuthSettings::default()), &challenge(None)).await.unwrap();
        assert_eq!((discovery.kind, &discovery.metadata.issuer), (DiscoveryKind::Origin, &issuer));
        assert_eq!(discovery.resource, None);
    }
    assert_eq!(site.request_lines()[..3], gets(&[&format!("{PRM}/mcp"), PRM, RFC]));
    assert_eq!(site.requests()[2].headers["mcp-protocol-version"], "2025-03-26");
    site.respond_only(RFC, 200, metadata(&format!("{}/oauth", site.origin())));
    let error = locate(&site.ctx("/mcp", AuthSettings::default()), &challenge(None)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Untrusted, "AD-06 holds here as well");
}

#[tokio::test]
async fn ad_07_an_old_server_that_describes_nothing_has_default_endpoints() {
    let site = TestSite::start().await;
    let discovery = locate(&site.ctx("/mcp", AuthSettings::default()), &challenge(None)).await.unwrap();
    assert_eq!(discovery.kind, DiscoveryKind::DefaultEndpoints);
    assert_eq!(discovery.metadata.authorization_endpoint, Some(site.url("/authorize")));
    assert_eq!(discovery.metadata.token_endpoint, Some(site.url("/token")));
    assert_eq!(discovery.metadata.registration_endpoint, Some(site.url("/register")));
}

#[tokio::test]
async fn ad_07_is_not_for_a_server_that_named_its_metadata() {
    let site = TestSite::start().await;
    site.respond(RFC, 200, metadata(site.origin()));
    let named = challenge(Some(site.url("/gone")));
    let error = locate(&site.ctx("/mcp", AuthSettings::default()), &named).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Untrusted);
    assert_eq!(site.request_lines(), gets(&["/gone", &format!("{PRM}/mcp"), PRM]));
}

#[tokio::test]
async fn ad_07_is_not_for_a_server_that_is_down() {
    let site = TestSite::start().await;
    site.respond(PRM, 503, "");
    let error = locate(&site.ctx("/mcp", AuthSettings::default()), &challenge(None)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Unavailable);
    assert_eq!(site.request_lines(), gets(&[&format!("{PRM}/mcp"), PRM]));
}

#[tokio::test]
async fn a_page_for_every_path_is_no_metadata() {
    let site = TestSite::start().await;
    let everything = json!({"hello": "world"});
    for path in [&format!("{PRM}/mcp"), PRM, RFC] {
        site.respond(path, 200, &everything);
    }
    let discovery = locate(&site.ctx("/mcp", AuthSettings::default()), &challenge(None)).await.unwrap();
    assert_eq!(discovery.kind, DiscoveryKind::DefaultEndpoints);
}

#[tokio::test]
async fn a_configured_issuer_stands_in_for_a_server_that_says_nothing() {
    let (site, idp) = (TestSite::start().await, TestSite::start().await);
    let with =
        |issuer: &str| site.ctx("/mcp", with!(AuthSettings::default(), issuer: Some(issuer.to_owned())));
    idp.respond(RFC, 200, metadata(idp.origin()));
    let discovery = locate(&with(idp.origin()), &challenge(None)).await.unwrap();
    assert_eq!(
        (discovery.kind, discovery.metadata.issuer.as_str()),
        (DiscoveryKind::Described, idp.origin())
    );
    assert_eq!(
        locate(&with(site.origin()), &challenge(None)).await.unwrap().kind,
        DiscoveryKind::DefaultEndpoints
    );
    idp.respond_only(RFC, 404, "");
    assert_eq!(locate(&with(idp.origin()), &challenge(None)).await.unwrap_err().kind, AuthErrorKind::Setup);
}

#[tokio::test]
async fn discovery_times_out() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let silent: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let site = TestSite::start().await;
    let ctx = site.ctx("/mcp", AuthSettings::default());
    let patience = Duration::from_millis(200);
    let error = locate_within(patience, &ctx, &challenge(Some(silent))).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Unavailable);
}
