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
mod tests;
