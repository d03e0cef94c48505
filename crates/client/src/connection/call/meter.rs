//! [`CallMeter`]: counts what happens to one call.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock;
use crate::report::{CallReport, Outcome};

/// Counts what happens to one call. The call writes it and a handle of the call may read it, so the
/// counters are atomic; it lives on the stack of a call that has no handle.
#[derive(Debug)]
pub(crate) struct CallMeter {
    started: Instant,
    attempts: AtomicU32,
    recoveries: AtomicU32,
    waited_nanos: AtomicU64,
    prompt_nanos: AtomicU64,
}

/// A wait that is added to its meter when this is dropped.
pub(crate) struct WaitTimer<'a> {
    meter: &'a CallMeter,
    started: Instant,
}

impl CallMeter {
    /// The meter of a call that starts now.
    pub(crate) fn start() -> Self {
        Self {
            started: clock::now(),
            attempts: AtomicU32::new(0),
            recoveries: AtomicU32::new(0),
            waited_nanos: AtomicU64::new(0),
            prompt_nanos: AtomicU64::new(0),
        }
    }

    /// Counts a request that is handed to a link.
    pub(crate) fn count_attempt(&self) {
        // Only the call itself writes, so this needs no read-modify-write operation.
        self.attempts.store(self.attempts() + 1, Ordering::Relaxed);
    }

    /// Counts a request that goes on over another link than the one that it was sent on.
    pub(crate) fn count_recovery(&self) {
        self.recoveries.store(self.recoveries.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Measures a wait until the timer is dropped, also with the future of the call.
    pub(crate) fn start_wait(&self) -> WaitTimer<'_> {
        WaitTimer { meter: self, started: clock::now() }
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Total time of the waits that have ended.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }

    /// Adds the time in which the server had a person prompted during a sending that failed.
    pub(crate) fn add_prompt_time(&self, time: Duration) {
        if !time.is_zero() {
            self.prompt_nanos.store(to_nanos(self.prompt_time().saturating_add(time)), Ordering::Relaxed);
        }
    }

    /// Total time in which the server had a person prompted during sendings that failed. It counts
    /// towards no limit.
    pub(crate) fn prompt_time(&self) -> Duration {
        Duration::from_nanos(self.prompt_nanos.load(Ordering::Relaxed))
    }

    /// The report of the call, which ends now.
    pub(crate) fn report(&self, outcome: Outcome) -> CallReport {
        let duration = clock::elapsed(self.started);
        CallReport {
            outcome,
            attempts: self.attempts(),
            // Two requests about one task can wait at the same time.
            waited: self.waited().min(duration),
            recoveries: self.recoveries.load(Ordering::Relaxed),
            duration,
        }
    }
}

impl Drop for WaitTimer<'_> {
    fn drop(&mut self) {
        let waited = self.meter.waited().saturating_add(clock::elapsed(self.started));
        self.meter.waited_nanos.store(to_nanos(waited), Ordering::Relaxed);
    }
}

fn to_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
