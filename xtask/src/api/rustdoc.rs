//! Makes rustdoc write JSON, which it does only if it takes itself for a nightly.
//!
//! `RUSTC_BOOTSTRAP` in the environment of cargo would compile the dependencies again, because many
//! build scripts watch it. So cargo is given this program in place of rustdoc, and sets it for
//! rustdoc alone.

use std::{
    env,
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::{shell, workspace::Workspace};

/// Documents the libraries of the workspace; returns the folder with a file for each. Hidden items are
/// part of it: a program can use them, so a review has to see them.
///
/// All of them, and not only those that are listed: so they have the features and dependencies that
/// the documentation was built with, and nothing is compiled again.
pub(super) fn document(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = shell::cargo(workspace);
    cargo.args(["doc", "--workspace", "--lib", "--no-deps", "--quiet", "--features", shell::DOC_FEATURES]);
    cargo.env("RUSTDOC", env::current_exe()?).env(REAL_RUSTDOC, find_rustdoc());
    cargo.env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --document-hidden-items");
    shell::run(&mut cargo)?;
    let metadata = shell::cargo_metadata(workspace)?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names the target folder")?;
    Ok(PathBuf::from(target).join("doc"))
}

fn find_rustdoc() -> std::ffi::OsString {
    env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into())
}

/// Runs rustdoc with the arguments of this process, if cargo started it in place of rustdoc.
pub(crate) fn run_as_rustdoc() -> Option<ExitCode> {
    let rustdoc = env::var_os(REAL_RUSTDOC)?;
    let mut command = Command::new(rustdoc);
    let status =
        command.args(env::args_os().skip(1)).env_remove(REAL_RUSTDOC).env("RUSTC_BOOTSTRAP", "1").status();
    let code = status.ok().and_then(|status| u8::try_from(status.code()?).ok());
    Some(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The variable that holds the program to run, and says that this one runs in its place.
const REAL_RUSTDOC: &str = "XTASK_REAL_RUSTDOC";
