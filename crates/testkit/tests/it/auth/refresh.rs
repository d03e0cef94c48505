//! Refresh tokens: rotation, reuse, expiry, and what a refresh may request.

use super::*;
use bowline_testkit::{AuthFault, AuthScript, AuthServer, RefreshTokenPolicy};
use std::time::Duration;

async fn refresh(auth: &AuthControl, client: &str, refresh: &str) -> HttpReply {
    token(auth, &refresh_form(client, refresh)).await
}

#[tokio::test]
async fn a_refresh_rotates() {
    let auth = AuthServer::start().await;
    let (client, first) = login(&auth, "a b").await;
    assert!(first.text("refresh_token").starts_with("tk-secret-refresh-"));
    let second = refresh(&auth, &client, &first.text("refresh_token")).await;
    assert_eq!((second.status, second.text("scope")), (200, "a b".into()));
    assert_ne!(second.text("refresh_token"), first.text("refresh_token"));
    assert_ne!(second.text("access_token"), first.text("access_token"));
    // The old access token stays valid.
    assert!(
        auth.is_valid_access_token(&first.text("access_token"))
            && auth.is_valid_access_token(&second.text("access_token"))
    );
    assert_eq!((auth.refreshes(), auth.reuse_detected()), (1, 0));
    assert_eq!(auth.counts().tokens["refresh_token"], 1);
}

#[tokio::test]
async fn reuse_ends_the_login() {
    let auth = AuthServer::start().await;
    let (client, first) = login(&auth, "a").await;
    let second = refresh(&auth, &client, &first.text("refresh_token")).await;
    let (_, bystander) = login(&auth, "a").await;
    let reused = refresh(&auth, &client, &first.text("refresh_token")).await;
    assert_eq!(reused.error(), (400, "invalid_grant".into()));
    assert_eq!((auth.reuse_detected(), auth.counts().families_revoked), (1, 1));
    assert!(!auth.is_valid_access_token(&second.text("access_token")));
    assert_eq!(refresh(&auth, &client, &second.text("refresh_token")).await.error().1, "invalid_grant");
    assert_eq!(auth.reuse_detected(), 1, "the newest was never rotated");
    assert!(auth.is_valid_access_token(&bystander.text("access_token")));
}

#[tokio::test]
async fn a_refresh_may_leave_the_token_as_it_is() {
    let auth = AuthServer::start().await;
    let (client, first) = login(&auth, "a").await;
    let kept = first.text("refresh_token");
    auth.arm(AuthFault::no_refresh_token());
    assert_eq!(refresh(&auth, &client, &kept).await.json().get("refresh_token"), None);
    auth.arm(AuthFault::no_rotation());
    assert_eq!(refresh(&auth, &client, &kept).await.text("refresh_token"), kept);
    auth.edit(AuthScript::no_rotation);
    assert_eq!(refresh(&auth, &client, &kept).await.json().get("refresh_token"), None);
    assert_eq!((auth.refreshes(), auth.reuse_detected()), (3, 0));
    assert!(auth.armed_faults().is_empty());
}

#[tokio::test]
async fn a_rotation_can_be_lost_on_the_way() {
    let auth = AuthServer::start().await;
    let (client, first) = login(&auth, "a").await;
    auth.arm(AuthFault::reset().on("refresh_token").executed());
    let lost =
        post_with(&auth.endpoint("token"), &refresh_form(&client, &first.text("refresh_token")), &[]).await;
    assert!(lost.is_err());
    assert_eq!(auth.refreshes(), 1);
    assert_eq!(refresh(&auth, &client, &first.text("refresh_token")).await.error().1, "invalid_grant");
    // Before execution, nothing is lost.
    let (client, second) = login(&auth, "a").await;
    auth.arm(AuthFault::reset().on("refresh_token"));
    let form = refresh_form(&client, &second.text("refresh_token"))
        .iter()
        .map(|(n, v)| (*n, (*v).to_owned()))
        .collect::<Vec<_>>();
    let form: Vec<(&str, &str)> = form.iter().map(|(n, v)| (*n, v.as_str())).collect();
    assert!(post_with(&auth.endpoint("token"), &form, &[]).await.is_err());
    assert_eq!(token(&auth, &form).await.status, 200);
}

