//! Configured headers, and those that a command prints.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bowline_auth::AuthErrorKind;
use bowline_config::{HeadersCommand, Http, Program};
use bowline_testkit::auth_server;
use futures_util::future::join_all;

#[cfg(target_os = "linux")]
use crate::support::SOON;
use crate::support::{Host, Stage};

/// A shell script that prints headers and records each run.
fn command(folder: &Path, script: &str) -> HeadersCommand {
    let program = Program {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), format!("echo run >> runs; {script}")],
        env: BTreeMap::new(),
        cwd: Some(folder.to_owned()),
    };
    HeadersCommand { program, timeout: Duration::from_secs(10), ttl: Duration::from_secs(3600) }
}

fn runs(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("runs")).map_or(0, |text| text.lines().count())
}

/// A token that the server accepts.
fn token(stage: &Stage) -> String {
    stage.auth.issue("nobody", "", &stage.server.url()).access_token
}

fn host(stage: &Stage, command: HeadersCommand) -> Host {
    let http = Http { headers_command: Some(command), ..stage.http() };
    Host::new(&stage.safe, http, Some(std::sync::Arc::default()))
}

#[tokio::test]
async fn a_command_is_run_again_when_what_it_made_is_refused_once_for_all() {
    let stage = Stage::new().await;
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
async fn a_command_that_makes_the_same_again_is_not_run_without_end_and_no_login_is_begun() {
    let stage = Stage::new().await;
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
    assert_eq!((host.pages(), stage.auth.seen().len()), (0, 0), "OAuth does not start by itself");
}

#[tokio::test]
async fn a_refusal_in_vain_does_not_keep_the_command_from_being_run_for_another() {
    let stage = Stage::with(auth_server(), |it| it.tool_requires("admin", "write")).await;
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
async fn a_command_that_fails_is_not_run_for_each_call_and_works_again_when_it_does() {
    let stage = Stage::new().await;
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
    let stage = Stage::new().await;
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
async fn a_command_that_fails_says_why_and_shows_nothing_of_what_it_printed() {
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    for (script, words) in [
        ("echo hidden; echo the vault is sealed >&2; exit 3", "the vault is sealed"),
        ("echo hidden", "did not print a JSON object"),
        (r#"echo '{"A b": "hidden"}'"#, "no name of a header"),
        (r#"echo '{"X-A": {"hidden": 1}}'"#, "not a text"),
        (r#"echo '{"Mcp-Session-Id": "hidden"}'"#, "not its to set"),
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
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let mut hangs = command(folder.path(), "sleep 600 & echo $! > child; wait");
    hangs.timeout = Duration::from_secs(1);
    let load = host(&stage, hangs).identity;
    let error = tokio::time::timeout(SOON, load.load()).await.expect("in its time").unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Command);
    let child = std::fs::read_to_string(folder.path().join("child")).unwrap();
    assert!(bowline_testkit::ended(child.trim().parse().unwrap(), SOON).await);
}

#[tokio::test]
async fn what_a_command_makes_is_stronger_than_what_is_configured_and_a_token_is_weaker_than_both() {
    let stage = Stage::with(auth_server(), |it| it).await;
    // A login exists, but is not used where an `Authorization` header is configured.
    stage.logged_in().await;
    let good = token(&stage);
    let fixed = |value: String| vec![("authorization".to_owned(), value.into())];
    let http = Http { headers: fixed(format!("Bearer {good}")), ..stage.http() };
    let host = Host::new(&stage.safe, http, None);
    host.identity.load().await.unwrap();
    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", "Bearer configured".parse().unwrap());
    host.identity.credentials().sign(&http::Method::POST, &stage.http().url, &mut headers);
    assert_eq!(headers["authorization"], "Bearer configured");

    let folder = tempfile::tempdir().unwrap();
    let made = command(folder.path(), r#"echo '{"Authorization": "Bearer made", "X-Tenant": "7"}'"#);
    let http =
        Http { headers: fixed("Bearer configured".to_owned()), headers_command: Some(made), ..stage.http() };
    let host = Host::new(&stage.safe, http, None);
    host.identity.load().await.unwrap();
    host.identity.credentials().sign(&http::Method::POST, &stage.http().url, &mut headers);
    assert_eq!(
        (&headers["authorization"], &headers["x-tenant"]),
        (&"Bearer made".parse().unwrap(), &"7".parse().unwrap())
    );
    assert_eq!(headers.get_all("authorization").iter().count(), 1);
}

#[tokio::test]
async fn a_configured_authorization_that_is_refused_is_an_error_and_no_login_is_begun() {
    let stage = Stage::new().await;
    let headers = vec![("Authorization".to_owned(), "Bearer old".into())];
    let host = Host::new(&stage.safe, Http { headers, ..stage.http() }, Some(std::sync::Arc::default()));
    assert!(host.identity.has_credentials() && !host.identity.is_interactive());
    let error = host.call("tools/list").await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::LoginNeeded);
    assert!(error.hint.is_some());
    assert_eq!((host.pages(), stage.auth.seen().len()), (0, 0));
}

// TK-02
#[tokio::test]
async fn nothing_of_ours_goes_to_another_origin() {
    let stage = Stage::new().await;
    let host = stage.logged_in().await;
    let mut headers = http::HeaderMap::new();
    for other in ["http://127.0.0.1:1/mcp", "https://127.0.0.1/mcp", "http://evil.example/mcp"] {
        host.identity.credentials().sign(&http::Method::GET, &other.parse().unwrap(), &mut headers);
    }
    assert!(headers.is_empty());
}
