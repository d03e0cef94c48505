//! What a 401 or 403 leads to: more scopes, a login, or an error; and never an endless loop.

use bowline_auth::{AuthErrorKind, LoginOptions};
use bowline_config::{AuthSettings, Dpop, Grant};
use bowline_testkit::{AuthClient, Protection, RefreshTokenPolicy, Tool, auth_server, server, with};
use futures_util::future::join_all;

use crate::support::{TestClient, TestStage, client_settings};

#[tokio::test]
async fn ten_calls_without_a_login_bring_the_person_to_one_page() {
    let stage = TestStage::new().await;
    let host = stage.client();
    let calls = join_all((0..10).map(|n| host.call(["tools/list", "server/discover"][n % 2]))).await;
    assert!(calls.into_iter().all(|status| status.unwrap() == 200));
    assert_eq!((host.pages(), stage.auth.authorizations()), (1, 1));
}

#[tokio::test]
async fn two_processes_without_a_login_bring_the_person_to_one_page() {
    let stage = TestStage::new().await;
    let (one, other) = (stage.client(), stage.client());
    let calls = tokio::join!(one.call("tools/list"), other.call("tools/list"));
    assert_eq!((calls.0.unwrap(), calls.1.unwrap()), (200, 200));
    assert_eq!(one.pages() + other.pages(), 1);
}

#[tokio::test]
async fn without_a_person_it_fails_at_once_and_says_what_to_do() {
    let stage = TestStage::new().await;
    let error = stage.client_without_person().call("tools/list").await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::LoginNeeded);
    assert_eq!(error.hint.as_deref(), Some("log in"));
    assert!(stage.auth.received().is_empty(), "nobody was asked");
}

#[tokio::test]
async fn background_requests_prompt_nobody() {
    let stage = TestStage::new().await;
    let host = stage.client();
    let mut refusal = host.send("tools/list").await.unwrap_err();
    refusal.background = true;
    let error = host.identity.reauthenticate(&refusal).await.unwrap_err();
    assert_eq!((error.kind, host.pages()), (AuthErrorKind::LoginNeeded, 0));
}

#[tokio::test]
async fn sc_03_a_tool_that_needs_more_gets_the_union() {
    let stage =
        TestStage::with(auth_server(), |it| it.challenge_scope("read").tool_requires_scope("admin", "write"))
            .await;
    let host = stage.client();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(host.account().await.scopes, ["read"]);
    assert_eq!(host.call("tools/call admin").await.unwrap(), 200);
    let asked = stage.auth.received_at("authorize").pop().unwrap();
    assert_eq!(asked.field("scope"), Some("read write"));
    assert_eq!(host.account().await.scopes, ["read", "write"]);
    assert_eq!(host.pages(), 2);
}

#[tokio::test]
async fn scopes_in_a_401_are_asked_for_as_well() {
    let stage = TestStage::with(auth_server(), |it| it.challenge_scope("read")).await;
    let host = stage.logged_in_client().await;
    let described = stage.server.url().replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
    let challenge = format!("Bearer scope=\"read more\", resource_metadata=\"{described}\"");
    host.refuse(401, &challenge, "tools/list", false).await.unwrap();
    let asked = stage.auth.received_at("authorize").pop().unwrap();
    assert_eq!(asked.field("scope"), Some("read more"));
    assert_eq!(stage.auth.refreshes(), 0);
}

#[tokio::test]
async fn sc_04_a_server_that_always_wants_more_gets_three_logins_at_most() {
    let stage = TestStage::with(auth_server(), |it| it.always_forbidden("admin")).await;
    let host = stage.client();
    for _ in 0..4 {
        let error = host.call("tools/call x").await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Insufficient, "{error}");
    }
    assert!(stage.auth.authorizations() <= 3, "{}", stage.auth.authorizations());
}

// SC-04: also if it wants another scope each time.
#[tokio::test]
async fn sc_04_ever_new_scopes_cause_three_logins_at_most() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    let before = stage.auth.authorizations();
    let mut ended = None;
    for n in 0..10 {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"s{n}\"");
        if let Err(error) = host.refuse(403, &challenge, "tools/call x", false).await {
            ended = Some(error.kind);
            break;
        }
    }
    assert_eq!(ended, Some(AuthErrorKind::Insufficient));
    assert_eq!(stage.auth.authorizations() - before, 3);
}

