//! [`SessionFolder`]: the files of sessions, for one thread at a time.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bowline_server::StoredSession;
use bowline_store::{NonceSource, SealKey, StoreError, private};

use super::format::{self, Content, END_OFFSET, Frame, HEADER_LENGTH};
use super::owner::Owner;

/// The files of sessions.
#[derive(Debug)]
pub(super) struct SessionFolder {
    folder: PathBuf,
    key: SealKey,
    nonces: NonceSource,
    owner: Owner,
    /// Files that were used lately, by the name of their session.
    open: HashMap<Box<str>, OpenFile>,
    /// Counts uses of files.
    uses: u64,
}

/// A file that frames are appended to.
#[derive(Debug)]
struct OpenFile {
    file: File,
    length: u64,
    last_use: u64,
}

/// Most files that are kept open. To open one takes several times as long as a write, and a process has often no more
/// than 1,024.
const MAX_OPEN_FILES: usize = 256;
/// The length at which the oldest entries of a file are dropped, in bytes.
const MAX_FILE_LENGTH: u64 = 8 * 1024 * 1024;
/// More bytes than a frame adds to an entry.
pub(super) const MAX_FRAME_OVERHEAD: u64 = 256;
/// How long the file of a session is kept after its end. While a machine sleeps, its sessions are not
/// renewed, and are wanted again when it wakes up.
const SWEEP_DELAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// How long a draft that was not finished may be one that is being written.
const DRAFT_TIME: Duration = Duration::from_secs(60 * 60);

impl SessionFolder {
    pub(super) fn open(folder: &Path) -> Result<Self, StoreError> {
        let failed = |error: io::Error| {
            StoreError::Unavailable(format!("{} cannot be used: {error}", folder.display()))
        };
        private::create_folder(folder).map_err(failed)?;
        let key = SealKey::load_or_create(&folder.join("key"))?;
        let owner = Owner::create(folder.join("owners")).map_err(failed)?;
        let nonces = NonceSource::default();
        Ok(Self { folder: folder.to_owned(), key, nonces, owner, open: HashMap::new(), uses: 0 })
    }

    /// The key of the folder.
    pub(super) fn key(&self) -> &SealKey {
        &self.key
    }

    /// Saves the record of a session, whose file is created if need be.
    pub(super) fn save(&mut self, name: &str, record: &[u8], lifetime: Duration) -> Result<(), StoreError> {
        if let Some(is_written) = self.write(name, [Frame::Record(record)]).transpose() {
            return is_written.and_then(|()| self.touch(name, lifetime));
        }
        self.repair()?;
        let content = Content { ends: format::end_of(lifetime), ..Content::default() };
        self.create(name, &content, record)
    }

