//! Each grant at a real token endpoint, and each error response.

use std::time::Duration;

use bowline_config::{AuthSettings, Dpop, Idp, SigningKey, TokenAuth, TokenSource};
use bowline_testkit::{AuthClient, AuthFault, AuthServer, CannedResponse, with};
use bowline_transport::http::SendWindow;
use serde_json::json;

use super::workload::check_grant_supported;
use super::*;
use crate::discovery::Discovery;
use crate::testing::{CLIENT_ID, CLIENT_SECRET, RESOURCE, client, ctx, discovery};
use crate::tokens::Scheme;

/// An authorization server with its discovery result, and a client.
pub(super) struct GrantBench {
    pub(super) server: AuthServer,
    pub(super) ctx: AuthContext,
    pub(super) discovery: Discovery,
    pub(super) client: OAuthClient,
}

impl GrantBench {
    async fn new(method: TokenAuth) -> Self {
        let known = match method {
            TokenAuth::None => AuthClient::public(CLIENT_ID),
            TokenAuth::Post => AuthClient::post(CLIENT_ID, CLIENT_SECRET),
            TokenAuth::Basic => AuthClient::basic(CLIENT_ID, CLIENT_SECRET),
            TokenAuth::PrivateKeyJwt => unreachable!("has a test of its own"),
        };
        Self::with_client(known, method).await
    }

    /// The server knows the client as `known`, and the client assumes `method`.
    pub(super) async fn with_client(known: AuthClient, method: TokenAuth) -> Self {
        let server = AuthServer::builder().client(known).start().await;
        let (discovery, client) = (discovery(&server), client(&server, method));
        Self { ctx: ctx(AuthSettings::default()), discovery, client, server }
    }

    fn ask(&self) -> TokenRequest<'_> {
        token_request(&self.ctx, &self.discovery, Some(&self.client))
    }

    pub(super) async fn refresh(&self) -> Result<Tokens, AuthError> {
        let token = Secret::new(self.server.issue(CLIENT_ID, "a", RESOURCE).refresh_token);
        refreshed(&self.ask(), &token).await
    }
}

/// A request without scopes and without a key.
fn token_request<'a>(
    ctx: &'a AuthContext,
    discovery: &'a Discovery,
    client: Option<&'a OAuthClient>,
) -> TokenRequest<'a> {
    let (metadata, resource) = (&discovery.metadata, Some(RESOURCE));
    TokenRequest { ctx, metadata, client, scopes: &[], resource, dpop: None }
}

/// Refreshes with a fence that is already open.
async fn refreshed(ask: &TokenRequest<'_>, token: &Secret) -> Result<Tokens, AuthError> {
    let fence = SendFence::new(Duration::from_secs(20));
    let opening = async {
        loop {
            fence.wait_for_request().await;
            fence.open(SendWindow::new(Duration::from_secs(10)));
        }
    };
    tokio::select! {
        answer = request_tokens(ask, TokenGrant::Refresh { token, fence: &fence }) => answer,
        () = opening => unreachable!("it goes on for ever"),
    }
}

// AR-05, AF-02
#[tokio::test]
async fn a_client_proves_itself_the_way_it_is_registered() {
    for method in [TokenAuth::None, TokenAuth::Post, TokenAuth::Basic] {
        let bench = GrantBench::new(method).await;
        bench.refresh().await.unwrap();
        let seen = &bench.server.received_at("refresh_token")[0];
        assert_eq!(seen.client_auth, method.as_str());
        assert_eq!(seen.client_id.as_deref(), Some(CLIENT_ID));
        assert_eq!(seen.field("resource"), Some(RESOURCE));
        assert_eq!(seen.field("scope"), None);
        // The SDKs look for it there with every method.
        assert_eq!(seen.field("client_id"), Some(CLIENT_ID));
        assert_eq!(bench.server.violations(), Vec::<String>::new());
    }
}

