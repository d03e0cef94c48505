//! Compares what the callers saw with what the server counted.

use std::time::Duration;

use serde_json::{Value, json};

use super::ledger::ExecutionCounts;
use super::recorder::{CauseStats, LossCause, Tally};
use super::signature::SIGNATURES;
use super::state::ServerCounters;
use crate::exit::Exit;

/// The numbers that are shown during and after the run.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) seed: u64,
    pub(crate) elapsed: Duration,
    /// The signal that ended the run early.
    pub(crate) interrupted: Option<Exit>,
    /// What the callers saw.
    pub(crate) tally: Tally,
    /// What the server did.
    pub(crate) counters: ServerCounters,
    /// What the server executed.
    pub(crate) executions: ExecutionCounts,
    /// Calls that were answered without having been executed.
    pub(crate) never_ran: u64,
}

impl Summary {
    /// Returns whether every call was answered, by executing it, and only once where that matters.
    pub(crate) fn is_success(&self) -> bool {
        self.tally.failed == 0 && self.executions.twice == 0 && self.never_ran == 0 && self.unanswered() == 0
    }

    /// Returns the exit code of the command.
    pub(crate) fn exit(&self) -> Exit {
        match self.interrupted {
            _ if !self.is_success() => Exit::Connection,
            Some(exit) => exit,
            None => Exit::Ok,
        }
    }

    /// Returns the calls that must not run twice, ran, and were not answered: their callers cannot
    /// know the outcome.
    pub(crate) fn unanswered(&self) -> u64 {
        self.executions.once.saturating_sub(self.tally.answered_once)
    }

    /// Returns the median, the 99th percentile and the maximum of the call times.
    pub(crate) fn latency(&self) -> [Duration; 3] {
        let mut took = self.tally.latencies.clone();
        took.sort_unstable();
        let at = |percent: usize| took.get((took.len() * percent / 100).min(took.len().saturating_sub(1)));
        [at(50), at(99), took.last()].map(|time| time.copied().unwrap_or_default())
    }

    pub(crate) fn to_json(&self) -> Value {
        let Self { tally, counters: done, executions, .. } = self;
        let [median, p99, longest] = self.latency().map(millis);
        let signatures: Vec<Value> = (0..SIGNATURES.len())
            .map(|at| (at, tally.by_cause[at]))
            .filter(|(_, bout)| *bout != CauseStats::default())
            .map(|(at, bout)| named_stats_json(SIGNATURES[at].name, bout))
            .collect();
        let bout = |cause: LossCause| stats_json(tally.by_cause[cause.index()]);
        let total = tally.total();
        let failures = tally.failures.iter().map(|(at, why)| json!({"at_ms": millis(*at), "error": why}));
        json!({
            "ok": self.is_success(),
            "seed": self.seed,
            "seconds": millis(self.elapsed) / 1000.0,
            "interrupted": self.interrupted.is_some(),
            "calls": tally.calls,
            "answered": tally.answered.len(),
            "failed": tally.failed,
            "failures": failures.collect::<Vec<Value>>(),
            "executions": {
                "once": executions.once,
                "twice": executions.twice,
                "repeatable": executions.repeatable,
                "repeated": executions.repeated,
                "never_ran": self.never_ran,
                "unanswered": self.unanswered(),
            },
            "losses": total.lost,
            "recoveries": total.recovered,
            "signatures": signatures,
            "restarts": bout(LossCause::Restart),
            "cuts": bout(LossCause::Cut),
            "stream_cuts": bout(LossCause::Stream),
            "unplanned": bout(LossCause::Other),
            "connections_cut": done.cuts,
            "streams_cut": done.streams_cut,
            "streams_resumed": done.resumed,
            "latency_ms": {"median": median, "p99": p99, "longest": longest},
        })
    }
}

fn named_stats_json(name: &str, bout: CauseStats) -> Value {
    let mut json = stats_json(bout);
    json["signature"] = name.into();
    json
}

fn stats_json(bout: CauseStats) -> Value {
    let CauseStats { times, lost, recovered, longest_outage: longest } = bout;
    json!({"times": times, "losses": lost, "recoveries": recovered, "longest_outage_ms": millis(longest)})
}

/// Returns milliseconds, rounded to the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spoil = fn(&mut Summary);

    /// Three successful calls: two that must not run twice, and one that may.
    fn good() -> Summary {
        let millis = [1, 2, 30].map(Duration::from_millis).to_vec();
        let tally = Tally {
            calls: 3,
            answered: vec![1, 2, 3],
            answered_once: 2,
            latencies: millis,
            ..Tally::default()
        };
        Summary {
            seed: 1,
            elapsed: Duration::from_secs(1),
            interrupted: None,
            tally,
            counters: ServerCounters::default(),
            executions: ExecutionCounts { once: 2, repeatable: 1, repeated: 1, ..ExecutionCounts::default() },
            never_ran: 0,
        }
    }

    #[test]
    fn all_went_well() {
        assert_eq!(good().exit(), Exit::Ok);
        assert_eq!(good().to_json()["ok"], true);
    }

    #[test]
    fn whatever_went_wrong_shows_in_the_exit_code() {
        let wrong: [(&str, Spoil); 4] = [
            ("a call failed", |summary| summary.tally.failed = 1),
            ("a call ran twice", |summary| summary.executions.twice = 1),
            ("an answer came from nowhere", |summary| summary.never_ran = 1),
            ("a call ran, and nobody was told", |summary| summary.executions.once = 3),
        ];
        for (what, spoil) in wrong {
            let mut summary = good();
            spoil(&mut summary);
            assert_eq!(summary.exit(), Exit::Connection, "{what}");
            assert_eq!(summary.to_json()["ok"], false, "{what}");
            // An early end is no excuse.
            summary.interrupted = Some(Exit::Interrupted);
            assert_eq!(summary.exit(), Exit::Connection, "{what}");
        }
    }

    #[test]
    fn early_end_exits_with_the_signal_code() {
        let summary = Summary { interrupted: Some(Exit::Interrupted), ..good() };
        assert_eq!(summary.exit(), Exit::Interrupted);
    }

    #[test]
    fn latencies() {
        assert_eq!(good().latency(), [2, 30, 30].map(Duration::from_millis));
        let none = Summary { tally: Tally::default(), ..good() };
        assert_eq!(none.latency(), [Duration::ZERO; 3]);
    }
}
