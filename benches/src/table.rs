//! Renders the figures for a terminal.

use std::fmt::Write as _;

use crate::peer::Peer;
use crate::report::{Figure, Report, ScenarioResult};
use crate::scenario::Scenario;

/// Renders a table per scenario, then the ratios of all of them side by side.
pub(crate) fn render(report: &Report) -> String {
    let mut out = String::new();
    for measured in &report.scenarios {
        render_scenario(&mut out, measured);
    }
    render_overview(&mut out, report);
    for (peer, reason) in &report.absent {
        let _ = writeln!(out, "{}: not run ({reason})", peer.name());
    }
    out
}

/// Returns the figure that a scenario is judged by.
fn headline(scenario: Scenario) -> Figure {
    match scenario {
        Scenario::Calls { .. } | Scenario::List => Figure::Rate,
        Scenario::Startup { .. } | Scenario::OpenLegacy { .. } | Scenario::OpenUnknown { .. } => {
            Figure::Seconds
        }
        Scenario::Memory => Figure::BytesPerList,
        Scenario::Idle => Figure::BytesPerServer,
        Scenario::Relay => Figure::RelayRss,
    }
}

fn render_scenario(out: &mut String, measured: &ScenarioResult) {
    let timed = matches!(measured.scenario, Scenario::Calls { .. } | Scenario::List);
    let _ = writeln!(out, "\n{}", measured.scenario);
    let columns: &[(&str, Figure, bool)] = if timed {
        &[
            ("calls/s", Figure::Rate, false),
            ("of floor", Figure::Rate, true),
            ("CPU/call", Figure::CpuPerCall, false),
            ("x floor", Figure::CpuPerCall, true),
            ("p50", Figure::P50, false),
            ("p99", Figure::P99, false),
            ("peak RSS", Figure::PeakRss, false),
        ]
    } else {
        let figure = headline(measured.scenario);
        let name = match figure {
            Figure::BytesPerList => "per list",
            Figure::BytesPerServer => "per server",
            Figure::RelayRss => "relay RSS",
            _ => "time",
        };
        &[
            (name, figure, false),
            ("x floor", figure, true),
            ("CPU/each", Figure::CpuPerCall, false),
            ("x floor", Figure::CpuPerCall, true),
            ("peak RSS", Figure::PeakRss, false),
        ]
    };
    let _ = write!(out, "  {:<12}", "client");
    for (name, ..) in columns {
        let _ = write!(out, "{name:>11}");
    }
    let _ = writeln!(out, "  revision");
    for peer in measured.peers() {
        let _ = write!(out, "  {:<12}", peer.name());
        for &(_, figure, to_floor) in columns {
            let text = if to_floor {
                measured.ratio(peer, figure).map(format_ratio)
            } else {
                measured.median(peer, figure).map(|value| format_quantity(figure, value))
            };
            let _ = write!(out, "{:>11}", text.unwrap_or_else(|| "-".into()));
        }
        let _ = writeln!(out, "  {}", measured.revision(peer).unwrap_or("-"));
        if let Some(reason) = measured.failure(peer) {
            let _ = writeln!(out, "    failed: {reason}");
        }
    }
}

/// Renders one line per scenario: share of the floor's calls, or multiple of its time or memory.
fn render_overview(out: &mut String, report: &Report) {
    let peers: Vec<Peer> = Peer::ALL
        .into_iter()
        .filter(|&peer| peer != Peer::Floor && report.scenarios.iter().any(|m| m.peers().any(|p| p == peer)))
        .collect();
    let _ = write!(out, "\n{:<20}", "ratio to the floor");
    for peer in &peers {
        let _ = write!(out, "{:>18}", peer.name());
    }
    let _ = writeln!(out, "\n{:<20}{}", "", format!("{:>18}", "(CPU)").repeat(peers.len()));
    for measured in &report.scenarios {
        let _ = write!(out, "{:<20}", measured.scenario.to_string());
        let figure = headline(measured.scenario);
        let mark = if figure == Figure::Rate { "" } else { "x" };
        for &peer in &peers {
            let cell = match measured.ratio(peer, figure) {
                None if measured.failure(peer).is_some() => "failed".to_owned(),
                None => "-".to_owned(),
                Some(value) => match measured.ratio(peer, Figure::CpuPerCall) {
                    Some(cpu) => format!("{}{mark} ({}x)", format_ratio(value), format_ratio(cpu)),
                    None => format!("{}{mark}", format_ratio(value)),
                },
            };
            let _ = write!(out, "{cell:>18}");
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "Calls and lists: share of the floor's rate, more is better. Start-up and memory (x): multiples, \
         less is better.\nIn brackets: CPU per call as a multiple of the floor's. Differences under 15 % \
         are noise."
    );
}

/// Formats a ratio with two significant digits or more, never in exponent form.
fn format_ratio(value: f64) -> String {
    match value {
        v if v < 0.1 => format!("{v:.3}"),
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn format_quantity(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Rate => format!("{value:.0}"),
        Figure::Seconds | Figure::CpuPerCall => format_micros(value * 1e6),
        Figure::P50 | Figure::P99 => format_micros(value),
        Figure::PeakRss | Figure::BytesPerList | Figure::RelayRss => format!("{:.1} MB", value / 1e6),
        Figure::BytesPerServer => format!("{:.1} KB", value / 1e3),
    }
}

fn format_micros(value: f64) -> String {
    match value {
        v if v < 1000.0 => format!("{v:.1} us"),
        v if v < 1e6 => format!("{:.2} ms", v / 1e3),
        v => format!("{:.2} s", v / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Round;
    use crate::report::tests::calls;

    #[test]
    fn a_table_shows_shares_failures_and_who_did_not_run() {
        let absent = vec![(Peer::Python, "BOWLINE_BENCH_PYTHON is not set".to_owned())];
        let mut report = Report::new(true, absent, &[Scenario::List]);
        let mut round = Round::default();
        round.insert(Peer::Floor, Ok(calls(100)));
        round.insert(Peer::Rmcp, Ok(calls(25)));
        round.insert(Peer::Typescript, Err("exit status: 1: no module".into()));
        report.add(0, round);

        let text = render(&report);
        assert!(text.contains("0.25 (4.00x)"), "{text}");
        assert!(text.contains("failed: exit status: 1: no module"), "{text}");
        assert!(text.contains("python: not run (BOWLINE_BENCH_PYTHON is not set)"), "{text}");
    }

    #[test]
    fn numbers_keep_their_digits() {
        assert_eq!([0.0123, 0.5, 12.34, 1234.0].map(format_ratio), ["0.012", "0.50", "12.3", "1234"]);
        assert_eq!([12.34, 12_340.0, 2_500_000.0].map(format_micros), ["12.3 us", "12.34 ms", "2.50 s"]);
    }
}
