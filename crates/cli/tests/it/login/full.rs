//! A disk that is full just when a login was renewed: the token that it was renewed with is spent, so that what was had
//! for it must not be lost.
//!
//! A process whose files must not grow stands for the disk. Linux can do that to one that runs.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};
use std::time::Duration;

use bowline_testkit::Twist;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr};

use super::{PATIENCE, Site};

/// Long enough to fill the disk before the answer comes.
const ANSWER_DELAY: Duration = Duration::from_secs(1);
const UNWRITTEN: &str = "the renewed login of `docs` could not be written down";

/// A bowline whose disk can be filled.
struct Writer {
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
}

impl Site {
    /// Starts a bowline that renews the login, and fills its disk while the authorization server answers.
    async fn writer(&self, args: &[&str]) -> Option<Writer> {
        if Command::new("prlimit").arg("--version").output().is_err() {
            eprintln!("not checked: prlimit is not installed");
            return None;
        }
        self.auth.revoke_all_access();
        self.auth.arm(Twist::delay(ANSWER_DELAY).on("refresh_token"));
        // As a full disk does, the limit is to be an error of the write, and not the end of the process.
        let mut command = self.bowline(args).run_by("sh", ["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn_async().expect("sh starts");
        if args.first() == Some(&"connect") {
            let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}"#;
            let stdin = child.stdin.as_mut().expect("a pipe");
            stdin.write_all(format!("{hello}\n").as_bytes()).await.expect("it reads");
        } else {
            drop(child.stdin.take());
        }
        self.auth.wait_for(|seen| seen.is("refresh_token"), PATIENCE).await;
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let writer = Writer { child, stderr, said: String::new() };
        writer.limit("0");
        Some(writer)
    }

    /// A bowline on the same machine whose disk is not full.
    fn waiter(&self) -> Writer {
        let mut command = self.bowline(&CALL);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn_async().expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Writer { child, stderr, said: String::new() }
    }

    /// The login is as good as before, and nobody was asked.
    fn is_kept(&self) {
        let shown = self.calls();
        assert!(shown.starts_with("exit: 0\n") && shown.contains("ahoy"), "{shown}");
        assert_eq!((self.auth.authorizations(), self.auth.reuse_detected()), (1, 0));
    }
}

impl Writer {
    fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// How large its files may become.
    fn limit(&self, bytes: &str) {
        let limit = format!("--fsize={bytes}:unlimited");
        let set = Command::new("prlimit").args([&limit, "--pid", &self.pid().to_string()]).status();
        assert!(set.expect("prlimit runs").success());
    }

    fn interrupt(&self) {
        kill(Pid::from_raw(self.pid().cast_signed()), Signal::SIGINT).expect("it is there");
    }

    async fn says(&mut self, text: &str) {
        while !self.said.contains(text) {
            let read = tokio::time::timeout(PATIENCE * 2, self.stderr.read_line(&mut self.said)).await;
            assert!(read.expect("it is said").expect("text") > 0, "{}", self.said);
        }
    }

    /// Its exit code, and all that it said on stdout and stderr.
    async fn ends(mut self) -> (Option<i32>, String, String) {
        let output = async {
            let mut shown = String::new();
            let mut stdout = self.child.stdout.take().expect("a pipe");
            stdout.read_to_string(&mut shown).await.expect("text");
            self.stderr.read_to_string(&mut self.said).await.expect("text");
            (self.child.wait().await.expect("a status").code(), shown, self.said)
        };
        tokio::time::timeout(PATIENCE * 2, output).await.expect("it ends")
    }
}

const CALL: [&str; 4] = ["call", "docs", "echo", "message=ahoy"];

#[tokio::test]
async fn a_command_does_not_end_before_a_renewed_login_is_written_down() {
    let site = Site::new().await;
    site.logs_in().await;
    let Some(mut writer) = site.writer(&CALL).await else { return };
    writer.says(UNWRITTEN).await;
    // The result is there long before, and then the command goes on trying.
    let mut result = String::new();
    let stdout = writer.child.stdout.as_mut().expect("a pipe");
    let mut stdout = BufReader::new(stdout);
    let read = stdout.read_line(&mut result);
    tokio::time::timeout(PATIENCE * 2, read).await.expect("a result").expect("text");
    assert_eq!(result, "{\"message\":\"ahoy\"}\n");
    // Another process that used the token once more would cost the login.
    let mut other = site.waiter();
    other
        .says(&format!("waiting for another process ({}) that renews the login of `docs`", writer.pid()))
        .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(writer.child.try_wait().expect("a status"), None, "it goes on trying");
    assert_eq!(site.auth.count("refresh_token"), 1, "the other one waits");
    writer.limit("unlimited");
    let (code, shown, said) = other.ends().await;
    assert!(code == Some(0) && shown.contains("ahoy"), "{code:?}: {said}");
    let (code, _, said) = writer.ends().await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(UNWRITTEN).count(), 1, "{said}");
    assert!(said.contains("store.db") && said.contains("free space there"), "{said}");
    site.is_kept();
    assert_eq!(site.auth.refreshes(), 1);
}

#[tokio::test]
async fn a_person_who_does_not_wait_is_told_that_the_login_is_lost() {
    let site = Site::new().await;
    site.logs_in().await;
    let Some(mut writer) = site.writer(&CALL).await else { return };
    writer.says("free space there").await;
    let hurried = std::time::Instant::now();
    // Signals that come at once are one to a process.
    while writer.child.try_wait().expect("a status").is_none() {
        assert!(hurried.elapsed() < PATIENCE, "it does not end");
        writer.interrupt();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
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
    // Longer than the relay gives its connection to close.
    tokio::time::sleep(Duration::from_secs(17)).await;
    assert_eq!(writer.child.try_wait().expect("a status"), None, "it goes on trying");
    writer.limit("unlimited");
    let (code, _, said) = writer.ends().await;
    assert_eq!(code, Some(0), "{said}");
    site.is_kept();
    assert_eq!(site.auth.refreshes(), 1);
}
