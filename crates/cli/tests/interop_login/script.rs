//! A child process that exchanges lines of JSON with a test, and ends with it.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// Shorter than the test runner's timeout, whose message says less.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(40);

/// Returns a variable that the test command sets. Without it the test fails: a missing part must
/// not look like a working one.
pub(crate) fn required_variable(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `cargo xtask test --only interop`, which installs what is needed")
    })
}

pub(crate) struct Script {
    _process: KillOnDrop,
    stdin: ChildStdin,
    lines: Receiver<String>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    name: &'static str,
}

/// A process that is killed on drop.
pub(crate) struct KillOnDrop(pub(crate) Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Script {
    /// Starts a Node script.
    pub(crate) fn node(name: &'static str, argument: &Value) -> (Self, Value) {
        required_variable("BOWLINE_NODE_MODULES");
        required_variable("BOWLINE_BROWSER_MODULES");
        Self::start("BOWLINE_NODE", name, &argument.to_string())
    }

    /// Starts a Python script.
    pub(crate) fn python(name: &'static str, argument: &str) -> (Self, Value) {
        Self::start("BOWLINE_FASTMCP_PYTHON", name, argument)
    }

    /// Starts `interop_login/NAME` and returns the first line that it prints.
    fn start(interpreter: &str, name: &'static str, argument: &str) -> (Self, Value) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop_login").join(name);
        let mut child = Command::new(required_variable(interpreter))
            .arg(file)
            .arg(argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the interpreter starts");
        let stdin = child.stdin.take().expect("a pipe");
        let (lines, stderr) = (lines(child.stdout.take().expect("a pipe")), Arc::new(Mutex::default()));
        keep_last(lines_of(child.stderr.take().expect("a pipe")), Arc::clone(&stderr));
        let script = Self { _process: KillOnDrop(child), stdin, lines, stderr, name };
        let first = script.read_reply("its first line");
        (script, first)
    }

    /// Sends a command and returns the reply.
    pub(crate) fn ask(&mut self, what: &str, mut args: Value) -> Value {
        args["do"] = json!(what);
        writeln!(self.stdin, "{args}").unwrap_or_else(|error| panic!("{error}: {}", self.stderr_tail()));
        let mut answer = self.read_reply(what);
        assert!(answer.get("error").is_none(), "{what}: {}", answer["error"].as_str().unwrap_or_default());
        answer["ok"].take()
    }

    fn read_reply(&self, what: &str) -> Value {
        let line = match self.lines.recv_timeout(TEST_TIMEOUT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("{}: waited in vain for {what}", self.name),
            Err(RecvTimeoutError::Disconnected) => panic!("{} has ended: {}", self.name, self.stderr_tail()),
        };
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn stderr_tail(&self) -> String {
        self.stderr.lock().iter().cloned().collect::<Vec<_>>().join("\n")
    }
}

/// Reads lines as they come.
pub(crate) fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || lines_of(pipe).try_for_each(|line| send.send(line)));
    receive
}

fn lines_of(pipe: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(pipe).lines().map_while(Result::ok)
}

fn keep_last(lines: impl Iterator<Item = String> + Send + 'static, kept: Arc<Mutex<VecDeque<String>>>) {
    std::thread::spawn(move || {
        for line in lines {
            let mut kept = kept.lock();
            kept.push_back(line);
            if kept.len() > MAX_STDERR_LINES {
                kept.pop_front();
            }
        }
    });
}

const MAX_STDERR_LINES: usize = 40;
