//! [`Calls`]: the table of pending calls, with their ids and deadlines. Each call ends exactly
//! once.
//!
//! The table keeps a `T` for whoever waits for a call, and returns it once, when the call ends.
//! After that the id is unknown, so a late response, late progress or a second cancellation finds
//! nothing.
// CN-01, CN-03

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use crate::fault::Limit;

/// The calls that wait for a response.
#[derive(Debug)]
pub struct Calls<T> {
    next_id: u64,
    pending: HashMap<u64, Call<T>, BuildHasherDefault<IdHasher>>,
    /// What a retry has to know of calls that failed, if that is not nothing. Whoever waited for such
    /// a call takes it.
    failed: HashMap<u64, FailedCall, BuildHasherDefault<IdHasher>>,
    /// Calls that failed and may be sent again, and whether the server has sent a message about them since.
    watched: HashMap<u64, bool, BuildHasherDefault<IdHasher>>,
}

/// What a retry has to know of a call that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedCall {
    /// How long its clocks were paused because a person was asked.
    pub paused: Duration,
    /// Whether the server sent a message about it, such as progress, before it failed. The server has
    /// then begun to execute it.
    pub was_heard_of: bool,
}

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum time without a sign of life. Progress restarts it.
    pub idle: Duration,
    // CN-06
    /// Maximum time in all, whatever the progress.
    pub total: Duration,
}

#[derive(Debug)]
struct Call<T> {
    waiter: T,
    idle_limit: Duration,
    /// When the call expires unless there is a sign of life before.
    idle_deadline: Instant,
    /// When the call expires in any case.
    total_deadline: Instant,
    /// Start of the current pause, during which a person is answering.
    paused_since: Option<Instant>,
    /// Number of pauses that overlap at the moment.
    pause_count: u32,
    /// Total length of the pauses that have ended.
    total_paused: Duration,
    /// Whether the server sent a message about the call.
    was_heard_of: bool,
}

/// The result of checking the deadline of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum DeadlineCheck<T> {
    /// The call does not expire before then; check again.
    At(Instant),
    /// The call expired, and was removed from the table.
    Expired(T, Limit),
    /// The call has ended already.
    Ended,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self {
            next_id: 1,
            pending: HashMap::default(),
            failed: HashMap::default(),
            watched: HashMap::default(),
        }
    }
}

impl<T> Calls<T> {
    /// Creates a table whose ids start at `first`: in a session that an earlier process used, small
    /// ids are taken.
    // BM-02
    pub fn with_first_id(first: u64) -> Self {
        Self { next_id: first, ..Self::default() }
    }

    /// Returns an id that no request of this client had before, for requests that are not in the
    /// table.
    // BM-02
    pub fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Adds a call and returns its id.
    pub fn begin(&mut self, now: Instant, limits: Limits, waiter: T) -> u64 {
        let id = self.next_id();
        let call = Call {
            waiter,
            idle_limit: limits.idle.min(MAX_WAIT),
            idle_deadline: add_clamped(now, limits.idle),
            total_deadline: add_clamped(now, limits.total),
            paused_since: None,
            pause_count: 0,
            total_paused: Duration::ZERO,
            was_heard_of: false,
        };
        self.pending.insert(id, call);
        id
    }

    /// Removes a call that needs no retry: it was answered, or its caller left. `None` if it had
    /// ended before.
    pub fn end(&mut self, id: u64) -> Option<T> {
        if !self.failed.is_empty() {
            self.failed.remove(&id);
        }
        self.pending.remove(&id).map(|call| call.waiter)
    }

    /// Removes a call that failed and may be retried. `None` if it had ended before.
    ///
    /// What its retry has to know is kept until [`take_failed`](Self::take_failed) or another
    /// [`end`](Self::end) of the same call.
    pub fn end_failed(&mut self, now: Instant, id: u64) -> Option<T> {
        let call = self.pending.remove(&id)?;
        let open = call.paused_since.map_or(Duration::ZERO, |since| call.counted_pause(now, since));
        let failed = FailedCall { paused: call.total_paused + open, was_heard_of: call.was_heard_of };
        if failed != FailedCall::default() {
            self.failed.insert(id, failed);
        }
        Some(call.waiter)
    }

    /// Takes what the retry of a call that failed has to know.
    pub fn take_failed(&mut self, id: u64) -> FailedCall {
        self.failed.remove(&id).unwrap_or_default()
    }

    /// Watches a call that failed and may be sent again, for messages that come late: what a server sends on one
    /// stream may arrive after the failure that it sent later on another.
    pub fn watch_failed(&mut self, id: u64) {
        self.watched.insert(id, false);
    }

