//! The load loop that all Rust legs share: keeps calls in flight and times them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::histogram::Histogram;
use crate::job::{Limits, Sample};
use crate::measure::{Lap, Stopwatch, peak_rss};

/// A caller that makes one call after another, waiting for each response.
pub(super) trait Lane: Send + 'static {
    fn call(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Keeps one call of every lane in flight: first for the warm-up, then for the measurement.
pub(super) async fn drive<L: Lane>(lanes: Vec<L>, limits: Limits) -> anyhow::Result<Sample> {
    let (lanes, _) = run_lanes(lanes, limits.warmup, limits.max_calls / 4 + 1).await?;
    let watch = Stopwatch::start();
    let (_, latencies) = run_lanes(lanes, limits.seconds, limits.max_calls).await?;
    build_sample(&watch.stop(), &latencies)
}

/// Builds the sample of a measurement.
pub(super) fn build_sample(lap: &Lap, latencies: &Histogram) -> anyhow::Result<Sample> {
    ensure!(latencies.total() > 0, "no call finished");
    Ok(Sample {
        calls: latencies.total(),
        seconds: lap.seconds,
        cpu_seconds: lap.cpu_seconds,
        p50_us: latencies.quantile_us(500),
        p99_us: latencies.quantile_us(990),
        peak_rss: peak_rss(),
        ..Sample::default()
    })
}

async fn run_lanes<L: Lane>(
    lanes: Vec<L>,
    seconds: f64,
    max_calls: u64,
) -> anyhow::Result<(Vec<L>, Histogram)> {
    let started = Arc::new(AtomicU64::new(0));
    let deadline = Instant::now() + Duration::from_secs_f64(seconds);
    let tasks: Vec<_> = lanes
        .into_iter()
        .map(|mut lane| {
            let started = Arc::clone(&started);
            tokio::spawn(async move {
                let mut latencies = Histogram::new();
                let mut now = Instant::now();
                while now < deadline && started.fetch_add(1, Ordering::Relaxed) < max_calls {
                    lane.call().await?;
                    let end = Instant::now();
                    latencies.record(u64::try_from((end - now).as_nanos()).unwrap_or(u64::MAX));
                    now = end;
                }
                anyhow::Ok((lane, latencies))
            })
        })
        .collect();
    let mut lanes = Vec::with_capacity(tasks.len());
    let mut all = Histogram::new();
    for task in tasks {
        let (lane, latencies) = task.await??;
        all.merge(&latencies);
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
