//! Installs programs from crates.io with cargo, each at one version with its own lock file.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::stamp::Stamp;
use crate::{shell, workspace::Workspace};

/// A package of crates.io whose program has the name of the package.
pub(crate) struct CargoTool {
    name: &'static str,
    version: &'static str,
}

pub(crate) const CARGO_AUDITABLE: CargoTool = CargoTool { name: "cargo-auditable", version: "0.7.7" };
pub(crate) const CARGO_DENY: CargoTool = CargoTool { name: "cargo-deny", version: "0.20.2" };
/// The list of survivors was made with this version: another one makes other mutants.
pub(crate) const CARGO_MUTANTS: CargoTool = CargoTool { name: "cargo-mutants", version: "27.1.0" };
/// It reads the rustdoc JSON of the compilers of its time, so a newer compiler may need a newer one.
pub(crate) const CARGO_SEMVER_CHECKS: CargoTool =
    CargoTool { name: "cargo-semver-checks", version: "0.51.0" };
pub(crate) const RUST_AUDIT_INFO: CargoTool = CargoTool { name: "rust-audit-info", version: "0.5.4" };

impl CargoTool {
    /// Builds the pinned version into `.tools/NAME` unless it is there; returns the program.
    pub(crate) fn ensure(&self, workspace: &Workspace) -> Result<PathBuf> {
        let Self { name, version } = self;
        let target = workspace.tools().join(name);
        let program = target.join("bin").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        Stamp::new(&target, &[], &format!("{name} {version}"))?.ensure(&program, || {
            let mut cargo = shell::cargo(workspace);
            cargo.args(["install", name, "--locked", "--version", version, "--root"]).arg(&target);
            cargo.envs(QUICK_BUILD);
            shell::run(&mut cargo).with_context(|| format!("{name} could not be installed"))
        })?;
        Ok(program)
    }
}

/// A tool runs for seconds, so the minutes that link-time optimization takes are not worth it.
const QUICK_BUILD: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
];
