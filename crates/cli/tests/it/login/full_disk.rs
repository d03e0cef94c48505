//! A disk that fills up during a refresh: the refresh token is spent, so its successor must not be
//! lost.
//!
//! A process with a file size limit stands for the full disk. Linux can set the limit on a running
//! process.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};
use std::time::Duration;

use bowline_testkit::{self as testkit, AuthFault, AuthServer};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout};

use super::{LoginSite, TEST_TIMEOUT, opened_url};
use crate::browser::Browser;
use crate::context::to_pid;
use crate::pty::Person;

/// Long enough to fill the disk before the response arrives.
const TOKEN_RESPONSE_DELAY: Duration = Duration::from_secs(1);
const NOT_WRITTEN_MESSAGE: &str = "the refreshed login of `docs` could not be stored";

/// A bowline process whose disk can be filled.
struct DiskLimitedProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    stderr_text: String,
}

impl LoginSite {
    /// Starts a bowline that refreshes the login, and fills its disk while the authorization server
    /// delays the response.
    async fn start_with_full_disk(&self, args: &[&str]) -> Option<DiskLimitedProcess> {
        if !can_limit_files() {
            return None;
        }
        self.expire_token();
        let mut writer = DiskLimitedProcess::start(ignore_file_size_signal(self.bowline(args)));
        if args.first() == Some(&"connect") {
            writer.send(INITIALIZE_REQUEST).await;
        } else {
            drop(writer.child.stdin.take());
        }
        self.fill_disk_during_refresh(&writer).await;
        Some(writer)
    }

    /// Makes the next call refresh the login, with a response slow enough to fill the disk.
    fn expire_token(&self) {
        self.auth.revoke_all_access();
        self.auth.arm(AuthFault::delay(TOKEN_RESPONSE_DELAY).on("refresh_token"));
    }

    async fn fill_disk_during_refresh(&self, writer: &DiskLimitedProcess) {
        self.auth.wait_for(|seen| seen.matches("refresh_token"), TEST_TIMEOUT).await;
        limit_file_size(writer.pid(), "0");
    }

    /// Checks that the login still works, and that no further login was needed.
    fn assert_login_kept(&self) {
        let shown = self.calls();
        assert!(shown.starts_with("exit: 0\n") && shown.contains("ahoy"), "{shown}");
        assert_eq!((self.auth.authorizations(), self.auth.reuse_detected()), (1, 0));
    }
}

fn can_limit_files() -> bool {
    let can = Command::new("prlimit").arg("--version").output().is_ok();
    if !can {
        eprintln!("not checked: prlimit is not installed");
    }
    can
}

/// Like on a full disk, exceeding the limit must fail the write and not kill the process.
fn ignore_file_size_signal(command: crate::context::Command) -> crate::context::Command {
    command.run_by("sh", ["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
}

/// Limits the size of a process's files.
fn limit_file_size(process: u32, bytes: &str) {
    let limit = format!("--fsize={bytes}:unlimited");
    let set = Command::new("prlimit").args([&limit, "--pid", &process.to_string()]).status();
    assert!(set.expect("prlimit runs").success());
}

/// Sends SIGINT repeatedly. Signals in quick succession count as one.
async fn interrupt_until(process: Pid, mut has_ended: impl FnMut() -> bool) {
    let hurried = std::time::Instant::now();
    while !has_ended() {
        assert!(hurried.elapsed() < TEST_TIMEOUT, "it does not end");
        kill_process(process, Signal::INT).expect("it is there");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

impl DiskLimitedProcess {
    fn start(mut command: crate::context::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn_async().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, stdout, stderr, stderr_text: String::new() }
    }

    fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    async fn send(&mut self, message: &str) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(format!("{message}\n").as_bytes()).await.expect("it reads");
    }

    /// Waits for the next line of stdout.
    async fn next_line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line);
        tokio::time::timeout(TEST_TIMEOUT * 2, read).await.expect("a line").expect("text");
        line
    }

    async fn wait_for_stderr(&mut self, text: &str) {
        while !self.stderr_text.contains(text) {
            let read =
                tokio::time::timeout(TEST_TIMEOUT * 2, self.stderr.read_line(&mut self.stderr_text)).await;
            assert!(read.expect("it is said").expect("text") > 0, "{}", self.stderr_text);
        }
    }

    /// Waits for the exit, and returns the exit code, stdout and stderr.
    async fn wait_for_exit(mut self) -> (Option<i32>, String, String) {
        let output = async {
            let mut shown = String::new();
            self.stdout.read_to_string(&mut shown).await.expect("text");
            self.stderr.read_to_string(&mut self.stderr_text).await.expect("text");
            (self.child.wait().await.expect("a status").code(), shown, self.stderr_text)
        };
        tokio::time::timeout(TEST_TIMEOUT * 2, output).await.expect("it ends")
    }
}

const CALL_ARGS: [&str; 4] = ["call", "docs", "echo", "message=ahoy"];
const INITIALIZE_REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}"#;
const CALL_REQUEST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"ahoy"}}}"#;

