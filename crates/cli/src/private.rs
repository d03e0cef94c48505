//! Owns who can read and write what is kept in the state folder: its owner alone.
//!
//! Whichever command comes first makes the folder, and logins are kept in it too.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use bowline::auth::store::private::refuse_shared_folder;

/// Makes a folder below the state folder and those above it, unless they are there. One that others can write to is
/// refused.
pub(crate) fn folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    // Elsewhere the folder lies in the user's own.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)?;
    check(folder)
}

/// Refuses a folder below the state folder if somebody else owns or can write to either of them.
pub(crate) fn check(folder: &Path) -> io::Result<()> {
    folder.parent().map_or(Ok(()), refuse_shared_folder)?;
    refuse_shared_folder(folder)
}

/// Makes a file that is not there yet.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}
