//! [`SharedFolder`]: lets callers append to files themselves while the thread of the files has nothing
//! to do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bowline_store::StoreError;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use super::folder::SessionFolder;

/// The files of sessions, which their thread shares with callers.
///
/// A caller never waits for the thread or for another caller, so a disk that hangs holds up one caller
/// at most.
#[derive(Debug)]
pub(super) struct SharedFolder {
    state: Mutex<State>,
    /// Jobs that the thread has not finished. What is appended must come after them.
    jobs: AtomicUsize,
}

#[derive(Debug)]
struct State {
    folder: SessionFolder,
    /// Until when callers leave everything to the thread.
    slow_until: Option<Instant>,
}

/// Longest entry that a caller appends itself.
const MAX_ENTRY_LENGTH: usize = 64 * 1024;
/// How long a write may take before the disk counts as slow.
const SLOW_WRITE: Duration = Duration::from_millis(20);
/// How long a disk counts as slow.
const SLOW_TIME: Duration = Duration::from_secs(30);

impl SharedFolder {
    pub(super) fn new(folder: SessionFolder) -> Self {
        Self { state: Mutex::new(State { folder, slow_until: None }), jobs: AtomicUsize::new(0) }
    }

    /// The files, for the thread.
    pub(super) fn lock(&self) -> MappedMutexGuard<'_, SessionFolder> {
        MutexGuard::map(self.state.lock(), |state| &mut state.folder)
    }

    /// Counts a job that the thread is about to get.
    pub(super) fn begin_job(&self) {
        self.jobs.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a job that the thread has carried out, or did not get.
    pub(super) fn end_job(&self) {
        self.jobs.fetch_sub(1, Ordering::AcqRel);
    }

    /// Appends an entry to the journal of a session. `None` if that is the thread's to do: because it
    /// has something to do before, or because it may take long.
    pub(super) fn try_append(&self, session: &str, entry: &[u8]) -> Option<Result<(), StoreError>> {
        let mut state = self.state.try_lock()?;
        if self.jobs.load(Ordering::Acquire) > 0
            || entry.len() > MAX_ENTRY_LENGTH
            || !state.folder.is_ready_for(session, entry.len())
        {
            return None;
        }
        let begun = Instant::now();
        if state.slow_until.is_some_and(|until| begun < until) {
            return None;
        }
        let appended = state.folder.append(session, entry);
        let now = Instant::now();
        if now.saturating_duration_since(begun) > SLOW_WRITE {
            state.slow_until = Some(now + SLOW_TIME);
        }
        Some(appended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    /// A folder with an open session `a`.
    fn folder(path: &std::path::Path) -> SharedFolder {
        let mut folder = SessionFolder::open(path).unwrap();
        folder.save("a", b"record", LIFETIME).unwrap();
        folder.append("a", b"first").unwrap();
        SharedFolder::new(folder)
    }

    fn entries(shared: &SharedFolder) -> Vec<Vec<u8>> {
        shared.lock().load("a", |_| true).unwrap().unwrap().journal
    }

    #[test]
    fn a_caller_appends_while_the_thread_has_nothing_to_do() {
        let path = tempfile::tempdir().unwrap();
        let shared = folder(path.path());
        assert!(shared.try_append("a", b"second").is_some_and(|appended| appended.is_ok()));
        shared.begin_job();
        assert!(shared.try_append("a", b"too early").is_none(), "a job comes before it");
        shared.end_job();
        assert!(shared.try_append("a", b"third").is_some_and(|appended| appended.is_ok()));
        assert_eq!(entries(&shared), [&b"first"[..], b"second", b"third"]);
    }

    #[test]
    fn what_may_take_long_is_left_to_the_thread() {
        let path = tempfile::tempdir().unwrap();
        let shared = folder(path.path());
        assert!(shared.try_append("b", b"without a file").is_none());
        assert!(shared.try_append("a", &vec![0; MAX_ENTRY_LENGTH + 1]).is_none());
        let held = shared.lock();
        assert!(shared.try_append("a", b"while a write takes long").is_none());
        drop(held);
        shared.state.lock().slow_until = Some(Instant::now() + SLOW_TIME);
        assert!(shared.try_append("a", b"after a slow write").is_none());
        shared.state.lock().slow_until = Some(Instant::now());
        assert!(shared.try_append("a", b"second").is_some());
        assert_eq!(entries(&shared), [&b"first"[..], b"second"]);
    }

    /// The oldest entries of a file that is full are dropped, which takes long.
    #[test]
    fn a_full_file_is_left_to_the_thread() {
        let path = tempfile::tempdir().unwrap();
        let shared = folder(path.path());
        let entry = vec![0; MAX_ENTRY_LENGTH];
        let mut appended = 0;
        while shared.try_append("a", &entry).is_some() {
            appended += 1;
            assert!(appended < 1_000, "the file grows without a bound");
        }
        assert_eq!(entries(&shared).len(), appended + 1, "nothing was dropped");
    }
}