#[tokio::test]
async fn tk_04_a_403_without_scopes_is_final() {
    let stage = TestStage::with(auth_server(), Protection::always_forbidden_without_challenge).await;
    let host = stage.client();
    let error = host.call("tools/list").await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Refused);
    assert_eq!((host.pages(), stage.auth.refreshes()), (1, 0));
}

#[tokio::test]
async fn a_server_that_takes_no_token_gets_one_login() {
    for refresh in [RefreshTokenPolicy::Always, RefreshTokenPolicy::Never] {
        let stage =
            TestStage::with(auth_server().refresh_tokens(refresh), Protection::always_unauthorized).await;
        let host = stage.client();
        for _ in 0..3 {
            let error = host.call("tools/list").await.unwrap_err();
            assert_eq!(error.kind, AuthErrorKind::Refused, "{error}");
        }
        assert_eq!(host.pages(), 1);
        assert!(stage.auth.refreshes() <= 3);
    }
}

// AR-04, TK-04: the server has switched to another authorization server.
#[tokio::test]
async fn another_authorization_server_is_noticed_and_sees_nothing_of_the_first() {
    let first = auth_server().start().await;
    let second = auth_server().start().await;
    let mcp = server()
        .tool(Tool::like("admin", "echo"))
        .protected(Protection::with_auth_server(&first))
        .run()
        .await;
    let store = bowline_store::EncryptedStore::in_memory();
    let http = bowline_config::Http::from_url(mcp.url().parse().unwrap());
    let host = TestClient::new(&store, http, Some(std::sync::Arc::default()));
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    let old = first.received_at("authorization_code").pop().unwrap().client_id.unwrap();
    mcp.edit(|script| script.protected(Protection::with_auth_server(&second)));
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(host.account().await.issuer, second.issuer());
    assert_eq!((first.authorizations(), second.authorizations(), second.registrations()), (1, 1, 1));
    assert!(second.received().iter().all(|seen| seen.client_id.as_deref() != Some(&old)));
    assert!(second.received_at("refresh_token").is_empty());
}

#[tokio::test]
async fn a_dropped_call_closes_its_page_and_the_next_starts_at_once() {
    let stage = TestStage::new().await;
    let person = std::sync::Arc::new(crate::support::TestPerson { idle: true, ..Default::default() });
    let host = TestClient::new(&stage.store, stage.http(), Some(person.clone()));
    let shown = stage.auth.wait_for(|seen| seen.matches("register"), crate::support::TEST_TIMEOUT);
    tokio::select! {
        called = host.call("tools/list") => panic!("{called:?}"),
        _ = shown => {}
    }
    let other = stage.client();
    let called = tokio::time::timeout(crate::support::TEST_TIMEOUT, other.call("tools/list")).await;
    assert_eq!(called.expect("nobody holds it up").unwrap(), 200);
}

#[tokio::test]
async fn a_login_elsewhere_ends_the_wait_for_our_own_page() {
    let stage = TestStage::with(auth_server().refresh_tokens(RefreshTokenPolicy::Never), |it| it).await;
    stage.logged_in_client().await;
    let person = std::sync::Arc::new(crate::support::TestPerson { idle: true, ..Default::default() });
    let host = TestClient::new(&stage.store, stage.http(), Some(person.clone()));
    host.identity.load().await.unwrap();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    stage.auth.revoke_all_access();
    let elsewhere = async {
        person.shown.notified().await;
        stage.client().identity.login(&LoginOptions::default()).await.unwrap();
        std::future::pending::<()>().await;
    };
    let call = tokio::time::timeout(crate::support::TEST_TIMEOUT, host.call("tools/list"));
    tokio::select! {
        called = call => assert_eq!(called.expect("our own page is not waited for").unwrap(), 200),
        () = elsewhere => unreachable!("it waits"),
    }
    assert_eq!(host.pages(), 1);
}

