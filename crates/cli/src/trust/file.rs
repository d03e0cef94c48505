//! Owns the reading of a project's file: once, so that what is vouched for is what is used.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::{Exposure, hex_hash};
use crate::env;

/// A project's file as it was read.
#[derive(Debug)]
pub(crate) struct ProjectFile {
    /// Where it was found.
    pub(crate) path: PathBuf,
    /// Its path without links on the way to its folder. A file that is a link itself stands for where the link is:
    /// relative paths in it start there, and a link elsewhere to a trusted file is another project.
    pub(crate) place: PathBuf,
    /// Where the text is, without links.
    #[cfg_attr(not(unix), expect(dead_code, reason = "owners are not looked at there"))]
    target: PathBuf,
    /// What is in it.
    pub(crate) text: String,
    /// The SHA-256 of that, in hexadecimal digits.
    pub(super) sha256: String,
    #[cfg_attr(not(unix), expect(dead_code, reason = "owners are not looked at there"))]
    opened: Metadata,
}

impl ProjectFile {
    /// Reads the file. The error says why it cannot be read, and does not quote it.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let (text, opened) = env::open_small(path)?;
        let target = path.canonicalize().map_err(|error| env::reason(&error))?;
        let place = place(path).map_err(|error| env::reason(&error))?;
        let sha256 = hex_hash(text.as_bytes());
        Ok(Self { path: path.to_owned(), place, target, text, sha256, opened })
    }

    /// Whether nobody but this user and root could have written it, or could have put it where it is. `home` is where
    /// the looking ends: whoever can change the folders above it can change everything.
    #[cfg(unix)]
    pub(crate) fn check(&self, home: Option<&Path>) -> Result<(), Exposure> {
        use std::os::unix::fs::MetadataExt as _;

        let user = super::guard::User::this();
        let (target, found) = super::guard::follow(&self.path, &user, home)?;
        user.check_file(&self.path, &self.opened)?;
        let identity = |about: &Metadata| (about.dev(), about.ino());
        if target != self.target || identity(&found) != identity(&self.opened) {
            let what = format!("{} was replaced while it was read", self.path.display());
            return Err(Exposure { what, next: "try again".to_owned() });
        }
        Ok(())
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "owners are not looked at here")]
    pub(crate) fn check(&self, _home: Option<&Path>) -> Result<(), Exposure> {
        Ok(())
    }
}

/// The path of a file without links on the way to its folder, which has to be there.
pub(crate) fn place(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let folder = path.parent().ok_or(io::ErrorKind::IsADirectory)?.canonicalize()?;
    Ok(folder.join(path.file_name().ok_or(io::ErrorKind::IsADirectory)?))
}
