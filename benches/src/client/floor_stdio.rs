//! The floor over pipes: one prebuilt line out for every line in. It looks at nothing in them.

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::floor_http::{INITIALIZE, INITIALIZED, call_body};
use super::lanes::{Latencies, build_sample};
use crate::job::{Limits, Sample};
use crate::measure::Stopwatch;

/// Keeps `lanes` calls in flight, and measures them.
pub(super) async fn measure_calls(
    command: &[String],
    bytes: usize,
    lanes: usize,
    limits: Limits,
) -> anyhow::Result<Sample> {
    let (program, args) = command.split_first().context("a command")?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut pipes = Pipes::shake_hands(&mut child).await?;
    let line = [call_body(bytes).as_bytes(), b"\n"].concat();

    pipes.run_calls(&line, lanes, limits.warmup, limits.max_calls / 4 + 1).await?;
    let watch = Stopwatch::start();
    let latencies = pipes.run_calls(&line, lanes, limits.seconds, limits.max_calls).await?;
    build_sample(&watch.stop(), &latencies)
}

struct Pipes {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Pipes {
    async fn shake_hands(child: &mut Child) -> anyhow::Result<Self> {
        let input = child.stdin.take().context("a pipe to stdin")?;
        let output = child.stdout.take().context("a pipe from stdout")?;
        let output = BufReader::with_capacity(64 * 1024, output);
        let mut pipes = Self { input, output, line: Vec::new() };
        pipes.input.write_all(&[INITIALIZE, b"\n"].concat()).await?;
        pipes.read_line().await?;
        pipes.input.write_all(&[INITIALIZED, b"\n"].concat()).await?;
        Ok(pipes)
    }

    async fn read_line(&mut self) -> anyhow::Result<()> {
        self.line.clear();
        let read = self.output.read_until(b'\n', &mut self.line).await?;
        ensure!(read > 0, "the server hung up");
        Ok(())
    }

    /// Makes one write per call, as a client that is given one call at a time does. Batching calls
    /// into few writes would be much faster, but no caller could reach that floor. The server
    /// responds in order, so a line ends the oldest call.
    async fn run_calls(
        &mut self,
        line: &[u8],
        lanes: usize,
        seconds: f64,
        max_calls: u64,
    ) -> anyhow::Result<Latencies> {
        let mut now = Instant::now();
        let deadline = now + Duration::from_secs_f64(seconds);
        let mut latencies = Latencies::new();
        let mut in_flight = VecDeque::with_capacity(lanes);
        let mut started = 0;
        loop {
            while now < deadline && started < max_calls && in_flight.len() < lanes {
                in_flight.push_back(now);
                started += 1;
                self.input.write_all(line).await?;
            }
            let Some(sent) = in_flight.pop_front() else { return Ok(latencies) };
            self.read_line().await?;
            now = Instant::now();
            latencies.record(now - sent);
        }
    }
}
