//! Removes drafts: a file is written under another name first, and a killed process leaves that behind.

use std::ffi::OsStr;
use std::fs::{DirEntry, Metadata};
use std::path::Path;
use std::time::Duration;

use bowline_store::private::DRAFT_EXTENSION;

/// How long a draft has not been written to before it counts as left behind. Writing one takes much less.
const MIN_STALE_AGE: Duration = Duration::from_secs(60);
/// How many random digits the name of a draft has.
const RANDOM_DIGITS: usize = 16;

/// Removes the drafts of a file that were left behind. Errors are ignored: a draft is in nobody's way.
pub(super) fn remove_stale_drafts(file: &Path) {
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if let (Some(folder), Some(stem)) = (target.parent(), target.file_stem()) {
        remove_drafts(folder, stem);
    }
}

/// Removes the drafts of new files in a folder of ours that were left behind. They are named by random digits alone.
pub(in crate::commands) fn remove_stale_drafts_in(folder: &Path) {
    remove_drafts(folder, OsStr::new(""));
}

fn remove_drafts(folder: &Path, stem: &OsStr) {
    let Ok(found) = std::fs::read_dir(folder) else { return };
    for found in found.flatten() {
        if is_draft_name(&found.file_name(), stem) && is_stale(&found) {
            let _ = std::fs::remove_file(found.path());
        }
    }
}

/// Whether a file is named as the draft of a file with this stem: `mcp.0123456789abcdef.new`.
fn is_draft_name(name: &OsStr, stem: &OsStr) -> bool {
    let (Some(name), Some(stem)) = (name.to_str(), stem.to_str()) else { return false };
    let rest = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.'));
    let random = rest.and_then(|rest| rest.strip_suffix(DRAFT_EXTENSION)?.strip_suffix('.'));
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    random.is_some_and(|random| random.len() == RANDOM_DIGITS && random.bytes().all(is_digit))
}

/// Whether this is a regular file of this user that nobody has written to for a while.
fn is_stale(found: &DirEntry) -> bool {
    let Ok(about) = found.metadata() else { return false };
    let age = about.modified().ok().and_then(|modified| modified.elapsed().ok());
    about.is_file() && is_own(&about) && age.is_some_and(|age| age > MIN_STALE_AGE)
}

#[cfg(unix)]
fn is_own(about: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(about) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_about: &Metadata) -> bool {
    true
}
