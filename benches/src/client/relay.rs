//! Measures the memory of `bowline connect` in front of one server.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use super::floor_http::{INITIALIZE, INITIALIZED, TOOLS_LIST};
use crate::job::Sample;
use crate::measure::{Stopwatch, rss_of};

/// Starts the relay, speaks to it as a host does, and reads its resident memory.
pub(super) async fn measure(url: &str, tools: usize) -> anyhow::Result<Sample> {
    let program = relay_program()?;
    let home = TempHome::create()?;
    let watch = Stopwatch::start();
    let mut command = Command::new(program);
    command.args(["connect", url]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    // Keeps the relay away from the files and settings of the person who runs this.
    for name in
        ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"]
    {
        command.env(name, home.path());
    }
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

/// Returns the program `bowline` beside this one: `cargo xtask bench` builds both with the same
/// profile.
fn relay_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(format!("bowline{}", std::env::consts::EXE_SUFFIX));
    ensure!(program.is_file(), "{} is not built", program.display());
    Ok(program)
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

/// An empty home folder, removed when dropped.
struct TempHome(PathBuf);

impl TempHome {
    fn create() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("bowline-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempHome {
    fn drop(&mut self) {
        // The relay may still hold a file in it; leftovers are in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
