//! Knows the files of a release: which there are, which platform builds each, and which are in the
//! folder of the release already.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{container, debian, formula, metadata::Metadata, npm, tarball, target::Target, wheel};
use crate::{
    checksum::{format_checksums, sha256_hex},
    glob,
};

/// A tarball in the folder of the release.
pub(crate) struct Tarball<'a> {
    pub(crate) target: &'a Target,
    /// In hexadecimal digits.
    pub(crate) sha256: String,
}

/// The folder of a release.
pub(crate) struct ReleaseFolder<'a> {
    metadata: &'a Metadata,
    path: PathBuf,
}

impl<'a> ReleaseFolder<'a> {
    pub(crate) fn create(metadata: &'a Metadata, path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self { metadata, path: path.to_path_buf() })
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        let file = self.path.join(name);
        fs::write(&file, bytes).with_context(|| format!("writing {}", file.display()))
    }

    /// Removes the files that a target's platform builds. A wheel may have another name each time.
    pub(crate) fn remove_files_of(&self, target: &Target) -> Result<()> {
        let groups = self.list()?.into_iter().filter(|group| group.builder == target.triple());
        for name in groups.flat_map(|group| group.present) {
            let file = self.path.join(name);
            fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
        Ok(())
    }

    /// Writes the files that name others: the formula, the container file and the checksums. They
    /// cover what is in the folder.
    pub(crate) fn write_index(&self) -> Result<()> {
        let tarballs = self.find_tarballs()?;
        let mut files: Vec<String> = self.list()?.into_iter().flat_map(|group| group.present).collect();
        let written = [
            (container::FILE_NAME, container::write(self.metadata, &tarballs)),
            (formula::FILE_NAME, formula::write(self.metadata, &tarballs)),
        ];
        for (name, text) in written {
            if let Some(text) = text {
                self.write(name, text)?;
                files.push(name.to_owned());
            }
        }
        files.sort();
        let files: Vec<PathBuf> = files.iter().map(|name| self.path.join(name)).collect();
        self.write(CHECKSUMS, format_checksums(&files)?)
    }

    fn find_tarballs(&self) -> Result<Vec<Tarball<'a>>> {
        let mut found = Vec::new();
        for target in &self.metadata.targets {
            let file = self.path.join(tarball::file_name(self.metadata, target));
            if file.is_file() {
                let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
                found.push(Tarball { target, sha256: sha256_hex(&bytes) });
            }
        }
        Ok(found)
    }

    /// Returns the files of the release, grouped by the platform that builds them.
    fn list(&self) -> Result<Vec<FileGroup>> {
        let entries = fs::read_dir(&self.path).with_context(|| format!("reading {}", self.path.display()))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        let mut groups =
            vec![FileGroup::new("any platform", vec![npm::launcher_file_name(self.metadata)], &names)];
        for target in &self.metadata.targets {
            groups.push(FileGroup::new(target.triple(), list_patterns(self.metadata, target)?, &names));
        }
        Ok(groups)
    }

    /// Returns a text that says which files are there, and which other platforms have to build.
    pub(crate) fn summarize(&self) -> Result<String> {
        let mut text = String::new();
        for FileGroup { builder, present, missing } in self.list()? {
            writeln!(text, "{builder}")?;
            for name in present {
                writeln!(text, "  built    {name}")?;
            }
            for pattern in missing {
                writeln!(text, "  missing  {pattern}")?;
            }
        }
        let tarballs = self.find_tarballs()?;
        let covered: Vec<&str> = tarballs.iter().map(|tarball| tarball.target.triple()).collect();
        writeln!(text, "{}", self.path.join(CHECKSUMS).display())?;
        writeln!(text, "{} and {} name {}", container::FILE_NAME, formula::FILE_NAME, covered.join(", "))?;
        Ok(text)
    }
}

/// The files that one platform builds.
struct FileGroup {
    builder: String,
    /// File names.
    present: Vec<String>,
    /// Patterns, since a part of a wheel's name is known only when it is built.
    missing: Vec<String>,
}

impl FileGroup {
    fn new(builder: &str, patterns: Vec<String>, names: &[String]) -> Self {
        let mut group = Self { builder: builder.to_owned(), present: Vec::new(), missing: Vec::new() };
        for pattern in patterns {
            let found: Vec<String> =
                names.iter().filter(|name| glob::matches(&pattern, name)).cloned().collect();
            if found.is_empty() {
                group.missing.push(pattern);
            }
            group.present.extend(found);
        }
        group
    }
}

/// Returns the name of the SBOM of a platform's program.
pub(crate) fn sbom_name(metadata: &Metadata, target: &Target) -> String {
    format!("{}.cdx.json", tarball::folder_name(metadata, target))
}

/// Returns the names of the files that a target's platform builds, some as patterns.
fn list_patterns(metadata: &Metadata, target: &Target) -> Result<Vec<String>> {
    let mut patterns = vec![
        tarball::file_name(metadata, target),
        sbom_name(metadata, target),
        npm::platform_file_name(metadata, target),
        wheel::file_name(metadata, wheel::platform_pattern(target))?,
    ];
    patterns.extend(debian::file_name(metadata, target));
    Ok(patterns)
}

/// The name of the file of checksums.
pub(crate) const CHECKSUMS: &str = "SHA256SUMS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_other_platforms_have_to_build() {
        let metadata = Metadata::example();
        let folder = tempfile::tempdir().unwrap();
        let files = ReleaseFolder::create(&metadata, folder.path()).unwrap();
        let built = [
            "knot-1.2.3.tgz",
            "bowline-1.2.3-x86_64-unknown-linux-gnu.tar.gz",
            "knot_mcp-1.2.3-py3-none-manylinux_2_34_x86_64.whl",
            // Of an earlier release.
            "knot-1.2.2.tgz",
        ];
        for name in built {
            files.write(name, name).unwrap();
        }
        let summary = files.summarize().unwrap();
        let expected = "\
x86_64-unknown-linux-gnu
  built    bowline-1.2.3-x86_64-unknown-linux-gnu.tar.gz
  built    knot_mcp-1.2.3-py3-none-manylinux_2_34_x86_64.whl
  missing  bowline-1.2.3-x86_64-unknown-linux-gnu.cdx.json
  missing  knot-linux-x64-1.2.3.tgz
  missing  knot_1.2.3_amd64.deb
";
        assert!(
            summary.starts_with("any platform\n  built    knot-1.2.3.tgz\naarch64-apple-darwin\n"),
            "{summary}"
        );
        assert!(summary.contains(expected), "{summary}");
        assert!(summary.contains("  missing  knot_mcp-1.2.3-py3-none-macosx_11_0_arm64.whl\n"), "{summary}");
    }

    #[test]
    fn checksums_cover_the_files_of_this_release_alone() {
        let metadata = Metadata::example();
        let folder = tempfile::tempdir().unwrap();
        let files = ReleaseFolder::create(&metadata, folder.path()).unwrap();
        for name in ["knot-1.2.3.tgz", "knot-1.2.2.tgz", "bowline-1.2.3-x86_64-unknown-linux-gnu.tar.gz"] {
            files.write(name, name).unwrap();
        }
        files.write_index().unwrap();
        let sums = fs::read_to_string(folder.path().join(CHECKSUMS)).unwrap();
        let names: Vec<&str> = sums.lines().filter_map(|line| line.split("  ").nth(1)).collect();
        assert_eq!(
            names,
            [
                "Containerfile",
                "bowline-1.2.3-x86_64-unknown-linux-gnu.tar.gz",
                "bowline.rb",
                "knot-1.2.3.tgz"
            ]
        );
    }
}
