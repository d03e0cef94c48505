//! `cargo xtask soak`: runs the soak test, random faults under load.

use anyhow::Result;

use crate::{shell, workspace::Workspace};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Passed to the soak test as they are; `--help` after `--` shows its own.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    shell::run(shell::cargo(workspace).args(["run", "--package", "bowline-soak", "--"]).args(&args.args))
}
