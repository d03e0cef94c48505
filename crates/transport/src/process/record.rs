//! Records: small files that describe running servers to our other processes.
//!
//! There is one file per server process, named by its mark, in a folder that the caller chose. A
//! record is evidence, not a command: whoever acts on one checks it against the process table. It
//! contains no command line and no environment variable, which can hold secrets.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::mark::Mark;
use super::table::{ProcessIdentity, current_session, identify, pid_scope};

/// The content of a record file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// Scope in which the process ids below are valid: see [`pid_scope`].
    place: String,
    pub(super) mark: Mark,
    /// Name of the server.
    pub(super) server: String,
    /// The server process, which leads a group of the same number.
    pub(super) leader: ProcessIdentity,
    /// The process that started the server.
    pub(super) owner: ProcessIdentity,
    /// Start of the server, in seconds since 1970.
    started: u64,
    /// Session in which the server was started. Older versions did not record it.
    #[serde(default)]
    pub(super) session: Option<u32>,
}

/// The file of a running server. Dropping it removes the file, unless it was
/// [kept](RecordFile::keep).
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    is_kept: bool,
}

/// A file in the folder of records, and its content.
#[derive(Debug)]
pub(super) struct StoredRecord {
    pub(super) path: PathBuf,
    /// `None` if it cannot be judged here: written on another machine, by another version, or
    /// broken.
    pub(super) record: Option<Record>,
}

const VERSION: u32 = 1;
/// Largest record file that is read.
const MAX_RECORD_BYTES: u64 = 16 * 1024;
/// How many files of the folder are read at once.
const MAX_RECORD_FILES: usize = 10_000;
/// How much of the name of a server is recorded.
const MAX_SERVER_NAME_CHARS: usize = 256;
/// Age after which a file that cannot be judged has surely outlived its process.
const RECORD_EXPIRY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Record {
    /// Writes the record of a server that we just started.
    pub(super) fn write(folder: &Path, server: &str, pid: u32, mark: &Mark) -> io::Result<RecordFile> {
        let record = Self {
            version: VERSION,
            place: pid_scope()?,
            mark: mark.clone(),
            server: server.chars().take(MAX_SERVER_NAME_CHARS).collect(),
            leader: identify(pid)?,
            owner: identify(std::process::id())?,
            started: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs(),
            session: current_session(),
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        check_folder(folder)?;
        let path = folder.join(format!("{mark}.json"));
        // Written under another name first, so that nobody reads half a record.
        let draft = folder.join(format!("{mark}.new"));
        let written =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(|mut file| {
                file.write_all(&serde_json::to_vec(&record)?)?;
                fs::rename(&draft, &path)
            });
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        Ok(RecordFile { path, is_kept: false })
    }

    /// When the server was started.
    pub(super) fn started(&self) -> SystemTime {
        let since = Duration::from_secs(self.started);
        SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// Reads all records of a folder. A missing folder is empty.
pub(super) fn read_folder(folder: &Path) -> io::Result<Vec<StoredRecord>> {
    match check_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        checked => checked?,
    }
    let here = pid_scope()?;
    let paths = fs::read_dir(folder)?.take(MAX_RECORD_FILES).filter_map(|entry| Some(entry.ok()?.path()));
    let paths = paths.filter(|path| path.extension().is_some_and(|is| is == "json" || is == "new"));
    Ok(paths.map(|path| StoredRecord { record: load_record(&path, &here), path }).collect())
}

fn load_record(path: &Path, here: &str) -> Option<Record> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    // A symbolic link must not redirect the read, and a FIFO must not block it.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != geteuid().as_raw() || metadata.len() > MAX_RECORD_BYTES {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    let record: Record = serde_json::from_slice(&text).ok()?;
    // One mark has one file, so that no file can speak for the server of another.
    (record.version == VERSION && record.mark.as_str() == name && record.place == here).then_some(record)
}

/// Refuses a folder that other users can write to: its records would prove nothing.
fn check_folder(folder: &Path) -> io::Result<()> {
    let metadata = fs::metadata(folder)?;
    if !metadata.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        let text = "the folder of records belongs to somebody else, or others can write to it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

// === impl RecordFile ===

impl RecordFile {
    /// Keeps the file on disk, for a later sweep.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

// === impl Found ===

impl StoredRecord {
    /// Removes the file.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Whether it cannot be judged and is older than [`RECORD_EXPIRY`].
    pub(super) fn is_expired(&self) -> bool {
        let written = fs::symlink_metadata(&self.path).and_then(|metadata| metadata.modified());
        self.record.is_none()
            && written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age > RECORD_EXPIRY))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write_record(folder: &Path) -> (RecordFile, Mark) {
        let mark = Mark::new();
        let file = Record::write(folder, "files", std::process::id(), &mark).unwrap();
        (file, mark)
    }

    #[test]
    fn a_record_reads_back_and_is_nobody_elses_business() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state/processes");
        let (file, mark) = write_record(&folder);
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);

        let found = read_folder(&folder).unwrap();
        assert_eq!(found.len(), 1);
        let record = found[0].record.as_ref().unwrap();
        assert_eq!((&record.mark, &*record.server), (&mark, "files"));
        assert_eq!(record.owner, identify(std::process::id()).unwrap());
        assert!(record.started().elapsed().unwrap() < Duration::from_secs(60));

        drop(file);
        assert!(read_folder(&folder).unwrap().is_empty());
    }

    #[test]
    fn forged_records_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let (file, mark) = write_record(folder.path());
        let good = fs::read_to_string(&file.path).unwrap();
        let other = Mark::new();
        let believed = |text: &str| {
            fs::write(&file.path, text).unwrap();
            read_folder(folder.path()).unwrap()[0].record.is_some()
        };
        assert!(believed(&good));
        for bad in [
            String::new(),
            good[..good.len() - 1].to_owned(),
            good.replace(mark.as_str(), other.as_str()),
            good.replace(mark.as_str(), "*"),
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("\"place\":\"", "\"place\":\"x"),
            good.replace("\"pid\":", "\"pid\":-"),
            format!("{good}{}", " ".repeat(20_000)),
        ] {
            assert_ne!(bad, good);
            assert!(!believed(&bad), "{bad}");
        }
    }

    #[test]
    fn links_and_pipes_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let (file, mark) = write_record(elsewhere.path());
        std::os::unix::fs::symlink(&file.path, folder.path().join(format!("{mark}.json"))).unwrap();
        let pipe = folder.path().join(format!("{}.json", Mark::new()));
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        let found = read_folder(folder.path()).unwrap();
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|found| found.record.is_none() && !found.is_expired()));
    }

    #[test]
    fn a_folder_that_others_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(read_folder(folder.path()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let written = Record::write(folder.path(), "files", std::process::id(), &Mark::new());
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(read_folder(&folder.path().join("missing")).unwrap().is_empty());
    }

    #[test]
    fn unreadable_records_expire() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{}.new", Mark::new()));
        let file = File::create(&path).unwrap();
        assert!(!read_folder(folder.path()).unwrap()[0].is_expired());
        file.set_modified(SystemTime::now() - 2 * RECORD_EXPIRY).unwrap();
        assert!(read_folder(folder.path()).unwrap()[0].is_expired());
    }
}
