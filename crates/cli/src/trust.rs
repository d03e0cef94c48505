//! Records which project files the user trusts: the location of each file and the hash of its
//! content.
//!
//! A record is a small file in the state folder, named by a hash of the project's path, so that two
//! commands never write the same one by accident. A record with any defect grants nothing.

mod file;
#[cfg(unix)]
mod guard;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bowline::auth::store::private::replace_file;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::again;
use crate::env;
use crate::private;
use crate::settings::Settings;

pub(crate) use file::{ProjectFile, place};

/// The trust records of this user.
pub(crate) struct Records {
    folder: PathBuf,
    /// The home folder, if it is known.
    home: Option<PathBuf>,
}

/// Content of a record file.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u32,
    /// Location of the project's file, for display; the name of the record file decides.
    path: String,
    /// The bytes of that path in hexadecimal digits, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    /// SHA-256 of the file, in hexadecimal digits.
    sha256: String,
}

/// What the records say about a project's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The user trusts exactly this content.
    Trusted,
    /// The user trusted other content at this location.
    Changed,
    /// The record cannot be read.
    Damaged,
    /// There is no record.
    Unknown,
}

/// Why a project's file is not used.
#[derive(Debug)]
pub(crate) enum Distrust {
    /// The records do not say that it is trusted.
    Standing(Standing),
    /// Others could change the file.
    Unsafe(Exposure),
    /// The file cannot be read.
    Unreadable(String),
    /// Others could have written the records, so none counts; with the fix to run.
    Exposed(String),
}

/// A file that others could change or could have put where it is.
#[cfg_attr(not(unix), expect(dead_code, reason = "owners are not looked at there"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exposure {
    /// What is wrong, as a sentence.
    pub(crate) what: String,
    /// How to fix it.
    pub(crate) next: String,
}

/// A record in the list.
pub(crate) struct TrustEntry {
    /// Location of the project's file, or the record itself if that cannot be read.
    pub(crate) path: PathBuf,
    /// Current state of the trust.
    pub(crate) state: &'static str,
}

impl Records {
    /// Opens the user's records, or returns `None` if there is no state folder.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        let home = env::home(&*settings.env);
        settings.state().map(|state| Self { folder: state.join("trust"), home })
    }

    /// Returns what the records say about the file.
    pub(crate) fn standing(&self, file: &ProjectFile) -> Standing {
        if self.exposure().is_some() {
            return Standing::Damaged;
        }
        match read(&self.record(&file.place)) {
            Ok(Some(record)) if record.sha256 == file.sha256 => Standing::Trusted,
            Ok(Some(_)) => Standing::Changed,
            Ok(None) => Standing::Unknown,
            Err(_) => Standing::Damaged,
        }
    }

    /// Returns why no record counts, with the fix to run, if others could have written the records.
    pub(crate) fn exposure(&self) -> Option<String> {
        private::check(&self.folder).err().map(|error| error.to_string())
    }

    /// Records that the file is trusted with the content that was read.
    pub(crate) fn keep(&self, file: &ProjectFile) -> io::Result<()> {
        private::folder(&self.folder)?;
        let path = file.place.to_string_lossy().into_owned();
        let path_bytes =
            file.place.to_str().is_none().then(|| hex(file.place.as_os_str().as_encoded_bytes()));
        let record = Record { version: VERSION, path, path_bytes, sha256: file.sha256.clone() };
        replace_file(&self.record(&file.place), &serde_json::to_vec(&record)?)
    }

    /// Removes the record for `location`. Returns whether there was one.
    pub(crate) fn forget(&self, place: &Path) -> io::Result<bool> {
        match fs::remove_file(self.record(place)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists all records, sorted by path.
    pub(crate) fn list(&self) -> io::Result<Vec<TrustEntry>> {
        private::check(&self.folder)?;
        let files = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let paths = files.take(MAX_LISTED).filter_map(|entry| Some(entry.ok()?.path()));
        let records = paths.filter(|path| path.extension().is_some_and(|is| is == EXTENSION));
        let mut listed: Vec<TrustEntry> = records.map(|path| self.listed(path)).collect();
        listed.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    fn listed(&self, record: PathBuf) -> TrustEntry {
        let Some(path) = read(&record).ok().flatten().and_then(Record::place) else {
            return TrustEntry { path: record, state: "damaged" };
        };
        let state = match ProjectFile::read(&path) {
            Err(_) => "gone",
            Ok(file) => match self.standing(&file) {
                Standing::Trusted if file.check(self.home.as_deref()).is_err() => "unsafe",
                Standing::Trusted => "trusted",
                _ => "changed",
            },
        };
        TrustEntry { path, state }
    }

    fn record(&self, place: &Path) -> PathBuf {
        self.folder.join(hex_hash(place.as_os_str().as_encoded_bytes())).with_extension(EXTENSION)
    }
}

impl Record {
    /// Returns the location of the project's file, or `None` if it cannot be decoded.
    fn place(self) -> Option<PathBuf> {
        match self.path_bytes {
            None => Some(PathBuf::from(self.path)),
            Some(bytes) => path_of(unhex(&bytes)?),
        }
    }
}

impl Distrust {
    /// Describes the reason, as a phrase that follows the name of the file.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Standing(Standing::Changed) => "has changed since you trusted it".to_owned(),
            Self::Standing(Standing::Damaged) => {
                "is not trusted: the record that you trusted it cannot be used".to_owned()
            }
            Self::Standing(Standing::Unknown | Standing::Trusted) => "is not trusted".to_owned(),
            Self::Unsafe(found) => format!("cannot be trusted: {}", found.what),
            Self::Unreadable(why) => format!("cannot be read: {why}"),
            Self::Exposed(_) => "is not trusted: no record of what you trust can be used".to_owned(),
        }
    }

    /// Suggests what to do, for the file at `path`.
    pub(crate) fn next(&self, path: &Path) -> String {
        match self {
            Self::Standing(_) => format!(
                "it can start programs and send your variables away: `{}` shows what it would do, and asks you",
                command(path)
            ),
            Self::Unsafe(found) => found.next.clone(),
            Self::Unreadable(_) => "make it a text that you can read, or take it away".to_owned(),
            Self::Exposed(why) => why.clone(),
        }
    }
}

