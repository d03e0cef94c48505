//! Compares what becomes of calls when the server goes away and comes back.
//!
//! Every client calls a read-only tool fifty times a second, as a host would that does nothing for
//! the connection. Meanwhile a third-party server is killed and restarted, or sessions are lost.
//! Each client reports how each call ended; the figures are computed from that in one place.

pub(crate) mod figures;
pub(crate) mod table;
pub(crate) mod test_server;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use self::figures::{Figures, Outage};
use self::test_server::{ServerKind, TestServer};
use crate::job::{CallLog, Job, SteadyLoad};
use crate::peer::{LaunchCommand, Peer};

/// The options of the command line.
pub(crate) struct Options {
    pub(crate) only: String,
    /// Empty means all.
    pub(crate) peers: Vec<Peer>,
    pub(crate) out: Option<PathBuf>,
}

/// The figures of one client or gateway with one server, or why there are none.
pub(crate) struct LegResult {
    pub(crate) kind: ServerKind,
    /// The name of the client or gateway.
    pub(crate) name: &'static str,
    pub(crate) figures: Result<Figures, String>,
}

/// Runs the comparison, prints the table and writes the JSON.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let kinds: Vec<ServerKind> =
        ServerKind::ALL.into_iter().filter(|kind| kind.name().contains(&options.only)).collect();
    ensure!(!kinds.is_empty(), "no server has that in its name");
    let mut legs = Vec::new();
    for kind in kinds {
        for peer in PEERS {
            if !options.peers.is_empty() && !options.peers.contains(&peer) {
                continue;
            }
            eprintln!("{} with {}", kind.name(), peer.name());
            let figures = run_leg(kind, peer).map_err(|error| format!("{error:#}"));
            legs.push(LegResult { kind, name: peer.name(), figures });
        }
    }
    print!("{}", table::render(&legs));
    if let Some(out) = &options.out {
        let json = serde_json::to_vec_pretty(&table::to_json(&legs))?;
        std::fs::write(out, json).with_context(|| format!("write {}", out.display()))?;
        println!("written to {}", out.display());
    }
    Ok(())
}

/// Runs one client against one server.
fn run_leg(kind: ServerKind, peer: Peer) -> anyhow::Result<Figures> {
    let launch = peer.launch(|name| std::env::var(name).ok()).map_err(anyhow::Error::msg)?;
    let mut subject = TestServer::start(kind)?;
    let job = Job::Steady(SteadyLoad {
        url: subject.url(),
        sse: kind == ServerKind::EverythingSse,
        tool: kind.tool().to_owned(),
        arguments: kind.arguments(),
        every: CALL_INTERVAL_SECS,
        calls: CALL_COUNT,
        limit: CALL_TIMEOUT.as_secs_f64(),
    });
    let mut client = ClientProcess::start(&launch, &serde_json::to_string(&job)?)?;
    ensure!(client.next_line(CONNECT_TIMEOUT)? == "ready", "the client says something else than `ready`");
    let mut outages: Vec<Outage> = Vec::new();
    for pause in kind.pauses() {
        test_server::sleep(*pause);
        outages.extend(subject.inject_fault()?);
    }
    let account =
        client.next_line(LOAD_DURATION + CALL_TIMEOUT + LOAD_SLACK).context("the account of the client")?;
    let account: CallLog = serde_json::from_str(&account).context("the account of the client")?;
    Ok(Figures::from_log(&account, outages, subject.handshakes()))
}

/// A client's process, killed on drop.
struct ClientProcess {
    child: Child,
    lines: Receiver<String>,
    stderr: Receiver<String>,
}

impl ClientProcess {
    fn start(launch: &LaunchCommand, job: &str) -> anyhow::Result<Self> {
        let mut child = launch.start(job).with_context(|| launch.program.display().to_string())?;
        let stdout = child.stdout.take().context("stdout")?;
        let mut stderr = child.stderr.take().context("stderr")?;
        let (line, lines) = channel();
        std::thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The receiver is gone once the leg is over.
                let _ = line.send(text);
            }
        });
        let (complain, complaint) = channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            let _ = complain.send(String::from_utf8_lossy(&text).into_owned());
        });
        Ok(Self { child, lines, stderr: complaint })
    }

    /// Returns the next line of stdout.
    fn next_line(&mut self, within: Duration) -> anyhow::Result<String> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("nothing within {} s", within.as_secs()),
            Err(RecvTimeoutError::Disconnected) => {
                let complaint = self.stderr.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
                bail!("{}", crate::runner::last_sentence(&complaint))
            }
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PEERS: [Peer; 4] = [Peer::Bowline, Peer::Typescript, Peer::Python, Peer::Rmcp];

/// Fifty calls a second, for [`LOAD_DURATION`].
pub(crate) const CALL_INTERVAL_SECS: f64 = 0.02;
pub(crate) const CALL_COUNT: u32 = 500;
const LOAD_DURATION: Duration = Duration::from_secs(10);
/// A call that has not ended after this long counts as failed.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to start an interpreter and to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Additional time for a loaded machine.
const LOAD_SLACK: Duration = Duration::from_secs(15);
