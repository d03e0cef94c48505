//! Sets up logging to stderr, which is off unless asked for. Log events contain text from servers,
//! so each is written as one line without anything that a terminal would act on.

use std::io;

use anstream::ColorChoice;
use bowline::config::Environment;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::uptime;

use crate::env;
use crate::print::{escape, stderr};

/// Starts logging at the level of `-v`, or as the environment says.
pub(crate) fn start(verbose: u8, env: &dyn Environment) {
    let filter = match (env::non_empty_var(env, env::LOG), verbose) {
        (Some(filter), _) => EnvFilter::new(filter),
        (None, 0) => return,
        (None, 1) => EnvFilter::new("info"),
        // Details of other crates rarely help users.
        (None, 2) => EnvFilter::new("info,bowline=debug"),
        (None, _) => EnvFilter::new("debug,bowline=trace"),
    };
    let logged = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| EscapingWriter(stderr::write))
        .with_ansi(false)
        .with_timer(uptime())
        .try_init();
    debug_assert!(logged.is_ok(), "logging starts once");
}

/// Escapes each event, which arrives whole, and passes it on as one line.
struct EscapingWriter<F>(F);

impl<F: FnMut(&str, ColorChoice)> io::Write for EscapingWriter<F> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        (self.0)(&format!("{}\n", escape::line(text)), ColorChoice::Never);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// Whatever a server sends, and whatever the formatter leaves unescaped.
    #[test]
    fn an_event_is_one_harmless_line() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let logger = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || {
                let seen = Arc::clone(&seen);
                EscapingWriter(move |line: &str, _| seen.lock().push(line.to_owned()))
            })
            .finish();
        let hostile = "a\x1b]0;title\x07\n2026 ERROR forged\r\u{9b}2J\u{202e}b";
        tracing::subscriber::with_default(logger, || {
            tracing::error!(error = %hostile, debug = ?hostile, text = hostile, "{hostile}");
            tracing::error_span!("span", field = %hostile).in_scope(|| tracing::error!("within"));
        });
        let lines = lines.lock();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in &*lines {
            let line = line.strip_suffix('\n').expect("a line");
            assert!(!line.contains(escape::is_active), "{line:?}");
            assert!(line.contains("ERROR forged\\r"), "{line}");
        }
    }
}
