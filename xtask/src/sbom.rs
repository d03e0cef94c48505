//! `cargo xtask sbom`: writes the software bill of materials of the command, in CycloneDX JSON.
//!
//! It lists what cargo resolves for a platform: the packages that are compiled in, and those that
//! only run while they are compiled. Nothing in it depends on the machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{build_time, shell, workspace::Workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file to write.
    #[arg(long, value_name = "FILE", default_value = "target/artifacts/bowline.cdx.json")]
    output: PathBuf,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let count = write(workspace, &args.output)?.len();
    println!("{}: {count} packages", workspace.show(&args.output));
    Ok(())
}

/// Packages by name and version.
pub(crate) type Packages = BTreeSet<(String, String)>;

/// Writes the SBOM for this platform; returns the packages in it.
pub(crate) fn write(workspace: &Workspace, output: &Path) -> Result<Packages> {
    let triple = shell::host_triple(workspace)?;
    let mut command = shell::cargo(workspace);
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &triple]);
    let metadata: Metadata = serde_json::from_str(&shell::read(&mut command)?).context("cargo metadata")?;
    let lock = fs::read_to_string(workspace.root().join("Cargo.lock")).context("reading Cargo.lock")?;
    let graph = Graph::new(&metadata, ROOT_PACKAGE)?;
    let checksums = parse_checksums(&lock)?;
    let time = jiff::Timestamp::from_second(build_time::read(workspace)?.try_into()?)?;
    let bill = describe(&graph, &checksums, &triple, &time.to_string());

    if let Some(folder) = output.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let mut text = serde_json::to_string_pretty(&bill)?;
    text.push('\n');
    fs::write(output, text).with_context(|| format!("writing {}", output.display()))?;
    Ok(graph.packages.values().map(|package| (package.name.clone(), package.version.clone())).collect())
}

/// What `cargo metadata` says, as far as it is read.
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
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    /// Absent for packages of the workspace.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `None` for a normal dependency.
    kind: Option<String>,
}

impl Package {
    /// Returns the package URL, which is also its reference within the SBOM.
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }

    fn to_component(&self, kind: &str, checksums: &Checksums) -> Value {
        let mut component = json!({
            "type": kind,
            "bom-ref": self.purl(),
            "name": self.name,
            "version": self.version,
            "purl": self.purl(),
        });
        if let Some(description) = &self.description {
            component["description"] = json!(description.trim());
        }
        if let Some(license) = &self.license {
            // Old manifests have a slash for a choice.
            component["licenses"] =
                json!([{ "expression": license.replace('/', " OR ").replace("  ", " ") }]);
        }
        if let Some(repository) = &self.repository {
            component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
        }
        let of_registry = self.source.is_some();
        if let Some(sum) = checksums.get(&(self.name.clone(), self.version.clone())).filter(|_| of_registry) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        component
    }
}

/// The packages that a package is built from, with itself.
struct Graph<'a> {
    root: &'a str,
    /// By id.
    packages: BTreeMap<&'a str, &'a Package>,
    /// Ids of the packages that each one uses directly, by id.
    dependencies: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Graph<'a> {
    fn new(metadata: &'a Metadata, root: &str) -> Result<Self> {
        let all: BTreeMap<&str, &Package> =
            metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
        let nodes: BTreeMap<&str, &Node> =
            metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let root = metadata.packages.iter().find(|package| package.name == root && package.source.is_none());
        let root = root.context("the workspace has the package of the command")?.id.as_str();

        let mut graph = Self { root, packages: BTreeMap::new(), dependencies: BTreeMap::new() };
        let mut waiting = vec![root];
        while let Some(id) = waiting.pop() {
            let package = all.get(id).with_context(|| format!("cargo metadata does not describe {id}"))?;
            if graph.packages.insert(id, package).is_none() {
                let node = nodes.get(id).with_context(|| format!("cargo metadata does not resolve {id}"))?;
                let used = node.deps.iter().filter(|dependency| dependency.is_used());
                let used: BTreeSet<&str> = used.map(|dependency| dependency.pkg.as_str()).collect();
                waiting.extend(&used);
                graph.dependencies.insert(id, used);
            }
        }
        Ok(graph)
    }
}

impl Dependency {
    /// Whether it is needed to build the package, and not only to test it.
    fn is_used(&self) -> bool {
        self.dep_kinds.iter().any(|it| it.kind.as_deref() != Some("dev"))
    }
}

/// SHA-256 sums of packages of the registry, by name and version.
type Checksums = BTreeMap<(String, String), String>;

fn parse_checksums(lock: &str) -> Result<Checksums> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<LockedPackage>,
    }
    #[derive(Deserialize)]
    struct LockedPackage {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let Lock { package } = toml::from_str(lock).context("Cargo.lock")?;
    let with_sum = |package: LockedPackage| Some(((package.name, package.version), package.checksum?));
    Ok(package.into_iter().filter_map(with_sum).collect())
}

