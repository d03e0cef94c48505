//! Defines `Workspace`: where things are in the checkout, and which files belong to it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The root of the checkout, absolute.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Returns the workspace that this binary was built from.
    pub(crate) fn find() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().context("xtask lies inside the workspace")?;
        Ok(Self { root: root.to_path_buf() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of everything installed for tests and benchmarks; ignored by git, safe to
    /// delete.
    pub(crate) fn tools(&self) -> PathBuf {
        self.root.join(".tools")
    }

    /// Formats `path` as a reader of the checkout would write it: relative, with `/`.
    pub(crate) fn show(&self, path: &Path) -> String {
        let short = path.strip_prefix(&self.root).unwrap_or(path);
        short.to_string_lossy().replace('\\', "/")
    }

    /// Returns all files of the checkout below `dir`, sorted, without built or installed ones.
    pub(crate) fn files(&self, dir: &str) -> Result<Vec<PathBuf>> {
        let start = self.root.join(dir);
        let mut found = Vec::new();
        if start.is_dir() {
            collect(&start, &mut found)?;
        }
        found.sort();
        Ok(found)
    }

    /// Returns the path, as [`Self::show`] writes it, and the text of every `.rs` file below `dir`.
    pub(crate) fn rust_sources(&self, dir: &str) -> Result<Vec<(String, String)>> {
        let files = self.files(dir)?.into_iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
        let read = |path: PathBuf| {
            let shown = self.show(&path);
            let text = fs::read_to_string(&path).with_context(|| format!("reading {shown}"))?;
            Ok((shown, text))
        };
        files.map(read).collect()
    }
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if !EXCLUDED_FOLDERS.iter().any(|generated| name == *generated) {
                collect(&entry.path(), found)?;
            }
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}

const EXCLUDED_FOLDERS: &[&str] = &[".git", ".tools", "node_modules", "target"];
