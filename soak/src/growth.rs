//! Decides whether memory grows: fits a line to samples, and estimates how far it can be trusted.
//!
//! A leak raises the floor of the memory; calls in flight, buffers and caches only move what lies
//! above it. So the samples are cut into blocks of equal length, and the line is fitted to the
//! minimum of each. The growth is that of the whole time or of its second half, whichever is less:
//! memory that is filled once and then stays, such as a table at its largest, is no leak.

#![expect(clippy::cast_precision_loss, reason = "numbers of samples are small")]

/// Memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) seconds: f64,
    pub(crate) bytes: f64,
}

/// How the floor of the memory moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    /// The floor at the beginning, in bytes, on the fitted line.
    pub(crate) at_begin: f64,
    /// The floor at the end, in bytes, on the fitted line.
    pub(crate) at_end: f64,
    /// Projected growth in an hour, as a share of `at_begin`.
    pub(crate) per_hour: f64,
    /// Whether the rise over the measured time clearly exceeds the scatter around the line.
    pub(crate) is_significant: bool,
}

impl Growth {
    /// Fits the line. `None` if there are too few samples for it.
    pub(crate) fn fit(points: &[Point]) -> Option<Self> {
        let floors = block_minimums(points)?;
        let whole = Line::fit(&floors);
        let later = Line::fit(&floors[BLOCKS / 2..]);
        let (begin, end) = (points.first()?.seconds, points.last()?.seconds);
        let at_begin = whole.value_at(begin);
        let slope = whole.slope.min(later.slope);
        let rise = slope * (end - begin);
        Some(Self {
            at_begin,
            at_end: whole.value_at(end),
            per_hour: slope * 3600.0 / at_begin,
            is_significant: rise > SIGNIFICANT_RISE * whole.scatter,
        })
    }

    /// Whether memory significantly grows by more than this share in an hour.
    pub(crate) fn exceeds(&self, share_per_hour: f64) -> bool {
        self.is_significant && self.per_hour > share_per_hour
    }
}

/// Returns the minimum of each block, at the middle of the block.
fn block_minimums(points: &[Point]) -> Option<Vec<Point>> {
    let (begin, end) = (points.first()?.seconds, points.last()?.seconds);
    let length = (end - begin) / BLOCKS as f64;
    if points.len() < BLOCKS * MIN_SAMPLES_PER_BLOCK {
        return None;
    }
    let mut rest = points;
    (0..BLOCKS)
        .map(|block| {
            let until = begin + length * (block + 1) as f64;
            let inside = if block + 1 == BLOCKS {
                rest.len()
            } else {
                rest.partition_point(|point| point.seconds < until)
            };
            let (now, later) = rest.split_at(inside);
            rest = later;
            let least = now.iter().map(|point| point.bytes).min_by(f64::total_cmp)?;
            Some(Point { seconds: until - length / 2.0, bytes: least })
        })
        .collect()
}

/// A least-squares line.
struct Line {
    middle: Point,
    /// Bytes per second.
    slope: f64,
    /// Standard deviation of the points around the line, in bytes.
    scatter: f64,
}

impl Line {
    fn fit(points: &[Point]) -> Self {
        let count = points.len() as f64;
        let mean = |value: fn(&Point) -> f64| points.iter().map(value).sum::<f64>() / count;
        let middle = Point { seconds: mean(|point| point.seconds), bytes: mean(|point| point.bytes) };
        let (mut across, mut squares) = (0.0, 0.0);
        for point in points {
            let x = point.seconds - middle.seconds;
            across += x * (point.bytes - middle.bytes);
            squares += x * x;
        }
        let mut line = Self { middle, slope: across / squares, scatter: 0.0 };
        let deviations: f64 =
            points.iter().map(|point| (point.bytes - line.value_at(point.seconds)).powi(2)).sum();
        line.scatter = (deviations / (count - 2.0)).sqrt();
        line
    }

