//! `cargo xtask bench`: installs the peers and runs the benchmark crate.

mod build;
mod hosts;
mod npm_folders;

use anyhow::Result;

use crate::{
    shell,
    tools::{self, NodePeers},
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed to the benchmark as they are; `--help` after `--` shows its own. `build`, alone or with
    /// `--release`, measures instead what it takes to compile a minimal client; `hosts` counts the right
    /// calls of whole hosts while servers are restarted.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if args.args.first().is_some_and(|first| first == BUILD) {
        return build::run(workspace, args.args.iter().any(|arg| arg == "--release"));
    }
    if args.args.first().is_some_and(|first| first == HOSTS) {
        return hosts::run(workspace);
    }
    let node = NodePeers::ensure(workspace)?;
    // The benchmark starts the command as well.
    let mut build = shell::cargo(workspace);
    shell::run(build.args(["build", "--profile", COMMAND_PROFILE, "--package", "bowline-cli"]))?;
    let program = shell::program_path(workspace, COMMAND_PROFILE, "bowline")?;
    let mut cargo = shell::cargo(workspace);
    cargo
        .args(["run", "--profile", LIBRARY_PROFILE, "--package", "bowline-bench", "--"])
        .args(&args.args)
        .env("BOWLINE_BENCH_PROGRAM", &program)
        .env("BOWLINE_NODE", &node.node)
        .env("BOWLINE_BENCH_NODE_MODULES", tools::ensure_bench_node_modules(workspace)?)
        .env("BOWLINE_BENCH_PYTHON", tools::ensure_bench_python(workspace)?);
    if args.args.first().is_some_and(|first| first == RECOVERY) {
        cargo
            .env("BOWLINE_EVERYTHING", node.everything())
            .env("BOWLINE_FASTMCP_PYTHON", tools::ensure_fastmcp_python(workspace)?);
    }
    if args.args.first().is_some_and(|first| first == GATEWAY || first == VERBS) {
        cargo.env("BOWLINE_GATEWAY_NODE_MODULES", tools::ensure_gateway_node_modules(workspace)?);
    }
    if args.args.first().is_some_and(|first| first == VERBS) {
        let folder = workspace.root().join("target/bench-npm");
        cargo.env("BOWLINE_BENCH_LAUNCHER", npm_folders::create(workspace, &program, &folder)?);
    }
    if args.args.first().is_some_and(|first| first == GATEWAY) {
        cargo
            .env("BOWLINE_GATEWAY_PYTHON", tools::ensure_gateway_python(workspace)?)
            .env("BOWLINE_FASTMCP_PYTHON", tools::ensure_fastmcp_python(workspace)?);
    }
    shell::run(&mut cargo)
}

/// The build profile of the command, which is that of a release.
const COMMAND_PROFILE: &str = "dist";

/// The build profile of the benchmark, with the library and its peers.
const LIBRARY_PROFILE: &str = "measure";

/// The subcommand of the benchmark that also needs third-party servers.
const RECOVERY: &str = "recovery";

/// The subcommand of the benchmark that also needs other gateways.
const GATEWAY: &str = "gateway";

/// The subcommand of the benchmark that measures verbs of the command.
const VERBS: &str = "verbs";

/// The subcommand that compiles minimal clients.
const BUILD: &str = "build";

/// The subcommand that runs whole hosts.
const HOSTS: &str = "hosts";
