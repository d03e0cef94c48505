//! The results: samples by scenario, client and round, and the medians and ratios computed from
//! them.

use serde_json::{Value, json};

use crate::job::Sample;
use crate::peer::Peer;
use crate::scenario::Scenario;

/// Everything measured in a run.
pub(crate) struct Report {
    quick: bool,
    /// The clients that did not run, with the reason.
    pub(crate) absent: Vec<(Peer, String)>,
    pub(crate) scenarios: Vec<ScenarioResult>,
}

/// One scenario with its rounds.
pub(crate) struct ScenarioResult {
    pub(crate) scenario: Scenario,
    rounds: Vec<Round>,
}

/// The outcomes of all clients for one scenario in one round.
#[derive(Default)]
pub(crate) struct Round(Vec<(Peer, Result<Sample, String>)>);

/// A figure that can be computed from a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Calls per second.
    Rate,
    /// Seconds from start to end.
    Seconds,
    /// CPU seconds per call.
    CpuPerCall,
    P50,
    P99,
    PeakRss,
    BytesPerList,
    BytesPerServer,
    /// Resident memory of the relay.
    RelayRss,
}

// === impl Report ===

impl Report {
    pub(crate) fn new(quick: bool, absent: Vec<(Peer, String)>, scenarios: &[Scenario]) -> Self {
        let scenarios =
            scenarios.iter().map(|&scenario| ScenarioResult { scenario, rounds: Vec::new() }).collect();
        Self { quick, absent, scenarios }
    }

    pub(crate) fn add(&mut self, scenario: usize, round: Round) {
        self.scenarios[scenario].rounds.push(round);
    }

    pub(crate) fn find(&self, scenario: Scenario) -> Option<&ScenarioResult> {
        self.scenarios.iter().find(|measured| measured.scenario == scenario)
    }

    /// Returns medians, ratios to the floor and every sample as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let absent: Vec<Value> =
            self.absent.iter().map(|(peer, reason)| json!({ "peer": peer, "not_run": reason })).collect();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "quick": self.quick,
            "cpus": cpus,
            "absent": absent,
            "scenarios": self.scenarios.iter().map(ScenarioResult::to_json).collect::<Vec<_>>(),
        })
    }
}

// === impl Measured ===

impl ScenarioResult {
    /// Returns the clients that took part, in their usual order.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Peer> + '_ {
        Peer::ALL.into_iter().filter(|&peer| self.rounds.iter().any(|round| round.get(peer).is_some()))
    }

    /// Returns why the client failed, if it did in any round.
    pub(crate) fn failure(&self, peer: Peer) -> Option<&str> {
        self.rounds.iter().find_map(|round| round.get(peer)?.err())
    }

    /// Returns the revision that the client spoke.
    pub(crate) fn revision(&self, peer: Peer) -> Option<&str> {
        self.rounds.iter().find_map(|round| round.sample(peer)?.revision.as_deref())
    }

    /// Returns the median over rounds.
    pub(crate) fn median(&self, peer: Peer, figure: Figure) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| figure.extract(round.sample(peer)?)))
    }

    /// Returns the median of the ratios to the floor, each taken within its round.
    pub(crate) fn ratio(&self, peer: Peer, figure: Figure) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| {
            let floor = figure.extract(round.sample(Peer::Floor)?)?;
            let ratio = figure.extract(round.sample(peer)?)? / floor;
            ratio.is_finite().then_some(ratio)
        }))
    }

    fn to_json(&self) -> Value {
        let legs: Vec<Value> = self
            .peers()
            .map(|peer| {
                let samples: Vec<_> = self.rounds.iter().filter_map(|round| round.sample(peer)).collect();
                let figures: serde_json::Map<String, Value> = Figure::ALL
                    .into_iter()
                    .filter_map(|figure| {
                        let median = self.median(peer, figure)?;
                        let value = json!({ "median": median, "to_floor": self.ratio(peer, figure) });
                        Some((figure.key().to_owned(), value))
                    })
                    .collect();
                json!({
                    "peer": peer,
                    "failure": self.failure(peer),
                    "figures": figures,
                    "samples": samples,
                })
            })
            .collect();
        json!({ "name": self.scenario.to_string(), "legs": legs })
    }
}

