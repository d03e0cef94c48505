//! [`StderrListener`]: who receives what a server writes to stderr.
//!
//! Stderr is not evidence of failure (ST-03). It is read for as long as the process lives, so that
//! the server cannot block on it; it is written to the log, and attached to faults.

use std::fmt;
use std::sync::Arc;

/// Receives the lines that a server writes to stderr, one at a time and in order. It is called
/// within the task that reads them, so it must not block.
///
/// Of a line that is longer than 1,024 bytes it receives the beginning, and then `…`. Configured
/// variables whose names say that they are secret are redacted, invalid UTF-8 is replaced by
/// U+FFFD, and blank lines are left out.
/// Server text: untrusted, with whatever control characters the server wrote.
#[derive(Clone)]
pub struct StderrListener(Arc<dyn Fn(&str) + Send + Sync>);

impl StderrListener {
    /// Creates a listener from a function.
    pub fn new(listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    pub(super) fn notify(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for StderrListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StderrListener").finish_non_exhaustive()
    }
}
