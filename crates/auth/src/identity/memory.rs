//! Owns the limits on repetition: backoff after failures, and how often a refusal causes a refresh,
//! a run of the headers command or a login.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Refusal;
use crate::error::{AuthError, AuthErrorKind};
use crate::refresh::due;

/// Consecutive failures, and the backoff until the next attempt.
pub(super) struct Failures {
    last: Mutex<Option<Failed>>,
    /// Upper bound of the backoff.
    most: Duration,
}

struct Failed {
    count: u32,
    until: Instant,
    error: AuthError,
}

/// Recent refusals and what was done about them.
#[derive(Default)]
pub(super) struct Answers {
    renewed: Mutex<HashMap<u64, Renewed>>,
    /// Refusals after which the headers command printed nothing new, by hash, with generation and
    /// time.
    in_vain: Mutex<HashMap<u64, (u64, Instant)>>,
    rounds: Mutex<HashMap<String, Vec<Instant>>>,
    /// The last generation that the server accepted.
    let_in: AtomicU64,
}

/// A refresh that followed a refusal.
struct Renewed {
    /// The generation of the refreshed token.
    generation: u64,
    at: Instant,
    /// How many refreshes followed this refusal in a row.
    count: u32,
}

/// Upper bound of the backoff after a store failure. The store is usually local, and a user who has
/// just freed disk space is waiting.
const MAX_STORE_BACKOFF: Duration = Duration::from_secs(2);
/// How many refreshes in a row the same refusal may cause, even while other operations succeed.
const RENEWALS: u32 = 3;
/// How long the headers command is not run again for the same refusal: long enough for the retries
/// of one call, short enough for a token that expires meanwhile.
const IN_VAIN: Duration = Duration::from_secs(5);
/// How long a token that the server has not accepted counts as new. A refusal within that time is
/// not due to its age.
pub(super) const JUST_NOW: Duration = Duration::from_secs(60);
/// How many logins one operation may cause within [`LOGIN_COUNT_WINDOW`].
// SC-04
pub(super) const ROUNDS: usize = 3;
const ROUNDS_LAST: Duration = Duration::from_secs(10 * 60);
/// How many refusals and operations are remembered. Servers choose the names of operations, so the
/// number must be bounded.
const MOST: usize = 512;

impl Failures {
    /// No failures yet, and a backoff of at most `most`.
    pub(super) fn up_to(most: Duration) -> Self {
        Self { last: Mutex::default(), most }
    }

    /// The last error, while its backoff lasts. No attempt is made before it ends.
    pub(super) fn standing(&self) -> Option<AuthError> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|failed| Instant::now() < failed.until).map(|failed| failed.error.clone())
    }

    /// The last error, if nothing has succeeded since.
    pub(super) fn last(&self) -> Option<AuthError> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|failed| failed.error.clone())
    }

    pub(super) fn add(&self, error: &AuthError) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let count = last.as_ref().map_or(0, |failed| failed.count).saturating_add(1);
        let most =
            if error.kind == AuthErrorKind::Store { MAX_STORE_BACKOFF.min(self.most) } else { self.most };
        let until = Instant::now() + due::backoff(count, fastrand::f64()).min(most);
        *last = Some(Failed { count, until, error: error.clone() });
    }

    pub(super) fn clear(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The time until the next attempt.
    pub(super) fn wait(&self) -> Duration {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map_or(Duration::ZERO, |failed| failed.until.saturating_duration_since(Instant::now()))
    }
}

impl Default for Failures {
    fn default() -> Self {
        Self::up_to(Duration::MAX)
    }
}

impl Answers {
    /// Whether this refusal just caused a refresh and the request used the new token: another
    /// refresh would not help.
    pub(super) fn is_repeated(&self, refusal: &Refusal) -> bool {
        let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed
            .get(&name(refusal))
            .is_some_and(|renewed| renewed.is_for(refusal) && !self.was_let_in(refusal))
    }

