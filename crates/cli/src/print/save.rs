//! Saves binary content to files. We choose their names: a server's could point anywhere.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::media::base64::{DecodeError, decode_into};

/// Saves binary content.
pub(crate) struct Saver {
    /// Folder that was asked for.
    folder: Option<PathBuf>,
    /// Temporary folder that was created because none was asked for.
    temp_folder: OnceLock<PathBuf>,
    stem: String,
}

/// A file that was written.
#[derive(Debug)]
pub(crate) struct SavedFile {
    pub(crate) path: PathBuf,
    pub(crate) size: usize,
}

impl Saver {
    /// Saves to `folder` under names that begin with `name`. Without a folder, one for this run
    /// alone is created among the system's temporary files.
    pub(crate) fn new(folder: Option<PathBuf>, name: &str) -> Self {
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let stem: String = name.chars().map(safe).take(40).collect();
        let stem = stem.trim_matches('-');
        let stem = if stem.is_empty() { "content" } else { stem }.to_owned();
        Self { folder, temp_folder: OnceLock::new(), stem }
    }

    /// Creates the folder before anything is sent: a wrong path must not cost a call.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        let Some(folder) = &self.folder else { return Ok(()) };
        fs::create_dir_all(folder).map_err(|error| {
            let why =
                if folder.is_file() { "it is a file, not a folder".to_owned() } else { error.to_string() };
            format!("cannot save to {}: {why}", folder.display())
        })
    }

    /// Returns whether a folder was asked for: then everything is saved, shown or not.
    pub(crate) fn has_explicit_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// Saves Base64 data into a new file. Returns `None` if it is invalid.
    pub(crate) fn save(&self, base64: &str, extension: &str) -> io::Result<Option<SavedFile>> {
        let folder = self.folder()?;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("saving to {}: {error}", folder.display()))
        };
        let (path, mut file) = self.create(folder, extension).map_err(named)?;
        match decode_into(base64, &mut file) {
            Ok(size) => Ok(Some(SavedFile { path, size })),
            Err(failed) => {
                drop(file);
                // Half a file is of no use. If it cannot be removed, it stays.
                let _ = fs::remove_file(&path);
                match failed {
                    DecodeError::Invalid => Ok(None),
                    DecodeError::Sink(error) => Err(named(error)),
                }
            }
        }
    }

    fn folder(&self) -> io::Result<&Path> {
        if let Some(folder) = &self.folder {
            fs::create_dir_all(folder)?;
            return Ok(folder);
        }
        if let Some(folder) = self.temp_folder.get() {
            return Ok(folder);
        }
        let made = create_temp_folder()?;
        Ok(self.temp_folder.get_or_init(|| made))
    }

    /// Creates the file with the first free number. Nothing is overwritten.
    fn create(&self, folder: &Path, extension: &str) -> io::Result<(PathBuf, File)> {
        for number in 1..=MAX_FILES {
            let path = folder.join(format!("{}-{number}.{extension}", self.stem));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the folder is full of files of that name"))
    }
}

const MAX_FILES: u32 = 10_000;

/// Creates a folder that only this user can read. Its name is random: where anybody may write, a
/// predictable name could exist already.
fn create_temp_folder() -> io::Result<PathBuf> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let above = std::env::temp_dir();
    for _ in 0..MAX_FOLDER_ATTEMPTS {
        let folder = above.join(format!("bowline-{:010x}", fastrand::u64(..1 << 40)));
        match builder.create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("saving to {}: {error}", above.display())));
            }
        }
    }
    Err(io::Error::other(format!("no folder can be made in {}", above.display())))
}

const MAX_FOLDER_ATTEMPTS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ours_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let saver = Saver::new(Some(folder.path().join("out")), "../../etc/passwd");
        let first = saver.save("b25l", "png").unwrap().unwrap();
        let second = saver.save("dHdv", "png").unwrap().unwrap();
        assert_eq!(first.path, folder.path().join("out/etc-passwd-1.png"));
        assert_eq!(second.path, folder.path().join("out/etc-passwd-2.png"));
        assert_eq!((fs::read(first.path).unwrap(), first.size), (b"one".to_vec(), 3));
    }

    #[test]
    fn what_is_no_base64_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let saver = Saver::new(Some(folder.path().to_owned()), "x");
        assert!(saver.save("%%%", "bin").unwrap().is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    #[cfg(unix)]
    fn a_folder_of_our_own_is_ours_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let saver = Saver::new(None, "x");
        let first = saver.save("b25l", "txt").unwrap().unwrap();
        let folder = first.path.parent().unwrap();
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(saver.save("b25l", "txt").unwrap().unwrap().path, folder.join("x-2.txt"));
        fs::remove_dir_all(folder).unwrap();
    }
}
