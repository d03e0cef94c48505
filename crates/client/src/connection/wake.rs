//! Whether the machine slept, or its network changed: then what failed before may work now, and what
//! worked before may be gone.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use super::link::lock;

/// What the machine was like at the last look.
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

    /// When to look again.
    pub(super) fn due(&self) -> Instant {
        self.looked + EVERY
    }

    /// What changed since the last look.
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

/// What happened to the machine between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeChange {
    /// Nothing.
    None,
    /// Its addresses changed, or nobody looked for a long time: what is kept may be dead.
    Network,
    /// It was suspended: peers have given up what was in flight.
    Suspend,
}

/// The wall clock goes on while the machine is suspended, and the clock that timers use stands still on most systems.
/// Where it does not, the look came far too late, which may also be the fault of a busy machine or of a debugger.
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

/// The addresses of this machine, loopback aside. Looked up once for all servers that look at the same time.
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

/// Often enough to be quick, seldom enough to cost nothing.
const EVERY: Duration = Duration::from_secs(5);
/// What a busy machine or a corrected clock does not reach.
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
