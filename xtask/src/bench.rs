//! `cargo xtask bench`: installs the peers and runs the benchmark crate.

use anyhow::Result;

use crate::{
    shell,
    tools::{self, BenchPeers, NodePeers},
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed to the benchmark as they are; `--help` after `--` shows its own.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let node = NodePeers::ensure(workspace)?;
    let peers = BenchPeers::ensure(workspace)?;
    // The benchmark starts the command as well, and looks for it beside itself.
    let mut build = shell::cargo();
    build.args(["build", "--profile", PROFILE, "--package", "bowline-cli"]).current_dir(workspace.root());
    shell::run(&mut build)?;
    let mut cargo = shell::cargo();
    cargo
        .args(["run", "--profile", PROFILE, "--package", "bowline-bench", "--"])
        .args(&args.args)
        .env("BOWLINE_NODE", &node.node)
        .env("BOWLINE_BENCH_NODE_MODULES", &peers.node_modules)
        .env("BOWLINE_BENCH_PYTHON", &peers.python)
        .current_dir(workspace.root());
    if args.args.first().is_some_and(|first| first == RECOVERY) {
        cargo
            .env("BOWLINE_EVERYTHING", node.everything())
            .env("BOWLINE_FASTMCP_PYTHON", tools::ensure_fastmcp_python(workspace)?);
    }
    shell::run(&mut cargo)
}

/// The build profile: as fast as a release where it matters, and minutes faster to link.
const PROFILE: &str = "bench-fast";

/// The subcommand of the benchmark that also needs third-party servers.
const RECOVERY: &str = "recovery";
