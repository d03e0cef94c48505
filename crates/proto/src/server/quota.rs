//! [`Quota`]: how many requests may be open at once, and how many may come in a time.
//!
//! It has no clock: the time is an argument.

mod token_bucket;

use std::time::{Duration, Instant};

pub use token_bucket::{Rate, TokenBucket};

/// What a host, or all hosts of one identity, may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// How many requests may be open at once.
    pub in_flight: usize,
    /// How fast requests may come. `None`: as fast as they are answered.
    pub rate: Option<Rate>,
}

/// The open requests of a host, or of all hosts of one identity, and those that came lately.
#[derive(Clone, Debug)]
pub struct Quota {
    limit: usize,
    in_flight: usize,
    bucket: Option<TokenBucket>,
    /// When the last request ended.
    released_at: Option<Instant>,
    /// How long it took lately from the end of one request to that of the next.
    release_interval: Option<Duration>,
}

/// Why a request is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaExcess {
    /// As many requests are open as may be. One of them must end first.
    InFlight {
        /// How many may be.
        limit: usize,
        /// How long it will take until one ends, as far as can be told by those that ended.
        wait: Duration,
    },
    /// Requests come too fast. One is admitted after this time, if no other comes first.
    Rate {
        /// The time to wait.
        wait: Duration,
    },
}

impl Quota {
    /// Begins with no request.
    pub fn new(limits: QuotaLimits) -> Self {
        Self {
            limit: limits.in_flight,
            in_flight: 0,
            bucket: limits.rate.map(TokenBucket::new),
            released_at: None,
            release_interval: None,
        }
    }

    /// Sets other limits. What was counted so far still counts.
    pub fn set_limits(&mut self, limits: QuotaLimits) {
        self.limit = limits.in_flight;
        let before = self.bucket.take();
        self.bucket = limits.rate.map(|rate| match before {
            Some(bucket) => bucket.with_rate(rate),
            None => TokenBucket::new(rate),
        });
    }

    /// Whether a request that comes now can be admitted. It changes nothing.
    pub fn check(&self, now: Instant) -> Result<(), QuotaExcess> {
        if self.in_flight >= self.limit {
            let bucket_wait = self.bucket.as_ref().and_then(|bucket| bucket.wait(now)).unwrap_or_default();
            // If none has ended for long, those that are open take longer than the ones before.
            let silence = self.released_at.map(|at| now.saturating_duration_since(at)).unwrap_or_default();
            let release = self.release_interval.unwrap_or(DEFAULT_RELEASE_WAIT).max(silence);
            let wait = release.clamp(MIN_RELEASE_WAIT, MAX_RELEASE_WAIT).max(bucket_wait);
            return Err(QuotaExcess::InFlight { limit: self.limit, wait });
        }
        match self.bucket.as_ref().and_then(|bucket| bucket.wait(now)) {
            Some(wait) => Err(QuotaExcess::Rate { wait }),
            None => Ok(()),
        }
    }

    /// Counts a request that [`Quota::check`] admits. It is open until [`Quota::release`].
    pub fn take(&mut self, now: Instant) {
        self.in_flight += 1;
        if let Some(bucket) = &mut self.bucket {
            // Whoever takes without a check counts all the same.
            let _ = bucket.take(now);
        }
    }

    /// Ends a request.
    pub fn release(&mut self, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(before) = self.released_at.replace(now) {
            let interval = now.saturating_duration_since(before);
            let mean = self.release_interval.map_or(interval, |mean| (3 * mean + interval) / 4);
            // Idle times are no sign of slow requests.
            self.release_interval = Some(mean.min(MAX_RELEASE_WAIT));
        }
    }

    /// How many requests are open.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether it is as if it had just begun, so that nothing is lost with it.
    pub fn is_unused(&self, now: Instant) -> bool {
        self.in_flight == 0 && self.bucket.as_ref().is_none_or(|bucket| bucket.is_full(now))
    }
}

/// How long a host waits until one of its requests has ended: at least, at most, and if none has ended yet.
const MIN_RELEASE_WAIT: Duration = Duration::from_millis(100);
const MAX_RELEASE_WAIT: Duration = Duration::from_secs(5);
const DEFAULT_RELEASE_WAIT: Duration = Duration::from_secs(1);

