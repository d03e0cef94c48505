//! [`ProcessEnvironment`]: the variables of this process, and text files.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use bowline_config::Environment;

/// The variables of this process as they were when it was read, and the file system.
pub struct ProcessEnvironment {
    vars: BTreeMap<String, String>,
}

/// Why a text file cannot be read. Its text does not quote the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextFileError {
    /// It is a folder, a pipe or a device.
    #[error("not a regular file")]
    NotRegular,
    /// It has more than this many MiB.
    #[error("larger than {0} MiB")]
    TooLarge(u64),
    /// Its bytes are not UTF-8.
    #[error("not UTF-8 text")]
    NotUtf8,
    /// It cannot be opened or read.
    #[error("{}", describe_io_error(.0))]
    Io(io::Error),
}

/// Largest file in MiB that `{file:path}` may name, and largest configuration. A secret is short; a device never ends.
pub(crate) const MAX_FILE_MEBIBYTES: u64 = 1;

const MEBIBYTE: u64 = 1024 * 1024;

impl TextFileError {
    /// What a person can do about it, if there is one thing to do.
    pub fn suggest_fix(&self) -> Option<&'static str> {
        matches!(self, Self::NotUtf8).then_some("save it as UTF-8")
    }
}

impl From<io::Error> for TextFileError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::InvalidData { Self::NotUtf8 } else { Self::Io(error) }
    }
}

impl ProcessEnvironment {
    /// Reads the variables of the process. One that is not UTF-8 counts as unset.
    pub fn read() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { vars: std::env::vars_os().filter_map(text).collect() }
    }
}

impl Environment for ProcessEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn read_file(&self, path: &Path) -> Result<String, String> {
        read_small_file(path)
    }
}

/// Reads a small, regular UTF-8 file. The error does not quote its content.
pub fn read_small_file(path: &Path) -> Result<String, String> {
    open_small_file(path).map(|(text, _)| text)
}

/// Like [`read_small_file`], and also returns the metadata of the file that was opened.
pub(crate) fn open_small_file(path: &Path) -> Result<(String, Metadata), String> {
    open_text_file(path, MAX_FILE_MEBIBYTES).map_err(|error| error.to_string())
}

/// Reads a regular UTF-8 file of at most this many MiB.
pub fn read_text_file(path: &Path, max_mebibytes: u64) -> Result<String, TextFileError> {
    open_text_file(path, max_mebibytes).map(|(text, _)| text)
}

fn open_text_file(path: &Path, max_mebibytes: u64) -> Result<(String, Metadata), TextFileError> {
    // Checked before opening: opening a pipe would wait for its writer, and opening a device may
    // have any effect.
    if !std::fs::metadata(path)?.is_file() {
        return Err(TextFileError::NotRegular);
    }
    let file = File::open(path)?;
    let about = file.metadata()?;
    let max_bytes = max_mebibytes * MEBIBYTE;
    let mut text = String::new();
    file.take(max_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes {
        return Err(TextFileError::TooLarge(max_mebibytes));
    }
    Ok((text, about))
}

/// Describes an I/O error without the system's error number.
pub fn describe_io_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        // One of ours says more.
        io::ErrorKind::PermissionDenied if error.get_ref().is_none() => "permission denied".to_owned(),
        io::ErrorKind::InvalidData => "not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns a variable that is set and not empty.
pub fn non_empty_var(env: &dyn Environment, name: &str) -> Option<String> {
    env.var(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_short_text_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        assert_eq!(read_small_file(&file("good", b"text")), Ok("text".to_owned()));
        assert_eq!(read_small_file(&file("binary", b"\xff")), Err("not UTF-8 text".to_owned()));
        assert_eq!(read_small_file(&folder.path().join("none")), Err("no such file".to_owned()));
        assert_eq!(read_small_file(folder.path()), Err("not a regular file".to_owned()));
        let large = vec![b'x'; usize::try_from(MEBIBYTE).unwrap() + 1];
        assert_eq!(read_small_file(&file("large", &large)), Err("larger than 1 MiB".to_owned()));
    }
}
