//! Checks whether an installed set of packages matches its manifests.
//!
//! The stamp is the text of the manifests itself: there is nothing to hash, and a difference can be
//! read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// An installation below `.tools/` and the text that decides what is in it.
pub(super) struct Stamp {
    file: PathBuf,
    wanted: String,
}

impl Stamp {
    /// Creates the stamp of an installation in `target` made from `manifests`, and from `runtime`
    /// if its version matters.
    pub(super) fn new(target: &Path, manifests: &[PathBuf], runtime: &str) -> Result<Self> {
        let mut wanted = format!("{runtime}\n");
        for manifest in manifests {
            let text =
                fs::read_to_string(manifest).with_context(|| format!("reading {}", manifest.display()))?;
            wanted += &text;
        }
        Ok(Self { file: target.join("installed-from.txt"), wanted })
    }

    pub(super) fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|found| found == self.wanted)
    }

    /// Writes the stamp. Call it last, so that an interrupted installation is repeated.
    pub(super) fn write(&self) -> Result<()> {
        fs::write(&self.file, &self.wanted).with_context(|| format!("writing {}", self.file.display()))
    }
}

/// Creates an empty folder at `target`, replacing whatever was there.
pub(super) fn recreate(target: &Path) -> Result<()> {
    if target.exists() {
        fs::remove_dir_all(target).with_context(|| format!("removing {}", target.display()))?;
    }
    fs::create_dir_all(target).with_context(|| format!("creating {}", target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_install_is_current_until_its_manifest_or_runtime_changes() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = dir.path().join("requirements.txt");
        fs::write(&manifest, "a==1\n").unwrap();
        let stamp = |runtime| Stamp::new(dir.path(), std::slice::from_ref(&manifest), runtime).unwrap();

        assert!(!stamp("3.11").is_current());
        stamp("3.11").write().unwrap();
        assert!(stamp("3.11").is_current());
        assert!(!stamp("3.12").is_current());
        fs::write(&manifest, "a==2\n").unwrap();
        assert!(!stamp("3.11").is_current());
    }
}
