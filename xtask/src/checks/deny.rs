//! Checks dependencies against the rules of `deny.toml` with cargo-deny.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::advisories;
use crate::{shell, tools, workspace::Workspace};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let deny = CargoDeny { root: workspace.root().to_owned(), program: tools::CARGO_DENY.ensure(workspace)? };
    for manifest in Manifest::ALL {
        let mut command = deny.command(manifest, Path::new(RULES));
        // A rule that no longer applies is only a warning, and would stay in the file for ever.
        command.args(["check", "--deny", "warnings"]);
        if manifest != Manifest::Main {
            // An exception of the main workspace need not apply to the others.
            command.args(["--allow", "unused-wrapper"]);
        }
        shell::run(command.args(["bans", "licenses", "sources"]))?;
    }
    advisories::check(workspace, &deny)
}

/// The installed cargo-deny.
pub(super) struct CargoDeny {
    root: PathBuf,
    program: PathBuf,
}

/// A workspace of the checkout, with a lock file of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manifest {
    Main,
    Fuzz,
    Loom,
}

impl CargoDeny {
    /// Returns cargo-deny for the locked dependencies of `manifest`, with the rules of the file
    /// `rules`.
    pub(super) fn command(&self, manifest: Manifest, rules: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--locked", "--manifest-path", manifest.path(), "--config"]).arg(rules);
        command.current_dir(&self.root);
        command
    }
}

impl Manifest {
    pub(super) const ALL: [Self; 3] = [Self::Main, Self::Fuzz, Self::Loom];

    fn path(self) -> &'static str {
        match self {
            Self::Main => "Cargo.toml",
            Self::Fuzz => "fuzz/Cargo.toml",
            Self::Loom => "loom/Cargo.toml",
        }
    }
}

/// The file of rules, in the root of the checkout.
pub(super) const RULES: &str = "deny.toml";