// AX-01, AX-02, AR-05
#[tokio::test]
async fn a_client_with_a_key_signs_an_assertion_each_time() {
    let (pem, jwk) = bowline_testkit::SigningKey::generate_pem();
    let server = AuthServer::builder().client(AuthClient::key(CLIENT_ID, jwk)).start().await;
    let (discovery, mut client, ctx) =
        (discovery(&server), client(&server, TokenAuth::PrivateKeyJwt), ctx(AuthSettings::default()));
    client.key = Some(SigningKey::new(pem));
    let scopes = ["a".to_owned(), "b".to_owned()];
    let ask = async |discovery: &Discovery| {
        let ask = TokenRequest { scopes: &scopes, ..token_request(&ctx, discovery, Some(&client)) };
        request_tokens(&ask, TokenGrant::ClientCredentials).await
    };
    for _ in 0..2 {
        // The server accepts each assertion only once.
        ask(&discovery).await.unwrap();
    }
    let seen = &server.received_at("client_credentials")[0];
    assert_eq!((seen.field("scope"), seen.field("resource")), (Some("a b"), Some(RESOURCE)));
    // No assertion is sent that the server could not verify.
    let mut other = discovery.clone();
    other.metadata.token_endpoint_auth_signing_alg_values_supported = Some(vec!["RS256".into()]);
    let error = ask(&other).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert_eq!(server.count("token"), 2);
}

// AR-04
#[tokio::test]
async fn a_client_is_shown_to_its_own_issuer_only() {
    let mut bench = GrantBench::new(TokenAuth::Basic).await;
    bench.client.issuer = "https://other.example".into();
    let error = bench.refresh().await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Untrusted);
    let issuer = bench.server.issuer();
    let what = format!(
        "the client {CLIENT_ID} is registered at https://other.example, so its credentials are not sent to {issuer}"
    );
    assert_eq!(error.what, what);
    assert_eq!(bench.server.count("token"), 0);
    assert!(!format!("{error:?}").contains(CLIENT_SECRET));
}

// AF-02: URL normalization neither adds nor removes anything.
#[tokio::test]
async fn the_resource_is_sent_to_the_letter() {
    let server = AuthServer::builder().client(AuthClient::basic(CLIENT_ID, CLIENT_SECRET)).start().await;
    let (discovery, client, ctx) =
        (discovery(&server), client(&server, TokenAuth::Basic), ctx(AuthSettings::default()));
    for resource in ["https://h.example", "https://H.example:443/a/../b/", "urn:x y"] {
        let ask = TokenRequest { resource: Some(resource), ..token_request(&ctx, &discovery, Some(&client)) };
        request_tokens(&ask, TokenGrant::ClientCredentials).await.unwrap();
        assert_eq!(server.received_at("token").last().unwrap().field("resource"), Some(resource));
    }
}

#[tokio::test]
async fn what_a_refusal_means() {
    let bench = GrantBench::new(TokenAuth::None).await;
    for (twist, kind) in [
        (AuthFault::invalid_grant(), AuthErrorKind::InvalidGrant),
        (AuthFault::invalid_client(), AuthErrorKind::InvalidClient),
        (AuthFault::error("unauthorized_client"), AuthErrorKind::InvalidClient),
        (AuthFault::error("invalid_scope"), AuthErrorKind::Refused),
        (AuthFault::error("temporarily_unavailable"), AuthErrorKind::Unavailable),
        (AuthFault::error_with(503, "invalid_grant", "not really"), AuthErrorKind::Unavailable),
        (AuthFault::error_with(200, "invalid_grant", "with 200"), AuthErrorKind::InvalidGrant),
        (AuthFault::html(502), AuthErrorKind::Unavailable),
        (AuthFault::html(200), AuthErrorKind::Unavailable),
        (AuthFault::html(403), AuthErrorKind::Refused),
        (AuthFault::status(500), AuthErrorKind::Unavailable),
        (AuthFault::too_many_requests(Duration::from_secs(1)), AuthErrorKind::Unavailable),
        (AuthFault::reset(), AuthErrorKind::Unavailable),
        (AuthFault::close(), AuthErrorKind::Unavailable),
        (AuthFault::redirect("http://127.0.0.1:9/"), AuthErrorKind::Untrusted),
        (AuthFault::without_member("access_token"), AuthErrorKind::Untrusted),
        (AuthFault::set_member("token_type", "N_A"), AuthErrorKind::Untrusted),
        (AuthFault::set_member("token_type", "DPoP"), AuthErrorKind::Untrusted),
        (AuthFault::set_member("access_token", "a\r\nb"), AuthErrorKind::Untrusted),
    ] {
        let what = format!("{twist:?}");
        bench.server.arm(twist.on("token"));
        let error = bench.refresh().await.expect_err(&what);
        assert_eq!(error.kind, kind, "{what}: {error}");
        assert!(bench.server.armed_faults().is_empty(), "{what}");
    }
}

