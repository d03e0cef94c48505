//! `cargo xtask soak`: runs the soak test, random faults under load.

use std::process::Command;

use anyhow::Result;

use crate::{shell, workspace::Workspace};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Passed to the soak test as they are; `--help` after `--` shows its own.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs both soak tests for as long as the test command does.
pub(crate) fn run_all(workspace: &Workspace) -> Result<()> {
    run(workspace, &Args::default())?;
    run(workspace, &Args { args: vec!["gateway".to_owned()] })
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let program = shell::build_program(workspace, "bowline-soak")?;
    shell::run(Command::new(program).args(&args.args).current_dir(workspace.root()))
}
