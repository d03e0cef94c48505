//! When keys are fetched, on a clock that the tests move.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::advance;

use super::*;
use crate::error::AuthErrorKind;

const SECOND: Duration = Duration::from_secs(1);

/// Yields scripted outcomes, each when a permit is added. The last one is repeated.
#[derive(Clone)]
struct ScriptedSource {
    outcomes: Arc<Mutex<VecDeque<Option<&'static str>>>>,
    permits: Arc<Semaphore>,
    fetches: Arc<AtomicUsize>,
}

impl ScriptedSource {
    /// Yields the one key of each name, or fails.
    fn new(outcomes: &[Option<&'static str>]) -> (Self, Arc<IssuerKeys>) {
        let source = Self {
            outcomes: Arc::new(Mutex::new(outcomes.iter().copied().collect())),
            permits: Arc::new(Semaphore::new(1000)),
            fetches: Arc::default(),
        };
        let keys = Arc::new(IssuerKeys::new("https://i".to_owned(), source.clone()));
        (source, keys)
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::Relaxed)
    }
}

impl KeySource for ScriptedSource {
    fn fetch(&self) -> BoxFuture<'static, Result<Vec<VerificationKey>, AuthError>> {
        let source = self.clone();
        source.fetches.fetch_add(1, Ordering::Relaxed);
        let fetching = async move {
            source.permits.acquire().await.unwrap().forget();
            let mut outcomes = source.outcomes.lock();
            let outcome = if outcomes.len() > 1 { outcomes.pop_front() } else { outcomes.front().copied() };
            match outcome.flatten() {
                Some(id) => {
                    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": id});
                    Ok(vec![VerificationKey::from_jwk(&jwk).unwrap()])
                }
                None => Err(AuthError::new(AuthErrorKind::Unavailable, "refused")),
            }
        };
        fetching.boxed()
    }
}

