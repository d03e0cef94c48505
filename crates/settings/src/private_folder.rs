//! Creates folders below the state folder that only their owner can read and write.
//!
//! Whichever command runs first creates the folder, and logins are stored in it too.

use std::io;
use std::path::Path;

use bowline_store::private::{self, refuse_shared_folder};

/// Creates a folder below the state folder, with its parents. Fails if others can write to it.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    private::create_folder(folder)?;
    check_folder(folder)
}

/// Fails if somebody else owns or can write to the folder or its parent.
pub fn check_folder(folder: &Path) -> io::Result<()> {
    folder.parent().map_or(Ok(()), refuse_shared_folder)?;
    refuse_shared_folder(folder)
}
