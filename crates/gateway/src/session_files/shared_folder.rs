//! [`SharedFolder`]: lets callers append to files themselves while the thread of the files has nothing
//! to do, and writes at once what several callers append at the same time.

use std::mem;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::folder::{MAX_FRAME_OVERHEAD, SessionFolder};

/// The files of sessions, which their thread shares with callers.
///
/// A caller queues its entry, and then writes everything that is queued, unless somebody else is
/// writing: whoever does also writes what was queued meanwhile. So a caller never waits for the thread
/// or for another caller, and a disk that hangs holds up one caller at most.
#[derive(Debug)]
pub(super) struct SharedFolder {
    /// Locked by whoever writes. Callers try to lock it, and the thread waits for it.
    folder: Mutex<SessionFolder>,
    /// Locked for a moment only, also by whoever has locked `folder`.
    queue: Mutex<AppendQueue>,
}

#[derive(Debug, Default)]
struct AppendQueue {
    /// In the order in which they were appended. Taken out only by whoever has locked `folder`.
    entries: Vec<QueuedEntry>,
    /// Jobs that the thread has not finished. What is appended must come after them.
    jobs: usize,
    /// Until when callers leave everything to the thread.
    slow_until: Option<Instant>,
}

/// An entry that waits to be written.
#[derive(Debug)]
struct QueuedEntry {
    session: Box<str>,
    entry: Vec<u8>,
    done: oneshot::Sender<Result<(), String>>,
}

/// What became of an entry.
#[derive(Debug)]
pub(super) enum AppendOutcome {
    /// It is queued for whoever calls [`SharedFolder::write_queued`] next.
    Queued(oneshot::Receiver<Result<(), String>>),
    /// It must come after a job of the thread, so it has to be one itself.
    AfterJobs(Vec<u8>),
    /// Nothing more is taken: the files are too slow.
    Refused,
}

/// Whether what is queued was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum WriteOutcome {
    /// It was, or is by somebody else.
    Written,
    /// It is the thread's to do, which has to be woken.
    LeftToThread,
}

/// Largest write of a caller, in bytes of entries.
const MAX_CALLER_WRITE: usize = 64 * 1024;
/// Largest write of the thread, in bytes of entries, unless one entry is larger.
const MAX_THREAD_WRITE: usize = 1024 * 1024;
/// Most writes that a caller makes for itself and others before it leaves the rest to the thread.
const MAX_CALLER_WRITES: usize = 32;
/// Most entries that wait.
const MAX_QUEUED_ENTRIES: usize = 4 * 1024;
/// How long a write may take before the disk counts as slow. In tests it never does by itself, however busy the machine
/// is.
const SLOW_WRITE: Duration = if cfg!(test) { Duration::from_secs(60) } else { Duration::from_millis(20) };
/// How long a disk counts as slow.
const SLOW_TIME: Duration = Duration::from_secs(30);

impl SharedFolder {
    pub(super) fn new(folder: SessionFolder) -> Self {
        Self { folder: Mutex::new(folder), queue: Mutex::default() }
    }

    /// Uses the files, on the thread, after everything is written that was queued before.
    pub(super) fn with_folder<T>(&self, action: impl FnOnce(&mut SessionFolder) -> T) -> T {
        let mut folder = self.folder.lock();
        self.write_all(&mut folder);
        let result = action(&mut folder);
        self.write_all_and_unlock(folder);
        result
    }

    /// Writes everything that is queued, on the thread.
    pub(super) fn write_all_queued(&self) {
        self.write_all_and_unlock(self.folder.lock());
    }

    /// Counts a job that the thread is about to get.
    pub(super) fn begin_job(&self) {
        self.queue.lock().jobs += 1;
    }

    /// Counts a job that the thread has carried out, or did not get.
    pub(super) fn end_job(&self) {
        self.queue.lock().jobs -= 1;
    }

    /// Queues an entry for the journal of a session.
    pub(super) fn queue(&self, session: &str, entry: Vec<u8>) -> AppendOutcome {
        let mut queue = self.queue.lock();
        if queue.jobs > 0 {
            return AppendOutcome::AfterJobs(entry);
        }
        if queue.entries.len() >= MAX_QUEUED_ENTRIES {
            return AppendOutcome::Refused;
        }
        let (done, result) = oneshot::channel();
        queue.entries.push(QueuedEntry { session: session.into(), entry, done });
        AppendOutcome::Queued(result)
    }

