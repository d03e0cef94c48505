//! The performance goals of this library, and whether a run met them.

use std::fmt::Write as _;

use crate::peer::Peer;
use crate::report::{Figure, Report};
use crate::scenario::{LARGE_LIST, PORTS, Scenario, Size, Wire};

/// A goal for one scenario.
struct Goal {
    scenario: Scenario,
    figure: Figure,
    limit: Limit,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    /// At least this share of the floor.
    ShareAtLeast(f64),
    /// At most this multiple of the floor.
    TimesAtMost(f64),
    /// At most this many bytes.
    BytesAtMost(f64),
}

/// Renders one line per goal: whether the library meets it, or that it was not measured.
pub(crate) fn render(report: &Report) -> String {
    let mut out = String::from("\nbars\n");
    for bar in goals() {
        let measured = bar.measure(report);
        let verdict = match measured {
            Some(value) if bar.limit.is_met_by(value) => "pass",
            Some(_) => "FAIL",
            None => "-",
        };
        let text = match measured {
            Some(value) => bar.limit.describe(bar.figure, value),
            None => format!("not measured, {}", bar.limit.describe_goal()),
        };
        let _ = writeln!(out, "  {verdict:<6}{:<18}{text}", bar.scenario.to_string());
    }
    out
}

fn goals() -> Vec<Goal> {
    let rate = |wire, size, lanes, share| Goal {
        scenario: Scenario::Calls { wire, size, lanes },
        figure: Figure::Rate,
        limit: Limit::ShareAtLeast(share),
    };
    let cpu = |wire, lanes| Goal {
        scenario: Scenario::Calls { wire, size: Size::Small, lanes },
        figure: Figure::CpuPerCall,
        limit: Limit::TimesAtMost(2.5),
    };
    let other = |scenario, figure, limit| Goal { scenario, figure, limit };
    let startup = Scenario::Startup { servers: 10, tools: LARGE_LIST };
    let open = Scenario::OpenLegacy { servers: PORTS };
    vec![
        rate(Wire::HttpJson, Size::Small, 1, 0.60),
        cpu(Wire::HttpJson, 1),
        rate(Wire::HttpJson, Size::Small, 64, 0.75),
        cpu(Wire::HttpJson, 64),
        rate(Wire::HttpSse, Size::Small, 1, 0.55),
        cpu(Wire::HttpSse, 1),
        rate(Wire::HttpSse, Size::Small, 64, 0.55),
        cpu(Wire::HttpSse, 64),
        rate(Wire::Stdio, Size::Small, 1, 0.60),
        rate(Wire::Stdio, Size::Small, 64, 0.45),
        rate(Wire::HttpJson, Size::Large, 1, 0.30),
        rate(Wire::Stdio, Size::Large, 1, 0.30),
        other(startup, Figure::Seconds, Limit::TimesAtMost(2.5)),
        other(open, Figure::Seconds, Limit::TimesAtMost(1.25)),
        other(Scenario::Memory, Figure::BytesPerList, Limit::BytesAtMost(3e6)),
        other(Scenario::Idle, Figure::BytesPerServer, Limit::BytesAtMost(100e3)),
        other(Scenario::Relay, Figure::RelayRss, Limit::BytesAtMost(12e6)),
    ]
}

impl Goal {
    /// Returns the library's figure, or `None` if it was not measured.
    fn measure(&self, report: &Report) -> Option<f64> {
        let measured = report.find(self.scenario)?;
        match self.limit {
            Limit::ShareAtLeast(_) | Limit::TimesAtMost(_) => measured.ratio(Peer::Bowline, self.figure),
            Limit::BytesAtMost(_) => measured.median(Peer::Bowline, self.figure),
        }
    }
}

impl Limit {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::ShareAtLeast(bar) => value >= bar,
            Self::TimesAtMost(bar) | Self::BytesAtMost(bar) => value <= bar,
        }
    }

    fn describe(self, figure: Figure, value: f64) -> String {
        let bar = self.describe_goal();
        match self {
            Self::ShareAtLeast(_) => format!("{value:.2} of the floor, {bar}"),
            Self::TimesAtMost(_) if figure == Figure::CpuPerCall => {
                format!("CPU {value:.2} times the floor, {bar}")
            }
            Self::TimesAtMost(_) => format!("{value:.2} times the floor, {bar}"),
            Self::BytesAtMost(_) => format!("{:.0} KB, {bar}", value / 1e3),
        }
    }

    fn describe_goal(self) -> String {
        match self {
            Self::ShareAtLeast(bar) | Self::TimesAtMost(bar) => format!("bar {bar:.2}"),
            Self::BytesAtMost(bar) => format!("bar {:.0} KB", bar / 1e3),
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
        assert!(goals().iter().all(|bar| quick.contains(&bar.scenario)));
    }

    #[test]
    fn library_passes_or_fails_by_its_own_share_of_the_floor() {
        let scenario = Scenario::Calls { wire: Wire::Stdio, size: Size::Small, lanes: 1 };
        let line = |rate| {
            let mut report = Report::new(true, Vec::new(), &[scenario]);
            let mut round = Round::default();
            round.insert(Peer::Floor, Ok(calls(100)));
            round.insert(Peer::Rmcp, Ok(calls(100)));
            round.insert(Peer::Bowline, Ok(calls(rate)));
            report.add(0, round);
            let text = render(&report);
            text.lines().find(|line| line.contains("stdio/100B/1 ")).expect("a line per bar").to_owned()
        };
        assert_eq!(line(60), "  pass  stdio/100B/1      0.60 of the floor, bar 0.60");
        assert_eq!(line(59), "  FAIL  stdio/100B/1      0.59 of the floor, bar 0.60");
    }

    #[test]
    fn every_bar_has_a_line_even_if_nothing_was_measured() {
        let text = render(&Report::new(true, Vec::new(), &[]));
        assert_eq!(text.lines().filter(|line| line.contains("not measured")).count(), goals().len());
        assert!(!text.contains("pass") && !text.contains("FAIL"), "{text}");
    }
}
