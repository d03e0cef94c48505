//! Records which project files the user trusts: the location of each file and the hash of its
//! content.
//!
//! A record is a small file in the state folder, named by a hash of the project's path, so that two
//! commands never write the same one by accident. A record with any defect grants nothing.

#[cfg(unix)]
mod ownership;
mod project_file;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bowline_store::private::replace_file;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::private_folder;
use crate::shell_quote::shell_quote;

pub use project_file::{ProjectFile, resolve_location};

/// The trust records of this user.
#[derive(Debug)]
pub struct TrustRecords {
    folder: PathBuf,
    /// The home folder, if it is known.
    home: Option<PathBuf>,
}

/// Content of a record file.
#[derive(Debug, Serialize, Deserialize)]
struct TrustRecord {
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
pub enum TrustState {
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
pub enum DistrustReason {
    /// The records do not say that it is trusted.
    State(TrustState),
    /// Others could change the file.
    FileExposed(Exposure),
    /// The file cannot be read.
    Unreadable(String),
    /// Others could have written the records, so none counts; with the fix to run.
    RecordsExposed(String),
}

/// A file that others could change or could have put where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// What is wrong, as a sentence.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

/// A record in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRow {
    /// Location of the project's file, or the record itself if that cannot be read.
    pub path: PathBuf,
    /// Whether the file still counts as trusted, in one word.
    pub state: &'static str,
}

impl TrustRecords {
    /// Opens the user's records in the state folder.
    pub fn open(state: &Path, home: Option<PathBuf>) -> Self {
        Self { folder: state.join("trust"), home }
    }

    /// Returns the folder of the records, which need not exist. It is modified with each record.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what the records say about the file.
    pub fn state_of(&self, file: &ProjectFile) -> TrustState {
        if self.exposure().is_some() {
            return TrustState::Damaged;
        }
        match read_record(&self.record_path(&file.location)) {
            Ok(Some(record)) if record.sha256 == file.sha256 => TrustState::Trusted,
            Ok(Some(_)) => TrustState::Changed,
            Ok(None) => TrustState::Unknown,
            Err(_) => TrustState::Damaged,
        }
    }

    /// Returns why no record counts, with the fix to run, if others could have written the records.
    pub fn exposure(&self) -> Option<String> {
        private_folder::check_folder(&self.folder).err().map(|error| error.to_string())
    }

    /// Records that the file is trusted with the content that was read.
    pub fn save(&self, file: &ProjectFile) -> io::Result<()> {
        private_folder::create_folder(&self.folder)?;
        let path = file.location.to_string_lossy().into_owned();
        let path_bytes =
            file.location.to_str().is_none().then(|| hex(file.location.as_os_str().as_encoded_bytes()));
        let record = TrustRecord { version: FORMAT_VERSION, path, path_bytes, sha256: file.sha256.clone() };
        replace_file(&self.record_path(&file.location), &serde_json::to_vec(&record)?)
    }