#[tokio::test]
async fn sloppy_answers_are_understood() {
    let bench = GrantBench::new(TokenAuth::None).await;
    bench.server.arm(AuthFault::without_member("token_type").on("token"));
    bench.server.arm(AuthFault::expires_in("3600"));
    bench.server.arm(AuthFault::set_member("scope", json!(["a", "b"])).on("token"));
    let tokens = bench.refresh().await.unwrap();
    assert_eq!(tokens.scheme, Scheme::Bearer);
    assert_eq!(tokens.scopes.unwrap(), ["a", "b"]);
    let left = tokens.expires_at.unwrap().duration_since(SystemTime::now()).unwrap().as_secs();
    assert!((3500..=3600).contains(&left), "{left}");

    let form = CannedResponse::new(200)
        .header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
        .body("access_token=t%2Fk&token_type=bearer&scope=repo%2Cgist");
    bench.server.arm(AuthFault::response(form).on("token"));
    let tokens = bench.refresh().await.unwrap();
    assert_eq!(tokens.access.expose(), "t/k");
    assert_eq!(tokens.scopes.unwrap(), ["repo", "gist"]);
}

#[tokio::test]
async fn what_a_server_says_is_bounded_and_clean_in_an_error() {
    let bench = GrantBench::new(TokenAuth::None).await;
    let long = format!("\u{1b}[2J\r\n{}", "x".repeat(10_000));
    bench.server.arm(AuthFault::error_with(400, "invalid_scope", &long));
    let error = bench.refresh().await.unwrap_err();
    assert!(error.what.len() < 500 && !error.what.contains(char::is_control), "{error}");
    assert!(error.what.contains("invalid_scope"));
}

/// A login through an organization: its identity provider, and the authorization server that trusts
/// it.
struct Organization {
    idp: AuthServer,
    server: AuthServer,
    settings: Idp,
}

impl Organization {
    async fn new() -> Self {
        let there = AuthClient::basic("idp client", CLIENT_SECRET);
        let idp = AuthServer::builder().client(there).client_there("idp client", CLIENT_ID).start().await;
        let server = AuthServer::builder()
            .client(AuthClient::basic(CLIENT_ID, CLIENT_SECRET))
            .trusts(&idp.issuer(), idp.jwk())
            .start()
            .await;
        let id_token = TokenSource::Value(Secret::new(idp.id_token("alice", "idp client")));
        let endpoint = idp.endpoint("token").parse().unwrap();
        let secret = Some(Secret::new(CLIENT_SECRET));
        let settings = with!(Idp::new(endpoint, "idp client", id_token), client_secret: secret);
        Self { idp, server, settings }
    }

    async fn tokens(&self) -> Result<Tokens, AuthError> {
        self.tokens_by(|ask| ask.resource = Some(RESOURCE), None).await
    }

