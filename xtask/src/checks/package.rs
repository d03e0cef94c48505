//! Checks that every package that is published can be, what each one holds, and that the guides name
//! packages with the version that is published ([`doc_versions`]).
//!
//! Nothing is compiled: `cargo publish --workspace --dry-run`, which is a part of a release, does
//! that. The registry is not asked either, because the index of all dependencies is on the disk
//! since they were resolved.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::doc_versions;
use crate::{shell, workspace::Workspace};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let metadata = shell::cargo_metadata(workspace)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let mut published: Vec<&Value> = packages.iter().filter(|package| package["publish"].is_null()).collect();
    published.sort_by_key(|package| package["name"].as_str());
    let names: Vec<&str> = published.iter().filter_map(|package| package["name"].as_str()).collect();
    if names != PUBLISHED {
        bail!("published would be {names:?}, not {PUBLISHED:?}; others need `publish = false`");
    }
    let mut problems: Vec<String> = published.iter().flat_map(|package| find_gaps(package)).collect();
    let version = published.first().and_then(|package| package["version"].as_str());
    problems.extend(doc_versions::check(workspace, version.context("a package has a version")?)?);
    for name in &names {
        let listed = shell::read(cargo_package(workspace, &[name]).arg("--list"))?;
        problems.extend(find_wrong_files(name, &listed));
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    shell::read(cargo_package(workspace, &names).args(["--no-verify", "--offline"]))?;
    eprintln!("{} packages: {}", names.len(), names.join(", "));
    Ok(())
}

fn cargo_package(workspace: &Workspace, names: &[&str]) -> Command {
    let mut cargo = shell::cargo(workspace);
    cargo.args(["package", "--allow-dirty", "--quiet"]);
    for name in names {
        cargo.args(["--package", name]);
    }
    cargo
}

/// Returns what the manifest of a package does not say and the registry or docs.rs shows.
fn find_gaps(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let mut gaps: Vec<String> = REQUIRED_KEYS
        .iter()
        .filter(|key| is_empty(&package[**key]))
        .map(|key| format!("{name}: the manifest has no `{}`", key.replace('_', "-")))
        .collect();
    let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
    let is_library = targets.iter().any(|target| target["kind"][0] == "lib");
    if is_library && package["metadata"]["docs"]["rs"].is_null() {
        gaps.push(format!("{name}: the manifest has no `[package.metadata.docs.rs]`"));
    }
    gaps
}

/// Returns the files that a package lacks, and those that it should not have.
fn find_wrong_files(name: &str, listed: &str) -> Vec<String> {
    let missing = REQUIRED_FILES.iter().filter(|file| listed.lines().all(|line| line != **file));
    let missing = missing.map(|file| format!("{name}: `{file}` is not in the package"));
    let is_known = |line: &str| {
        line.starts_with("src/") || REQUIRED_FILES.contains(&line) || ADDED_BY_CARGO.contains(&line)
    };
    // Windows has other separators.
    let listed = listed.replace('\\', "/");
    let surplus = listed.lines().filter(|line| !is_known(line));
    let surplus = surplus.map(|line| format!("{name}: `{line}` should not be in the package"));
    missing.chain(surplus).collect()
}

/// The packages of a release, by name.
const PUBLISHED: [&str; 12] = [
    "bowline",
    "bowline-auth",
    "bowline-cli",
    "bowline-config",
    "bowline-gateway",
    "bowline-hosts",
    "bowline-proto",
    "bowline-server",
    "bowline-settings",
    "bowline-store",
    "bowline-test",
    "bowline-transport",
];

/// Keys of the manifest, as `cargo metadata` writes them.
const REQUIRED_KEYS: [&str; 6] =
    ["categories", "description", "keywords", "license", "readme", "rust_version"];

const REQUIRED_FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

const ADDED_BY_CARGO: [&str; 3] = [".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml.orig"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_license_and_with_tests_is_reported() {
        let listed = "Cargo.toml\nCargo.lock\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\ntests/it/main.rs\n";
        assert_eq!(
            find_wrong_files("x", listed),
            [
                "x: `LICENSE-APACHE` is not in the package",
                "x: `tests/it/main.rs` should not be in the package"
            ]
        );
    }

    #[test]
    fn an_empty_list_in_a_manifest_counts_as_absent() {
        let package = serde_json::json!({
            "name": "x", "categories": [], "description": "d", "keywords": ["k"], "license": "MIT",
            "readme": "README.md", "rust_version": null, "targets": [{ "kind": ["lib"] }], "metadata": null,
        });
        assert_eq!(
            find_gaps(&package),
            [
                "x: the manifest has no `categories`",
                "x: the manifest has no `rust-version`",
                "x: the manifest has no `[package.metadata.docs.rs]`"
            ]
        );
    }
}
