//! What a daemon does for itself: it leaves the terminal, limits its log, and says which process it
//! is.

use std::io;
use std::path::{Path, PathBuf};

use bowline_store::private::replace_file;

use super::daemon_key::DaemonKey;
use crate::print::stderr;

/// Leaves the terminal and the processes of the host that started this one, so that signals to them
/// do not reach it. From now on the log, which is stderr, has a limited size.
pub(super) fn leave_terminal() {
    // It fails if this process leads a group, and then it gets no signals of a terminal either.
    let _ = rustix::process::setsid();
    stderr::limit_file(MAX_LOG_BYTES);
}

/// The file with the id of a daemon, the key of the configuration that it has, and its version. Dropping this
/// removes it, unless it is of another daemon by then.
pub(super) struct PidFile {
    path: PathBuf,
    content: String,
}

impl PidFile {
    /// Writes the file of the daemon that listens on `socket`, which is this process.
    pub(super) fn create(socket: &Path, key: DaemonKey) -> io::Result<Self> {
        let mut file = Self { path: socket.with_extension("pid"), content: String::new() };
        file.set_key(key)?;
        Ok(file)
    }

    /// Writes the key of the configuration that the daemon has now, so that a host whose configuration
    /// is another one does not use it.
    pub(super) fn set_key(&mut self, key: DaemonKey) -> io::Result<()> {
        let content = format!("{} {key} {}\n", std::process::id(), env!("CARGO_PKG_VERSION"));
        replace_file(&self.path, content.as_bytes())?;
        self.content = content;
        Ok(())
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|content| content == self.content) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

const MAX_LOG_BYTES: u64 = 1024 * 1024;
