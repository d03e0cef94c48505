//! [`ReconnectPacer`]: how soon the next connection attempt may come.
//!
//! It keeps three limits, because three kinds of server must not be hammered: one that is down
//! (exponential waits), one that is down while a caller waits for it (a share of the outage so
//! far), and one that opens sessions and loses them (a budget of new sessions).

use std::time::{Duration, Instant};

use super::Settings;
use crate::backoff::Backoff;

/// Decides the waits between connection attempts.
#[derive(Debug)]
pub(super) struct Pace {
    backoff: Backoff,
    stable: Duration,
    demand_floor: Duration,
    /// Time of the first failure since the last stable connection.
    trouble: Option<Instant>,
    /// When the budget of new sessions is full again.
    budget: Option<Instant>,
    /// Number of new sessions in a row that never answered anything.
    unproven: u32,
}

/// Whether and when a lost session is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    Now,
    /// The budget is spent, so the replacement has to wait until then.
    At(Instant),
    /// The previous one was lost as soon as it was opened, and another would be too.
    Pointless,
}

impl Pace {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            backoff: Backoff::new(settings.backoff_floor, settings.backoff_cap, settings.seed),
            stable: settings.stable,
            demand_floor: settings.demand_floor,
            trouble: None,
            budget: None,
            unproven: 0,
        }
    }

    /// Records how long a connection lasted. Only a stable one resets the waits: flapping is not
    /// recovery.
    pub(super) fn held(&mut self, lasted: Duration) {
        if lasted >= self.stable {
            self.trouble = None;
            self.unproven = 0;
        }
    }

    /// Records a failure. Returns whether it is the first since the last stable connection.
    pub(super) fn first(&mut self, now: Instant) -> bool {
        let first = self.trouble.is_none();
        self.trouble.get_or_insert(now);
        first
    }

    /// Returns the wait before the next attempt while a caller waits, and the wait while none does.
    ///
    /// `outage` is the start of the current outage, if the first wait is to depend on it alone and
    /// not on the time since the last stable connection. `refused` means that the last attempt
    /// found a closed port, and so cost no server anything.
    pub(super) fn waits(
        &mut self,
        now: Instant,
        outage: Option<Instant>,
        refused: bool,
    ) -> (Duration, Duration) {
        let first = *self.trouble.get_or_insert(now);
        let wait = self.backoff.wait_after(now.saturating_duration_since(first));
        // A small share of the outage so far: short outages end soon after the server is back, and
        // long ones cost a server that is down next to nothing. A closed port costs nothing at all.
        let part = if refused { 100 } else { 20 };
        let demand = (now.saturating_duration_since(outage.unwrap_or(first)) / part)
            .clamp(self.demand_floor, DEMAND_CAP.max(self.demand_floor));
        (demand.min(wait), wait)
    }

    /// Decides how a lost session is replaced. `proven` says whether it ever answered anything.
    pub(super) fn renewal(&mut self, now: Instant, proven: bool) -> Renewal {
        self.unproven = if proven { 0 } else { self.unproven + 1 };
        if self.unproven >= 2 {
            return Renewal::Pointless;
        }
        let whole = self.after_one_more(now);
        self.budget = Some(whole);
        match whole.checked_sub(RENEWAL_BURST) {
            Some(at) if at > now => Renewal::At(at),
            _ => Renewal::Now,
        }
    }

    /// Takes one attempt from the budget of new sessions. Returns `false` if the budget is spent.
    pub(super) fn spend(&mut self, now: Instant) -> bool {
        let whole = self.after_one_more(now);
        let may = whole.checked_sub(RENEWAL_BURST).is_none_or(|at| at <= now);
        if may {
            self.budget = Some(whole);
        }
        may
    }

    /// When the budget would be full again after one more attempt (a leaky bucket).
    fn after_one_more(&self, now: Instant) -> Instant {
        self.budget.map_or(now, |whole| whole.max(now)) + RENEWAL_EVERY
    }
}

/// A session that is lost sooner than this, without having answered anything, counts as unproven.
pub(super) const AT_ONCE: Duration = Duration::from_secs(3);
/// Maximum wait between attempts while a caller waits.
const DEMAND_CAP: Duration = Duration::from_secs(1);
/// Time in which the budget grows by one new session.
const RENEWAL_EVERY: Duration = Duration::from_millis(500);
/// Size of the budget, as the time it takes to fill: 30 sessions.
const RENEWAL_BURST: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    fn pace() -> Pace {
        Pace::new(&Settings::default())
    }

    #[test]
    fn demand_waits_for_a_twentieth_of_the_trouble() {
        let (mut pace, t0) = (pace(), Instant::now());
        let mut demand = |after: Duration| pace.waits(t0 + after, None, false).0;
        assert_eq!(demand(Duration::ZERO), 50 * MS);
        assert_eq!(demand(S), 50 * MS);
        assert_eq!(demand(2 * S), 100 * MS);
        assert_eq!(demand(10 * S), 500 * MS);
        assert_eq!(demand(20 * S), S);
        assert_eq!(demand(3_600 * S), S);
        assert_eq!(pace.waits(t0 + 10 * S, None, true).0, 100 * MS);
        assert_eq!(pace.waits(t0 + 3_600 * S, None, true).0, S);
    }

    /// A waiting caller never waits longer than the backoff alone would take.
    #[test]
    fn demand_is_no_longer_than_the_wait_without_it() {
        let settings = Settings { demand_floor: 5 * S, ..Settings::default() };
        let (mut pace, t0) = (Pace::new(&settings), Instant::now());
        for n in 0..20 {
            let (demand, wait) = pace.waits(t0 + n * S, None, false);
            assert!(demand <= wait && demand <= 5 * S);
        }
    }

    #[test]
    fn only_a_connection_that_held_starts_the_waits_over() {
        let (mut pace, t0) = (pace(), Instant::now());
        assert!(pace.first(t0));
        assert!(!pace.first(t0 + S));
        for _ in 0..10 {
            pace.waits(t0, None, false);
        }
        pace.held(29_999 * MS);
        assert!(!pace.first(t0 + 60 * S));
        assert_eq!(pace.waits(t0 + 60 * S, None, false).0, S);
        pace.held(30 * S);
        assert_eq!(pace.waits(t0 + 60 * S, None, false), (50 * MS, 250 * MS));
    }

    /// Thirty sessions at once, then one each half second; no more than thirty are saved up.
    #[test]
    fn the_budget_of_sessions_fills_up_again() {
        let (mut pace, t0) = (pace(), Instant::now());
        for round in 0..3 {
            let now = t0 + round * 60 * S;
            for n in 0..30 {
                assert_eq!(pace.renewal(now, true), Renewal::Now, "{round}: {n}");
            }
            assert_eq!(pace.renewal(now, true), Renewal::At(now + 500 * MS));
            assert_eq!(pace.renewal(now + 500 * MS, true), Renewal::At(now + S));
            assert_eq!(pace.renewal(now + 10 * S, true), Renewal::Now);
        }
    }

    #[test]
    fn two_unproven_sessions_in_a_row_are_enough() {
        let (mut pace, t0) = (pace(), Instant::now());
        assert_eq!(pace.renewal(t0, false), Renewal::Now);
        assert_eq!(pace.renewal(t0, true), Renewal::Now);
        assert_eq!(pace.renewal(t0, false), Renewal::Now);
        assert_eq!(pace.renewal(t0, false), Renewal::Pointless);
        assert_eq!(pace.renewal(t0, false), Renewal::Pointless);
        pace.held(30 * S);
        assert_eq!(pace.renewal(t0, false), Renewal::Now);
    }
}
