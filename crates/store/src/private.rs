//! Owns the permissions of our files and folders: only their owner has access.
//!
//! On Windows the permissions of the user's profile folder take care of that.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use crate::{StoreError, random};

/// Whether a file was created.
#[derive(Debug, PartialEq, Eq)]
pub enum Creation {
    /// By this call.
    Created,
    /// Earlier, or by another process.
    AlreadyExists,
}

/// Creates a folder and its parents for their owner only, unless they exist.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Creates a file with its full content, or not at all: it gets its name when it is complete and on
/// disk.
pub fn create_file(path: &Path, holding: &[u8]) -> io::Result<Creation> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let random = random::bytes::<8>().map_err(io::Error::other)?;
    let draft = folder.join(format!(".{}.new", random::hex(&random)));
    let made = (|| {
        let mut file = create_new(&draft)?;
        file.write_all(holding)?;
        file.sync_all()?;
        drop(file);
        // Unlike a rename, this fails if the name is taken.
        match fs::hard_link(&draft, path) {
            Ok(()) => Ok(Creation::Created),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Creation::AlreadyExists),
            // A file system without hard links. A reader may see the file before its content, and
            // reports that.
            Err(_) => match create_new(path) {
                Ok(mut file) => {
                    file.write_all(holding).and_then(|()| file.sync_all()).map(|()| Creation::Created)
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Creation::AlreadyExists),
                Err(error) => Err(error),
            },
        }
    })();
    let _ = fs::remove_file(&draft);
    sync_folder(folder)?;
    made
}

/// Replaces a file, or creates it, for its owner only. Readers see the old or the new content. The
/// disk is not synced, so the file may be damaged after a power loss: use it only for data that can
/// be recreated.
pub fn replace_file(path: &Path, holding: &[u8]) -> io::Result<()> {
    replace_with(path, |mut file| file.write_all(holding))
}

/// Replaces a file like [`replace_file`], with what `write` writes piece by piece.
pub fn replace_file_in_pieces(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
) -> io::Result<()> {
    replace_with(path, |file| {
        let mut file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file);
        write(&mut file)?;
        file.into_inner()?;
        Ok(())
    })
}

/// The size of a piece that is written.
const WRITE_BUFFER_BYTES: usize = 32 * 1024;

fn replace_with(path: &Path, write: impl FnOnce(fs::File) -> io::Result<()>) -> io::Result<()> {
    let random = random::bytes::<8>().map_err(io::Error::other)?;
    let draft = path.with_extension(format!("{}.{DRAFT_EXTENSION}", random::hex(&random)));
    let written = create_new(&draft).and_then(write);
    written.and_then(|()| fs::rename(&draft, path)).inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// The extension of a file that [`replace_file`] has not finished. A killed program may leave one
/// behind.
pub const DRAFT_EXTENSION: &str = "new";

/// Creates an empty file, unless it exists. An existing file is not opened, because closing it
/// would drop the locks that SQLite holds on it in this process.
#[cfg(feature = "sqlite")]
pub(crate) fn create_empty_file(path: &Path) -> io::Result<Creation> {
    match create_new(path) {
        Ok(_) => Ok(Creation::Created),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Creation::AlreadyExists),
        Err(error) => Err(error),
    }
}

fn create_new(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}

/// Syncs a folder, so that a new name in it survives a power loss.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Restricts a file to its owner, if it exists. Adds a note if others had access.
#[cfg(unix)]
pub(crate) fn restrict_file(path: &Path, notes: &mut Vec<String>) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt as _;

    let about = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(StoreError::Unusable(format!("cannot look at {}: {error}", path.display())));
        }
        Ok(about) => about,
    };
    if !about.is_file() {
        return Err(StoreError::Unusable(format!("{} is not a file", path.display())));
    }
    let mode = about.permissions().mode() & 0o777;
    if non_owner_bits(mode) == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|error| {
        StoreError::Unusable(format!(
            "others can read {} (mode {mode:03o}), and that cannot be changed: {error}",
            path.display()
        ))
    })?;
    notes.push(format!("others could read {} (mode {mode:03o}); now only its owner can", path.display()));
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn restrict_file(path: &Path, _notes: &mut Vec<String>) -> Result<(), StoreError> {
    match fs::metadata(path) {
        Ok(about) if !about.is_file() => {
            Err(StoreError::Unusable(format!("{} is not a file", path.display())))
        }
        _ => Ok(()),
    }
}

