//! Configured headers, and those that a command prints.
#![cfg(unix)]

use std::path::Path;
use std::time::Duration;

use bowline_auth::AuthErrorKind;
use bowline_config::{HeadersCommand, Program};
use bowline_testkit::{auth_server, with};
use futures_util::future::join_all;

#[cfg(target_os = "linux")]
use crate::support::TEST_TIMEOUT;
use crate::support::{TestClient, TestStage};

/// A shell script that prints headers and records each run.
fn command(folder: &Path, script: &str) -> HeadersCommand {
    let script = format!("echo run >> runs; {script}");
    let program = with!(Program::new("sh", ["-c", &*script]), cwd: Some(folder.to_owned()));
    with!(HeadersCommand::new(program), ttl: Duration::from_secs(3600))
}

fn runs(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("runs")).map_or(0, |text| text.lines().count())
}

/// A token that the server accepts.
fn token(stage: &TestStage) -> String {
    stage.auth.issue("nobody", "", &stage.server.url()).access_token
}

fn host(stage: &TestStage, command: HeadersCommand) -> TestClient {
    let http = with!(stage.http(), headers_command: Some(command));
    TestClient::new(&stage.store, http, Some(std::sync::Arc::default()))
}

#[tokio::test]
async fn refused_command_headers_cause_one_run_for_all_calls() {
    let stage = TestStage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, token(&stage)).unwrap();
    let host = host(&stage, command(folder.path(), r#"echo "{\"Authorization\": \"Bearer $(cat token)\"}""#));
    host.identity.load().await.unwrap();
    assert!(host.identity.has_credentials());
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(runs(folder.path()), 1, "it is used for its time");
    // The token is revoked, and the command prints another.
    stage.auth.revoke_all_access();
    std::fs::write(&file, token(&stage)).unwrap();
    let calls = join_all((0..10).map(|_| host.call("tools/list"))).await;
    assert!(calls.into_iter().all(|status| status.unwrap() == 200));
    assert_eq!(runs(folder.path()), 2);
}

#[tokio::test]
async fn an_unchanged_command_is_not_rerun_forever_and_starts_no_login() {
    let stage = TestStage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let host = host(&stage, command(folder.path(), r#"echo '{"Authorization": "Bearer wrong-token"}'"#));
    host.identity.load().await.unwrap();
    for _ in 0..5 {
        let error = host.call("tools/list").await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Refused, "{error}");
        assert!(!error.to_string().contains("wrong-token"));
    }
    assert_eq!(runs(folder.path()), 2);
    assert!(!host.identity.is_interactive());
    assert_eq!((host.pages(), stage.auth.received().len()), (0, 0), "OAuth does not start by itself");
}

#[tokio::test]
async fn a_futile_run_does_not_block_a_run_for_another_refusal() {
    let stage = TestStage::with(auth_server(), |it| it.tool_requires_scope("admin", "write")).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, token(&stage)).unwrap();
    let host = host(&stage, command(folder.path(), r#"echo "{\"Authorization\": \"Bearer $(cat token)\"}""#));
    host.identity.load().await.unwrap();
    // One tool that this account may not use.
    for _ in 0..3 {
        let error = host.call("tools/call admin").await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Refused, "{error}");
    }
    assert_eq!(runs(folder.path()), 2);
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    // Later the token expires, and the command has a new one.
    stage.auth.revoke_all_access();
    std::fs::write(&file, token(&stage)).unwrap();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(runs(folder.path()), 3);
}

#[tokio::test]
async fn a_failing_command_backs_off_and_recovers() {
    let stage = TestStage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let script = r#"test -f token || { echo no vault >&2; exit 3; }; echo "{\"Authorization\": \"Bearer $(cat token)\"}""#;
    let host = host(&stage, command(folder.path(), script));
    host.identity.load().await.unwrap_err();
    host.identity.load().await.unwrap_err();
    assert_eq!(runs(folder.path()), 1);
    // The user may have fixed it, so the first call runs it.
    for _ in 0..5 {
        let error = host.call("tools/list").await.unwrap_err();
        assert!(error.to_string().contains("no vault"), "{error}");
    }
    assert_eq!(runs(folder.path()), 2);
    std::fs::write(folder.path().join("token"), token(&stage)).unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(30)).await;
    tokio::time::resume();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(runs(folder.path()), 3);
}

#[tokio::test]
async fn a_command_is_run_again_after_its_time() {
    let stage = TestStage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let token = token(&stage);
    let mut made = command(folder.path(), &format!(r#"echo '{{"Authorization": "Bearer {token}"}}'"#));
    made.ttl = Duration::ZERO;
    let host = host(&stage, made);
    host.identity.load().await.unwrap();
    let generation = host.identity.generation();
    assert!(host.identity.is_due());
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(runs(folder.path()), 2);
    assert_eq!(host.identity.generation(), generation, "it made the same");
}

#[tokio::test]
async fn a_failing_command_says_why_without_its_output() {
    let stage = TestStage::new().await;
    let folder = tempfile::tempdir().unwrap();
    for (script, words) in [
        ("echo hidden; echo the vault is sealed >&2; exit 3", "the vault is sealed"),
        ("echo hidden", "did not print a JSON object"),
        (r#"echo '{"A b": "hidden"}'"#, "printed \"A b\", which is not a valid header name"),
        (r#"echo '{"X-A": {"hidden": 1}}'"#, "printed \"X-A\", whose value is not a string"),
        (r#"echo '{"Mcp-Session-Id": "hidden"}'"#, "printed \"Mcp-Session-Id\", which a command may not set"),
        (r#"printf '{"X-A": "hidden\\nX-B: b"}'"#, "cannot be sent"),
        (r#"echo '{"X-A": "1", "x-a": "2"}'"#, "twice"),
    ] {
        let error = host(&stage, command(folder.path(), script)).identity.load().await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Command, "{script}: {error}");
        assert!(error.to_string().contains(words), "{script}: {error}");
        assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_hangs_is_ended_with_everything_it_started() {
    let stage = TestStage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let mut hangs = command(folder.path(), "sleep 600 & echo $! > child; wait");
    hangs.timeout = Duration::from_secs(3);
    let load = host(&stage, hangs).identity;
    let error = tokio::time::timeout(TEST_TIMEOUT, load.load()).await.expect("in its time").unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Command);
    let child = std::fs::read_to_string(folder.path().join("child")).unwrap();
    assert!(bowline_testkit::wait_for_exit(child.trim().parse().unwrap(), TEST_TIMEOUT).await);
}

#[tokio::test]
async fn command_headers_override_configured_ones_and_both_override_tokens() {
    let stage = TestStage::with(auth_server(), |it| it).await;
    // A login exists, but is not used where an `Authorization` header is configured.
    stage.logged_in_client().await;
    let good = token(&stage);
    let fixed = |value: String| vec![("authorization".to_owned(), value.into())];
    let http = with!(stage.http(), headers: fixed(format!("Bearer {good}")));
    let host = TestClient::new(&stage.store, http, None);
    host.identity.load().await.unwrap();
    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", "Bearer configured".parse().unwrap());
    host.identity.credentials().sign(&http::Method::POST, &stage.http().url, &mut headers);
    assert_eq!(headers["authorization"], "Bearer configured");

    let folder = tempfile::tempdir().unwrap();
    let made = command(folder.path(), r#"echo '{"Authorization": "Bearer made", "X-Tenant": "7"}'"#);
    let http =
        with!(stage.http(), headers: fixed("Bearer configured".to_owned()), headers_command: Some(made));
    let host = TestClient::new(&stage.store, http, None);
    host.identity.load().await.unwrap();
    host.identity.credentials().sign(&http::Method::POST, &stage.http().url, &mut headers);
    assert_eq!(
        (&headers["authorization"], &headers["x-tenant"]),
        (&"Bearer made".parse().unwrap(), &"7".parse().unwrap())
    );
    assert_eq!(headers.get_all("authorization").iter().count(), 1);
}

#[tokio::test]
async fn a_refused_configured_authorization_starts_no_login() {
    let stage = TestStage::new().await;
    let headers = vec![("Authorization".to_owned(), "Bearer old".into())];
    let host =
        TestClient::new(&stage.store, with!(stage.http(), headers: headers), Some(std::sync::Arc::default()));
    assert!(host.identity.has_credentials() && !host.identity.is_interactive());
    let error = host.call("tools/list").await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::LoginNeeded);
    assert!(error.hint.is_some());
    assert_eq!((host.pages(), stage.auth.received().len()), (0, 0));
}

// TK-02
#[tokio::test]
async fn nothing_of_ours_goes_to_another_origin() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    let mut headers = http::HeaderMap::new();
    for other in ["http://127.0.0.1:1/mcp", "https://127.0.0.1/mcp", "http://evil.example/mcp"] {
        host.identity.credentials().sign(&http::Method::GET, &other.parse().unwrap(), &mut headers);
    }
    assert!(headers.is_empty());
}
