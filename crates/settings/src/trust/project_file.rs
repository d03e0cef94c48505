//! Reads a project's file once, so that the content that is trusted is the content that is used.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::{Exposure, hex_hash};
use crate::environment;

/// A project's file as it was read.
#[derive(Debug)]
pub struct ProjectFile {
    /// Path where the file was found.
    pub path: PathBuf,
    /// The path with links in its folders resolved. A file that is itself a link keeps the path of
    /// the link: relative paths in it start there, and a link elsewhere to a trusted file is
    /// another project.
    pub location: PathBuf,
    /// The path with all links resolved.
    #[cfg_attr(not(unix), expect(dead_code, reason = "owners are not looked at there"))]
    target: PathBuf,
    /// Its content.
    pub text: String,
    /// SHA-256 of the content, in hexadecimal digits.
    pub(super) sha256: String,
    #[cfg_attr(not(unix), expect(dead_code, reason = "owners are not looked at there"))]
    metadata: Metadata,
}

impl ProjectFile {
    /// Reads the file. The error says why it cannot be read, and does not quote it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let (text, opened) = environment::open_small_file(path)?;
        let target = path.canonicalize().map_err(|error| environment::describe_io_error(&error))?;
        let place = resolve_location(path).map_err(|error| environment::describe_io_error(&error))?;
        let sha256 = hex_hash(text.as_bytes());
        Ok(Self { path: path.to_owned(), location: place, target, text, sha256, metadata: opened })
    }

    /// Checks that only this user and root could have written the file or put it where it is.
    /// Folders above `home` are not checked: whoever can change those can change everything.
    #[cfg(unix)]
    pub fn check(&self, home: Option<&Path>) -> Result<(), Exposure> {
        use std::os::unix::fs::MetadataExt as _;

        let user = super::ownership::User::current();
        let (target, found) = super::ownership::check_path(&self.path, &user, home)?;
        user.check_file(&self.path, &self.metadata)?;
        let identity = |about: &Metadata| (about.dev(), about.ino());
        if target != self.target || identity(&found) != identity(&self.metadata) {
            let what = format!("{} was replaced while it was read", self.path.display());
            return Err(Exposure { problem: what, fix: "try again".to_owned() });
        }
        Ok(())
    }

    /// Checks nothing: who owns a file is not looked at on this system.
    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "owners are not looked at here")]
    pub fn check(&self, _home: Option<&Path>) -> Result<(), Exposure> {
        Ok(())
    }
}

/// Resolves the links in the folders of a path. The folder must exist.
pub fn resolve_location(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let folder = path.parent().ok_or(io::ErrorKind::IsADirectory)?.canonicalize()?;
    Ok(folder.join(path.file_name().ok_or(io::ErrorKind::IsADirectory)?))
}
