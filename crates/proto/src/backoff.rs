//! How long to wait before the next attempt: exponential, jittered, with a floor and a cap.
//!
//! Randomness comes in as a seed, so that a simulation is the same every time.

use std::time::Duration;

/// The waits between attempts.
#[derive(Clone, Debug)]
pub struct Backoff {
    floor: Duration,
    cap: Duration,
    failures: u32,
    random: u64,
}

impl Backoff {
    /// Waits from `floor`, doubling up to `cap`, each shortened by up to half.
    pub fn new(floor: Duration, cap: Duration, seed: u64) -> Self {
        // Splitmix needs no particular seed, xorshift-style generators would: zero is fine here.
        Self { floor, cap: cap.max(floor), failures: 0, random: seed }
    }

    /// The wait before the next attempt. Never below the floor, never above the cap.
    pub fn next_wait(&mut self) -> Duration {
        let full = self.floor.saturating_mul(1 << self.failures.min(20)).min(self.cap);
        self.failures = self.failures.saturating_add(1);
        // Half fixed, half random: herds spread, and no wait is shorter than half of what is due.
        let half = full / 2;
        let share = self.roll();
        (half + half.mul_f64(share)).max(self.floor)
    }

    /// A stable period has passed: begin again at the floor.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// How many attempts have failed since the last stable period.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// A number in `0..1` (splitmix64).
    fn roll(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
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
        fn stays_between_floor_and_cap_and_grows(seed: u64, floor in 1u64..5_000, factor in 1u64..200, tries in 1usize..60) {
            let (floor, cap) = (Duration::from_millis(floor), Duration::from_millis(floor * factor));
            let mut backoff = Backoff::new(floor, cap, seed);
            for n in 0..tries {
                let wait = backoff.next_wait();
                prop_assert!(wait >= floor && wait <= cap);
                // However the dice fall, after enough failures at least half the cap is waited.
                if n > 20 {
                    prop_assert!(wait >= cap / 2);
                }
            }
            backoff.reset();
            prop_assert!(backoff.next_wait() <= floor.max(Duration::from_nanos(1)));
        }
    }

    #[test]
    fn two_seeds_do_not_march_in_step() {
        let waits = |seed| {
            let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60), seed);
            (0..10).map(|_| backoff.next_wait()).collect::<Vec<_>>()
        };
        assert_ne!(waits(1), waits(2));
        assert_eq!(waits(1), waits(1));
    }
}
