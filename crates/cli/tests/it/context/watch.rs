//! Owns the search for credentials in whatever the commands of one test print and leave behind. It needs nothing from a
//! test: every command of a [`Context`](super::Context) is watched, and the search is made when the context is dropped.
//!
//! There are two exceptions, and a test asks for each by name: `Person::pastes_code`, after which a terminal shows an
//! authorization code, and [`Command::unwatched`](super::Command::unwatched).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bowline_testkit::canary::{self, Sighting};

/// What the commands of one context printed, and which files are the test's own.
#[derive(Default)]
pub(crate) struct Watch {
    captures: Mutex<Vec<Arc<Capture>>>,
    /// Files that the test wrote itself, with the bytes it wrote. Whatever a command adds to one is searched.
    written: Mutex<HashMap<PathBuf, Vec<u8>>>,
}

/// What came out of one stream of one command, which may still run.
pub(crate) struct Capture {
    /// The command line and the stream.
    name: String,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// How credentials begin that may be in it.
    allowed: Vec<String>,
    is_ended: bool,
}

/// How long a stream is waited for whose command was not waited for. Commands are killed before their context is
/// dropped, so that only the thread that reads the rest has to have its turn.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Watch {
    /// A new stream of a command.
    pub(crate) fn capture(&self, name: String) -> Arc<Capture> {
        let capture = Arc::new(Capture { name, state: Mutex::default(), ended: Condvar::new() });
        self.captures.lock().unwrap().push(Arc::clone(&capture));
        capture
    }

    /// The test has written this file.
    pub(crate) fn wrote(&self, path: PathBuf, bytes: &[u8]) {
        self.written.lock().unwrap().insert(path, bytes.to_vec());
    }

    /// Every credential that was printed, or lies in a file or a file name below this folder; each as a line.
    pub(crate) fn findings(&self, root: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let captures = std::mem::take(&mut *self.captures.lock().unwrap());
        let mut files = Vec::new();
        collect_files(root, &mut files);
        let keys: Vec<String> = files.iter().filter_map(|file| store_key(file)).collect();
        for capture in &captures {
            let state = capture.state.lock().unwrap();
            let not_ended = |state: &mut State| !state.is_ended;
            let (state, _) = capture.ended.wait_timeout_while(state, LAST_WORDS, not_ended).unwrap();
            let allowed: Vec<&str> = state.allowed.iter().map(String::as_str).collect();
            let sighting = canary::find_secret(&state.bytes, &allowed)
                .or_else(|| keys.iter().find_map(|key| canary::find(&state.bytes, key, &allowed)));
            found.extend(sighting.map(|sighting| line(&capture.name, &sighting)));
        }
        let written = self.written.lock().unwrap();
        for file in files {
            let Ok(bytes) = std::fs::read(&file) else { continue };
            if written.get(&file) == Some(&bytes) {
                continue;
            }
            let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let sighting = canary::find_secret(&bytes, &[])
                .or_else(|| canary::find_secret(name.as_bytes(), &[]))
                .or_else(|| keys.iter().find_map(|key| elsewhere(&file, &bytes, key)));
            found.extend(sighting.map(|sighting| line(&name, &sighting)));
        }
        found
    }
}

impl Capture {
    pub(crate) fn add(&self, bytes: &[u8]) {
        self.state.lock().unwrap().bytes.extend_from_slice(bytes);
    }

    /// Lets credentials be shown that begin like this.
    #[cfg(unix)]
    pub(crate) fn allow(&self, beginning: &str) {
        self.state.lock().unwrap().allowed.push(beginning.to_owned());
    }

    pub(crate) fn end(&self) {
        self.state.lock().unwrap().is_ended = true;
        self.ended.notify_all();
    }

    /// Takes in all that comes, and hands it on as it comes.
    pub(crate) fn drain(self: Arc<Self>, from: impl Read + Send + 'static, to: impl Write + Send + 'static) {
        std::thread::spawn(move || self.copy(from, to, |_, _| true));
    }

    /// Passes a stream on into a pipe. When nobody reads that any more, the command finds its own closed, as it would
    /// without us.
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

/// Waits until there is something to read, or nobody to hand it on to. Whether there is somebody.
#[cfg(unix)]
fn is_read(from: &impl Descriptor, to: &impl Descriptor) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    let mut both =
        [PollFd::new(from.as_fd(), PollFlags::POLLIN), PollFd::new(to.as_fd(), PollFlags::empty())];
    while poll(&mut both, PollTimeout::NONE) == Err(nix::Error::EINTR) {}
    !both[1].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// Found out by the next write.
#[cfg(windows)]
fn is_read(_: &impl Descriptor, _: &impl Descriptor) -> bool {
    true
}

fn line(place: &str, sighting: &Sighting) -> String {
    let mut line = String::new();
    let _ = write!(line, "{place}: {} at {}: {:?}", sighting.form, sighting.offset, sighting.text);
    line
}

/// The store's key, if this is its file.
fn store_key(file: &Path) -> Option<String> {
    let is_key = file.file_name()?.to_str()?.ends_with("store.key");
    let text = is_key.then(|| std::fs::read_to_string(file).ok())??;
    let key = text.lines().next_back().unwrap_or_default().trim().to_owned();
    (key.len() >= 16).then_some(key)
}

/// The key in a file that is not its own.
fn elsewhere(file: &Path, bytes: &[u8], key: &str) -> Option<Sighting> {
    if store_key(file).is_some() { None } else { canary::find(bytes, key, &[]) }
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // Pipes would be waited for, and links lead elsewhere.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect_files(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}
