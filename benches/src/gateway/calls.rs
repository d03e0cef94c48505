//! Measures calls on every way, round after round, and compares them within each round.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::messages::Tool;
use super::way::{OpenWay, Way};
use crate::job::{Limits, Sample};
use crate::measure::cpu_seconds_of;
use crate::report::median;
use crate::runner::{Server, show_progress};

/// What is measured of one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) way: Way,
    pub(super) tool: Tool,
    /// Calls in flight.
    pub(super) lanes: usize,
}

/// A sample, and the CPU time of the process on the way for each call.
pub(super) struct CallSample {
    pub(super) sample: Sample,
    pub(super) cpu_us: Option<f64>,
}

/// One figure of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) enum Figure {
    /// Median latency in microseconds.
    P50,
    P99,
    /// Calls per second.
    Rate,
    /// CPU time per call in microseconds.
    Cpu,
}

/// The samples of all rounds.
#[derive(Default)]
pub(super) struct CallResults {
    rounds: Vec<Vec<(Series, CallSample)>>,
    /// Ways that could not be measured, with the reason.
    pub(super) failures: Vec<(Way, String)>,
}

/// One call at a time, for latencies.
pub(super) const ONE: usize = 1;
/// Calls in flight, for throughput.
pub(super) const MANY: usize = 64;

/// Opens all ways, then measures each in every round.
pub(super) async fn measure(
    server: &Server,
    ways: &[Way],
    rounds: u32,
    limits: Limits,
) -> anyhow::Result<CallResults> {
    let mut results = CallResults::default();
    let mut open = Vec::new();
    for &way in ways {
        show_progress(&format!("opening {}", way.name()));
        match way.open(server).await {
            Ok(opened) => open.push((way, opened)),
            Err(error) => results.failures.push((way, format!("{error:#}"))),
        }
    }
    for round in 0..rounds {
        let mut samples = Vec::new();
        for tool in Tool::ALL {
            for lanes in [ONE, MANY] {
                // Each round starts with another way, so that none always follows the heaviest.
                let turn = (round as usize).checked_rem(open.len()).unwrap_or_default();
                let order: Vec<usize> = (0..open.len()).map(|index| (index + turn) % open.len()).collect();
                let mut failed = Vec::new();
                for index in order {
                    let (way, opened) = &mut open[index];
                    let series = Series { way: *way, tool, lanes };
                    if tool == Tool::Effects && !way.tells_effects_apart() {
                        continue;
                    }
                    show_progress(&format!(
                        "round {}/{rounds}  {}, {}, {lanes}",
                        round + 1,
                        way.name(),
                        tool.describe()
                    ));
                    match measure_series(opened, series, limits).await {
                        Ok(sample) => samples.push((series, sample)),
                        Err(error) => {
                            results.failures.push((*way, format!("{error:#}")));
                            failed.push(*way);
                        }
                    }
                }
                // A way that failed once is not tried again: it may fail only after its timeout.
                open.retain(|(way, _)| !failed.contains(way));
            }
        }
        results.rounds.push(samples);
    }
    show_progress("");
    Ok(results)
}

async fn measure_series(way: &mut OpenWay, series: Series, limits: Limits) -> anyhow::Result<CallSample> {
    let pid = way.pid();
    let before = pid.and_then(cpu_seconds_of);
    let sample = tokio::time::timeout(SAMPLE_TIMEOUT, way.measure(series.tool, series.lanes, limits));
    let sample = sample.await.context("stopped: no end in sight")??;
    let after = pid.and_then(cpu_seconds_of);
    // The warm-up is in the CPU time, and its calls are not counted: their rate is taken to be the same.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    let cpu_us = before.zip(after).map(|(before, after)| {
        let share = sample.seconds / (sample.seconds + limits.warmup);
        (after - before) * share / sample.calls as f64 * 1e6
    });
    Ok(CallSample { sample, cpu_us })
}

// === impl CallResults ===

impl CallResults {
    /// Returns the ways and tools that were measured, in their usual order.
    pub(super) fn measured(&self) -> Vec<(Way, Tool)> {
        let ways = Way::OURS.into_iter().chain(Way::PEERS);
        let all = ways.flat_map(|way| Tool::ALL.map(|tool| (way, tool)));
        all.filter(|&(way, tool)| self.median(Series { way, tool, lanes: ONE }, Figure::P50).is_some())
            .collect()
    }