#[tokio::test]
async fn a_refresh_cannot_ask_for_more() {
    let auth = AuthServer::start().await;
    let (client, first) = login(&auth, "a b").await;
    let held = first.text("refresh_token");
    let mut form = refresh_form(&client, &held);
    form.push(("scope", "a c"));
    assert_eq!(token(&auth, &form).await.error().1, "invalid_scope");
    form.last_mut().unwrap().1 = "b";
    assert_eq!(token(&auth, &form).await.text("scope"), "b");
    let (client, first) = login(&auth, "a").await;
    let held = first.text("refresh_token");
    let mut form = refresh_form(&client, &held);
    form.last_mut().unwrap().1 = "http://127.0.0.1:1/other";
    assert_eq!(token(&auth, &form).await.error().1, "invalid_target");
    let stranger = public_client(&auth).await;
    assert_eq!(refresh(&auth, &stranger, &held).await.error().1, "invalid_grant");
    assert_eq!(refresh(&auth, &client, &held).await.status, 200, "none of this used it up");
}

#[tokio::test]
async fn refresh_tokens_follow_the_policy() {
    for (when, scope, comes) in [
        (RefreshTokenPolicy::Always, "a", true),
        (RefreshTokenPolicy::Offline, "a", false),
        (RefreshTokenPolicy::Offline, "a offline_access", true),
        (RefreshTokenPolicy::Never, "a offline_access", false),
    ] {
        let auth = AuthServer::builder().refresh_tokens(when).start().await;
        let (_, said) = login(&auth, scope).await;
        assert_eq!(said.json().get("refresh_token").is_some(), comes, "{when:?} {scope}");
    }
}

#[tokio::test]
async fn tokens_end_by_the_servers_clock_or_its_word() {
    let auth = AuthServer::start().await;
    let (client, first) = login(&auth, "a").await;
    assert_eq!(first.json()["expires_in"], 3600);
    auth.advance_clock(Duration::from_secs(3599));
    assert!(auth.is_valid_access_token(&first.text("access_token")));
    auth.advance_clock(Duration::from_secs(1));
    assert!(!auth.is_valid_access_token(&first.text("access_token")));
    let second = refresh(&auth, &client, &first.text("refresh_token")).await;
    auth.revoke_all_access();
    assert!(!auth.is_valid_access_token(&second.text("access_token")));
    let third = refresh(&auth, &client, &second.text("refresh_token")).await;
    assert_eq!(third.status, 200);
    let (client, said) = login(&auth, "a").await;
    auth.revoke_all();
    assert_eq!(refresh(&auth, &client, &said.text("refresh_token")).await.error().1, "invalid_grant");
}

#[tokio::test]
async fn a_client_can_give_tokens_back() {
    let auth = AuthServer::start().await;
    let (client, said) = login(&auth, "a").await;
    let revoke = async |token: &str| {
        post_with(&auth.endpoint("revoke"), &[("client_id", &client), ("token", token)], &[])
            .await
            .unwrap()
            .status
    };
    assert_eq!(revoke("made-up").await, 200);
    assert_eq!(revoke(&said.text("access_token")).await, 200);
    assert!(!auth.is_valid_access_token(&said.text("access_token")));
    let next = refresh(&auth, &client, &said.text("refresh_token")).await;
    assert_eq!(revoke(&next.text("refresh_token")).await, 200);
    assert!(!auth.is_valid_access_token(&next.text("access_token")));
}

#[tokio::test]
async fn tokens_without_a_login_work_the_same() {
    let auth = AuthServer::builder().client(bowline_testkit::AuthClient::public("app")).start().await;
    let issued = auth.issue("app", "a", RESOURCE);
    assert!(auth.is_valid_access_token(&issued.access_token));
    assert_eq!(refresh(&auth, "app", &issued.refresh_token).await.status, 200);
    assert_eq!(refresh(&auth, "app", &issued.refresh_token).await.status, 400);
    assert_eq!(auth.reuse_detected(), 1);
}
