//! Writes to stderr, from a separate thread where no writer may block: a host that never reads its
//! pipe blocks whoever writes to it once it is full.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use parking_lot::{Condvar, Mutex};

use super::output_hold::{OutputHold, Stream, hold_back, with_bar_erased};

/// Queue of the writer thread, once there is one.
static WRITER_QUEUE: OnceLock<Queue> = OnceLock::new();

/// The file that stderr is, and its maximum size in bytes, if it is limited.
static LIMITED_FILE: OnceLock<(std::fs::File, u64)> = OnceLock::new();

/// How many bytes wait to be written. Texts beyond are dropped and counted.
const MAX_QUEUED_BYTES: usize = 256 * 1024;
/// How long the end of the process waits for the queue.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes the text, or queues it for the writer thread.
pub(crate) fn write(text: &str, color: ColorChoice) {
    match WRITER_QUEUE.get() {
        Some(queue) => queue.push(text, color),
        None => write_now(text, color),
    }
}

/// Holds back output while a dialog is open.
pub(crate) fn hold_output() -> OutputHold {
    OutputHold::begin(write)
}

/// Starts the writer thread, so that no writer blocks from now on.
pub(crate) fn detach() {
    let mut first = false;
    let queue = WRITER_QUEUE.get_or_init(|| {
        first = true;
        Queue::default()
    });
    if first {
        let thread = std::thread::Builder::new().name("stderr".to_owned());
        // Without a thread, nothing is written: blocking on a reader would be worse.
        let _ = thread.spawn(|| queue.write_all(write_now));
    }
}

/// Limits the size of the file that stderr is: it is emptied when it has grown beyond `bytes`. Has no
/// effect if stderr is something else. The file must be open for appending.
#[cfg(unix)]
pub(crate) fn limit_file(bytes: u64) {
    use std::os::fd::AsFd as _;

    let file = io::stderr().as_fd().try_clone_to_owned().map(std::fs::File::from);
    if let Ok(file) = file
        && file.metadata().is_ok_and(|about| about.is_file())
    {
        let _ = LIMITED_FILE.set((file, bytes));
    }
}

/// Empties the file of stderr if it has become too large.
fn enforce_limit() {
    if let Some((file, limit)) = LIMITED_FILE.get()
        && file.metadata().is_ok_and(|about| about.len() > *limit)
    {
        let _ = file.set_len(0);
    }
}

/// Waits briefly until the queue is written.
pub(crate) fn drain() {
    if let Some(queue) = WRITER_QUEUE.get() {
        queue.drain(DRAIN_TIMEOUT);
    }
}

/// Writes the text. Errors are ignored, as there is nowhere to report them.
fn write_now(text: &str, color: ColorChoice) {
    if hold_back(Stream::Stderr, text, color) {
        return;
    }
    enforce_limit();
    with_bar_erased(|| {
        let mut err = AutoStream::new(io::stderr().lock(), color);
        let _ = err.write_all(text.as_bytes());
        let _ = err.flush();
    });
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    texts: VecDeque<(String, ColorChoice)>,
    bytes: usize,
    /// How many texts were dropped since the last one that fitted.
    dropped: usize,
    /// A text has been taken out and is not written yet.
    writing: bool,
}

impl Queue {
    fn push(&self, text: &str, color: ColorChoice) {
        let mut waiting = self.state.lock();
        // Once a text was dropped, further ones are dropped until that is noted in its place.
        if waiting.dropped > 0 || waiting.bytes + text.len() > MAX_QUEUED_BYTES {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes += text.len();
        waiting.texts.push_back((text.to_owned(), color));
        self.changed.notify_all();
    }

    /// Writes queued texts forever.
    fn write_all(&self, mut write: impl FnMut(&str, ColorChoice)) {
        loop {
            let (text, color) = self.next_text();
            write(&text, color);
            self.state.lock().writing = false;
            self.changed.notify_all();
        }
    }

    fn next_text(&self) -> (String, ColorChoice) {
        let nothing = |waiting: &mut QueueState| waiting.texts.is_empty() && waiting.dropped == 0;
        let mut waiting = self.state.lock();
        self.changed.wait_while(&mut waiting, nothing);
        waiting.writing = true;
        if let Some((text, color)) = waiting.texts.pop_front() {
            waiting.bytes -= text.len();
            return (text, color);
        }
        let lost = std::mem::take(&mut waiting.dropped);
        (format!("note: {lost} more were not written, because nobody read them\n"), ColorChoice::Never)
    }

    fn drain(&self, patience: Duration) {
        let busy =
            |waiting: &mut QueueState| waiting.writing || !waiting.texts.is_empty() || waiting.dropped > 0;
        // What is not written by then is lost with the process.
        self.changed.wait_while_for(&mut self.state.lock(), busy, patience);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A blocked reader costs bounded memory and no time; dropped texts are noted in their place.
    #[test]
    fn unread_texts_are_dropped_and_counted() {
        let queue: &'static Queue = Box::leak(Box::default());
        let (written, reader) = mpsc::sync_channel(0);
        let (begin, at_work) = mpsc::channel();
        std::thread::spawn(move || {
            queue.write_all(|text, _| {
                begin.send(()).unwrap();
                written.send(text.to_owned()).unwrap();
            });
        });
        let large = "x".repeat(MAX_QUEUED_BYTES / 2);
        queue.push("first", ColorChoice::Never);
        // The first text is taken out and being written, so it does not count towards the limit.
        at_work.recv().unwrap();
        for text in [&*large, &large, "lost", "lost too"] {
            queue.push(text, ColorChoice::Never);
        }
        queue.drain(Duration::from_millis(1));
        assert!(queue.state.lock().bytes <= MAX_QUEUED_BYTES);
        let expected = ["first", &large, &large, "note: 2 more were not written, because nobody read them\n"];
        for text in expected {
            assert!(reader.recv().unwrap() == text);
        }
        queue.drain(Duration::from_secs(60));
        queue.push("after", ColorChoice::Never);
        assert_eq!(reader.recv().unwrap(), "after");
    }
}
