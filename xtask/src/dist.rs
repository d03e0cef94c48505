//! `cargo xtask dist`: makes the packages that carry the program.
//!
//! A program always gives the same bytes: archives have sorted entries and the time of the commit.
//! A platform makes its own packages, because a program has to run to print its manual pages. What
//! covers all platforms is written from the files that are in the folder.

mod archive;
mod container;
mod contents;
pub(crate) mod debian;
mod elf;
mod formula;
pub(crate) mod metadata;
pub(crate) mod npm;
pub(crate) mod release_files;
pub(crate) mod tarball;
pub(crate) mod target;
pub(crate) mod wheel;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use self::{
    contents::Contents,
    metadata::Metadata,
    release_files::{ReleaseFolder, sbom_name},
    target::Target,
};
use crate::{build_time, release, sbom, shell, workspace::Workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Package this program instead of building one as `cargo xtask release` does; for trying.
    #[arg(long, value_name = "FILE", conflicts_with = "index_only")]
    program: Option<PathBuf>,
    /// The folder to write to.
    #[arg(long, value_name = "FOLDER", default_value = "target/packages")]
    output: PathBuf,
    /// Build nothing: write the formula, the container file and the checksums again, after files of
    /// other platforms were copied into the folder.
    #[arg(long)]
    index_only: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let metadata = Metadata::read(workspace)?;
    let folder = ReleaseFolder::create(&metadata, &workspace.root().join(&args.output))?;
    if args.index_only {
        folder.write_index()?;
    } else if let Some(program) = &args.program {
        let bill = tempfile::NamedTempFile::new()?;
        sbom::write(workspace, bill.path())?;
        build(workspace, &metadata, &folder, program, bill.path())?;
    } else {
        let release::Artifacts { program, sbom } = release::build_artifacts(workspace, "dist")?;
        build(workspace, &metadata, &folder, &program, &sbom)?;
    }
    print!("{}", folder.summarize()?);
    Ok(())
}

/// Packages a program of this platform into `folder`. Used by the test of the packages, too.
pub(crate) fn build(
    workspace: &Workspace,
    metadata: &Metadata,
    folder: &ReleaseFolder<'_>,
    program: &Path,
    sbom: &Path,
) -> Result<()> {
    let target = Target::parse(&shell::host_triple(workspace)?)?;
    ensure!(metadata.targets.contains(&target), "{target} is not a target in Cargo.toml");
    let contents = Contents::collect(workspace, metadata, &target, program, sbom)?;
    write_packages(metadata, &target, &contents, build_time::read(workspace)?, folder)
}

/// Writes the packages of a target, and the files that name others.
fn write_packages(
    metadata: &Metadata,
    target: &Target,
    contents: &Contents,
    time: u64,
    folder: &ReleaseFolder<'_>,
) -> Result<()> {
    folder.remove_files_of(target)?;
    folder.write(&tarball::file_name(metadata, target), tarball::build(metadata, target, contents, time)?)?;
    folder.write(&sbom_name(metadata, target), &contents.sbom)?;
    folder.write(&npm::launcher_file_name(metadata), npm::build_launcher(metadata, contents, time)?)?;
    let package = npm::build_platform(metadata, target, contents, time)?;
    folder.write(&npm::platform_file_name(metadata, target), package)?;
    let platform = wheel::platform(target, &contents.requirements)?;
    folder.write(&wheel::file_name(metadata, &platform)?, wheel::build(metadata, target, contents)?)?;
    if let Some(name) = debian::file_name(metadata, target) {
        folder.write(&name, debian::build(metadata, target, contents, time)?)?;
    }
    folder.write_index()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use super::*;

    fn read_all(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        entries
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect()
    }

    #[test]
    fn packages_of_one_program_have_the_same_bytes_each_time() {
        let metadata = Metadata::example();
        let target = Target::parse("x86_64-unknown-linux-gnu").unwrap();
        let build = || {
            let folder = tempfile::tempdir().unwrap();
            let files = ReleaseFolder::create(&metadata, folder.path()).unwrap();
            write_packages(&metadata, &target, &Contents::example(), 1_000_000_000, &files).unwrap();
            read_all(folder.path())
        };
        let first = build();
        let kinds: Vec<&str> = first.keys().map(|name| name.rsplit('.').next().unwrap()).collect();
        let expected = ["Containerfile", "SHA256SUMS", "json", "gz", "rb", "tgz", "tgz", "deb", "whl"];
        assert_eq!(kinds, expected, "{:?}", first.keys());
        for (name, bytes) in build() {
            assert!(first[&name] == bytes, "{name} differs");
        }
    }

    #[test]
    fn a_package_of_an_earlier_build_is_replaced() {
        let metadata = Metadata::example();
        let target = Target::parse("x86_64-unknown-linux-gnu").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let files = ReleaseFolder::create(&metadata, folder.path()).unwrap();
        files.write("knot_mcp-1.2.3-py3-none-manylinux_2_1_x86_64.whl", "old").unwrap();
        files.write("knot_mcp-1.2.3-py3-none-macosx_11_0_arm64.whl", "of another platform").unwrap();
        write_packages(&metadata, &target, &Contents::example(), 1_000_000_000, &files).unwrap();
        let names = read_all(folder.path());
        let wheels: Vec<&String> = names.keys().filter(|name| name.starts_with("knot_mcp-")).collect();
        assert_eq!(
            wheels,
            [
                "knot_mcp-1.2.3-py3-none-macosx_11_0_arm64.whl",
                "knot_mcp-1.2.3-py3-none-manylinux_2_34_x86_64.whl"
            ]
        );
    }
}
