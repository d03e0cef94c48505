//! Measures the memory of `bowline connect` in front of one server.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use super::floor_http::{INITIALIZE, INITIALIZED, TOOLS_LIST};
use crate::command::{TempHome, bowline_program};
use crate::job::Sample;
use crate::measure::{Stopwatch, rss_of};

/// Starts the relay, speaks to it as a host does, and reads its resident memory.
pub(super) async fn measure(url: &str, tools: usize) -> anyhow::Result<Sample> {
    let home = TempHome::create()?;
    let watch = Stopwatch::start();
    let mut command = Command::new(bowline_program()?);
    command.args(["connect", url]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command.envs(home.variables());
    let mut relay = command.spawn().context("start the relay")?;
    let mut input = relay.stdin.take().context("a pipe to stdin")?;
    let mut output = BufReader::new(relay.stdout.take().context("a pipe from stdout")?).lines();

    let initialized = send_request(&mut input, &mut output, INITIALIZE).await?;
    let revision = initialized["result"]["protocolVersion"].as_str().map(ToOwned::to_owned);
    write(&mut input, INITIALIZED).await?;
    let list = send_request(&mut input, &mut output, TOOLS_LIST).await?;
    let found = list["result"]["tools"].as_array().map_or(0, Vec::len);
    ensure!(found == tools, "a list of {found} tools, expected {tools}");

    let lap = watch.stop();
    let relay_rss = relay.id().and_then(rss_of);
    Ok(Sample { calls: 1, seconds: lap.seconds, relay_rss, revision, ..Sample::default() })
}

/// Sends a request and returns the response; notifications before it are skipped.
async fn send_request(
    input: &mut ChildStdin,
    output: &mut Lines<BufReader<ChildStdout>>,
    request: &[u8],
) -> anyhow::Result<Value> {
    let id = serde_json::from_slice::<Value>(request)?["id"].clone();
    write(input, request).await?;
    loop {
        let line = output.next_line().await?.context("the relay hung up")?;
        let message: Value = serde_json::from_str(&line)?;
        if message["id"] == id && message.get("method").is_none() {
            ensure!(message.get("error").is_none(), "the relay answers {line}");
            return Ok(message);
        }
    }
}

async fn write(input: &mut ChildStdin, message: &[u8]) -> anyhow::Result<()> {
    input.write_all(&[message, b"\n"].concat()).await?;
    Ok(input.flush().await?)
}
