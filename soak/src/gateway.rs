//! Soak test of the gateway: many sessions of hosts in front of many servers, with faults.
//!
//! The gateway is a process of its own, whose memory is measured, and which is killed and started again
//! during the first half. Hosts and servers are in this process and keep books: every call has a name
//! that nobody else has. In the end nothing was executed twice, no host got the result of another, no
//! harmless call has failed, every session has outlived the kills, and none is left. Before that, many hosts
//! begin a session and vanish.

mod books;
mod hosts;
mod process;
mod servers;
mod vanishing;

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use bowline::Era;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use books::Books;
use process::GatewayProcess;
use servers::Servers;

pub(crate) use process::run as run_process;

/// Settings of the soak test of the gateway.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// How long faults and load go on.
    #[arg(long, default_value_t = 1.0, value_name = "N", value_parser = crate::minutes)]
    minutes: f64,
    /// Hosts. Every other one has a session, as hosts up to 2025-11-25 do.
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=5_000))]
    sessions: u32,
    /// Servers behind the gateway.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    servers: u32,
    /// Hosts that begin a session and vanish, before the rest, in each of two batches; 0 leaves that out.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    vanishing: u32,
    /// Chooses the faults and calls; printed with the result. The timing is the machine's.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

/// The argument that makes this program the gateway.
pub(crate) const PROCESS_ROLE: &str = "gateway-process";

/// Runs the soak test, and prints what came of it.
pub(crate) fn run(args: Args) -> anyhow::Result<bool> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    tokio::runtime::Runtime::new()?.block_on(soak(args, seed))
}

async fn soak(args: Args, seed: u64) -> anyhow::Result<bool> {
    let run = Duration::from_secs_f64(args.minutes * 60.0);
    let left_behind = vanishing::run(args.vanishing).await?;
    let books = Arc::new(Books::default());
    let servers = Arc::new(Servers::start(args.servers, &books).await);
    let folder = process::StateFolder::create()?;
    let mut gateway = GatewayProcess::start(&servers.plan(), &folder).await?;
    let connected = connect_hosts(args.sessions, &gateway.url()).await?;
    let sessions = folder.session_files()?;
    let with_sessions = (0..args.sessions).filter(|number| hosts::era(*number) == Era::Legacy).count();
    ensure!(sessions.len() == with_sessions, "{} of {with_sessions} sessions are recorded", sessions.len());
    let begun = Instant::now();
    let load = hosts::Load { seed, servers: args.servers, end: begun + run };
    let mut hosts = JoinSet::new();
    for host in connected {
        hosts.spawn(host.run(load, Arc::clone(&books)));
    }
    let faults = tokio::spawn(Arc::clone(&servers).inject_faults(Arc::clone(&books), seed, begun + run));
    // Killed during the first half, so that the memory of the second is that of one process.
    let mut kills = 0;
    while begun.elapsed() + KILL_INTERVAL < run / 2 {
        sleep(KILL_INTERVAL).await;
        gateway = gateway.kill_and_restart(&servers.plan(), &folder).await?;
        kills += 1;
    }
    // Those of processes that were killed, which nobody can end.
    servers.drop_sessions();
    sleep((begun + run * 6 / 10).saturating_duration_since(Instant::now())).await;
    let early = gateway.usage();
    sleep((begun + run * 9 / 10).saturating_duration_since(Instant::now())).await;
    let late = gateway.usage();
    let late_sessions = folder.session_files()?;
    let ended = hosts.join_all().await;
    disconnect_hosts(ended).await;
    let injected = faults.await?;
    let sessions_left = folder.wait_for_leftovers().await?;
    ensure!(gateway.stop().await?, "the gateway did not end in good order");
    let mut violations = books.audit();
    violations.extend(servers.wait_for_leftovers().await);
    let lost = sessions.difference(&late_sessions).count();
    let begun_again = late_sessions.difference(&sessions).count();
    if lost + begun_again > 0 {
        violations.push(format!("{lost} sessions were lost, and {begun_again} begun in their place"));
    }
    violations.extend(sessions_left.into_iter().map(|name| format!("the session {name} was not ended")));
    violations.extend(left_behind);
    if let Some((early, late)) = early.zip(late)
        && late.has_grown_since(early)
    {
        violations.push(format!("its memory grew from {} to {} kB", early.memory, late.memory));
    }
    let totals = books.totals();
    if totals.harmless < u64::from(args.sessions) || totals.with_effects < u64::from(args.sessions) {
        violations.push("there were fewer calls of a kind than sessions".to_owned());
    }
    println!("seed {seed}: {} hosts, {} servers, {:.1} s", args.sessions, args.servers, run.as_secs_f64());
    println!("{with_sessions} hosts with a recorded session, the others without");
    println!("{injected} faults of servers, {kills} kills of the gateway");
    println!("{totals}");
    if let Some((early, late)) = early.zip(late) {
        println!("memory of the gateway: {} kB, then {} kB", early.memory, late.memory);
        println!("open files of the gateway: {}, then {}", early.files, late.files);
    }
    for violation in violations.iter().take(MAX_SHOWN_VIOLATIONS) {
        println!("VIOLATION {violation}");
    }
    println!("{}", if violations.is_empty() { "passed" } else { "failed" });
    Ok(violations.is_empty())
}

/// Connects all hosts, some at a time.
async fn connect_hosts(count: u32, url: &str) -> anyhow::Result<Vec<hosts::Host>> {
    let mut connecting = JoinSet::new();
    let mut connected = Vec::new();
    for number in 0..count {
        if connecting.len() >= CONCURRENT_HANDSHAKES
            && let Some(host) = connecting.join_next().await
        {
            connected.push(host??);
        }
        connecting.spawn(hosts::Host::connect(number, url.to_owned()));
    }
    while let Some(host) = connecting.join_next().await {
        connected.push(host??);
    }
    Ok(connected)
}

/// Disconnects all hosts, some at a time: a host that waits for long does not wait for the end of its session.
async fn disconnect_hosts(hosts: Vec<hosts::Host>) {
    let mut leaving = JoinSet::new();
    for host in hosts {
        if leaving.len() >= CONCURRENT_HANDSHAKES {
            leaving.join_next().await;
        }
        leaving.spawn(host.leave());
    }
    leaving.join_all().await;
}

/// How many hosts connect, or leave, at once.
const CONCURRENT_HANDSHAKES: usize = 32;

/// The time between two kills of the gateway.
const KILL_INTERVAL: Duration = Duration::from_secs(10);
/// How many violations are printed.
const MAX_SHOWN_VIOLATIONS: usize = 30;
