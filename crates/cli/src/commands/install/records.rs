//! [`InstallRecords`]: what `bowline install` has written into which file, and the file as it was before.
//! Such a file may have secrets in it, so that only the user can read the records.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use bowline_hosts::Host;
use bowline_settings::{hex_hash, private_folder, read_text_file};
use bowline_store::private::replace_file;
use serde::{Deserialize, Serialize};

use super::MAX_FILE_MEBIBYTES;
use super::drafts::remove_stale_drafts;
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// The records in the state folder: for each file of a host a record, and copies of the file. A copy is
/// named by its content, so that none takes the place of another.
pub(super) struct InstallRecords {
    folder: PathBuf,
}

/// What was written into one file of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InstallRecord {
    version: u32,
    /// The host, by its name on the command line.
    pub(super) host: String,
    /// The file, for people; it may be shown lossily.
    pub(super) path: String,
    /// The SHA-256 of the file before, in hexadecimal digits; `None` if there was no file.
    pub(super) before: Option<String>,
    /// The SHA-256 of the file with the entries.
    pub(super) after: String,
    /// The entries that were written.
    pub(super) entries: Vec<InstalledEntry>,
    /// Entries of other servers that were removed from the file `before`.
    pub(super) removed: Vec<String>,
    /// Entries of other servers that earlier installations removed, and that the file `before` does not have.
    #[serde(default)]
    pub(super) removed_earlier: Vec<RemovedServer>,
}

/// An entry of another server that was removed, and the copy of the file that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RemovedServer {
    pub(super) name: String,
    /// The SHA-256 of the copy, in hexadecimal digits.
    pub(super) backup: String,
}

/// A record, and the text of the file before; `None` if there was no file.
pub(super) type LoadedRecord = (InstallRecord, Option<String>);

/// An entry that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InstalledEntry {
    pub(super) name: String,
    /// The text that was inserted for it.
    pub(super) text: String,
}

const FORMAT_VERSION: u32 = 1;
/// How many digits of its hash the name of a copy has.
const BACKUP_NAME_DIGITS: usize = 16;

impl InstallRecords {
    pub(super) fn open(settings: &Settings) -> Outcome<Self> {
        let state = settings.state().ok_or_else(|| {
            Failure::usage("there is no private folder for a copy of the file; nothing was changed")
        })?;
        Ok(Self { folder: state.join("installs") })
    }

    /// Returns the record for a file, and the text of the file before. A damaged record counts as none:
    /// entries are found without it.
    pub(super) fn load(&self, file: &Path) -> Option<LoadedRecord> {
        private_folder::check_folder(&self.folder).ok()?;
        let text = read_text_file(&self.record_path(file), MAX_FILE_MEBIBYTES).ok()?;
        let record: InstallRecord = serde_json::from_str(&text).ok()?;
        if record.version != FORMAT_VERSION {
            return None;
        }
        let backup = match &record.before {
            Some(before) => Some(self.read_backup(file, before)?),
            None => None,
        };
        Some((record, backup))
    }

    /// Returns the copy of a file that has this hash, unless it is damaged.
    pub(super) fn read_backup(&self, file: &Path, hash: &str) -> Option<String> {
        let text = read_text_file(&self.backup_path(file, hash), MAX_FILE_MEBIBYTES).ok()?;
        (hex_hash(text.as_bytes()) == hash).then_some(text)
    }

    /// Records what is about to be written, with the text of the file before. Earlier copies stay.
    pub(super) fn save(&self, file: &Path, record: &InstallRecord, before: Option<&str>) -> Outcome<()> {
        let failed = |error: io::Error| {
            let why = env::describe_io_error(&error);
            Failure::usage(format!("no copy of {} can be kept ({why}); nothing was changed", file.display()))
        };
        private_folder::create_folder(&self.folder).map_err(failed)?;
        if let (Some(hash), Some(before)) = (&record.before, before)
            && self.read_backup(file, hash).is_none()
        {
            write_synced(&self.backup_path(file, hash), before.as_bytes()).map_err(failed)?;
        }
        let text = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        write_synced(&self.record_path(file), &text).map_err(failed)
    }

