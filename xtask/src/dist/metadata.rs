//! Reads what packages are called, and their version, from the manifest of the workspace.

use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::target::Target;
use crate::workspace::Workspace;

/// Names of the packages, and what each one says about the program.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Metadata {
    /// The version of the workspace, as cargo writes it.
    #[serde(skip)]
    pub(crate) version: String,
    /// The license of the workspace, as an SPDX expression.
    #[serde(skip)]
    pub(crate) license: String,
    /// The program in one line, without a period.
    pub(crate) summary: String,
    pub(crate) homepage: String,
    /// The address of the folder that has one folder for each release.
    pub(crate) downloads: String,
    /// A name and an e-mail address, as Debian writes them.
    pub(crate) maintainer: String,
    /// The package that starts the program of whichever platform it is on.
    pub(crate) npm_package: String,
    /// The scope of the packages that carry a program, with its `@`.
    pub(crate) npm_scope: String,
    pub(crate) pypi_package: String,
    pub(crate) debian_package: String,
    /// The platforms that have packages.
    pub(crate) targets: Vec<Target>,
}

impl Metadata {
    pub(crate) fn read(workspace: &Workspace) -> Result<Self> {
        let file = workspace.root().join("Cargo.toml");
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", workspace.show(&file)))?;
        Self::parse(&text).context("Cargo.toml")
    }

    fn parse(manifest: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Manifest {
            workspace: WorkspaceTable,
        }
        #[derive(Deserialize)]
        struct WorkspaceTable {
            package: PackageTable,
            metadata: MetadataTable,
        }
        #[derive(Deserialize)]
        struct PackageTable {
            version: String,
            license: String,
        }
        #[derive(Deserialize)]
        struct MetadataTable {
            dist: Metadata,
        }
        let Manifest { workspace } = toml::from_str(manifest)?;
        let PackageTable { version, license } = workspace.package;
        Ok(Self { version, license, ..workspace.metadata.dist })
    }

    /// Returns the address of a file of this release.
    pub(crate) fn download_url(&self, file: &str) -> String {
        format!("{}/v{}/{file}", self.downloads, self.version)
    }

    /// Returns the version as Python writes it (PEP 440): `1.0.0-rc.1` is `1.0.0rc1`.
    pub(crate) fn python_version(&self) -> Result<String> {
        let Some((release, stage)) = self.version.split_once('-') else { return Ok(self.version.clone()) };
        let letters = [("alpha.", "a"), ("beta.", "b"), ("rc.", "rc")];
        for (prefix, letter) in letters {
            if let Some(number) = stage.strip_prefix(prefix).and_then(|rest| rest.parse::<u32>().ok()) {
                return Ok(format!("{release}{letter}{number}"));
            }
        }
        bail!("Python has no version like {}: use alpha.N, beta.N or rc.N", self.version)
    }

    /// Returns the version as Debian writes it, where `~` sorts before the end of the version.
    pub(crate) fn debian_version(&self) -> String {
        self.version.replace('-', "~")
    }
}

#[cfg(test)]
impl Metadata {
    /// Returns the metadata of the tests of packages, with four targets.
    pub(crate) fn example() -> Self {
        Self::parse(EXAMPLE).unwrap()
    }
}

#[cfg(test)]
const EXAMPLE: &str = r#"
    [workspace.package]
    version = "1.2.3"
    license = "MIT OR Apache-2.0"
    [workspace.metadata.dist]
    summary = "A knot"
    homepage = "https://knot.invalid"
    downloads = "https://knot.invalid/releases"
    maintainer = "A Person <person@knot.invalid>"
    npm-package = "knot"
    npm-scope = "@knot"
    pypi-package = "knot-mcp"
    debian-package = "knot"
    targets = ["aarch64-apple-darwin", "x86_64-pc-windows-msvc", "x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"]
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_of_this_workspace_is_complete() {
        let metadata = Metadata::read(&Workspace::find().unwrap()).unwrap();
        assert_eq!(metadata.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(metadata.targets.len(), 8);
        assert_eq!(metadata.download_url("SHA256SUMS").split_once("/v").unwrap().0, metadata.downloads);
    }

    #[test]
    fn a_misspelled_key_is_refused() {
        let error = Metadata::parse(&EXAMPLE.replace("npm-scope", "npm-scop")).unwrap_err();
        assert!(error.to_string().contains("unknown field `npm-scop`"), "{error}");
    }

    #[test]
    fn versions_follow_the_rules_of_each_package_format() {
        let with_version = |version: &str| Metadata { version: version.to_owned(), ..Metadata::example() };
        assert_eq!(with_version("1.2.3").python_version().unwrap(), "1.2.3");
        assert_eq!(with_version("1.2.3-rc.4").python_version().unwrap(), "1.2.3rc4");
        assert_eq!(with_version("1.2.3-alpha.1").python_version().unwrap(), "1.2.3a1");
        with_version("1.2.3-nightly").python_version().unwrap_err();
        assert_eq!(with_version("1.2.3").debian_version(), "1.2.3");
        assert_eq!(with_version("1.2.3-rc.4").debian_version(), "1.2.3~rc.4");
    }
}
