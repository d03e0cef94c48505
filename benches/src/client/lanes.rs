//! The load loop that all Rust legs share: keeps calls in flight and times them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use hdrhistogram::Histogram;

use crate::job::{Limits, Sample};
use crate::measure::{Lap, Stopwatch, peak_rss};

/// The latencies of calls, in nanoseconds.
///
/// The bounds are fixed: the fastest client, which makes the most calls, must not show the largest
/// memory.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_LATENCY_NANOS, SIGNIFICANT_DIGITS).expect("valid bounds"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    #[expect(clippy::cast_precision_loss, reason = "two digits count")]
    fn quantile_us(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// Ten minutes, which no run lasts.
const MAX_LATENCY_NANOS: u64 = 600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 2;

/// A caller that makes one call after another, waiting for each response.
pub(crate) trait Lane: Send + 'static {
    fn call(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Keeps one call of every lane in flight: first for the warm-up, then for the measurement.
pub(crate) async fn drive<L: Lane>(lanes: Vec<L>, limits: Limits) -> anyhow::Result<Sample> {
    let (lanes, _) = run_lanes(lanes, limits.warmup, limits.max_calls / 4 + 1).await?;
    let watch = Stopwatch::start();
    let (_, latencies) = run_lanes(lanes, limits.seconds, limits.max_calls).await?;
    build_sample(&watch.stop(), &latencies)
}

/// Builds the sample of a measurement.
pub(crate) fn build_sample(lap: &Lap, latencies: &Latencies) -> anyhow::Result<Sample> {
    ensure!(!latencies.0.is_empty(), "no call finished");
    Ok(Sample {
        calls: latencies.0.len(),
        seconds: lap.seconds,
        cpu_seconds: lap.cpu_seconds,
        p50_us: Some(latencies.quantile_us(0.5)),
        p99_us: Some(latencies.quantile_us(0.99)),
        peak_rss: peak_rss(),
        ..Sample::default()
    })
}

async fn run_lanes<L: Lane>(
    lanes: Vec<L>,
    seconds: f64,
    max_calls: u64,
) -> anyhow::Result<(Vec<L>, Latencies)> {
    let started = Arc::new(AtomicU64::new(0));
    let deadline = Instant::now() + Duration::from_secs_f64(seconds);
    let tasks: Vec<_> = lanes
        .into_iter()
        .map(|mut lane| {
            let started = Arc::clone(&started);
            tokio::spawn(async move {
                let mut latencies = Latencies::new();
                let mut now = Instant::now();
                while now < deadline && started.fetch_add(1, Ordering::Relaxed) < max_calls {
                    lane.call().await?;
                    let end = Instant::now();
                    latencies.record(end - now);
                    now = end;
                }
                anyhow::Ok((lane, latencies))
            })
        })
        .collect();
    let mut lanes = Vec::with_capacity(tasks.len());
    let mut all = Latencies::new();
    for task in tasks {
        let (lane, latencies) = task.await??;
        all.0.add(latencies.0)?;
        lanes.push(lane);
    }
    Ok((lanes, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Yields;

    impl Lane for Yields {
        async fn call(&mut self) -> anyhow::Result<()> {
            tokio::task::yield_now().await;
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_number_of_calls_is_a_bound_across_lanes() {
        let limits = Limits { warmup: 0.0, seconds: 60.0, max_calls: 100 };
        let sample = drive(vec![Yields, Yields, Yields], limits).await.expect("measured");
        assert_eq!(sample.calls, 100);
    }

    #[tokio::test]
    async fn time_is_a_bound() {
        let limits = Limits { warmup: 0.0, seconds: 0.02, max_calls: u64::MAX };
        let sample = drive(vec![Yields], limits).await.expect("measured");
        assert!(sample.seconds >= 0.02);
    }
}
