//! Renders the figures of gateways for a terminal.

use std::fmt::Write as _;

use super::GatewayReport;
use super::calls::{CallResults, Figure, MANY, ONE, Series};
use super::memory::{FEW_UPSTREAMS, MemoryResults, SESSIONS};
use super::startup::StartupResults;
use crate::recovery;

/// Renders what was measured.
pub(super) fn render(report: &GatewayReport) -> String {
    let mut out = String::new();
    if let Some(calls) = &report.calls {
        render_calls(&mut out, calls);
    }
    if let Some(memory) = &report.memory {
        render_memory(&mut out, memory);
    }
    if let Some(startup) = &report.startup {
        render_startup(&mut out, startup);
    }
    if let Some(legs) = &report.recovery {
        out += &recovery::table::render(legs);
    }
    out
}

fn render_calls(out: &mut String, calls: &CallResults) {
    let _ = writeln!(
        out,
        "\n{:<30}{:<11}{:>8}{:>8}{:>9}{:>9}{:>12}{:>9}{:>9}",
        "way, host-server",
        "calls",
        "p50 us",
        "p99 us",
        "added us",
        "x floor",
        "64: calls/s",
        "x floor",
        "CPU us"
    );
    let number =
        |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    for (way, tool) in calls.measured() {
        let (one, many) = (Series { way, tool, lanes: ONE }, Series { way, tool, lanes: MANY });
        let _ = writeln!(
            out,
            "{:<30}{:<11}{:>8}{:>8}{:>9}{:>9}{:>12}{:>9}{:>9}",
            way.name(),
            tool.describe(),
            number(calls.median(one, Figure::P50), 0),
            number(calls.median(one, Figure::P99), 0),
            number(calls.added(way, tool), 0),
            number(calls.added_to_floor(way, tool), 2),
            number(calls.median(many, Figure::Rate), 0),
            number(calls.ratio(many, Series::floor(MANY), Figure::Rate), 2),
            number(calls.median(many, Figure::Cpu), 0),
        );
    }
    for (way, reason) in &calls.failures {
        let _ = writeln!(out, "{:<30}not measured: {reason}", way.name());
    }
}

fn render_memory(out: &mut String, memory: &MemoryResults) {
    let kilobytes =
        |bytes: Option<f64>| bytes.map_or("-".to_owned(), |bytes| format!("{:.1} KB", bytes / 1e3));
    let _ = writeln!(out, "\nmemory of bowline serve");
    for (what, bytes) in [
        (format!("with {FEW_UPSTREAMS} servers, resident"), memory.idle),
        ("the same, shared pages in part (PSS)".to_owned(), memory.idle_pss),
        ("each further server of 10 tools".to_owned(), memory.per_upstream),
        ("each list of 830 tools instead of 10".to_owned(), memory.per_large_list),
        (format!("each of {SESSIONS} sessions, shared server"), memory.per_session),
        ("the same, with an open stream".to_owned(), memory.per_streaming_session),
        ("each session with a connection of its own".to_owned(), memory.per_legacy_session),
    ] {
        let _ = writeln!(out, "  {what:<44}{:>14}", kilobytes(bytes));
    }
}

fn render_startup(out: &mut String, startup: &StartupResults) {
    let _ = writeln!(out, "\nfrom the start of bowline serve to the tool list, with cached lists");
    for (what, time) in [
        ("bowline --version, for comparison", startup.version),
        ("stdio, 10 tools", startup.stdio_small),
        ("stdio, 830 tools", startup.stdio_large),
        ("HTTP, 10 tools", startup.http_small),
        ("HTTP, 830 tools", startup.http_large),
    ] {
        let _ =
            writeln!(out, "  {what:<44}{:>11}", time.map_or("-".to_owned(), |time| format!("{time:.1} ms")));
    }
}
