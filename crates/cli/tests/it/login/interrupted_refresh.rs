//! Interrupts during a refresh. The response of the authorization server must be stored, because
//! the old token is spent.

use std::process::Stdio;
use std::time::Duration;

use bowline_testkit::AuthFault;
use rustix::process::{Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use super::{LoginSite, TEST_TIMEOUT};
use crate::context::to_pid;

/// Long enough to press keys, and shorter than bowline waits.
const TOKEN_RESPONSE_DELAY: Duration = Duration::from_secs(2);

fn interrupt(child: &tokio::process::Child) {
    kill_process(to_pid(child.id().expect("it runs")), Signal::INT).expect("it is there");
}

#[tokio::test]
async fn a_refresh_finishes_before_a_second_interrupt_counts() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    site.auth.arm(AuthFault::delay(TOKEN_RESPONSE_DELAY).on("refresh_token"));
    let mut command = site.bowline(&["call", "docs", "echo", "message=ahoy"]);
    command.stderr(Stdio::piped());
    let mut child = command.spawn_async().expect("bowline starts");
    site.auth.wait_for(|seen| seen.matches("refresh_token"), TEST_TIMEOUT).await;
    interrupt(&child);
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("the login is being refreshed") {
        let read = tokio::time::timeout(TEST_TIMEOUT, stderr.read_line(&mut said)).await;
        assert!(read.expect("it is said").expect("text") > 0, "{said}");
    }
    assert!(said.contains("Pressing Ctrl-C several times ends the command at once"), "{said}");
    interrupt(&child);
    let status = tokio::time::timeout(TEST_TIMEOUT, child.wait()).await.expect("it ends").expect("a status");
    stderr.read_to_string(&mut said).await.expect("text");
    assert_eq!(status.code(), Some(130), "{said}");
    assert_eq!(site.auth.refreshes(), 1, "it was finished: {said}");
    let shown = site.calls();
    assert!(shown.contains("ahoy"), "{shown}");
    assert_eq!((site.auth.authorizations(), site.auth.refreshes()), (1, 1));
}

/// The third interrupt ends bowline at once, even if that loses the login.
#[tokio::test]
async fn a_third_interrupt_ends_at_once() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    site.auth.arm(AuthFault::silent().on("refresh_token"));
    let mut command = site.bowline(&["call", "docs", "echo", "message=ahoy"]);
    command.stderr(Stdio::piped());
    let mut child = command.spawn_async().expect("bowline starts");
    site.auth.wait_for(|seen| seen.matches("refresh_token"), TEST_TIMEOUT).await;
    let hurried = std::time::Instant::now();
    let status = loop {
        interrupt(&child);
        // Signals in quick succession count as one.
        if let Ok(status) = tokio::time::timeout(Duration::from_millis(300), child.wait()).await {
            break status.expect("a status");
        }
        assert!(hurried.elapsed() < Duration::from_secs(4), "it does not end");
    };
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).await.expect("text");
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("error: the login of `docs` was being refreshed; it may be lost\n"), "{said}");
    assert!(said.contains("hint: if a login is required next time, run `bowline login docs`\n"), "{said}");
}

/// The note is also printed as JSON.
#[tokio::test]
async fn a_pending_refresh_is_reported_as_json() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    site.auth.arm(AuthFault::delay(TOKEN_RESPONSE_DELAY).on("refresh_token"));
    let mut command = site.bowline(&["call", "docs", "echo", "message=ahoy", "--json"]);
    command.stderr(Stdio::piped());
    let mut child = command.spawn_async().expect("bowline starts");
    site.auth.wait_for(|seen| seen.matches("refresh_token"), TEST_TIMEOUT).await;
    interrupt(&child);
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    let ends = async { (stderr.read_to_string(&mut said).await, child.wait().await.expect("a status")) };
    let (_, status) = tokio::time::timeout(TEST_TIMEOUT, ends).await.expect("it ends");
    assert_eq!(status.code(), Some(130), "{said}");
    let note = r#"{"note":{"kind":"login_refreshing","server":"docs"}}"#;
    assert_eq!(said.lines().filter(|line| *line == note).count(), 1, "{said}");
}

/// The call times out before the response of the authorization server, which is still awaited and
/// stored.
#[tokio::test]
async fn a_slow_authorization_server_costs_no_login() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    site.auth.arm(AuthFault::delay(Duration::from_secs(55)).on("refresh_token"));
    let shown = site.calls();
    assert!(shown.contains("has taken more than 45 s"), "{shown}");
    assert!(shown.contains("the login is being refreshed"), "{shown}");
    assert_eq!(site.auth.refreshes(), 1, "{shown}");
    let shown = site.calls();
    assert!(shown.contains("ahoy"), "{shown}");
    assert_eq!((site.auth.authorizations(), site.auth.refreshes()), (1, 1));
}

/// An expired token is refreshed before the first request, which can take longer than the connect
/// timeout.
#[tokio::test]
async fn a_token_endpoint_that_outlasts_the_connection_is_named() {
    let site = LoginSite::new().await;
    let lifetime = Duration::from_secs(1);
    site.auth.arm(AuthFault::lifetime(lifetime).on("authorization_code"));
    site.logs_in().await;
    // Only the clock makes a token expire.
    tokio::time::sleep(lifetime).await;
    site.auth.arm(AuthFault::delay(Duration::from_secs(6)).on("refresh_token"));
    let shown = site.run_args(&["call", "docs", "echo", "message=ahoy", "--connect-timeout", "3"]);
    assert!(shown.starts_with("exit: 4\n"), "{shown}");
    let told = "the login is refreshed first, and the token endpoint of its authorization server has not answered for";
    assert!(shown.contains(told) && shown.contains("try again later"), "{shown}");
    assert!(shown.contains("hint: allow more time with --connect-timeout\n"), "{shown}");
    let shown = site.calls();
    assert!(shown.contains("ahoy"), "{shown}");
    assert_eq!((site.auth.authorizations(), site.auth.refreshes()), (1, 1));
}