#[tokio::test]
async fn one_refused_operation_does_not_refresh_a_token_others_use() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    let mut ended = Vec::new();
    for _ in 0..10 {
        assert_eq!(host.call("tools/list").await.unwrap(), 200);
        ended.extend(host.refuse(401, "Bearer", "GET", true).await.err());
    }
    assert!(stage.auth.refreshes() <= 3, "{}", stage.auth.refreshes());
    assert!(ended.iter().all(|error| error.kind == AuthErrorKind::Refused), "{ended:?}");
    assert_eq!((ended.len(), host.pages()), (7, 1));
}

fn machine() -> AuthSettings {
    let client = Some(client_settings("robot", "robot-secret"));
    with!(AuthSettings::default(), grant: Grant::ClientCredentials, client: client)
}

// AX-01, AX-02
#[tokio::test]
async fn a_machine_needs_no_person_and_renews_by_asking_anew() {
    let script = auth_server().client(AuthClient::basic("robot", "robot-secret"));
    let stage = TestStage::with(script, |it| it).await;
    let host = TestClient::new(&stage.store, with!(stage.http(), auth: machine()), None);
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert!(host.account().await.refreshable);
    stage.auth.revoke_all_access();
    let calls = join_all((0..10).map(|_| host.call("tools/list"))).await;
    assert!(calls.into_iter().all(|status| status.unwrap() == 200));
    assert_eq!(stage.auth.count("client_credentials"), 2);
    assert_eq!(stage.auth.authorizations(), 0);
}

#[tokio::test]
async fn a_machine_that_is_refused_does_not_ask_without_end() {
    let script = auth_server().client(AuthClient::basic("robot", "robot-secret"));
    let stage = TestStage::with(script, Protection::always_unauthorized).await;
    let host = TestClient::new(&stage.store, with!(stage.http(), auth: machine()), None);
    for _ in 0..5 {
        host.call("tools/list").await.unwrap_err();
    }
    assert!(stage.auth.count("client_credentials") <= 6, "{}", stage.auth.count("client_credentials"));
}

// AX-06, AX-07
#[tokio::test]
async fn a_bound_token_has_a_proof_and_a_nonce_needs_no_refresh() {
    let stage = TestStage::with(auth_server().dpop_nonce(), Protection::dpop_nonce).await;
    let host = stage.client_with_auth(with!(AuthSettings::default(), dpop: Dpop::Auto));
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!((stage.auth.refreshes(), host.pages()), (0, 1));
    stage.auth.rotate_nonces();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(stage.auth.refreshes(), 0);
    // The key outlives the process, and a refresh proves it too.
    let other = stage.client_without_person();
    other.identity.load().await.unwrap();
    stage.auth.revoke_all_access();
    assert_eq!(other.call("tools/list").await.unwrap(), 200);
    assert_eq!(stage.auth.refreshes(), 1);
    assert_eq!(stage.auth.violations(), Vec::<String>::new());
}

// AX-06: a logout deletes the key, and the next login creates another under the same id.
#[tokio::test]
async fn a_logout_and_a_login_elsewhere_bring_another_key() {
    let stage = TestStage::with(auth_server().dpop(), Protection::dpop).await;
    let elsewhere = stage.client();
    elsewhere.identity.login(&LoginOptions::default()).await.unwrap();
    let host = stage.client_without_person();
    host.identity.load().await.unwrap();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    elsewhere.identity.logout().await.unwrap();
    elsewhere.identity.login(&LoginOptions::default()).await.unwrap();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    // A refresh proves the new key too.
    stage.auth.revoke_all_access();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(elsewhere.call("tools/list").await.unwrap(), 200);
    assert_eq!((stage.auth.refreshes(), elsewhere.pages()), (1, 2));
}

#[tokio::test]
async fn more_scopes_can_be_asked_for_by_hand() {
    let stage = TestStage::with(auth_server(), |it| it.challenge_scope("read")).await;
    let host = stage.client();
    let options = LoginOptions::default().scopes(["extra"]);
    let account = host.identity.login(&options).await.unwrap();
    assert_eq!(account.scopes, ["read", "extra"]);
}
