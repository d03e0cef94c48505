//! A host that starts its gateway or server and speaks to it over pipes.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::messages::{Tool, call_body};
use crate::client::floor_http::{INITIALIZE, INITIALIZED, TOOLS_LIST};
use crate::client::lanes::{Latencies, build_sample};
use crate::job::{Limits, Sample};
use crate::measure::Stopwatch;

/// A process with a session over its pipes. It is killed when this is dropped.
pub(crate) struct StdioHost {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    last_id: u64,
    /// When the last line was read.
    read_at: Instant,
}

/// What is read of a message.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    method: Option<IgnoredAny>,
    #[serde(default)]
    result: Option<ResultHead>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultHead {
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    tools: Vec<IgnoredAny>,
}

impl StdioHost {
    /// Starts the process, which is spoken to next.
    pub(crate) fn start(command: std::process::Command) -> anyhow::Result<Self> {
        let mut command = Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().context("start a process")?;
        let input = child.stdin.take().context("a pipe to stdin")?;
        let output = child.stdout.take().context("a pipe from stdout")?;
        let output = BufReader::with_capacity(64 * 1024, output);
        Ok(Self { child, input, output, line: Vec::new(), last_id: FIRST_CALL_ID, read_at: Instant::now() })
    }

    /// Opens a session.
    pub(crate) async fn open_session(&mut self) -> anyhow::Result<()> {
        self.write(INITIALIZE).await?;
        self.next_response().await?;
        self.write(INITIALIZED).await
    }

    /// Fetches the tool list, and returns how many tools it has.
    pub(crate) async fn count_tools(&mut self) -> anyhow::Result<usize> {
        self.write(TOOLS_LIST).await?;
        Ok(self.next_response().await?.1)
    }

    /// Returns when the last line was read; it may have been parsed for long after that.
    pub(crate) fn read_at(&self) -> Instant {
        self.read_at
    }

    /// Returns the process id.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Closes the pipe to the process, and waits until it has ended.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let Self { mut child, input, output, .. } = self;
        drop((input, output));
        child.wait().await?;
        Ok(())
    }

    /// Keeps `lanes` calls in flight, and measures them.
    pub(super) async fn measure(
        &mut self,
        tool: Tool,
        lanes: usize,
        limits: Limits,
    ) -> anyhow::Result<Sample> {
        self.run_calls(tool, lanes, limits.warmup).await?;
        let watch = Stopwatch::start();
        let latencies = self.run_calls(tool, lanes, limits.seconds).await?;
        build_sample(&watch.stop(), &latencies)
    }

    async fn run_calls(&mut self, tool: Tool, lanes: usize, seconds: f64) -> anyhow::Result<Latencies> {
        let mut now = Instant::now();
        let deadline = now + Duration::from_secs_f64(seconds);
        let mut latencies = Latencies::new();
        let mut in_flight = HashMap::with_capacity(lanes);
        loop {
            while now < deadline && in_flight.len() < lanes {
                self.last_id += 1;
                in_flight.insert(self.last_id, now);
                let call = call_body(tool.name(), self.last_id);
                self.write(call.as_bytes()).await?;
            }
            if in_flight.is_empty() {
                return Ok(latencies);
            }
            let (id, _) = self.next_response().await?;
            now = Instant::now();
            let sent = in_flight.remove(&id).context("a response to no call")?;
            latencies.record(now - sent);
        }
    }

    async fn write(&mut self, message: &[u8]) -> anyhow::Result<()> {
        self.input.write_all(&[message, b"\n"].concat()).await?;
        Ok(self.input.flush().await?)
    }

    /// Returns the id of the next response and the number of tools in it. Requests and
    /// notifications before it are skipped.
    async fn next_response(&mut self) -> anyhow::Result<(u64, usize)> {
        loop {
            self.line.clear();
            let read = self.output.read_until(b'\n', &mut self.line).await?;
            self.read_at = Instant::now();
            ensure!(read > 0, "the process hung up");
            let message: Envelope = serde_json::from_slice(&self.line).context("not a message")?;
            if let (Some(id), None) = (message.id, message.method) {
                let text = || String::from_utf8_lossy(&self.line[..self.line.len().min(200)]).into_owned();
                let result = message.result.with_context(text)?;
                ensure!(!result.is_error, "{}", text());
                return Ok((id, result.tools.len()));
            }
        }
    }
}

/// Ids of calls begin above those of the other requests.
const FIRST_CALL_ID: u64 = 1_000;
