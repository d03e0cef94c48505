//! Formats the status of servers: a table for people, lines for pipes, JSON for machines.

use std::time::{Instant, SystemTime};

use anstyle::Style;
use bowline::{Fault, ServerState, ServerStatus};
use serde_json::{Value, json};

use super::stale_lists::StaleLists;
use crate::print::table::Table;
use crate::print::text_width::{display_width, truncate};
use crate::print::{BAD, FAINT, GOOD, HINT, NAME, Printer, STRONG, clock, escape, units};
use crate::settings::server_selection::{SkipReason, SkippedServer};

#[derive(Default)]
pub(crate) struct StatusRow {
    pub(crate) name: String,
    state: &'static str,
    style: Style,
    era: Option<&'static str>,
    revision: Option<String>,
    transport: &'static str,
    since: Option<SystemTime>,
    recoveries: u64,
    sessions_lost: u64,
    attempt: u32,
    fault: Option<(SystemTime, Fault)>,
    /// Problem of its configuration entry.
    detail: Option<String>,
    next_attempt: Option<Instant>,
    /// Which of its lists hosts get from the catalogs of daemons. `None` if the daemons were not asked.
    pub(super) stale_lists: Option<Vec<StaleLists>>,
}

/// The time that spans are relative to.
#[derive(Clone, Copy)]
pub(crate) struct CurrentTime {
    clock: SystemTime,
    instant: Instant,
}

impl CurrentTime {
    pub(crate) fn read() -> Self {
        Self { clock: SystemTime::now(), instant: Instant::now() }
    }

    /// This time, whatever the clock shows.
    #[cfg(all(test, unix))]
    pub(super) fn at(clock: SystemTime) -> Self {
        Self { clock, ..Self::read() }
    }

    pub(super) fn clock(self) -> SystemTime {
        self.clock
    }

    /// Formats the time in UTC, for machines.
    pub(crate) fn utc(self) -> String {
        clock::utc(self.clock)
    }
}

impl From<&ServerStatus> for StatusRow {
    fn from(status: &ServerStatus) -> Self {
        let peer = status.peer.as_ref();
        Self {
            name: status.name.to_string(),
            state: status.state.as_str(),
            style: match status.state {
                ServerState::Ready => GOOD,
                ServerState::Failed => BAD,
                ServerState::BackingOff | ServerState::NeedsLogin => HINT,
                _ => FAINT,
            },
            era: peer.map(|peer| match peer.era() {
                bowline::Era::Legacy => "legacy",
                bowline::Era::Modern => "modern",
            }),
            revision: peer.map(|peer| peer.revision.as_str().to_owned()),
            transport: status.transport,
            since: status.health.connected_since,
            recoveries: status.health.recoveries,
            sessions_lost: status.health.sessions_lost,
            attempt: status.health.attempt,
            fault: status.health.last_fault.clone(),
            detail: None,
            next_attempt: status.next_attempt,
            stale_lists: None,
        }
    }
}

impl From<&SkippedServer> for StatusRow {
    fn from(other: &SkippedServer) -> Self {
        Self {
            name: other.name.clone(),
            state: other.reason.as_str(),
            style: if other.reason == SkipReason::Unusable { BAD } else { FAINT },
            detail: other.detail.clone(),
            ..Self::default()
        }
    }
}

impl StatusRow {
    pub(crate) fn to_json(&self, now: CurrentTime) -> Value {
        let error = self.fault.as_ref().map(|(at, fault)| {
            json!({
                "message": fault.to_string(),
                "kind": fault.cause.kind(),
                "time": clock::utc(*at),
            })
        });
        let detail = self.detail.as_ref().map(|detail| json!({ "message": detail, "kind": "configuration" }));
        let mut row = json!({
            "name": self.name,
            "state": self.state.replace(' ', "_"),
            "era": self.era,
            "revision": self.revision,
            "transport": Some(self.transport).filter(|it| !it.is_empty()),
            "since": self.since.map(clock::utc),
            "recoveries": self.recoveries,
            "sessions_lost": self.sessions_lost,
            "attempt": self.attempt,
            "last_error": error.or(detail),
            "next_attempt_ms": self.next_attempt.map(|next| {
                u64::try_from(next.saturating_duration_since(now.instant).as_millis()).unwrap_or(u64::MAX)
            }),
        });
        if let Some(stale) = &self.stale_lists {
            row["stale_lists"] = stale.iter().map(StaleLists::to_json).collect();
        }
        row
    }

