//! Twists of an authorization server, and of a server that is protected by one.

#![cfg(unix)]

use std::time::Duration;

use bowline_testkit::{AuthFault, AuthScript, AuthServer, Protection};

use super::{Examined, verdict};
use crate::login::LoginSite;

/// Examines the server of a site.
pub(super) fn verdict_at(site: &LoginSite) -> String {
    site.context.hide_paths(&Examined::of(&site.context, &["docs"]).verdict())
}

/// Examines a server that nobody has logged in to.
pub(super) async fn verdict_before_login(
    auth: AuthScript,
    how: impl FnOnce(Protection) -> Protection,
) -> String {
    verdict_at(&LoginSite::with_script(auth, how).await)
}

/// Examines a server after a login that was followed by `change`.
pub(super) async fn verdict_after_login(change: impl FnOnce(&LoginSite)) -> String {
    let site = LoginSite::new().await;
    site.logs_in().await;
    change(&site);
    verdict_at(&site)
}

/// Examines a server that nobody has logged in to, whose authorization server has this fault.
async fn verdict_with(fault: AuthFault) -> String {
    let site = LoginSite::new().await;
    site.auth.arm(fault);
    verdict_at(&site)
}

/// Examines a server that nobody has logged in to.
macro_rules! before_login {
    ($test:ident, $auth:expr, $how:expr, @$expected:literal) => {
        #[tokio::test]
        pub(super) async fn $test() {
            verdict!(crate::doctor::authorization::verdict_before_login($auth, $how).await, @$expected);
        }
    };
}
pub(super) use before_login;

macro_rules! with_fault {
    ($test:ident, $fault:expr, @$expected:literal) => {
        #[tokio::test]
        pub(super) async fn $test() {
            verdict!(verdict_with($fault).await, @$expected);
        }
    };
}

macro_rules! after_login {
    ($test:ident, $change:expr, @$expected:literal) => {
        #[tokio::test]
        pub(super) async fn $test() {
            verdict!(crate::doctor::authorization::verdict_after_login($change).await, @$expected);
        }
    };
}
pub(super) use after_login;

