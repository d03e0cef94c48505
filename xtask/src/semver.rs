//! `cargo xtask semver`: whether the library changed in a way that breaks programs that use it.
//!
//! cargo-semver-checks compares the crates that are used from outside with an earlier commit. It
//! does not see what they re-export from the other crates; the listings of `cargo xtask api` show
//! that.

use anyhow::Result;

use crate::{shell, tools, workspace::Workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The commit, branch or tag to compare with, such as that of the last release.
    #[arg(long, value_name = "REV")]
    baseline: String,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let program = tools::CARGO_SEMVER_CHECKS.ensure(workspace)?;
    let mut command = shell::cargo_plugin(workspace, program);
    command.args(["semver-checks", "--baseline-rev", &args.baseline]);
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    shell::run(&mut command)
}

/// The packages whose interfaces are promises. The others are required in exactly one version.
const PACKAGES: [&str; 2] = ["bowline", "bowline-test"];
