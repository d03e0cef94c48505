//! [`InstallRecords`]: what `bowline install` has written into which file, and the file as it was before.
//! Such a file may have secrets in it, so that only the user can read the records.

use std::io;
use std::path::{Path, PathBuf};

use bowline_hosts::Host;
use bowline_settings::{hex_hash, private_folder, read_text_file};
use bowline_store::private::replace_file;
use serde::{Deserialize, Serialize};

use super::MAX_FILE_MEBIBYTES;
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// The records in the state folder, two files for each file of a host.
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
    /// Entries of other servers that were removed.
    pub(super) removed: Vec<String>,
}

/// An entry that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InstalledEntry {
    pub(super) name: String,
    /// The text that was inserted for it.
    pub(super) text: String,
}

const FORMAT_VERSION: u32 = 1;

impl InstallRecords {
    pub(super) fn open(settings: &Settings) -> Outcome<Self> {
        let state = settings.state().ok_or_else(|| {
            Failure::usage("there is no private folder for a copy of the file; nothing was changed")
        })?;
        Ok(Self { folder: state.join("installs") })
    }

    /// Returns the record for a file, and the text of the file before. A damaged record counts as none:
    /// entries are found without it.
    pub(super) fn load(&self, file: &Path) -> Option<(InstallRecord, Option<String>)> {
        private_folder::check_folder(&self.folder).ok()?;
        let text = read_text_file(&self.record_path(file), MAX_FILE_MEBIBYTES).ok()?;
        let record: InstallRecord = serde_json::from_str(&text).ok()?;
        if record.version != FORMAT_VERSION {
            return None;
        }
        let Some(before) = &record.before else { return Some((record, None)) };
        let backup = read_text_file(&self.backup_path(file), MAX_FILE_MEBIBYTES).ok()?;
        (hex_hash(backup.as_bytes()) == *before).then_some((record, Some(backup)))
    }

    /// Records what is about to be written, with the text of the file before.
    pub(super) fn save(&self, file: &Path, record: &InstallRecord, before: Option<&str>) -> Outcome<()> {
        let failed = |error: io::Error| {
            let why = env::describe_io_error(&error);
            Failure::usage(format!("no copy of {} can be kept ({why}); nothing was changed", file.display()))
        };
        private_folder::create_folder(&self.folder).map_err(failed)?;
        if let Some(before) = before {
            replace_file(&self.backup_path(file), before.as_bytes()).map_err(failed)?;
        }
        let record = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        replace_file(&self.record_path(file), &record).map_err(failed)
    }

    /// Removes the record for a file, if there is one.
    pub(super) fn remove(&self, file: &Path) {
        // One that stays is not used: the hash of the file has changed.
        let _ = std::fs::remove_file(self.record_path(file));
        let _ = std::fs::remove_file(self.backup_path(file));
    }

    /// The copy of a file as it was before.
    pub(super) fn backup_path(&self, file: &Path) -> PathBuf {
        self.path_for(file, "backup")
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
        }
    }

    /// Whether this is the file that was written.
    pub(super) fn wrote(&self, text: &str) -> bool {
        self.after == hex_hash(text.as_bytes())
    }
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
