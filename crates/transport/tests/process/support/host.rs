//! Runs servers in a separate host process that can be killed, and tracks the processes these
//! start.
//!
//! Whatever a test does, it leaves none of them behind.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bowline_transport::process::{Launch, spawn};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, getpgid, getpgrp, kill_process_group};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{LIMIT, LONG_GRACE, executable, sh, within};

/// Runs as the host if this test binary was started as one. The named test calls this first.
pub(crate) async fn run_as_host_if_requested() {
    let Some(script) = std::env::var_os(SCRIPT) else { return };
    let folder = PathBuf::from(std::env::var_os(RECORDS).expect("set together"));
    let server = sh(script.to_str().unwrap());
    let watchdog = std::env::var_os(NO_WATCHDOG).is_none();
    let launch = Launch {
        name: "test",
        stdio: &server,
        limit: LIMIT,
        grace: LONG_GRACE,
        records: Some(&folder),
        watchdog,
        stderr: None,
    };
    let _process = spawn(launch).await.unwrap();
    // Exits when its stdin is closed, also by a test that was killed itself.
    tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await.unwrap().unwrap();
    std::process::exit(0);
}

const SCRIPT: &str = "PROCESS_TEST_SCRIPT";
/// Set for a host that starts its server without a watchdog.
pub(crate) const NO_WATCHDOG: &str = "PROCESS_TEST_NO_WATCHDOG";
const RECORDS: &str = "PROCESS_TEST_RECORDS";

/// A running host process. Dropping it kills it.
pub(crate) struct Host(Child);

impl Host {
    /// Starts this test binary again as a host, with this script as its server. `test` is the test
    /// in it that calls [`run_as_host_if_requested`].
    pub(crate) fn start(test: &str, script: &str, records: &Path) -> Self {
        Self::start_with(test, script, records, &[])
    }

    /// Starts a host with additional environment variables.
    pub(crate) fn start_with(test: &str, script: &str, records: &Path, env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--quiet", "--exact", test]).envs(env.iter().copied());
        command.env(SCRIPT, script).env(RECORDS, records);
        // In its own group, as a shell would start it.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// `kill -9`
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Closes its stdin, and waits until it has exited.
    pub(crate) fn leave(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }

    /// The process id of its watchdog.
    pub(crate) fn watchdog(&self) -> u32 {
        self.find_watchdog().expect("a watchdog")
    }

    /// The process id of its watchdog, if it has one.
    pub(crate) fn find_watchdog(&self) -> Option<u32> {
        let output = Command::new("ps").args(["-ax", "-o", "pid=,ppid=,args="]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_its_watchdog = |line: &&str| {
            line.split_ascii_whitespace().nth(1) == Some(&self.pid().to_string()) && line.contains("watchdog")
        };
        let line = text.lines().find(is_its_watchdog)?;
        Some(line.split_ascii_whitespace().next().unwrap().parse().unwrap())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A named pipe to which processes report their ids, and which they hold open while they live.
pub(crate) struct ProcessRoll {
    folder: TempDir,
}

impl ProcessRoll {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, stay) = (folder.path().join("roll"), folder.path().join("stay"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let script = format!("#!/bin/sh\nexec 3> '{}'\necho $$ >&3\nexec sleep 300\n", pipe.display());
        executable(&stay, &script);
        Self { folder }
    }

    /// A folder for records.
    pub(crate) fn records(&self) -> PathBuf {
        self.folder.path().join("records")
    }

    /// A shell command that reports, and then lives longer than any test waits. It ignores its
    /// input.
    pub(crate) fn stay(&self) -> String {
        self.folder.path().join("stay").display().to_string()
    }

    /// Waits until `count` processes have reported.
    pub(crate) async fn wait_for(&self, count: usize) -> LiveProcesses {
        let path = self.folder.path().join("roll");
        let pids = Arc::new(Mutex::new(Vec::new()));
        let mut present = LiveProcesses { pids: Arc::clone(&pids), pipe: None };
        let reading = tokio::task::spawn_blocking(move || {
            let mut pipe = BufReader::new(File::open(path).unwrap());
            for _ in 0..count {
                let mut line = String::new();
                pipe.read_line(&mut line).unwrap();
                let pid = line.trim().parse().expect("a process id");
                pids.lock().push(pid);
            }
            pipe
        });
        present.pipe = Some(within(reading).await.unwrap());
        present
    }
}

/// Processes that live. Dropping it kills them.
pub(crate) struct LiveProcesses {
    pids: Arc<Mutex<Vec<i32>>>,
    pipe: Option<BufReader<File>>,
}

impl LiveProcesses {
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.pids.lock().iter().map(|pid| (*pid).try_into().unwrap()).collect()
    }

    /// Waits until all are dead. By themselves they would live much longer than the timeout.
    pub(crate) async fn gone(mut self) {
        let mut pipe = self.pipe.take().unwrap();
        let end = tokio::task::spawn_blocking(move || pipe.read_to_end(&mut Vec::new()).unwrap());
        assert!(
            timeout(DEATH_TIMEOUT, end).await.is_ok_and(|read| read.unwrap() == 0),
            "still there: {:?}",
            self.pids()
        );
        self.pids.lock().clear();
    }
}

/// Many times the grace periods: on a busy machine a watchdog that reads every process takes long.
const DEATH_TIMEOUT: Duration = Duration::from_secs(60);

impl Drop for LiveProcesses {
    fn drop(&mut self) {
        for pid in self.pids.lock().drain(..) {
            // With its group, which contains those that did not report. The group belongs to the
            // server, or to the process itself.
            if let Ok(group) = getpgid(Pid::from_raw(pid))
                && group != getpgrp()
            {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}

/// Whether there is a process with this id that has not ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout).into_owned();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}
