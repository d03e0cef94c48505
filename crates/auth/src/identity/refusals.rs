//! Owns what is known about refused requests, and how often a refusal causes a refresh, a run of the
//! headers command or a login.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::challenge::Challenge;

/// A request that the server refused with 401 or 403.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RefusedRequest {
    /// The HTTP status, 401 or 403.
    pub status: u16,
    /// Every `WWW-Authenticate` header of the response.
    pub challenges: Vec<String>,
    /// [`Identity::generation`](crate::Identity::generation) as read before the request was sent.
    pub generation: u64,
    /// The operation that was refused, such as `tools/call search`. Limits are counted per
    /// operation.
    pub operation: String,
    /// Whether the request is background work that no caller waits for. No person is prompted for
    /// it.
    pub background: bool,
}

impl RefusedRequest {
    /// Creates a refused request that a caller waits for.
    pub fn new(status: u16, challenges: Vec<String>, generation: u64, operation: impl Into<String>) -> Self {
        Self { status, challenges, generation, operation: operation.into(), background: false }
    }

    /// Marks the request as background work that no caller waits for.
    #[must_use]
    pub fn in_background(mut self) -> Self {
        self.background = true;
        self
    }
}

/// Recent refusals and what was done about them.
#[derive(Default)]
pub(super) struct RefusalHistory {
    refreshes: Mutex<HashMap<u64, RefusalRefresh>>,
    /// Refusals after which the headers command printed nothing new, by hash, with generation and
    /// time.
    futile_commands: Mutex<HashMap<u64, (u64, Instant)>>,
    logins: Mutex<HashMap<String, Vec<Instant>>>,
    /// The last generation that the server accepted.
    accepted_generation: AtomicU64,
    /// The challenge that the server sent last.
    last_challenge: Mutex<Option<Challenge>>,
}

/// A refresh that followed a refusal.
struct RefusalRefresh {
    /// The generation of the refreshed token.
    generation: u64,
    at: Instant,
    /// How many refreshes followed this refusal in a row.
    count: u32,
}

/// How many refreshes in a row the same refusal may cause, even while other operations succeed.
const MAX_REFRESHES_PER_REFUSAL: u32 = 3;
/// How long the headers command is not run again for the same refusal: long enough for the retries
/// of one call, short enough for a token that expires meanwhile.
const COMMAND_RERUN_INTERVAL: Duration = Duration::from_secs(5);
/// How long a token that the server has not accepted counts as new. A refusal within that time is
/// not due to its age.
pub(super) const NEW_TOKEN_WINDOW: Duration = Duration::from_secs(60);
/// How many logins one operation may cause within [`LOGIN_COUNT_WINDOW`].
// SC-04
pub(super) const MAX_LOGINS_PER_OPERATION: usize = 3;
const LOGIN_COUNT_WINDOW: Duration = Duration::from_secs(10 * 60);
/// How many refusals and operations are remembered. Servers choose the names of operations, so the
/// number must be bounded.
const MAX_REMEMBERED: usize = 512;

impl RefusalHistory {
    /// Whether this refusal just caused a refresh and the request used the new token: another
    /// refresh would not help.
    pub(super) fn was_just_refreshed(&self, refusal: &RefusedRequest) -> bool {
        let refreshes = self.refreshes.lock();
        refreshes
            .get(&refusal_hash(refusal))
            .is_some_and(|refresh| refresh.covers(refusal) && !self.was_accepted(refusal))
    }

    /// Whether this refusal has caused [`MAX_REFRESHES_PER_REFUSAL`] refreshes: then the token is
    /// not the reason.
    pub(super) fn is_refresh_futile(&self, refusal: &RefusedRequest) -> bool {
        let refreshes = self.refreshes.lock();
        refreshes
            .get(&refusal_hash(refusal))
            .is_some_and(|refresh| refresh.covers(refusal) && refresh.count >= MAX_REFRESHES_PER_REFUSAL)
    }

