//! Side-by-side benchmarks of MCP clients.
//!
//! One binary plays every Rust part. Without a subcommand it is the runner: it starts the server,
//! then runs every client ("leg") in a process of its own, round after round, and prints how each
//! compares with a raw loop (the "floor") measured in the same round. `recovery` compares something
//! else: what becomes of calls when the server goes away and comes back. `gateway` compares ways from
//! a host to a server, `verbs` measures the command. The other subcommands are the parts that these start.

mod client;
mod command;
mod gateway;
mod goals;
mod job;
mod measure;
mod peer;
mod recovery;
mod report;
mod runner;
mod scenario;
mod server;
mod table;
mod verbs;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::peer::Peer;

#[derive(Parser)]
#[command(about, version)]
struct Args {
    /// Finish in about two minutes: fewer scenarios, shorter samples.
    #[arg(long)]
    quick: bool,
    /// Run only the scenarios whose name contains this text, such as `http-json` or `1MB/64`.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Run only these clients (the floor always runs), separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    peers: Vec<Peer>,
    /// Rounds to run, instead of the usual number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Where to write the result as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(subcommand)]
    role: Option<Role>,
}

/// Another comparison, and the parts that are started.
#[derive(Subcommand)]
enum Role {
    /// Kill and restart servers, and lose sessions, during a steady stream of calls.
    Recovery {
        /// Only the servers whose name contains this text, such as `everything`.
        #[arg(long, value_name = "PATTERN")]
        only: Option<String>,
        /// Only these clients, separated by commas.
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        peers: Vec<Peer>,
        /// Where to write the result as JSON.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Measure what it costs to put a gateway between a host and its servers.
    Gateway {
        /// Only these parts, separated by commas.
        #[arg(long, value_name = "PARTS", value_delimiter = ',')]
        only: Vec<gateway::Part>,
        /// Rounds of calls.
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Leave out other gateways, some of which are slow to start.
        #[arg(long)]
        no_peers: bool,
        /// Where to write the result as JSON.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Measure verbs of the command that a person waits for.
    Verbs,
    /// Forward HTTP to this address until stdin closes, and parse nothing; prints its own address.
    Proxy {
        /// The address of the server.
        upstream: SocketAddr,
    },
    /// Serve MCP with rmcp over HTTP on this port; prints a line per handshake.
    ServeRmcp {
        /// The port.
        port: u16,
    },
    /// Serve MCP over HTTP on loopback ports until stdin closes; prints one origin per line.
    ServeHttp {
        /// How many ports to listen on.
        #[arg(long, default_value_t = 1)]
        ports: usize,
    },
    /// Serve MCP over stdin and stdout.
    ServeStdio,
    /// Run one job with one client and print the sample as a line of JSON.
    Client {
        /// Which client.
        peer: Peer,
        /// What to do, as JSON.
        job: String,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match args.role {
        Some(Role::ServeHttp { ports }) => server::http::serve(ports),
        Some(Role::ServeStdio) => server::stdio::serve(),
        Some(Role::ServeRmcp { port }) => server::rmcp::serve(port),
        Some(Role::Recovery { only, peers, out }) => {
            recovery::run(&recovery::Options { only: only.unwrap_or_default(), peers, out })
        }
        Some(Role::Gateway { only, rounds, no_peers, out }) => {
            gateway::run(&gateway::Options { parts: only, rounds, peers: !no_peers, out })
        }
        Some(Role::Verbs) => verbs::run(),
        Some(Role::Proxy { upstream }) => gateway::floor_proxy::serve(upstream),
        Some(Role::Client { peer, job }) => client::run(peer, &job),
        None => runner::run(&runner::Options {
            quick: args.quick,
            only: args.only,
            peers: args.peers,
            rounds: args.rounds,
            out: args.out,
        }),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bowline-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
