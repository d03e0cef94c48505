//! The `bowline` command, and a home folder of its own for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

/// The variable with the path of the command, which is built as it is released.
const PROGRAM_ENV: &str = "BOWLINE_BENCH_PROGRAM";

/// Returns the program `bowline`.
pub(crate) fn bowline_program() -> anyhow::Result<PathBuf> {
    let program = std::env::var_os(PROGRAM_ENV).context("`cargo xtask bench` says where the command is")?;
    let program = PathBuf::from(program);
    ensure!(program.is_file(), "{} is not built", program.display());
    Ok(program)
}

/// Returns the command that starts Node, without a script.
pub(crate) fn node_command() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::var_os(NODE_ENV).with_context(|| format!("{NODE_ENV} is not set"))?))
}

/// The variable with the path of Node.
const NODE_ENV: &str = "BOWLINE_NODE";

/// Returns the command that starts the script of the npm package, which starts the program.
pub(crate) fn npm_command() -> anyhow::Result<Command> {
    let script = std::env::var_os(LAUNCHER_ENV).with_context(|| format!("{LAUNCHER_ENV} is not set"))?;
    let mut command = node_command()?;
    command.arg(script);
    Ok(command)
}

/// The variable with the path of the script of the npm package, beside the package with the program.
const LAUNCHER_ENV: &str = "BOWLINE_BENCH_LAUNCHER";

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
