//! Owns when the keys of an issuer are fetched, and for how long they are used.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::verification_key::VerificationKey;
use crate::error::{AuthError, sanitize_url};

/// Where the keys of an issuer come from.
pub(super) trait KeySource: Send + Sync + 'static {
    /// Fetches the keys. The future is bounded in time.
    fn fetch(&self) -> BoxFuture<'static, Result<Vec<VerificationKey>, AuthError>>;
}

/// The keys of one issuer, fetched when they are needed.
pub(super) struct IssuerKeys {
    issuer: String,
    source: Box<dyn KeySource>,
    state: Mutex<KeyState>,
}

/// The keys that an issuer had at one time.
pub(super) type KeySet = Arc<[VerificationKey]>;

/// The issuer is unreachable, and it has no keys that can still be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IssuerUnavailable {
    pub(super) issuer: String,
}

#[derive(Default)]
struct KeyState {
    /// The keys, and when they were fetched.
    fetched: Option<(KeySet, Instant)>,
    /// The fetch that is under way.
    running: Option<SharedFetch>,
    /// When the last fetch failed, if it did.
    failed_at: Option<Instant>,
    /// When keys were last fetched because a token has an unknown key.
    searched_at: Option<Instant>,
}

type SharedFetch = Shared<BoxFuture<'static, ()>>;

/// After how long keys are fetched again. A key that the issuer no longer has is used as long.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// For how long keys are used while the issuer is unreachable.
const MAX_KEY_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// How often keys are fetched because of tokens with an unknown key, which anybody can make.
const SEARCH_INTERVAL: Duration = Duration::from_secs(30);
/// How long after a failed fetch the next one begins, without and with older keys to use.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
const FAILURE_PAUSE_WITH_KEYS: Duration = Duration::from_secs(60);

impl IssuerKeys {
    pub(super) fn new(issuer: String, source: impl KeySource) -> Self {
        Self { issuer, source: Box::new(source), state: Mutex::default() }
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the keys, after they were fetched if there are none or they are due.
    pub(super) async fn current_keys(self: &Arc<Self>) -> Result<KeySet, IssuerUnavailable> {
        let fetch = {
            let mut state = self.state.lock();
            match state.usable_keys() {
                Some((keys, age)) if age < REFRESH_INTERVAL => return Ok(keys),
                older => {
                    let pause = if older.is_some() { FAILURE_PAUSE_WITH_KEYS } else { FAILURE_PAUSE };
                    let fetch = self.join_or_start(&mut state, |state| !is_within(state.failed_at, pause));
                    match older {
                        // An issuer that failed before may hang now, and nobody waits for that twice.
                        Some((keys, _)) if state.failed_at.is_some() => return Ok(keys),
                        _ => fetch,
                    }
                }
            }
        };
        if let Some(fetch) = fetch {
            fetch.await;
        }
        let keys = self.state.lock().usable_keys();
        keys.map(|(keys, _)| keys).ok_or_else(|| self.unavailable())
    }

    /// Returns keys that are newer than `known`, among which the key of a token is not. `None` if the
    /// issuer has no others, or was asked too recently. Fails if it is unreachable, since it may have
    /// the key.
    pub(super) async fn keys_after(
        self: &Arc<Self>,
        known: &KeySet,
    ) -> Result<Option<KeySet>, IssuerUnavailable> {
        let newer = |keys: Option<(KeySet, Duration)>| {
            keys.map(|(keys, _)| keys).filter(|keys| !Arc::ptr_eq(keys, known))
        };
        let fetch = {
            let mut state = self.state.lock();
            if let Some(keys) = newer(state.usable_keys()) {
                return Ok(Some(keys));
            }
            self.join_or_start(&mut state, |state| {
                let is_due = !is_within(state.searched_at, SEARCH_INTERVAL);
                if is_due {
                    state.searched_at = Some(Instant::now());
                }
                is_due
            })
        };
        if let Some(fetch) = fetch {
            fetch.await;
        }
        let state = self.state.lock();
        match (newer(state.usable_keys()), state.failed_at) {
            (Some(keys), _) => Ok(Some(keys)),
            (None, Some(_)) => Err(self.unavailable()),
            (None, None) => Ok(None),
        }
    }

    /// Joins the fetch that is under way, or starts one if `may_start`.
    fn join_or_start(
        self: &Arc<Self>,
        state: &mut KeyState,
        may_start: impl FnOnce(&mut KeyState) -> bool,
    ) -> Option<SharedFetch> {
        // One that has ended without being removed has panicked.
        if let Some(running) = state.running.as_ref().filter(|fetch| fetch.peek().is_none()) {
            return Some(running.clone());
        }
        if !may_start(state) {
            return None;
        }
        let (keys, fetching) = (Arc::clone(self), self.source.fetch());
        // In its own task: a host that hangs up must not end what others wait for, nor be able to have
        // it started again and again.
        let task = tokio::spawn(async move { keys.finish(fetching.await) });
        let fetch = task.map(|_| ()).boxed().shared();
        state.running = Some(fetch.clone());
        Some(fetch)
    }

    fn finish(&self, outcome: Result<Vec<VerificationKey>, AuthError>) {
        let mut state = self.state.lock();
        state.running = None;
        let issuer = sanitize_url(&self.issuer);
        match outcome {
            Ok(keys) => {
                tracing::debug!(issuer, keys = keys.len(), "the keys of an issuer were fetched");
                state.fetched = Some((keys.into(), Instant::now()));
                state.failed_at = None;
            }
            Err(error) => {
                tracing::warn!(issuer, %error, "the keys of an issuer cannot be fetched");
                state.failed_at = Some(Instant::now());
            }
        }
    }

    fn unavailable(&self) -> IssuerUnavailable {
        IssuerUnavailable { issuer: self.issuer.clone() }
    }
}

impl KeyState {
    /// The keys that can be used, and their age.
    fn usable_keys(&self) -> Option<(KeySet, Duration)> {
        let (keys, fetched_at) = self.fetched.as_ref()?;
        Some((Arc::clone(keys), fetched_at.elapsed())).filter(|(_, age)| *age < MAX_KEY_AGE)
    }
}

/// Whether `interval` has not passed since that time.
fn is_within(time: Option<Instant>, interval: Duration) -> bool {
    time.is_some_and(|time| time.elapsed() < interval)
}

#[cfg(test)]
mod tests;
