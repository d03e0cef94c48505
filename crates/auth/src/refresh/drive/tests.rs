//! Refreshes against a store that fails on demand, and scripted token responses.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bowline_config::Secret;
use bowline_store::{Doing, Entry, Memory, SealKey, Store, StoreError};

use super::*;
use crate::record::Standing;
use crate::record::tests::{record, tokens, url};
use crate::refresh::core::Unsaved;

/// A store in memory that fails on demand.
#[derive(Debug)]
struct Fragile {
    inner: Memory,
    writes_fail: AtomicBool,
    all_fail: AtomicBool,
    /// Name and token of the last lease.
    granted: Mutex<(String, String)>,
}

impl Fragile {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Memory::new(),
            writes_fail: AtomicBool::new(false),
            all_fail: AtomicBool::new(false),
            granted: Mutex::default(),
        })
    }

    /// Ends the last lease, as its expiry would.
    async fn end_lease(&self) {
        let (name, token) = self.granted.lock().unwrap().clone();
        self.inner.release(Lease { name, token }).await.unwrap();
    }

    fn check(&self, write: bool) -> Result<(), StoreError> {
        let fails =
            self.all_fail.load(Ordering::Relaxed) || write && self.writes_fail.load(Ordering::Relaxed);
        if fails { Err(StoreError::Unavailable("the disk is full".to_owned())) } else { Ok(()) }
    }
}

impl Store for Fragile {
    fn get<'a>(&'a self, key: &'a Key) -> Doing<'a, Option<Entry>> {
        Box::pin(async move {
            self.check(false)?;
            self.inner.get(key).await
        })
    }

    fn put<'a>(&'a self, key: &'a Key, value: &'a [u8], expect: Expect) -> Doing<'a, Option<Version>> {
        Box::pin(async move {
            self.check(true)?;
            self.inner.put(key, value, expect).await
        })
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Expect) -> Doing<'a, bool> {
        Box::pin(async move {
            self.check(true)?;
            self.inner.remove(key, expect).await
        })
    }

    fn list(&self, kind: &'static str) -> Doing<'_, Vec<(Key, Entry)>> {
        self.inner.list(kind)
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> Doing<'a, Option<Lease>> {
        Box::pin(async move {
            self.check(false)?;
            let lease = self.inner.acquire(name, ttl).await?;
            if let Some(Lease { name, token }) = &lease {
                *self.granted.lock().unwrap() = (name.clone(), token.clone());
            }
            Ok(lease)
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> Doing<'a, bool> {
        self.inner.renew(lease, ttl)
    }

    fn release(&self, lease: Lease) -> Doing<'_, ()> {
        Box::pin(async move {
            self.check(true)?;
            self.inner.release(lease).await
        })
    }

    fn place(&self) -> String {
        "here".to_owned()
    }
}

struct Bench {
    store: Arc<Fragile>,
    shelf: Shelf,
    auth: Auth,
    asked: Mutex<Vec<String>>,
}

impl Bench {
    /// A store with the login `r1`, whose token has expired.
    async fn new() -> Self {
        let store = Fragile::new();
        let safe = Safe::new(store.clone(), SealKey::generate().unwrap());
        let auth = Auth::default();
        let shelf = Shelf { safe, key: Record::key("search", &auth, &url()) };
        let bench = Self { store, shelf, auth, asked: Mutex::default() };
        bench.keep(&record("a1", Some("r1"), Some(SystemTime::now()))).await;
        bench
    }

    async fn keep(&self, record: &Record) -> Version {
        Box::pin(self.shelf.safe.put(&self.shelf.key, record, Expect::Anything)).await.unwrap().unwrap()
    }

    async fn kept(&self) -> Option<Record> {
        self.shelf.read(&self.auth, &url()).await.unwrap().map(|(record, _)| record)
    }

    async fn renew<F>(&self, answer: impl Fn(u32) -> F) -> Outcome
    where
        F: Future<Output = Result<Tokens, AuthError>>,
    {
        self.renew_with(None, answer).await
    }

    async fn renew_with<F>(&self, unsaved: Option<Unsaved>, answer: impl Fn(u32) -> F) -> Outcome
    where
        F: Future<Output = Result<Tokens, AuthError>>,
    {
        let count = AtomicU32::new(0);
        let stale = unsaved.as_ref().map_or(Secret::new("a1"), |mine| mine.record.access.clone());
        let wish = Wish { stale: Some(stale), unsaved };
        let url = url();
        // Like a refresh token, which is sent when the fence opens.
        let ask = async |record: Record, fence: Fence| {
            let sent = fence.pass().await.is_ok_and(|window| fence.holds(window));
            if !sent {
                return refused(AuthErrorKind::Unavailable);
            }
            let shown = record.refresh.as_ref().map_or("", Secret::expose).to_owned();
            self.asked.lock().unwrap().push(shown);
            answer(count.fetch_add(1, Ordering::Relaxed)).await
        };
        let ask = |record, fence| Box::pin(ask(record, fence));
        Box::pin(renew(&self.shelf, (&self.auth, &url), wish, ask, |_| true)).await
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Whether nobody holds the lease.
    async fn is_free(&self) -> bool {
        match self.shelf.safe.acquire(&self.shelf.lease(), TTL).await.unwrap() {
            Some(lease) => {
                self.shelf.safe.release(lease).await.unwrap();
                true
            }
            None => false,
        }
    }
}

fn in_an_hour() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3600)
}

