//! Calls refused with 401 or 403 are reauthenticated and retried in the same call, with one login
//! or refresh for all.

use std::time::Duration;

use bowline::auth::{Auth, LoginOptions};
use bowline::config::Protocol;
use bowline::{CallOptions, Cause, Client, ErrorKind, Execution};
use bowline_config::TransportSettings as _;
use bowline_testkit::{AuthFault, AuthScript};
use serde_json::json;

use super::{Person, connect_logged_in, start_protected};
use crate::support::{TEST_TIMEOUT, call_concurrently};

/// TK-04: fifty calls are refused at once. One refresh serves all, and the session stays.
#[tokio::test]
async fn refused_calls_share_one_refresh() {
    for era in [Protocol::Legacy, Protocol::Modern] {
        let (auth, web, server) = start_protected(AuthScript::default(), era, |it| it).await;
        let person = Person::default();
        let (client, _) = connect_logged_in(&server, &person).await;
        call_concurrently(&client, 4, "echo").await;
        let before = web.initialize_count();
        auth.revoke_all_access();
        call_concurrently(&client, 50, "counter").await;
        assert_eq!(web.executions("counter"), 50, "{era:?}");
        assert_eq!((auth.refreshes(), person.prompt_count()), (1, 1), "{era:?}");
        assert_eq!(web.initialize_count(), before, "the session outlives its token");
        assert_eq!(auth.reuse_detected(), 0);
        client.close().await;
    }
}

/// A token about to expire is refreshed before the call, so the server never sees an expired one.
#[tokio::test]
async fn an_expired_token_is_never_sent() {
    let short = AuthScript::default().lifetime(Duration::from_secs(8));
    let (auth, web, server) = start_protected(short, Protocol::Legacy, |it| it).await;
    let person = Person::default();
    let (client, _) = connect_logged_in(&server, &person).await;
    let refused = |web: &bowline_testkit::HttpServer| {
        web.received().iter().filter(|it| it.header("authorization").is_none()).count()
    };
    let unsigned = refused(&web);
    // The refresh also happens by itself on an idle connection.
    auth.wait_until(|auth| auth.refreshes() >= 1, TEST_TIMEOUT).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(refused(&web), unsigned);
    assert_eq!(person.prompt_count(), 1);
    client.close().await;
}

/// SC-03: a call that needs more scopes requests the old and the new ones together, and is retried.
#[tokio::test]
async fn a_call_steps_up() {
    for era in [Protocol::Legacy, Protocol::Modern] {
        let how = |it: bowline_testkit::Protection| {
            it.challenge_scope("read").tool_requires_scope("counter", "write")
        };
        let (auth, web, server) =
            start_protected(AuthScript::default().scopes(&["read", "write"]).strict_scopes(), era, how).await;
        let person = Person::default();
        let (client, _) = connect_logged_in(&server, &person).await;
        client.call_tool("counter", &json!({})).await.unwrap();
        assert_eq!((web.executions("counter"), person.prompt_count()), (1, 2), "{era:?}");
        let asked = auth.received_at("authorize");
        let scope = asked.last().unwrap().field("scope").unwrap_or_default();
        for wanted in ["read", "write"] {
            assert!(scope.split(' ').any(|it| it == wanted), "{scope}");
        }
        // The new scopes are kept.
        client.call_tool("counter", &json!({})).await.unwrap();
        assert_eq!(person.prompt_count(), 2);
        client.close().await;
    }
}

/// SC-04: a server that always demands more scopes is given up soon.
#[tokio::test]
async fn step_up_is_bounded() {
    let (auth, web, server) = start_protected(AuthScript::default(), Protocol::Modern, |it| it).await;
    let person = Person::default();
    let (client, _) = connect_logged_in(&server, &person).await;
    let authorized = auth.authorizations();
    web.edit(|script| {
        script.protected(bowline_testkit::Protection::with_auth_server(&auth).always_forbidden("more"))
    });
    for _ in 0..3 {
        let error = client.call_tool("counter", &json!({})).await.unwrap_err();
        let ErrorKind::Fault(fault) = error.kind() else { panic!("{error}") };
        assert!(matches!(fault.cause, Cause::LoginRequired { code: 403, .. }), "{fault:?}");
        assert_eq!(fault.execution, Execution::NotExecuted);
    }
    assert!(auth.authorizations() - authorized <= 3, "{}", auth.authorizations());
    assert_eq!(web.executions("counter"), 0);
    client.close().await;
}