    /// Whether the headers command just ran for this refusal and printed the same headers.
    pub(super) fn was_command_futile(&self, refusal: &RefusedRequest) -> bool {
        let in_vain = self.futile_commands.lock();
        in_vain.get(&refusal_hash(refusal)).is_some_and(|(generation, at)| {
            *generation == refusal.generation && at.elapsed() < COMMAND_RERUN_INTERVAL
        })
    }

    /// Records that the headers command printed nothing new for this refusal.
    pub(super) fn add_futile_command(&self, refusal: &RefusedRequest) {
        let mut in_vain = self.futile_commands.lock();
        if in_vain.len() >= MAX_REMEMBERED {
            in_vain.retain(|_, (_, at)| at.elapsed() < COMMAND_RERUN_INTERVAL);
        }
        if in_vain.len() < MAX_REMEMBERED {
            in_vain.insert(refusal_hash(refusal), (refusal.generation, Instant::now()));
        }
    }

    /// Records that the server accepted a generation. A late response to an older request can be
    /// mistaken for this; the cost is one extra refresh.
    pub(super) fn add_accepted(&self, generation: u64) {
        self.accepted_generation.fetch_max(generation, Ordering::Relaxed);
    }

    /// Whether the server accepted the token before it refused it. Refusals without a challenge do
    /// not count, because `add_accepted` cannot tell them from success.
    pub(super) fn was_accepted(&self, refusal: &RefusedRequest) -> bool {
        !refusal.challenges.is_empty()
            && self.accepted_generation.load(Ordering::Relaxed) >= refusal.generation
    }

    /// Records that a refusal caused a refresh, which led to this generation.
    pub(super) fn add_refresh(&self, refusal: &RefusedRequest, generation: u64) {
        let mut refreshes = self.refreshes.lock();
        if refreshes.len() >= MAX_REMEMBERED {
            refreshes.retain(|_, refresh| refresh.at.elapsed() < NEW_TOKEN_WINDOW);
        }
        let name = refusal_hash(refusal);
        let before = refreshes.get(&name).filter(|before| before.at.elapsed() < LOGIN_COUNT_WINDOW);
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        if refreshes.len() < MAX_REMEMBERED {
            refreshes.insert(name, RefusalRefresh { generation, at: Instant::now(), count });
        }
    }

    /// Records the challenge that the server sent last.
    pub(super) fn set_last_challenge(&self, challenge: &Challenge) {
        *self.last_challenge.lock() = Some(challenge.clone());
    }

    /// The challenge that the server sent last.
    pub(super) fn last_challenge(&self) -> Option<Challenge> {
        self.last_challenge.lock().clone()
    }

    /// Counts one more login for an operation, unless the limit is reached. Returns whether it may
    /// start.
    pub(super) fn take_login(&self, operation: &str) -> bool {
        let mut rounds = self.logins.lock();
        let recent = |at: &Instant| at.elapsed() < LOGIN_COUNT_WINDOW;
        if rounds.len() >= MAX_REMEMBERED {
            rounds.retain(|_, taken| taken.iter().any(recent));
        }
        if rounds.len() >= MAX_REMEMBERED && !rounds.contains_key(operation) {
            return false;
        }
        let taken = rounds.entry(operation.to_owned()).or_default();
        taken.retain(recent);
        let free = taken.len() < MAX_LOGINS_PER_OPERATION;
        if free {
            taken.push(Instant::now());
        }
        free
    }
}

impl RefusalRefresh {
    /// Whether the refreshed token was refused too, and soon.
    fn covers(&self, refusal: &RefusedRequest) -> bool {
        self.generation == refusal.generation && self.at.elapsed() < NEW_TOKEN_WINDOW
    }
}

