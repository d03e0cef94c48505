//! Prints a server's log messages: one escaped line each, and no more of them than can be read.
// LG-03: the content of log messages is untrusted.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use anstyle::Style;
use bowline::types::{LogLevel, LogMessage};
use bowline::{Event, EventReceiver, Json, Notification, Topic};
use serde_json::{Value, json};

use super::{BAD, FAINT, HINT, NAME, Printer, clock, escape};

/// Returns the log message of an event, if it is one.
pub(crate) fn log_message(event: &Event) -> Option<LogMessage> {
    let Event::Notification(said) = event else { return None };
    let Topic::Log(params) = Notification::topic(said) else { return None };
    LogMessage::decode(params).ok()
}

/// Waits for `work`, and prints the server's log messages to stderr meanwhile.
pub(crate) async fn print_logs_during<T>(
    printer: &Printer,
    level: LogLevel,
    mut events: EventReceiver<Event>,
    work: impl Future<Output = T>,
) -> T {
    let mut flood = RateLimiter::new();
    let mut tell = |event: &Event| {
        if let Event::Missed(count) = event {
            return note_missed(printer, *count);
        }
        let Some(message) = log_message(event).filter(|message| message.level >= level) else { return };
        match flood.admit(Instant::now()) {
            Admission::Print { left_out } => {
                note_left_out(printer, left_out);
                printer
                    .write_stderr_line(&to_text(&message, |style, text| printer.paint_stderr(style, text)));
            }
            Admission::Omit => {}
        }
    };
    tokio::pin!(work);
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            event = events.next() => match event {
                Some(event) => tell(&event),
                None => break work.await,
            },
        }
    };
    // Messages before the response were logged before it, so they are printed too.
    while let Some(event) = events.try_next() {
        tell(&event);
    }
    note_left_out(printer, flood.take_left_out());
    result
}

/// Notes that lines were not printed.
pub(crate) fn note_left_out(printer: &Printer, count: u64) {
    if count > 0 {
        printer.note(&format!("{count} log lines are left out, because they came too fast"));
    }
}

/// Notes that messages arrived faster than they could be read.
pub(crate) fn note_missed(printer: &Printer, count: u64) {
    printer.note(&format!("{count} messages of the server were missed"));
}

/// Formats a message for a terminal: `14:03:07  warning    db  the disk is full`.
pub(crate) fn to_text(message: &LogMessage, paint: impl Fn(Style, &str) -> String) -> String {
    let style = match message.level {
        LogLevel::Debug => FAINT,
        LogLevel::Info | LogLevel::Notice => Style::new(),
        LogLevel::Warning => HINT,
        _ => BAD,
    };
    let mut line = paint(FAINT, &clock::local(SystemTime::now()));
    write!(line, "  {}", paint(style, &format!("{:LEVEL_WIDTH$}", message.level.as_str())))
        .expect("writing to a string");
    if let Some(logger) = &message.logger {
        write!(line, "  {}", paint(NAME, &escape::line(&truncate(logger, MAX_LOGGER_CHARS))))
            .expect("writing to a string");
    }
    write!(line, "  {}", escape::indented_text(&data_text(message))).expect("writing to a string");
    line
}

/// Formats a message for a pipe: time, level, logger and data, separated by tabs.
pub(crate) fn to_tabs(message: &LogMessage) -> String {
    let time = clock::utc(SystemTime::now());
    let (level, data) = (message.level.as_str(), data_text(message));
    let logger = message.logger.as_deref().unwrap_or_default();
    format!("{time}\t{level}\t{}\t{}", escape::line(&truncate(logger, MAX_LOGGER_CHARS)), escape::line(&data))
}

/// Formats a message as JSON, untruncated.
pub(crate) fn to_json(message: &LogMessage, server: &str) -> String {
    let data = message.data.decode::<Value>().unwrap_or_default();
    let object = json!({
        "time": clock::utc(SystemTime::now()),
        "server": server,
        "level": message.level.as_str(),
        "logger": message.logger,
        "data": data,
    });
    object.to_string()
}

/// Formats a line of stderr for a terminal, like a message whose level is `stderr`.
pub(crate) fn stderr_to_text(line: &str, paint: impl Fn(Style, &str) -> String) -> String {
    let (time, level) = (clock::local(SystemTime::now()), format!("{STDERR:LEVEL_WIDTH$}"));
    let text = escape::indented_text(&truncate(line, MAX_MESSAGE_CHARS));
    format!("{}  {}  {text}", paint(FAINT, &time), paint(FAINT, &level))
}

