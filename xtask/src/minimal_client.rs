//! Programs outside of the workspace that use the library as others do, with the features that they
//! choose, and none that a test needs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{shell, workspace::Workspace};

/// A program of one file.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Its dependency on the library that it is written with.
    pub(crate) dependency: String,
    pub(crate) source: &'static str,
}

impl Program {
    /// Writes its package into the folder, with the versions of the workspace's lock file. Returns the
    /// package's folder.
    pub(crate) fn write(&self, workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
        let Self { name, dependency, source } = self;
        let package = folder.join(name);
        fs::create_dir_all(package.join("src"))?;
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\n{dependency}\nserde_json = \"1\"\n\
             tokio = {{ version = \"1\", features = [\"macros\", \"rt\", \"time\"] }}\n"
        );
        fs::write(package.join("Cargo.toml"), manifest)?;
        fs::write(package.join("src/main.rs"), source)?;
        fs::copy(workspace.root().join("Cargo.lock"), package.join("Cargo.lock"))?;
        Ok(package)
    }
}

/// Returns the dependency on the library with the default features.
pub(crate) fn default_dependency(workspace: &Workspace) -> String {
    dependency(workspace, "default-features = true")
}

/// Returns the dependency on the library with one feature and what it needs.
pub(crate) fn feature_dependency(workspace: &Workspace, feature: &str) -> String {
    dependency(workspace, &format!("default-features = false, features = [{feature:?}]"))
}

fn dependency(workspace: &Workspace, features: &str) -> String {
    let library = workspace.root().join("crates/client");
    // As TOML, with what Windows needs escaped.
    let library = serde_json::json!(library.to_string_lossy());
    format!("bowline = {{ path = {library}, {features} }}")
}

/// Counts the packages that are compiled on this platform, the program itself aside.
pub(crate) fn count_crates(workspace: &Workspace, package: &Path) -> Result<usize> {
    let mut cargo = shell::cargo(workspace);
    cargo.args(["tree", "--edges", "normal,build", "--prefix", "none", "--no-dedupe", "--format", "{p}"]);
    let listed = shell::read(cargo.arg("--manifest-path").arg(package.join("Cargo.toml")))?;
    let mut crates: Vec<&str> = listed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    crates.sort_unstable();
    crates.dedup();
    Ok(crates.len() - 1)
}