    /// Whether this refusal has caused [`MAX_REFRESHES_PER_REFUSAL`] refreshes: then the token is
    /// not the reason.
    pub(super) fn is_pointless(&self, refusal: &Refusal) -> bool {
        let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed
            .get(&name(refusal))
            .is_some_and(|renewed| renewed.is_for(refusal) && renewed.count >= RENEWALS)
    }

    /// Whether the headers command just ran for this refusal and printed the same headers.
    pub(super) fn was_in_vain(&self, refusal: &Refusal) -> bool {
        let in_vain = self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        in_vain
            .get(&name(refusal))
            .is_some_and(|(generation, at)| *generation == refusal.generation && at.elapsed() < IN_VAIN)
    }

    /// Records that the headers command printed nothing new for this refusal.
    pub(super) fn add_in_vain(&self, refusal: &Refusal) {
        let mut in_vain = self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        if in_vain.len() >= MOST {
            in_vain.retain(|_, (_, at)| at.elapsed() < IN_VAIN);
        }
        if in_vain.len() < MOST {
            in_vain.insert(name(refusal), (refusal.generation, Instant::now()));
        }
    }

    /// Records that the server accepted a generation. A late response to an older request can be
    /// mistaken for this; the cost is one extra refresh.
    pub(super) fn let_in(&self, generation: u64) {
        self.let_in.fetch_max(generation, Ordering::Relaxed);
    }

    /// Whether the server accepted the token before it refused it. Refusals without a challenge do
    /// not count, because `add_accepted` cannot tell them from success.
    pub(super) fn was_let_in(&self, refusal: &Refusal) -> bool {
        !refusal.challenge.is_empty() && self.let_in.load(Ordering::Relaxed) >= refusal.generation
    }

    /// Records that a refusal caused a refresh, which led to this generation.
    pub(super) fn add_renewed(&self, refusal: &Refusal, generation: u64) {
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        if renewed.len() >= MOST {
            renewed.retain(|_, renewed| renewed.at.elapsed() < JUST_NOW);
        }
        let name = name(refusal);
        let before = renewed.get(&name).filter(|before| before.at.elapsed() < ROUNDS_LAST);
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        if renewed.len() < MOST {
            renewed.insert(name, Renewed { generation, at: Instant::now(), count });
        }
    }

    /// Counts one more login for an operation, unless the limit is reached. Returns whether it may
    /// start.
    pub(super) fn take_round(&self, operation: &str) -> bool {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |at: &Instant| at.elapsed() < ROUNDS_LAST;
        if rounds.len() >= MOST {
            rounds.retain(|_, taken| taken.iter().any(recent));
        }
        if rounds.len() >= MOST && !rounds.contains_key(operation) {
            return false;
        }
        let taken = rounds.entry(operation.to_owned()).or_default();
        taken.retain(recent);
        let free = taken.len() < ROUNDS;
        if free {
            taken.push(Instant::now());
        }
        free
    }
}

impl Renewed {
    /// Whether the refreshed token was refused too, and soon.
    fn is_for(&self, refusal: &Refusal) -> bool {
        self.generation == refusal.generation && self.at.elapsed() < JUST_NOW
    }
}

