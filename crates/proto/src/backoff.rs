//! [`Backoff`]: the wait before the next attempt, which grows with the time since the first
//! failure. It is jittered, and has a floor and a cap.
//!
//! The wait depends on the elapsed time and not on the number of attempts: extra attempts made
//! while a caller waits must not lengthen the waits afterwards. Randomness comes in as a seed, so
//! that a simulation is reproducible.

use std::time::Duration;

/// Computes the waits between attempts.
#[derive(Clone, Debug)]
pub struct Backoff {
    floor: Duration,
    cap: Duration,
    rng_state: u64,
}

impl Backoff {
    /// Creates a backoff with waits from `floor` up to `cap`.
    pub fn new(floor: Duration, cap: Duration, seed: u64) -> Self {
        // Splitmix works with any seed, zero included, unlike xorshift generators.
        Self { floor, cap: cap.max(floor), rng_state: seed }
    }

    /// Returns the wait before the next attempt when all have failed for `trouble`: between half of
    /// that time and all of it, so that the waits grow exponentially, but within floor and cap.
    pub fn wait_after(&mut self, trouble: Duration) -> Duration {
        let full = trouble.clamp(self.floor, self.cap);
        // Half fixed, half random: clients spread out, and no wait is shorter than half of what is
        // due.
        let half = full / 2;
        let share = self.next_fraction();
        (half + half.mul_f64(share)).max(self.floor)
    }

    /// Returns a random number in `0..1` (splitmix64).
    fn next_fraction(&mut self) -> f64 {
        self.rng_state = self.rng_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.rng_state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let share = (mixed >> 11) as f64 / (1u64 << 53) as f64;
        share
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stays_between_floor_and_cap(seed: u64, floor in 1u64..5_000, factor in 1u64..200, trouble in 0u64..10_000_000) {
            let (floor, cap) = (Duration::from_millis(floor), Duration::from_millis(floor * factor));
            let trouble = Duration::from_millis(trouble);
            let wait = Backoff::new(floor, cap, seed).wait_after(trouble);
            prop_assert!(wait >= floor && wait <= cap);
            // Whatever the jitter, at least half of what is due is waited.
            prop_assert!(wait >= trouble.min(cap) / 2);
        }

        /// The waits grow to the cap within a dozen attempts, so an hour-long outage takes few of
        /// them.
        #[test]
        fn a_long_outage_is_few_attempts(seed: u64) {
            let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(60), seed);
            let (mut trouble, mut attempts) = (Duration::ZERO, 0);
            while trouble < Duration::from_secs(3_600) {
                trouble += backoff.wait_after(trouble);
                attempts += 1;
            }
            prop_assert!((60..=140).contains(&attempts), "{}", attempts);
        }
    }

    #[test]
    fn two_seeds_do_not_march_in_step() {
        let waits = |seed| {
            let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60), seed);
            (0..10).map(|n| backoff.wait_after(Duration::from_secs(n))).collect::<Vec<_>>()
        };
        assert_ne!(waits(1), waits(2));
        assert_eq!(waits(1), waits(1));
    }
}
