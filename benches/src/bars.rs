//! The bars this library has set itself, and whether a run met them.

use std::fmt::Write as _;

use crate::peer::Peer;
use crate::report::{Figure, Report};
use crate::scenario::{LARGE_LIST, Scenario, Size, Wire};

/// A bar for one scenario.
struct Bar {
    scenario: Scenario,
    figure: Figure,
    limit: Limit,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    /// A share of the floor to reach.
    ShareAtLeast(f64),
    /// A multiple of the floor not to exceed.
    TimesAtMost(f64),
    /// Bytes not to exceed.
    BytesAtMost(f64),
}

/// One line per bar that was measured; nothing when the library was not.
pub(crate) fn render(report: &Report) -> String {
    let mut out = String::new();
    for Bar { scenario, figure, limit } in bars() {
        let Some(measured) = report.find(scenario) else { continue };
        let value = match limit {
            Limit::ShareAtLeast(_) | Limit::TimesAtMost(_) => measured.ratio(Peer::Bowline, figure),
            Limit::BytesAtMost(_) => measured.median(Peer::Bowline, figure),
        };
        let Some(value) = value else { continue };
        if out.is_empty() {
            out.push_str("\nbars\n");
        }
        let verdict = if limit.holds(value) { "met   " } else { "MISSED" };
        let text = match limit {
            Limit::ShareAtLeast(bar) => format!("{value:.2} of the floor, bar {bar:.2}"),
            Limit::TimesAtMost(bar) if figure == Figure::CpuPerCall => {
                format!("CPU {value:.2} times the floor, bar {bar:.1}")
            }
            Limit::TimesAtMost(bar) => format!("{value:.2} times the floor, bar {bar:.1}"),
            Limit::BytesAtMost(bar) => format!("{:.2} MB, bar {:.1} MB", value / 1e6, bar / 1e6),
        };
        let _ = writeln!(out, "  {verdict}  {:<18}{text}", scenario.to_string());
    }
    out
}

fn bars() -> Vec<Bar> {
    let calls = |wire, lanes| Scenario::Calls { wire, size: Size::Small, lanes };
    let shares = [
        (Wire::HttpJson, 1, 0.60),
        (Wire::HttpJson, 64, 0.60),
        (Wire::HttpSse, 1, 0.55),
        (Wire::HttpSse, 64, 0.55),
        (Wire::Stdio, 1, 0.60),
        (Wire::Stdio, 64, 0.35),
    ];
    let mut bars = Vec::new();
    for (wire, lanes, share) in shares {
        let scenario = calls(wire, lanes);
        bars.push(Bar { scenario, figure: Figure::Rate, limit: Limit::ShareAtLeast(share) });
        if wire != Wire::Stdio {
            let limit = Limit::TimesAtMost(2.5);
            bars.push(Bar { scenario, figure: Figure::CpuPerCall, limit });
        }
    }
    bars.push(Bar {
        scenario: Scenario::Startup { servers: 10, tools: LARGE_LIST },
        figure: Figure::Seconds,
        limit: Limit::TimesAtMost(2.5),
    });
    bars.push(Bar {
        scenario: Scenario::Memory,
        figure: Figure::BytesPerList,
        limit: Limit::BytesAtMost(3e6),
    });
    bars
}

impl Limit {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::ShareAtLeast(bar) => value >= bar,
            Self::TimesAtMost(bar) | Self::BytesAtMost(bar) => value <= bar,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Round;
    use crate::report::tests::calls;

    #[test]
    fn every_bar_is_part_of_even_a_quick_run() {
        let quick = Scenario::all(true);
        assert!(bars().iter().all(|bar| quick.contains(&bar.scenario)));
    }

    #[test]
    fn a_bar_is_met_or_missed_by_the_library_alone() {
        let scenario = Scenario::Calls { wire: Wire::Stdio, size: Size::Small, lanes: 1 };
        let verdict = |rate| {
            let mut report = Report::new(true, Vec::new(), &[scenario]);
            let mut round = Round::default();
            round.insert(Peer::Floor, Ok(calls(100)));
            round.insert(Peer::Bowline, Ok(calls(rate)));
            report.add(0, round);
            render(&report)
        };
        assert!(verdict(60).contains("met   "), "{}", verdict(60));
        assert!(verdict(59).contains("MISSED"), "{}", verdict(59));
        assert_eq!(render(&Report::new(true, Vec::new(), &[scenario])), "");
    }
}
