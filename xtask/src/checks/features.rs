//! Checks that the library compiles with each of its cargo features alone, and with none, and that
//! the crates that use it name the features that they need.

use anyhow::{Context as _, Result};

use crate::{shell, workspace::Workspace};

/// Compiles the library once for each feature. All of them together are what the tests compile.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    check(workspace, "")?;
    for feature in list_features(workspace)? {
        check(workspace, &feature)?;
    }
    for user in USERS {
        let mut cargo = shell::cargo(workspace);
        shell::run(cargo.args(["clippy", "--package", user, "--", "-D", "warnings"]))?;
    }
    Ok(())
}

fn check(workspace: &Workspace, feature: &str) -> Result<()> {
    let mut cargo = shell::cargo(workspace);
    cargo.args(["clippy", "--package", PACKAGE, "--no-default-features", "--features", feature]);
    // A part that is left out must leave no dead code behind.
    shell::run(cargo.args(["--", "-D", "warnings"])).with_context(|| format!("feature {feature:?}, alone"))
}

/// Lists the features of the library, but for those that only name others.
fn list_features(workspace: &Workspace) -> Result<Vec<String>> {
    let metadata = shell::cargo_metadata(workspace)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == PACKAGE).context("no library")?;
    let features = package["features"].as_object().context("no features")?;
    Ok(features.keys().filter(|name| !["default", "full"].contains(&name.as_str())).cloned().collect())
}

const PACKAGE: &str = "bowline";

/// Published packages that use a part of the library. In the whole workspace they have all features,
/// because the command does; compiled alone, they have those of their manifests.
const USERS: [&str; 2] = ["bowline-gateway", "bowline-test"];
