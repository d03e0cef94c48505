//! A disk that fills up during a refresh: the refresh token is spent, so its successor must not be
//! lost.
//!
//! A process with a file size limit stands for the full disk. Linux can set the limit on a running
//! process.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};
use std::time::Duration;

use bowline_testkit::{self as testkit, AuthFault, AuthServer};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout};

use super::{PATIENCE, Site, address};
use crate::browser::Browser;
use crate::pty::Person;

/// Long enough to fill the disk before the response arrives.
const ANSWER_DELAY: Duration = Duration::from_secs(1);
const UNWRITTEN: &str = "the renewed login of `docs` could not be written down";

/// A bowline process whose disk can be filled.
struct Writer {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    said: String,
}

impl Site {
    /// Starts a bowline that refreshes the login, and fills its disk while the authorization server
    /// delays the response.
    async fn writer(&self, args: &[&str]) -> Option<Writer> {
        if !can_be_filled() {
            return None;
        }
        self.token_ends();
        let mut writer = Writer::start(limitable(self.bowline(args)));
        if args.first() == Some(&"connect") {
            writer.sends(HELLO).await;
        } else {
            drop(writer.child.stdin.take());
        }
        self.is_renewed_on_a_full_disk(&writer).await;
        Some(writer)
    }

    /// Makes the next call refresh the login, with a response slow enough to fill the disk.
    fn token_ends(&self) {
        self.auth.revoke_all_access();
        self.auth.arm(AuthFault::delay(ANSWER_DELAY).on("refresh_token"));
    }

    async fn is_renewed_on_a_full_disk(&self, writer: &Writer) {
        self.auth.wait_for(|seen| seen.matches("refresh_token"), PATIENCE).await;
        limit(writer.pid(), "0");
    }

    /// Checks that the login still works, and that no further login was needed.
    fn is_kept(&self) {
        let shown = self.calls();
        assert!(shown.starts_with("exit: 0\n") && shown.contains("ahoy"), "{shown}");
        assert_eq!((self.auth.authorizations(), self.auth.reuse_detected()), (1, 0));
    }
}

fn can_be_filled() -> bool {
    let can = Command::new("prlimit").arg("--version").output().is_ok();
    if !can {
        eprintln!("not checked: prlimit is not installed");
    }
    can
}

/// Like on a full disk, exceeding the limit must fail the write and not kill the process.
fn limitable(command: crate::context::Command) -> crate::context::Command {
    command.run_by("sh", ["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
}

/// Limits the size of a process's files.
fn limit(process: u32, bytes: &str) {
    let limit = format!("--fsize={bytes}:unlimited");
    let set = Command::new("prlimit").args([&limit, "--pid", &process.to_string()]).status();
    assert!(set.expect("prlimit runs").success());
}

/// Sends SIGINT repeatedly. Signals in quick succession count as one.
async fn interrupt_until(process: Pid, mut has_ended: impl FnMut() -> bool) {
    let hurried = std::time::Instant::now();
    while !has_ended() {
        assert!(hurried.elapsed() < PATIENCE, "it does not end");
        kill(process, Signal::SIGINT).expect("it is there");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

impl Writer {
    fn start(mut command: crate::context::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn_async().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, stdout, stderr, said: String::new() }
    }

    fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    async fn sends(&mut self, message: &str) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(format!("{message}\n").as_bytes()).await.expect("it reads");
    }

    /// Waits for the next line of stdout.
    async fn shows(&mut self) -> String {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line);
        tokio::time::timeout(PATIENCE * 2, read).await.expect("a line").expect("text");
        line
    }

    async fn says(&mut self, text: &str) {
        while !self.said.contains(text) {
            let read = tokio::time::timeout(PATIENCE * 2, self.stderr.read_line(&mut self.said)).await;
            assert!(read.expect("it is said").expect("text") > 0, "{}", self.said);
        }
    }

    /// Waits for the exit, and returns the exit code, stdout and stderr.
    async fn ends(mut self) -> (Option<i32>, String, String) {
        let output = async {
            let mut shown = String::new();
            self.stdout.read_to_string(&mut shown).await.expect("text");
            self.stderr.read_to_string(&mut self.said).await.expect("text");
            (self.child.wait().await.expect("a status").code(), shown, self.said)
        };
        tokio::time::timeout(PATIENCE * 2, output).await.expect("it ends")
    }
}

const CALL: [&str; 4] = ["call", "docs", "echo", "message=ahoy"];
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}"#;
const HOST_CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"ahoy"}}}"#;

