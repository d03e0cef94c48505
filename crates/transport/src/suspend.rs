//! Whether the machine was suspended between two moments: then the peers of kept connections may be gone.

use std::time::{Duration, SystemTime};

#[cfg(feature = "http")]
use tokio::time::Instant;

/// Whether the machine was suspended while its timers counted `passed`.
///
/// The wall clock goes on during a suspend, and the clock of the timers stands still on most systems. Where both go
/// on, this is `false`.
pub fn is_suspend(passed: Duration, before: SystemTime, after: SystemTime) -> bool {
    after.duration_since(before).unwrap_or_default() > passed + MIN_SUSPEND_GAP
}

/// Minimum gap between the clocks that counts as a suspend; a busy machine or a corrected clock stays below it.
const MIN_SUSPEND_GAP: Duration = Duration::from_secs(10);

/// A moment by both clocks.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    timer: Instant,
    wall: SystemTime,
}

#[cfg(feature = "http")]
impl Moment {
    pub(crate) fn now() -> Self {
        Self { timer: Instant::now(), wall: SystemTime::now() }
    }

    /// The time since then that the timers counted.
    pub(crate) fn elapsed(&self) -> Duration {
        self.timer.elapsed()
    }

    /// Whether the machine was suspended since then.
    pub(crate) fn precedes_suspend(&self) -> bool {
        is_suspend(self.timer.elapsed(), self.wall, SystemTime::now())
    }

    /// Shifts the moment, as if a suspend of `duration` had followed it.
    #[cfg(test)]
    pub(crate) fn before_suspend(self, duration: Duration) -> Self {
        Self { wall: self.wall - duration, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspend_is_told_from_a_busy_machine_and_a_corrected_clock() {
        let (second, start) = (Duration::from_secs(1), SystemTime::UNIX_EPOCH + Duration::from_secs(3_600));
        assert!(is_suspend(2 * second, start, start + 13 * second));
        assert!(!is_suspend(2 * second, start, start + 12 * second), "the clock was corrected");
        assert!(!is_suspend(60 * second, start, start + 60 * second), "the machine was busy");
        assert!(!is_suspend(2 * second, start, start - 60 * second), "the clock was set back");
    }
}
