//! Installs npm packages, and finds the Node that runs them.
//!
//! The conformance suite does not start on Node 20, which many machines still have. npm has Node
//! itself for some platforms as an optional dependency; elsewhere the Node on the PATH has to be
//! new enough.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::stamp::Stamp;
use crate::{shell, workspace::Workspace};

/// Installs `interop/<set>` into `.tools/<set>` unless it is there; returns its `node_modules`.
pub(super) fn ensure(workspace: &Workspace, set: &str) -> Result<PathBuf> {
    let source = workspace.root().join("interop").join(set);
    let target = workspace.tools().join(set);
    let modules = target.join("node_modules");
    let manifests = ["package.json", "package-lock.json", ".npmrc"].map(|name| source.join(name));
    refuse_registry_hosts(&manifests[1])?;
    Stamp::new(&target, &manifests, "npm")?.ensure(&modules, || {
        for manifest in &manifests {
            let name = manifest.file_name().context("a manifest has a name")?;
            fs::copy(manifest, target.join(name))
                .with_context(|| format!("copying {}", workspace.show(manifest)))?;
        }
        let mut npm = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
        // None of the packages' install scripts runs: they are only data until we start them.
        npm.args(["ci", "--ignore-scripts", "--loglevel=error"]).current_dir(&target);
        shell::run(&mut npm).context("npm is needed to install the Node packages of interop/")
    })?;
    Ok(modules)
}

/// Returns the Node to run the packages with.
pub(super) fn find_runtime(modules: &Path) -> Result<PathBuf> {
    let (os, binary) = match env::consts::OS {
        "windows" => ("win", "node.exe"),
        os => (os, "node"),
    };
    let arch = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        arch => arch,
    };
    let pinned = modules.join(format!("node-{os}-{arch}/bin/{binary}"));
    if pinned.is_file() {
        return Ok(pinned);
    }
    let found = shell::read(Command::new("node").arg("--version"));
    let found = found.context("no Node for this platform on npm, and none on the PATH")?;
    match major_version(&found) {
        Some(major) if major >= MIN_NODE_VERSION => Ok(PathBuf::from("node")),
        _ => bail!("Node {MIN_NODE_VERSION} or newer is needed on this platform; the PATH has {found}"),
    }
}

/// Refuses a lock file that names a registry: it would install from there, however npm is
/// configured.
fn refuse_registry_hosts(lock: &Path) -> Result<()> {
    let text = fs::read_to_string(lock).with_context(|| format!("reading {}", lock.display()))?;
    if text.contains("\"resolved\":") {
        bail!(
            "{} names registry hosts; write it again with `npm install --package-lock-only` in its folder",
            lock.display()
        );
    }
    Ok(())
}

fn major_version(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

const MIN_NODE_VERSION: u32 = 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_version_is_read_as_node_prints_it() {
        assert_eq!(major_version("v22.23.3\n"), Some(22));
        assert_eq!(major_version("v8.0.0"), Some(8));
        assert_eq!(major_version("nonsense"), None);
    }

    #[test]
    fn a_lock_file_that_names_a_host_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("package-lock.json");
        fs::write(&lock, r#"{"packages":{"a":{"version":"1.0.0","integrity":"sha512-x"}}}"#).unwrap();
        refuse_registry_hosts(&lock).unwrap();
        fs::write(&lock, r#"{"packages":{"a":{"resolved": "https://example.test/a.tgz"}}}"#).unwrap();
        refuse_registry_hosts(&lock).unwrap_err();
    }
}
