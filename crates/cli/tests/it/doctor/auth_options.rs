//! Options of an authorization server and of a server that it protects which are no armed faults: each is named
//! where it is one.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use bowline_testkit::{self as testkit, AuthClient, AuthScript, AuthServer, Protection, RefreshTokenPolicy};

use super::authorization::{before_login, verdict_at};
use super::{Examined, verdict};
use crate::context::Context;
use crate::login::LoginSite;

/// Examines a server after a login.
async fn verdict_after_login(auth: AuthScript, how: impl FnOnce(Protection) -> Protection) -> String {
    let site = LoginSite::with_script(auth, how).await;
    site.logs_in().await;
    verdict_at(&site)
}

macro_rules! after_login {
    ($test:ident, $auth:expr, $how:expr, @$expected:literal) => {
        #[tokio::test]
        pub(super) async fn $test() {
            verdict!(verdict_after_login($auth, $how).await, @$expected);
        }
    };
}

before_login!(
    issuer_with_a_path_is_no_fault,
    AuthServer::builder().path("/tenant1"),
    |protected| protected,
    @"
    exit 5
    login failed, you: you are not logged in
      log in
      $ bowline login docs
    "
);
before_login!(
    token_endpoint_without_tls_is_named,
    AuthServer::builder().metadata("token_endpoint", "http://tokens.example/token"),
    |protected| protected,
    @"
    exit 5
    authorization_server failed, authorization_server: token_endpoint of http://127.0.0.1:[PORT] cannot be used: http://tokens.example/token is neither https nor on this machine
      this is not safe to go on with: ask who runs it
      $ -
    "
);
before_login!(
    missing_token_endpoint_is_named,
    AuthServer::builder().without_metadata("token_endpoint"),
    |protected| protected,
    @"
    exit 5
    authorization_server failed, authorization_server: the metadata of http://127.0.0.1:[PORT] has no `token_endpoint`, without which no login is possible
      this is not safe to go on with: ask who runs it
      $ -
    "
);
before_login!(
    missing_login_page_is_named,
    AuthServer::builder().without_metadata("authorization_endpoint"),
    |protected| protected,
    @"
    exit 5
    authorization_server failed, authorization_server: the metadata of http://127.0.0.1:[PORT] has no `authorization_endpoint`, without which no login is possible
      this is not safe to go on with: ask who runs it
      $ -
    "
);
before_login!(
    resource_of_another_server_is_named,
    AuthServer::builder(),
    |protected| protected.resource("https://other.example/mcp"),
    @"
    exit 5
    resource_metadata failed, server: the metadata of http://127.0.0.1:[PORT]/mcp is about https://other.example/mcp, which is another server
      if it is the same server, use that address
      $ bowline edit
    "
);
before_login!(
    server_that_asks_for_a_login_only_later_is_named,
    AuthServer::builder(),
    |protected| ["server/discover", "initialize", "notifications/initialized"]
        .into_iter()
        .fold(protected, Protection::open_method),
    @"
    exit 5
    requests failed, you: the server requires a login: not logged in yet
      log in
      $ bowline login docs
    "
);