    /// Removes the record for `location`. Returns whether there was one.
    pub fn remove(&self, location: &Path) -> io::Result<bool> {
        match fs::remove_file(self.record_path(location)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists all records, sorted by path.
    pub fn list(&self) -> io::Result<Vec<TrustRow>> {
        private_folder::check_folder(&self.folder)?;
        let files = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let paths = files.take(MAX_LISTED).filter_map(|entry| Some(entry.ok()?.path()));
        let records = paths.filter(|path| path.extension().is_some_and(|is| is == EXTENSION));
        let mut listed: Vec<TrustRow> = records.map(|path| self.list_row(path)).collect();
        listed.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    fn list_row(&self, record: PathBuf) -> TrustRow {
        let Some(path) = read_record(&record).ok().flatten().and_then(TrustRecord::project_path) else {
            return TrustRow { path: record, state: "damaged" };
        };
        let state = match ProjectFile::read(&path) {
            Err(_) => "gone",
            Ok(file) => match self.state_of(&file) {
                TrustState::Trusted if file.check(self.home.as_deref()).is_err() => "unsafe",
                TrustState::Trusted => "trusted",
                _ => "changed",
            },
        };
        TrustRow { path, state }
    }

    fn record_path(&self, place: &Path) -> PathBuf {
        self.folder.join(hex_hash(place.as_os_str().as_encoded_bytes())).with_extension(EXTENSION)
    }
}

impl TrustRecord {
    /// Returns the location of the project's file, or `None` if it cannot be decoded.
    fn project_path(self) -> Option<PathBuf> {
        match self.path_bytes {
            None => Some(PathBuf::from(self.path)),
            Some(bytes) => path_of(unhex(&bytes)?),
        }
    }
}

impl DistrustReason {
    /// Describes the reason, as a phrase that follows the name of the file.
    pub fn describe(&self) -> String {
        match self {
            Self::State(TrustState::Changed) => "has changed since you trusted it".to_owned(),
            Self::State(TrustState::Damaged) => {
                "is not trusted: the record that you trusted it cannot be used".to_owned()
            }
            Self::State(TrustState::Unknown | TrustState::Trusted) => "is not trusted".to_owned(),
            Self::FileExposed(found) => format!("cannot be trusted: {}", found.problem),
            Self::Unreadable(why) => format!("cannot be read: {why}"),
            Self::RecordsExposed(_) => "is not trusted: no record of what you trust can be used".to_owned(),
        }
    }

    /// Suggests what to do, for the file at `path`.
    pub fn suggest_fix(&self, path: &Path) -> String {
        match self {
            Self::State(_) => format!(
                "it can run programs and send out your environment variables: `{}` shows what it would do, and asks you",
                trust_command(path)
            ),
            Self::FileExposed(found) => found.fix.clone(),
            Self::Unreadable(_) => "make it a readable text file, or remove it".to_owned(),
            Self::RecordsExposed(why) => why.clone(),
        }
    }
}

/// Returns the command that shows a project's file and asks whether to trust it.
pub fn trust_command(path: &Path) -> String {
    format!("bowline trust {}", shell_quote(&path.display().to_string()))
}

/// Reads a record, if it exists.
fn read_record(path: &Path) -> io::Result<Option<TrustRecord>> {
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        about => about?,
    };
    if !about.is_file() || about.len() > MAX_RECORD_SIZE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_RECORD_SIZE).read_to_end(&mut text)?;
    let record: TrustRecord = serde_json::from_slice(&text)?;
    if record.version == FORMAT_VERSION { Ok(Some(record)) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Returns the SHA-256 in hexadecimal digits.
pub fn hex_hash(bytes: &[u8]) -> String {
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

const FORMAT_VERSION: u32 = 1;
const EXTENSION: &str = "json";
/// Largest record; a path has a few thousand bytes at most.
const MAX_RECORD_SIZE: u64 = 64 * 1024;
const MAX_LISTED: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        folder: tempfile::TempDir,
        records: TrustRecords,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let records = TrustRecords { folder: folder.path().join("state").join("trust"), home: None };
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
        assert_eq!(records.state_of(&file), TrustState::Unknown);
        records.save(&file).unwrap();
        assert_eq!(records.state_of(&file), TrustState::Trusted);
        assert_eq!(records.state_of(&scene.file("a = 2")), TrustState::Changed);
        assert_eq!(records.state_of(&scene.file("a = 1")), TrustState::Trusted, "it is as it was");
        let other = folder.path().join("below").join("bowline.toml");
        fs::create_dir(other.parent().unwrap()).unwrap();
        fs::write(&other, "a = 1").unwrap();
        assert_eq!(records.state_of(&ProjectFile::read(&other).unwrap()), TrustState::Unknown);
        assert!(records.remove(&file.location).unwrap());
        assert!(!records.remove(&file.location).unwrap());
        assert_eq!(records.state_of(&file), TrustState::Unknown);
    }

    #[test]
    fn a_damaged_record_vouches_for_nothing() {
        let scene = Scene::new();
        let records = &scene.records;
        let file = scene.file("a = 1");
        records.save(&file).unwrap();
        let path = records.record_path(&file.location);
        let good = fs::read_to_string(&path).unwrap();
        let large = format!("{good}{}", " ".repeat(usize::try_from(MAX_RECORD_SIZE).unwrap()));
        for bad in ["", "{", "[]", "{\"version\":1}", &good.replace(":1,", ":2,"), &large] {
            fs::write(&path, bad).unwrap();
            assert_eq!(records.state_of(&file), TrustState::Damaged, "{bad:.40}");
            assert_eq!(records.list().unwrap()[0].state, "damaged");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(records.state_of(&file), TrustState::Damaged);
        fs::remove_dir(&path).unwrap();
        records.save(&file).unwrap();
        assert_eq!(records.state_of(&file), TrustState::Trusted);
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
        scene.records.save(&file).unwrap();
        assert_eq!(scene.records.state_of(&file), TrustState::Trusted);
        let listed = scene.records.list().unwrap();
        assert_eq!((listed[0].path.as_path(), listed.len()), (&*file.location, 1));
        assert_ne!(listed[0].state, "gone");
    }

    #[cfg(unix)]
    #[test]
    fn records_are_private_and_those_of_others_do_not_count() {
        use std::os::unix::fs::PermissionsExt as _;
        let scene = Scene::new();
        let records = &scene.records;
        let file = scene.file("a = 1");
        records.save(&file).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&records.folder), mode(&records.record_path(&file.location))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&records.folder).unwrap().count(), 1, "no draft is left");
        for shared in [records.folder.as_path(), records.folder.parent().unwrap()] {
            fs::set_permissions(shared, fs::Permissions::from_mode(0o777)).unwrap();
            assert_eq!(records.state_of(&file), TrustState::Damaged);
            assert!(records.save(&file).is_err() && records.list().is_err());
            fs::set_permissions(shared, fs::Permissions::from_mode(0o700)).unwrap();
        }
        // A link may lead to a record that somebody else wrote.
        let (record, elsewhere) =
            (records.record_path(&file.location), scene.folder.path().join("elsewhere"));
        fs::rename(&record, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &record).unwrap();
        assert_eq!(records.state_of(&file), TrustState::Damaged);
    }
}
