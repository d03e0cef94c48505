//! Makes the wheel of a platform for PyPI.
//!
//! The program is a script of the wheel, so installers put it beside the environment's Python as
//! `bowline`. `uvx NAME` starts the command that has the name of the package, so there is a second
//! command, in Python, which becomes the program.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest;

use super::{
    archive::FileSet,
    contents::Contents,
    elf::Requirements,
    metadata::Metadata,
    target::{Cpu, System, Target},
};

/// Returns the file name of a platform's wheel.
pub(crate) fn file_name(metadata: &Metadata, platform: &str) -> Result<String> {
    Ok(format!("{}-{}-py3-none-{platform}.whl", module(metadata), metadata.python_version()?))
}

/// Returns the platform of the wheel of a target as a pattern: on Linux it depends on the program.
pub(crate) fn platform_pattern(target: &Target) -> &'static str {
    match (target.system, target.cpu) {
        (System::LinuxGnu, Cpu::Aarch64) => "manylinux_2_*_aarch64",
        (System::LinuxGnu, Cpu::X86_64) => "manylinux_2_*_x86_64",
        (System::LinuxMusl, Cpu::Aarch64) => "musllinux_1_2_aarch64",
        (System::LinuxMusl, Cpu::X86_64) => "musllinux_1_2_x86_64",
        (System::MacOs, Cpu::Aarch64) => "macosx_11_0_arm64",
        (System::MacOs, Cpu::X86_64) => "macosx_10_12_x86_64",
        (System::Windows, Cpu::Aarch64) => "win_arm64",
        (System::Windows, Cpu::X86_64) => "win_amd64",
    }
}

/// Returns the platform of the wheel with a program that has these requirements.
pub(crate) fn platform(target: &Target, requirements: &Requirements) -> Result<String> {
    let pattern = platform_pattern(target);
    if target.system != System::LinuxGnu {
        return Ok(pattern.to_owned());
    }
    let Requirements { glibc, libraries } = requirements;
    // Every Linux that the tag stands for has these (PEP 600).
    let foreign: Vec<&String> =
        libraries.iter().filter(|name| !COMMON_LIBRARIES.iter().any(|it| name.starts_with(it))).collect();
    ensure!(foreign.is_empty(), "a wheel may not need the libraries {foreign:?}");
    let (major, minor) = glibc.context("the program needs no version of the GNU C library")?;
    ensure!(major == 2, "the program needs version {major} of the GNU C library, which has no tag");
    Ok(pattern.replace('*', &minor.to_string()))
}

pub(crate) fn build(metadata: &Metadata, target: &Target, contents: &Contents) -> Result<Vec<u8>> {
    let platform = platform(target, &contents.requirements)?;
    let version = metadata.python_version()?;
    let module = module(metadata);
    let information = format!("{module}-{version}.dist-info");

    let mut files = FileSet::default();
    files
        .add_program(format!("{module}-{version}.data/scripts/{}", target.program_name()), &contents.program);
    files.add(format!("{module}/__init__.py"), MODULE.as_bytes());
    files.add(format!("{module}/__main__.py"), format!("from {module} import main\n\nmain()\n").into_bytes());
    files.add(format!("{information}/METADATA"), describe(metadata, &version, contents)?);
    let tag = format!(
        "Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
    );
    files.add(format!("{information}/WHEEL"), tag.into_bytes());
    let commands = format!("[console_scripts]\n{} = {module}:main\n", metadata.pypi_package);
    files.add(format!("{information}/entry_points.txt"), commands.into_bytes());
    files.add(format!("{information}/sboms/bowline.cdx.json"), &contents.sbom);
    contents.add_licenses(&mut files, &format!("{information}/licenses/"));

    let record = format!("{information}/RECORD");
    let lines = list_hashes(&files, &record)?;
    files.add(record, lines);
    files.to_zip()
}

