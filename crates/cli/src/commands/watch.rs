//! Implements `bowline watch`.

use std::time::SystemTime;

use bowline::hooks::Notice;
use bowline::{Event, ListChange, Notification, ServerEvent};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use unicode_width::UnicodeWidthStr as _;

use super::status::{close_registry, interrupt_outcome};
use crate::args::WatchArgs;
use crate::failure::Outcome;
use crate::interrupt::Interrupt;
use crate::print::{BAD, FAINT, GOOD, HINT, NAME, Printer, clock, escape, units};
use crate::session;
use crate::settings::Settings;

pub(super) async fn run(args: WatchArgs, settings: &Settings) -> Outcome {
    let WatchArgs { servers, notifications } = args;
    let meant = settings.select_servers(&servers)?;
    let printer = &settings.printer;
    for other in meant.skipped.iter().filter(|other| other.detail.is_some()) {
        printer.note(&format!("`{}` is left out; see `bowline config check`", other.name));
    }
    let enabled: Vec<_> = meant.servers.into_iter().filter(|server| server.enabled).collect();
    let mut interrupt = Interrupt::listen();
    let watching = units::count(enabled.len(), "server");
    printer.note(&format!("watching {watching}; Ctrl-C ends it"));
    let width = enabled.iter().map(|server| server.name.width()).max().unwrap_or(0).min(MAX_NAME_WIDTH);
    let builder = session::registry_builder(settings).track_tools();
    let mut events = builder.events();
    let registry = builder.open(enabled);
    let outcome = loop {
        let received = tokio::select! {
            received = events.recv() => received,
            exit = interrupt.next() => break interrupt_outcome(exit),
        };
        let told = match received {
            Ok(named) => print_event(&named, notifications, width, printer),
            // The reader of our output is slow; the lost events are counted.
            Err(RecvError::Lagged(count)) => {
                printer.note(&format!("{count} events were missed"));
                Ok(())
            }
            Err(RecvError::Closed) => break Ok(crate::exit::Exit::Ok),
        };
        if let Err(error) = told {
            break Err(error.into());
        }
    };
    close_registry(&registry, &mut interrupt).await;
    outcome
}

/// Widest column of server names.
const MAX_NAME_WIDTH: usize = 24;
/// Width of the longest event name.
const EVENT_WIDTH: usize = 13;
/// How many characters of a notification or change are shown.
const MAX_DETAIL_CHARS: usize = 300;

fn print_event(
    named: &ServerEvent,
    notifications: bool,
    width: usize,
    printer: &Printer,
) -> std::io::Result<()> {
    let (notice, said) = match &named.event {
        Event::ListChanged(change) if printer.is_json() => {
            return printer.write_json_line(&change_json(named, change));
        }
        Event::ListChanged(change) => return printer.write_line(&change_line(named, change, width, printer)),
        Event::Notification(said) if notifications => (None, Some(said)),
        event => (Notice::from_event(&named.server, event), None),
    };
    match (notice, said) {
        (Some(mut notice), _) if printer.is_json() => {
            notice.missed = named.missed;
            printer.write_json_line(&notice.to_json())
        }
        (None, Some(said)) if printer.is_json() => printer.write_json_line(&notification_json(named, said)),
        (Some(notice), _) => printer.write_line(&event_line(&notice, width, printer)),
        (None, Some(said)) => printer.write_line(&notification_line(named, said, width, printer)),
        (None, None) => Ok(()),
    }
}

fn event_line(notice: &Notice, width: usize, printer: &Printer) -> String {
    let outage = notice.outage.map(|outage| format!("after {}", units::time(outage)));
    let detail = [outage, notice.cause.clone()].into_iter().flatten().collect::<Vec<_>>().join(": ");
    if !printer.on_terminal() {
        let line = format!("{}\t{}\t{}\t{detail}", notice.time(), notice.server, notice.event);
        return escape_cells(&line);
    }
    let style = match notice.event.as_str() {
        "connected" | "recovered" => GOOD,
        "failed" => BAD,
        "tools_changed" => FAINT,
        _ => HINT,
    };
    let event = printer.paint(style, &format!("{:EVENT_WIDTH$}", notice.event.as_str()));
    format_line(&clock::local(notice.at), &notice.server, &event, &detail, width, printer)
}

fn notification_json(named: &ServerEvent, said: &Notification) -> String {
    let params = said.params.as_ref().and_then(|params| params.decode::<Value>().ok());
    let object = json!({
        "event": "notification",
        "server": &*named.server,
        "time": clock::utc(SystemTime::now()),
        "method": said.method,
        "params": params,
        "inferred": said.inferred,
        "missed": named.missed,
    });
    object.to_string()
}

fn notification_line(named: &ServerEvent, said: &Notification, width: usize, printer: &Printer) -> String {
    let now = SystemTime::now();
    let params = said.params.as_ref().map(bowline::wire::Json::as_str).unwrap_or_default();
    let params: String = params.chars().take(MAX_DETAIL_CHARS).collect();
    let detail = format!("{} {params}", said.method);
    if !printer.on_terminal() {
        let line = format!("{}\t{}\tnotification\t{}", clock::utc(now), named.server, detail.trim_end());
        return escape_cells(&line);
    }
    let event = printer.paint(FAINT, &format!("{:EVENT_WIDTH$}", "notification"));
    format_line(&clock::local(now), &named.server, &event, detail.trim_end(), width, printer)
}

fn change_json(named: &ServerEvent, change: &ListChange) -> String {
    let object = json!({
        "event": CHANGES,
        "server": &*named.server,
        "time": clock::utc(SystemTime::now()),
        "list": change.list.as_str(),
        "added": change.added,
        "removed": change.removed,
        "changed": change.changed,
        "missed": named.missed,
    });
    object.to_string()
}

fn change_line(named: &ServerEvent, change: &ListChange, width: usize, printer: &Printer) -> String {
    let now = SystemTime::now();
    let parts = [("+", &change.added), ("-", &change.removed), ("~", &change.changed)];
    let marked =
        parts.into_iter().flat_map(|(sign, list)| list.iter().map(move |entry| format!("{sign}{entry}")));
    let detail: String = format!("{}: {}", change.list.as_str(), marked.collect::<Vec<_>>().join(" "))
        .chars()
        .take(MAX_DETAIL_CHARS)
        .collect();
    if !printer.on_terminal() {
        return escape_cells(&format!("{}\t{}\t{CHANGES}\t{detail}", clock::utc(now), named.server));
    }
    let event = printer.paint(FAINT, &format!("{CHANGES:EVENT_WIDTH$}"));
    format_line(&clock::local(now), &named.server, &event, &detail, width, printer)
}

/// Event name for list changes. It is no connection event, and no hooks run for it.
const CHANGES: &str = "changes";

/// Formats a line for a terminal. `event` is already painted.
fn format_line(
    time: &str,
    server: &str,
    event: &str,
    detail: &str,
    width: usize,
    printer: &Printer,
) -> String {
    let server = escape::line(server);
    let padding = " ".repeat(width.saturating_sub(server.width()));
    let (time, name) = (printer.paint(FAINT, time), printer.paint(NAME, &server));
    format!("{time}  {name}{padding}  {event}  {}", escape::line(detail)).trim_end().to_owned()
}

/// Escapes each cell of a line, and keeps our own tabs between them.
fn escape_cells(line: &str) -> String {
    line.split('\t').map(escape::line).collect::<Vec<_>>().join("\t").trim_end().to_owned()
}