/// A login takes longer than the call's timeout: the deadline is paused meanwhile.
#[tokio::test]
async fn the_call_deadline_pauses_while_a_person_logs_in() {
    let how = |it: bowline_testkit::Protection| it.tool_requires_scope("counter", "write");
    let (_auth, web, server) = start_protected(AuthScript::default(), Protocol::Modern, how).await;
    let person = Person::default();
    let (client, _) = connect_logged_in(&server, &person).await;
    let gate = person.prompt_lock.clone();
    let held = gate.lock().await;
    let limit = Duration::from_secs(2);
    let options = CallOptions::new().idle_timeout(limit).timeout(limit);
    let brief = options.clone();
    let call = {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool_with("counter", &json!({}), &options).await })
    };
    while person.prompt_count() < 2 {
        tokio::task::yield_now().await;
    }
    // Other calls, whose deadlines run, time out meanwhile one after the other.
    web.arm(bowline_testkit::Fault::silent().on_tool("echo").always());
    for _ in 0..2 {
        client.call_tool_with("echo", &json!({}), &brief).await.unwrap_err();
    }
    assert!(!call.is_finished());
    drop(held);
    call.await.unwrap().unwrap();
    client.close().await;
}

/// Dropping a call during its refresh does not lose the new token.
#[tokio::test]
async fn a_dropped_call_does_not_lose_the_new_token() {
    let (auth, _web, server) = start_protected(AuthScript::default(), Protocol::Modern, |it| it).await;
    let person = Person::default();
    let (client, _) = connect_logged_in(&server, &person).await;
    auth.revoke_all_access();
    auth.arm(AuthFault::delay(Duration::from_secs(2)).on("token"));
    let arguments = json!({});
    let call = client.call_tool("echo", &arguments);
    let asked = auth.wait_for(|seen| seen.field("grant_type") == Some("refresh_token"), TEST_TIMEOUT);
    tokio::select! {
        biased;
        _ = asked => {}
        _ = call => panic!("too soon"),
    }
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!((auth.refreshes(), auth.reuse_detected(), person.prompt_count()), (1, 0, 1));
    client.close().await;
}

/// CA-03, TL-10: cached lists of one account are not shown to another.
#[tokio::test]
async fn another_account_sees_its_own_lists() {
    let (auth, web, server) =
        start_protected(AuthScript::default().account("alice"), Protocol::Modern, |it| it).await;
    web.edit(|script| script.cache("tools/list", json!({ "ttlMs": 60_000, "cacheScope": "private" })));
    let person = Person::default();
    let (client, memory) = connect_logged_in(&server, &person).await;
    client.list_tools().await.unwrap();
    client.list_tools().await.unwrap();
    assert_eq!(web.count("tools/list"), 1, "kept");
    // Another account logs in elsewhere with the same store, and the old login has ended.
    auth.revoke_all_access();
    auth.edit(|script| script.account("bob"));
    memory.prompt(person.clone()).identity(&server).unwrap().login(&LoginOptions::default()).await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    client.list_tools().await.unwrap();
    assert!(web.count("tools/list") >= 2, "bob is not alice");
    client.close().await;
}

/// A lost session reported as 401 with a valid token leads to a new session, without a login.
#[tokio::test]
async fn a_lost_session_asks_for_no_login() {
    let (auth, web, server) = start_protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    let person = Person::default();
    let (client, _) = connect_logged_in(&server, &person).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    let before = web.initialize_count();
    let gone = bowline_testkit::CannedResponse::new(401).text("Unauthorized");
    // The server answers 401 on the lost session until there is a new one.
    web.arm(bowline_testkit::Fault::response(gone).on_tool("counter").times(2));
    client.call_tool("counter", &json!({})).await.unwrap();
    assert_eq!((web.executions("counter"), web.initialize_count()), (1, before + 1));
    assert_eq!(person.prompt_count(), 1, "{} logins", auth.authorizations());
    client.close().await;
}

/// Without an `Auth` no login begins, and the error carries the server's challenge.
#[tokio::test]
async fn without_auth_no_login_begins() {
    let (auth, _web, server) = start_protected(AuthScript::default(), Protocol::Modern, |it| it).await;
    let error = Client::connect(server.clone()).await.unwrap_err();
    let ErrorKind::Fault(fault) = error.kind() else { panic!("{error}") };
    assert!(matches!(&fault.cause, Cause::LoginRequired { challenge, .. } if !challenge.is_empty()));
    assert_eq!(auth.received().len(), 0);
    // The same holds when the entry configures its own credentials.
    let server = server.with_header("Authorization", "Bearer wrong").unwrap();
    let person = Person::default();
    let auth_of = Auth::in_memory().prompt(person.clone());
    Client::builder(server).auth(auth_of).connect().await.unwrap_err();
    assert_eq!((auth.received().len(), person.prompt_count()), (0, 0));
}

