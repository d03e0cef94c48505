//! Unpacks the Debian package into an empty folder.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, ensure};

use super::program::Program;
use crate::shell;

/// Returns how to start the program, or nothing where Debian's tools are not installed.
pub(super) fn install(package: &Path, root: &Path) -> Result<Option<Program>> {
    if !shell::is_installed("dpkg-deb") {
        eprintln!("the Debian package is not unpacked: dpkg-deb is not installed");
        return Ok(None);
    }
    fs::create_dir_all(root)?;
    shell::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(root))?;
    shell::run(Command::new("dpkg-deb").arg("--control").arg(package).arg(root.join("DEBIAN")))?;
    let mut sums = Command::new("md5sum");
    shell::run(sums.args(["--check", "--quiet", "DEBIAN/md5sums"]).current_dir(root))?;
    for part in ["usr/share/man/man1/bowline.1.gz", "usr/share/bash-completion/completions/bowline"] {
        ensure!(root.join(part).is_file(), "the package lacks {part}");
    }
    Ok(Some(Program::new("the Debian package", root.join("usr/bin/bowline"))))
}