/// Returns the command that trusts a file.
pub(crate) fn command(path: &Path) -> String {
    format!("bowline trust {}", again::quoted(&path.display().to_string()))
}

/// Reads a record, if it exists.
fn read(path: &Path) -> io::Result<Option<Record>> {
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        about => about?,
    };
    if !about.is_file() || about.len() > MAX_RECORD_SIZE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_RECORD_SIZE).read_to_end(&mut text)?;
    let record: Record = serde_json::from_slice(&text)?;
    if record.version == VERSION { Ok(Some(record)) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Returns the SHA-256 in hexadecimal digits.
fn hex_hash(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a string");
        hex
    })
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..digits.len()).step_by(2).map(pair).collect()
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere not all bytes are a path")]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    Some(PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes)))
}

/// Without unsafe code, other systems cannot build a path that is not UTF-8 from bytes.
#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

const VERSION: u32 = 1;
const EXTENSION: &str = "json";
/// Largest record; a path has a few thousand bytes at most.
const MAX_RECORD_SIZE: u64 = 64 * 1024;
const MAX_LISTED: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        folder: tempfile::TempDir,
        records: Records,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let records = Records { folder: folder.path().join("state").join("trust"), home: None };
            Self { folder, records }
        }

        fn file(&self, text: &str) -> ProjectFile {
            let path = self.folder.path().join("bowline.toml");
            fs::write(&path, text).unwrap();
            ProjectFile::read(&path).unwrap()
        }
    }

    #[test]
    fn a_record_is_for_one_content_at_one_place() {
        let scene = Scene::new();
        let Scene { records, folder } = &scene;
        let file = scene.file("a = 1");
        assert_eq!(records.standing(&file), Standing::Unknown);
        records.keep(&file).unwrap();
        assert_eq!(records.standing(&file), Standing::Trusted);
        assert_eq!(records.standing(&scene.file("a = 2")), Standing::Changed);
        assert_eq!(records.standing(&scene.file("a = 1")), Standing::Trusted, "it is as it was");
        let other = folder.path().join("below").join("bowline.toml");
        fs::create_dir(other.parent().unwrap()).unwrap();
        fs::write(&other, "a = 1").unwrap();
        assert_eq!(records.standing(&ProjectFile::read(&other).unwrap()), Standing::Unknown);
        assert!(records.forget(&file.place).unwrap());
        assert!(!records.forget(&file.place).unwrap());
        assert_eq!(records.standing(&file), Standing::Unknown);
    }

    #[test]
    fn a_damaged_record_vouches_for_nothing() {
        let scene = Scene::new();
        let records = &scene.records;
        let file = scene.file("a = 1");
        records.keep(&file).unwrap();
        let path = records.record(&file.place);
        let good = fs::read_to_string(&path).unwrap();
        let large = format!("{good}{}", " ".repeat(usize::try_from(MAX_RECORD_SIZE).unwrap()));
        for bad in ["", "{", "[]", "{\"version\":1}", &good.replace(":1,", ":2,"), &large] {
            fs::write(&path, bad).unwrap();
            assert_eq!(records.standing(&file), Standing::Damaged, "{bad:.40}");
            assert_eq!(records.list().unwrap()[0].state, "damaged");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(records.standing(&file), Standing::Damaged);
        fs::remove_dir(&path).unwrap();
        records.keep(&file).unwrap();
        assert_eq!(records.standing(&file), Standing::Trusted);
    }

    /// macOS has no such file names.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_path_that_is_no_text_is_listed_as_it_is() {
        use std::os::unix::ffi::OsStrExt as _;
        let scene = Scene::new();
        let folder = scene.folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("bowline.toml");
        fs::write(&path, "a = 1").unwrap();
        let file = ProjectFile::read(&path).unwrap();
        scene.records.keep(&file).unwrap();
        assert_eq!(scene.records.standing(&file), Standing::Trusted);
        let listed = scene.records.list().unwrap();
        assert_eq!((listed[0].path.as_path(), listed.len()), (&*file.place, 1));
        assert_ne!(listed[0].state, "gone");
    }

    #[cfg(unix)]
    #[test]
    fn records_are_private_and_those_of_others_do_not_count() {
        use std::os::unix::fs::PermissionsExt as _;
        let scene = Scene::new();
        let records = &scene.records;
        let file = scene.file("a = 1");
        records.keep(&file).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&records.folder), mode(&records.record(&file.place))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&records.folder).unwrap().count(), 1, "no draft is left");
        for shared in [records.folder.as_path(), records.folder.parent().unwrap()] {
            fs::set_permissions(shared, fs::Permissions::from_mode(0o777)).unwrap();
            assert_eq!(records.standing(&file), Standing::Damaged);
            assert!(records.keep(&file).is_err() && records.list().is_err());
            fs::set_permissions(shared, fs::Permissions::from_mode(0o700)).unwrap();
        }
        // A link may lead to a record that somebody else wrote.
        let (record, elsewhere) = (records.record(&file.place), scene.folder.path().join("elsewhere"));
        fs::rename(&record, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &record).unwrap();
        assert_eq!(records.standing(&file), Standing::Damaged);
    }
}