    /// Requests tokens for a server whose URL holds a key, with these announced grant profiles.
    async fn tokens_by(
        &self,
        how: impl FnOnce(&mut TokenRequest<'_>),
        profiles: Option<&[&str]>,
    ) -> Result<Tokens, AuthError> {
        let (mut discovery, client) = (discovery(&self.server), client(&self.server, TokenAuth::Basic));
        discovery.metadata.grant_profiles_supported =
            profiles.map(|names| names.iter().map(ToString::to_string).collect());
        let mut ctx = ctx(AuthSettings::default());
        ctx.url.set_query(Some("key=hunter2"));
        let scopes = ["a".to_owned()];
        let mut ask = TokenRequest {
            scopes: &scopes,
            resource: None,
            ..token_request(&ctx, &discovery, Some(&client))
        };
        how(&mut ask);
        request_tokens_by_idp(&ask, &self.settings).await
    }
}

// AX-03, AX-04, AX-05
#[tokio::test]
async fn tokens_are_obtained_through_an_identity_provider() {
    let organization = Organization::new().await;
    for _ in 0..2 {
        // The authorization server accepts each grant only once, so each time there is a new one.
        let tokens = organization.tokens().await.unwrap();
        assert!(organization.server.is_valid_access_token(tokens.access.expose()));
    }
    let asked = &organization.idp.received_at("token-exchange")[0];
    assert_eq!(asked.field("requested_token_type"), Some("urn:ietf:params:oauth:token-type:id-jag"));
    assert_eq!(asked.field("subject_token_type"), Some("urn:ietf:params:oauth:token-type:id_token"));
    assert_eq!(asked.field("audience"), Some(organization.server.issuer().as_str()));
    assert_eq!(asked.field("resource"), Some(RESOURCE));
    assert_eq!(asked.field("scope"), Some("a"));
    assert_eq!(asked.client_auth, "client_secret_basic");
    let redeemed = organization.server.received_at("jwt-bearer");
    assert_eq!(redeemed.len(), 2);
    assert_eq!(redeemed[0].client_id.as_deref(), Some(CLIENT_ID));
    assert_ne!(redeemed[0].field("assertion"), redeemed[1].field("assertion"));
    assert_eq!(organization.server.count("authorize"), 0);
}

// AX-03: the identity provider always gets the resource, but no secret of the server's URL.
#[tokio::test]
async fn an_identity_provider_is_told_which_server_and_not_its_key() {
    let organization = Organization::new().await;
    organization.tokens_by(|_| {}, None).await.unwrap();
    assert_eq!(organization.idp.received_at("token-exchange")[0].field("resource"), Some(RESOURCE));
    assert_eq!(organization.server.received_at("jwt-bearer")[0].field("resource"), None);
}

// AX-04
#[tokio::test]
async fn no_grant_is_sent_to_a_server_without_the_profile() {
    let organization = Organization::new().await;
    let other = "urn:ietf:params:oauth:grant-profile:other";
    for profiles in [&[other][..], &[]] {
        let error = organization.tokens_by(|_| {}, Some(profiles)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup);
        let issuer = organization.server.issuer();
        assert_eq!(error.what, format!("{issuer} does not support enterprise-managed authorization"));
    }
    assert_eq!((organization.idp.count("token"), organization.server.count("token")), (0, 0));
    let profile = "urn:ietf:params:oauth:grant-profile:id-jag";
    organization.tokens_by(|_| {}, Some(&[other, profile])).await.unwrap();
}

// AX-03
#[tokio::test]
async fn only_a_grant_is_forwarded() {
    let other = "urn:ietf:params:oauth:token-type:access_token";
    for (twist, what) in [
        (
            AuthFault::set_member("issued_token_type", other),
            format!("the identity provider issued a token of type {other}, which is not an ID-JAG"),
        ),
        (
            AuthFault::without_member("issued_token_type"),
            "the identity provider's response has no `issued_token_type`".to_owned(),
        ),
        (
            AuthFault::without_member("access_token"),
            "the identity provider's response has no `access_token`".to_owned(),
        ),
    ] {
        let organization = Organization::new().await;
        organization.idp.arm(twist.on("token"));
        let error = organization.tokens().await.unwrap_err();
        assert_eq!((error.kind, error.what), (AuthErrorKind::Untrusted, what));
        assert_eq!(organization.server.count("token"), 0);
    }
}

// AX-05
#[tokio::test]
async fn an_id_token_is_not_sent_in_the_clear() {
    let mut organization = Organization::new().await;
    organization.settings.token_endpoint = "http://idp.example/token".parse().unwrap();
    assert_eq!(organization.tokens().await.unwrap_err().kind, AuthErrorKind::Setup);
}

// AX-08
#[tokio::test]
async fn tokens_are_obtained_with_a_platform_assertion() {
    let platform = bowline_testkit::SigningKey::generate();
    let server = AuthServer::builder().trusts("https://platform.example", platform.jwk()).start().await;
    let now = crate::jwt::unix_seconds(SystemTime::now());
    let claims = json!({
        "iss": "https://platform.example", "sub": "job", "aud": server.issuer(),
        "iat": now, "exp": now + 60, "jti": "1",
    });
    let supply = TokenSource::Value(Secret::new(platform.sign(json!({"typ": "JWT"}), &claims)));
    let (discovery, ctx) = (discovery(&server), ctx(AuthSettings::default()));
    let ask = token_request(&ctx, &discovery, None);
    let tokens = request_tokens_by_assertion(&ask, &supply).await.unwrap();
    assert_eq!(tokens.scheme, Scheme::Bearer);
    assert!(server.is_valid_access_token(tokens.access.expose()));
    let seen = &server.received_at("token")[0];
    assert_eq!(seen.field("grant_type"), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
    assert_eq!(seen.field("resource"), Some(RESOURCE));
    assert_eq!((seen.field("client_id"), seen.header("authorization")), (None, None));
}

/// An assertion of a platform, without a valid signature.
fn platform_assertion(claims: &serde_json::Value) -> TokenSource {
    use base64::Engine as _;
    let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    TokenSource::Value(Secret::new(format!("eyJhbGciOiJFUzI1NiJ9.{payload}.c2ln")))
}

async fn request_with_assertion(
    server: &AuthServer,
    discovery: &Discovery,
    auth: AuthSettings,
    supply: &TokenSource,
) -> Option<AuthErrorKind> {
    server.arm(AuthFault::error("invalid_grant").on("token").always());
    let ctx = ctx(auth);
    let ask = TokenRequest { resource: None, ..token_request(&ctx, discovery, None) };
    let error = request_tokens_by_assertion(&ask, supply).await.unwrap_err();
    if error.kind == AuthErrorKind::Setup {
        return None;
    }
    Some(error.kind)
}

// AX-08: whoever holds the assertion can act as the program, and a server may name any issuer.
#[tokio::test]
async fn an_assertion_is_sent_only_to_its_audience() {
    let server = AuthServer::start().await;
    let discovery = discovery(&server);
    let attempt = async |auth: AuthSettings, source: &TokenSource| {
        request_with_assertion(&server, &discovery, auth, source).await
    };
    let (issuer, endpoint) = (server.issuer(), server.endpoint("token"));
    let other = "https://as.example";
    for aud in [json!(issuer), json!([other, issuer]), json!(endpoint), json!([endpoint])] {
        let sent = attempt(AuthSettings::default(), &platform_assertion(&json!({ "aud": aud }))).await;
        assert_eq!(sent, Some(AuthErrorKind::InvalidGrant), "{aud}");
    }
    assert_eq!(server.count("token"), 4);
    for claims in [
        json!({ "aud": other }),
        json!({ "aud": [other, format!("{issuer}/"), issuer.to_uppercase()] }),
        json!({ "aud": [] }),
        json!({ "aud": { issuer.as_str(): 1 } }),
        json!({ "iss": issuer }),
    ] {
        let sent = attempt(AuthSettings::default(), &platform_assertion(&claims)).await;
        assert_eq!(sent, None, "{claims}");
    }
    // An unreadable assertion is meant for nobody.
    for opaque in ["opaque", "a.b.c", "a..c"] {
        let sent = attempt(AuthSettings::default(), &TokenSource::Value(opaque.into())).await;
        assert_eq!(sent, None, "{opaque}");
    }
    assert_eq!(server.count("token"), 4);
    // The configured issuer decides, whatever the assertion says.
    let chosen = |issuer: &str| with!(AuthSettings::default(), issuer: Some(issuer.to_owned()));
    let sent = attempt(chosen(&issuer), &platform_assertion(&json!({ "aud": other }))).await;
    assert_eq!(sent, Some(AuthErrorKind::InvalidGrant));
    let sent = attempt(chosen(other), &platform_assertion(&json!({ "aud": issuer }))).await;
    assert_eq!(sent, None);
    assert_eq!(server.count("token"), 5);
}

// AX-08
#[tokio::test]
async fn an_assertion_is_not_sent_where_the_grant_is_unsupported() {
    let server = AuthServer::start().await;
    let mut discovery = discovery(&server);
    let supply = platform_assertion(&json!({ "aud": server.issuer() }));
    for (grants, taken) in [("client_credentials", false), (JWT_BEARER, true)] {
        discovery.metadata.grant_types_supported = Some(vec![grants.to_owned()]);
        let sent = request_with_assertion(&server, &discovery, AuthSettings::default(), &supply).await;
        assert_eq!(sent.is_some(), taken, "{grants}");
    }
    assert_eq!(server.count("token"), 1);
    discovery.metadata.grant_types_supported = Some(Vec::new());
    let error = check_grant_supported(&discovery.metadata).unwrap_err();
    assert_eq!(error.what, format!("{} does not accept platform-issued JWTs", server.issuer()));
}

#[tokio::test]
async fn grants_of_a_person_request_no_tokens_without_one() {
    let bench = GrantBench::new(TokenAuth::None).await;
    for grant in [Grant::Person, Grant::Device, Grant::Off] {
        let ctx = ctx(with!(AuthSettings::default(), grant: grant));
        let ask = token_request(&ctx, &bench.discovery, None);
        let error = request_tokens_without_person(&ask).await.unwrap_err();
        assert_eq!(error.what, "this server supports interactive login only");
    }
    assert_eq!(bench.server.count("token"), 0);
}

// AX-09
#[tokio::test]
async fn a_refused_assertion_is_sent_once() {
    for (code, kind) in [
        ("invalid_grant", AuthErrorKind::InvalidGrant),
        ("invalid_scope", AuthErrorKind::Refused),
        ("unauthorized_client", AuthErrorKind::InvalidClient),
    ] {
        let server = AuthServer::start().await;
        server.arm(AuthFault::error(code).on("token").always());
        let (discovery, ctx) = (discovery(&server), ctx(AuthSettings::default()));
        let ask = TokenRequest { resource: None, ..token_request(&ctx, &discovery, None) };
        let supply = platform_assertion(&json!({ "aud": server.issuer() }));
        let error = request_tokens_by_assertion(&ask, &supply).await.unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.what.contains(code), "{error}");
        assert_eq!(server.count("token"), 1);
    }
}

async fn bound(script: bowline_testkit::AuthScript, dpop: Dpop) -> (AuthServer, Result<Tokens, AuthError>) {
    let server = script.client(AuthClient::basic(CLIENT_ID, CLIENT_SECRET)).start().await;
    let ctx = ctx(with!(AuthSettings::default(), dpop: dpop));
    let key = dpop::Key::load_or_create(&ctx.store, "files").await.unwrap();
    let (discovery, client) = (discovery(&server), client(&server, TokenAuth::Basic));
    let ask = TokenRequest { dpop: Some(&key), ..token_request(&ctx, &discovery, Some(&client)) };
    let outcome = request_tokens(&ask, TokenGrant::ClientCredentials).await;
    (server, outcome)
}

// AX-06
#[tokio::test]
async fn a_token_is_bound_to_a_key() {
    let (server, tokens) = bound(AuthServer::builder().dpop_only(), Dpop::Auto).await;
    assert_eq!(tokens.unwrap().scheme, Scheme::Dpop);
    assert_eq!(server.count("token"), 1);
}

// AX-07
#[tokio::test]
async fn a_missing_nonce_costs_one_more_request() {
    let (server, tokens) = bound(AuthServer::builder().dpop_only().dpop_nonce(), Dpop::Auto).await;
    assert_eq!(tokens.unwrap().scheme, Scheme::Dpop);
    let seen = server.received_at("token");
    assert_eq!(seen.iter().map(|it| it.error.as_deref()).collect::<Vec<_>>(), [Some("use_dpop_nonce"), None]);
    assert_ne!(seen[0].header("dpop"), seen[1].header("dpop"));
}

// AX-07: a server that refuses every nonce is not asked forever.
#[tokio::test]
async fn a_nonce_that_is_never_good_is_tried_once() {
    let script = AuthServer::builder().dpop().fault(AuthFault::nonce_challenge().always());
    let (server, tokens) = bound(script, Dpop::Auto).await;
    assert_eq!(tokens.unwrap_err().kind, AuthErrorKind::Refused);
    assert_eq!(server.count("token"), 2);
}

// AX-07: without a new nonce, the next proof would be refused like the last.
#[tokio::test]
async fn a_nonce_demand_without_a_nonce_is_not_retried() {
    let script = AuthServer::builder().dpop().fault(AuthFault::error("use_dpop_nonce").on("token").always());
    let (server, tokens) = bound(script, Dpop::Auto).await;
    assert_eq!(tokens.unwrap_err().kind, AuthErrorKind::Refused);
    assert_eq!(server.count("token"), 1);
}

#[tokio::test]
async fn a_token_that_is_not_bound_is_used_unless_it_has_to_be() {
    let (_, tokens) = bound(AuthServer::builder(), Dpop::Auto).await;
    assert_eq!(tokens.unwrap().scheme, Scheme::Bearer);
    let (_, tokens) = bound(AuthServer::builder(), Dpop::Always).await;
    let error = tokens.unwrap_err();
    let what = "the authorization server issued a bearer token although a DPoP key was sent";
    assert_eq!((error.kind, &*error.what), (AuthErrorKind::Untrusted, what));
}

/// It would be bound to the key of somebody else.
#[tokio::test]
async fn a_bound_token_is_refused_if_no_key_was_sent() {
    let bench = GrantBench::new(TokenAuth::Basic).await;
    bench.server.arm(AuthFault::set_member("token_type", "DPoP").on("token"));
    let error = bench.refresh().await.unwrap_err();
    let what = "the authorization server issued a DPoP token although no key was sent";
    assert_eq!((error.kind, &*error.what), (AuthErrorKind::Untrusted, what));
}
