//! Runs an installed program, and compares what it does with what the program itself does.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::server::Server;
use crate::shell;

/// A way to start the program.
pub(super) struct Program {
    /// What installed it, for messages.
    pub(super) label: String,
    pub(super) command: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    /// The file that the started process executes in the end; `None` if it starts another process.
    pub(super) executed_file: Option<PathBuf>,
    /// Whether the process that is started forwards signals; `npx` does not.
    pub(super) forwards_signals: bool,
}

/// What a program does.
#[derive(Debug, PartialEq)]
pub(super) struct Behavior {
    pub(super) version: String,
    pub(super) failure: ExitStatus,
    pub(super) relay: String,
    /// How a signal ends it; `None` where it is not sent.
    pub(super) terminated: Option<ExitStatus>,
}

impl Program {
    pub(super) fn new(label: &str, file: impl Into<PathBuf>) -> Self {
        Self {
            label: label.to_owned(),
            command: vec![file.into().into()],
            environment: Vec::new(),
            executed_file: None,
            forwards_signals: true,
        }
    }

    /// Runs the demo, and everything that [`Self::observe`] does, with the same outcome as expected.
    pub(super) fn check(&self, server: &Server, expected: &Behavior) -> Result<()> {
        let demo = self.run(&["demo", "--seconds", "1", "--seed", "1"])?;
        ensure!(demo.status.success(), "the demo ended with {}:\n{}", demo.status, demo.stderr);
        ensure!(demo.stdout.contains("\nIt held: "), "the demo printed\n{}", demo.stdout);
        let found = self.observe(server)?;
        ensure!(found.version == expected.version, "--version printed {}", found.version);
        ensure!(found.failure == expected.failure, "a wrong command ended with {}", found.failure);
        ensure!(found.relay == expected.relay, "the relay answered {}", found.relay);
        if self.forwards_signals {
            ensure!(found.terminated == expected.terminated, "SIGTERM ended it with {:?}", found.terminated);
        }
        Ok(())
    }

    pub(super) fn observe(&self, server: &Server) -> Result<Behavior> {
        let version = self.run(&["--version"])?;
        ensure!(version.status.success(), "--version failed: {}", version.stderr);
        ensure!(version.stderr.is_empty(), "--version printed to stderr: {}", version.stderr);
        let failure = self.run(&["no-such-command"])?;
        ensure!(failure.stderr.contains("unrecognized subcommand"), "it printed {}", failure.stderr);
        Ok(Behavior {
            version: version.stdout,
            failure: failure.status,
            relay: self.relay(server)?,
            terminated: if cfg!(unix) && self.forwards_signals { Some(self.terminate()?) } else { None },
        })
    }

    pub(super) fn run(&self, args: &[&str]) -> Result<Output> {
        let mut process = Process::start(self, args)?;
        drop(process.child.stdin.take());
        process.finish()
    }

    /// Lets the program relay a handshake between its streams and a server, and returns what it
    /// answered. It ends when its stdin does.
    fn relay(&self, server: &Server) -> Result<String> {
        let mut process = Process::start(self, &["connect", &server.mcp_url()])?;
        let mut stdin = process.child.stdin.take().context("stdin is a pipe")?;
        writeln!(stdin, "{INITIALIZE}")?;
        let answer = process.wait_for_line("\"jsonrpc\"")?;
        drop(stdin);
        let ended = process.finish()?;
        ensure!(ended.status.success(), "the relay ended with {}:\n{}", ended.status, ended.stderr);
        Ok(answer)
    }

    /// Sends SIGTERM to the started process while the program runs, and returns how it ended. Its
    /// stdout is read to the end, so the program itself ended too.
    #[cfg(unix)]
    fn terminate(&self) -> Result<ExitStatus> {
        use rustix::process::{Pid, Signal, kill_process};
        let mut process = Process::start(self, &["demo", "--seconds", "3600", "--seed", "1"])?;
        process.wait_for_line("Trouble for ")?;
        if let Some(file) = self.executed_file.as_deref().filter(|_| cfg!(target_os = "linux")) {
            let running = std::fs::read_link(format!("/proc/{}/exe", process.child.id()))?;
            ensure!(running == file.canonicalize()?, "{} runs in its place", running.display());
        }
        let pid = Pid::from_child(&process.child);
        kill_process(pid, Signal::TERM)?;
        Ok(process.finish()?.status)
    }

    #[cfg(not(unix))]
    fn terminate(&self) -> Result<ExitStatus> {
        bail!("{}: there are no signals here", self.label)
    }
}

/// What a program printed, and how it ended.
pub(super) struct Output {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// A running program, in a process group of its own that ends with this value.
struct Process {
    child: Child,
    /// Lines of stdout, with their ends.
    lines: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
    /// Removed after the processes that may write to it have ended.
    _home: tempfile::TempDir,
}

impl Process {
    fn start(program: &Program, args: &[&str]) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let mut command = Command::new(&program.command[0]);
        command.args(&program.command[1..]).args(args).current_dir(home.path());
        // Nothing of the person who runs the tests is read or written.
        command.env("HOME", home.path()).envs(program.environment.iter().cloned());
        command.env("NO_PROXY", "127.0.0.1");
        for variable in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell::own_group(&mut command);
        let shown = shell::describe(&command);
        let mut child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
        let stdout = child.stdout.take().context("stdout is a pipe")?;
        let mut stderr = child.stderr.take().context("stderr is a pipe")?;
        let (line, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut text = String::new();
            while stdout.read_line(&mut text).is_ok_and(|count| count > 0) {
                if line.send(std::mem::take(&mut text)).is_err() {
                    return;
                }
            }
        });
        let (whole, stderr_text) = mpsc::channel();
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            let _ = whole.send(String::from_utf8_lossy(&text).into_owned());
        });
        Ok(Self { child, lines, stderr: stderr_text, _home: home })
    }

    /// Returns the first line of stdout that contains `part`.
    fn wait_for_line(&mut self, part: &str) -> Result<String> {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(part) => return Ok(line),
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Timeout) => bail!("it did not print `{part}` in time"),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let ended = self.finish()?;
                    bail!("it ended with {} before it printed `{part}`:\n{}", ended.status, ended.stderr);
                }
            }
        }
    }

    /// Waits until both streams and the process have ended.
    fn finish(&mut self) -> Result<Output> {
        let mut stdout = String::new();
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => stdout += &line,
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => bail!("it did not end in time; it printed\n{stdout}"),
            }
        }
        let stderr = self.stderr.recv_timeout(TIME_LIMIT).context("its stderr did not end in time")?;
        let status = self.child.wait()?;
        Ok(Output { status, stdout, stderr })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        shell::kill_group(self.child.id());
        let _ = self.child.wait();
    }
}

/// The time that a program may take to print a line, and to end. None needs more than a few seconds.
const TIME_LIMIT: Duration = Duration::from_secs(120);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"packages","version":"1"}}}"#;
