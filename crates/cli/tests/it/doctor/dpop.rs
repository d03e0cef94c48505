//! Tokens that are bound to a key: what of them can be found out before a login.

use bowline_testkit::{AuthScript, AuthServer, Protection};
use serde_json::json;

use super::authorization::verdict_at;
use super::{Examined, verdict};
use crate::login::LoginSite;

/// Starts a server whose entry asks for bound tokens.
async fn site_with_dpop(auth: AuthScript) -> LoginSite {
    let site = LoginSite::with_script(auth, |protected| protected).await;
    site.configure("auth = { dpop = true }\n");
    site
}

#[tokio::test]
pub(super) async fn missing_announcement_is_named_before_a_login() {
    let site = site_with_dpop(AuthServer::builder()).await;
    let examined = Examined::of(&site.context, &["docs"]);
    verdict!(examined.verdict(), @"
    exit 2
    dpop failed, you: the authorization server does not announce DPoP, which `dpop = true` requires
      leave `dpop` out of the server's `auth` to use bearer tokens
      $ bowline edit
    ");
    assert_eq!((examined.status("pkce"), examined.status("client")), ("ok", "ok"));
    assert_eq!(examined.check("login")["seen"], "no login can be made before that is fixed");
    // The remedy is the right one.
    site.configure("");
    verdict!(verdict_at(&site), @"
    exit 5
    login failed, you: you are not logged in
      log in
      $ bowline login docs
    ");
}

/// A list without an algorithm of ours is no better than none.
#[tokio::test]
pub(super) async fn unsupported_algorithm_is_named_before_a_login() {
    let auth = AuthServer::builder().metadata("dpop_signing_alg_values_supported", json!(["EdDSA", "RS512"]));
    verdict!(verdict_at(&site_with_dpop(auth).await), @"
    exit 2
    dpop failed, you: the authorization server accepts DPoP proofs signed with EdDSA, RS512, but not with ES256
      set `dpop` to false if the server accepts bearer tokens
      $ bowline edit
    ");
}

#[tokio::test]
pub(super) async fn announced_dpop_is_no_fault() {
    let site = site_with_dpop(AuthServer::builder().dpop()).await;
    let examined = Examined::of(&site.context, &["docs"]);
    assert_eq!(examined.check("dpop")["seen"], "tokens are bound to a key of this machine");
    site.logs_in().await;
    assert_eq!(verdict_at(&site), "exit 0");
}

/// A login that works goes on working although the next one would fail.
#[tokio::test]
async fn announcement_that_is_gone_since_the_login_is_a_warning() {
    let site = site_with_dpop(AuthServer::builder().dpop()).await;
    site.logs_in().await;
    site.auth.edit(|script| script.without_metadata("dpop_signing_alg_values_supported"));
    verdict!(verdict_at(&site), @"
    exit 0
    dpop warning, you: the authorization server does not announce DPoP, which `dpop = true` requires
      leave `dpop` out of the server's `auth` to use bearer tokens
      $ bowline edit
    ");
}

/// The server accepts no other tokens, and says only that it asks for bound ones.
#[tokio::test]
pub(super) async fn dpop_that_only_the_server_knows_of_is_named() {
    let site = LoginSite::with_script(AuthServer::builder(), Protection::dpop).await;
    let before = verdict_at(&site);
    verdict!(before, @"
    exit 5
    dpop warning, authorization_server: the server asks for tokens bound to a key (DPoP), which its authorization server does not announce
      if the server refuses other tokens, who runs the authorization server has to offer DPoP
      $ -
    login failed, you: you are not logged in
      log in
      $ bowline login docs
    ");
    site.logs_in().await;
    verdict!(verdict_at(&site), @"
    exit 5
    dpop warning, authorization_server: the server asks for tokens bound to a key (DPoP), which its authorization server does not announce
      if the server refuses other tokens, who runs the authorization server has to offer DPoP
      $ -
    login failed, server: the server refuses the token that was issued for it
      log in again; if that does not help, ask who runs the server
      $ bowline login docs
    ");
}

/// Nobody asks for bound tokens, so there is nothing to check.
#[tokio::test]
async fn bearer_tokens_need_no_check_of_dpop() {
    let site = LoginSite::with_script(AuthServer::builder().dpop(), |protected| protected).await;
    let examined = Examined::of(&site.context, &["docs"]);
    assert!(examined.checks().iter().all(|check| check["name"] != "dpop"), "{:#}", examined.json);
}

/// Both sides require a nonce of their own in every proof.
#[tokio::test]
pub(super) async fn nonces_of_both_sides_are_no_fault() {
    let auth = AuthServer::builder().dpop_only().dpop_nonce();
    let site = LoginSite::with_script(auth, Protection::dpop_nonce).await;
    site.logs_in().await;
    assert_eq!(verdict_at(&site), "exit 0");
    site.auth.revoke_all_access();
    assert_eq!(verdict_at(&site), "exit 0");
}