/// The permission bits of everybody but the owner.
#[cfg(unix)]
fn non_owner_bits(mode: u32) -> u32 {
    mode & 0o077
}

/// Refuses a folder that another user owns or can write to, if it exists. Its content may be
/// theirs: a login of another account, the encryption key of the logins, or the record that a
/// project is trusted. Removing the permission would not help against what was put there before, so
/// that is left to the user.
#[cfg(unix)]
pub fn refuse_shared_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    let about = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about?,
    };
    let me = rustix::process::geteuid().as_raw();
    let (path, mode) = (folder.display(), about.mode() & 0o7777);
    let text = if !about.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{path} is not a folder")));
    } else if about.uid() != me {
        format!(
            "{path} belongs to another user (uid {}), who may have put something there: look into it, then make it \
             yours with `chown -R {me} '{path}'`",
            about.uid()
        )
    } else if mode & 0o022 != 0 {
        format!(
            "others can write to {path} (mode {mode:03o}) and may have put something there: look into it, then run \
             `chmod 700 '{path}'`"
        )
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Accepts every folder, because this platform has no permissions to check.
#[cfg(not(unix))]
pub fn refuse_shared_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Restricts our own folder to its owner, if it exists. Adds a note if others could look into it. A folder that
/// others own or can write to is refused.
#[cfg(unix)]
pub fn restrict_folder(folder: &Path, notes: &mut Vec<String>) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt as _;

    refuse_shared_folder(folder).map_err(|error| StoreError::Unusable(error.to_string()))?;
    let Ok(about) = fs::metadata(folder) else { return Ok(()) };
    let mode = about.permissions().mode() & 0o7777;
    if non_owner_bits(mode) == 0 {
        return Ok(());
    }
    match fs::set_permissions(folder, fs::Permissions::from_mode(0o700)) {
        Ok(()) => notes.push(format!(
            "others could look into {} (mode {mode:03o}); now only its owner can",
            folder.display()
        )),
        Err(error) => notes.push(format!(
            "others can look into {} (mode {mode:03o}), and that cannot be changed: {error}",
            folder.display()
        )),
    }
    Ok(())
}

/// Accepts every folder, because this platform has no permissions to check.
#[cfg(not(unix))]
pub fn restrict_folder(_folder: &Path, _notes: &mut Vec<String>) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    // TK-03: from the moment of creation, and not only after a check.
    #[test]
    fn what_is_made_is_private_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (nested, empty, full) =
            (folder.path().join("a/b"), folder.path().join("empty"), folder.path().join("full"));
        create_folder(&nested).unwrap();
        assert_eq!((mode(&folder.path().join("a")), mode(&nested)), (0o700, 0o700));
        assert_eq!(create_empty_file(&empty).unwrap(), Creation::Created);
        assert_eq!(create_file(&full, b"x").unwrap(), Creation::Created);
        assert_eq!((mode(&empty), mode(&full)), (0o600, 0o600));
        replace_file(&full, b"y").unwrap();
        assert_eq!((fs::read(&full).unwrap(), mode(&full)), (b"y".to_vec(), 0o600));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no draft is left");
        let mut notes = Vec::new();
        for file in [&empty, &full] {
            restrict_file(file, &mut notes).unwrap();
        }
        restrict_folder(&nested, &mut notes).unwrap();
        assert_eq!(notes, [""; 0], "there is nothing to mend");
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for mode in [0o720, 0o702, 0o777, 0o1777, 0o2770] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            let error = refuse_shared_folder(path).unwrap_err().to_string();
            let text = format!(
                "others can write to {0} (mode {mode:03o}) and may have put something there: look into it, then run \
                 `chmod 700 '{0}'`",
                path.display()
            );
            assert_eq!(error, text);
            assert!(
                matches!(restrict_folder(path, &mut Vec::new()), Err(StoreError::Unusable(why)) if why == text)
            );
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, mode);
        }
        for mode in [0o700, 0o755, 0o500] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            refuse_shared_folder(path).unwrap();
        }
        refuse_shared_folder(&path.join("not there")).unwrap();
        // Only root can change the owner of a folder.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path, Some(12345), None).unwrap();
            let error = refuse_shared_folder(path).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "{0} belongs to another user (uid 12345), who may have put something there: look into it, then \
                     make it yours with `chown -R 0 '{0}'`",
                    path.display()
                )
            );
        }
    }
}
