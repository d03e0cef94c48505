//! `cargo xtask release`: builds the command as it is released, with what its users need to verify
//! it.
//!
//! cargo-auditable writes the list of the packages that are compiled in into the program itself,
//! where scanners find it. The SBOM beside it says more about each of them; it must contain them
//! all.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use ring::digest;
use serde::Deserialize;

use crate::{
    checks,
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

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    checks::deny::run(workspace)?;
    let built = build(workspace, &args.profile)?;

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

    let sums = folder.join("SHA256SUMS");
    fs::write(&sums, format_checksums(&[&program, &bill])?)
        .with_context(|| format!("writing {}", sums.display()))?;
    for file in [&program, &bill, &sums] {
        println!("{}", workspace.show(file));
    }
    Ok(())
}

/// Builds the command with the list of its packages in it; returns the program.
fn build(workspace: &Workspace, profile: &str) -> Result<PathBuf> {
    let target = workspace.root().join("target");
    let mut command = shell::cargo_plugin(workspace, tools::CARGO_AUDITABLE.ensure(workspace)?);
    command.args(["auditable", "build", "--locked", "--package", PACKAGE, "--bin", "bowline"]);
    command.args(["--profile", profile, "--target-dir"]).arg(&target);
    shell::run(&mut command)?;
    // The folder of the profile `dev` has another name.
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target.join(folder).join(format!("bowline{}", std::env::consts::EXE_SUFFIX)))
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

/// Returns lines in the format of `sha256sum --check`.
fn format_checksums(files: &[&Path]) -> Result<String> {
    let mut lines = String::new();
    for file in files {
        let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        for byte in digest::digest(&digest::SHA256, &bytes).as_ref() {
            write!(lines, "{byte:02x}")?;
        }
        let name = file.file_name().context("a file has a name")?.to_string_lossy();
        writeln!(lines, "  {name}")?;
    }
    Ok(lines)
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

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("abc");
        fs::write(&file, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  abc\n";
        assert_eq!(format_checksums(&[&file]).unwrap(), expected);
    }
}