/// Formats a line of stderr for a pipe, like a message whose level is `stderr`.
pub(crate) fn stderr_to_tabs(line: &str) -> String {
    let time = clock::utc(SystemTime::now());
    format!("{time}\t{STDERR}\t\t{}", escape::line(&truncate(line, MAX_MESSAGE_CHARS)))
}

/// Formats a line of stderr as JSON.
pub(crate) fn stderr_to_json(line: &str, server: &str) -> String {
    let object = json!({
        "time": clock::utc(SystemTime::now()),
        "server": server,
        "stream": STDERR,
        "data": line,
    });
    object.to_string()
}

const STDERR: &str = "stderr";

/// Returns the data of a message: a string as text, everything else as JSON.
fn data_text(message: &LogMessage) -> String {
    let text = message.data.decode::<String>().unwrap_or_else(|_| Json::as_str(&message.data).to_owned());
    truncate(&text, MAX_MESSAGE_CHARS)
}

fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Width of the longest level name.
const LEVEL_WIDTH: usize = 9;
/// How much of a message is shown to a person; machines get all of it.
const MAX_MESSAGE_CHARS: usize = 4_000;
const MAX_LOGGER_CHARS: usize = 80;

/// Limits how many lines of a server are printed in each [`RATE_WINDOW`].
// LG-03.
pub(crate) struct RateLimiter {
    since: Instant,
    count: u32,
    left_out: u64,
}

/// Whether a line is printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Print {
        /// How many lines before it were omitted.
        left_out: u64,
    },
    Omit,
}

/// Most lines in one [`RATE_WINDOW`].
const MAX_LINES_PER_WINDOW: u32 = 500;
const RATE_WINDOW: Duration = Duration::from_secs(1);

impl RateLimiter {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), count: 0, left_out: 0 }
    }

    /// Decides whether one more line may be printed now.
    pub(crate) fn admit(&mut self, now: Instant) -> Admission {
        if now.duration_since(self.since) >= RATE_WINDOW {
            (self.since, self.count) = (now, 0);
        }
        if self.count == MAX_LINES_PER_WINDOW {
            self.left_out += 1;
            return Admission::Omit;
        }
        self.count += 1;
        Admission::Print { left_out: self.take_left_out() }
    }

    /// Returns how many lines were omitted since the last call.
    pub(crate) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(params: &Value) -> LogMessage {
        LogMessage::decode(&Json::encode(params).unwrap()).unwrap()
    }

    fn plain(params: &Value) -> String {
        let line = to_text(&of(params), |_, text| text.to_owned());
        // Drops the time.
        line[10..].to_owned()
    }

    // LG-03
    #[test]
    fn any_data_is_a_harmless_line() {
        assert_eq!(
            plain(&json!({"level": "warning", "logger": "db", "data": "full"})),
            "warning    db  full"
        );
        assert_eq!(
            plain(&json!({"level": "info", "data": {"b": [1], "a": null}})),
            "info       {\"a\":null,\"b\":[1]}"
        );
        let hostile =
            json!({"level": "error", "logger": "a\tb\n", "data": "x\u{1b}[2J\n14:00:00  info  forged"});
        assert_eq!(plain(&hostile), "error      a\\tb\\n  x\\u{1b}[2J\n    14:00:00  info  forged");
        let piped = to_tabs(&of(&hostile));
        assert_eq!(piped.split('\t').count(), 4);
        assert!(!piped.contains('\n') && !piped.contains('\u{1b}'), "{piped:?}");
        assert!(plain(&json!({"level": "info", "data": "x".repeat(100_000)})).len() < 5_000);
    }

    // LG-03
    #[test]
    fn lines_beyond_the_rate_are_counted() {
        let mut flood = RateLimiter::new();
        let begin = flood.since;
        for _ in 0..MAX_LINES_PER_WINDOW {
            assert_eq!(flood.admit(begin), Admission::Print { left_out: 0 });
        }
        for _ in 0..7 {
            assert_eq!(flood.admit(begin + RATE_WINDOW / 2), Admission::Omit);
        }
        assert_eq!(flood.admit(begin + RATE_WINDOW), Admission::Print { left_out: 7 });
        assert_eq!(flood.take_left_out(), 0);
    }
}
