//! Calls in flight: their ids, their deadlines, and how each comes to exactly one end.
//!
//! The table does not know what waits for a call; it keeps a `T` for its owner and gives it back once,
//! with the end. After that the id is unknown, so a late answer, a late progress or a second
//! cancellation finds nothing (CN-01, CN-03).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use crate::fault::Limit;

/// Calls that wait for an answer.
#[derive(Debug)]
pub struct Calls<T> {
    next: u64,
    open: HashMap<u64, Call<T>, BuildHasherDefault<Spread>>,
}

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Without a sign of life. Progress starts it anew.
    pub idle: Duration,
    /// In all, whatever progress says (CN-06).
    pub total: Duration,
}

#[derive(Debug)]
struct Call<T> {
    waiter: T,
    idle: Duration,
    /// When to give up if nothing is heard.
    idle_end: Instant,
    /// When to give up whatever is heard.
    total_end: Instant,
    /// Since when the clock stands still: a person is answering.
    paused: Option<Instant>,
}

/// What a look at the clock says of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Due<T> {
    /// Not before then; look again.
    At(Instant),
    /// Its time is up. It is out of the table.
    Expired(T, Limit),
    /// It has ended already.
    Gone,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self { next: 1, open: HashMap::default() }
    }
}

impl<T> Calls<T> {
    /// Counts from `first` on: in a session that somebody else has spoken in, the small numbers are taken (BM-02).
    pub fn counting_from(first: u64) -> Self {
        Self { next: first, ..Self::default() }
    }

    /// A number that no request of this client had before (BM-02). For requests that are not kept here.
    pub fn fresh_id(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        id
    }

    /// Opens a call.
    pub fn begin(&mut self, now: Instant, limits: Limits, waiter: T) -> u64 {
        let id = self.fresh_id();
        let call = Call {
            waiter,
            idle: limits.idle.min(FOREVER),
            idle_end: far(now, limits.idle),
            total_end: far(now, limits.total),
            paused: None,
        };
        self.open.insert(id, call);
        id
    }

    /// The call's answer is here, or it failed, or its caller left. `None`: it had ended before.
    pub fn end(&mut self, id: u64) -> Option<T> {
        self.open.remove(&id).map(|call| call.waiter)
    }

    /// A sign of life: progress, or any message that belongs to the call. `None`: unknown or ended (PR-02).
    pub fn heard(&mut self, now: Instant, id: u64) -> Option<&mut T> {
        let call = self.open.get_mut(&id)?;
        call.idle_end = far(now, call.idle);
        Some(&mut call.waiter)
    }

    /// What waits for the call.
    pub fn get(&self, id: u64) -> Option<&T> {
        self.open.get(&id).map(|call| &call.waiter)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.open.get_mut(&id).map(|call| &mut call.waiter)
    }

    /// How long nothing was heard of a call, and how much longer that might have gone on. `None`: it has
    /// ended, or a person is being asked, which says nothing of the server.
    pub fn silence(&self, now: Instant, id: u64) -> Option<(Duration, Duration)> {
        let call = self.open.get(&id).filter(|call| call.paused.is_none())?;
        let left = call.idle_end.min(call.total_end).saturating_duration_since(now);
        Some((call.idle.saturating_sub(call.idle_end.saturating_duration_since(now)), left))
    }

    /// Stops the clocks of a call while a person is asked.
    pub fn pause(&mut self, now: Instant, id: u64) {
        if let Some(call) = self.open.get_mut(&id) {
            call.paused.get_or_insert(now);
        }
    }

    /// Lets the clocks run on, with the time they had left.
    pub fn resume(&mut self, now: Instant, id: u64) {
        if let Some(call) = self.open.get_mut(&id)
            && let Some(since) = call.paused.take()
        {
            let slept = now.saturating_duration_since(since);
            call.idle_end += slept;
            call.total_end += slept;
        }
    }