    /// Appends entries to the journal of a session that has a record, with one write. If it fails, none of them is
    /// there.
    pub(super) fn append<'a>(
        &mut self,
        name: &str,
        entries: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), StoreError> {
        let written = self.write(name, entries.into_iter().map(Frame::Entry))?;
        written.ok_or_else(|| StoreError::Unavailable("the session has no file".to_owned()))
    }

    /// How many bytes of entries can be appended to the journal of a session with one write to a file that is open,
    /// if each of them is as much longer as [`MAX_FRAME_OVERHEAD`] says. `None` if the file is not open.
    pub(super) fn room(&self, name: &str) -> Option<u64> {
        self.open.get(name).map(|open| MAX_FILE_LENGTH.saturating_sub(open.length))
    }

    /// Lets the lifetime of a session begin anew.
    pub(super) fn touch(&self, name: &str, lifetime: Duration) -> Result<(), StoreError> {
        let path = self.path(name);
        let touched = OpenOptions::new().write(true).open(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(END_OFFSET))?;
            file.write_all(&format::end_of(lifetime).to_le_bytes())
        });
        ignore_missing(touched).map_err(|error| failure(&self.folder, &error))
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), StoreError> {
        self.open.remove(name);
        let path = self.path(name);
        ignore_missing(fs::remove_file(&path)).map_err(|error| failure(&self.folder, &error))
    }

    /// Loads a session that no other process serves, if its record is accepted. From here on this one
    /// does.
    pub(super) fn load(
        &mut self,
        name: &str,
        accepts: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<StoredSession>, StoreError> {
        let path = self.path(name);
        let failed = |error: io::Error| failure(&self.folder, &error);
        if !path.exists() {
            return Ok(None);
        }
        self.owner.repair().map_err(failed)?;
        // Two processes must not both find that nobody has the session.
        let _turn = self.owner.take_turn().map_err(failed)?;
        let Some(bytes) = read_file(&path).map_err(failed)? else { return Ok(None) };
        let Some(content) = format::read(&bytes, &self.key, name) else { return Ok(None) };
        if content.ends <= format::now_ms()
            || content.owner.is_some_and(|owner| self.owner.is_other_alive(owner))
        {
            return Ok(None);
        }
        let Some(record) = content.record.filter(|record| accepts(record)) else { return Ok(None) };
        if content.length < bytes.len() {
            // Whatever follows damage could not be read.
            let cut = OpenOptions::new().write(true).open(&path);
            cut.and_then(|file| file.set_len(content.length as u64)).map_err(failed)?;
        }
        self.open.remove(name);
        self.write(name, [Frame::Owner(self.owner.id)])?;
        Ok(Some(StoredSession { record, journal: content.entries }))
    }

    /// Lets other processes have the sessions.
    pub(super) fn release(&mut self) {
        self.owner.release();
    }

    /// Removes what is of no use to anybody at this time, in milliseconds since the epoch.
    pub(super) fn sweep(&mut self, now: u64) {
        if let Err(error) = self.repair() {
            tracing::warn!(%error, "sessions cannot be recorded");
        }
        self.owner.sweep();
        for file in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = file.path();
            let is_draft = path.extension().is_some_and(|extension| extension == private::DRAFT_EXTENSION);
            let is_over = if is_draft {
                let modified = file.metadata().and_then(|about| about.modified());
                modified.is_ok_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() > DRAFT_TIME)
            } else {
                read_end(&path).is_some_and(|ends| ends.saturating_add(SWEEP_DELAY_MS) <= now)
            };
            if is_over {
                self.open.retain(|name, _| *file.file_name() != **name);
                let _ = fs::remove_file(path);
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Appends frames with one write. `None` if the session has no file.
    fn write<'a>(
        &mut self,
        name: &str,
        frames: impl IntoIterator<Item = Frame<'a>>,
    ) -> Result<Option<()>, StoreError> {
        let mut bytes = Vec::new();
        let sealed_for = format::seal_name(name);
        for frame in frames {
            format::push_frame(&mut bytes, frame, (&self.key, &mut self.nonces), &sealed_for)?;
        }
        let opened = self.open_file(name);
        let open = match opened {
            Ok(Some(open)) => open,
            Ok(None) => return Ok(None),
            Err(error) => return Err(failure(&self.folder, &error)),
        };
        if let Err(error) = open.file.write_all(&bytes) {
            // What follows half a frame could not be read.
            let _ = open.file.set_len(open.length);
            return Err(failure(&self.folder, &error));
        }
        open.length += bytes.len() as u64;
        if open.length > MAX_FILE_LENGTH && self.owner.is_exclusive() {
            self.compact(name)?;
        }
        Ok(Some(()))
    }

    /// Returns the file of a session, if it has one.
    fn open_file(&mut self, name: &str) -> io::Result<Option<&mut OpenFile>> {
        self.uses += 1;
        // What is written to a file that was removed is lost.
        if self.open.get(name).is_some_and(|open| is_removed(&open.file)) {
            self.open.remove(name);
        }
        if !self.open.contains_key(name) {
            let opened = OpenOptions::new().append(true).open(self.path(name));
            let file = match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?,
            };
            let length = file.metadata()?.len();
            if self.open.len() >= MAX_OPEN_FILES {
                let oldest = self.open.iter().min_by_key(|(_, open)| open.last_use);
                let oldest = oldest.map(|(name, _)| name.clone());
                oldest.and_then(|name| self.open.remove(&name));
            }
            self.open.insert(name.into(), OpenFile { file, length, last_use: 0 });
        }
        let Some(open) = self.open.get_mut(name) else { return Ok(None) };
        open.last_use = self.uses;
        Ok(Some(open))
    }

    /// Drops the oldest entries of a session, so that half of the length is left, or only the newest entry if
    /// that is larger.
    fn compact(&mut self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        let bytes = read_file(&path).map_err(|error| failure(&self.folder, &error))?.unwrap_or_default();
        let Some(mut content) = format::read(&bytes, &self.key, name) else { return Ok(()) };
        let record = content.record.take().unwrap_or_default();
        let mut room = MAX_FILE_LENGTH / 2;
        let newest = content.entries.iter().rev().enumerate();
        let kept = newest.take_while(|(age, entry)| {
            let length = entry.len() as u64;
            let rest = room.checked_sub(length);
            room = rest.unwrap_or_default();
            rest.is_some() || (*age == 0 && length < MAX_FILE_LENGTH)
        });
        let dropped = content.entries.len() - kept.count();
        content.entries.drain(..dropped);
        tracing::debug!(dropped, "old entries of a session are dropped");
        self.create(name, &content, &record)
    }

    /// Creates the file of a session, in place of an earlier one.
    fn create(&mut self, name: &str, content: &Content, record: &[u8]) -> Result<(), StoreError> {
        let mut bytes = format::header(content.ends);
        let entries = content.entries.iter().map(|entry| Frame::Entry(entry));
        let sealed_for = format::seal_name(name);
        for frame in [Frame::Owner(self.owner.id), Frame::Record(record)].into_iter().chain(entries) {
            format::push_frame(&mut bytes, frame, (&self.key, &mut self.nonces), &sealed_for)?;
        }
        self.open.remove(name);
        let path = self.path(name);
        private::replace_file(&path, &bytes).map_err(|error| failure(&self.folder, &error))
    }

    /// Creates again what somebody has removed while it was in use.
    fn repair(&mut self) -> Result<(), StoreError> {
        let failed = |error: io::Error| failure(&self.folder, &error);
        private::create_folder(&self.folder).map_err(failed)?;
        self.owner.repair().map_err(failed)?;
        if !self.folder.join("key").exists() {
            tracing::warn!("the key of the recorded sessions was removed; they are recorded anew");
            // The ids that hosts have are of this key.
            self.key = self.key.load_or_save(&self.folder.join("key"))?;
            self.open.clear();
        }
        Ok(())
    }
}

/// Reads a file. `None` if there is none.
fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if !is_file(path) {
        return Ok(None);
    }
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(2 * MAX_FILE_LENGTH).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Reads when a session ends. `None` if this is no file of a session.
fn read_end(path: &Path) -> Option<u64> {
    let mut header = [0; HEADER_LENGTH];
    if !is_file(path) {
        return None;
    }
    File::open(path).ok()?.read_exact(&mut header).ok()?;
    format::read_header(&header)
}

/// Whether a file that is open has no name any more.
#[cfg(unix)]
fn is_removed(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    file.metadata().is_ok_and(|about| about.nlink() == 0)
}

/// A file that is open cannot be removed here.
#[cfg(not(unix))]
fn is_removed(_file: &File) -> bool {
    false
}

/// Whether this is a file: to open anything else may take forever.
fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file())
}

fn ignore_missing(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// The names of files mean nothing to a person, and a full disk has to be one cause for all of them.
fn failure(folder: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {error}", folder.display()))
}
