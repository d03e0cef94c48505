//! Detects that the machine was suspended or its network changed: then failed connections may work
//! again, and working ones may be dead.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use super::link::lock;

/// The clock and the network addresses at the last check.
#[derive(Debug)]
pub(super) struct Wake {
    looked: Instant,
    wall: SystemTime,
    addresses: Arc<BTreeSet<IpAddr>>,
}

impl Wake {
    pub(super) fn new() -> Self {
        Self { looked: Instant::now(), wall: SystemTime::now(), addresses: addresses() }
    }

    /// When to check again.
    pub(super) fn due(&self) -> Instant {
        self.looked + EVERY
    }

    /// Checks what changed since the last check.
    pub(super) fn look(&mut self, now: Instant) -> WakeChange {
        let (before, wall, addresses) = (self.wall, SystemTime::now(), addresses());
        let passed = now.saturating_duration_since(self.looked);
        let change = match time_lost(passed, before, wall) {
            WakeChange::None if addresses != self.addresses => WakeChange::Network,
            change => change,
        };
        *self = Self { looked: now, wall, addresses };
        change
    }
}

/// What happened to the machine between two checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeChange {
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
fn time_lost(passed: Duration, before: SystemTime, after: SystemTime) -> WakeChange {
    let wall = after.duration_since(before).unwrap_or_default();
    if wall > passed + JUMP {
        WakeChange::Suspend
    } else if passed > EVERY + JUMP {
        WakeChange::Network
    } else {
        WakeChange::None
    }
}

/// The addresses of this machine without loopback, looked up once for all connections that check at
/// the same time.
fn addresses() -> Arc<BTreeSet<IpAddr>> {
    static LAST: Mutex<Option<(Instant, Arc<BTreeSet<IpAddr>>)>> = Mutex::new(None);
    let mut last = lock(&LAST);
    match &*last {
        Some((at, addresses)) if at.elapsed() < EVERY / 2 => Arc::clone(addresses),
        _ => {
            let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
            let outward = interfaces.iter().filter(|interface| !interface.is_loopback());
            let addresses = Arc::new(outward.map(if_addrs::Interface::ip).collect());
            *last = Some((Instant::now(), Arc::clone(&addresses)));
            addresses
        }
    }
}

/// How often the machine is checked.
const EVERY: Duration = Duration::from_secs(5);
/// Minimum gap between the clocks that counts as a suspend; a busy machine or a corrected clock
/// stays below it.
const JUMP: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_machine_that_slept_is_told_from_one_that_was_busy() {
        let t0 = SystemTime::UNIX_EPOCH;
        assert_eq!(time_lost(5 * S, t0, t0 + 5 * S), WakeChange::None);
        assert_eq!(time_lost(9 * S, t0, t0 + 9 * S), WakeChange::None, "busy");
        assert_eq!(
            time_lost(5 * S, t0, t0 + 3_600 * S),
            WakeChange::Suspend,
            "the timer's clock stood still"
        );
        assert_eq!(time_lost(3_600 * S, t0, t0 + 3_600 * S), WakeChange::Network, "nobody looked");
        assert_eq!(time_lost(5 * S, t0, t0 - 60 * S), WakeChange::None, "set back by a person");
    }

    #[test]
    fn nothing_changes_by_looking() {
        let mut wake = Wake::new();
        assert_eq!(wake.look(Instant::now()), WakeChange::None);
    }
}