// === impl Round ===

impl Round {
    pub(crate) fn insert(&mut self, peer: Peer, outcome: Result<Sample, String>) {
        self.0.push((peer, outcome));
    }

    fn get(&self, peer: Peer) -> Option<Result<&Sample, &str>> {
        let (_, outcome) = self.0.iter().find(|(each, _)| *each == peer)?;
        Some(outcome.as_ref().map_err(String::as_str))
    }

    fn sample(&self, peer: Peer) -> Option<&Sample> {
        self.get(peer)?.ok()
    }
}

// === impl Figure ===

impl Figure {
    const ALL: [Self; 9] = [
        Self::Rate,
        Self::Seconds,
        Self::CpuPerCall,
        Self::P50,
        Self::P99,
        Self::PeakRss,
        Self::BytesPerList,
        Self::BytesPerServer,
        Self::RelayRss,
    ];

    fn key(self) -> &'static str {
        match self {
            Self::Rate => "calls_per_second",
            Self::Seconds => "seconds",
            Self::CpuPerCall => "cpu_seconds_per_call",
            Self::P50 => "p50_us",
            Self::P99 => "p99_us",
            Self::PeakRss => "peak_rss",
            Self::BytesPerList => "bytes_per_list",
            Self::BytesPerServer => "bytes_per_server",
            Self::RelayRss => "relay_rss",
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts and bytes stay far below 2^52")]
    fn extract(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::Rate => Some(sample.calls as f64 / sample.seconds),
            Self::Seconds => Some(sample.seconds),
            Self::CpuPerCall => Some(sample.cpu_seconds? / sample.calls as f64),
            Self::P50 => sample.p50_us,
            Self::P99 => sample.p99_us,
            Self::PeakRss => sample.peak_rss.map(|bytes| bytes as f64),
            Self::BytesPerList => sample.bytes_per_list,
            Self::BytesPerServer => sample.bytes_per_server,
            Self::RelayRss => sample.relay_rss.map(|bytes| bytes as f64),
        }
    }
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        return Some(values[middle]);
    }
    Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, values[middle]))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Builds a sample of this many calls in one second.
    pub(crate) fn calls(calls: u64) -> Sample {
        Sample { calls, seconds: 1.0, cpu_seconds: Some(0.5), ..Sample::default() }
    }

    #[test]
    fn medians() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0].into_iter()), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([1.0, 2.0, 4.0, 9.0].into_iter()), Some(3.0));
    }

    #[test]
    fn a_ratio_is_taken_within_its_round() {
        // A machine that slows down over the rounds: the ratio of medians would say 0.5.
        let mut report = Report::new(true, Vec::new(), &[Scenario::List]);
        for (floor, rmcp) in [(1000, 250), (100, 25), (200, 100)] {
            let mut round = Round::default();
            round.insert(Peer::Rmcp, Ok(calls(rmcp)));
            round.insert(Peer::Floor, Ok(calls(floor)));
            report.add(0, round);
        }
        let measured = report.find(Scenario::List).expect("measured");
        assert_eq!(measured.ratio(Peer::Rmcp, Figure::Rate), Some(0.25));
        assert_eq!(measured.ratio(Peer::Floor, Figure::Rate), Some(1.0));
    }

    #[test]
    fn a_failure_is_kept_and_the_other_rounds_still_count() {
        let mut report = Report::new(true, Vec::new(), &[Scenario::List]);
        for outcome in [Err("gone".to_owned()), Ok(calls(10))] {
            let mut round = Round::default();
            round.insert(Peer::Rmcp, outcome);
            report.add(0, round);
        }
        let measured = &report.scenarios[0];
        assert_eq!(measured.failure(Peer::Rmcp), Some("gone"));
        assert_eq!(measured.median(Peer::Rmcp, Figure::Rate), Some(10.0));
        assert_eq!(report.to_json()["scenarios"][0]["legs"][0]["failure"], "gone");
    }
}
