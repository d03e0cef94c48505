//! The search for credentials in everything that the commands of one test print or leave behind.
//! Every command of a [`Context`](super::Context) is watched without the test's involvement, and
//! the search runs when the context is dropped.
//!
//! A test can opt out in two ways, each by name: `Person::pastes_code`, after which a terminal
//! shows an authorization code, and [`Command::unwatched`](super::Command::unwatched).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_testkit::canary::{self, Sighting};
use parking_lot::{Condvar, Mutex};

/// The output of the commands of one context, and the files that the test wrote itself.
#[derive(Default)]
pub(crate) struct Watch {
    captures: Mutex<Vec<Arc<Capture>>>,
    /// Files that the test wrote, with the bytes it wrote. Whatever a command adds to one is
    /// searched.
    written: Mutex<HashMap<PathBuf, Vec<u8>>>,
}

/// The output of one stream of one command, which may still run.
pub(crate) struct Capture {
    /// The command line and the stream.
    name: String,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Prefixes of credentials that this stream may contain.
    allowed: Vec<String>,
    is_ended: bool,
}

/// How long to wait for a stream whose command was not waited for. Commands are killed before their
/// context is dropped, so only the reading thread has to finish.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

impl Watch {
    /// Adds a stream of a command.
    pub(crate) fn capture(&self, name: String) -> Arc<Capture> {
        let capture = Arc::new(Capture { name, state: Mutex::default(), ended: Condvar::new() });
        self.captures.lock().push(Arc::clone(&capture));
        capture
    }

    /// Records that the test has written this file.
    pub(crate) fn wrote(&self, path: PathBuf, bytes: &[u8]) {
        self.written.lock().insert(path, bytes.to_vec());
    }

    /// Returns a line for each credential that was printed, or is in a file or file name below this
    /// folder.
    pub(crate) fn findings(&self, root: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let captures = std::mem::take(&mut *self.captures.lock());
        let mut files = Vec::new();
        collect_files(root, &mut files);
        let keys: Vec<String> = files.iter().filter_map(|file| store_key(file)).collect();
        for capture in &captures {
            let mut state = capture.state.lock();
            capture.ended.wait_while_for(&mut state, |state| !state.is_ended, DRAIN_TIMEOUT);
            let allowed: Vec<&str> = state.allowed.iter().map(String::as_str).collect();
            let sighting = canary::find_secret(&state.bytes, &allowed)
                .or_else(|| keys.iter().find_map(|key| canary::find_value(&state.bytes, key, &allowed)));
            found.extend(sighting.map(|sighting| describe_sighting(&capture.name, &sighting)));
        }
        let written = self.written.lock();
        for file in files {
            let Ok(bytes) = std::fs::read(&file) else { continue };
            if written.get(&file) == Some(&bytes) {
                continue;
            }
            let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let sighting = canary::find_secret(&bytes, &[])
                .or_else(|| canary::find_secret(name.as_bytes(), &[]))
                .or_else(|| keys.iter().find_map(|key| find_store_key(&file, &bytes, key)));
            found.extend(sighting.map(|sighting| describe_sighting(&name, &sighting)));
        }
        found
    }
}

impl Capture {
    pub(crate) fn add(&self, bytes: &[u8]) {
        self.state.lock().bytes.extend_from_slice(bytes);
    }

    /// Allows credentials with this prefix in the output.
    #[cfg(unix)]
    pub(crate) fn allow(&self, beginning: &str) {
        self.state.lock().allowed.push(beginning.to_owned());
    }

    pub(crate) fn end(&self) {
        self.state.lock().is_ended = true;
        self.ended.notify_all();
    }

    /// Reads the stream to its end and copies it to `to`.
    pub(crate) fn drain(self: Arc<Self>, from: impl Read + Send + 'static, to: impl Write + Send + 'static) {
        std::thread::spawn(move || self.copy(from, to, |_, _| true));
    }

    /// Copies a stream into a pipe. When nobody reads the pipe any more, the command's own stream
    /// closes, as it would without the watch.
    pub(crate) fn relay(self: Arc<Self>, from: impl Read + Descriptor + Send + 'static, to: PipeWriter) {
        std::thread::spawn(move || self.copy(from, to, |from, to| is_read(from, to)));
    }

    fn copy<R: Read, W: Write>(&self, mut from: R, mut to: W, goes_on: impl Fn(&R, &W) -> bool) {
        let mut buffer = [0; 4096];
        while goes_on(&from, &to)
            && let Ok(count @ 1..) = from.read(&mut buffer)
        {
            self.add(&buffer[..count]);
            if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
                break;
            }
        }
        self.end();
    }
}

#[cfg(unix)]
pub(crate) use std::os::fd::AsFd as Descriptor;
#[cfg(windows)]
pub(crate) use std::os::windows::io::AsHandle as Descriptor;

/// Waits until there is something to read or the reader is gone. Returns whether the reader is
/// still there.
#[cfg(unix)]
fn is_read(from: &impl Descriptor, to: &impl Descriptor) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};

    let mut both = [PollFd::new(from, PollFlags::IN), PollFd::new(to, PollFlags::empty())];
    while poll(&mut both, None) == Err(rustix::io::Errno::INTR) {}
    !both[1].revents().contains(PollFlags::ERR)
}

/// On Windows the next write finds out.
#[cfg(windows)]
fn is_read(_: &impl Descriptor, _: &impl Descriptor) -> bool {
    true
}

fn describe_sighting(place: &str, sighting: &Sighting) -> String {
    let mut line = String::new();
    let _ = write!(line, "{place}: {} at {}: {:?}", sighting.form, sighting.offset, sighting.text);
    line
}

/// Returns the store's key if this is its file.
fn store_key(file: &Path) -> Option<String> {
    let is_key = file.file_name()?.to_str()?.ends_with("store.key");
    let text = is_key.then(|| std::fs::read_to_string(file).ok())??;
    let key = text.lines().next_back().unwrap_or_default().trim().to_owned();
    (key.len() >= 16).then_some(key)
}

/// Finds the key in any file other than its own.
fn find_store_key(file: &Path, bytes: &[u8], key: &str) -> Option<Sighting> {
    if store_key(file).is_some() { None } else { canary::find_value(bytes, key, &[]) }
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // Opening a pipe would block, and links lead outside.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect_files(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}
