//! Makes the Debian package of a platform.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use md5::{Digest as _, Md5};

use super::{
    archive::{FileSet, gzip, write_ar},
    contents::Contents,
    elf::Requirements,
    metadata::Metadata,
    target::Target,
};

/// Returns the file name of the package, if the target is a Debian.
pub(crate) fn file_name(metadata: &Metadata, target: &Target) -> Option<String> {
    let architecture = target.debian_architecture()?;
    Some(format!("{}_{}_{architecture}.deb", metadata.debian_package, metadata.debian_version()))
}

pub(crate) fn build(metadata: &Metadata, target: &Target, contents: &Contents, time: u64) -> Result<Vec<u8>> {
    let files = collect_files(metadata, contents)?;
    let mut control = FileSet::default();
    control.add("control", describe(metadata, target, contents, &files)?.into_bytes());
    control.add("md5sums", list_sums(&files)?.into_bytes());
    let members: [(&str, &[u8]); 3] = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &control.to_tar_gz(time)?),
        ("data.tar.gz", &files.to_tar_gz(time)?),
    ];
    Ok(write_ar(&members, time))
}

/// Returns the files that are installed, by their path without the first `/`.
fn collect_files<'a>(metadata: &Metadata, contents: &'a Contents) -> Result<FileSet<'a>> {
    let mut files = FileSet::default();
    files.add_program("usr/bin/bowline", &contents.program);
    for (name, page) in &contents.manual_pages {
        files.add(format!("usr/share/man/man1/{name}.gz"), gzip(page)?);
    }
    files.add("usr/share/bash-completion/completions/bowline", &contents.bash_completion);
    files.add("usr/share/fish/vendor_completions.d/bowline.fish", &contents.fish_completion);
    files.add("usr/share/zsh/vendor-completions/_bowline", &contents.zsh_completion);
    let documents = format!("usr/share/doc/{}", metadata.debian_package);
    files.add(format!("{documents}/changelog.gz"), gzip(&contents.changelog)?);
    files.add(format!("{documents}/copyright"), write_copyright(metadata, contents)?.into_bytes());
    files.add(format!("{documents}/bowline.cdx.json"), &contents.sbom);
    Ok(files)
}

/// Returns the control file.
fn describe(
    metadata: &Metadata,
    target: &Target,
    contents: &Contents,
    files: &FileSet<'_>,
) -> Result<String> {
    let architecture = target.debian_architecture().context("only Linux with glibc has Debian packages")?;
    let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let Metadata { debian_package, maintainer, homepage, summary, .. } = metadata;
    Ok(format!(
        "Package: {debian_package}\n\
         Version: {}\n\
         Architecture: {architecture}\n\
         Maintainer: {maintainer}\n\
         Installed-Size: {}\n\
         Depends: {}\n\
         Recommends: ca-certificates\n\
         Section: net\n\
         Priority: optional\n\
         Homepage: {homepage}\n\
         Description: {summary}\n \
         A command for MCP servers, a relay that any host can put in front of one,\n \
         and a gateway in front of many.\n",
        metadata.debian_version(),
        bytes.div_ceil(1024),
        list_dependencies(&contents.requirements)?,
    ))
}

/// Returns the packages of Debian that have the libraries that the program needs.
fn list_dependencies(requirements: &Requirements) -> Result<String> {
    let mut packages = Vec::new();
    if let Some((major, minor)) = requirements.glibc {
        packages.push(format!("libc6 (>= {major}.{minor})"));
    }
    for library in &requirements.libraries {
        match library.as_str() {
            "libgcc_s.so.1" => packages.push("libgcc-s1".to_owned()),
            name if GLIBC_LIBRARIES.iter().any(|it| name.starts_with(it)) => {}
            name => bail!("no Debian package is known that has {name}"),
        }
    }
    Ok(packages.join(", "))
}

/// Returns lines in the format of `md5sum --check`.
fn list_sums(files: &FileSet<'_>) -> Result<String> {
    let mut lines = String::new();
    for (path, bytes) in files.iter() {
        for byte in Md5::digest(bytes) {
            write!(lines, "{byte:02x}")?;
        }
        writeln!(lines, "  {path}")?;
    }
    Ok(lines)
}

/// Returns the copyright file, with the whole texts of the licenses.
fn write_copyright(metadata: &Metadata, contents: &Contents) -> Result<String> {
    let license = metadata.license.replace(" OR ", " or ");
    let mut text = COPYRIGHT.replace("@HOMEPAGE@", &metadata.homepage).replace("@LICENSE@", &license);
    for (name, license) in &contents.licenses {
        let (_, id) = LICENSE_IDS.iter().find(|(file, _)| file == name).context("a license without an id")?;
        write!(text, "\nLicense: {id}\n")?;
        for line in String::from_utf8_lossy(license).lines() {
            // A blank line would end the paragraph.
            writeln!(text, " {}", if line.trim().is_empty() { "." } else { line })?;
        }
    }
    Ok(text)
}

/// Beginnings of the file names of libraries in `libc6`.
const GLIBC_LIBRARIES: [&str; 7] =
    ["ld-linux", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1", "libutil.so.1"];

/// SPDX identifiers of the license texts.
const LICENSE_IDS: [(&str, &str); 2] = [("LICENSE-APACHE", "Apache-2.0"), ("LICENSE-MIT", "MIT")];

const COPYRIGHT: &str = include_str!("../../data/dist/copyright");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_the_packages_of_the_libraries() {
        let requirements = |libraries: &[&str]| Requirements {
            glibc: Some((2, 34)),
            libraries: libraries.iter().map(|name| (*name).to_owned()).collect(),
        };
        let usual = requirements(&["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6"]);
        assert_eq!(list_dependencies(&usual).unwrap(), "libc6 (>= 2.34), libgcc-s1");
        let error = list_dependencies(&requirements(&["libdbus-1.so.3"])).unwrap_err();
        assert_eq!(error.to_string(), "no Debian package is known that has libdbus-1.so.3");
    }

    #[test]
    fn sums_are_those_of_md5sum() {
        let mut files = FileSet::default();
        files.add("usr/share/doc/a", &b"abc"[..]);
        assert_eq!(list_sums(&files).unwrap(), "900150983cd24fb0d6963f7d28e17f72  usr/share/doc/a\n");
    }

    #[test]
    fn the_copyright_file_has_the_license_texts_without_blank_lines() {
        let mut contents = Contents::example();
        contents.licenses = vec![("LICENSE-MIT", b"MIT License\n\nPermission".to_vec())];
        let text = write_copyright(&Metadata::example(), &contents).unwrap();
        assert!(text.contains("License: MIT or Apache-2.0\n"), "{text}");
        assert!(text.ends_with("\nLicense: MIT\n MIT License\n .\n Permission\n"), "{text}");
    }

    #[test]
    fn only_linux_with_glibc_has_a_package() {
        let name = |triple| file_name(&Metadata::example(), &Target::parse(triple).unwrap());
        assert_eq!(name("aarch64-unknown-linux-gnu").as_deref(), Some("knot_1.2.3_arm64.deb"));
        assert_eq!(name("x86_64-unknown-linux-musl"), None);
        assert_eq!(name("aarch64-apple-darwin"), None);
    }
}
