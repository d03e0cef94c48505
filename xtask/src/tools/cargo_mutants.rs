//! cargo-mutants, which changes the code and runs the tests to see whether they notice.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::stamp::{Stamp, recreate};
use crate::{shell, tree::Workspace};

/// Builds the pinned version into `.tools/cargo-mutants` if it is not there yet; gives the program.
pub(super) fn ensure(workspace: &Workspace) -> Result<PathBuf> {
    let target = workspace.tools().join("cargo-mutants");
    let program = target.join("bin").join(format!("cargo-mutants{}", std::env::consts::EXE_SUFFIX));
    let stamp = Stamp::new(&target, &[], &format!("cargo-mutants {VERSION}"))?;
    if stamp.is_current() && program.is_file() {
        return Ok(program);
    }
    recreate(&target)?;
    let mut cargo = shell::cargo();
    cargo.args(["install", "cargo-mutants", "--locked", "--version", VERSION, "--root"]).arg(&target);
    shell::run(&mut cargo).context("cargo-mutants could not be installed")?;
    stamp.write()?;
    Ok(program)
}

/// The version that the list of survivors was made with: another one makes other mutants.
const VERSION: &str = "27.1.0";