    /// Looks at the clock for one call.
    pub fn due(&mut self, now: Instant, id: u64) -> Due<T> {
        let Some(call) = self.open.get(&id) else { return Due::Gone };
        let (end, limit) = call.end(now);
        if now < end {
            return Due::At(end);
        }
        match self.end(id) {
            Some(waiter) => Due::Expired(waiter, limit),
            None => Due::Gone,
        }
    }

    /// When the first call is due, for a driver with one timer.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.open.values().map(|call| call.end(now).0).min()
    }

    /// Ends all calls: the connection is gone.
    pub fn end_all(&mut self) -> impl Iterator<Item = (u64, T)> {
        self.open.drain().map(|(id, call)| (id, call.waiter))
    }

    /// The ids of all open calls.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.open.keys().copied()
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl<T> Call<T> {
    fn end(&self, now: Instant) -> (Instant, Limit) {
        let (end, limit) = if self.total_end < self.idle_end {
            (self.total_end, Limit::Total)
        } else {
            (self.idle_end, Limit::Idle)
        };
        // A paused clock never strikes; its owner looks again a while later.
        if self.paused.is_some() { (far(now, PAUSED_LOOK), limit) } else { (end, limit) }
    }
}

/// Hashes ids. They are counted up by us, so nobody can choose them to collide.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte) ^ self.0);
        }
    }

    fn write_u64(&mut self, id: u64) {
        // The map looks at the top bits and at the bottom ones; a multiplication alone fills the top.
        let spread = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

const PAUSED_LOOK: Duration = Duration::from_secs(1);

/// Nobody waits longer.
const FOREVER: Duration = Duration::from_secs(86_400 * 365);

/// `now + wait`, where a wait of centuries (a caller's `Duration::MAX`) must not overflow.
fn far(now: Instant, wait: Duration) -> Instant {
    now + wait.min(FOREVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const LIMITS: Limits = Limits { idle: Duration::from_secs(10), total: Duration::from_secs(25) };

    #[test]
    fn bm_02_ids_are_never_used_twice() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let ids: Vec<_> = (0..200).map(|n| calls.begin(now, LIMITS, n)).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(calls.end(ids[0]), Some(0));
        assert!(calls.begin(now, LIMITS, 0) > ids[199]);
    }

    /// CN-06: progress extends the call, but not past the cap.
    #[test]
    fn cn_06_progress_extends_up_to_the_cap() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        assert_eq!(calls.due(t0 + S, id), Due::At(t0 + 10 * S));
        assert!(calls.heard(t0 + 9 * S, id).is_some());
        assert_eq!(calls.due(t0 + 10 * S, id), Due::At(t0 + 19 * S));
        assert!(calls.heard(t0 + 18 * S, id).is_some());
        assert_eq!(calls.due(t0 + 19 * S, id), Due::At(t0 + 25 * S));
        assert_eq!(calls.due(t0 + 25 * S, id), Due::Expired((), Limit::Total));
        assert_eq!(calls.due(t0 + 25 * S, id), Due::Gone);
        // PR-02: late progress finds nothing.
        assert!(calls.heard(t0 + 26 * S, id).is_none());
    }

    #[test]
    fn silence_ends_a_call_at_its_idle_limit() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        assert_eq!(calls.poll_timeout(t0), Some(t0 + 10 * S));
        assert_eq!(calls.due(t0 + 10 * S, id), Due::Expired((), Limit::Idle));
        assert!(calls.is_empty());
    }

    #[test]
    fn the_clock_pauses_while_a_person_answers() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        calls.pause(t0 + 5 * S, id);
        assert!(matches!(calls.due(t0 + 3_600 * S, id), Due::At(_)));
        calls.resume(t0 + 3_600 * S, id);
        assert_eq!(calls.due(t0 + 3_600 * S, id), Due::At(t0 + 3_605 * S));
    }

    #[test]
    fn endless_limits_do_not_overflow() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let limits = Limits { idle: Duration::MAX, total: Duration::MAX };
        let id = calls.begin(now, limits, ());
        assert!(matches!(calls.due(now, id), Due::At(_)));
    }
}