/// Returns the SBOM. `time` is in the format of RFC 3339.
fn describe(graph: &Graph<'_>, checksums: &Checksums, triple: &str, time: &str) -> Value {
    let others = graph.packages.iter().filter(|(id, _)| **id != graph.root);
    let mut components: Vec<Value> =
        others.map(|(_, package)| package.to_component("library", checksums)).collect();
    // Ids contain the folder of the checkout, which may not decide the order.
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let purls = |ids: &BTreeSet<&str>| {
        let mut purls: Vec<String> = ids.iter().map(|id| graph.packages[id].purl()).collect();
        purls.sort();
        purls
    };
    let mut dependencies: Vec<Value> = graph
        .dependencies
        .iter()
        .map(|(id, used)| json!({ "ref": graph.packages[id].purl(), "dependsOn": purls(used) }))
        .collect();
    dependencies.sort_by_key(|dependency| dependency["ref"].to_string());
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": graph.packages[graph.root].to_component("application", checksums),
            "properties": [{ "name": "cdx:rustc:sbom:target:triple", "value": triple }],
        },
        "components": components,
        "dependencies": dependencies,
    })
}

/// The package of the command.
const ROOT_PACKAGE: &str = "bowline-cli";

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that uses one package to run, one to build and one to test.
    fn example() -> Metadata {
        let package = |name: &str, version: &str, source: Option<&str>| {
            let id = format!("path+file:///home/me/{name}#{version}");
            json!({
                "id": id, "name": name, "version": version, "source": source, "license": "MIT/Apache-2.0",
                "description": "A package\n", "repository": null,
            })
        };
        let dependency = |name: &str, version: &str, kind: Option<&str>| json!({ "pkg": format!("path+file:///home/me/{name}#{version}"), "dep_kinds": [{ "kind": kind }] });
        let registry = Some("registry+https://example.test");
        let no_dependencies = |id: &str| json!({ "id": format!("path+file:///home/me/{id}"), "deps": [] });
        let metadata = json!({
            "packages": [
                package("knot-cli", "0.1.0", None),
                package("rope", "1.0.0+spec-2", registry),
                package("cc", "1.2.0", registry),
                package("checker", "3.0.0", registry),
            ],
            "resolve": { "nodes": [
                { "id": "path+file:///home/me/knot-cli#0.1.0", "deps": [
                    dependency("rope", "1.0.0+spec-2", None),
                    dependency("cc", "1.2.0", Some("build")),
                    dependency("checker", "3.0.0", Some("dev")),
                ] },
                no_dependencies("rope#1.0.0+spec-2"),
                no_dependencies("cc#1.2.0"),
                no_dependencies("checker#3.0.0"),
            ] },
        });
        serde_json::from_value(metadata).unwrap()
    }

    #[test]
    fn an_sbom_lists_what_the_command_is_built_from_and_not_its_tests() {
        let metadata = example();
        let graph = Graph::new(&metadata, "knot-cli").unwrap();
        let lock = r#"
            [[package]]
            name = "knot-cli"
            version = "0.1.0"
            [[package]]
            name = "rope"
            version = "1.0.0+spec-2"
            checksum = "5a5a"
        "#;
        let checksums = parse_checksums(lock).unwrap();
        let bill = describe(&graph, &checksums, "x86_64-unknown-linux-gnu", "2026-01-01T00:00:00Z");
        let names: Vec<&Value> =
            bill["components"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["cc", "rope"]);
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/knot-cli@0.1.0");
        assert_eq!(
            bill["components"][1],
            json!({
                "type": "library",
                "bom-ref": "pkg:cargo/rope@1.0.0%2Bspec-2",
                "name": "rope",
                "version": "1.0.0+spec-2",
                "purl": "pkg:cargo/rope@1.0.0%2Bspec-2",
                "description": "A package",
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                "hashes": [{ "alg": "SHA-256", "content": "5a5a" }],
            })
        );
        assert_eq!(
            bill["dependencies"][1],
            json!({
                "ref": "pkg:cargo/knot-cli@0.1.0",
                "dependsOn": ["pkg:cargo/cc@1.2.0", "pkg:cargo/rope@1.0.0%2Bspec-2"],
            })
        );
    }

    #[test]
    fn an_sbom_does_not_name_the_folder_of_the_checkout() {
        let metadata = example();
        let graph = Graph::new(&metadata, "knot-cli").unwrap();
        let bill = describe(&graph, &Checksums::new(), "x86_64-unknown-linux-gnu", "2026-01-01T00:00:00Z");
        assert!(!bill.to_string().contains("/home/me"), "{bill}");
    }
}
