//! Checks that `proto` and `config` can do no I/O: they depend on no runtime or socket library, and
//! they build for a platform that has neither clock, files nor network.
//!
//! What their own code may call is up to Clippy, by the `clippy.toml` of each. The length check runs
//! here too, as the other rule about source.

use std::process::Command;

use anyhow::{Result, bail};

use super::length;
use crate::{shell, workspace::Workspace};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut problems = Vec::new();
    for package in PURE {
        problems.extend(impure_dependencies(workspace, package)?);
    }
    problems.extend(length::find_long_files(workspace)?);
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    build_for_wasm(workspace)
}

fn impure_dependencies(workspace: &Workspace, package: &str) -> Result<Vec<String>> {
    let mut command = shell::cargo(workspace);
    // On every platform: a runtime that only Windows pulls in is still a runtime.
    command
        .args(["tree", "--package", package, "--edges", "normal", "--target", "all"])
        .args(["--prefix", "none", "--format", "{p}"]);
    let tree = shell::read(&mut command)?;
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<&str> = names.filter(|name| RUNTIMES.contains(name)).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found.iter().map(|name| format!("{package} depends on {name}, which does I/O")).collect())
}

/// Checks the packages for WebAssembly without a host, unless the target cannot be installed here:
/// a toolchain of a distribution has no rustup, and a machine may be offline.
fn build_for_wasm(workspace: &Workspace) -> Result<()> {
    let install = shell::read(Command::new("rustup").args(["target", "add", WASM]));
    if let Err(error) = install {
        eprintln!("wasm: not checked: {WASM} cannot be installed ({error:#})");
        return Ok(());
    }
    let mut command = shell::cargo(workspace);
    command.args(["check", "--target", WASM]);
    for package in PURE {
        command.args(["--package", package]);
    }
    shell::run(&mut command)
}

const PURE: &[&str] = &["bowline-proto", "bowline-config"];

const RUNTIMES: &[&str] = &["async-std", "hyper", "hyper-util", "mio", "reqwest", "smol", "socket2", "tokio"];

const WASM: &str = "wasm32-unknown-unknown";
