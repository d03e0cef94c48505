//! Creates folders and files below the state folder that only their owner can read and write.
//!
//! Whichever command runs first creates the folder, and logins are stored in it too.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use bowline::auth::store::private::refuse_shared_folder;

/// Creates a folder below the state folder, with its parents. Fails if others can write to it.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    // On other systems, the folder is inside the user's own.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)?;
    check_folder(folder)
}

/// Fails if somebody else owns or can write to the folder or its parent.
pub(crate) fn check_folder(folder: &Path) -> io::Result<()> {
    folder.parent().map_or(Ok(()), refuse_shared_folder)?;
    refuse_shared_folder(folder)
}

/// Creates a file that must not exist yet.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}