fn ids(keys: &KeySet) -> Vec<&str> {
    keys.iter().filter_map(|key| key.id().map(String::as_str)).collect()
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_once_and_again_when_they_are_due() {
    let (source, keys) = ScriptedSource::new(&[Some("a"), Some("b")]);
    for _ in 0..3 {
        assert_eq!(ids(&keys.current_keys().await.unwrap()), ["a"]);
    }
    advance(REFRESH_INTERVAL.saturating_sub(SECOND)).await;
    assert_eq!(ids(&keys.current_keys().await.unwrap()), ["a"]);
    assert_eq!(source.fetches(), 1);
    advance(SECOND).await;
    assert_eq!(ids(&keys.current_keys().await.unwrap()), ["b"], "a key that was removed is not used");
    assert_eq!(source.fetches(), 2);
}

/// However many tokens with an unknown key there are, the issuer is asked once in 30 s.
#[tokio::test(start_paused = true)]
async fn unknown_keys_are_searched_for_at_intervals() {
    let (source, keys) = ScriptedSource::new(&[Some("a")]);
    let known = keys.current_keys().await.unwrap();
    // The first search is not held up by the first fetch, and finds the same keys, as new ones.
    let mut known = keys.keys_after(&known).await.unwrap().unwrap();
    for _ in 0..100 {
        assert_eq!(keys.keys_after(&known).await, Ok(None));
    }
    assert_eq!(source.fetches(), 2);
    for more in 1..=3 {
        advance(SEARCH_INTERVAL.saturating_sub(SECOND)).await;
        assert_eq!(keys.keys_after(&known).await, Ok(None));
        advance(SECOND).await;
        known = keys.keys_after(&known).await.unwrap().unwrap();
        assert_eq!(source.fetches(), 2 + more);
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_finds_keys_that_others_have_fetched() {
    let (source, keys) = ScriptedSource::new(&[Some("a"), Some("b")]);
    let known = keys.current_keys().await.unwrap();
    assert_eq!(ids(&keys.keys_after(&known).await.unwrap().unwrap()), ["b"]);
    assert_eq!(ids(&keys.keys_after(&known).await.unwrap().unwrap()), ["b"]);
    assert_eq!(source.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn all_callers_wait_for_one_fetch_that_none_can_end() {
    let (source, keys) = ScriptedSource::new(&[Some("a")]);
    source.permits.forget_permits(1000);
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let keys = Arc::clone(&keys);
            tokio::spawn(async move { keys.current_keys().await.map(|keys| keys.len()) })
        })
        .collect();
    while source.fetches() == 0 {
        tokio::task::yield_now().await;
    }
    waiters[0].abort();
    // One that comes and goes at once starts nothing either.
    assert!(keys.current_keys().now_or_never().is_none());
    source.permits.add_permits(1);
    for waiter in waiters.into_iter().skip(1) {
        assert_eq!(waiter.await.unwrap(), Ok(1));
    }
    assert_eq!(source.fetches(), 1);
}

/// A fetch goes on without anybody who waits for it, so that nobody can have it begin again.
#[tokio::test(start_paused = true)]
async fn a_search_whose_caller_is_gone_counts() {
    let (source, keys) = ScriptedSource::new(&[Some("a")]);
    let known = keys.current_keys().await.unwrap();
    for _ in 0..5 {
        let _ = keys.keys_after(&known).now_or_never();
    }
    assert_eq!(source.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn keys_outlive_an_outage_of_the_issuer_by_a_day() {
    let (source, keys) = ScriptedSource::new(&[Some("a"), None]);
    let known = keys.current_keys().await.unwrap();
    advance(REFRESH_INTERVAL).await;
    for _ in 0..10 {
        assert_eq!(ids(&keys.current_keys().await.unwrap()), ["a"]);
    }
    assert_eq!(source.fetches(), 2, "it is not asked again at once");
    advance(FAILURE_PAUSE_WITH_KEYS).await;
    assert_eq!(ids(&keys.current_keys().await.unwrap()), ["a"]);
    assert_eq!(source.fetches(), 3);
    // The issuer may have the key, so it is not certain that the token is wrong.
    let unavailable = IssuerUnavailable { issuer: "https://i".to_owned() };
    assert_eq!(keys.keys_after(&known).await, Err(unavailable));
    let since = REFRESH_INTERVAL + FAILURE_PAUSE_WITH_KEYS;
    advance(MAX_KEY_AGE.saturating_sub(since + SECOND)).await;
    assert_eq!(ids(&keys.current_keys().await.unwrap()), ["a"]);
    advance(SECOND).await;
    keys.current_keys().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_hangs_delays_nobody_who_has_its_keys() {
    let (source, keys) = ScriptedSource::new(&[Some("a"), None, Some("b")]);
    keys.current_keys().await.unwrap();
    advance(REFRESH_INTERVAL).await;
    assert_eq!(ids(&keys.current_keys().await.unwrap()), ["a"], "after an attempt that failed");
    source.permits.forget_permits(1000);
    advance(FAILURE_PAUSE_WITH_KEYS).await;
    for _ in 0..3 {
        let at_once = keys.current_keys().now_or_never().expect("it does not wait");
        assert_eq!(ids(&at_once.unwrap()), ["a"]);
    }
    assert_eq!(source.fetches(), 3);
    let running = keys.state.lock().running.clone().expect("it is asked meanwhile");
    source.permits.add_permits(1);
    running.await;
    assert_eq!(ids(&keys.current_keys().await.unwrap()), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn without_keys_an_issuer_is_asked_again_after_a_pause() {
    let (source, keys) = ScriptedSource::new(&[None, None, Some("a")]);
    for _ in 0..10 {
        keys.current_keys().await.unwrap_err();
    }
    assert_eq!(source.fetches(), 1);
    advance(FAILURE_PAUSE).await;
    keys.current_keys().await.unwrap_err();
    advance(FAILURE_PAUSE).await;
    assert_eq!(ids(&keys.current_keys().await.unwrap()), ["a"]);
    assert_eq!(source.fetches(), 3);
}
