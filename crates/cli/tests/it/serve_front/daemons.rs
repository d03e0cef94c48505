//! The daemons of a test: which there are, and that none outlives it.

use std::path::PathBuf;

use rustix::process::{Signal, kill_process, test_kill_process};
use tokio::time::{sleep, timeout};

use super::{RUN_FOLDER, WAIT_STEP};
use crate::connect::host::TEST_TIMEOUT;
use crate::context::{Context, to_pid};

/// The daemons that were started in a home. Those that run are killed when this is dropped.
pub(crate) struct Daemons {
    folder: PathBuf,
}

impl Daemons {
    pub(crate) fn of(context: &Context) -> Self {
        Self { folder: context.path(RUN_FOLDER) }
    }

    /// The process ids of the daemons that run.
    pub(crate) fn all(&self) -> Vec<u32> {
        let paths = self.paths("pid").into_iter();
        let ids = paths.filter_map(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            text.split_whitespace().next()?.parse().ok()
        });
        ids.filter(|id| self.is_daemon(*id)).collect()
    }

    /// Whether a process is one of these daemons, and not another one that has its id by now.
    fn is_daemon(&self, id: u32) -> bool {
        if test_kill_process(to_pid(id)).is_err() {
            return false;
        }
        let Ok(words) = std::fs::read(format!("/proc/{id}/cmdline")) else {
            return cfg!(not(target_os = "linux"));
        };
        String::from_utf8_lossy(&words).contains(&*self.folder.to_string_lossy())
    }

    /// The process id of the only daemon.
    #[track_caller]
    pub(super) fn only(&self) -> u32 {
        let all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0]
    }

    /// The path of its file with this extension.
    #[track_caller]
    pub(super) fn path(&self, extension: &str) -> PathBuf {
        let paths = self.paths(extension);
        assert_eq!(paths.len(), 1, "{paths:?}");
        paths[0].clone()
    }

    /// What it has logged.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).expect("a log")
    }

    /// Kills the only daemon, without any warning.
    pub(crate) fn kill(&self) -> u32 {
        self.signal(Signal::KILL)
    }

    /// Sends a signal to the only daemon.
    pub(super) fn signal(&self, signal: Signal) -> u32 {
        let daemon = self.only();
        kill_process(to_pid(daemon), signal).expect("it runs");
        daemon
    }

    /// Kills all daemons, and waits for their end.
    pub(super) async fn end_all(&self) {
        for daemon in self.all() {
            let _ = kill_process(to_pid(daemon), Signal::KILL);
        }
        wait_until(|| self.all().is_empty()).await;
    }

    pub(super) fn paths(&self, extension: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let paths = files.map(|file| file.path());
        paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for daemon in self.all() {
            let _ = kill_process(to_pid(daemon), Signal::KILL);
        }
    }
}

/// Waits for something that cannot be waited for otherwise.
pub(super) async fn wait_until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(WAIT_STEP).await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.expect("it happens in time");
}