    /// Writes what is queued, as far as it takes a caller no longer than a few writes to open files.
    pub(super) fn write_queued(&self) -> WriteOutcome {
        let mut writes = 0;
        loop {
            // Whoever has locked it looks at the queue once more after it is unlocked.
            let Some(mut folder) = self.folder.try_lock() else { return WriteOutcome::Written };
            while let Some(mut batch) = self.take_batch() {
                while !batch.is_empty() {
                    if writes == MAX_CALLER_WRITES
                        || self.is_slow()
                        || !is_quick(&folder, first_write(&batch, MAX_CALLER_WRITE))
                    {
                        // Back to where they were: nobody else has taken anything meanwhile.
                        self.queue.lock().entries.splice(..0, batch);
                        return WriteOutcome::LeftToThread;
                    }
                    writes += 1;
                    self.write_first(&mut folder, &mut batch, MAX_CALLER_WRITE);
                }
            }
            drop(folder);
            if self.queue.lock().entries.is_empty() {
                return WriteOutcome::Written;
            }
        }
    }

    fn write_all_and_unlock<'a>(&'a self, mut folder: MutexGuard<'a, SessionFolder>) {
        loop {
            self.write_all(&mut folder);
            drop(folder);
            if self.queue.lock().entries.is_empty() {
                return;
            }
            match self.folder.try_lock() {
                Some(locked) => folder = locked,
                None => return,
            }
        }
    }

    fn write_all(&self, folder: &mut SessionFolder) {
        while let Some(mut batch) = self.take_batch() {
            while !batch.is_empty() {
                self.write_first(folder, &mut batch, MAX_THREAD_WRITE);
            }
        }
    }

    /// Takes everything that is queued, those of one session together. `None` if it is nothing.
    fn take_batch(&self) -> Option<Vec<QueuedEntry>> {
        let mut batch = mem::take(&mut self.queue.lock().entries);
        // It is stable: the order within a session stays.
        batch.sort_by(|one, other| one.session.cmp(&other.session));
        (!batch.is_empty()).then_some(batch)
    }

    /// Writes the first entries of a batch, which are of one session, and says so to whoever waits.
    fn write_first(&self, folder: &mut SessionFolder, batch: &mut Vec<QueuedEntry>, limit: usize) {
        let count = first_write(batch, limit).len();
        let begun = Instant::now();
        let entries = batch[..count].iter().map(|queued| &*queued.entry);
        let written = folder.append(&batch[0].session, entries).map_err(|error| error.to_string());
        let now = Instant::now();
        if now.saturating_duration_since(begun) > SLOW_WRITE {
            self.queue.lock().slow_until = Some(now + SLOW_TIME);
        }
        for queued in batch.drain(..count) {
            // Nobody may wait for it.
            let _ = queued.done.send(written.clone());
        }
    }

    fn is_slow(&self) -> bool {
        let mut queue = self.queue.lock();
        let is_slow = queue.slow_until.is_some_and(|until| Instant::now() < until);
        if !is_slow {
            queue.slow_until = None;
        }
        is_slow
    }
}

/// The first entries of a batch that are written at once: those of one session, and one of them at least.
fn first_write(batch: &[QueuedEntry], limit: usize) -> &[QueuedEntry] {
    let mut length = 0;
    let fits = |queued: &&QueuedEntry| {
        let is_first = length == 0;
        length += queued.entry.len() + 1;
        queued.session == batch[0].session && (is_first || length <= limit)
    };
    &batch[..batch.iter().take_while(fits).count()]
}

/// Whether entries of one session can be appended with one write of limited length to a file that is open.
fn is_quick(folder: &SessionFolder, entries: &[QueuedEntry]) -> bool {
    let lengths = entries.iter().map(|queued| queued.entry.len() as u64);
    let length: u64 = lengths.clone().sum();
    let room = folder.room(&entries[0].session).unwrap_or_default();
    length <= MAX_CALLER_WRITE as u64 && length + lengths.len() as u64 * MAX_FRAME_OVERHEAD < room
}

#[cfg(test)]
mod tests;
