//! Detects that the machine was suspended or its network changed: then failed connections may work
//! again, and working ones may be dead.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bowline_transport::is_suspend;
use parking_lot::Mutex;

use crate::clock;

/// The clock and the network addresses at the last check.
#[derive(Debug)]
pub(crate) struct WakeDetector {
    checked_at: Instant,
    wall_clock: SystemTime,
    addresses: Arc<BTreeSet<IpAddr>>,
}

impl WakeDetector {
    pub(crate) fn new() -> Self {
        Self { checked_at: clock::now(), wall_clock: SystemTime::now(), addresses: addresses() }
    }

    /// When to check again.
    pub(crate) fn next_check(&self) -> Instant {
        self.checked_at + CHECK_INTERVAL
    }

    /// Checks what changed since the last check.
    pub(crate) fn check(&mut self, now: Instant) -> WakeChange {
        let (before, wall, addresses) = (self.wall_clock, SystemTime::now(), addresses());
        let passed = now.saturating_duration_since(self.checked_at);
        let change = match classify_gap(passed, before, wall) {
            WakeChange::None if addresses != self.addresses => WakeChange::Network,
            change => change,
        };
        *self = Self { checked_at: now, wall_clock: wall, addresses };
        change
    }
}

/// What happened to the machine between two checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeChange {
    /// Nothing.
    None,
    /// Its addresses changed, or the check came much too late: idle connections may be dead.
    Network,
    /// It was suspended: peers have given up what was in flight.
    Suspend,
}

/// Compares the wall clock with the timer clock. During a suspend the wall clock goes on, and the
/// timer clock stands still on most systems. Where it does not, only the late check shows, which a
/// busy machine or a debugger may also have caused.
fn classify_gap(passed: Duration, before: SystemTime, after: SystemTime) -> WakeChange {
    if is_suspend(passed, before, after) {
        WakeChange::Suspend
    } else if passed > CHECK_INTERVAL + MAX_CHECK_DELAY {
        WakeChange::Network
    } else {
        WakeChange::None
    }
}

/// The addresses of this machine without loopback, looked up once for all connections that check at
/// the same time.
fn addresses() -> Arc<BTreeSet<IpAddr>> {
    static LAST: Mutex<Option<(Instant, Arc<BTreeSet<IpAddr>>)>> = Mutex::new(None);
    let mut last = LAST.lock();
    match &*last {
        Some((at, addresses)) if at.elapsed() < CHECK_INTERVAL / 2 => Arc::clone(addresses),
        _ => {
            let addresses = Arc::new(look_up_addresses());
            *last = Some((Instant::now(), Arc::clone(&addresses)));
            addresses
        }
    }
}

#[cfg(feature = "network-watch")]
fn look_up_addresses() -> BTreeSet<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    interfaces.iter().filter(|interface| !interface.is_loopback()).map(if_addrs::Interface::ip).collect()
}

/// Changed addresses are not noticed in this build; keepalive finds the dead connections later.
#[cfg(not(feature = "network-watch"))]
fn look_up_addresses() -> BTreeSet<IpAddr> {
    BTreeSet::new()
}

/// How often the machine is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// How much later than that a check may be on a busy machine.
const MAX_CHECK_DELAY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_machine_that_slept_is_told_from_one_that_was_busy() {
        let t0 = SystemTime::UNIX_EPOCH;
        assert_eq!(classify_gap(5 * S, t0, t0 + 5 * S), WakeChange::None);
        assert_eq!(classify_gap(9 * S, t0, t0 + 9 * S), WakeChange::None, "busy");
        assert_eq!(
            classify_gap(5 * S, t0, t0 + 3_600 * S),
            WakeChange::Suspend,
            "the timer's clock stood still"
        );
        assert_eq!(classify_gap(3_600 * S, t0, t0 + 3_600 * S), WakeChange::Network, "nobody looked");
        assert_eq!(classify_gap(5 * S, t0, t0 - 60 * S), WakeChange::None, "set back by a person");
    }

    #[test]
    fn repeated_checks_report_no_change() {
        let mut wake = WakeDetector::new();
        assert_eq!(wake.check(Instant::now()), WakeChange::None);
    }
}
