//! Soak test: random faults under load.
//!
//! Several servers lose sessions, restart, cut, stall, exit and are killed while several clients
//! call them. The servers, the faults and the ledgers are in this process and the clients in
//! another, so that what is measured there is theirs alone. In the end the ledgers must agree with
//! the servers: nothing ran twice, nothing failed that could be retried, nothing took longer than
//! it may, and no orphaned processes.

mod client;
mod client_process;
mod fault_injector;
mod fault_log;
mod gateway;
mod growth;
mod ledger;
mod limits;
mod memory;
mod messages;
mod processes;
mod report;
mod world;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::{Parser, Subcommand};

use crate::client_process::ClientProcess;
use crate::messages::{Message, Order, Plan};
use crate::report::{Recoveries, Report};
use crate::world::{Selection, World};

#[derive(Parser)]
#[command(about, version)]
struct Args {
    /// How long faults and load go on.
    #[arg(long, default_value_t = 1.0, value_name = "N", value_parser = minutes)]
    minutes: f64,
    /// Chooses the faults and calls; printed with the result. The timing is the machine's.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Only the worlds whose name contains this text, such as `stdio`.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Tell of every fault and every failed call as it happens, on stderr.
    #[arg(long)]
    verbose: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// Many sessions of hosts in front of many servers, through a gateway that is killed in between.
    Gateway(gateway::Args),
    /// The process of that gateway.
    #[command(name = gateway::PROCESS_ROLE, hide = true)]
    GatewayProcess,
    /// The client process, which the soak starts by itself.
    #[command(name = CLIENT_ROLE, hide = true)]
    Client,
}

/// The argument that makes this program the client process.
pub(crate) const CLIENT_ROLE: &str = "client";

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if (0.05..=1440.0).contains(&minutes) => Ok(minutes),
        _ => Err("a number of minutes, from 0.05 to 1440".to_owned()),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let passed = match args.role {
        Some(Role::Client) => client::run().map(|()| true),
        Some(Role::Gateway(args)) => gateway::run(args),
        Some(Role::GatewayProcess) => gateway::run_process().map(|()| true),
        None => run(&args).map(|report| {
            print!("{report}");
            report.passed()
        }),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bowline-soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<Report> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    let run = Duration::from_secs_f64(args.minutes * 60.0);
    let selection = Selection { seed, only: args.only.clone().unwrap_or_default(), verbose: args.verbose };
    tokio::runtime::Runtime::new()?.block_on(soak(selection, run))
}

async fn soak(selection: Selection, run: Duration) -> anyhow::Result<Report> {
    let worlds = World::start_all(&selection).await;
    ensure!(!worlds.is_empty(), "no world has that in its name");
    let plans = worlds.iter().map(World::plan).collect::<anyhow::Result<Vec<_>>>()?;
    let books = worlds.iter().map(|world| Arc::clone(&world.ledger)).collect();
    let mut client = ClientProcess::start(&Plan { worlds: plans, verbose: selection.verbose }, books)?;
    // The first pass without faults reports health too.
    let mut recoveries = vec![Recoveries::default(); worlds.len()];
    loop {
        match client.next().await? {
            Message::Ready => break,
            Message::Health { .. } => {}
            other => bail!("the client process says {other:?} before it is ready"),
        }
    }

    let begun = Instant::now();
    let troubles: Vec<_> = worlds.iter().map(|world| fault_injector::start(world, begun + run)).collect();
    client.send_order(&Order::Load { millis: u64::try_from(run.as_millis())? })?;
    let loaded = client.next().await?;
    ensure!(matches!(loaded, Message::Loaded), "the client process says {loaded:?} instead of its end");
    for trouble in troubles {
        trouble.await.context("the injection of faults panicked")?;
    }

    client.send_order(&Order::Close)?;
    let (before, after) = loop {
        match client.next().await? {
            Message::Health { world, recoveries: count, sessions_lost } => {
                let entry = recoveries.get_mut(world).context("a world of the plan")?;
                *entry = Recoveries { recoveries: count, sessions_lost };
            }
            Message::Closed { before, after } => break (before, after),
            other => bail!("the client process says {other:?} instead of closing"),
        }
    };
    for world in &worlds {
        world.check_closed_clients();
    }

    let mut report = Report::new(selection.seed, run);
    report.check_memory(&client.finish()?);
    report.check_footprint(before, after);
    for (world, recoveries) in worlds.into_iter().zip(recoveries) {
        report.add_world(world.finish().await, recoveries);
    }
    Ok(report)
}