/// All steps before the login are well, and the login itself is the person's to make.
#[tokio::test]
async fn missing_login_is_named_after_the_steps_before_it() {
    let site = LoginSite::new().await;
    let examined = Examined::of(&site.context, &["docs"]);
    verdict!(examined.verdict(), @"
    exit 5
    login failed, you: you are not logged in
      log in
      $ bowline login docs
    ");
    for name in ["challenge", "resource_metadata", "authorization_server", "pkce", "client"] {
        assert_eq!(examined.status(name), "ok", "{name}");
    }
    for name in ["connection", "era", "requests", "keepalive", "session"] {
        assert_eq!(examined.status(name), "skipped", "{name}");
    }
    // Nothing was begun: no client was registered and no code was asked for.
    assert_eq!((site.auth.registrations(), site.auth.count("authorize")), (0, 0));
}

after_login!(valid_login_passes_every_check, |_| (), @"exit 0");

before_login!(
    metadata_of_another_server_is_named,
    AuthServer::builder(),
    |protected| protected.metadata("resource", "https://other.example/mcp"),
    @"
    exit 5
    resource_metadata failed, server: the metadata of http://127.0.0.1:[PORT]/mcp is about https://other.example/mcp, which is another server
      if it is the same server, use that address
      $ bowline edit
    "
);
before_login!(
    metadata_without_an_authorization_server_is_named,
    AuthServer::builder(),
    |protected| protected.without_metadata("authorization_servers"),
    @"
    exit 2
    authorization_server failed, you: docs publishes metadata, but names no authorization server
      set `issuer` in its `auth`
      $ bowline edit
    "
);
before_login!(
    unreachable_authorization_server_is_named,
    AuthServer::builder(),
    |protected| protected.authorization_servers(&["http://127.0.0.1:9"]),
    @"
    exit 3
    authorization_server failed, authorization_server: http://127.0.0.1:[PORT]: connection refused: tcp connect error: Connection refused
      try again later
      $ bowline doctor docs
    "
);
before_login!(
    missing_registration_is_named,
    AuthServer::builder().no_registration(),
    |protected| protected,
    @"
    exit 2
    client failed, you: http://127.0.0.1:[PORT] does not know this client and offers no registration
      register a client at http://127.0.0.1:[PORT] by hand, and set `client_id` in the server's `auth`
      $ bowline edit
    "
);
before_login!(
    missing_pkce_is_named,
    AuthServer::builder().without_metadata("code_challenge_methods_supported"),
    |protected| protected,
    @"
    exit 5
    pkce failed, authorization_server: http://127.0.0.1:[PORT] does not announce PKCE with S256, without which no login is started
      this is not safe to go on with: ask who runs it
      $ -
    "
);

with_fault!(
    metadata_of_another_issuer_is_named,
    AuthFault::set_member("issuer", "https://evil.example").on("metadata").always(),
    @"
    exit 5
    authorization_server failed, authorization_server: the metadata of http://127.0.0.1:[PORT] names the issuer https://evil.example, so it is not used
      this is not safe to go on with: ask who runs it
      $ -
    "
);
with_fault!(
    issuer_with_another_slash_is_named,
    AuthFault::toggle_trailing_slash("issuer").on("metadata").always(),
    @"
    exit 5
    authorization_server failed, authorization_server: the metadata of http://127.0.0.1:[PORT] names the issuer http://127.0.0.1:[PORT]/, so it is not used
      this is not safe to go on with: ask who runs it
      $ -
    "
);
with_fault!(
    metadata_without_an_issuer_is_named,
    AuthFault::without_member("issuer").on("metadata").always(),
    @"
    exit 5
    authorization_server failed, authorization_server: the metadata of http://127.0.0.1:[PORT] has no `issuer`
      this is not safe to go on with: ask who runs it
      $ -
    "
);
with_fault!(web_page_as_metadata_is_named, AuthFault::html(200).on("metadata").always(), @"
exit 5
authorization_server failed, authorization_server: the authorization server http://127.0.0.1:[PORT] publishes no metadata
  this is not safe to go on with: ask who runs it
  $ -
");
with_fault!(
    redirected_metadata_is_named,
    AuthFault::redirect("http://169.254.169.254/latest").on("metadata").always(),
    @"
    exit 5
    authorization_server failed, authorization_server: 169.254.169.254 was not asked: its address is link-local or for special use, where no server may send us
      this is not safe to go on with: ask who runs it
      $ -
    "
);
with_fault!(
    busy_authorization_server_is_named,
    AuthFault::too_many_requests(Duration::from_secs(30)).on("metadata").always(),
    @"
    exit 3
    authorization_server failed, authorization_server: http://127.0.0.1:[PORT] answered with status 429
      try again later
      $ bowline doctor docs
    "
);
with_fault!(reset_metadata_is_named, AuthFault::reset().on("metadata").always(), @"
exit 3
authorization_server failed, authorization_server: http://127.0.0.1:[PORT]: connection lost: connection error: Connection reset by peer
  try again later
  $ bowline doctor docs
");
with_fault!(closed_metadata_is_named, AuthFault::close().on("metadata").always(), @"
exit 3
authorization_server failed, authorization_server: http://127.0.0.1:[PORT]: connection lost: connection closed before message completed
  try again later
  $ bowline doctor docs
");
with_fault!(silent_metadata_is_named, AuthFault::silent().on("metadata").always(), @"
exit 3
authorization_server failed, authorization_server: no answer within 10 s
  try again later
  $ bowline doctor docs
");
with_fault!(
    slow_metadata_is_no_fault,
    AuthFault::delay(Duration::from_millis(20)).on("metadata").always(),
    @"
    exit 5
    login failed, you: you are not logged in
      log in
      $ bowline login docs
    "
);
with_fault!(reset_resource_metadata_is_named, AuthFault::reset().on("prm").always(), @"
exit 3
resource_metadata failed, server: http://127.0.0.1:[PORT]: connection lost: connection error: Connection reset by peer
  try again later
  $ bowline doctor docs
");

after_login!(
    revoked_login_is_named,
    |site| site.auth.revoke_all(),
    @"
    exit 5
    login failed, you: a new login is needed: the authorization server ended the login
      log in
      $ bowline login docs
    "
);
after_login!(
    refresh_that_is_refused_is_named,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::invalid_grant().always());
    },
    @"
    exit 5
    login failed, you: a new login is needed: the authorization server ended the login
      log in
      $ bowline login docs
    "
);
after_login!(
    forgotten_client_is_named,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::invalid_client().always());
    },
    @"
    exit 5
    login failed, you: a new login is needed: the authorization server no longer knows this client
      log in
      $ bowline login docs
    "
);
after_login!(
    failing_refresh_is_named,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::reset().on("refresh_token").always());
    },
    @"
    exit 3
    login failed, authorization_server: the login could not be refreshed: http://127.0.0.1:[PORT]: connection lost: connection error: Connection reset by peer
      try again later; the stored login is unchanged
      $ bowline doctor docs
    "
);
after_login!(
    access_token_that_ended_is_refreshed,
    |site| site.auth.revoke_all_access(),
    @"exit 0"
);
after_login!(
    refresh_without_rotation_is_no_fault,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::no_refresh_token());
    },
    @"exit 0"
);
after_login!(
    refresh_token_that_stays_is_no_fault,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::no_rotation());
    },
    @"exit 0"
);
after_login!(
    token_that_ends_at_once_is_no_fault,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::lifetime(Duration::from_secs(1)));
    },
    @"exit 0"
);
after_login!(
    error_of_the_token_endpoint_is_named,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::error_with(503, "server_error", "no rope").on("refresh_token").always());
    },
    @"
    exit 3
    login failed, authorization_server: the login could not be refreshed: http://127.0.0.1:[PORT]/token answered with status 503
      try again later; the stored login is unchanged
      $ bowline doctor docs
    "
);
after_login!(
    web_page_at_the_token_endpoint_is_named,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::html(200).on("refresh_token").always());
    },
    @"
    exit 3
    login failed, authorization_server: the login could not be refreshed: http://127.0.0.1:[PORT]/token answered with something other than JSON
      try again later; the stored login is unchanged
      $ bowline doctor docs
    "
);
after_login!(
    odd_lifetime_is_no_fault,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::expires_in("soon"));
    },
    @"exit 0"
);
after_login!(
    metadata_that_broke_since_the_login_is_a_warning,
    |site| site.auth.arm(AuthFault::set_member("issuer", "https://evil.example").on("metadata").always()),
    @"
    exit 0
    authorization_server warning, authorization_server: the metadata of http://127.0.0.1:[PORT] names the issuer https://evil.example, so it is not used
      this is not safe to go on with: ask who runs it
      $ -
    "
);

