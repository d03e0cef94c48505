//! Replaces a file that belongs to the user, not to us: its place, permissions and owner stay.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use bowline_store::private;

/// Why a file was not replaced. It is as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplaceError {
    /// It is not what it was when it was read.
    Changed,
    /// Its permissions say that it is not to be changed.
    ReadOnly,
    /// It cannot be read or written.
    Io(io::Error),
}

/// Replaces the content of a file in one step, or deletes it if `after` is `None`, unless its content is
/// no longer `before`, where `None` means that there is no file.
///
/// What a symbolic link leads to is replaced, and not the link. A file that is new is for its owner only.
pub fn replace_user_file(
    path: &Path,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Result<(), ReplaceError> {
    // What is kept in another place and linked to stays there.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let now = match fs::read(&target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.map_err(ReplaceError::Io)?),
    };
    if now.as_deref() != before {
        return Err(ReplaceError::Changed);
    }
    // A file is replaced by its name, for which the permissions of the file do not matter.
    if now.is_some() && fs::metadata(&target).map_err(ReplaceError::Io)?.permissions().readonly() {
        return Err(ReplaceError::ReadOnly);
    }
    match after {
        Some(after) => write(&target, after).map_err(ReplaceError::Io),
        None if now.is_some() => fs::remove_file(&target).map_err(ReplaceError::Io),
        None => Ok(()),
    }
}

fn write(target: &Path, content: &[u8]) -> io::Result<()> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        private::create_folder(folder)?;
    }
    let before = fs::metadata(target).ok();
    private::replace_file(target, content)?;
    if let Some(before) = before {
        keep_owner(target, &before);
        fs::set_permissions(target, before.permissions())?;
    }
    // It is not made again by anything, so it has to outlive a power loss.
    OpenOptions::new().write(true).open(target)?.sync_all()?;
    if let Some(folder) = folder {
        // Not every system can sync a folder.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

/// Gives the file back to its owner, if another user was allowed to replace it.
#[cfg(unix)]
fn keep_owner(target: &Path, before: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let is_same = |now: &fs::Metadata| (now.uid(), now.gid()) == (before.uid(), before.gid());
    if !fs::metadata(target).as_ref().is_ok_and(is_same) {
        let _ = chown(target, Some(before.uid()), Some(before.gid()));
    }
}

#[cfg(not(unix))]
fn keep_owner(_target: &Path, _before: &fs::Metadata) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_as_it_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let replace = |before: Option<&str>, after: Option<&str>| {
            replace_user_file(&path, before.map(str::as_bytes), after.map(str::as_bytes))
        };
        assert!(matches!(replace(Some("a"), Some("b")), Err(ReplaceError::Changed)));
        replace(None, Some("a")).unwrap();
        assert!(matches!(replace(None, Some("b")), Err(ReplaceError::Changed)));
        assert!(matches!(replace(Some("b"), None), Err(ReplaceError::Changed)));
        replace(Some("a"), Some("b")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "b");
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        assert!(matches!(replace(Some("b"), Some("c")), Err(ReplaceError::ReadOnly)));
        assert!(matches!(replace(Some("b"), None), Err(ReplaceError::ReadOnly)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "b");
    }

    #[test]
    fn a_file_is_deleted_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "a").unwrap();
        replace_user_file(&path, Some(b"a"), None).unwrap();
        assert!(!path.exists());
        replace_user_file(&path, None, None).unwrap();
    }
}