/// Returns the file that describes the package.
fn describe(metadata: &Metadata, version: &str, contents: &Contents) -> Result<Vec<u8>> {
    let Metadata { pypi_package, summary, homepage, license, .. } = metadata;
    let mut text = format!(
        "Metadata-Version: 2.4\nName: {pypi_package}\nVersion: {version}\nSummary: {summary}\n\
         License-Expression: {license}\n"
    );
    for (name, _) in &contents.licenses {
        writeln!(text, "License-File: {name}")?;
    }
    write!(
        text,
        "Project-URL: Homepage, {homepage}\nRequires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n"
    )?;
    let mut text = text.into_bytes();
    text.extend(&contents.readme);
    Ok(text)
}

/// Returns the list of all files with their hashes and sizes, itself with neither.
fn list_hashes(files: &FileSet<'_>, own_path: &str) -> Result<Vec<u8>> {
    let mut lines = String::new();
    for (path, bytes) in files.iter() {
        let hash = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, bytes));
        writeln!(lines, "{path},sha256={hash},{}", bytes.len())?;
    }
    writeln!(lines, "{own_path},,")?;
    Ok(lines.into_bytes())
}

/// Returns the name of the package as files and Python write it.
fn module(metadata: &Metadata) -> String {
    metadata.pypi_package.replace('-', "_")
}

/// Beginnings of the file names of libraries that wheels may need.
const COMMON_LIBRARIES: [&str; 8] = [
    "ld-linux",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
];

/// The module of the package.
const MODULE: &str = include_str!("../../data/dist/bowline_mcp.py");

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read as _};

    use super::*;

    fn read_wheel(wheel: Vec<u8>, name: &str) -> String {
        let mut archive = zip::ZipArchive::new(Cursor::new(wheel)).unwrap();
        let mut text = String::new();
        archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_wheel_for_a_platform_without_versions_has_its_fixed_tag() {
        let metadata = Metadata::example();
        let target = Target::parse("x86_64-pc-windows-msvc").unwrap();
        let wheel = build(&metadata, &target, &Contents::example()).unwrap();
        let tag = read_wheel(wheel.clone(), "knot_mcp-1.2.3.dist-info/WHEEL");
        assert!(tag.ends_with("Tag: py3-none-win_amd64\n"), "{tag}");
        let commands = read_wheel(wheel, "knot_mcp-1.2.3.dist-info/entry_points.txt");
        assert_eq!(commands, "[console_scripts]\nknot-mcp = knot_mcp:main\n");
        let name = file_name(&metadata, &platform(&target, &Requirements::default()).unwrap()).unwrap();
        assert_eq!(name, "knot_mcp-1.2.3-py3-none-win_amd64.whl");
    }

    #[test]
    fn a_wheel_for_linux_says_which_c_library_its_program_needs() {
        let target = Target::parse("x86_64-unknown-linux-gnu").unwrap();
        let mut contents = Contents::example();
        assert_eq!(platform(&target, &contents.requirements).unwrap(), "manylinux_2_34_x86_64");
        contents.requirements.libraries.insert("libdbus-1.so.3".to_owned());
        let error = platform(&target, &contents.requirements).unwrap_err();
        assert_eq!(error.to_string(), r#"a wheel may not need the libraries ["libdbus-1.so.3"]"#);
    }

    #[test]
    fn the_record_of_a_wheel_names_every_file_once() {
        let target = Target::parse("aarch64-apple-darwin").unwrap();
        let wheel = build(&Metadata::example(), &target, &Contents::example()).unwrap();
        let record = read_wheel(wheel.clone(), "knot_mcp-1.2.3.dist-info/RECORD");
        let listed: Vec<&str> = record.lines().map(|line| line.split(',').next().unwrap()).collect();
        let archive = zip::ZipArchive::new(Cursor::new(wheel)).unwrap();
        let mut packed: Vec<_> = archive.file_names().map(Result::unwrap).collect();
        packed.sort_by_key(|name| (name.ends_with("/RECORD"), name.clone()));
        assert_eq!(listed, packed);
        let license = record.lines().find(|line| line.contains("LICENSE-MIT")).unwrap();
        let hash = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, b"MIT"));
        assert!(license.ends_with(&format!("LICENSE-MIT,sha256={hash},3")), "{license}");
        assert!(record.ends_with("RECORD,,\n"), "{record}");
    }
}