    /// Returns the median over rounds.
    pub(super) fn median(&self, series: Series, figure: Figure) -> Option<f64> {
        self.median_of(|round| figure.extract(find(round, series)?))
    }

    /// Returns the median of the ratios of two series, each taken within its round.
    pub(super) fn ratio(&self, series: Series, to: Series, figure: Figure) -> Option<f64> {
        self.median_of(|round| {
            Some(figure.extract(find(round, series)?)? / figure.extract(find(round, to)?)?)
        })
    }

    /// Returns how much longer the median call takes than a direct one, in microseconds.
    pub(super) fn added(&self, way: Way, tool: Tool) -> Option<f64> {
        self.median_of(|round| added(round, way, tool))
    }

    /// Returns the time that a way adds as a multiple of what the floor adds.
    pub(super) fn added_to_floor(&self, way: Way, tool: Tool) -> Option<f64> {
        self.median_of(|round| {
            let ratio = added(round, way, tool)? / added(round, Way::Floor, Tool::ReadOnly)?;
            ratio.is_finite().then_some(ratio)
        })
    }

    fn median_of(&self, figure: impl Fn(&[(Series, CallSample)]) -> Option<f64>) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| figure(round)))
    }

    pub(super) fn to_json(&self) -> Value {
        let lines = self.measured().into_iter().map(|(way, tool)| {
            let (one, many) = (Series { way, tool, lanes: ONE }, Series { way, tool, lanes: MANY });
            json!({
                "way": way,
                "tool": tool,
                "p50_us": self.median(one, Figure::P50),
                "p99_us": self.median(one, Figure::P99),
                "added_p50_us": self.added(way, tool),
                "added_p50_to_floor": self.added_to_floor(way, tool),
                "cpu_us": self.median(many, Figure::Cpu),
                "calls_per_second": self.median(many, Figure::Rate),
                "calls_per_second_to_floor": self.ratio(many, Series::floor(MANY), Figure::Rate),
            })
        });
        let failures =
            self.failures.iter().map(|(way, reason)| json!({ "way": way, "not_measured": reason }));
        json!({ "rounds": self.rounds.len(), "ways": lines.collect::<Vec<_>>(), "failures": failures.collect::<Vec<_>>() })
    }
}

fn find(round: &[(Series, CallSample)], series: Series) -> Option<&CallSample> {
    round.iter().find(|(each, _)| *each == series).map(|(_, sample)| sample)
}

fn added(round: &[(Series, CallSample)], way: Way, tool: Tool) -> Option<f64> {
    let through = find(round, Series { way, tool, lanes: ONE })?.sample.p50_us?;
    let direct = find(round, Series { way: Way::Direct, tool: Tool::ReadOnly, lanes: ONE })?.sample.p50_us?;
    Some(through - direct)
}

impl Series {
    /// Returns the series of the floor.
    pub(super) fn floor(lanes: usize) -> Self {
        Self { way: Way::Floor, tool: Tool::ReadOnly, lanes }
    }
}

impl Figure {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    fn extract(self, sample: &CallSample) -> Option<f64> {
        match self {
            Self::P50 => sample.sample.p50_us,
            Self::P99 => sample.sample.p99_us,
            Self::Rate => Some(sample.sample.calls as f64 / sample.sample.seconds),
            Self::Cpu => sample.cpu_us,
        }
    }
}

/// A sample that takes longer is taken to hang.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn round(direct: f64, floor: f64, serve: f64) -> Vec<(Series, CallSample)> {
        [(Way::Direct, direct), (Way::Floor, floor), (Way::ServeLegacy, serve)]
            .map(|(way, p50)| {
                let sample = Sample { calls: 10, seconds: 1.0, p50_us: Some(p50), ..Sample::default() };
                (Series { way, tool: Tool::ReadOnly, lanes: ONE }, CallSample { sample, cpu_us: None })
            })
            .into()
    }

    #[test]
    fn added_time_is_compared_within_a_round() {
        // The machine slows down tenfold in the second round.
        let rounds = vec![round(10.0, 20.0, 30.0), round(100.0, 200.0, 300.0), round(10.0, 20.0, 40.0)];
        let results = CallResults { rounds, failures: Vec::new() };
        assert_eq!(results.added_to_floor(Way::ServeLegacy, Tool::ReadOnly), Some(2.0));
        assert_eq!(results.added(Way::ServeLegacy, Tool::ReadOnly), Some(30.0));
        assert_eq!(results.measured().len(), 3);
    }
}