/// The authorization server calls itself otherwise than the server does.
#[tokio::test]
pub(super) async fn claimed_issuer_is_named() {
    let auth = AuthServer::builder().issuer("https://evil.example").start().await;
    let protected = Protection::with_auth_server(&auth).authorization_servers(&[auth.origin()]);
    let server = testkit::server().tool("echo").protected(protected).run().await;
    let site = LoginSite { context: Context::new(), auth, server };
    site.configure("");
    verdict!(verdict_at(&site), @"
    exit 5
    authorization_server failed, authorization_server: the metadata of http://127.0.0.1:[PORT] names the issuer https://evil.example, so it is not used
      this is not safe to go on with: ask who runs it
      $ -
    ");
}

#[tokio::test]
pub(super) async fn configured_client_is_no_fault() {
    let auth = AuthServer::builder().no_registration().client(AuthClient::public("knot"));
    let site = LoginSite::with_script(auth, |protected| protected).await;
    site.configure("auth = { client_id = 'knot' }\n");
    let examined = Examined::of(&site.context, &["docs"]);
    assert_eq!(examined.check("client")["seen"], "the one of the configuration");
    verdict!(examined.verdict(), @"
    exit 5
    login failed, you: you are not logged in
      log in
      $ bowline login docs
    ");
}

/// An entry that asks for a code on another device, where the authorization server may give none.
#[tokio::test]
pub(super) async fn missing_device_authorization_is_named() {
    let verdict_of = async |auth: AuthScript| {
        let site = LoginSite::with_script(auth, |protected| protected).await;
        site.configure("auth = { grant = 'device' }\n");
        verdict_at(&site)
    };
    verdict!(verdict_of(AuthServer::builder()).await, @"
    exit 2
    authorization_server failed, you: http://127.0.0.1:[PORT] does not support login with a device code
      leave `grant` out of the server's `auth` to log in with a browser
      $ bowline edit
    ");
    verdict!(verdict_of(AuthServer::builder().device(Duration::from_secs(1))).await, @"
    exit 5
    login failed, you: you are not logged in
      log in
      $ bowline login docs
    ");
}

after_login!(missing_iss_is_no_fault, AuthServer::builder().no_iss(), |protected| protected, @"exit 0");
after_login!(jwt_as_a_token_is_no_fault, AuthServer::builder().jwt_access_tokens(), |protected| protected, @"exit 0");
after_login!(
    other_account_is_no_fault,
    AuthServer::builder().account("bob"),
    |protected| protected,
    @"exit 0"
);
after_login!(
    short_lifetime_is_no_fault,
    AuthServer::builder().lifetime(Duration::from_secs(1)),
    |protected| protected,
    @"exit 0"
);
after_login!(
    token_for_any_audience_is_no_fault,
    AuthServer::builder(),
    Protection::any_audience,
    @"exit 0"
);
after_login!(
    scope_that_the_metadata_names_is_no_fault,
    AuthServer::builder().scopes(&["docs:write"]).strict_scopes(),
    |protected| protected.scopes(&["docs:write"]).requires_scope("docs:write"),
    @"exit 0"
);
after_login!(
    scope_of_a_method_is_named,
    AuthServer::builder().scopes(&["docs:write"]),
    |protected| protected.tool_requires_scope("tools/list", "docs:write"),
    @"
    exit 5
    requests failed, you: the server requires a login: the server requires more scopes than the login has
      log in
      $ bowline login docs --scope docs:write
    "
);

/// Examines a server after a login whose access token has ended.
async fn verdict_after_the_token_ended(auth: AuthScript) -> String {
    let site = LoginSite::with_script(auth, |protected| protected).await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    verdict_at(&site)
}

#[tokio::test]
pub(super) async fn refresh_tokens_that_stay_are_no_fault() {
    assert_eq!(verdict_after_the_token_ended(AuthServer::builder().no_rotation()).await, "exit 0");
}

#[tokio::test]
pub(super) async fn end_of_a_login_without_a_refresh_token_is_named() {
    let auth = AuthServer::builder().refresh_tokens(RefreshTokenPolicy::Never);
    verdict!(verdict_after_the_token_ended(auth).await, @"
    exit 5
    login failed, you: the server refuses the token, and the authorization server gave none to refresh it with
      log in again; if that does not help, ask who runs the server
      $ bowline login docs
    ");
}

/// Nobody vouches for the workload in a way that the authorization server trusts.
#[tokio::test]
pub(super) async fn assertion_of_an_untrusted_issuer_is_named() {
    let platform = testkit::SigningKey::generate();
    let auth = AuthServer::builder().trusts("https://platform.example", platform.jwk());
    let site = LoginSite::with_script(auth, |protected| protected).await;
    let claims = serde_json::json!({
        "iss": "https://other.example", "sub": "job", "aud": site.auth.issuer(), "exp": 4_000_000_000_u64, "jti": "1",
    });
    let assertion = platform.sign(serde_json::json!({"typ": "JWT"}), &claims);
    site.configure(&format!(
        "[servers.docs.auth]\ngrant = 'workload'\nissuer = '{}'\nassertion = {{ value = '{assertion}' }}\n",
        site.auth.issuer()
    ));
    verdict!(verdict_at(&site), @"
    exit 5
    login failed, you: no token: http://127.0.0.1:[PORT]/token refused with invalid_grant: nobody trusted made the assertion
      correct `auth` in its entry: no person logs in to this server
      $ bowline edit
    ");
}

/// The identity provider names the client as it knows it, and not as the authorization server does.
#[tokio::test]
pub(super) async fn assertion_for_another_client_is_named() {
    let idp = AuthServer::builder().client(AuthClient::public("here")).start().await;
    let auth = AuthServer::builder().client(AuthClient::public("there")).trusts(&idp.issuer(), idp.jwk());
    let site = LoginSite::with_script(auth, |protected| protected).await;
    let configure = || {
        site.configure(&format!(
            "[servers.docs.auth]\ngrant = 'enterprise'\nissuer = '{}'\nclient_id = 'there'\n\n[servers.docs.auth.idp]\n\
             token_endpoint = '{}'\nclient_id = 'here'\nid_token = {{ value = '{}' }}\n",
            site.auth.issuer(),
            idp.endpoint("token"),
            idp.id_token("alice", "here"),
        ));
    };
    configure();
    verdict!(verdict_at(&site), @"
    exit 5
    login failed, you: no token: http://127.0.0.1:[PORT]/token refused with invalid_grant: the assertion was made for another client
      correct `auth` in its entry: no person logs in to this server
      $ bowline edit
    ");
    idp.edit(|script| script.client_there("here", "there"));
    configure();
    assert_eq!(verdict_at(&site), "exit 0");
}

/// Examines a server that answers 401 under /mcp, this under /authorize, and 404 elsewhere.
fn verdict_without_metadata(authorize: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                head.extend(byte);
            }
            let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
            let _ = stream.read_exact(&mut body);
            let status = match head.split(' ').nth(1) {
                Some("/mcp") => "401 Unauthorized",
                Some("/authorize") => authorize,
                _ => "404 Not Found",
            };
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    super::verdict_of_url(&url)
}

#[test]
fn server_without_any_login_method_is_named() {
    verdict!(verdict_without_metadata("404 Not Found"), @"
    exit 5
    authorization_server failed, server: requires authentication but advertises no login method
      if it takes a key or a token, send it: -H 'Authorization: Bearer …', or `headers` in its entry
      $ bowline edit
    ");
}

// AD-07
#[test]
fn server_with_default_endpoints_has_a_login() {
    verdict!(verdict_without_metadata("400 Bad Request"), @"
    exit 5
    login failed, you: you are not logged in
      log in
      $ bowline login docs
    ");
}
