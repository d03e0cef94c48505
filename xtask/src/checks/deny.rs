//! What dependencies may be: their licences, their sources, and which are banned.
//!
//! cargo-deny does this where it is installed. Building it takes many minutes on a small machine, so without it
//! the rules of `deny.toml` that this project uses are checked here, over `cargo metadata`.

use std::{collections::HashMap, fs};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::licence;
use crate::{shell, tree::Workspace};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut command = shell::cargo();
    command.current_dir(workspace.root());
    if shell::is_installed("cargo-deny") {
        return shell::run(command.args(["deny", "check", "bans", "licenses", "sources"]));
    }
    eprintln!("cargo-deny is not installed: checking licences, bans and sources of deny.toml without it");
    let text = fs::read_to_string(workspace.root().join("deny.toml")).context("reading deny.toml")?;
    let rules: Rules = toml::from_str(&text).context("deny.toml")?;
    // Locked: a lock file that lags behind the manifests is not what would be checked elsewhere.
    command.args(["metadata", "--format-version", "1", "--locked", "--all-features"]);
    let metadata: Metadata = serde_json::from_str(&shell::read(&mut command)?)?;
    let problems = rules.problems(&metadata);
    eprintln!("{} packages looked at", metadata.packages.len());
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

/// The part of `deny.toml` that is checked here; cargo-deny knows more.
#[derive(Deserialize)]
struct Rules {
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    /// Packages that may depend on it all the same.
    #[serde(default)]
    wrappers: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

// === impl Rules ===

impl Rules {
    fn problems(&self, metadata: &Metadata) -> Vec<String> {
        let mut problems = Vec::new();
        for package in &metadata.packages {
            let shown = format!("{} {}", package.name, package.version);
            match &package.license {
                Some(licence) if licence::is_met(licence, &self.licenses.allow) => {}
                Some(licence) => problems.push(format!("{shown}: licence `{licence}` is not allowed")),
                None => problems.push(format!("{shown}: states no licence")),
            }
            // No source means a path in this workspace.
            if let Some(source) = package.source.as_deref().filter(|source| !is_crates_io(source)) {
                problems.push(format!("{shown}: comes from {source}, not from crates.io"));
            }
        }
        problems.extend(self.banned(metadata));
        problems
    }

    fn banned(&self, metadata: &Metadata) -> Vec<String> {
        let names: HashMap<&str, &str> =
            metadata.packages.iter().map(|package| (&*package.id, &*package.name)).collect();
        let name = |id: &str| names.get(id).copied().unwrap_or_default();
        let mut problems = Vec::new();
        for node in &metadata.resolve.nodes {
            for dependency in &node.dependencies {
                let ban = self.bans.deny.iter().find(|ban| ban.name == name(dependency));
                let parent = name(&node.id);
                if let Some(ban) = ban.filter(|ban| !ban.wrappers.iter().any(|it| it == parent)) {
                    problems.push(format!("{parent} depends on {}: {}", ban.name, ban.reason));
                }
            }
        }
        problems
    }
}

fn is_crates_io(source: &str) -> bool {
    source.starts_with("registry+") && source.ends_with("/crates.io-index")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        toml::from_str(
            r#"
            [licenses]
            allow = ["MIT"]
            [bans]
            deny = [
              { crate = "openssl", reason = "rustls" },
              { crate = "reqwest", wrappers = ["rmcp"], reason = "hyper" },
            ]
            "#,
        )
        .unwrap()
    }

    fn package(name: &str, license: Option<&str>, source: Option<&str>) -> Package {
        Package {
            id: name.to_owned(),
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            source: source.map(str::to_owned),
        }
    }

    fn problems(packages: Vec<Package>, edges: &[(&str, &str)]) -> Vec<String> {
        let node =
            |(from, to): &(&str, &str)| Node { id: (*from).to_owned(), dependencies: vec![(*to).to_owned()] };
        let nodes = edges.iter().map(node).collect();
        rules().problems(&Metadata { packages, resolve: Resolve { nodes } })
    }

    #[test]
    fn licence_and_source_are_judged_per_package() {
        let index = Some("registry+https://host.test/crates.io-index");
        let git = Some("git+https://host.test/repo#abc");
        assert!(
            problems(vec![package("a", Some("MIT"), index), package("b", Some("MIT"), None)], &[]).is_empty()
        );
        let found = problems(
            vec![
                package("a", Some("GPL-3.0"), index),
                package("b", None, None),
                package("c", Some("MIT"), git),
            ],
            &[],
        );
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn a_ban_spares_its_wrappers_only() {
        let named = |name| package(name, Some("MIT"), None);
        let packages = || vec![named("app"), named("rmcp"), named("reqwest"), named("openssl")];
        assert!(problems(packages(), &[("rmcp", "reqwest")]).is_empty());
        let found = problems(packages(), &[("app", "reqwest"), ("rmcp", "openssl")]);
        assert_eq!(found, ["app depends on reqwest: hyper", "rmcp depends on openssl: rustls"]);
    }
}
