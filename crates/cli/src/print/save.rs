//! Owns the files that binary content is saved to. Names are ours: a server's could point anywhere.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Where binary content goes, if it goes anywhere.
pub(crate) struct Saver {
    folder: Option<PathBuf>,
    stem: String,
}

impl Saver {
    /// Saves below `folder`, under names that begin like `name`.
    pub(crate) fn new(folder: Option<PathBuf>, name: &str) -> Self {
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let stem: String = name.chars().map(safe).take(40).collect();
        let stem = stem.trim_matches('-');
        Self { folder, stem: if stem.is_empty() { "content" } else { stem }.to_owned() }
    }

    /// Makes the folder. Before anything is sent: a wrong path must not cost a call.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        let Some(folder) = &self.folder else { return Ok(()) };
        fs::create_dir_all(folder).map_err(|error| format!("cannot save to {}: {error}", folder.display()))
    }

    /// Saves bytes and gives the file, or nothing when nothing is to be saved.
    pub(crate) fn save(&self, bytes: &[u8], mime_type: Option<&str>) -> io::Result<Option<PathBuf>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let saved =
            fs::create_dir_all(folder).and_then(|()| self.create(folder, extension(mime_type), bytes));
        saved
            .map(Some)
            .map_err(|error| io::Error::new(error.kind(), format!("saving to {}: {error}", folder.display())))
    }

    /// The first free number. Nothing is overwritten.
    fn create(&self, folder: &Path, extension: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        for number in 1..=MOST {
            let path = folder.join(format!("{}-{number}.{extension}", self.stem));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => return file.write_all(bytes).map(|()| path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the folder is full of files of that name"))
    }
}

const MOST: u32 = 10_000;

/// The bytes of a Base64 text, or `None` if it is none.
pub(crate) fn decoded(base64: &str) -> Option<Vec<u8>> {
    STANDARD.decode(base64.trim()).ok()
}

fn extension(mime_type: Option<&str>) -> &'static str {
    let essence = mime_type.and_then(|mime| mime.split(';').next()).unwrap_or_default().trim();
    match essence.to_ascii_lowercase().as_str() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "application/json" => "json",
        "text/plain" => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ours_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let saver = Saver::new(Some(folder.path().join("out")), "../../etc/passwd");
        let first = saver.save(b"one", Some("image/PNG; q=1")).unwrap().unwrap();
        let second = saver.save(b"two", Some("image/png")).unwrap().unwrap();
        assert_eq!(first, folder.path().join("out/etc-passwd-1.png"));
        assert_eq!(second, folder.path().join("out/etc-passwd-2.png"));
        assert_eq!(fs::read(first).unwrap(), b"one");
    }

    #[test]
    fn without_a_folder_nothing_is_saved() {
        assert_eq!(Saver::new(None, "x").save(b"one", None).unwrap(), None);
    }

    #[test]
    fn base64() {
        assert_eq!(decoded("aGk="), Some(b"hi".to_vec()));
        assert_eq!(decoded("%%%"), None);
    }
}