#[tokio::test]
async fn a_command_waits_until_the_refreshed_login_is_stored() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let Some(mut writer) = site.start_with_full_disk(&CALL_ARGS).await else { return };
    writer.wait_for_stderr(NOT_WRITTEN_MESSAGE).await;
    // The result is printed long before; then the command keeps trying to store the login.
    assert_eq!(writer.next_line().await, "{\"message\":\"ahoy\"}\n");
    // Another process that used the token again would lose the login.
    let mut other = DiskLimitedProcess::start(site.bowline(&CALL_ARGS));
    other
        .wait_for_stderr(&format!(
            "waiting for another process ({}) that is refreshing the login of `docs`",
            writer.pid()
        ))
        .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(writer.child.try_wait().expect("a status"), None, "it goes on trying");
    assert_eq!(site.auth.count("refresh_token"), 1, "the other one waits");
    limit_file_size(writer.pid(), "unlimited");
    let (code, shown, said) = other.wait_for_exit().await;
    assert!(code == Some(0) && shown.contains("ahoy"), "{code:?}: {said}");
    let (code, _, said) = writer.wait_for_exit().await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(NOT_WRITTEN_MESSAGE).count(), 1, "{said}");
    assert!(said.contains("store.db") && said.contains("make sure that it can be written"), "{said}");
    site.assert_login_kept();
    assert_eq!(site.auth.refreshes(), 1);
}

#[tokio::test]
async fn an_interrupt_before_storing_reports_the_lost_login() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let Some(mut writer) = site.start_with_full_disk(&CALL_ARGS).await else { return };
    writer.wait_for_stderr("make sure that it can be written").await;
    let pid = to_pid(writer.pid());
    interrupt_until(pid, || writer.child.try_wait().expect("a status").is_some()).await;
    let (code, _, said) = writer.wait_for_exit().await;
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("; it is lost"), "{said}");
    assert!(said.contains("log in again with `bowline login docs`"), "{said}");
}

#[tokio::test]
async fn a_relay_waits_until_the_refreshed_login_is_stored() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let Some(mut writer) = site.start_with_full_disk(&["connect", "docs"]).await else { return };
    writer.wait_for_stderr(NOT_WRITTEN_MESSAGE).await;
    drop(writer.child.stdin.take());
    // Longer than the relay allows its connection to close.
    tokio::time::sleep(Duration::from_secs(17)).await;
    assert_eq!(writer.child.try_wait().expect("a status"), None, "it goes on trying");
    limit_file_size(writer.pid(), "unlimited");
    let (code, _, said) = writer.wait_for_exit().await;
    assert_eq!(code, Some(0), "{said}");
    site.assert_login_kept();
    assert_eq!(site.auth.refreshes(), 1);
}

/// The new token is valid, stored or not.
#[tokio::test]
async fn a_relay_answers_calls_while_the_disk_is_full() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    if !can_limit_files() {
        return;
    }
    let mut relay = DiskLimitedProcess::start(ignore_file_size_signal(site.bowline(&["connect", "docs"])));
    relay.send(INITIALIZE_REQUEST).await;
    assert!(relay.next_line().await.contains("serverInfo"));
    relay.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    site.expire_token();
    relay.send(CALL_REQUEST).await;
    site.fill_disk_during_refresh(&relay).await;
    let answer = relay.next_line().await;
    assert!(answer.contains(r#""id":2"#) && answer.contains("ahoy"), "{answer}");
    assert!(!answer.contains(r#""error""#), "{answer}");
    relay.wait_for_stderr(NOT_WRITTEN_MESSAGE).await;
    limit_file_size(relay.pid(), "unlimited");
    drop(relay.child.stdin.take());
    let (code, _, said) = relay.wait_for_exit().await;
    assert_eq!(code, Some(0), "{said}");
    site.assert_login_kept();
    assert_eq!(site.auth.refreshes(), 1);
}

/// A token that can be requested again is worth neither a wait nor a warning.
#[tokio::test]
async fn a_login_that_is_not_rotated_is_not_lost() {
    let site = LoginSite::with_script(AuthServer::builder().no_rotation(), |protected| protected).await;
    site.logs_in().await;
    let Some(writer) = site.start_with_full_disk(&CALL_ARGS).await else { return };
    let (code, shown, said) = writer.wait_for_exit().await;
    assert_eq!((code, shown.as_str()), (Some(0), "{\"message\":\"ahoy\"}\n"), "{said}");
    assert!(!said.contains("could not be stored") && !said.contains("lost"), "{said}");
    site.assert_login_kept();
}

/// A login that could not be stored is not reported as stored.
#[tokio::test]
async fn a_login_that_cannot_be_stored_is_not_reported_as_stored() {
    let site = LoginSite::new().await;
    if !can_limit_files() {
        return;
    }
    site.auth.arm(AuthFault::delay(TOKEN_RESPONSE_DELAY).on("authorization_code"));
    let browser = Browser::new(&site.context);
    let mut command = ignore_file_size_signal(site.bowline(&["login", "docs"]));
    command.env("BROWSER", &browser.program);
    let mut person = Person::sits_at(command);
    let (pages, page) = (testkit::Browser::new(), opened_url(&browser));
    let visit = pages.login(&page);
    let fill = async {
        site.auth.wait_for(|seen| seen.matches("authorization_code"), TEST_TIMEOUT).await;
        limit_file_size(person.pid().as_raw_pid().cast_unsigned(), "0");
    };
    tokio::join!(visit, fill);
    person.sees("the new login of `docs` could not be stored");
    interrupt_until(person.pid(), || person.has_left()).await;
    let end = person.leaves();
    assert_eq!((end.code, end.stdout.as_str()), (5, ""), "{}", end.screen);
    assert!(end.screen.contains("it is lost"), "{}", end.screen);
}
