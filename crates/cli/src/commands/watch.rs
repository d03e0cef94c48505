//! Implements `bowline watch`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use anstyle::Style;
use bowline::hooks::Notice;
use bowline::{Event, ListChange, Notification, ServerEvent};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::status::{close_registry, interrupt_outcome};
use crate::args::WatchArgs;
use crate::failure::Outcome;
use crate::interrupt::Interrupt;
use crate::print::{BAD, FAINT, GOOD, HINT, NAME, Printer, clock, escape, units};
use crate::session;
use crate::settings::Settings;

pub(super) async fn run(args: WatchArgs, settings: &Settings) -> Outcome {
    let WatchArgs { servers, notifications, url } = args;
    let meant = settings.select_servers(&servers)?.apply(&url)?;
    settings.note_doubts(&meant.servers)?;
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
    // Missed events of each server, until its next event says so.
    let mut missed: HashMap<Arc<str>, u64> = HashMap::new();
    let outcome = loop {
        let received = tokio::select! {
            received = events.next() => received,
            exit = interrupt.next() => break interrupt_outcome(exit),
        };
        let told = match received {
            // The reader of our output is slow; the lost events are counted.
            Some(ServerEvent { server, event: Event::Missed(count), .. }) if !server.is_empty() => {
                *missed.entry(server).or_default() += count;
                Ok(())
            }
            Some(ServerEvent { event: Event::Missed(count), .. }) => {
                printer.note(&format!("{count} events were missed"));
                Ok(())
            }
            Some(named) => {
                let missed = missed.remove(&named.server).unwrap_or(0);
                print_event(&named, missed, notifications, width, printer)
            }
            None => break Ok(crate::exit::Exit::Ok),
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
    missed: u64,
    notifications: bool,
    width: usize,
    printer: &Printer,
) -> std::io::Result<()> {
    let at = SystemTime::now();
    let line = match &named.event {
        Event::ListChanged(change) if printer.is_json() => {
            return printer.write_json_line(&change_json(named, missed, change));
        }
        Event::ListChanged(change) => {
            EventLine { at, event: CHANGES, style: FAINT, detail: change_detail(change) }
        }
        Event::Notification(said) if notifications && printer.is_json() => {
            return printer.write_json_line(&notification_json(named, missed, said));
        }
        Event::Notification(said) if notifications => {
            let params = said.params.as_ref().map(bowline::Json::as_str).unwrap_or_default();
            let params: String = params.chars().take(MAX_DETAIL_CHARS).collect();
            EventLine { at, event: "notification", style: FAINT, detail: format!("{} {params}", said.method) }
        }
        event => {
            let Some(mut notice) = Notice::from_event(&named.server, event) else { return Ok(()) };
            if printer.is_json() {
                notice.missed = missed;
                return printer.write_json_line(&notice.to_json());
            }
            EventLine::from_notice(&notice)
        }
    };
    printer.write_line(&line.render(&named.server, width, printer))
}

/// An event as a person sees it.
struct EventLine {
    at: SystemTime,
    event: &'static str,
    style: Style,
    detail: String,
}

impl EventLine {
    fn from_notice(notice: &Notice) -> Self {
        let outage = notice.outage.map(|outage| format!("after {}", units::time(outage)));
        let detail = [outage, notice.cause.clone()].into_iter().flatten().collect::<Vec<_>>().join(": ");
        let event = notice.event.as_str();
        let style = match event {
            "connected" | "recovered" => GOOD,
            "failed" => BAD,
            "tools_changed" => FAINT,
            _ => HINT,
        };
        Self { at: notice.at, event, style, detail }
    }

    fn render(&self, server: &str, width: usize, printer: &Printer) -> String {
        let Self { at, event, style, detail } = self;
        if !printer.on_terminal() {
            return escape_cells(&format!("{}\t{server}\t{event}\t{}", clock::utc(*at), detail.trim_end()));
        }
        let server = escape::line(server);
        let padding = " ".repeat(width.saturating_sub(server.width()));
        let (time, name) = (printer.paint(FAINT, &clock::local(*at)), printer.paint(NAME, &server));
        let event = printer.paint(*style, &format!("{event:EVENT_WIDTH$}"));
        format!("{time}  {name}{padding}  {event}  {}", escape::line(detail.trim_end())).trim_end().to_owned()
    }
}

fn notification_json(named: &ServerEvent, missed: u64, said: &Notification) -> String {
    let params = said.params.as_ref().and_then(|params| params.decode::<Value>().ok());
    let object = json!({
        "event": "notification",
        "server": &*named.server,
        "time": clock::utc(SystemTime::now()),
        "method": said.method,
        "params": params,
        "inferred": said.inferred,
        "missed": missed,
    });
    object.to_string()
}

fn change_json(named: &ServerEvent, missed: u64, change: &ListChange) -> String {
    let object = json!({
        "event": CHANGES,
        "server": &*named.server,
        "time": clock::utc(SystemTime::now()),
        "list": change.list.as_str(),
        "added": change.added,
        "removed": change.removed,
        "changed": change.changed,
        "missed": missed,
    });
    object.to_string()
}

fn change_detail(change: &ListChange) -> String {
    let parts = [("+", &change.added), ("-", &change.removed), ("~", &change.changed)];
    let marked =
        parts.into_iter().flat_map(|(sign, list)| list.iter().map(move |entry| format!("{sign}{entry}")));
    let detail = format!("{}: {}", change.list.as_str(), marked.collect::<Vec<_>>().join(" "));
    detail.chars().take(MAX_DETAIL_CHARS).collect()
}

/// Event name for list changes. It is no connection event, and no hooks run for it.
const CHANGES: &str = "changes";

/// Escapes each cell of a line, and keeps our own tabs between them.
fn escape_cells(line: &str) -> String {
    line.split('\t').map(escape::line).collect::<Vec<_>>().join("\t").trim_end().to_owned()
}
