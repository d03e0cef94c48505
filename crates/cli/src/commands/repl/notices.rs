//! Prints what the servers of the prompt report by themselves, above the line that is being typed.

use std::time::Instant;

use bowline::{Client, Event, ListChange};

use super::super::logs::note_connection_event;
use crate::kept_sessions::BusyFlag;
use crate::print::log_line::{self, Admission, RateLimiter};
use crate::print::{Printer, units};

/// Prints log messages, changes of lists and the end of outages of a server, until its connection is closed.
pub(super) fn print_notices(client: &Client, printer: Printer, busy: BusyFlag) {
    let mut events = client.events();
    client.track_lists();
    let name = client.name().to_owned();
    tokio::spawn(async move {
        let mut flood = RateLimiter::new();
        while let Some(event) = events.next().await {
            match &event {
                // The call itself says what was done to bring it through.
                Event::Connection(_) if busy.is_set() => {}
                Event::Connection(life) => {
                    note_connection_event(&printer, &name, life.kind, life.outage.map(units::time));
                }
                Event::ListChanged(change) => printer.note(&describe_change(&name, change)),
                Event::Missed(count) => log_line::note_missed(&printer, *count),
                event => {
                    let Some(message) = log_line::log_message(event) else { continue };
                    if let Admission::Print { left_out } = flood.admit(Instant::now()) {
                        log_line::note_left_out(&printer, left_out);
                        let line =
                            log_line::to_text(&message, |style, text| printer.paint_stderr(style, text));
                        printer.write_stderr_line(&line);
                    }
                }
            }
        }
    });
}

/// Formats a change of a list: `files: tools changed: +read_file -old`.
fn describe_change(server: &str, change: &ListChange) -> String {
    let parts = [("+", &change.added), ("-", &change.removed), ("~", &change.changed)];
    let marked =
        parts.into_iter().flat_map(|(sign, list)| list.iter().map(move |entry| format!("{sign}{entry}")));
    let mut shown: Vec<String> = marked.collect();
    let more = shown.len().saturating_sub(MAX_NAMES);
    shown.truncate(MAX_NAMES);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    format!("`{server}`: {} changed: {}", change.list.as_str(), shown.join(" "))
}

/// How many names of a change are shown.
const MAX_NAMES: usize = 10;