impl QuotaLimits {
    /// The limits of `count` hosts together.
    #[must_use]
    pub fn times(self, count: u32) -> Self {
        Self {
            in_flight: self.in_flight.saturating_mul(count as usize),
            rate: self.rate.map(|rate| rate.times(count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(in_flight: usize, rate: Option<(u32, u32)>) -> Quota {
        let rate = rate.map(|(per_second, burst)| Rate::new(per_second, burst).unwrap());
        Quota::new(QuotaLimits { in_flight, rate })
    }

    #[test]
    fn a_request_is_admitted_when_another_has_ended() {
        let now = Instant::now();
        let mut quota = quota(2, None);
        for _ in 0..2 {
            assert_eq!(quota.check(now), Ok(()));
            quota.take(now);
        }
        assert_eq!(quota.check(now), Err(QuotaExcess::InFlight { limit: 2, wait: DEFAULT_RELEASE_WAIT }));
        quota.release(now);
        assert_eq!((quota.check(now), quota.in_flight()), (Ok(()), 1));
        assert!(!quota.is_unused(now));
        quota.release(now);
        assert!(quota.is_unused(now));
    }

    #[test]
    fn the_wait_follows_how_fast_requests_end() {
        let start = Instant::now();
        let wait_after = |interval: Duration, rate| {
            let mut quota = quota(1, rate);
            let mut now = start;
            for _ in 0..20 {
                quota.take(now);
                now += interval;
                quota.release(now);
            }
            quota.take(now);
            match quota.check(now) {
                Err(QuotaExcess::InFlight { wait, .. }) => wait,
                other => panic!("{other:?}"),
            }
        };
        let millis = Duration::from_millis;
        assert_eq!(wait_after(millis(300), None), millis(300));
        assert_eq!(wait_after(millis(1), None), MIN_RELEASE_WAIT);
        assert_eq!(wait_after(millis(60_000), None), MAX_RELEASE_WAIT);
        let mut slow = quota(1, None);
        for now in [start, start + millis(10)] {
            slow.take(now);
            slow.release(now);
        }
        slow.take(start);
        let later = Err(QuotaExcess::InFlight { limit: 1, wait: millis(2_000) });
        assert_eq!(slow.check(start + millis(2_010)), later, "none has ended for long");
        // The next one has to wait for the rate as well.
        assert_eq!(wait_after(millis(1), Some((1, 21))), millis(980));
    }

    #[test]
    fn a_rate_is_remembered_after_its_requests_have_ended() {
        let now = Instant::now();
        let mut quota = quota(10, Some((4, 1)));
        quota.take(now);
        quota.release(now);
        let wait = Duration::from_millis(250);
        assert_eq!(quota.check(now), Err(QuotaExcess::Rate { wait }));
        assert!(!quota.is_unused(now));
        assert_eq!(quota.check(now + wait), Ok(()));
        assert!(quota.is_unused(now + wait));
    }

    #[test]
    fn other_limits_hold_for_what_was_counted_before() {
        let now = Instant::now();
        let mut quota = quota(2, None);
        quota.take(now);
        quota.set_limits(QuotaLimits { in_flight: 1, rate: Rate::new(1, 1) });
        assert_eq!(quota.check(now), Err(QuotaExcess::InFlight { limit: 1, wait: DEFAULT_RELEASE_WAIT }));
        quota.release(now);
        assert_eq!(quota.check(now), Ok(()));
        quota.take(now);
        quota.release(now);
        assert_eq!(quota.check(now), Err(QuotaExcess::Rate { wait: Duration::from_secs(1) }));
        quota.set_limits(QuotaLimits { in_flight: 1, rate: Rate::new(1, 2) });
        assert_eq!(quota.check(now), Ok(()), "of a larger burst one request is left");
        quota.set_limits(QuotaLimits { in_flight: 1, rate: None });
        assert_eq!(quota.check(now), Ok(()));
    }

    #[test]
    fn limits_of_several_hosts_are_their_sum() {
        let one = QuotaLimits { in_flight: 3, rate: Rate::new(5, 7) };
        assert_eq!(one.times(4), QuotaLimits { in_flight: 12, rate: Rate::new(20, 28) });
        let most = QuotaLimits { in_flight: usize::MAX, rate: Rate::new(u32::MAX, u32::MAX) };
        assert_eq!(most.times(4), most);
    }
}
