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
pub(super) struct ReconnectPacer {
    backoff: Backoff,
    stable_after: Duration,
    demand_floor: Duration,
    /// Time of the first failure since the last stable connection.
    first_failure: Option<Instant>,
    /// When the budget of new sessions is full again.
    budget_full_at: Option<Instant>,
    /// Number of new sessions in a row that never answered anything.
    unproven_sessions: u32,
}

/// Whether and when a lost session is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionReplacement {
    Now,
    /// The budget is spent, so the replacement has to wait until then.
    At(Instant),
    /// The previous one was lost as soon as it was opened, and another would be too.
    Pointless,
}

impl ReconnectPacer {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            backoff: Backoff::new(settings.backoff_floor, settings.backoff_cap, settings.seed),
            stable_after: settings.stable_after,
            demand_floor: settings.demand_floor,
            first_failure: None,
            budget_full_at: None,
            unproven_sessions: 0,
        }
    }

    /// Records how long a connection lasted. Only a stable one resets the waits: flapping is not
    /// recovery.
    pub(super) fn record_uptime(&mut self, lasted: Duration) {
        if lasted >= self.stable_after {
            self.first_failure = None;
            self.unproven_sessions = 0;
        }
    }

    /// Records a failure. Returns whether it is the first since the last stable connection.
    pub(super) fn record_failure(&mut self, now: Instant) -> bool {
        let first = self.first_failure.is_none();
        self.first_failure.get_or_insert(now);
        first
    }

    /// Returns the wait before the next attempt while a caller waits, and the wait while none does.
    ///
    /// `outage` is the start of the current outage, if the first wait is to depend on it alone and
    /// not on the time since the last stable connection. `refused` means that the last attempt
    /// found a closed port, and so cost no server anything.
    pub(super) fn next_waits(
        &mut self,
        now: Instant,
        outage: Option<Instant>,
        refused: bool,
    ) -> (Duration, Duration) {
        let first = *self.first_failure.get_or_insert(now);
        let wait = self.backoff.wait_after(now.saturating_duration_since(first));
        // A small share of the outage so far: short outages end soon after the server is back, and
        // long ones cost a server that is down next to nothing. A closed port costs nothing at all.
        let part = if refused { 100 } else { 20 };
        let demand = (now.saturating_duration_since(outage.unwrap_or(first)) / part)
            .clamp(self.demand_floor, MAX_DEMAND_WAIT.max(self.demand_floor));
        (demand.min(wait), wait)
    }

    /// Decides how a lost session is replaced. `proven` says whether it ever answered anything.
    pub(super) fn decide_replacement(&mut self, now: Instant, proven: bool) -> SessionReplacement {
        self.unproven_sessions = if proven { 0 } else { self.unproven_sessions + 1 };
        if self.unproven_sessions >= 2 {
            return SessionReplacement::Pointless;
        }
        let whole = self.budget_after_one_more(now);
        self.budget_full_at = Some(whole);
        match whole.checked_sub(SESSION_BUDGET_BURST) {
            Some(at) if at > now => SessionReplacement::At(at),
            _ => SessionReplacement::Now,
        }
    }

    /// Takes one attempt from the budget of new sessions. Returns `false` if the budget is spent.
    pub(super) fn try_spend_budget(&mut self, now: Instant) -> bool {
        let whole = self.budget_after_one_more(now);
        let may = whole.checked_sub(SESSION_BUDGET_BURST).is_none_or(|at| at <= now);
        if may {
            self.budget_full_at = Some(whole);
        }
        may
    }

    /// When the budget would be full again after one more attempt (a leaky bucket).
    fn budget_after_one_more(&self, now: Instant) -> Instant {
        self.budget_full_at.map_or(now, |whole| whole.max(now)) + SESSION_BUDGET_INTERVAL
    }
}

