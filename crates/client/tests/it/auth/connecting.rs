//! Logins while connecting: at the first request, after an outage, and without a person.

use bowline::auth::Auth;
use bowline::config::{Grant, Protocol};
use bowline::{Cause, Client, ErrorKind, Status};
use bowline_config::TransportSettings as _;
use bowline_testkit::{AuthFault, AuthScript, with};
use serde_json::json;

use super::{Person, connect_logged_in, start_protected};
use crate::support::TEST_TIMEOUT;

/// AD-01, TK-01: from a bare 401 to a successful call, in both eras.
#[tokio::test]
async fn a_refused_connection_becomes_a_login() {
    for era in [Protocol::Legacy, Protocol::Modern] {
        let (auth, web, server) = start_protected(AuthScript::default(), era, |it| it).await;
        let person = Person::default();
        let (client, _) = connect_logged_in(&server, &person).await;
        let result = client.call_tool("echo", &json!({ "text": "hi" })).await.unwrap();
        assert!(result.text().contains("hi"), "{era:?}");
        client.close().await;
        // The first request had no token; every later one carries it in a header and never in the
        // URL.
        let received = web.received();
        let signed = received.iter().skip_while(|it| it.header("authorization").is_none());
        for request in signed {
            assert!(
                request.header("authorization").is_some_and(|it| it.starts_with("Bearer ")),
                "{request:?}"
            );
            assert!(!request.path.contains("token"), "{}", request.path);
        }
        assert!(
            received.iter().any(|it| it.has_method("tools/call") && it.header("authorization").is_some())
        );
        if era == Protocol::Legacy {
            assert!(
                received.iter().any(|it| it.http_method == "DELETE" && it.header("authorization").is_some())
            );
        }
        assert_eq!((auth.authorizations(), auth.registrations()), (1, 1), "{era:?}");
        assert_eq!(auth.violations(), [""; 0]);
    }
}

/// Without a prompt the connection fails at once, and proceeds once another process has logged in.
#[tokio::test]
async fn a_login_elsewhere_is_noticed() {
    let (auth, _web, server) = start_protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    let memory = Auth::in_memory();
    let client = Client::builder(server.clone()).auth(memory.clone()).open().unwrap();
    let error = client.ready().await.unwrap_err();
    let ErrorKind::Fault(fault) = error.kind() else { panic!("{error}") };
    assert!(matches!(fault.cause, Cause::LoginRequired { code: 401, .. }), "{fault:?}");
    assert!(matches!(client.status().current(), Status::NeedsLogin(_)));
    assert_eq!(auth.authorizations(), 0);
    // A second `Auth` on the same store stands for another process.
    let person = Person::default();
    let elsewhere = memory.prompt(person.clone()).identity(&server).unwrap();
    elsewhere.login(&bowline::auth::LoginOptions::default()).await.unwrap();
    // The next call succeeds.
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(person.prompt_count(), 1);
    client.close().await;
}

/// TK-04: a server that refuses every token does not cause login after login.
#[tokio::test]
async fn a_server_that_refuses_every_token_is_given_up() {
    for era in [Protocol::Legacy, Protocol::Modern] {
        let (auth, _web, server) =
            start_protected(AuthScript::default(), era, bowline_testkit::Protection::always_unauthorized)
                .await;
        let person = Person::default();
        let memory = Auth::in_memory().prompt(person.clone());
        let error = Client::builder(server).auth(memory).connect().await.unwrap_err();
        let ErrorKind::Fault(fault) = error.kind() else { panic!("{error}") };
        assert!(matches!(fault.cause, Cause::LoginRequired { .. }), "{fault:?}");
        assert!(auth.authorizations() <= 3, "{} logins", auth.authorizations());
    }
}

/// While the authorization server is unreachable, the login is neither given up nor forgotten.
#[tokio::test]
async fn an_unreachable_authorization_server_is_waited_for() {
    let (auth, _web, server) = start_protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    let person = Person::default();
    let (client, memory) = connect_logged_in(&server, &person).await;
    client.close().await;
    auth.revoke_all_access();
    auth.arm(AuthFault::status(503).on("token").always());
    let client = Client::builder(server).auth(memory).open().unwrap();
    let error = client.ready().await.unwrap_err();
    let ErrorKind::Fault(fault) = error.kind() else { panic!("{error}") };
    assert_eq!(fault.cause, Cause::LoginUnavailable, "{fault:?}");
    auth.disarm();
    let back = async {
        while client.call_tool("echo", &json!({})).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, back).await.expect("it is tried again");
    assert_eq!((person.prompt_count(), auth.reuse_detected()), (1, 0), "no second login");
    client.close().await;
}

/// AX-01: client credentials need neither a person nor a store.
#[tokio::test]
async fn client_credentials_need_no_person() {
    let auth = AuthScript::default().client(bowline_testkit::AuthClient::basic("robot", "s3cret"));
    let (auth, _web, server) = start_protected(auth, Protocol::Modern, |it| it).await;
    let settings = with!(bowline::config::AuthSettings::default(), grant: Grant::ClientCredentials, client: Some(with!(bowline::config::ClientSettings::new("robot"), secret: Some("s3cret".into()))));
    let client = Client::connect(server.with_auth(settings).unwrap()).await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    auth.revoke_all_access();
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(auth.count("client_credentials"), 2);
    client.close().await;
}

