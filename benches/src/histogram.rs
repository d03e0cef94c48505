//! Records latencies in constant memory.
//!
//! A list of every latency would grow with the number of calls, so the fastest client would show
//! the largest memory. Buckets of equal relative width (1/64) do not grow.

/// Sub-buckets per power of two.
const SUB_BUCKETS: u64 = 1 << SUB_BITS;
const SUB_BITS: u32 = 6;
/// Enough buckets for every `u64` of nanoseconds.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

/// Counts of durations in nanoseconds, by bucket.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

// === impl Histogram ===

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }

    pub(crate) fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the duration, in microseconds, that `per_mille` of the calls stayed within; `None`
    /// if empty.
    pub(crate) fn quantile_us(&self, per_mille: u64) -> Option<f64> {
        let rank = (self.total * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                #[expect(clippy::cast_precision_loss, reason = "a bucket is 1/64 wide; f64 is finer")]
                return Some(upper_bound(index) as f64 / 1000.0);
            }
        }
        None
    }
}

/// Returns the bucket of a value. Small values have a bucket each; above, the bits after the
/// leading one choose the sub-bucket.
fn bucket(nanos: u64) -> usize {
    let index = match nanos.checked_ilog2() {
        Some(log) if log > SUB_BITS => {
            let shift = log - SUB_BITS;
            u64::from(shift) * SUB_BUCKETS + (nanos >> shift)
        }
        _ => nanos,
    };
    usize::try_from(index).expect("fewer buckets than usize::MAX")
}

/// Returns the largest value of a bucket.
fn upper_bound(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * SUB_BUCKETS {
        return index;
    }
    let shift = index / SUB_BUCKETS - 1;
    let mantissa = u128::from(index % SUB_BUCKETS + SUB_BUCKETS + 1);
    u64::try_from((mantissa << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_a_bucket_at_most_one_sixty_fourth_wide() {
        let mut values: Vec<u64> = (0..4096).collect();
        values.extend((12..64).flat_map(|bit| {
            let base = 1_u64 << bit;
            [base - 1, base, base + 1, base + base / 3, base + base / 2]
        }));
        values.push(u64::MAX);
        for value in values {
            let upper = upper_bound(bucket(value));
            assert!(upper >= value, "{value} above its bucket ({upper})");
            assert!(upper - value <= value / SUB_BUCKETS, "{value} in too wide a bucket ({upper})");
        }
    }

    #[test]
    fn quantiles_of_a_merged_histogram() {
        let (mut low, mut high) = (Histogram::new(), Histogram::new());
        (0..980).for_each(|_| low.record(1_000));
        (0..20).for_each(|_| high.record(1_000_000));
        low.merge(&high);

        assert_eq!(low.total(), 1000);
        assert_eq!(low.quantile_us(500).map(f64::round), Some(1.0));
        let p99 = low.quantile_us(990).expect("not empty");
        assert!((1000.0..1016.0).contains(&p99), "{p99}");
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        assert_eq!(Histogram::new().quantile_us(500), None);
    }
}
