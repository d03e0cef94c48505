//! Reads the time that files of a release have.

use std::{env, process::Command};

use anyhow::{Context, Result};

use crate::{shell, workspace::Workspace};

/// Returns the time of a build, in seconds since 1970: `SOURCE_DATE_EPOCH`, or the time of the commit.
/// Equal commits give equal files.
pub(crate) fn read(workspace: &Workspace) -> Result<u64> {
    let text = if let Ok(text) = env::var("SOURCE_DATE_EPOCH") {
        text
    } else {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%ct"]).current_dir(workspace.root());
        shell::read(&mut git).context("set SOURCE_DATE_EPOCH where there is no git history")?
    };
    text.trim().parse().with_context(|| format!("`{}` is not a time in seconds since 1970", text.trim()))
}
