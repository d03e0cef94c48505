//! Runs the loom models of concurrent code, which are a workspace of their own: their manifest says
//! why.

use anyhow::Result;

use crate::{shell, workspace::Workspace};

/// Lints the package like the main workspace, and runs its models.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let target = workspace.root().join("target/loom");
    let cargo = |args: &[&str]| {
        let mut command = shell::cargo();
        command.args(args).current_dir(workspace.root().join("loom")).env("CARGO_TARGET_DIR", &target);
        shell::run(&mut command)
    };
    cargo(&["clippy", "--locked", "--all-targets", "--", "-D", "warnings"])?;
    cargo(&["test", "--locked"])
}
