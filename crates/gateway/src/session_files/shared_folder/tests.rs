use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

type AppendResult = oneshot::Receiver<Result<(), String>>;

const LIFETIME: Duration = Duration::from_secs(60);

/// A folder with open sessions `a` and `b`.
fn folder(path: &std::path::Path) -> SharedFolder {
    let mut folder = SessionFolder::open(path).unwrap();
    for session in ["a", "b"] {
        folder.save(session, b"record", LIFETIME).unwrap();
        folder.append(session, [&b"first"[..]]).unwrap();
    }
    SharedFolder::new(folder)
}

fn queue(shared: &SharedFolder, session: &str, entry: &[u8]) -> AppendResult {
    loop {
        match shared.queue(session, entry.to_vec()) {
            AppendOutcome::Queued(result) => return result,
            // Whoever writes may not have been given the processor for a while.
            AppendOutcome::Refused => std::thread::yield_now(),
            AppendOutcome::AfterJobs(_) => panic!("there is no job"),
        }
    }
}

fn append(shared: &SharedFolder, session: &str, entry: &[u8]) -> (WriteOutcome, AppendResult) {
    let result = queue(shared, session, entry);
    (shared.write_queued(), result)
}

fn is_stored(result: &mut AppendResult) -> bool {
    result.try_recv().is_ok_and(|written| written.is_ok())
}

fn entries(shared: &SharedFolder, session: &str) -> Vec<Vec<u8>> {
    shared.with_folder(|folder| folder.load(session, |_| true).unwrap().unwrap().journal)
}

#[test]
fn a_caller_appends_while_the_thread_has_nothing_to_do() {
    let path = tempfile::tempdir().unwrap();
    let shared = folder(path.path());
    let (outcome, mut second) = append(&shared, "a", b"second");
    assert!(outcome == WriteOutcome::Written && is_stored(&mut second));
    shared.begin_job();
    let early = shared.queue("a", b"too early".to_vec());
    assert!(matches!(early, AppendOutcome::AfterJobs(entry) if entry == b"too early"));
    shared.end_job();
    assert!(is_stored(&mut append(&shared, "a", b"third").1));
    assert_eq!(entries(&shared, "a"), [&b"first"[..], b"second", b"third"]);
}

/// The caller that writes does so for those that have queued an entry meanwhile.
#[test]
fn entries_of_several_callers_are_written_at_once() {
    let path = tempfile::tempdir().unwrap();
    let shared = folder(path.path());
    let length = |session: &str| std::fs::metadata(path.path().join(session)).unwrap().len();
    let before = length("a");
    let mut results: Vec<_> = [("a", "2"), ("b", "2"), ("a", "3"), ("b", "3")]
        .map(|(session, entry)| queue(&shared, session, entry.as_bytes()))
        .into();
    assert_eq!(length("a"), before, "nothing is written before somebody waits");
    assert_eq!(shared.write_queued(), WriteOutcome::Written);
    assert!(results.iter_mut().all(is_stored));
    for session in ["a", "b"] {
        assert_eq!(entries(&shared, session), [&b"first"[..], b"2", b"3"]);
    }
}

#[test]
fn a_caller_leaves_to_another_one_what_it_cannot_write() {
    let path = tempfile::tempdir().unwrap();
    let shared = folder(path.path());
    let held = shared.folder.lock();
    let (outcome, mut second) = append(&shared, "a", b"second");
    assert!(outcome == WriteOutcome::Written && !is_stored(&mut second));
    shared.write_all_and_unlock(held);
    assert_eq!(entries(&shared, "a"), [&b"first"[..], b"second"]);
}

