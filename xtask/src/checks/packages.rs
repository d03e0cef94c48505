//! Installs the packages that carry the program into empty folders, and runs the program from each.
//!
//! npm installs from a registry on this machine that has the built files alone, so that `npx` does
//! what it does for a user. The program that is packaged is the one of the profile `release`, which
//! compiles quickly.

mod debian;
mod npm;
mod program;
mod python;
mod server;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use self::{program::Program, server::Server};
use crate::{
    dist::{
        self, debian as debian_package,
        metadata::Metadata,
        npm as npm_package,
        release_files::{CHECKSUMS, ReleaseFolder},
        tarball,
        target::Target,
        wheel,
    },
    glob, sbom, shell, tools,
    workspace::Workspace,
};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let metadata = Metadata::read(workspace)?;
    let triple = shell::host_triple(workspace)?;
    let Some(target) = metadata.targets.iter().find(|target| target.triple() == triple) else {
        eprintln!("not checked: there are no packages for {triple}");
        return Ok(());
    };
    let built = build_program(workspace)?;
    let scratch = tempfile::tempdir()?;
    let packages = build_packages(workspace, &metadata, &built, scratch.path())?;

    let server = Server::start(list_npm_packages(&metadata, target, &packages)?)?;
    let expected = Program::new("the program itself", &built).observe(&server)?;
    ensure!(expected.version == format!("bowline {}\n", metadata.version), "it prints {}", expected.version);

    let node = tools::NodePeers::ensure(workspace)?.node;
    let mut installed = npm::install(&metadata, target, &server, &node, &scratch.path().join("npm"))?;
    let pattern = wheel::file_name(&metadata, wheel::platform_pattern(target))?;
    let wheel = find_file(&packages, &pattern)?;
    installed.extend(python::install(&metadata, target, &wheel, &scratch.path().join("python"))?);
    python::check_uvx(&metadata, &tools::ensure_uvx(workspace)?, &wheel, &scratch.path().join("uv"))?;
    installed.push(unpack_tarball(&metadata, target, &packages, &scratch.path().join("tarball"))?);
    if let Some(name) = debian_package::file_name(&metadata, target) {
        installed.extend(debian::install(&packages.join(name), &scratch.path().join("debian"))?);
    }
    for program in &installed {
        program.check(&server, &expected).with_context(|| format!("the program of {}", program.label))?;
        eprintln!("{}: ok", program.label);
    }
    Ok(())
}

fn build_program(workspace: &Workspace) -> Result<PathBuf> {
    let target = workspace.root().join("target");
    let mut cargo = shell::cargo(workspace);
    cargo.args(["build", "--release", "--locked", "--package", "bowline-cli", "--target-dir"]).arg(&target);
    shell::run(&mut cargo)?;
    Ok(target.join("release").join(format!("bowline{}", std::env::consts::EXE_SUFFIX)))
}

/// Builds the packages twice; returns the folder of one build.
fn build_packages(
    workspace: &Workspace,
    metadata: &Metadata,
    program: &Path,
    scratch: &Path,
) -> Result<PathBuf> {
    let mut sums = Vec::new();
    for name in ["first", "packages"] {
        let bill = scratch.join("bowline.cdx.json");
        sbom::write(workspace, &bill)?;
        let folder = scratch.join(name);
        let release = ReleaseFolder::create(metadata, &folder)?;
        dist::build(workspace, metadata, &release, program, &bill)?;
        sums.push(fs::read_to_string(folder.join(CHECKSUMS))?);
    }
    ensure!(sums[0] == sums[1], "two builds differ:\n{}\n{}", sums[0], sums[1]);
    eprint!("{}", sums[0]);
    Ok(scratch.join("packages"))
}

/// Returns the packages of the registry. Those of other platforms have no content: npm has to see from
/// their manifests that they are not for this one.
fn list_npm_packages(metadata: &Metadata, target: &Target, packages: &Path) -> Result<Vec<server::Package>> {
    let launcher = server::Package {
        manifest: npm_package::launcher_manifest(metadata),
        tarball: fs::read(packages.join(npm_package::launcher_file_name(metadata)))?,
    };
    let mut listed = vec![launcher];
    for other in &metadata.targets {
        let tarball = if other == target {
            fs::read(packages.join(npm_package::platform_file_name(metadata, target)))?
        } else {
            Vec::new()
        };
        listed.push(server::Package { manifest: npm_package::platform_manifest(metadata, other), tarball });
    }
    Ok(listed)
}

fn unpack_tarball(metadata: &Metadata, target: &Target, packages: &Path, folder: &Path) -> Result<Program> {
    fs::create_dir_all(folder)?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(packages.join(tarball::file_name(metadata, target))).arg("-C").arg(folder);
    shell::run(&mut tar)?;
    let folder = folder.join(tarball::folder_name(metadata, target));
    for part in ["share/man/man1/bowline.1", "share/zsh/site-functions/_bowline"] {
        ensure!(folder.join(part).is_file(), "the tarball lacks {part}");
    }
    Ok(Program::new("the tarball", folder.join("bin").join(target.program_name())))
}

/// Returns the one file of a folder whose name fits a pattern.
fn find_file(folder: &Path, pattern: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if glob::matches(pattern, &entry.file_name().to_string_lossy()) {
            return Ok(entry.path());
        }
    }
    anyhow::bail!("{} has no {pattern}", folder.display())
}
