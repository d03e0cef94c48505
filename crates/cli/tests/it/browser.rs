//! A fake browser that reports the URL it is given.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::context::Context;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A program for `BROWSER`. It reports the number of its arguments and the first one.
pub(crate) struct Browser {
    pub(crate) program: PathBuf,
    launches: mpsc::Receiver<String>,
}

impl Browser {
    pub(crate) fn new(context: &Context) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        // A context may have several browsers.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (program, pipe) =
            (context.path(&format!("browser-{number}")), context.path(&format!("opened-{number}")));
        let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success());
        let script = format!("#!/bin/sh\nprintf '%s|%s' $# \"$1\" > {}\n", pipe.display());
        std::fs::write(&program, script).expect("a file");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            while let Ok(text) = std::fs::read_to_string(&pipe) {
                if tell.send(text).is_err() {
                    break;
                }
            }
        });
        Self { program, launches: told }
    }

    /// Waits until the browser was started, and returns its report.
    pub(crate) fn opened(&self) -> String {
        self.launches.recv_timeout(TEST_TIMEOUT).expect("the browser was started")
    }

    /// Checks that the browser has not been started before: the first report is the one made here.
    pub(crate) fn assert_not_started(&self) {
        Command::new(&self.program).arg("the first").status().expect("it runs");
        assert_eq!(self.opened(), "1|the first");
    }
}