#[expect(clippy::unnecessary_wraps, reason = "it is what an authorization server answers")]
fn given(access: &str, refresh: Option<&str>) -> Result<Tokens, AuthError> {
    Ok(tokens(access, refresh, Some(in_an_hour())))
}

fn refused(kind: AuthErrorKind) -> Result<Tokens, AuthError> {
    Err(AuthError::new(kind, "no"))
}

fn access(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Good(record, _) => record.access.expose(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_new_token_is_written_down_before_it_is_given_out() {
    let bench = Bench::new().await;
    let outcome = bench.renew(async |_| given("a2", Some("r2"))).await;
    assert_eq!(access(&outcome), "a2");
    let kept = bench.kept().await.unwrap();
    assert_eq!((kept.access, kept.refresh), ("a2".into(), Some("r2".into())));
    assert_eq!(bench.asked(), ["r1"]);
    assert!(bench.is_free().await);
}

#[tokio::test]
async fn what_somebody_else_got_is_taken_over_without_asking() {
    let bench = Bench::new().await;
    bench.keep(&record("a2", Some("r2"), Some(in_an_hour()))).await;
    let outcome = bench.renew(async |_| refused(AuthErrorKind::Refused)).await;
    assert_eq!(access(&outcome), "a2");
    assert!(bench.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_another_takes_over_what_that_one_gets() {
    let bench = Bench::new().await;
    let lease = bench.shelf.safe.acquire(&bench.shelf.lease(), TTL).await.unwrap().unwrap();
    let other = async {
        sleep(Duration::from_secs(10)).await;
        bench.keep(&record("a2", Some("r2"), Some(in_an_hour()))).await;
        bench.shelf.safe.release(lease).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(bench.renew(async |_| refused(AuthErrorKind::Refused)), other);
    assert_eq!(access(&outcome), "a2");
    assert!(bench.asked().is_empty());
}

// The refused token is not the stored one: another process was faster, or a person logged in.
#[tokio::test]
async fn invalid_grant_is_believed_only_of_what_is_still_there() {
    let bench = Bench::new().await;
    let outcome = bench
        .renew(async |_| {
            bench.keep(&record("a2", Some("r2"), Some(in_an_hour()))).await;
            refused(AuthErrorKind::InvalidGrant)
        })
        .await;
    assert_eq!(access(&outcome), "a2");
    assert_eq!(bench.kept().await.unwrap().state, Standing::Ok);
}

#[tokio::test]
async fn another_refresh_token_that_is_there_by_now_is_used() {
    let bench = Bench::new().await;
    let outcome = bench
        .renew(async |count| {
            if count > 0 {
                return given("a3", Some("r3"));
            }
            bench.keep(&record("a2", Some("r2"), Some(SystemTime::now()))).await;
            refused(AuthErrorKind::InvalidGrant)
        })
        .await;
    assert_eq!(access(&outcome), "a3");
    assert_eq!(bench.asked(), ["r1", "r2"]);
}

#[tokio::test]
async fn a_login_that_was_ended_is_marked_and_nothing_is_forgotten() {
    let bench = Bench::new().await;
    let outcome = bench.renew(async |_| refused(AuthErrorKind::InvalidGrant)).await;
    let Outcome::Ended { why, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(why.kind, AuthErrorKind::InvalidGrant);
    let kept = bench.kept().await.unwrap();
    assert!(matches!(kept.state, Standing::NeedsLogin(_)));
    assert_eq!(kept.refresh, Some("r1".into()));
    // The spent token is not sent again.
    let again = bench.renew(async |_| given("a2", None)).await;
    assert!(matches!(again, Outcome::Ended { .. }));
    assert_eq!(bench.asked(), ["r1"]);
}

#[tokio::test]
async fn a_failure_that_may_pass_changes_nothing() {
    for kind in [AuthErrorKind::Unavailable, AuthErrorKind::Refused, AuthErrorKind::Untrusted] {
        let bench = Bench::new().await;
        let before = bench.kept().await;
        let outcome = bench.renew(async |_| refused(kind)).await;
        assert!(matches!(outcome, Outcome::Failed(error) if error.kind == kind));
        assert_eq!(bench.kept().await, before);
        assert!(bench.is_free().await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_authorization_server_that_cannot_be_reached_is_left_before_the_lease_ends() {
    let bench = Bench::new().await;
    let (before, url) = (Instant::now(), url());
    let wish = Wish { stale: Some(Secret::new("a1")), unsaved: None };
    let ask = |_, _| std::future::pending();
    let outcome = Box::pin(renew(&bench.shelf, (&bench.auth, &url), wish, ask, |_| true)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if error.kind == AuthErrorKind::Unavailable));
    assert_eq!(before.elapsed(), DIALING);
    assert!(bench.is_free().await);
}

/// Once a refresh token is sent, the login depends on its response.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_waited_for_and_the_lease_lasts_meanwhile() {
    let bench = Bench::new().await;
    let slow = bench.renew(async |_| {
        for _ in 0..9 {
            sleep(TTL).await;
            assert!(!bench.is_free().await);
        }
        given("a2", Some("r2"))
    });
    assert_eq!(access(&slow.await), "a2");
    assert_eq!(bench.kept().await.unwrap().refresh, Some("r2".into()));
    assert!(bench.is_free().await);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_is_given_up_in_the_end() {
    let bench = Bench::new().await;
    let before = Instant::now();
    let outcome = bench.renew(async |_| std::future::pending().await).await;
    assert!(matches!(outcome, Outcome::Failed(error) if error.kind == AuthErrorKind::Unavailable));
    assert_eq!(before.elapsed(), ANSWERING);
    assert!(bench.is_free().await);
}

/// Another process took the lease while the connection was opened.
#[tokio::test]
async fn nothing_is_sent_on_a_connection_that_outlasted_the_lease() {
    let bench = Bench::new().await;
    let (dials, sent) = (AtomicU32::new(0), AtomicU32::new(0));
    let ask = async |_: Record, fence: Fence| {
        if dials.fetch_add(1, Ordering::Relaxed) == 0 {
            bench.store.end_lease().await;
            let other = bench.shelf.safe.acquire(&bench.shelf.lease(), TTL).await.unwrap().unwrap();
            bench.keep(&record("a2", Some("r2"), Some(in_an_hour()))).await;
            bench.shelf.safe.release(other).await.unwrap();
        }
        fence.pass().await.map_err(|_| AuthError::new(AuthErrorKind::Unavailable, "called off"))?;
        sent.fetch_add(1, Ordering::Relaxed);
        given("b2", Some("s2"))
    };
    let ask = |record, fence| Box::pin(ask(record, fence));
    let (url, wish) = (url(), Wish { stale: Some(Secret::new("a1")), unsaved: None });
    let outcome = Box::pin(renew(&bench.shelf, (&bench.auth, &url), wish, ask, |_| true)).await;
    assert_eq!(access(&outcome), "a2");
    assert_eq!((dials.into_inner(), sent.into_inner()), (1, 0));
    assert!(bench.is_free().await);
}

/// The process was suspended between the confirmation and the write.
#[tokio::test]
async fn what_comes_too_late_is_not_sent_and_the_renewal_begins_anew() {
    let bench = Bench::new().await;
    let sent = Mutex::new(Vec::new());
    let late = AtomicBool::new(true);
    let ask = async |record: Record, fence: Fence| {
        let window = fence.pass().await.map_err(|_| AuthError::new(AuthErrorKind::Unavailable, "no"))?;
        let window = if late.swap(false, Ordering::Relaxed) { Window::new(Duration::ZERO) } else { window };
        if !fence.holds(window) {
            return refused(AuthErrorKind::Unavailable);
        }
        sent.lock().unwrap().push(record.refresh.unwrap().expose().to_owned());
        given("a2", Some("r2"))
    };
    let ask = |record, fence| Box::pin(ask(record, fence));
    let (url, wish) = (url(), Wish { stale: Some(Secret::new("a1")), unsaved: None });
    let outcome = Box::pin(renew(&bench.shelf, (&bench.auth, &url), wish, ask, |_| true)).await;
    assert_eq!(access(&outcome), "a2");
    assert_eq!(sent.into_inner().unwrap(), ["r1"]);
    assert!(bench.is_free().await);
}

/// A refresh token that is sent twice, such as with a nonce, is sent under a confirmed lease each
/// time.
#[tokio::test]
async fn a_second_request_of_a_renewal_is_confirmed_as_well() {
    for lost in [false, true] {
        let bench = Bench::new().await;
        let sent = AtomicU32::new(0);
        let ask = async |_: Record, fence: Fence| {
            fence.pass().await.unwrap();
            sent.fetch_add(1, Ordering::Relaxed);
            if lost {
                bench.store.end_lease().await;
            }
            fence.pass().await.map_err(|_| AuthError::new(AuthErrorKind::Unavailable, "called off"))?;
            sent.fetch_add(1, Ordering::Relaxed);
            given("a2", Some("r2"))
        };
        let ask = |record, fence| Box::pin(ask(record, fence));
        let (url, wish) = (url(), Wish { stale: Some(Secret::new("a1")), unsaved: None });
        let outcome = Box::pin(renew(&bench.shelf, (&bench.auth, &url), wish, ask, |_| true)).await;
        assert_eq!(matches!(outcome, Outcome::Good(..)), !lost, "{outcome:?}");
        assert_eq!(sent.into_inner(), if lost { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_logout_meanwhile_stays_a_logout() {
    let bench = Bench::new().await;
    let outcome = bench
        .renew(async |_| {
            bench.shelf.safe.remove(&bench.shelf.key, Expect::Anything).await.unwrap();
            given("a2", Some("r2"))
        })
        .await;
    assert!(matches!(outcome, Outcome::Gone(Some(given)) if given.access == "a2".into()));
    assert_eq!(bench.kept().await, None);
}

// A former holder of the lease was refused with the refresh token that our tokens were received
// for.
#[tokio::test]
async fn a_mark_that_somebody_else_made_does_not_cost_what_was_given() {
    let bench = Bench::new().await;
    let outcome = bench
        .renew(async |_| {
            bench.keep(&bench.kept().await.unwrap().ended("refused")).await;
            given("a2", Some("r2"))
        })
        .await;
    assert_eq!(access(&outcome), "a2");
    let kept = bench.kept().await.unwrap();
    assert_eq!((kept.state, kept.refresh), (Standing::Ok, Some("r2".into())));
}

#[tokio::test]
async fn a_login_meanwhile_is_not_overwritten() {
    let bench = Bench::new().await;
    let mut login = record("b1", Some("s1"), Some(in_an_hour()));
    login.logged_in_at = SystemTime::now();
    let outcome = bench
        .renew(async |_| {
            bench.keep(&login).await;
            given("a2", Some("r2"))
        })
        .await;
    assert_eq!(access(&outcome), "b1");
    assert_eq!(bench.kept().await, Some(login));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_while_loses_nothing_and_nobody_else_gets_the_lease() {
    let bench = Bench::new().await;
    let renewal = bench.renew(async |_| {
        bench.store.writes_fail.store(true, Ordering::Relaxed);
        given("a2", Some("r2"))
    });
    let watch = async {
        sleep(Duration::from_secs(6)).await;
        assert!(!bench.is_free().await);
        bench.store.writes_fail.store(false, Ordering::Relaxed);
    };
    let (outcome, ()) = tokio::join!(renewal, watch);
    assert_eq!(access(&outcome), "a2");
    assert_eq!(bench.kept().await.unwrap().refresh, Some("r2".into()));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_down_is_given_out_in_the_end_and_written_by_the_next_renewal() {
    let bench = Bench::new().await;
    bench.store.writes_fail.store(true, Ordering::Relaxed);
    let outcome = bench.renew(async |_| given("a2", Some("r2"))).await;
    let Outcome::Unsaved(mine) = outcome else { panic!("{outcome:?}") };
    assert_eq!(mine.record.access, "a2".into());
    assert_eq!(bench.kept().await.unwrap().refresh, Some("r1".into()));
    // The store works again, and the next refresh starts with the unsaved login: r1 is never sent
    // again.
    bench.store.writes_fail.store(false, Ordering::Relaxed);
    let before = Instant::now();
    let outcome = bench.renew_with(Some(mine), async |_| given("a3", Some("r3"))).await;
    assert_eq!(access(&outcome), "a3");
    assert_eq!(bench.asked(), ["r1", "r2"]);
    // It does not wait for its own lease, which could not be released.
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert!(bench.is_free().await);
}

/// Without rotation, a refresh loses nothing: it does not wait for the save, keeps no lease, and is
/// repeated if the disk stays full for longer than the token lives.
#[tokio::test(start_paused = true)]
async fn what_can_be_had_again_is_used_at_once_and_had_again() {
    let bench = Bench::new().await;
    bench.store.writes_fail.store(true, Ordering::Relaxed);
    let before = Instant::now();
    let outcome = bench.renew(async |_| given("a2", None)).await;
    let Outcome::Unsaved(mine) = outcome else { panic!("{outcome:?}") };
    assert_eq!((mine.record.access.expose(), before.elapsed()), ("a2", Duration::ZERO));
    assert!(mine.right.0.is_none());
    let outcome = bench.renew_with(Some(mine), async |_| given("a3", None)).await;
    let Outcome::Unsaved(mine) = outcome else { panic!("{outcome:?}") };
    assert_eq!(mine.record.access.expose(), "a3");
    assert_eq!(bench.asked(), ["r1", "r1"]);
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_an_error_and_nobody_is_asked() {
    let bench = Bench::new().await;
    bench.store.all_fail.store(true, Ordering::Relaxed);
    let outcome = bench.renew(async |_| given("a2", None)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if error.kind == AuthErrorKind::Store));
    assert!(bench.asked().is_empty());
}

#[tokio::test]
async fn a_dead_registration_ends_the_login_and_a_configured_one_is_an_error_that_touches_nothing() {
    let bench = Bench::new().await;
    let outcome = bench.renew(async |_| refused(AuthErrorKind::InvalidClient)).await;
    assert!(matches!(outcome, Outcome::Ended { why, .. } if why.kind == AuthErrorKind::InvalidClient));

    let bench = Bench::new().await;
    let mut configured = record("a1", Some("r1"), Some(SystemTime::now()));
    configured.client.as_mut().unwrap().origin = crate::client::ClientOrigin::Configured;
    bench.keep(&configured).await;
    let outcome = bench.renew(async |_| refused(AuthErrorKind::InvalidClient)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if error.kind == AuthErrorKind::Setup));
    assert_eq!(bench.kept().await, Some(configured));
}

// AX-09: an assertion is sent once, and its refusal is reported.
#[tokio::test]
async fn a_refused_statement_is_not_shown_again() {
    let bench = Bench::new().await;
    let auth = Auth { grant: bowline_config::Grant::ClientCredentials, ..Auth::default() };
    let mut machine = record("a1", None, Some(SystemTime::now()));
    machine.by = crate::record::By::ClientCredentials;
    bench.keep(&machine).await;
    let bench = Bench { auth, ..bench };
    let outcome = bench.renew(async |_| refused(AuthErrorKind::InvalidGrant)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if error.kind == AuthErrorKind::InvalidGrant));
    assert_eq!(bench.asked().len(), 1);
    assert_eq!(bench.kept().await, Some(machine));
}

#[tokio::test(start_paused = true)]
async fn somebody_who_died_is_waited_for_until_the_lease_ends_and_not_longer() {
    let bench = Bench::new().await;
    let before = Instant::now();
    // Neither released nor renewed.
    let _dead = bench.shelf.safe.acquire(&bench.shelf.lease(), TTL).await.unwrap().unwrap();
    let outcome = bench.renew(async |_| given("a2", Some("r2"))).await;
    assert_eq!(access(&outcome), "a2");
    assert!(before.elapsed() <= TTL + Duration::from_secs(1), "{:?}", before.elapsed());
}

/// A program that is exiting acquires no lease, because it would never release it. Progress reports
/// say when the critical section starts and when it did not start after all.
#[tokio::test(start_paused = true)]
async fn what_must_not_be_broken_off_is_said_to_begin_and_to_be_over() {
    let bench = Bench::new().await;
    let (url, name) = (url(), bench.shelf.lease());
    let wish = || Wish { stale: Some(Secret::new("a1")), unsaved: None };
    let ask = |_, _| async { given("a2", Some("r2")) };
    let ended = renew(&bench.shelf, (&bench.auth, &url), wish(), ask, |_| false).await;
    assert!(matches!(ended, Outcome::Failed(error) if error.kind == AuthErrorKind::Unavailable));
    assert!(bench.is_free().await);
    let lease = bench.shelf.safe.acquire(&name, TTL).await.unwrap().unwrap();
    let passed = Mutex::new(Vec::new());
    let other = async {
        sleep(Duration::from_secs(1)).await;
        bench.shelf.safe.release(lease).await.unwrap();
    };
    let note = |pass| {
        passed.lock().unwrap().push(pass);
        true
    };
    let renewed = renew(&bench.shelf, (&bench.auth, &url), wish(), ask, note);
    let (outcome, ()) = tokio::join!(renewed, other);
    assert_eq!(access(&outcome), "a2");
    let mut passed = passed.into_inner().unwrap();
    assert_eq!(passed.pop(), Some(Pass::Asking));
    assert_eq!(passed.last(), Some(&Pass::In), "it had the lease");
    assert!(passed.len() > 2 && passed.windows(2).all(|two| two[0] != two[1]), "{passed:?}");
}