after_login!(
    refresh_that_names_no_scope_is_no_fault,
    |site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::without_member("scope").on("refresh_token"));
    },
    @"exit 0"
);

/// Examines a server that wants tokens bound to a key, after a login that was followed by `change`.
async fn verdict_with_dpop(change: impl FnOnce(&LoginSite)) -> String {
    let site = LoginSite::with_script(AuthServer::builder().dpop(), Protection::dpop).await;
    site.logs_in().await;
    change(&site);
    verdict_at(&site)
}

/// A nonce is learned from the refusal, and the request is sent again with it.
#[tokio::test]
pub(super) async fn nonce_challenge_is_no_fault() {
    verdict!(verdict_with_dpop(|site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::nonce_challenge());
        site.auth.arm(AuthFault::nonce_challenge().on("mcp"));
    })
    .await, @"exit 0");
}

#[tokio::test]
pub(super) async fn nonce_challenges_without_end_are_blamed_on_the_server() {
    verdict!(verdict_with_dpop(|site| site.auth.arm(AuthFault::nonce_challenge().on("mcp").always())).await, @"
    exit 5
    login failed, server: the server refuses the token that was issued for it
      log in again; if that does not help, ask who runs the server
      $ bowline login docs
    ");
}

#[tokio::test]
pub(super) async fn nonce_challenges_of_the_token_endpoint_without_end_are_named() {
    verdict!(verdict_with_dpop(|site| {
        site.auth.revoke_all_access();
        site.auth.arm(AuthFault::nonce_challenge().always());
    })
    .await, @"
    exit 5
    login failed, authorization_server: the token cannot be refreshed: http://127.0.0.1:[PORT]/token refused with use_dpop_nonce: a nonce is needed
      try again later; the stored login is unchanged
      $ bowline doctor docs
    ");
}

/// What happens only in a browser, such as a wrong `iss`, is for `bowline login` to name.
#[tokio::test]
pub(super) async fn faults_of_the_authorization_page_are_left_to_the_login() {
    let site = LoginSite::new().await;
    for fault in
        [AuthFault::wrong_iss("https://evil.example"), AuthFault::no_iss(), AuthFault::normalized_iss()]
    {
        site.auth.arm(fault);
        let examined = Examined::of(&site.context, &["docs"]);
        assert_eq!((examined.code, examined.status("login")), (5, "failed"));
        assert_eq!(examined.check("login")["remedy"]["command"], "bowline login docs");
        assert_eq!(site.auth.armed_faults().len(), 1, "nobody visited the page");
        site.auth.disarm();
    }
}

/// Examines a server after a login, if it answers every token like this.
async fn verdict_of_protection(how: impl FnOnce(Protection) -> Protection) -> String {
    let site = LoginSite::with_script(AuthServer::builder().scopes(&["docs:write"]), how).await;
    site.logs_in().await;
    verdict_at(&site)
}

#[tokio::test]
pub(super) async fn server_that_refuses_its_own_tokens_is_named() {
    verdict!(verdict_of_protection(Protection::always_unauthorized).await, @"
    exit 5
    login failed, server: the server refuses the token that was issued for it
      log in again; if that does not help, ask who runs the server
      $ bowline login docs
    ");
}

#[tokio::test]
pub(super) async fn missing_scope_is_named() {
    verdict!(verdict_of_protection(|protected| protected.always_forbidden("docs:write")).await, @"
    exit 5
    login failed, you: the login lacks what the server asks for: docs:write
      log in with the scopes that are missing
      $ bowline login docs --scope docs:write
    ");
}

/// The metadata names no scope, so that the login asked for none.
#[tokio::test]
pub(super) async fn scope_that_the_login_did_not_ask_for_is_named() {
    verdict!(verdict_of_protection(|protected| protected.requires_scope("docs:write")).await, @"
    exit 5
    login failed, you: the login lacks what the server asks for: docs:write
      log in with the scopes that are missing
      $ bowline login docs --scope docs:write
    ");
}

/// The server says without a login which scope it requires, and the login asks for it.
#[tokio::test]
pub(super) async fn scope_that_the_challenge_names_is_no_fault() {
    let how = |protected: Protection| protected.challenge_scope("docs:write").requires_scope("docs:write");
    verdict!(verdict_of_protection(how).await, @"exit 0");
}

#[tokio::test]
pub(super) async fn denied_access_is_named() {
    verdict!(verdict_of_protection(Protection::always_forbidden_without_challenge).await, @"
    exit 3
    connection failed, you: HTTP status 403
      access is denied: is this your URL, and is the token meant for this server?
      $ bowline edit
    ");
}

/// Credentials that the entry sets are not a login.
#[tokio::test]
async fn refused_header_is_named() {
    let site = LoginSite::new().await;
    site.configure("headers = { Authorization = 'Bearer tk-secret-header-0123456789' }\n");
    verdict!(verdict_at(&site), @"
    exit 5
    login failed, you: the server refuses the Authorization header that it is sent
      has the token expired, and is it meant for this server? Replace it
      $ bowline edit
    ");
}

#[tokio::test]
async fn refused_headers_command_is_named() {
    let site = LoginSite::new().await;
    site.configure("headers_command = ['sh', '-c', '''echo '{\"Authorization\":\"Bearer no\"}' ''']\n");
    verdict!(verdict_at(&site), @"
    exit 5
    login failed, you: the server refuses the headers that the `headers_command` of its entry printed
      run that command directly, and see whether what it prints is valid
      $ bowline edit
    ");
}

#[tokio::test]
async fn failing_headers_command_is_named() {
    let site = LoginSite::new().await;
    site.configure("headers_command = ['sh', '-c', 'exit 3']\n");
    verdict!(verdict_at(&site), @"
    exit 3
    connection failed, you: the headers command failed: sh failed (exit status: 3)
      run the `headers_command` of its entry directly to see what it prints
      $ bowline edit
    ");
}

#[tokio::test]
async fn login_that_is_switched_off_is_named() {
    let site = LoginSite::new().await;
    site.configure("auth = false\n");
    verdict!(verdict_at(&site), @"
    exit 5
    login failed, you: the server requires a login, and its entry sets `auth = false`
      remove that to log in, or set a token under `headers`
      $ bowline edit
    ");
}

/// A damaged store is this machine's fault, whether one server is examined or all.
#[tokio::test]
async fn damaged_store_is_named() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let state = site.context.path("home/.local/state/bowline");
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(state.join(name));
    }
    std::fs::write(state.join("store.db"), "this is no database, and never was one").unwrap();
    for (words, name) in [(&["docs"][..], "login"), (&[], "store")] {
        let examined = Examined::of(&site.context, words);
        let check = examined.check(name);
        assert_eq!((&check["status"], &check["blame"]), (&"failed".into(), &"machine".into()), "{check}");
        assert_eq!(check["remedy"]["command"], "bowline auth");
        assert_eq!(examined.code, 2, "{:#}", examined.json);
    }
}
