//! Background requests (streams, probes, responses) carry credentials too, and never start a login.

use std::time::Duration;

use bowline::config::{HeadersCommand, Program, Protocol};
use bowline::{Client, Event};
use bowline_config::TransportSettings as _;
use bowline_testkit::{AuthScript, Fault, RefreshTokenPolicy, StreamKind, with};
use serde_json::json;

use super::{Person, connect_logged_in, start_protected};
use crate::support::TEST_TIMEOUT;

/// TK-01: the stream of a legacy server is reopened with a new token and delivers its
/// notifications.
#[tokio::test]
async fn a_stream_is_opened_again_with_a_new_token() {
    let (auth, web, server) = start_protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    web.arm(Fault::end_after(1).on("GET"));
    let person = Person::default();
    let (client, _) = connect_logged_in(&server, &person).await;
    web.wait_until(|web| web.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    auth.revoke_all_access();
    web.announce_prompts();
    auth.wait_until(|auth| auth.refreshes() == 1, TEST_TIMEOUT).await;
    web.wait_until(|web| web.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    let mut events = client.events();
    web.announce_tools();
    let heard = async {
        while !matches!(events.next().await.unwrap(), Event::Notification(it) if &*it.method == "notifications/tools/list_changed")
        {
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, heard).await.unwrap();
    assert_eq!(person.prompt_count(), 1);
    client.close().await;
}

/// A login that expired while the client is idle is not refreshed before a call needs it.
#[tokio::test]
async fn an_idle_connection_asks_for_no_login() {
    let never = AuthScript::default().refresh_tokens(RefreshTokenPolicy::Never);
    let (auth, web, server) = start_protected(never, Protocol::Legacy, |it| it).await;
    let server = server.with_keepalive(Some(Duration::from_secs(5)));
    let person = Person::default();
    let (client, _) = connect_logged_in(&server, &person).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    auth.revoke_all_access();
    let pings = web.count("ping");
    web.wait_until(|web| web.count("ping") > pings, TEST_TIMEOUT).await;
    let mut status = client.status();
    let gone = status.wait_for(|status| matches!(status, bowline::Status::NeedsLogin(_)));
    tokio::time::timeout(TEST_TIMEOUT, gone).await.unwrap().unwrap();
    assert_eq!(person.prompt_count(), 1);
    client.close().await;
}

/// The headers command runs once for all calls whose headers are refused.
#[tokio::test]
#[cfg(unix)]
async fn the_headers_command_runs_again_when_its_headers_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (auth, web, server) =
        start_protected(AuthScript::default(), Protocol::Modern, bowline_testkit::Protection::any_audience)
            .await;
    let folder = tempfile::tempdir().unwrap();
    let (token, script, runs) =
        (folder.path().join("token"), folder.path().join("headers"), folder.path().join("runs"));
    let issue = || {
        let issued = auth.issue("robot", "", &web.url());
        std::fs::write(&token, &issued.access_token).unwrap();
    };
    issue();
    let text = format!(
        "#!/bin/sh\necho run >> '{}'\nprintf '{{\"Authorization\": \"Bearer %s\"}}' \"$(cat '{}')\"\n",
        runs.display(),
        token.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let command = with!(
        HeadersCommand::new(Program::new(script.display().to_string(), [""; 0])),
        ttl: Duration::from_secs(600),
    );
    let client = Client::connect(server.with_headers_command(command).unwrap()).await.unwrap();
    crate::support::call_concurrently(&client, 5, "echo").await;
    let times = || std::fs::read_to_string(&runs).unwrap().lines().count();
    assert_eq!(times(), 1);
    auth.revoke_all_access();
    issue();
    crate::support::call_concurrently(&client, 20, "counter").await;
    assert_eq!((times(), web.executions("counter")), (2, 20));
    assert_eq!(auth.received().len(), 0, "no login was begun");
    client.close().await;
}

/// Without the headers of the command the identity would be wrong: nothing is sent, and the error
/// says why.
#[tokio::test]
#[cfg(unix)]
async fn nothing_is_sent_when_the_headers_command_fails() {
    let web = bowline_testkit::server().tool("echo").run().await;
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    for (script, why) in [("exit 3", "exit"), ("echo no JSON", "JSON"), ("echo '{\"A\": 1}'", "not a string")]
    {
        std::fs::write(&runs, "").unwrap();
        let script = format!("echo run >> '{}'; {script}", runs.display());
        let program = Program::new("sh", ["-c", &script]);
        let command = HeadersCommand::new(program);
        let server = crate::support::http(&web).with_headers_command(command).unwrap();
        let error = Client::connect(server).await.unwrap_err();
        let bowline::ErrorKind::Fault(fault) = error.kind() else { panic!("{error}") };
        assert_eq!(fault.cause, bowline::Cause::HeadersCommand, "{fault:?}");
        assert!(fault.to_string().contains(why), "{fault}");
        assert_eq!(std::fs::read_to_string(&runs).unwrap().lines().count(), 1, "{why}");
    }
    assert_eq!(web.received().len(), 0);
}

/// A list refresh in the background starts no login; a call right after it does.
#[tokio::test]
async fn a_list_refresh_asks_for_no_login() {
    let never = AuthScript::default().refresh_tokens(RefreshTokenPolicy::Never);
    let (auth, web, server) = start_protected(never, Protocol::Legacy, |it| it).await;
    let person = Person::default();
    let (client, _) = connect_logged_in(&server, &person).await;
    client.track_tools();
    client.list_tools().await.unwrap();
    web.wait_until(|web| web.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    let looks = web.count("tools/list");
    auth.revoke_all_access();
    web.announce_tools();
    web.wait_until(|web| web.count("tools/list") > looks, TEST_TIMEOUT).await;
    let mut status = client.status();
    let missed = status.wait_for(|status| matches!(status, bowline::Status::NeedsLogin(_)));
    tokio::time::timeout(TEST_TIMEOUT, missed).await.unwrap().unwrap();
    assert_eq!(person.prompt_count(), 1);
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(person.prompt_count(), 2, "now somebody waits");
    client.close().await;
}