/// A session that is lost sooner than this, without having answered anything, counts as unproven.
pub(super) const MIN_SESSION_LIFETIME: Duration = Duration::from_secs(3);
/// Maximum wait between attempts while a caller waits.
const MAX_DEMAND_WAIT: Duration = Duration::from_secs(1);
/// Time in which the budget grows by one new session.
const SESSION_BUDGET_INTERVAL: Duration = Duration::from_millis(500);
/// Size of the budget, as the time it takes to fill: 30 sessions.
const SESSION_BUDGET_BURST: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    fn pacer() -> ReconnectPacer {
        ReconnectPacer::new(&Settings::default())
    }

    #[test]
    fn demand_waits_for_a_twentieth_of_the_trouble() {
        let (mut pace, t0) = (pacer(), Instant::now());
        let mut demand = |after: Duration| pace.next_waits(t0 + after, None, false).0;
        assert_eq!(demand(Duration::ZERO), 50 * MS);
        assert_eq!(demand(S), 50 * MS);
        assert_eq!(demand(2 * S), 100 * MS);
        assert_eq!(demand(10 * S), 500 * MS);
        assert_eq!(demand(20 * S), S);
        assert_eq!(demand(3_600 * S), S);
        assert_eq!(pace.next_waits(t0 + 10 * S, None, true).0, 100 * MS);
        assert_eq!(pace.next_waits(t0 + 3_600 * S, None, true).0, S);
    }

    /// A waiting caller never waits longer than the backoff alone would take.
    #[test]
    fn demand_is_no_longer_than_the_wait_without_it() {
        let settings = Settings { demand_floor: 5 * S, ..Settings::default() };
        let (mut pace, t0) = (ReconnectPacer::new(&settings), Instant::now());
        for n in 0..20 {
            let (demand, wait) = pace.next_waits(t0 + n * S, None, false);
            assert!(demand <= wait && demand <= 5 * S);
        }
    }

    #[test]
    fn only_a_connection_that_held_starts_the_waits_over() {
        let (mut pace, t0) = (pacer(), Instant::now());
        assert!(pace.record_failure(t0));
        assert!(!pace.record_failure(t0 + S));
        for _ in 0..10 {
            pace.next_waits(t0, None, false);
        }
        pace.record_uptime(29_999 * MS);
        assert!(!pace.record_failure(t0 + 60 * S));
        assert_eq!(pace.next_waits(t0 + 60 * S, None, false).0, S);
        pace.record_uptime(30 * S);
        assert_eq!(pace.next_waits(t0 + 60 * S, None, false), (50 * MS, 250 * MS));
    }

    /// Thirty sessions at once, then one each half second; no more than thirty are saved up.
    #[test]
    fn the_budget_of_sessions_fills_up_again() {
        let (mut pace, t0) = (pacer(), Instant::now());
        for round in 0..3 {
            let now = t0 + round * 60 * S;
            for n in 0..30 {
                assert_eq!(pace.decide_replacement(now, true), SessionReplacement::Now, "{round}: {n}");
            }
            assert_eq!(pace.decide_replacement(now, true), SessionReplacement::At(now + 500 * MS));
            assert_eq!(pace.decide_replacement(now + 500 * MS, true), SessionReplacement::At(now + S));
            assert_eq!(pace.decide_replacement(now + 10 * S, true), SessionReplacement::Now);
        }
    }

    #[test]
    fn two_unproven_sessions_in_a_row_are_enough() {
        let (mut pace, t0) = (pacer(), Instant::now());
        assert_eq!(pace.decide_replacement(t0, false), SessionReplacement::Now);
        assert_eq!(pace.decide_replacement(t0, true), SessionReplacement::Now);
        assert_eq!(pace.decide_replacement(t0, false), SessionReplacement::Now);
        assert_eq!(pace.decide_replacement(t0, false), SessionReplacement::Pointless);
        assert_eq!(pace.decide_replacement(t0, false), SessionReplacement::Pointless);
        pace.record_uptime(30 * S);
        assert_eq!(pace.decide_replacement(t0, false), SessionReplacement::Now);
    }
}