fn refusal_hash(refusal: &RefusedRequest) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&refusal.operation, refusal.status, &refusal.challenges).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(operation: &str, generation: u64) -> RefusedRequest {
        RefusedRequest {
            status: 401,
            challenges: vec!["Bearer".to_owned()],
            generation,
            operation: operation.to_owned(),
            background: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_soon_after_a_refresh_of_the_same_operation_is_a_repeat() {
        let answers = RefusalHistory::default();
        answers.add_refresh(&refusal("tools/call a", 1), 2);
        assert!(answers.was_just_refreshed(&refusal("tools/call a", 2)));
        assert!(!answers.was_just_refreshed(&refusal("tools/call b", 2)));
        assert!(!answers.was_just_refreshed(&refusal("tools/call a", 3)));
        tokio::time::advance(NEW_TOKEN_WINDOW).await;
        assert!(!answers.was_just_refreshed(&refusal("tools/call a", 2)));
    }

    #[tokio::test]
    async fn a_token_that_was_accepted_before_is_refreshed_when_refused() {
        let answers = RefusalHistory::default();
        answers.add_refresh(&refusal("tools/call a", 1), 2);
        answers.add_accepted(1);
        assert!(answers.was_just_refreshed(&refusal("tools/call a", 2)));
        answers.add_accepted(2);
        assert!(!answers.was_just_refreshed(&refusal("tools/call a", 2)));
        let bare = RefusedRequest { challenges: Vec::new(), ..refusal("tools/call a", 1) };
        answers.add_refresh(&bare, 2);
        assert!(answers.was_just_refreshed(&RefusedRequest { generation: 2, ..bare }));
    }

    #[tokio::test(start_paused = true)]
    async fn an_always_refused_operation_does_not_cause_endless_refreshes() {
        let answers = RefusalHistory::default();
        let mut refreshes = 0;
        // Two hours of a stream that is always refused, while everything else is accepted.
        for _ in 0..7200 {
            let refusal = refusal("GET", refreshes);
            if !answers.was_just_refreshed(&refusal) && !answers.is_refresh_futile(&refusal) {
                refreshes += 1;
                answers.add_refresh(&refusal, refreshes);
            }
            answers.add_accepted(refreshes);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let per_minute = 7200 / NEW_TOKEN_WINDOW.as_secs();
        assert!((per_minute - 5..=per_minute + 5).contains(&refreshes), "{refreshes}");
        assert!(
            !answers.is_refresh_futile(&refusal("tools/list", refreshes)),
            "another operation is another matter"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_futile_run_counts_for_its_operation_and_briefly() {
        let answers = RefusalHistory::default();
        answers.add_futile_command(&refusal("tools/call a", 1));
        assert!(answers.was_command_futile(&refusal("tools/call a", 1)));
        assert!(!answers.was_command_futile(&refusal("tools/call b", 1)));
        assert!(!answers.was_command_futile(&refusal("tools/call a", 2)));
        tokio::time::advance(COMMAND_RERUN_INTERVAL).await;
        assert!(!answers.was_command_futile(&refusal("tools/call a", 1)));
    }

    // SC-04
    #[tokio::test(start_paused = true)]
    async fn an_operation_causes_three_logins_in_ten_minutes() {
        let answers = RefusalHistory::default();
        for _ in 0..MAX_LOGINS_PER_OPERATION {
            assert!(answers.take_login("tools/call a"));
        }
        assert!(!answers.take_login("tools/call a"));
        assert!(answers.take_login("tools/call b"), "another operation is another matter");
        tokio::time::advance(LOGIN_COUNT_WINDOW).await;
        assert!(answers.take_login("tools/call a"));
    }

    #[tokio::test]
    async fn names_chosen_by_servers_do_not_fill_memory() {
        let answers = RefusalHistory::default();
        for n in 0..10 * MAX_REMEMBERED {
            answers.take_login(&n.to_string());
            answers.add_refresh(&refusal(&n.to_string(), 1), 2);
            answers.add_futile_command(&refusal(&n.to_string(), 1));
        }
        assert!(answers.logins.lock().len() <= MAX_REMEMBERED);
        assert!(answers.refreshes.lock().len() <= MAX_REMEMBERED);
        assert!(answers.futile_commands.lock().len() <= MAX_REMEMBERED);
    }
}
