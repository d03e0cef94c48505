//! Starts what stands between a host and its servers, and waits until it can be connected to.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::http_host::HttpHost;
use crate::command::{TempHome, bowline_program};

/// A running gateway. It is killed when this is dropped.
pub(super) struct GatewayProcess {
    child: Child,
    // Removed after the process has ended.
    home: TempHome,
}

/// Where hosts reach a gateway over HTTP.
#[derive(Clone)]
pub(super) struct HostEndpoint {
    pub(super) url: String,
    pub(super) token: Option<String>,
}

/// A server in a configuration of `bowline serve`.
pub(super) enum Upstream {
    Url(String),
    /// The benchmark server, as a process.
    Stdio,
}

// === impl GatewayProcess ===

impl GatewayProcess {
    /// Starts `bowline serve` over HTTP in front of these servers.
    pub(super) fn serve(home: TempHome, servers: &[Upstream]) -> anyhow::Result<(Self, HostEndpoint)> {
        let mut command = serve_command(&home, servers)?;
        let token_file = home.path().join("token");
        command.args(["--listen", "127.0.0.1:0", "--token-file"]).arg(&token_file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("start bowline serve")?;
        let stderr = child.stderr.take().context("stderr")?;
        let process = Self { child, home };
        let (say, lines) = channel();
        // Read to its end, so that a full pipe never blocks the process.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        let deadline = Instant::now() + START_TIMEOUT;
        let url = loop {
            let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let line = line.context("bowline serve does not say where it listens")?;
            if let Some(url) = line.split_whitespace().find_map(|word| word.strip_suffix("/mcp;")) {
                break format!("{url}/mcp");
            }
        };
        let token = std::fs::read_to_string(&token_file).context("the token")?.trim().to_owned();
        Ok((process, HostEndpoint { url, token: Some(token) }))
    }

    /// Starts another program, which listens at `url`, and waits until it opens sessions.
    pub(super) async fn other(mut command: Command, url: String) -> anyhow::Result<(Self, HostEndpoint)> {
        let home = TempHome::create()?;
        command.envs(home.variables());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Self { child: command.spawn().context("start a gateway")?, home };
        let begun = Instant::now();
        loop {
            match HttpHost::open(&url, None).await {
                Ok(_) => return Ok((process, HostEndpoint { url, token: None })),
                Err(error) => {
                    ensure!(process.child.try_wait()?.is_none(), "the process ended by itself");
                    if begun.elapsed() > START_TIMEOUT {
                        return Err(error.context("it does not open a session"));
                    }
                }
            }
            // Nothing signals when another program listens.
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Starts a part of this program, which prints the address that it listens on.
    pub(super) fn of_this_program(args: &[&str]) -> anyhow::Result<(Self, String)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("start a part of this program")?;
        let stdout = child.stdout.take().context("stdout")?;
        let process = Self { child, home: TempHome::create()? };
        let mut address = String::new();
        BufReader::new(stdout).read_line(&mut address)?;
        Ok((process, address.trim().to_owned()))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process in order, and returns its home folder.
    pub(super) fn stop(mut self) -> anyhow::Result<TempHome> {
        terminate(&mut self.child)?;
        self.child.wait()?;
        Ok(std::mem::replace(&mut self.home, TempHome::create()?))
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a process to end.
#[cfg(unix)]
fn terminate(child: &mut Child) -> anyhow::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(kill_process(pid.context("a process id")?, Signal::TERM)?)
}

/// Ends a process: there is no signal to ask it.
#[cfg(not(unix))]
fn terminate(child: &mut Child) -> anyhow::Result<()> {
    Ok(child.kill()?)
}

/// Returns `bowline serve` on stdin and stdout, in front of these servers.
pub(super) fn serve_stdio_command(home: &TempHome, servers: &[Upstream]) -> anyhow::Result<Command> {
    let help = Command::new(bowline_program()?).args(["serve", "--help"]).output()?;
    let mut command = serve_command(home, servers)?;
    command.arg("--stdio");
    if String::from_utf8_lossy(&help.stdout).contains("--alone") {
        // In this process, and not in one that several hosts share.
        command.arg("--alone");
    }
    Ok(command)
}

/// Returns `bowline connect` in front of a server.
pub(crate) fn connect_command(home: &TempHome, url: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(bowline_program()?);
    command.args(["connect", url]).envs(home.variables());
    Ok(command)
}

/// Returns `bowline serve` with a configuration in its home folder.
fn serve_command(home: &TempHome, servers: &[Upstream]) -> anyhow::Result<Command> {
    let mut text = String::new();
    for (number, server) in servers.iter().enumerate() {
        let _ = writeln!(text, "[servers.bench{number}]");
        match server {
            Upstream::Url(url) => writeln!(text, "url = {url:?}")?,
            Upstream::Stdio => {
                let program = std::env::current_exe()?;
                writeln!(text, "command = {:?}\nargs = [\"serve-stdio\"]", program.display().to_string())?;
            }
        }
    }
    let config = home.path().join("bench.toml");
    std::fs::write(&config, text).context("write the configuration")?;
    let mut command = Command::new(bowline_program()?);
    command.args(["serve", "--config"]).arg(config).envs(home.variables());
    Ok(command)
}

/// Time for an interpreter to start on a loaded machine.
const START_TIMEOUT: Duration = Duration::from_secs(40);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
