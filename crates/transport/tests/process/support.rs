//! Shared by the process tests: small shell scripts as servers, and ways to see that something is
//! dead.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod host;

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bowline_config::Program;
use bowline_proto::fault::Fault;
use bowline_proto::wire::Json;
use bowline_proto::wire::outgoing::{Frame, notification};
use bowline_transport::pipe::{FrameReader, InboundFrame};
use bowline_transport::process::{Grace, Launch, Process, ProcessReader, spawn};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use tempfile::TempDir;
use tokio::time::timeout;

pub(crate) const LIMIT: usize = 8 * 1024 * 1024;

/// Short enough for tests, long enough for a busy machine to run a trap.
pub(crate) const SHORT_GRACE: Grace =
    Grace { eof: Duration::from_millis(200), term: Duration::from_millis(200) };

/// For processes that are expected to end by themselves.
pub(crate) const LONG_GRACE: Grace = Grace { eof: Duration::from_secs(30), term: Duration::from_secs(30) };

/// `sh -c SCRIPT`
pub(crate) fn sh(script: &str) -> Program {
    command("sh", &["-c", script])
}

pub(crate) fn command(command: &str, args: &[&str]) -> Program {
    Program::new(command, args.iter().copied())
}

pub(crate) async fn start(stdio: &Program, grace: Grace) -> Process {
    try_start(stdio, grace).await.unwrap()
}

pub(crate) async fn try_start(stdio: &Program, grace: Grace) -> Result<Process, Fault> {
    let launch =
        Launch { name: "test", stdio, limit: LIMIT, grace, records: None, watchdog: true, stderr: None };
    within(spawn(launch)).await
}

/// Fails a test that hangs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), future).await.expect("the test hangs")
}

pub(crate) async fn next(reader: &mut ProcessReader) -> InboundFrame {
    within(reader.recv()).await.unwrap()
}

pub(crate) async fn message(reader: &mut ProcessReader) -> String {
    match next(reader).await {
        InboundFrame::Message(message) => String::from_utf8(message.to_vec()).unwrap(),
        other => panic!("expected a message, got {other:?}"),
    }
}

/// Reads until the end, and returns its fault.
pub(crate) async fn end(reader: &mut ProcessReader) -> Fault {
    within(async {
        loop {
            if let Err(fault) = reader.recv().await {
                return fault;
            }
        }
    })
    .await
}

pub(crate) fn frame(text: &str) -> Frame {
    let params = Json::encode(&BTreeMap::from([("text", text)])).unwrap();
    notification("test", Some(&params))
}

/// A named pipe that a process holds open for writing. It ends when the last such process is dead.
pub(crate) struct LivenessPipe {
    folder: TempDir,
}

impl LivenessPipe {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
        assert!(made.success());
        Self { folder }
    }

    /// A background process for a script, which ignores SIGTERM if `trap` says so, lives longer
    /// than any test waits, and reports that it lives.
    pub(crate) fn grandchild(&self, trap: &str) -> String {
        let pipe = self.path().display().to_string();
        format!("( {trap} exec 3>'{pipe}'; echo up >&3; exec sleep 100 ) &")
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("pipe")
    }

    /// Blocks until a process holds the pipe and has said so.
    pub(crate) fn up(&self) -> LivingProcess {
        let mut pipe = BufReader::new(File::open(self.path()).unwrap());
        let mut line = String::new();
        pipe.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        LivingProcess(pipe)
    }

    pub(crate) async fn wait_until_up(self) -> LivingProcess {
        within(tokio::task::spawn_blocking(move || self.up())).await.unwrap()
    }
}

/// A process that is alive.
pub(crate) struct LivingProcess(BufReader<File>);

impl LivingProcess {
    /// Blocks until it is dead.
    pub(crate) fn dead(mut self) {
        let asked = Instant::now();
        assert_eq!(self.0.read_to_end(&mut vec![]).unwrap(), 0);
        assert!(asked.elapsed() < Duration::from_secs(60), "it ended by itself");
    }

    pub(crate) async fn wait_until_dead(self) {
        within(tokio::task::spawn_blocking(move || self.dead())).await.unwrap();
    }
}

/// Whether the process was reaped, so that it left no zombie.
pub(crate) fn is_reaped(pid: u32) -> bool {
    waitpid(Some(self::pid(pid)), WaitOptions::NOHANG).is_err_and(|error| error == Errno::CHILD)
}

pub(crate) fn pid(raw: u32) -> Pid {
    Pid::from_raw(raw.try_into().unwrap()).expect("a process id")
}

/// Peak memory of this process, in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Writes an executable file from another process: a file that we had open for writing ourselves
/// cannot be executed while a child that another test is starting still holds it.
pub(crate) fn executable(path: &Path, text: &str) {
    let script = r#"printf '%s' "$2" > "$1" && chmod 755 "$1""#;
    let written = Command::new("sh").args(["-c", script, "sh"]).arg(path).arg(text).status().unwrap();
    assert!(written.success());
}
