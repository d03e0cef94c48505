//! [`TokenBucket`]: limits how many requests are admitted in a time.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// How fast requests may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

/// Admits a burst of requests, and after that as many as its rate allows.
///
/// In any time `t` it admits at most `burst + per_second × t` requests. Whoever it refuses is told a
/// time after which a request is admitted, if no other comes first.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// The time that one request counts for. It is rounded up, so that the rate is never exceeded.
    interval: Duration,
    /// How far [`TokenBucket::full_at`] may be ahead.
    depth: Duration,
    /// When a whole burst is admitted again. `None` before the first request.
    full_at: Option<Instant>,
}

impl Rate {
    /// A rate of this many requests in a second, and at most `burst` at once. `None` if one of them is
    /// zero, since nothing would ever be admitted.
    pub fn new(per_second: u32, burst: u32) -> Option<Self> {
        Some(Self { per_second: NonZeroU32::new(per_second)?, burst: NonZeroU32::new(burst)? })
    }

    /// The rate of `count` hosts together.
    #[must_use]
    pub fn times(self, count: u32) -> Self {
        let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        Self { per_second: self.per_second.saturating_mul(count), burst: self.burst.saturating_mul(count) }
    }
}

impl TokenBucket {
    /// Begins with a whole burst.
    pub fn new(rate: Rate) -> Self {
        let interval = Duration::from_nanos(NANOS_PER_SECOND.div_ceil(rate.per_second.get().into()));
        Self { interval, depth: interval * rate.burst.get(), full_at: None }
    }

    /// The bucket with another rate, and with the requests that it has admitted.
    #[must_use]
    pub fn with_rate(self, rate: Rate) -> Self {
        Self { full_at: self.full_at, ..Self::new(rate) }
    }

    /// How long a request has to wait that comes now. `None`: it would be admitted.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let ahead = self.full_at.map_or(Duration::ZERO, |full_at| full_at.saturating_duration_since(now));
        let wait = (ahead + self.interval).saturating_sub(self.depth);
        (wait > Duration::ZERO).then_some(wait)
    }

    /// Admits a request, or says how long it has to wait.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        if let Some(wait) = self.wait(now) {
            return Err(wait);
        }
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now));
        self.full_at = Some(full_at + self.interval);
        Ok(())
    }

    /// Whether a whole burst would be admitted.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full_at.is_none_or(|full_at| full_at <= now)
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_is_admitted_and_then_the_rate() {
        let begin = Instant::now();
        let mut bucket = TokenBucket::new(Rate::new(10, 3).unwrap());
        assert!(bucket.is_full(begin));
        let tenth = Duration::from_millis(100);
        for _ in 0..3 {
            assert_eq!(bucket.take(begin), Ok(()));
        }
        assert_eq!(bucket.take(begin), Err(tenth));
        assert_eq!(bucket.take(begin + tenth / 4), Err(tenth / 4 * 3));
        assert_eq!(bucket.take(begin + tenth), Ok(()));
        assert_eq!(bucket.wait(begin + tenth), Some(tenth));
        assert!(!bucket.is_full(begin + 3 * tenth));
        assert!(bucket.is_full(begin + 4 * tenth));
    }

    #[test]
    fn a_rate_that_admits_nothing_is_none() {
        assert_eq!((Rate::new(0, 1), Rate::new(1, 0)), (None, None));
    }

    proptest! {
        /// In every time between two admissions, no more than the burst and the rate are admitted. Who is
        /// refused is admitted after the time that was told, and not before.
        #[test]
        fn no_more_than_the_rate_is_admitted(
            per_second in 1..2_000_000_u32,
            burst in 1..50_u32,
            // Nanoseconds between requests: mostly short ones, in relation to the rate.
            gaps in prop::collection::vec(prop_oneof![Just(0_u64), 0..2_000_000_u64, 0..3_000_000_000_u64], 1..200),
        ) {
            let mut bucket = TokenBucket::new(Rate::new(per_second, burst).unwrap());
            let mut now = Instant::now();
            let mut admitted: Vec<Instant> = Vec::new();
            for gap in gaps {
                now += Duration::from_nanos(gap);
                match bucket.take(now) {
                    Ok(()) => admitted.push(now),
                    Err(wait) => {
                        prop_assert!(wait > Duration::ZERO);
                        let just_before = now + wait.saturating_sub(Duration::from_nanos(1));
                        prop_assert!(bucket.clone().take(just_before).is_err());
                        prop_assert_eq!(bucket.clone().take(now + wait), Ok(()));
                    }
                }
            }
            for (first, begin) in admitted.iter().enumerate() {
                for (last, end) in admitted.iter().enumerate().skip(first) {
                    let count = u128::try_from(last - first + 1).unwrap();
                    let by_rate = end.duration_since(*begin).as_nanos() * u128::from(per_second);
                    let allowed = u128::from(burst) * u128::from(NANOS_PER_SECOND) + by_rate;
                    prop_assert!(count * u128::from(NANOS_PER_SECOND) <= allowed);
                }
            }
        }
    }
}
