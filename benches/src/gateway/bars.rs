//! The bars that `bowline serve` is measured by, and whether it passes them.

use std::fmt::Write as _;

use super::GatewayReport;
use super::calls::{CallResults, Figure, MANY, ONE, Series};
use super::messages::Tool;
use super::way::Way;

/// A figure, and the most or least that it may be.
struct Bar {
    what: &'static str,
    measured: Option<f64>,
    limit: Limit,
    unit: &'static str,
}

enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// Renders one line for each bar.
pub(super) fn render(report: &GatewayReport) -> String {
    let mut out = String::from("\nbars\n");
    for bar in bars(report) {
        let (word, limit) = match bar.limit {
            Limit::AtMost(limit) => ("at most", limit),
            Limit::AtLeast(limit) => ("at least", limit),
        };
        let unit = bar.unit;
        let (verdict, value) = match bar.measured {
            Some(value) => (if bar.is_met_by(value) { "pass" } else { "FAIL" }, format!("{value:.2}{unit}")),
            None => ("-", "not measured".to_owned()),
        };
        let _ = writeln!(out, "  {verdict:<6}{:<58}{value:>14}, {word} {limit}{unit}", bar.what);
    }
    out
}

fn bars(report: &GatewayReport) -> Vec<Bar> {
    let mut bars = Vec::new();
    if let Some(calls) = &report.calls {
        bars.extend(bars_of_calls(calls));
    }
    let at_most = |what, measured, limit, unit| Bar { what, measured, limit: Limit::AtMost(limit), unit };
    if let Some(memory) = &report.memory {
        let (mega, kilo) = (|bytes: Option<f64>| Some(bytes? / 1e6), |bytes: Option<f64>| Some(bytes? / 1e3));
        bars.extend([
            at_most("memory with 10 servers over HTTP", mega(memory.idle), 20.0, " MB"),
            at_most("memory for each further server", kilo(memory.per_upstream), 150.0, " KB"),
            at_most("memory for each list of 830 tools", mega(memory.per_large_list), 3.0, " MB"),
            at_most("memory for each idle session", kilo(memory.per_session), 20.0, " KB"),
            at_most(
                "memory for each idle session with a stream",
                kilo(memory.per_streaming_session),
                20.0,
                " KB",
            ),
        ]);
    }
    if let Some(startup) = &report.startup {
        bars.extend([
            at_most("start to the list of 10 tools, stdio", startup.stdio_small, 15.0, " ms"),
            at_most("start to the list of 830 tools, stdio", startup.stdio_large, 30.0, " ms"),
            at_most("start to the list of 10 tools, HTTP", startup.http_small, 15.0, " ms"),
            at_most("start to the list of 830 tools, HTTP", startup.http_large, 30.0, " ms"),
        ]);
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of calls")]
    for leg in report.recovery.iter().flatten().filter(|leg| leg.name == "serve") {
        let failed = leg.figures.as_ref().ok().map(|figures| figures.failed as f64);
        bars.push(at_most(leg.kind.describe(), failed, 0.0, " failed"));
    }
    bars
}

fn bars_of_calls(calls: &CallResults) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut added = |what, way, tool, limit| {
        let measured = calls.added_to_floor(way, tool);
        bars.push(Bar { what, measured, limit: Limit::AtMost(limit), unit: " x floor" });
    };
    added("added p50, HTTP-HTTP legacy, read-only", Way::ServeLegacy, Tool::ReadOnly, 2.5);
    added("added p50, HTTP-HTTP modern, read-only", Way::ServeModern, Tool::ReadOnly, 2.5);
    added("added p50, HTTP-HTTP legacy, effects", Way::ServeLegacy, Tool::Effects, 4.0);
    added("added p50, HTTP-HTTP modern, effects", Way::ServeModern, Tool::Effects, 4.0);
    let mut rate = |what, way, tool| {
        let series = Series { way, tool, lanes: MANY };
        let measured = calls.ratio(series, Series::floor(MANY), Figure::Rate);
        bars.push(Bar { what, measured, limit: Limit::AtLeast(0.5), unit: " x floor" });
    };
    rate("calls a second at 64, HTTP-HTTP legacy, read-only", Way::ServeLegacy, Tool::ReadOnly);
    rate("calls a second at 64, HTTP-HTTP modern, read-only", Way::ServeModern, Tool::ReadOnly);
    rate("calls a second at 64, HTTP-HTTP legacy, effects", Way::ServeLegacy, Tool::Effects);
    rate("calls a second at 64, HTTP-HTTP modern, effects", Way::ServeModern, Tool::Effects);
    let mut no_slower = |what, way, than| {
        let series = |way| Series { way, tool: Tool::ReadOnly, lanes: ONE };
        let measured = calls.ratio(series(way), series(than), Figure::P50);
        bars.push(Bar { what, measured, limit: Limit::AtMost(1.0), unit: " x HTTP-HTTP" });
    };
    no_slower("p50, stdio-HTTP legacy", Way::ServeStdioLegacy, Way::ServeLegacy);
    no_slower("p50, stdio-HTTP modern", Way::ServeStdioModern, Way::ServeModern);
    no_slower("p50, HTTP-stdio", Way::ServeToStdio, Way::ServeLegacy);
    bars
}

impl Bar {
    fn is_met_by(&self, value: f64) -> bool {
        match self.limit {
            Limit::AtMost(limit) => value <= limit,
            Limit::AtLeast(limit) => value >= limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::memory::MemoryResults;

    #[test]
    fn a_bar_is_passed_at_its_limit_and_failed_above_it() {
        let line = |idle| {
            let memory = MemoryResults { idle: Some(idle), ..MemoryResults::default() };
            let text = render(&GatewayReport { memory: Some(memory), ..GatewayReport::default() });
            text.lines().find(|line| line.contains("10 servers")).expect("a line per bar").to_owned()
        };
        assert!(line(20e6).starts_with("  pass"), "{}", line(20e6));
        assert!(line(20.1e6).starts_with("  FAIL"), "{}", line(20.1e6));
    }

    #[test]
    fn what_was_not_measured_neither_passes_nor_fails() {
        let report = GatewayReport { calls: Some(CallResults::default()), ..GatewayReport::default() };
        let text = render(&report);
        assert_eq!(text.lines().filter(|line| line.contains("not measured")).count(), 11);
        assert!(!text.contains("pass") && !text.contains("FAIL"), "{text}");
    }
}