    /// Removes the record for a file, if there is one, and the copies that it names.
    pub(super) fn remove(&self, file: &Path, record: Option<&InstallRecord>) {
        // One that stays is not used: the hash of the file has changed.
        let _ = std::fs::remove_file(self.record_path(file));
        if let Some(record) = record {
            self.remove_unused_backups(file, record, None);
        }
    }

    /// Removes the copies that `old` names and the record that is in use does not.
    pub(super) fn remove_unused_backups(
        &self,
        file: &Path,
        old: &InstallRecord,
        in_use: Option<&InstallRecord>,
    ) {
        for hash in old.backups() {
            if !in_use.is_some_and(|record| record.backups().any(|used| used == hash)) {
                let _ = std::fs::remove_file(self.backup_path(file, hash));
            }
        }
    }

    /// Removes what a killed process has left of a record or a copy that it was writing.
    pub(super) fn remove_stale_drafts(&self, file: &Path) {
        remove_stale_drafts(&self.record_path(file));
    }

    /// Returns the copy of a file as it was before the recorded installation.
    pub(super) fn find_backup(&self, file: &Path) -> Option<PathBuf> {
        let (record, _) = self.load(file)?;
        record.before.map(|hash| self.backup_path(file, &hash))
    }

    /// The place for the copy of a file that has this hash.
    pub(super) fn backup_path(&self, file: &Path, hash: &str) -> PathBuf {
        // The hash may be from a damaged record.
        let digits: String = hash.chars().filter(char::is_ascii_hexdigit).take(BACKUP_NAME_DIGITS).collect();
        self.path_for(file, &format!("backup-{digits}"))
    }

    fn record_path(&self, file: &Path) -> PathBuf {
        self.path_for(file, "json")
    }

    fn path_for(&self, file: &Path, extension: &str) -> PathBuf {
        let name = hex_hash(resolve_file(file).as_os_str().as_encoded_bytes());
        self.folder.join(name).with_extension(extension)
    }
}

impl InstallRecord {
    pub(super) fn new(host: Host, file: &Path, before: Option<&str>, after: &str) -> Self {
        Self {
            version: FORMAT_VERSION,
            host: host.id().to_owned(),
            path: file.to_string_lossy().into_owned(),
            before: before.map(|before| hex_hash(before.as_bytes())),
            after: hex_hash(after.as_bytes()),
            entries: Vec::new(),
            removed: Vec::new(),
            removed_earlier: Vec::new(),
        }
    }

    /// Returns the entries of other servers that this and earlier installations removed.
    pub(super) fn all_removed(&self) -> Vec<RemovedServer> {
        let backup = self.before.clone().unwrap_or_default();
        let latest = self.removed.iter().cloned();
        let latest = latest.map(|name| RemovedServer { name, backup: backup.clone() });
        latest.chain(self.removed_earlier.iter().cloned()).collect()
    }

    /// Returns the record that is kept for entries that could not be put back; `None` if there are none.
    pub(super) fn keep_for(&self, missing: Vec<RemovedServer>) -> Option<Self> {
        if missing.is_empty() {
            return None;
        }
        let mut kept = self.clone();
        kept.entries.clear();
        kept.removed.clear();
        kept.removed_earlier = missing;
        Some(kept)
    }

    /// The hashes of the copies that this record needs.
    fn backups(&self) -> impl Iterator<Item = &str> {
        let earlier = self.removed_earlier.iter().map(|removed| removed.backup.as_str());
        self.before.as_deref().into_iter().chain(earlier)
    }

    /// Whether this is the file that was written.
    pub(super) fn wrote(&self, text: &str) -> bool {
        self.after == hex_hash(text.as_bytes())
    }
}

/// Writes a file that has to outlive a power loss: what is in a copy may be nowhere else.
fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_file(path, content)?;
    OpenOptions::new().write(true).open(path)?.sync_all()
}

/// The absolute path of a file without symbolic links. The file, and folders above it, need not exist.
fn resolve_file(file: &Path) -> PathBuf {
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    for folder in whole.ancestors() {
        if let Ok(real) = folder.canonicalize() {
            let below = whole.strip_prefix(folder).unwrap_or(Path::new(""));
            return if below.as_os_str().is_empty() { real } else { real.join(below) };
        }
    }
    whole
}
