//! Reads lines of stdin, for questions that are asked without a dialog.

use std::io::{self, BufRead as _, Read as _};

/// Reads the next line of stdin, trimmed. Returns
/// `None` at the end of input.
pub(super) async fn read_line() -> Option<String> {
    let read = || {
        let mut line = String::new();
        let count = io::stdin().lock().take(MAX_LINE_BYTES).read_line(&mut line).ok()?;
        (count > 0).then(|| line.trim().to_owned())
    };
    tokio::task::spawn_blocking(read).await.ok().flatten()
}

/// Longest line of input, in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024;
