//! A cache of negotiation records in a folder: one small file per server, readable by its owner
//! only.
//!
//! Any number of processes share a folder. A file is replaced as a whole, so the last writer wins
//! and readers never see half a file. An unusable file counts as absent and is replaced by the next
//! record.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bowline_proto::revision::Revision;
use bowline_store::private;
use serde::{Deserialize, Serialize};

use super::{MAX_AGE, MAX_SERVERS, NegotiationCache, NegotiationRecord, ServerKey, TransportKind};

/// A [`NegotiationCache`] in a folder. It contains no secrets and may be deleted at any time.
#[derive(Clone, Debug)]
pub struct FolderCache {
    folder: PathBuf,
}

/// The contents of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u32,
    revision: String,
    transport: Transport,
    /// When the server was probed, in seconds since 1970.
    asked_at: u64,
}

/// A [`TransportKind`] in the file format.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Transport {
    Stdio,
    Http,
    Sse,
}

impl FolderCache {
    /// Uses this folder, which is created when needed.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn path(&self, server: &ServerKey) -> PathBuf {
        self.folder.join(format!("{server}.{EXTENSION}"))
    }

    fn write(&self, server: &ServerKey, record: &Record) -> io::Result<()> {
        private::create_folder(&self.folder)?;
        let path = self.path(server);
        let is_new = !path.exists();
        private::replace_file(&path, &serde_json::to_vec(record)?)?;
        if is_new {
            self.prune()?;
        }
        Ok(())
    }

    /// Deletes files older than [`MAX_AGE`], drafts of killed processes, and the oldest files
    /// beyond [`MAX_SERVERS`]. Other files are left alone.
    fn prune(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut kept = Vec::new();
        for file in fs::read_dir(&self.folder)?.take(MAX_FILES) {
            let file = file?;
            let path = file.path();
            let Some(limit) = age_limit(&path) else { continue };
            // Another process may delete it at the same time.
            let Ok(written) = file.metadata().and_then(|about| about.modified()) else { continue };
            if now.duration_since(written).is_ok_and(|age| age > limit) {
                let _ = fs::remove_file(path);
            } else {
                kept.push((written, path));
            }
        }
        kept.sort_unstable();
        for (_, path) in kept.iter().take(kept.len().saturating_sub(MAX_SERVERS)) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }
}

impl NegotiationCache for FolderCache {
    fn recall(&self, server: &ServerKey) -> Option<NegotiationRecord> {
        read(&self.path(server))?.to_negotiation_record(SystemTime::now(), MAX_AGE)
    }

    fn record(&self, server: &ServerKey, finding: NegotiationRecord) {
        let now = SystemTime::now();
        // A fresh record is not written again, since every command may get here.
        let known =
            read(&self.path(server)).and_then(|record| record.to_negotiation_record(now, MAX_AGE / 2));
        if known == Some(finding) {
            return;
        }
        if let Err(error) = self.write(server, &Record::new(finding, now)) {
            tracing::debug!(%error, "what a server speaks could not be recorded");
        }
    }

    fn forget(&self, server: &ServerKey) {
        match fs::remove_file(self.path(server)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::debug!(%error, "a record of what a server speaks could not be deleted");
            }
            _ => {}
        }
    }
}

impl Record {
    fn new(finding: NegotiationRecord, now: SystemTime) -> Self {
        Self {
            version: VERSION,
            revision: finding.revision.as_str().to_owned(),
            transport: match finding.transport {
                TransportKind::Pipe => Transport::Stdio,
                TransportKind::Http => Transport::Http,
                TransportKind::EventStream => Transport::Sse,
            },
            asked_at: now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs(),
        }
    }

    /// The record, unless it is older than `limit`, in the future, or of a later version.
    fn to_negotiation_record(&self, now: SystemTime, limit: Duration) -> Option<NegotiationRecord> {
        let asked_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.asked_at))?;
        let is_fresh = match now.duration_since(asked_at) {
            Ok(age) => age < limit,
            Err(ahead) => ahead.duration() < CLOCK_SKEW,
        };
        let carrier = match self.transport {
            Transport::Stdio => TransportKind::Pipe,
            Transport::Http => TransportKind::Http,
            Transport::Sse => TransportKind::EventStream,
        };
        let revision = Revision::parse(&self.revision)?;
        (is_fresh && self.version == VERSION).then(|| NegotiationRecord::new(revision, carrier))
    }
}

/// Reads a file, if it is a valid record. Links and pipes are not followed.
fn read(path: &Path) -> Option<Record> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_SIZE).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// How long a file of this cache may stay; `None` for other files.
fn age_limit(path: &Path) -> Option<Duration> {
    match path.extension()?.to_str()? {
        EXTENSION => Some(MAX_AGE),
        private::DRAFT_EXTENSION => Some(MAX_DRAFT_AGE),
        _ => None,
    }
}

const VERSION: u32 = 1;
const EXTENSION: &str = "json";
/// Maximum number of bytes read of a file; a record has about a tenth of that.
const MAX_FILE_SIZE: u64 = 1024;
/// Maximum number of files examined at once; the rest is examined later.
const MAX_FILES: usize = 4 * MAX_SERVERS;
/// A draft that is older was abandoned.
const MAX_DRAFT_AGE: Duration = Duration::from_secs(60);
/// Maximum time that a record may be ahead of the local clock.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
