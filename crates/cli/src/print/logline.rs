//! Prints a server's log messages: one escaped line each, and no more of them than can be read.
// LG-03: the content of log messages is untrusted.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use anstyle::Style;
use bowline::view::{LogLevel, LogMessage};
use bowline::wire::Json;
use bowline::{Event, EventReceiver, Notification, Topic};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::{BAD, FAINT, HINT, NAME, Printer, clock, escape};

/// Returns the log message of an event, if it is one.
pub(crate) fn message(event: &Event) -> Option<LogMessage> {
    let Event::Notification(said) = event else { return None };
    let Topic::Log(params) = Notification::topic(said) else { return None };
    LogMessage::decode(params).ok()
}

/// Waits for `work`, and prints the server's log messages to stderr meanwhile.
pub(crate) async fn while_it_runs<T>(
    printer: &Printer,
    level: LogLevel,
    mut events: EventReceiver<Event>,
    work: impl Future<Output = T>,
) -> T {
    let mut flood = Flood::new();
    let mut tell = |event: &Event| {
        let Some(message) = message(event).filter(|message| message.level >= level) else { return };
        match flood.admit(Instant::now()) {
            Admitted::Yes { left_out } => {
                left_out_note(printer, left_out);
                printer.aside(&for_people(&message, |style, text| printer.paint_aside(style, text)));
            }
            Admitted::No => {}
        }
    };
    tokio::pin!(work);
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            event = events.recv() => match event {
                Ok(event) => tell(&event),
                Err(RecvError::Lagged(count)) => missed(printer, count),
                Err(RecvError::Closed) => break work.await,
            },
        }
    };
    // Messages before the response were logged before it, so they are printed too.
    loop {
        match events.try_recv() {
            Ok(event) => tell(&event),
            Err(TryRecvError::Lagged(count)) => missed(printer, count),
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    left_out_note(printer, flood.end());
    result
}

/// Notes that lines were not printed.
pub(crate) fn left_out_note(printer: &Printer, count: u64) {
    if count > 0 {
        printer.note(&format!("{count} log lines more came than can be read; they are left out"));
    }
}

/// Notes that messages arrived faster than they could be read.
pub(crate) fn missed(printer: &Printer, count: u64) {
    printer.note(&format!("{count} messages of the server were missed"));
}

/// Formats a message for a terminal: `14:03:07  warning    db  the disk is full`.
pub(crate) fn for_people(message: &LogMessage, paint: impl Fn(Style, &str) -> String) -> String {
    let style = match message.level {
        LogLevel::Debug => FAINT,
        LogLevel::Info | LogLevel::Notice => Style::new(),
        LogLevel::Warning => HINT,
        LogLevel::Error | LogLevel::Critical | LogLevel::Alert | LogLevel::Emergency => BAD,
    };
    let mut line = paint(FAINT, &clock::local(SystemTime::now()));
    write!(line, "  {}", paint(style, &format!("{:LEVEL$}", message.level.as_str())))
        .expect("writing to a string");
    if let Some(logger) = &message.logger {
        write!(line, "  {}", paint(NAME, &escape::line(&short(logger, LONGEST_NAME))))
            .expect("writing to a string");
    }
    write!(line, "  {}", escape::hanging(&data(message))).expect("writing to a string");
    line
}

/// Formats a message for a pipe: time, level, logger and data, separated by tabs.
pub(crate) fn for_pipes(message: &LogMessage) -> String {
    let time = clock::utc(SystemTime::now());
    let (level, data) = (message.level.as_str(), data(message));
    let logger = message.logger.as_deref().unwrap_or_default();
    format!("{time}\t{level}\t{}\t{}", escape::line(&short(logger, LONGEST_NAME)), escape::line(&data))
}

/// Formats a message as JSON, untruncated.
pub(crate) fn for_machines(message: &LogMessage, server: &str) -> String {
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

/// Returns the data of a message: a string as text, everything else as JSON.
fn data(message: &LogMessage) -> String {
    let text = message.data.decode::<String>().unwrap_or_else(|_| Json::as_str(&message.data).to_owned());
    short(&text, LONGEST)
}

fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Width of the longest level name.
const LEVEL: usize = 9;
/// How much of a message is shown to a person; machines get all of it.
const LONGEST: usize = 4_000;
const LONGEST_NAME: usize = 80;

/// Limits how many lines of a server are printed in each [`RATE_WINDOW`].
// LG-03.
pub(crate) struct Flood {
    since: Instant,
    count: u32,
    left_out: u64,
}

/// Whether a line is printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    Yes {
        /// How many lines before it were omitted.
        left_out: u64,
    },
    No,
}

/// Most lines in one [`RATE_WINDOW`].
const MOST: u32 = 500;
const SPAN: Duration = Duration::from_secs(1);

impl Flood {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), count: 0, left_out: 0 }
    }

    /// Decides whether one more line may be printed now.
    pub(crate) fn admit(&mut self, now: Instant) -> Admitted {
        if now.duration_since(self.since) >= SPAN {
            (self.since, self.count) = (now, 0);
        }
        if self.count == MOST {
            self.left_out += 1;
            return Admitted::No;
        }
        self.count += 1;
        Admitted::Yes { left_out: self.end() }
    }

    /// Returns how many lines were omitted since the last call.
    pub(crate) fn end(&mut self) -> u64 {
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
        let line = for_people(&of(params), |_, text| text.to_owned());
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
        let piped = for_pipes(&of(&hostile));
        assert_eq!(piped.split('\t').count(), 4);
        assert!(!piped.contains('\n') && !piped.contains('\u{1b}'), "{piped:?}");
        assert!(plain(&json!({"level": "info", "data": "x".repeat(100_000)})).len() < 5_000);
    }

    // LG-03
    #[test]
    fn a_flood_is_counted() {
        let mut flood = Flood::new();
        let begin = flood.since;
        for _ in 0..MOST {
            assert_eq!(flood.admit(begin), Admitted::Yes { left_out: 0 });
        }
        for _ in 0..7 {
            assert_eq!(flood.admit(begin + SPAN / 2), Admitted::No);
        }
        assert_eq!(flood.admit(begin + SPAN), Admitted::Yes { left_out: 7 });
        assert_eq!(flood.end(), 0);
    }
}