    /// Ends [`watch_failed`](Self::watch_failed).
    pub fn unwatch_failed(&mut self, id: u64) {
        self.watched.remove(&id);
    }

    /// Whether the server has sent a message about a watched call since it failed.
    pub fn was_heard_of_late(&self, id: u64) -> bool {
        self.watched.get(&id).copied().unwrap_or(false)
    }

    /// Records that the server sent a message about the call, which extends no deadline.
    pub fn record_message(&mut self, id: u64) {
        if let Some(call) = self.pending.get_mut(&id) {
            call.was_heard_of = true;
        } else if let Some(was_heard_of) = self.watched.get_mut(&id) {
            *was_heard_of = true;
        }
    }

    /// Records that the server sent a message that may be about any call that it knows, or about one that failed and
    /// is watched.
    pub fn record_message_about_any(&mut self, is_known: impl Fn(&T) -> bool) {
        for call in self.pending.values_mut().filter(|call| is_known(&call.waiter)) {
            call.was_heard_of = true;
        }
        self.watched.values_mut().for_each(|was_heard_of| *was_heard_of = true);
    }

    /// Records progress of a call, which extends its idle deadline. `None` if the call is unknown.
    // PR-02
    pub fn record_activity(&mut self, now: Instant, id: u64) -> Option<&mut T> {
        self.record_message(id);
        let call = self.pending.get_mut(&id)?;
        // During a pause, count from its start: the length of the pause is added when it ends.
        call.idle_deadline = add_clamped(call.paused_since.unwrap_or(now), call.idle_limit);
        Some(&mut call.waiter)
    }

    /// The waiter of a call.
    pub fn get(&self, id: u64) -> Option<&T> {
        self.pending.get(&id).map(|call| &call.waiter)
    }

    /// The waiter of a call, mutably.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.pending.get_mut(&id).map(|call| &mut call.waiter)
    }

    /// The time since the last sign of life of a call, and the time left until it expires. `None`
    /// if the call has ended, or is paused, which says nothing about the server.
    pub fn silence(&self, now: Instant, id: u64) -> Option<(Duration, Duration)> {
        let call = self.pending.get(&id).filter(|call| call.paused_since.is_none())?;
        let left = call.idle_deadline.min(call.total_deadline).saturating_duration_since(now);
        Some((call.idle_limit.saturating_sub(call.idle_deadline.saturating_duration_since(now)), left))
    }

    /// Stops the clocks of a call while a person is asked. Pauses are counted: each is ended by one
    /// [`resume`](Self::resume), and the clocks run again when none is left, or after [`MAX_PAUSE`]
    /// in all. Returns whether the call exists.
    pub fn pause(&mut self, now: Instant, id: u64) -> bool {
        let Some(call) = self.pending.get_mut(&id) else { return false };
        call.paused_since.get_or_insert(now);
        call.pause_count += 1;
        true
    }

    /// Ends one pause. When the last one ends, the clocks continue with the time that was left.
    pub fn resume(&mut self, now: Instant, id: u64) {
        let Some(call) = self.pending.get_mut(&id) else { return };
        call.pause_count = call.pause_count.saturating_sub(1);
        if call.pause_count == 0
            && let Some(since) = call.paused_since.take()
        {
            let pause = call.counted_pause(now, since);
            call.idle_deadline += pause;
            call.total_deadline += pause;
            call.total_paused += pause;
        }
    }

    /// Checks the deadline of one call, and removes the call if it has expired.
    pub fn check_deadline(&mut self, now: Instant, id: u64) -> DeadlineCheck<T> {
        let Some(call) = self.pending.get(&id) else { return DeadlineCheck::Ended };
        let (end, limit) = call.deadline(now);
        if now < end {
            return DeadlineCheck::At(end);
        }
        match self.end(id) {
            Some(waiter) => DeadlineCheck::Expired(waiter, limit),
            None => DeadlineCheck::Ended,
        }
    }

    /// The earliest deadline of all calls, for a driver with one timer.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.pending.values().map(|call| call.deadline(now).0).min()
    }

    /// The ids of all pending calls.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.pending.keys().copied()
    }

    /// Number of pending calls.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether no call is pending.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

