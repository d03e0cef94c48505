//! Compares gateways: what a call, a server, a session and a start cost with `bowline serve` between
//! a host and its servers, beside a proxy that parses nothing (the floor) and other gateways.

mod bars;
mod calls;
pub(crate) mod floor_proxy;
mod http_host;
mod memory;
mod messages;
mod process;
mod recovery;
mod startup;
mod stdio_host;
mod table;
mod way;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use clap::ValueEnum;
use serde_json::json;

use self::calls::CallResults;
use self::memory::{MANY_UPSTREAMS, MemoryResults};
pub(crate) use self::process::connect_command;
use self::startup::StartupResults;
pub(crate) use self::stdio_host::StdioHost;
pub(crate) use self::way::Way;
use crate::job::Limits;
use crate::recovery::LegResult;
use crate::runner::Server;

/// The options of the command line.
pub(crate) struct Options {
    /// Empty means all.
    pub(crate) parts: Vec<Part>,
    pub(crate) rounds: u32,
    /// Whether other gateways take part.
    pub(crate) peers: bool,
    pub(crate) out: Option<PathBuf>,
}

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Latency and throughput of calls.
    Calls,
    /// Memory of the process.
    Memory,
    /// Time from the start of the process to the tool list.
    Startup,
    /// Failed calls when servers go away and come back.
    Recovery,
}

/// What was measured. A part that did not run is `None`.
#[derive(Default)]
struct GatewayReport {
    calls: Option<CallResults>,
    memory: Option<MemoryResults>,
    startup: Option<StartupResults>,
    recovery: Option<Vec<LegResult>>,
}

/// Runs the comparison, prints the tables and writes the JSON.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("warning: not an optimized build; the ratios mean nothing (use --profile dist)");
    }
    let started = Instant::now();
    println!("load of the machine before: {}", load_average());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let wants = |part| options.parts.is_empty() || options.parts.contains(&part);
    let mut report = GatewayReport::default();
    if wants(Part::Recovery) {
        report.recovery = Some(recovery::measure(&runtime, options.peers));
    }
    let (rounds, peers) = (options.rounds, options.peers);
    let parts = [Part::Startup, Part::Memory, Part::Calls].map(wants);
    // On a worker and not on the blocking thread: otherwise every wake-up would cross threads.
    let task = runtime.spawn(async move {
        let server = Server::start(MANY_UPSTREAMS)?;
        let [wants_startup, wants_memory, wants_calls] = parts;
        if wants_startup {
            report.startup = Some(startup::measure(&server).await.context("startup")?);
        }
        if wants_memory {
            report.memory = Some(memory::measure(&server).await.context("memory")?);
        }
        if wants_calls {
            let ways: Vec<Way> =
                Way::OURS.into_iter().chain(Way::PEERS.into_iter().filter(|_| peers)).collect();
            report.calls = Some(calls::measure(&server, &ways, rounds, LIMITS).await.context("calls")?);
        }
        anyhow::Ok(report)
    });
    let report = runtime.block_on(task)??;

    print!("{}", table::render(&report));
    print!("{}", bars::render(&report));
    println!("{rounds} rounds, {:.0} s in all", started.elapsed().as_secs_f64());
    println!("load of the machine after: {}", load_average());
    if let Some(out) = &options.out {
        std::fs::write(out, serde_json::to_vec_pretty(&report.to_json())?)
            .with_context(|| format!("write {}", out.display()))?;
        println!("written to {}", out.display());
    }
    Ok(())
}

impl GatewayReport {
    fn to_json(&self) -> serde_json::Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "cpus": std::thread::available_parallelism().map_or(1, usize::from),
            "calls": self.calls.as_ref().map(CallResults::to_json),
            "memory": self.memory,
            "startup_ms": self.startup,
            "recovery": self.recovery.as_deref().map(crate::recovery::table::to_json),
        })
    }
}

/// Returns the load averages, where the system tells them.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    if words.is_empty() { "unknown".to_owned() } else { words.join(" ") }
}

/// How long one sample takes.
const LIMITS: Limits = Limits { warmup: 0.12, seconds: 0.5, max_calls: 200_000 };
