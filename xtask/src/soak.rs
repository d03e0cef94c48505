//! `cargo xtask soak`: runs the soak test, random faults under load.

use anyhow::Result;

use crate::{shell, workspace::Workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long faults and load go on.
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    minutes: f64,
    /// Seed of the faults and calls, to repeat those of an earlier run.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Only the worlds whose name contains this text, such as `stdio`.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
}

impl Default for Args {
    /// Short, because everyone who runs all checks waits for it.
    fn default() -> Self {
        Self { minutes: 1.0, seed: None, only: None }
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut cargo = shell::cargo();
    cargo.args(["run", "--package", "bowline-soak", "--", "--minutes", &args.minutes.to_string()]);
    if let Some(seed) = args.seed {
        cargo.args(["--seed", &seed.to_string()]);
    }
    if let Some(only) = &args.only {
        cargo.args(["--only", only]);
    }
    shell::run(cargo.current_dir(workspace.root()))
}