fn name(refusal: &Refusal) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&refusal.operation, refusal.status, &refusal.challenge).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::AuthErrorKind;

    /// A user who frees disk space must not wait a minute until that is noticed.
    #[test]
    fn failures_of_the_store_are_tried_again_soon_however_many_there_were() {
        for (kind, is_soon) in [(AuthErrorKind::Store, true), (AuthErrorKind::Unavailable, false)] {
            let failures = Failures::default();
            for _ in 0..10 {
                failures.add(&AuthError::new(kind, "x"));
            }
            assert_eq!(failures.wait() <= MAX_STORE_BACKOFF, is_soon, "{kind:?}");
        }
    }

    fn refusal(operation: &str, generation: u64) -> Refusal {
        Refusal {
            status: 401,
            challenge: vec!["Bearer".to_owned()],
            generation,
            operation: operation.to_owned(),
            quiet: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_stand_for_longer_and_longer_and_are_over_with_a_success() {
        let failures = Failures::default();
        assert!(failures.standing().is_none());
        let error = AuthError::new(AuthErrorKind::Unavailable, "away");
        for most in [1, 2, 4, 8, 16, 32, 60, 60] {
            failures.add(&error);
            assert!(failures.standing().is_some());
            assert!(failures.wait() <= Duration::from_secs(most), "{:?}", failures.wait());
            tokio::time::advance(Duration::from_secs(most)).await;
            assert!(failures.standing().is_none());
        }
        failures.clear();
        failures.add(&error);
        assert!(failures.wait() <= Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_repeated_for_the_same_operation_with_the_new_token_and_soon() {
        let answers = Answers::default();
        answers.add_renewed(&refusal("tools/call a", 1), 2);
        assert!(answers.is_repeated(&refusal("tools/call a", 2)));
        assert!(!answers.is_repeated(&refusal("tools/call b", 2)));
        assert!(!answers.is_repeated(&refusal("tools/call a", 3)));
        tokio::time::advance(JUST_NOW).await;
        assert!(!answers.is_repeated(&refusal("tools/call a", 2)));
    }

    #[tokio::test]
    async fn a_token_that_was_taken_once_is_renewed_when_it_is_refused() {
        let answers = Answers::default();
        answers.add_renewed(&refusal("tools/call a", 1), 2);
        answers.let_in(1);
        assert!(answers.is_repeated(&refusal("tools/call a", 2)));
        answers.let_in(2);
        assert!(!answers.is_repeated(&refusal("tools/call a", 2)));
        let bare = Refusal { challenge: Vec::new(), ..refusal("tools/call a", 1) };
        answers.add_renewed(&bare, 2);
        assert!(answers.is_repeated(&Refusal { generation: 2, ..bare }));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_whatever_the_token_is_not_renewed_for_without_end() {
        let answers = Answers::default();
        let mut renewals = 0;
        // Two hours of a stream that is always refused, while everything else is accepted.
        for _ in 0..7200 {
            let refusal = refusal("GET", renewals);
            if !answers.is_repeated(&refusal) && !answers.is_pointless(&refusal) {
                renewals += 1;
                answers.add_renewed(&refusal, renewals);
            }
            answers.let_in(renewals);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let per_minute = 7200 / JUST_NOW.as_secs();
        assert!((per_minute - 5..=per_minute + 5).contains(&renewals), "{renewals}");
        assert!(
            !answers.is_pointless(&refusal("tools/list", renewals)),
            "another operation is another matter"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_in_vain_counts_for_its_operation_and_for_a_moment() {
        let answers = Answers::default();
        answers.add_in_vain(&refusal("tools/call a", 1));
        assert!(answers.was_in_vain(&refusal("tools/call a", 1)));
        assert!(!answers.was_in_vain(&refusal("tools/call b", 1)));
        assert!(!answers.was_in_vain(&refusal("tools/call a", 2)));
        tokio::time::advance(IN_VAIN).await;
        assert!(!answers.was_in_vain(&refusal("tools/call a", 1)));
    }

    // SC-04
    #[tokio::test(start_paused = true)]
    async fn an_operation_causes_three_logins_in_ten_minutes() {
        let answers = Answers::default();
        for _ in 0..ROUNDS {
            assert!(answers.take_round("tools/call a"));
        }
        assert!(!answers.take_round("tools/call a"));
        assert!(answers.take_round("tools/call b"), "another operation is another matter");
        tokio::time::advance(ROUNDS_LAST).await;
        assert!(answers.take_round("tools/call a"));
    }

    #[tokio::test]
    async fn names_that_servers_choose_do_not_fill_the_memory() {
        let answers = Answers::default();
        for n in 0..10 * MOST {
            answers.take_round(&n.to_string());
            answers.add_renewed(&refusal(&n.to_string(), 1), 2);
            answers.add_in_vain(&refusal(&n.to_string(), 1));
        }
        assert!(answers.rounds.lock().unwrap().len() <= MOST);
        assert!(answers.renewed.lock().unwrap().len() <= MOST);
        assert!(answers.in_vain.lock().unwrap().len() <= MOST);
    }
}
