//! How long to wait before the next attempt: longer the longer there was none that worked, jittered, with a
//! floor and a cap.
//!
//! The wait follows the clock and not the number of attempts: whoever asks more often, because somebody waits,
//! must not thereby wait longer when nobody does. Randomness comes in as a seed, so that a simulation is the
//! same every time.

use std::time::Duration;

/// The waits between attempts.
#[derive(Clone, Debug)]
pub struct Backoff {
    floor: Duration,
    cap: Duration,
    random: u64,
}

impl Backoff {
    /// Waits from `floor` up to `cap`.
    pub fn new(floor: Duration, cap: Duration, seed: u64) -> Self {
        // Splitmix needs no particular seed, xorshift-style generators would: zero is fine here.
        Self { floor, cap: cap.max(floor), random: seed }
    }

    /// The wait before the next attempt, when all have failed for this long: half as long again, up to as long,
    /// so that it grows exponentially. Never below the floor, never above the cap.
    pub fn wait_after(&mut self, trouble: Duration) -> Duration {
        let full = trouble.clamp(self.floor, self.cap);
        // Half fixed, half random: herds spread, and no wait is shorter than half of what is due.
        let half = full / 2;
        let share = self.roll();
        (half + half.mul_f64(share)).max(self.floor)
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
        fn stays_between_floor_and_cap(seed: u64, floor in 1u64..5_000, factor in 1u64..200, trouble in 0u64..10_000_000) {
            let (floor, cap) = (Duration::from_millis(floor), Duration::from_millis(floor * factor));
            let trouble = Duration::from_millis(trouble);
            let wait = Backoff::new(floor, cap, seed).wait_after(trouble);
            prop_assert!(wait >= floor && wait <= cap);
            // However the dice fall, at least half of what is due is waited.
            prop_assert!(wait >= trouble.min(cap) / 2);
        }

        /// Exponential: a day of trouble is some dozen of waits to the cap, and then the cap.
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