#[tokio::test]
async fn a_command_does_not_end_before_a_renewed_login_is_written_down() {
    let site = Site::new().await;
    site.logs_in().await;
    let Some(mut writer) = site.writer(&CALL).await else { return };
    writer.says(UNWRITTEN).await;
    // The result is printed long before; then the command keeps trying to store the login.
    assert_eq!(writer.shows().await, "{\"message\":\"ahoy\"}\n");
    // Another process that used the token again would lose the login.
    let mut other = Writer::start(site.bowline(&CALL));
    other
        .says(&format!("waiting for another process ({}) that renews the login of `docs`", writer.pid()))
        .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(writer.child.try_wait().expect("a status"), None, "it goes on trying");
    assert_eq!(site.auth.count("refresh_token"), 1, "the other one waits");
    limit(writer.pid(), "unlimited");
    let (code, shown, said) = other.ends().await;
    assert!(code == Some(0) && shown.contains("ahoy"), "{code:?}: {said}");
    let (code, _, said) = writer.ends().await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(UNWRITTEN).count(), 1, "{said}");
    assert!(said.contains("store.db") && said.contains("see that it can be written"), "{said}");
    site.is_kept();
    assert_eq!(site.auth.refreshes(), 1);
}

#[tokio::test]
async fn a_person_who_does_not_wait_is_told_that_the_login_is_lost() {
    let site = Site::new().await;
    site.logs_in().await;
    let Some(mut writer) = site.writer(&CALL).await else { return };
    writer.says("see that it can be written").await;
    let pid = Pid::from_raw(writer.pid().cast_signed());
    interrupt_until(pid, || writer.child.try_wait().expect("a status").is_some()).await;
    let (code, _, said) = writer.ends().await;
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("; it is lost"), "{said}");
    assert!(said.contains("log in again with `bowline login docs`"), "{said}");
}

#[tokio::test]
async fn a_relay_does_not_end_before_a_renewed_login_is_written_down() {
    let site = Site::new().await;
    site.logs_in().await;
    let Some(mut writer) = site.writer(&["connect", "docs"]).await else { return };
    writer.says(UNWRITTEN).await;
    drop(writer.child.stdin.take());
    // Longer than the relay allows its connection to close.
    tokio::time::sleep(Duration::from_secs(17)).await;
    assert_eq!(writer.child.try_wait().expect("a status"), None, "it goes on trying");
    limit(writer.pid(), "unlimited");
    let (code, _, said) = writer.ends().await;
    assert_eq!(code, Some(0), "{said}");
    site.is_kept();
    assert_eq!(site.auth.refreshes(), 1);
}

/// The new token is valid, stored or not.
#[tokio::test]
async fn a_relay_answers_calls_while_the_disk_is_full() {
    let site = Site::new().await;
    site.logs_in().await;
    if !can_be_filled() {
        return;
    }
    let mut relay = Writer::start(limitable(site.bowline(&["connect", "docs"])));
    relay.sends(HELLO).await;
    assert!(relay.shows().await.contains("serverInfo"));
    relay.sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    site.token_ends();
    relay.sends(HOST_CALL).await;
    site.is_renewed_on_a_full_disk(&relay).await;
    let answer = relay.shows().await;
    assert!(answer.contains(r#""id":2"#) && answer.contains("ahoy"), "{answer}");
    assert!(!answer.contains(r#""error""#), "{answer}");
    relay.says(UNWRITTEN).await;
    limit(relay.pid(), "unlimited");
    drop(relay.child.stdin.take());
    let (code, _, said) = relay.ends().await;
    assert_eq!(code, Some(0), "{said}");
    site.is_kept();
    assert_eq!(site.auth.refreshes(), 1);
}

/// A token that can be requested again is worth neither a wait nor a warning.
#[tokio::test]
async fn a_login_that_is_not_rotated_is_not_lost() {
    let site = Site::with(AuthServer::builder().no_rotation(), |protected| protected).await;
    site.logs_in().await;
    let Some(writer) = site.writer(&CALL).await else { return };
    let (code, shown, said) = writer.ends().await;
    assert_eq!((code, shown.as_str()), (Some(0), "{\"message\":\"ahoy\"}\n"), "{said}");
    assert!(!said.contains("written down") && !said.contains("lost"), "{said}");
    site.is_kept();
}

/// A login that could not be stored is not reported as stored.
#[tokio::test]
async fn a_new_login_that_cannot_be_written_down_is_not_said_to_be_kept() {
    let site = Site::new().await;
    if !can_be_filled() {
        return;
    }
    site.auth.arm(AuthFault::delay(ANSWER_DELAY).on("authorization_code"));
    let browser = Browser::new(&site.context);
    let mut command = limitable(site.bowline(&["login", "docs"]));
    command.env("BROWSER", &browser.program);
    let mut person = Person::sits_at(command);
    let (pages, page) = (testkit::Browser::new(), address(&browser));
    let visit = pages.login(&page);
    let fill = async {
        site.auth.wait_for(|seen| seen.matches("authorization_code"), PATIENCE).await;
        limit(person.pid().as_raw().cast_unsigned(), "0");
    };
    tokio::join!(visit, fill);
    person.sees("the new login of `docs` could not be written down");
    interrupt_until(person.pid(), || person.has_left()).await;
    let end = person.leaves();
    assert_eq!((end.code, end.stdout.as_str()), (5, ""), "{}", end.screen);
    assert!(end.screen.contains("it is lost"), "{}", end.screen);
}
