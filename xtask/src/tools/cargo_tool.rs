//! Installs programs from crates.io with cargo, each at one version with its own lock file.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::stamp::{Stamp, recreate};
use crate::{shell, workspace::Workspace};

/// A package of crates.io whose program has the name of the package.
pub(super) struct CargoTool {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
}

impl CargoTool {
    /// Builds the pinned version into `.tools/NAME` unless it is there; returns the program.
    pub(super) fn ensure(&self, workspace: &Workspace) -> Result<PathBuf> {
        let Self { name, version } = self;
        let target = workspace.tools().join(name);
        let program = target.join("bin").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        let stamp = Stamp::new(&target, &[], &format!("{name} {version}"))?;
        if stamp.is_current() && program.is_file() {
            return Ok(program);
        }
        recreate(&target)?;
        let mut cargo = shell::cargo();
        cargo.args(["install", name, "--locked", "--version", version, "--root"]).arg(&target);
        cargo.envs(QUICK_BUILD);
        shell::run(&mut cargo).with_context(|| format!("{name} could not be installed"))?;
        stamp.write()?;
        Ok(program)
    }
}

/// A tool runs for seconds, so the minutes that link-time optimization takes are not worth it.
const QUICK_BUILD: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
];