impl<T> Call<T> {
    fn deadline(&self, now: Instant) -> (Instant, Limit) {
        let (end, limit) = if self.total_deadline < self.idle_deadline {
            (self.total_deadline, Limit::Total)
        } else {
            (self.idle_deadline, Limit::Idle)
        };
        let Some(since) = self.paused_since else { return (end, limit) };
        let left = MAX_PAUSE.saturating_sub(self.total_paused);
        if now.saturating_duration_since(since) < left {
            // A paused call does not expire; its owner checks again later.
            (add_clamped(now, PAUSED_CHECK_INTERVAL), limit)
        } else {
            (end + left, limit)
        }
    }

    /// The part of a pause since `since` that counts: pauses are limited to [`MAX_PAUSE`] in all.
    fn counted_pause(&self, now: Instant, since: Instant) -> Duration {
        now.saturating_duration_since(since).min(MAX_PAUSE.saturating_sub(self.total_paused))
    }
}

/// Hashes call ids. We assign them in order, so a peer cannot choose them to collide.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte) ^ self.0);
        }
    }

    fn write_u64(&mut self, id: u64) {
        // The map uses the top bits and the bottom ones; a multiplication alone fills only the top.
        let spread = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

const PAUSED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum total length of the pauses of one call, so that a form left open does not keep it
/// forever.
pub const MAX_PAUSE: Duration = Duration::from_secs(3_600);

/// Upper bound of all limits, a year.
const MAX_WAIT: Duration = Duration::from_secs(86_400 * 365);

/// `now + wait`, with the wait cut to [`MAX_WAIT`] so that a caller's `Duration::MAX` does not
/// overflow.
fn add_clamped(now: Instant, wait: Duration) -> Instant {
    now + wait.min(MAX_WAIT)
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
        assert_eq!(calls.check_deadline(t0 + S, id), DeadlineCheck::At(t0 + 10 * S));
        assert!(calls.record_activity(t0 + 9 * S, id).is_some());
        assert_eq!(calls.check_deadline(t0 + 10 * S, id), DeadlineCheck::At(t0 + 19 * S));
        assert!(calls.record_activity(t0 + 18 * S, id).is_some());
        assert_eq!(calls.check_deadline(t0 + 19 * S, id), DeadlineCheck::At(t0 + 25 * S));
        assert_eq!(calls.check_deadline(t0 + 25 * S, id), DeadlineCheck::Expired((), Limit::Total));
        assert_eq!(calls.check_deadline(t0 + 25 * S, id), DeadlineCheck::Ended);
        // PR-02: late progress finds nothing.
        assert!(calls.record_activity(t0 + 26 * S, id).is_none());
    }

    #[test]
    fn silence_ends_a_call_at_its_idle_limit() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        assert_eq!(calls.poll_timeout(t0), Some(t0 + 10 * S));
        assert_eq!(calls.check_deadline(t0 + 10 * S, id), DeadlineCheck::Expired((), Limit::Idle));
        assert!(calls.is_empty());
    }

    #[test]
    fn the_clock_pauses_while_a_person_answers() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        assert!(calls.pause(t0 + 5 * S, id));
        assert!(matches!(calls.check_deadline(t0 + 3_600 * S, id), DeadlineCheck::At(_)));
        calls.resume(t0 + 3_600 * S, id);
        assert_eq!(calls.check_deadline(t0 + 3_600 * S, id), DeadlineCheck::At(t0 + 3_605 * S));
        assert!(!calls.pause(t0, id + 1), "there is no such call");
    }

    /// Ended pauses and one that is open when the call fails are told once, and forgotten with a
    /// call that needs no retry.
    #[test]
    fn pauses_of_a_failed_call_are_told_to_its_retry() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let ids: Vec<_> = (0..4).map(|_| calls.begin(t0, LIMITS, ())).collect();
        for id in &ids[..3] {
            calls.pause(t0 + S, *id);
            calls.resume(t0 + 3 * S, *id);
            calls.pause(t0 + 4 * S, *id);
        }
        assert_eq!(calls.end_failed(t0 + 9 * S, ids[0]), Some(()));
        assert_eq!(calls.end_failed(t0 + 10 * S, ids[0]), None);
        assert_eq!(calls.take_failed(ids[0]), FailedCall { paused: 7 * S, was_heard_of: false });
        assert_eq!(calls.take_failed(ids[0]), FailedCall::default());
        assert_eq!(calls.end_failed(t0 + 2 * MAX_PAUSE, ids[1]), Some(()));
        assert_eq!(calls.take_failed(ids[1]).paused, MAX_PAUSE);
        // The caller left when the call had just failed.
        assert_eq!(calls.end_failed(t0 + 9 * S, ids[2]), Some(()));
        assert_eq!(calls.end(ids[2]), None);
        assert_eq!(calls.end_failed(t0 + 9 * S, ids[3]), Some(()));
        assert!(calls.failed.is_empty());
    }

    /// The retry of a failed call learns whether the server sent a message about it.
    #[test]
    fn messages_about_a_failed_call_are_told_to_its_retry() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let ids: Vec<_> = (0..4).map(|_| calls.begin(t0, LIMITS, ())).collect();
        assert!(calls.record_activity(t0, ids[0]).is_some());
        calls.record_message(ids[1]);
        calls.record_message(ids[3] + 1);
        for (id, was_heard_of) in [(ids[0], true), (ids[1], true), (ids[2], false)] {
            calls.end_failed(t0, id);
            assert_eq!(calls.take_failed(id), FailedCall { paused: Duration::ZERO, was_heard_of });
        }
        // A call that was answered needs no retry.
        calls.record_message(ids[3]);
        calls.end(ids[3]);
        assert!(calls.failed.is_empty());
    }

    /// A message that comes after the failure is told as well, until the call is sent again.
    #[test]
    fn late_messages_about_a_failed_call_are_told_to_its_retry() {
        let t0 = Instant::now();
        let messages: [fn(&mut Calls<()>, u64, Instant); 3] = [
            |calls, id, _| calls.record_message(id),
            |calls, id, now| assert!(calls.record_activity(now, id).is_none()),
            |calls, _, _| calls.record_message_about_any(|()| true),
        ];
        for message in messages {
            let mut calls = Calls::default();
            let [first, second] = [(), ()].map(|()| calls.begin(t0, LIMITS, ()));
            calls.end_failed(t0, first);
            calls.watch_failed(first);
            assert!(!calls.was_heard_of_late(first));
            message(&mut calls, first, t0);
            assert!(calls.was_heard_of_late(first));
            assert!(!calls.was_heard_of_late(second));
            calls.unwatch_failed(first);
            message(&mut calls, first, t0);
            assert!(!calls.was_heard_of_late(first));
            assert!(calls.watched.is_empty());
        }
    }

    /// With two pauses at once, the clocks run when the last one ends.
    #[test]
    fn pauses_are_counted() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        calls.pause(t0 + S, id);
        calls.pause(t0 + 2 * S, id);
        calls.resume(t0 + 50 * S, id);
        assert!(matches!(calls.check_deadline(t0 + 60 * S, id), DeadlineCheck::At(_)));
        calls.resume(t0 + 101 * S, id);
        assert_eq!(calls.check_deadline(t0 + 102 * S, id), DeadlineCheck::At(t0 + 110 * S));
        // One more than there are changes nothing.
        calls.resume(t0 + 105 * S, id);
        assert_eq!(calls.check_deadline(t0 + 110 * S, id), DeadlineCheck::Expired((), Limit::Idle));
    }

    /// Progress during a pause restarts the idle limit once.
    #[test]
    fn progress_in_a_pause_is_not_counted_twice() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        calls.pause(t0 + 5 * S, id);
        calls.record_activity(t0 + 15 * S, id);
        calls.resume(t0 + 25 * S, id);
        assert_eq!(
            calls.check_deadline(t0 + 25 * S, id),
            DeadlineCheck::At(t0 + 35 * S),
            "ten seconds from the end of the pause"
        );
    }

    /// Pauses are bounded, so both limits hold whatever a handler does.
    #[test]
    fn a_pause_has_an_end() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        calls.pause(t0, id);
        calls.record_activity(t0 + S, id);
        assert!(matches!(calls.check_deadline(t0 + MAX_PAUSE / 2, id), DeadlineCheck::At(_)));
        assert_eq!(calls.check_deadline(t0 + MAX_PAUSE + S, id), DeadlineCheck::At(t0 + MAX_PAUSE + 10 * S));
        assert_eq!(
            calls.check_deadline(t0 + MAX_PAUSE + 10 * S, id),
            DeadlineCheck::Expired((), Limit::Idle)
        );
        // Many short ones add up.
        let id = calls.begin(t0, LIMITS, ());
        for n in 0..4 {
            calls.pause(t0 + n * MAX_PAUSE / 2, id);
            calls.resume(t0 + (n + 1) * MAX_PAUSE / 2, id);
        }
        assert_eq!(calls.check_deadline(t0 + 2 * MAX_PAUSE, id), DeadlineCheck::Expired((), Limit::Idle));
    }

    /// A paused call is checked once a second, until it has been paused for as long as allowed.
    #[test]
    fn paused_call_is_looked_at_until_its_pauses_are_used_up() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        calls.pause(t0, id);
        let last = t0 + Duration::from_secs(3_599);
        assert_eq!(calls.check_deadline(last, id), DeadlineCheck::At(last + S));
        assert_eq!(calls.check_deadline(t0 + MAX_PAUSE, id), DeadlineCheck::At(t0 + MAX_PAUSE + 10 * S));
        assert_eq!(calls.poll_timeout(t0 + MAX_PAUSE), Some(t0 + MAX_PAUSE + 10 * S));
    }

    /// A pause extends both limits.
    #[test]
    fn pause_extends_the_cap() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        calls.pause(t0, id);
        calls.resume(t0 + 100 * S, id);
        calls.record_activity(t0 + 109 * S, id);
        calls.record_activity(t0 + 118 * S, id);
        assert_eq!(calls.check_deadline(t0 + 119 * S, id), DeadlineCheck::At(t0 + 125 * S));
        assert_eq!(calls.check_deadline(t0 + 125 * S, id), DeadlineCheck::Expired((), Limit::Total));
    }

    #[test]
    fn limits_that_end_together_are_an_idle_timeout() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, Limits { idle: S, total: S }, ());
        assert_eq!(calls.check_deadline(t0 + S, id), DeadlineCheck::Expired((), Limit::Idle));
    }

    #[test]
    fn silence_is_counted_from_the_last_sign_of_life() {
        let mut calls = Calls::default();
        let t0 = Instant::now();
        let id = calls.begin(t0, LIMITS, ());
        assert_eq!(calls.silence(t0 + 4 * S, id), Some((4 * S, 6 * S)));
        calls.record_activity(t0 + 9 * S, id);
        calls.record_activity(t0 + 18 * S, id);
        assert_eq!(calls.silence(t0 + 22 * S, id), Some((4 * S, 3 * S)), "the cap comes first");
        calls.pause(t0 + 22 * S, id);
        assert_eq!(calls.silence(t0 + 23 * S, id), None);
        calls.resume(t0 + 23 * S, id);
        assert_eq!(calls.silence(t0 + 23 * S, id), Some((4 * S, 3 * S)));
        calls.end(id);
        assert_eq!(calls.silence(t0 + 23 * S, id), None);
    }

    #[test]
    fn calls_are_known_until_they_end() {
        let now = Instant::now();
        let mut calls = Calls::with_first_id(7);
        assert!(calls.is_empty());
        assert_eq!(calls.poll_timeout(now), None);
        let slow = Limits { idle: 20 * S, ..LIMITS };
        assert_eq!((calls.begin(now, slow, "a"), calls.begin(now, LIMITS, "b"), calls.next_id()), (7, 8, 9));
        assert_eq!((calls.len(), calls.is_empty()), (2, false));
        assert_eq!(calls.poll_timeout(now), Some(now + 10 * S));
        assert_eq!(calls.get(7), Some(&"a"));
        *calls.get_mut(8).unwrap() = "c";
        assert_eq!(calls.record_activity(now, 8), Some(&mut "c"));
        assert_eq!(calls.get(9), None);
        assert_eq!(calls.get_mut(9), None);
        let mut ids: Vec<_> = calls.ids().collect();
        ids.sort_unstable();
        assert_eq!(ids, [7, 8]);
        assert_eq!((calls.end(7), calls.end(7)), (Some("a"), None));
        assert_eq!(calls.end(8), Some("c"));
        assert_eq!((calls.len(), calls.is_empty()), (0, true));
    }

    /// A map uses the top bits of a hash and the bottom ones, so consecutive ids must differ in
    /// both.
    #[test]
    fn ids_are_spread_over_the_whole_hash() {
        let hash = |id: u64| {
            let mut spread = IdHasher::default();
            spread.write_u64(id);
            spread.finish()
        };
        assert_eq!(hash(1), 0x9e37_79b9_e17d_05ac);
        let mut bytes = IdHasher::default();
        bytes.write(&[1, 4]);
        assert_eq!(bytes.finish(), hash(4 ^ hash(1)));
    }

    /// A limit is kept up to a year, and a longer one does not overflow.
    #[test]
    fn endless_limits_end_after_a_year() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let day = 24 * 60 * 60 * S;
        for (wanted, kept) in [(364 * day, 364 * day), (366 * day, 365 * day), (Duration::MAX, 365 * day)] {
            let id = calls.begin(now, Limits { idle: wanted, total: wanted }, ());
            assert_eq!(calls.check_deadline(now, id), DeadlineCheck::At(now + kept));
            calls.record_activity(now + S, id);
            assert_eq!(calls.check_deadline(now + S, id), DeadlineCheck::At(now + kept));
        }
    }
}
