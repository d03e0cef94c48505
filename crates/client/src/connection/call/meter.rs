//! [`CallMeter`]: counts what happens to one call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bowline_proto::client::calls::FailedCall;

use crate::clock;
use crate::report::{CallReport, Outcome};

/// Counts what happens to one call. The call writes it and a handle of the call may read it, so the
/// counters are atomic; it lives on the stack of a call that has no handle.
#[derive(Debug)]
pub(crate) struct CallMeter {
    started: Instant,
    attempts: AtomicU32,
    recoveries: AtomicU32,
    /// Whether the next attempt is made over another link than the last one.
    has_new_link: AtomicBool,
    waited_nanos: AtomicU64,
    prompt_nanos: AtomicU64,
    /// Whether the server sent a message about the request before its last sending failed.
    was_heard_of: AtomicBool,
    /// Id of the last sending that failed.
    failed_id: AtomicU64,
    /// The tool that a layer chose in place of the caller's.
    replaced_tool: OnceLock<Box<str>>,
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
            has_new_link: AtomicBool::new(false),
            waited_nanos: AtomicU64::new(0),
            prompt_nanos: AtomicU64::new(0),
            was_heard_of: AtomicBool::new(false),
            failed_id: AtomicU64::new(0),
            replaced_tool: OnceLock::new(),
        }
    }

    /// Counts a request that is handed to a link. If it goes on over another link than the one that it
    /// was handed to before, that is a recovery.
    pub(crate) fn count_attempt(&self) {
        // Only the call itself writes, so this needs no read-modify-write operation.
        let before = self.attempts();
        self.attempts.store(before + 1, Ordering::Relaxed);
        if self.has_new_link.load(Ordering::Relaxed) {
            self.has_new_link.store(false, Ordering::Relaxed);
            let recoveries = self.recoveries.load(Ordering::Relaxed) + u32::from(before > 0);
            self.recoveries.store(recoveries, Ordering::Relaxed);
        }
    }

    /// Records that the link was replaced. A link that the request does not go on over recovers others,
    /// and not this request.
    pub(crate) fn record_new_link(&self) {
        self.has_new_link.store(true, Ordering::Relaxed);
    }

    /// Records the tool that a layer chose.
    pub(crate) fn record_replaced_tool(&self, name: &str) {
        let _ = self.replaced_tool.set(name.into());
    }

    /// The tool that a layer chose in place of the caller's.
    pub(crate) fn replaced_tool(&self) -> Option<&str> {
        self.replaced_tool.get().map(|name| &**name)
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

    /// Records what is known of a sending that failed.
    pub(crate) fn record_failed(&self, id: u64, failed: FailedCall) {
        self.failed_id.store(id, Ordering::Relaxed);
        let FailedCall { paused, was_heard_of } = failed;
        if !paused.is_zero() {
            self.prompt_nanos.store(to_nanos(self.prompt_time().saturating_add(paused)), Ordering::Relaxed);
        }
        self.was_heard_of.store(was_heard_of, Ordering::Relaxed);
    }

    /// The id of the last sending that failed.
    pub(crate) fn failed_id(&self) -> u64 {
        self.failed_id.load(Ordering::Relaxed)
    }

    /// Takes whether the server sent a message about the request before its last sending failed.
    pub(crate) fn take_was_heard_of(&self) -> bool {
        self.was_heard_of.swap(false, Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Links that nothing was sent on, before and between attempts, are no recoveries.
    #[test]
    fn recovery_is_an_attempt_over_another_link() {
        let meter = CallMeter::start();
        let counted = || {
            let report = meter.report(Outcome::Done);
            (report.attempts, report.recoveries)
        };
        meter.record_new_link();
        meter.count_attempt();
        assert_eq!(counted(), (1, 0), "nothing was sent before");
        meter.record_new_link();
        meter.record_new_link();
        assert_eq!(counted(), (1, 0), "nothing is sent over them yet");
        meter.count_attempt();
        meter.count_attempt();
        assert_eq!(counted(), (3, 1));
    }
}
