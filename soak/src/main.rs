//! Random faults under load.
//!
//! Several servers that lose sessions, restart, cut, stall, exit and are killed; several clients that call
//! them all the while. Both sides keep books, and in the end the books must agree: nothing ran twice,
//! nothing was lost without being said, nothing took longer than it may, and nothing was left behind.

mod book;
mod leaks;
mod load;
mod report;
mod trouble;
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;

use crate::leaks::Footprint;
use crate::report::Report;
use crate::world::{Chosen, World};

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
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if (0.05..=1440.0).contains(&minutes) => Ok(minutes),
        _ => Err("a number of minutes, from 0.05 to 1440".to_owned()),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(report) => {
            print!("{report}");
            if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("bowline-soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<Report> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    let lasting = Duration::from_secs_f64(args.minutes * 60.0);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // On a worker: the thread that blocks would count as a task of its own otherwise.
    let chosen = Chosen { seed, only: args.only.clone().unwrap_or_default(), verbose: args.verbose };
    let soak = runtime.spawn(soak(chosen, lasting));
    let report = runtime.block_on(soak).context("the soak itself panicked")?;
    runtime.shutdown_timeout(Duration::from_secs(5));
    report
}

async fn soak(chosen: Chosen, lasting: Duration) -> anyhow::Result<Report> {
    // What is opened once and kept (a resolver, a watchdog) is no leak: one quiet pass opens all of it.
    let warm = World::all(&chosen).await?;
    anyhow::ensure!(!warm.is_empty(), "no world has that in its name");
    for world in warm {
        world.end().await;
    }
    let before = Footprint::settled(&Footprint::QUIET).await;

    let worlds = World::all(&chosen).await?;
    let begun = Instant::now();
    let until = begun + lasting;
    let mut half = None;
    let mut running = Vec::new();
    for world in &worlds {
        running.extend(load::start(world, until));
        running.push(trouble::start(world, until));
    }
    tokio::time::sleep_until((begun + lasting / 2).into()).await;
    half.replace(leaks::resident());
    for task in running {
        task.await.context("a part of the soak panicked")?;
    }
    let full = leaks::resident();

    let mut report = Report::new(chosen.seed, begun.elapsed());
    for world in worlds {
        report.heard(world.works_again().await);
        report.ended(world.end().await);
    }
    report.memory(half.flatten(), full);
    report.left_behind(before, Footprint::settled(&before).await);
    Ok(report)
}
