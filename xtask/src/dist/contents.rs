//! Collects what packages carry: the program, what it prints about itself, and texts of the
//! checkout.

use std::{env, fs, path, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::{archive::FileSet, elf::Requirements, metadata::Metadata, target::Target};
use crate::{shell, workspace::Workspace};

/// The content that the packages of one platform share.
pub(crate) struct Contents {
    pub(crate) program: Vec<u8>,
    /// Empty on other systems than Linux.
    pub(crate) requirements: Requirements,
    /// Names such as `bowline-call.1`, with the pages.
    pub(crate) manual_pages: Vec<(String, Vec<u8>)>,
    pub(crate) bash_completion: Vec<u8>,
    pub(crate) fish_completion: Vec<u8>,
    pub(crate) zsh_completion: Vec<u8>,
    pub(crate) readme: Vec<u8>,
    pub(crate) changelog: Vec<u8>,
    /// Names such as `LICENSE-MIT`, with the texts.
    pub(crate) licenses: Vec<(&'static str, Vec<u8>)>,
    /// The list of packages that are compiled in, in CycloneDX JSON.
    pub(crate) sbom: Vec<u8>,
}

impl Contents {
    /// Collects the content. It runs the program, which has to be of the version of `metadata` and of
    /// `target`, which is this platform.
    pub(crate) fn collect(
        workspace: &Workspace,
        metadata: &Metadata,
        target: &Target,
        program: &Path,
        sbom: &Path,
    ) -> Result<Self> {
        let version = &metadata.version;
        let home = tempfile::tempdir()?;
        let program = &path::absolute(program)?;
        let run = |args: &[&str]| {
            let mut command = Command::new(program);
            // Settings of the person who builds have no part in the packages.
            command.env_clear().env("HOME", home.path()).current_dir(home.path()).args(args);
            // Programs for Windows find parts of the system by it.
            command.envs(env::var_os("SystemRoot").map(|folder| ("SystemRoot", folder)));
            shell::read(&mut command)
        };
        let printed = run(&["--version"])?;
        ensure!(
            printed.trim() == format!("bowline {version}"),
            "{} is {}, but the version in Cargo.toml is {version}",
            program.display(),
            printed.trim()
        );
        run(&["man", "pages"])?;
        let completion = |shell: &str| Ok::<_, anyhow::Error>(run(&["completions", shell])?.into_bytes());
        let licenses = LICENSES.map(|name| Ok((name, read(&workspace.root().join(name))?)));
        let program = read(program)?;
        Ok(Self {
            requirements: Requirements::read(target, &program)?,
            program,
            manual_pages: read_folder(&home.path().join("pages"))?,
            bash_completion: completion("bash")?,
            fish_completion: completion("fish")?,
            zsh_completion: completion("zsh")?,
            readme: read(&workspace.root().join("crates/cli/README.md"))?,
            changelog: read(&workspace.root().join("CHANGELOG.md"))?,
            licenses: licenses.into_iter().collect::<Result<_>>()?,
            sbom: read(sbom)?,
        })
    }

    /// Adds the license texts, each under `folder`, which ends with `/` or is empty.
    pub(crate) fn add_licenses<'a>(&'a self, files: &mut FileSet<'a>, folder: &str) {
        for (name, text) in &self.licenses {
            files.add(format!("{folder}{name}"), text);
        }
    }
}

/// Returns the files of a folder, sorted by name.
fn read_folder(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        files.push((entry.file_name().to_string_lossy().into_owned(), read(&entry.path())?));
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("reading {}", file.display()))
}

const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

#[cfg(test)]
impl Contents {
    /// Returns the content of the tests of packages.
    pub(crate) fn example() -> Self {
        let text = |text: &str| text.as_bytes().to_vec();
        Self {
            program: text("a program"),
            requirements: Requirements {
                glibc: Some((2, 34)),
                libraries: ["libc.so.6", "libgcc_s.so.1"].map(str::to_owned).into(),
            },
            manual_pages: vec![("bowline.1".to_owned(), text(".TH bowline 1"))],
            bash_completion: text("complete bowline"),
            fish_completion: text("complete -c bowline"),
            zsh_completion: text("#compdef bowline"),
            readme: text("# Bowline"),
            changelog: text("# Changelog"),
            licenses: vec![("LICENSE-APACHE", text("Apache")), ("LICENSE-MIT", text("MIT"))],
            sbom: text("{}"),
        }
    }
}
