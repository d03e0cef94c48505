//! Checks that the library and the crate of fake servers compile with each of their cargo features
//! alone, and with none, that the crates that use the library name the features that they need, that few
//! features mean few crates, and that a transport which was left out is an error which says so.

use anyhow::{Context as _, Result, ensure};

use crate::{
    minimal_client::{self, Program},
    shell,
    workspace::Workspace,
};

/// Compiles each package once for each of its features. All of them together are what the tests compile.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    check_clients(workspace)?;
    for package in PACKAGES {
        check(workspace, package, "")?;
        for feature in list_features(workspace, package)? {
            check(workspace, package, &feature)?;
        }
    }
    for user in USERS {
        let mut cargo = shell::cargo(workspace);
        shell::run(cargo.args(["clippy", "--package", user, "--", "-D", "warnings"]))?;
    }
    Ok(())
}

fn check(workspace: &Workspace, package: &str, feature: &str) -> Result<()> {
    let mut cargo = shell::cargo(workspace);
    cargo.args(["clippy", "--package", package, "--no-default-features", "--features", feature]);
    // A part that is left out must leave no dead code behind.
    shell::run(cargo.args(["--", "-D", "warnings"]))
        .with_context(|| format!("feature {feature:?} of {package}, alone"))
}

/// Counts what programs of others compile, and runs those that lack a transport. The tests of the
/// library itself always have all features.
fn check_clients(workspace: &Workspace) -> Result<()> {
    let folder = workspace.root().join("target/minimal-clients");
    let write = |name, dependency, source| Program { name, dependency, source }.write(workspace, &folder);
    let with = |feature| minimal_client::feature_dependency(workspace, feature);
    let http = write("http-alone", with("http"), CONNECTS_TO_PROCESS)?;
    let stdio = write("stdio-alone", with("stdio"), CONNECTS_TO_URL)?;
    let default = write("default-features", minimal_client::default_dependency(workspace), CONNECTS_TO_URL)?;

    for (package, limit) in [(&http, 100), (&default, 140)] {
        let crates = minimal_client::count_crates(workspace, package)?;
        ensure!(crates <= limit, "{} compiles {crates} crates, more than {limit}", package.display());
    }
    for package in [http, stdio] {
        let mut cargo = shell::cargo(workspace);
        cargo.args(["run", "--quiet", "--manifest-path"]).arg(package.join("Cargo.toml"));
        shell::run(cargo.arg("--target-dir").arg(folder.join("target")))?;
    }
    Ok(())
}

/// Lists the features of a package, but for those that only name others.
fn list_features(workspace: &Workspace, name: &str) -> Result<Vec<String>> {
    let metadata = shell::cargo_metadata(workspace)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == name).context("no such package")?;
    let features = package["features"].as_object().context("no features")?;
    Ok(features.keys().filter(|name| !["default", "full"].contains(&name.as_str())).cloned().collect())
}

/// Packages for the programs of others, with features of their own.
const PACKAGES: [&str; 2] = ["bowline", "bowline-test"];

/// Published packages that use a part of the library. In the whole workspace they have all features,
/// because the command does; compiled alone, they have those of their manifests.
const USERS: [&str; 1] = ["bowline-gateway"];

/// Fails unless the transport is known to be left out.
const CONNECTS_TO_PROCESS: &str = r#"use std::time::Duration;

use bowline::{Cause, Client, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let connecting = Client::connect(Server::stdio("files", "cat"));
    let connected = tokio::time::timeout(Duration::from_secs(60), connecting).await.expect("it ends");
    let error = connected.expect_err("it cannot connect");
    let cause = error.fault().map(|fault| &fault.cause);
    assert!(matches!(cause, Some(Cause::NotBuilt { feature: "stdio", .. })), "{error}");
    println!("{error}");
}
"#;

/// Fails unless the transport is known to be left out.
const CONNECTS_TO_URL: &str = r#"use std::time::Duration;

use bowline::{Cause, Client, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let connecting = Client::connect(Server::http("docs", "http://127.0.0.1:9/mcp"));
    let connected = tokio::time::timeout(Duration::from_secs(60), connecting).await.expect("it ends");
    let error = connected.expect_err("it cannot connect");
    let cause = error.fault().map(|fault| &fault.cause);
    assert!(matches!(cause, Some(Cause::NotBuilt { feature: "http", .. })), "{error}");
    println!("{error}");
}
"#;