    fn value_at(&self, seconds: f64) -> f64 {
        self.middle.bytes + self.slope * (seconds - self.middle.seconds)
    }
}

const BLOCKS: usize = 24;
const MIN_SAMPLES_PER_BLOCK: usize = 5;
/// The rise over the whole time, in standard deviations of the blocks. With 24 blocks this is a
/// slope of more than four standard errors, and a saw-tooth of two or more periods stays below it
/// in any phase.
const SIGNIFICANT_RISE: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: f64 = 4_000_000.0;
    const MINUTES: usize = 20;

    /// Generates one sample a second from the base, what `shape` adds, and bursts that only go up.
    fn series(seed: u64, shape: impl Fn(f64) -> f64) -> Vec<Point> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..MINUTES * 60)
            .map(|second| {
                let seconds = second as f64;
                let burst = 400_000.0 * rng.f64() * rng.f64();
                Point { seconds, bytes: BASE + shape(seconds) + burst }
            })
            .collect()
    }

    fn growth(seed: u64, shape: impl Fn(f64) -> f64) -> Growth {
        Growth::fit(&series(seed, shape)).unwrap()
    }

    /// Returns a leak of this share of the base per hour.
    fn leak(share: f64) -> impl Fn(f64) -> f64 {
        move |seconds| BASE * share * seconds / 3600.0
    }

    const SEEDS: std::ops::Range<u64> = 0..200;

    #[test]
    fn flat_memory_with_bursts_does_not_exceed() {
        for seed in SEEDS {
            let growth = growth(seed, |_| 0.0);
            assert!(!growth.exceeds(0.05), "seed {seed}: {growth:?}");
        }
    }

    #[test]
    fn leak_above_the_bound_exceeds_and_is_measured() {
        for seed in SEEDS {
            let growth = growth(seed, leak(0.2));
            assert!(growth.exceeds(0.05), "seed {seed}: {growth:?}");
            assert!((0.1..0.3).contains(&growth.per_hour), "seed {seed}: {growth:?}");
        }
    }

    #[test]
    fn leak_below_the_bound_does_not_exceed() {
        for seed in SEEDS {
            let growth = growth(seed, leak(0.02));
            assert!(!growth.exceeds(0.05), "seed {seed}: {growth:?}");
        }
    }

    #[test]
    fn saw_tooth_does_not_exceed_in_any_phase() {
        for period in [7.0, 60.0, 150.0, 400.0, 600.0] {
            for phase in 0..20 {
                let offset = period * f64::from(phase) / 20.0;
                let growth = growth(1, |seconds| 2_000_000.0 * ((seconds + offset) / period).fract());
                assert!(!growth.exceeds(0.05), "period {period}, phase {phase}: {growth:?}");
            }
        }
    }

    #[test]
    fn leak_under_a_saw_tooth_exceeds() {
        for seed in SEEDS {
            let growth = growth(seed, |seconds| leak(0.5)(seconds) + 2_000_000.0 * (seconds / 20.0).fract());
            assert!(growth.exceeds(0.05), "seed {seed}: {growth:?}");
        }
    }

    #[test]
    fn memory_that_fills_once_and_stays_does_not_exceed() {
        for filled in [60.0, 300.0, 550.0] {
            let growth = growth(3, |seconds: f64| 1_000_000.0 * (seconds / filled).min(1.0));
            assert!(!growth.exceeds(0.05), "filled after {filled} s: {growth:?}");
        }
    }

    #[test]
    fn too_few_samples_have_no_line() {
        let points = series(1, |_| 0.0);
        assert_eq!(Growth::fit(&points[..BLOCKS * MIN_SAMPLES_PER_BLOCK - 1]), None);
        assert_eq!(Growth::fit(&[]), None);
        assert!(Growth::fit(&points[..BLOCKS * MIN_SAMPLES_PER_BLOCK]).is_some());
    }
}
