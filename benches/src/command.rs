//! The `bowline` command beside this program, and a home folder of its own for it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

/// Returns the program `bowline` beside this one: `cargo xtask bench` builds both with the same
/// profile.
pub(crate) fn bowline_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(format!("bowline{}", std::env::consts::EXE_SUFFIX));
    ensure!(program.is_file(), "{} is not built", program.display());
    Ok(program)
}

/// An empty home folder, removed when dropped. It keeps a command away from the files and settings of
/// the person who runs this.
pub(crate) struct TempHome(TempDir);

impl TempHome {
    pub(crate) fn create() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("bowline-bench-").tempdir();
        Ok(Self(folder.context("create a home folder")?))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the variables that name the folder.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        HOME_VARIABLES.into_iter().map(|name| (name, self.path()))
    }
}

const HOME_VARIABLES: [&str; 6] =
    ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"];
