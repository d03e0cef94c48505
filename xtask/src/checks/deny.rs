//! Checks dependencies against the rules of `deny.toml` with cargo-deny.
//!
//! The database of advisories is fetched by itself first: a machine that cannot reach GitHub has
//! learned nothing about a dependency, so that check is reported as not made, and passes.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{
    shell::{self, CommandEnd},
    tools,
    workspace::Workspace,
};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let program = tools::CARGO_DENY.ensure(workspace)?;
    for manifest in MANIFESTS {
        let mut command = cargo_deny(workspace, &program, manifest);
        // A rule that no longer applies is only a warning, and would stay in the file for ever.
        command.args(["check", "--deny", "warnings"]);
        if manifest != MANIFESTS[0] {
            // An exception of the main workspace need not apply to the others.
            command.args(["--allow", "unused-wrapper"]);
        }
        shell::run(command.args(["bans", "licenses", "sources"]))?;
    }
    if !fetch_advisories(cargo_deny(workspace, &program, MANIFESTS[0]))? {
        eprintln!("advisories: not checked: offline");
        return Ok(());
    }
    for manifest in MANIFESTS {
        let mut command = cargo_deny(workspace, &program, manifest);
        shell::run(command.args(["--offline", "check", "advisories"]))?;
    }
    Ok(())
}

/// Returns cargo-deny for the locked dependencies of `manifest`.
fn cargo_deny(workspace: &Workspace, program: &Path, manifest: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--locked", "--manifest-path", manifest, "--config", "deny.toml"]);
    command.current_dir(workspace.root());
    command
}

/// Updates the database; returns whether that succeeded.
fn fetch_advisories(mut command: Command) -> Result<bool> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    // cargo-deny resets what it takes for its clone: a broken one must not lead git to a repository
    // above it.
    let ceiling = home.context("no home folder is known")?.join("advisory-dbs");
    command.args(["fetch", "db"]).env("GIT_CEILING_DIRECTORIES", ceiling).env("GIT_TERMINAL_PROMPT", "0");
    // Ends a stalled transfer while git can still clean up after itself.
    command.env("GIT_HTTP_LOW_SPEED_LIMIT", "1000").env("GIT_HTTP_LOW_SPEED_TIME", "20");
    let end = shell::run_with_timeout(&mut command, FETCH_TIMEOUT)?;
    Ok(matches!(end, CommandEnd::Exited(status) if status.success()))
}

/// The workspaces of the checkout, each with a lock file of its own.
const MANIFESTS: [&str; 3] = ["Cargo.toml", "fuzz/Cargo.toml", "loom/Cargo.toml"];

/// Time limit of a fetch; the clone is a few megabytes.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
