//! `cargo xtask release`: builds the command as it is released, with what its users need to verify
//! it.
//!
//! cargo-auditable writes the list of the packages that are compiled in into the program itself,
//! where scanners find it. The SBOM beside it says more about each of them; it must contain them
//! all.

mod remapped_paths;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use self::remapped_paths::RemappedPaths;
use crate::{
    checks,
    checksum::format_checksums,
    sbom::{self, Packages},
    shell, tools,
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The profile to build in; another one than `dist` is for trying this command.
    #[arg(long, value_name = "NAME", default_value = "dist")]
    profile: String,
}

/// The program as it is released, and its SBOM.
pub(crate) struct Artifacts {
    pub(crate) program: PathBuf,
    pub(crate) sbom: PathBuf,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let Artifacts { program, sbom } = build_artifacts(workspace, &args.profile)?;
    let sums = workspace.root().join("target/artifacts/SHA256SUMS");
    fs::write(&sums, format_checksums(&[&program, &sbom])?)
        .with_context(|| format!("writing {}", sums.display()))?;
    for file in [&program, &sbom, &sums] {
        println!("{}", workspace.show(file));
    }
    Ok(())
}

/// Checks the dependencies, and builds the program and its SBOM into `target/artifacts`.
pub(crate) fn build_artifacts(workspace: &Workspace, profile: &str) -> Result<Artifacts> {
    checks::deny::run(workspace)?;
    let built = build(workspace, profile)?;

    let folder = workspace.root().join("target/artifacts");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let program = folder.join(format!("bowline{}", std::env::consts::EXE_SUFFIX));
    fs::copy(&built, &program).with_context(|| format!("copying {}", built.display()))?;
    let bill = folder.join("bowline.cdx.json");
    let listed = sbom::write(workspace, &bill)?;

    let compiled_in = read_embedded(workspace, &program)?;
    let missing = find_missing(&compiled_in, &listed);
    ensure!(missing.is_empty(), "the SBOM lacks what is compiled in: {}", missing.join(", "));
    println!("{} packages are compiled in; the SBOM lists {}", compiled_in.len(), listed.len());
    Ok(Artifacts { program, sbom: bill })
}

/// Builds the command with the list of its packages in it; returns the program.
fn build(workspace: &Workspace, profile: &str) -> Result<PathBuf> {
    let remapped = RemappedPaths::of_this_machine(workspace)?;
    // A folder of its own: builds with other flags in the same one would compile everything again each time.
    let target = workspace.root().join("target/release-build");
    let mut command = shell::cargo_plugin(workspace, tools::CARGO_AUDITABLE.ensure(workspace)?);
    command.env("CARGO_ENCODED_RUSTFLAGS", remapped.encoded_rustflags());
    command.args(["auditable", "build", "--locked", "--package", PACKAGE, "--bin", "bowline"]);
    command.args(["--profile", profile, "--target-dir"]).arg(&target);
    shell::run(&mut command)?;
    // The folder of the profile `dev` has another name.
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = target.join(folder).join(format!("bowline{}", std::env::consts::EXE_SUFFIX));
    let bytes = fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
    // With debug information it names the folder in which it was built.
    if profile == "dist"
        && let Some(folder) = remapped.find_in(&bytes)
    {
        bail!("the program names {}, a folder of this machine", folder.display());
    }
    Ok(program)
}

/// Returns the packages in the program's embedded list, without those that only ran during the
/// build.
fn read_embedded(workspace: &Workspace, program: &Path) -> Result<Packages> {
    let mut command = std::process::Command::new(tools::RUST_AUDIT_INFO.ensure(workspace)?);
    let packages = parse_compiled_in(&shell::read(command.arg(program))?)?;
    ensure!(
        packages.iter().any(|(name, _)| name == PACKAGE),
        "the list in {} is not that of {PACKAGE}",
        program.display()
    );
    Ok(packages)
}

fn parse_compiled_in(audit: &str) -> Result<Packages> {
    #[derive(Deserialize)]
    struct Audit {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
        /// Absent for what is compiled in.
        kind: Option<String>,
    }
    let Audit { packages } = serde_json::from_str(audit).context("the list in the program")?;
    let kept = packages.into_iter().filter(|package| package.kind.as_deref() != Some("build"));
    Ok(kept.map(|Package { name, version, .. }| (name, version)).collect())
}

/// Returns the packages that are compiled in and not listed.
fn find_missing(compiled_in: &Packages, listed: &Packages) -> Vec<String> {
    compiled_in.difference(listed).map(|(name, version)| format!("{name} {version}")).collect()
}

/// The package of the command.
const PACKAGE: &str = "bowline-cli";

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(list: &[(&str, &str)]) -> Packages {
        list.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect()
    }

    #[test]
    fn build_dependencies_are_not_compiled_in() {
        let audit = r#"{"packages": [
            {"name": "bowline-cli", "version": "0.1.0", "source": "local", "root": true, "dependencies": [1]},
            {"name": "bytes", "version": "1.12.1", "source": "crates.io"},
            {"name": "cc", "version": "1.2.0", "source": "crates.io", "kind": "build"}
        ]}"#;
        assert_eq!(
            parse_compiled_in(audit).unwrap(),
            packages(&[("bowline-cli", "0.1.0"), ("bytes", "1.12.1")])
        );
    }

    #[test]
    fn a_package_of_another_version_is_missing_from_the_sbom() {
        let compiled_in = packages(&[("bowline-cli", "0.1.0"), ("bytes", "1.12.1"), ("url", "2.5.8")]);
        let listed = packages(&[("bowline-cli", "0.1.0"), ("bytes", "1.12.0"), ("url", "2.5.8")]);
        assert_eq!(find_missing(&compiled_in, &listed), ["bytes 1.12.1"]);
    }
}