    /// Returns the cells of a line in a pipe.
    pub(crate) fn cells(&self, now: CurrentTime) -> [String; 9] {
        [
            self.name.clone(),
            self.state.to_owned(),
            self.protocol(),
            self.transport.to_owned(),
            self.uptime(now),
            self.recoveries.to_string(),
            self.next_attempt_text(now).unwrap_or_default(),
            self.error_text().unwrap_or_default(),
            self.stale_texts(now).collect::<Vec<_>>().join("; "),
        ]
    }

    /// Returns whether the server may need attention.
    pub(crate) fn is_troubled(&self) -> bool {
        self.style == BAD || self.style == HINT
    }

    fn protocol(&self) -> String {
        match (self.era, &self.revision) {
            (Some(era), Some(revision)) => format!("{era} {revision}"),
            _ => String::new(),
        }
    }

    fn uptime(&self, now: CurrentTime) -> String {
        self.since.map(|since| clock::format_span(clock::since(now.clock, since))).unwrap_or_default()
    }

    fn next_attempt_text(&self, now: CurrentTime) -> Option<String> {
        Some(units::time(self.next_attempt?.saturating_duration_since(now.instant)))
    }

    fn error_text(&self) -> Option<String> {
        self.fault.as_ref().map(|(_, fault)| fault.to_string()).or_else(|| self.detail.clone())
    }

    /// Returns a sentence for each daemon whose hosts get lists from the catalog.
    fn stale_texts(&self, now: CurrentTime) -> impl Iterator<Item = String> {
        self.stale_lists.iter().flatten().map(move |stale| stale.text(now))
    }

    /// Returns the line below a row: what went wrong, when, and the next attempt.
    fn remark(&self, now: CurrentTime) -> Option<String> {
        let mut remark = self.error_text()?;
        if let Some((at, _)) = &self.fault {
            let ago = clock::format_span(clock::since(now.clock, *at));
            remark = format!("{ago} ago: {remark}");
        }
        if let Some(next) = self.next_attempt {
            // In whole seconds, since it is watched while it counts down.
            let wait = next.saturating_duration_since(now.instant).as_secs_f64().ceil();
            remark = format!("next attempt in {wait:.0}s; {remark}");
        }
        Some(remark)
    }
}

/// Formats all rows for stdout.
pub(crate) fn render(rows: &[StatusRow], now: CurrentTime, printer: &Printer) -> String {
    if printer.on_terminal() {
        return render_lines(rows, now, printer.width, printer).into_iter().map(|line| line + "\n").collect();
    }
    let mut table = Table::new([""; 9]);
    for row in rows {
        table.push_row(row.cells(now));
    }
    table.render(printer)
}

/// Formats the table with this width: for each server a line, and further ones for what is wrong with it.
pub(crate) fn render_lines(
    rows: &[StatusRow],
    now: CurrentTime,
    width: usize,
    printer: &Printer,
) -> Vec<String> {
    let names: Vec<_> = rows.iter().map(|row| truncate(&escape::line(&row.name), MAX_NAME_WIDTH)).collect();
    let name = names.iter().map(|name| display_width(name)).chain([6]).max().unwrap_or(6);
    let mut lines =
        vec![printer.paint(STRONG, &truncate(&format!("{:name$}  {TABLE_HEAD}", "SERVER"), width))];
    for (row, shown) in rows.iter().zip(names) {
        let rest = format!(
            "  {:17}  {:5}  {:7}  {}",
            row.protocol(),
            row.transport,
            row.uptime(now),
            if row.since.is_some() || row.recoveries > 0 {
                row.recoveries.to_string()
            } else {
                String::new()
            },
        );
        let padding = " ".repeat(name - display_width(&shown));
        let room = width.saturating_sub(name + 2 + STATE_WIDTH);
        lines.push(format!(
            "{}{padding}  {}{}",
            printer.paint(NAME, &shown),
            printer.paint(row.style, &format!("{:STATE_WIDTH$}", row.state)),
            truncate(rest.trim_end(), room),
        ));
        for remark in row.remark(now).into_iter().chain(row.stale_texts(now)) {
            let remark = truncate(&escape::line(&remark), width.saturating_sub(INDENT));
            lines.push(format!("{:INDENT$}{}", "", printer.paint(FAINT, &remark)));
        }
    }
    lines
}

const TABLE_HEAD: &str = "STATE        PROTOCOL           VIA    UP       RECOVERED";
/// Width of the longest state name.
const STATE_WIDTH: usize = 11;
const MAX_NAME_WIDTH: usize = 20;
const INDENT: usize = 4;
