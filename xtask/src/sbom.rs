//! `cargo xtask sbom`: writes the software bill of materials of the command, in CycloneDX JSON,
//! with cargo-cyclonedx.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{shell, tools, workspace::Workspace};

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
    let mut command = shell::cargo_plugin(workspace, tools::CARGO_CYCLONEDX.ensure(workspace)?);
    command.args(["cyclonedx", "--format", "json", "--spec-version", "1.5"]);
    command.args(["--target", &shell::host_triple(workspace)?, "--override-filename", SBOM_FILE_STEM]);
    command.args(["--manifest-path", "crates/cli/Cargo.toml"]);
    // Equal commits give equal files.
    let mut git = std::process::Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(workspace.root());
    if let Ok(time) = shell::read(&mut git) {
        command.env("SOURCE_DATE_EPOCH", time.trim());
    }
    let written = shell::run(&mut command);
    let text = collect(workspace);
    written?;
    let text = text?.context("cargo-cyclonedx wrote nothing for the command")?;
    let text = strip_checkout(&text, &workspace.root().to_string_lossy());
    let packages = parse_packages(&text)?;
    if let Some(folder) = output.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    fs::write(output, text).with_context(|| format!("writing {}", output.display()))?;
    Ok(packages)
}

/// Removes what cargo-cyclonedx wrote into the checkout, a file beside the manifest of every
/// package; returns that of the command.
fn collect(workspace: &Workspace) -> Result<Option<String>> {
    let mut found = None;
    for file in workspace.files("")? {
        if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SBOM_FILE_STEM)) {
            if file.starts_with(workspace.root().join("crates/cli")) {
                found = Some(fs::read_to_string(&file)?);
            }
            fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
    }
    Ok(found)
}

/// Removes the folder of the checkout from the ids of our own packages: it is private, and differs
/// between machines.
fn strip_checkout(sbom: &str, root: &str) -> String {
    let root = root.replace('\\', "/");
    sbom.replace(&format!("path+file:///{}/", root.trim_start_matches('/')), "path+file:///bowline/")
}

fn parse_packages(sbom: &str) -> Result<Packages> {
    #[derive(Deserialize)]
    struct Sbom {
        metadata: Metadata,
        components: Vec<Component>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        component: Component,
    }
    #[derive(Deserialize)]
    struct Component {
        name: String,
        version: String,
    }
    let Sbom { metadata, components } = serde_json::from_str(sbom).context("the SBOM of cargo-cyclonedx")?;
    let all = components.into_iter().chain([metadata.component]);
    Ok(all.map(|Component { name, version }| (name, version)).collect())
}

/// Stem of the written files; no file of the checkout begins with it.
const SBOM_FILE_STEM: &str = "xtask-sbom-of-bowline";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sbom_does_not_name_the_folder_of_the_checkout() {
        let text =
            |folder| format!(r#"{{"bom-ref": "path+file:///{folder}/crates/store#bowline-store@0.1.0"}}"#);
        assert_eq!(strip_checkout(&text("home/me/src"), "/home/me/src"), text("bowline"));
        assert_eq!(strip_checkout(&text("C:/src"), r"C:\src"), text("bowline"));
    }

    #[test]
    fn packages_of_an_sbom_include_the_command() {
        let sbom = r#"{
            "bomFormat": "CycloneDX",
            "metadata": {"component": {"type": "application", "name": "bowline-cli", "version": "0.1.0"}},
            "components": [{"type": "library", "name": "bytes", "version": "1.12.1", "purl": "pkg:cargo/bytes@1.12.1"}]
        }"#;
        let expected = [("bowline-cli", "0.1.0"), ("bytes", "1.12.1")];
        let expected = expected.map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(parse_packages(sbom).unwrap(), expected.into());
    }
}