/// TK-03: a server that echoes the token does not get it into our errors.
#[tokio::test]
async fn credentials_echoed_by_a_server_are_redacted() {
    let web = bowline_testkit::server().tool("echo").run().await;
    let server = crate::support::http(&web).with_header("X-Api-Key", "tk-secret-of-the-entry").unwrap();
    let client = Client::connect(server).await.unwrap();
    for status in [400, 401, 403, 500] {
        let echo =
            bowline_testkit::CannedResponse::new(status).text("you sent tk-secret-of-the-entry as your key");
        web.arm(bowline_testkit::Fault::response(echo).on("tools/call"));
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        let ErrorKind::Fault(fault) = error.kind() else { panic!("{error}") };
        assert_eq!(fault.evidence.body.as_deref(), Some("you sent [redacted] as your key"), "{status}");
    }
    client.close().await;
}

/// Closing the connection ends the call that waits for a login, and closes the login page.
#[tokio::test]
async fn closing_ends_a_call_that_waits_for_a_person() {
    let how = |it: bowline_testkit::Protection| it.tool_requires_scope("counter", "write");
    let (_auth, _web, server) = start_protected(AuthScript::default(), Protocol::Modern, how).await;
    let person = Person::default();
    let (client, _) = connect_logged_in(&server, &person).await;
    let _held = person.prompt_lock.clone().lock_owned().await;
    let call = {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool("counter", &json!({})).await })
    };
    while person.prompt_count() < 2 {
        tokio::task::yield_now().await;
    }
    client.close().await;
    tokio::time::timeout(TEST_TIMEOUT, call).await.expect("it ends").unwrap().unwrap_err();
}

/// The call deadline pauses for a person only, not for a refresh.
#[tokio::test]
async fn the_call_deadline_runs_during_a_refresh() {
    let (limit, arguments) = (Duration::from_millis(500), json!({}));
    let options = CallOptions::new().idle_timeout(limit).timeout(limit);
    // The call is refused, and a prompt is configured in case the refresh fails.
    let (auth, _web, server) = start_protected(AuthScript::default(), Protocol::Modern, |it| it).await;
    let (client, _) = connect_logged_in(&server, &Person::default()).await;
    auth.revoke_all_access();
    auth.arm(AuthFault::silent().on("token").always());
    let call = client.call_tool_with("echo", &arguments, &options);
    tokio::time::timeout(Duration::from_secs(15), call).await.expect("in its own time").unwrap_err();
    client.close().await;
    // The token has expired and is refreshed before the call.
    let short = AuthScript::default().lifetime(Duration::from_secs(2));
    let (auth, web, server) = start_protected(short, Protocol::Modern, |it| it).await;
    auth.arm(AuthFault::silent().on("refresh_token").always());
    let (client, _) = connect_logged_in(&server, &Person::default()).await;
    auth.wait_for(|seen| seen.field("grant_type") == Some("refresh_token"), TEST_TIMEOUT).await;
    // Each call takes half a second, so the last ones find the token expired.
    web.arm(bowline_testkit::Fault::silent().on_tool("echo").always());
    for _ in 0..6 {
        let call = client.call_tool_with("echo", &arguments, &options);
        tokio::time::timeout(Duration::from_secs(15), call).await.expect("in its own time").unwrap_err();
    }
    client.close().await;
}

/// A server with an open handshake and protected tools: the session is probed first, then a login
/// starts.
#[tokio::test]
async fn a_login_starts_where_only_calls_are_protected() {
    let never = AuthScript::default().refresh_tokens(bowline_testkit::RefreshTokenPolicy::Never);
    let how = |it: bowline_testkit::Protection| {
        it.open_method("initialize")
            .open_method("notifications/initialized")
            .open_method("tools/list")
            .open_method("GET")
    };
    let (auth, _web, server) = start_protected(never, Protocol::Legacy, how).await;
    let person = Person::default();
    let memory = Auth::in_memory().prompt(person.clone());
    let client = Client::builder(server).auth(memory).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(person.prompt_count(), 1);
    auth.revoke_all_access();
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(person.prompt_count(), 2);
    client.close().await;
}

/// TK-01: a refused notification is sent again with a new token.
#[tokio::test]
async fn a_refused_notification_is_sent_again_with_a_new_token() {
    let (auth, web, server) = start_protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    let (client, _) = connect_logged_in(&server, &Person::default()).await;
    auth.revoke_all_access();
    client.notify("notifications/example", &json!({})).await.unwrap();
    let said = web.received_with_method("notifications/example");
    assert_eq!((said.len(), auth.refreshes()), (2, 1), "refused, and taken");
    client.close().await;
}