#[test]
fn what_may_take_long_is_left_to_the_thread() {
    let path = tempfile::tempdir().unwrap();
    let shared = folder(path.path());
    let write = |session: &str, entry: &[u8]| {
        let (outcome, mut result) = append(&shared, session, entry);
        assert_eq!(outcome, WriteOutcome::LeftToThread);
        // What comes after it stays behind it.
        let next = append(&shared, "a", b"next");
        assert_eq!(next.0, WriteOutcome::LeftToThread);
        shared.write_all_queued();
        is_stored(&mut result)
    };
    assert!(!write("A", b"without a file"));
    assert!(write("a", &vec![0; MAX_CALLER_WRITE + 1]));
    shared.queue.lock().slow_until = Some(Instant::now() + SLOW_TIME);
    assert!(write("a", b"after a slow write"));
    shared.queue.lock().slow_until = Some(Instant::now());
    assert!(is_stored(&mut append(&shared, "a", b"last").1));
    let large = &vec![0; MAX_CALLER_WRITE + 1][..];
    let expected = [b"first", &b"next"[..], large, b"next", b"after a slow write", b"next", b"last"];
    assert_eq!(entries(&shared, "a"), expected);
}

#[test]
fn a_caller_writes_for_others_for_a_limited_time() {
    let path = tempfile::tempdir().unwrap();
    let shared = folder(path.path());
    let entry = vec![0; MAX_CALLER_WRITE - 1];
    let mut results: Vec<_> = (0..=MAX_CALLER_WRITES).map(|_| queue(&shared, "a", &entry)).collect();
    assert_eq!(shared.write_queued(), WriteOutcome::LeftToThread);
    assert_eq!(results.iter_mut().filter_map(|result| result.try_recv().ok()).count(), MAX_CALLER_WRITES);
    shared.write_all_queued();
    assert_eq!(entries(&shared, "a").len(), 1 + results.len());
}

/// The oldest entries of a file that is full are dropped, which takes long.
#[test]
fn a_full_file_is_left_to_the_thread() {
    let path = tempfile::tempdir().unwrap();
    let shared = folder(path.path());
    let entry = vec![0; MAX_CALLER_WRITE];
    let mut appended = 0;
    while append(&shared, "a", &entry).0 == WriteOutcome::Written {
        appended += 1;
        assert!(appended < 1_000, "the file grows without a bound");
    }
    let kept = shared.folder.lock().load("a", |_| true).unwrap().unwrap().journal.len();
    assert_eq!(kept, appended + 1, "nothing was dropped");
}

#[test]
fn a_queue_has_a_limited_length() {
    let path = tempfile::tempdir().unwrap();
    let shared = folder(path.path());
    let results: Vec<_> = (0..MAX_QUEUED_ENTRIES).map(|_| queue(&shared, "a", b"")).collect();
    assert!(matches!(shared.queue("a", Vec::new()), AppendOutcome::Refused));
    shared.write_all_queued();
    assert_eq!(entries(&shared, "a").len(), 1 + results.len());
}

/// No entry is lost or overtaken, whoever writes it.
#[test]
fn callers_and_the_thread_write_everything_in_order() {
    const ENTRIES: usize = 500;
    let path = tempfile::tempdir().unwrap();
    let shared = folder(path.path());
    let open = AtomicUsize::new(4);
    let written: usize = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|caller| {
                let (shared, open) = (&shared, &open);
                scope.spawn(move || {
                    let session = if caller % 2 == 0 { "a" } else { "b" };
                    let results: Vec<_> = (0..ENTRIES)
                        .map(|number| append(shared, session, format!("{caller} {number:05}").as_bytes()))
                        .collect();
                    open.fetch_sub(1, Ordering::AcqRel);
                    results.into_iter().filter(|(outcome, _)| *outcome == WriteOutcome::Written).count()
                })
            })
            .collect();
        while open.load(Ordering::Acquire) > 0 {
            // As the thread does for a job, and for what callers have left to it.
            shared.with_folder(|_| {});
            std::thread::yield_now();
        }
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert!(written > 0, "callers write too");
    for (session, callers) in [("a", ["0", "2"]), ("b", ["1", "3"])] {
        let entries = entries(&shared, session);
        assert_eq!(entries.len(), 1 + 2 * ENTRIES);
        for caller in callers {
            let own: Vec<_> = entries.iter().filter(|entry| entry.starts_with(caller.as_bytes())).collect();
            assert!(own.len() == ENTRIES && own.is_sorted(), "{session} {caller}");
        }
    }
}
