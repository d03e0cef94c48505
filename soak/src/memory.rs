//! Owns how much memory the client process may use, and how long a run must be for that to be
//! enforced.

use std::fmt;
use std::time::Duration;

use crate::growth::{Growth, Point};
use crate::ledger::{Rule, Violations};
use crate::messages::MemorySample;

/// Reads one kind of memory from a sample. `None` if the system cannot tell.
type Reading = fn(&MemorySample) -> Option<u64>;

/// The measurement of one kind of memory.
pub(crate) struct MemoryCheck {
    name: &'static str,
    /// Bytes at the end of the warm-up and at the end, each the minimum of a few samples.
    measured: Option<(f64, f64)>,
    growth: Option<Growth>,
    enforced: bool,
}

impl MemoryCheck {
    /// Checks all kinds of memory after a run of this length.
    pub(crate) fn check_all(
        samples: &[MemorySample],
        run: Duration,
        violations: &mut Violations,
    ) -> Vec<Self> {
        let kinds: [(&'static str, Reading); 2] =
            [("heap", |sample| Some(sample.heap)), ("resident", |sample| sample.resident)];
        let checks: Vec<_> = kinds
            .map(|(name, reading)| Self::new(name, &points_after_warm_up(samples, run, reading), run))
            .into();
        if samples.is_empty() {
            violations.add(Rule::Memory, "memory was not measured".to_owned());
        }
        for check in &checks {
            if let Some(wrong) = check.violation() {
                violations.add(Rule::Memory, wrong);
            }
        }
        checks
    }

    fn new(name: &'static str, points: &[Point], run: Duration) -> Self {
        let least = |points: &[Point]| points.iter().map(|point| point.bytes).min_by(f64::total_cmp);
        let some = EDGE_SAMPLES.min(points.len());
        let edges = (least(&points[..some]), least(&points[points.len() - some..]));
        Self {
            name,
            measured: edges.0.zip(edges.1),
            growth: Growth::fit(points),
            enforced: run >= MIN_ENFORCED_RUN,
        }
    }

    fn violation(&self) -> Option<String> {
        let (begin, end) = self.measured?;
        if let Some(growth) =
            self.growth.filter(|growth| self.enforced && growth.exceeds(MAX_GROWTH_PER_HOUR))
        {
            return Some(format!(
                "{} grows by {:.1} % in an hour, at most {:.0} % allowed",
                self.name,
                growth.per_hour * 100.0,
                MAX_GROWTH_PER_HOUR * 100.0
            ));
        }
        let bound = begin * MAX_GROWTH_FACTOR + MAX_GROWTH_BYTES;
        (end > bound).then(|| {
            format!(
                "{} grew from {} to {}, beyond {}",
                self.name,
                Megabytes(begin),
                Megabytes(end),
                Megabytes(bound)
            )
        })
    }
}

/// Leaves out the samples of the warm-up: the first fifth of the run.
fn points_after_warm_up(samples: &[MemorySample], run: Duration, reading: Reading) -> Vec<Point> {
    let Some(first) = samples.first() else { return Vec::new() };
    let warm = first.at.plus(run / WARM_UP_DIVISOR);
    let after = samples.iter().filter(|sample| sample.at >= warm);
    after
        .filter_map(|sample| {
            #[expect(clippy::cast_precision_loss, reason = "no process has petabytes")]
            let bytes = reading(sample)? as f64;
            Some(Point { seconds: sample.at.since(first.at).as_secs_f64(), bytes })
        })
        .collect()
}

impl fmt::Display for MemoryCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((begin, end)) = self.measured else {
            return write!(f, "{:<12} not measured on this system", self.name);
        };
        write!(f, "{:<12} {} after warm-up, {} at the end", self.name, Megabytes(begin), Megabytes(end))?;
        let Some(growth) = self.growth else { return f.write_str(", too few samples for a line") };
        let trust = if growth.is_significant { "significant" } else { "within the noise" };
        write!(f, ", {:+.1} % per hour ({trust})", growth.per_hour * 100.0)?;
        if !self.enforced {
            write!(f, ", enforced from {} minutes on", MIN_ENFORCED_RUN.as_secs() / 60)?;
        }
        Ok(())
    }
}

struct Megabytes(f64);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} MB", self.0 / 1e6)
    }
}

/// Growth per hour that is allowed, as a share, whatever the number of calls.
const MAX_GROWTH_PER_HOUR: f64 = 0.05;
/// Shorter runs are mostly warm-up: pools, tables and the allocator's caches still fill. Only the
/// loose bound applies to them.
const MIN_ENFORCED_RUN: Duration = Duration::from_secs(15 * 60);
/// The warm-up is the run's length divided by this.
const WARM_UP_DIVISOR: u32 = 5;
const EDGE_SAMPLES: usize = 10;
/// The loose bound of every run: growth allowed since the end of the warm-up, as a factor and in
/// bytes.
const MAX_GROWTH_FACTOR: f64 = 1.5;
const MAX_GROWTH_BYTES: f64 = 16e6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Micros;

    /// One sample a second with this many bytes in use, on all counts.
    fn samples(run: Duration, bytes: impl Fn(u64) -> u64) -> Vec<MemorySample> {
        let sample = |second: u64| {
            let heap = bytes(second);
            MemorySample { at: Micros(second * 1_000_000), heap, resident: Some(heap) }
        };
        (0..=run.as_secs()).map(sample).collect()
    }

    fn violations(run: Duration, bytes: impl Fn(u64) -> u64) -> u64 {
        let mut violations = Violations::default();
        MemoryCheck::check_all(&samples(run, bytes), run, &mut violations);
        violations.iter().map(|(_, count, _)| count).sum()
    }

    const MEGABYTE: u64 = 1_000_000;

    #[test]
    fn leak_is_a_violation_of_an_enforced_run_only() {
        // 36 % in an hour: two kinds of memory, two violations.
        let leak = |second| 10 * MEGABYTE + second * 1000;
        assert_eq!(violations(Duration::from_secs(15 * 60), leak), 2);
        assert_eq!(violations(Duration::from_secs(14 * 60), leak), 0);
    }

    #[test]
    fn short_run_is_held_to_the_loose_bound() {
        let minute = Duration::from_secs(60);
        assert_eq!(violations(minute, |_| 10 * MEGABYTE), 0);
        assert_eq!(violations(minute, |second| 10 * MEGABYTE + second * 200_000), 0);
        assert_eq!(violations(minute, |second| 10 * MEGABYTE + second * 800_000), 2);
    }

    #[test]
    fn warm_up_does_not_count() {
        let run = Duration::from_secs(20 * 60);
        assert_eq!(violations(run, |second| 10 * MEGABYTE + second.min(240) * 100_000), 0);
    }

    #[test]
    fn missing_samples_are_a_violation_but_missing_pages_are_not() {
        let run = Duration::from_secs(60);
        let mut violations = Violations::default();
        MemoryCheck::check_all(&[], run, &mut violations);
        assert_eq!(
            violations.iter().map(|(rule, count, _)| (rule, count)).collect::<Vec<_>>(),
            [(Rule::Memory, 1)]
        );

        let mut heap_only = samples(run, |_| MEGABYTE);
        for sample in &mut heap_only {
            sample.resident = None;
        }
        let mut violations = Violations::default();
        let checks = MemoryCheck::check_all(&heap_only, run, &mut violations);
        assert!(violations.is_empty());
        assert_eq!(checks[1].to_string(), "resident     not measured on this system");
    }
}