/// Without any call the connection still becomes ready after a login elsewhere.
#[tokio::test]
async fn a_login_elsewhere_is_noticed_without_a_call() {
    let (_auth, _web, server) = start_protected(AuthScript::default(), Protocol::Modern, |it| it).await;
    let memory = Auth::in_memory();
    let client = Client::builder(server.clone()).auth(memory.clone()).open().unwrap();
    client.ready().await.unwrap_err();
    let elsewhere = memory.prompt(Person::default()).identity(&server).unwrap();
    elsewhere.login(&bowline::auth::LoginOptions::default()).await.unwrap();
    let mut status = client.status();
    let there = status.wait_for(|status| matches!(status, Status::Ready(_)));
    tokio::time::timeout(TEST_TIMEOUT, there).await.expect("it is looked for").unwrap();
    client.close().await;
}

/// HTTP+SSE, configured or fallen back to; the server sends its challenge on the stream request
/// only.
#[tokio::test]
async fn the_older_transport_logs_in_too() {
    for configured in [true, false] {
        let auth = AuthScript::default().start().await;
        let how = bowline_testkit::Protection::with_auth_server(&auth);
        let web = bowline_testkit::server().http_sse().tool("counter").protected(how).run().await;
        let server = if configured {
            bowline::Server::sse("test", web.url()).build().unwrap()
        } else {
            crate::support::http(&web)
        };
        let person = Person::default();
        let (client, _) = connect_logged_in(&server, &person).await;
        client.call_tool("counter", &json!({})).await.unwrap();
        auth.revoke_all_access();
        crate::support::call_concurrently(&client, 10, "counter").await;
        assert_eq!((web.executions("counter"), auth.refreshes(), person.prompt_count()), (11, 1, 1));
        assert_eq!(client.transport(), "sse");
        client.close().await;
    }
}

/// HTTP+SSE in a new process: the stream request is refused, the token is refreshed, and no prompt
/// appears.
#[tokio::test]
async fn the_older_transport_refreshes_the_token_for_its_stream() {
    let auth = AuthScript::default().start().await;
    let how = bowline_testkit::Protection::with_auth_server(&auth);
    let web = bowline_testkit::server().http_sse().tool("echo").protected(how).run().await;
    let server = bowline::Server::sse("test", web.url()).build().unwrap();
    let person = Person::default();
    let (client, memory) = connect_logged_in(&server, &person).await;
    client.close().await;
    auth.revoke_all_access();
    let quiet = Auth::new(memory.store().clone());
    let client = Client::builder(server).auth(quiet).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(auth.refreshes(), 1);
    // The token is also refreshed within one process.
    auth.revoke_all_access();
    web.restart().await;
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!((auth.refreshes(), person.prompt_count()), (2, 1));
    client.close().await;
}

/// However long the authorization server is unreachable, the error never demands a new login.
#[tokio::test]
async fn a_long_outage_of_the_authorization_server_is_no_logout() {
    let (auth, _web, server) = start_protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    let person = Person::default();
    let (client, memory) = connect_logged_in(&server, &person).await;
    client.close().await;
    auth.revoke_all_access();
    auth.arm(AuthFault::status(503).on("token").always());
    let client = Client::builder(server).auth(Auth::new(memory.store().clone())).open().unwrap();
    let mut status = client.status();
    // This takes five attempts.
    for _ in 0..5 {
        let away = status
            .wait_for(|status| !matches!(status, Status::Idle | Status::Connecting | Status::LoggingIn(_)));
        let seen = tokio::time::timeout(TEST_TIMEOUT, away).await.unwrap().unwrap().clone();
        let Status::BackingOff { cause, .. } = seen else { panic!("{seen:?}") };
        assert_eq!(cause.cause, Cause::LoginUnavailable);
        let again = status.wait_for(|status| matches!(status, Status::Connecting | Status::LoggingIn(_)));
        tokio::time::timeout(TEST_TIMEOUT, again).await.unwrap().unwrap();
    }
    auth.disarm();
    let there = status.wait_for(|status| matches!(status, Status::Ready(_)));
    tokio::time::timeout(3 * TEST_TIMEOUT, there).await.expect("it heals by itself").unwrap();
    assert_eq!((person.prompt_count(), auth.reuse_detected()), (1, 0));
    client.close().await;
}

/// A detached session is resumed although its token has expired meanwhile.
#[tokio::test]
async fn a_session_outlives_its_token_across_processes() {
    let (auth, web, server) = start_protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    let person = Person::default();
    let (client, memory) = connect_logged_in(&server, &person).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    let saved = client.leave().await.unwrap();
    let before = web.initialize_count();
    auth.revoke_all_access();
    let memory = Auth::new(memory.store().clone());
    let client = Client::builder(server).auth(memory).resume(saved).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!((web.initialize_count(), auth.refreshes()), (before, 1));
    client.close().await;
}
