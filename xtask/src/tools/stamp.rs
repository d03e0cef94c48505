//! Makes an installation once, and again when its manifests change.
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
    target: PathBuf,
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
        Ok(Self { target: target.to_owned(), wanted })
    }

    /// Runs `install` in an empty folder unless `product` was installed from the same manifests.
    /// An installation that fails or is interrupted is repeated by the next call.
    pub(super) fn ensure(&self, product: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
        let file = self.target.join("installed-from.txt");
        if fs::read_to_string(&file).is_ok_and(|found| found == self.wanted) && product.exists() {
            return Ok(());
        }
        if self.target.exists() {
            fs::remove_dir_all(&self.target)
                .with_context(|| format!("removing {}", self.target.display()))?;
        }
        fs::create_dir_all(&self.target).with_context(|| format!("creating {}", self.target.display()))?;
        install()?;
        fs::write(&file, &self.wanted).with_context(|| format!("writing {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_install_is_current_until_its_manifest_or_runtime_changes() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = dir.path().join("requirements.txt");
        let target = dir.path().join("tool");
        let product = target.join("program");
        let installs = |runtime| {
            let mut ran = false;
            let stamp = Stamp::new(&target, std::slice::from_ref(&manifest), runtime).unwrap();
            let install = || {
                ran = true;
                Ok(fs::write(&product, "")?)
            };
            stamp.ensure(&product, install).unwrap();
            ran
        };

        fs::write(&manifest, "a==1\n").unwrap();
        assert!(installs("3.11"));
        assert!(!installs("3.11"));
        assert!(installs("3.12"));
        fs::write(&manifest, "a==2\n").unwrap();
        assert!(installs("3.12"));
        fs::remove_file(&product).unwrap();
        assert!(installs("3.12"));
    }

    #[test]
    fn a_failed_install_is_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("tool");
        let stamp = Stamp::new(&target, &[], "3.11").unwrap();
        stamp.ensure(&target, || anyhow::bail!("offline")).unwrap_err();
        let mut repeated = false;
        stamp
            .ensure(&target, || {
                repeated = true;
                Ok(())
            })
            .unwrap();
        assert!(repeated);
    }
}
