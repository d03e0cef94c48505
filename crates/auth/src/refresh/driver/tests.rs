//! Refreshes against a store that fails on demand, and scripted token responses.

mod failing_store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bowline_config::Secret;
use bowline_store::SealKey;
use bowline_testkit::with;
use parking_lot::Mutex;

use super::*;
use crate::record::LoginState;
use crate::record::tests::{record, tokens, url};
use crate::refresh::core::UnsavedLogin;
use failing_store::FailingStore;

struct RefreshBench {
    store: Arc<FailingStore>,
    login: LoginStore,
    auth: AuthSettings,
    asked: Mutex<Vec<String>>,
}

impl RefreshBench {
    /// A store with the login `r1`, whose token has expired.
    async fn new() -> Self {
        let store = FailingStore::new();
        let encrypted = EncryptedStore::new(store.clone(), SealKey::generate().unwrap());
        let auth = AuthSettings::default();
        let login = LoginStore { store: encrypted, key: LoginRecord::key("search", &auth, &url()) };
        let bench = Self { store, login, auth, asked: Mutex::default() };
        bench.keep(&record("a1", Some("r1"), Some(SystemTime::now()))).await;
        bench
    }

    async fn keep(&self, record: &LoginRecord) -> Version {
        Box::pin(self.login.store.put(&self.login.key, record, Precondition::Any)).await.unwrap().unwrap()
    }

    async fn kept(&self) -> Option<LoginRecord> {
        self.login.read(&self.auth, &url()).await.unwrap().map(|(record, _)| record)
    }

    async fn refresh<F>(&self, answer: impl Fn(u32) -> F) -> RefreshOutcome
    where
        F: Future<Output = Result<Tokens, AuthError>>,
    {
        self.refresh_with(None, answer).await
    }

    async fn refresh_with<F>(
        &self,
        unsaved: Option<UnsavedLogin>,
        answer: impl Fn(u32) -> F,
    ) -> RefreshOutcome
    where
        F: Future<Output = Result<Tokens, AuthError>>,
    {
        let count = AtomicU32::new(0);
        let stale = unsaved.as_ref().map_or(Secret::new("a1"), |mine| mine.record.access.clone());
        let goal = RefreshGoal { stale_token: Some(stale), unsaved };
        let url = url();
        // Like a refresh token, which is sent when the fence opens.
        let ask = async |record: LoginRecord, fence: SendFence| {
            let sent = fence.wait_until_open().await.is_ok_and(|window| fence.check_window(window));
            if !sent {
                return refused(AuthErrorKind::Unavailable);
            }
            let shown = record.refresh.as_ref().map_or("", Secret::expose).to_owned();
            self.asked.lock().push(shown);
            answer(count.fetch_add(1, Ordering::Relaxed)).await
        };
        let ask = |record, fence| Box::pin(ask(record, fence));
        Box::pin(run_refresh(&self.login, (&self.auth, &url), goal, ask, |_| true)).await
    }

    /// Refreshes the token `a1` with tokens from `ask`.
    async fn run(
        &self,
        ask: impl AsyncFn(LoginRecord, SendFence) -> Result<Tokens, AuthError>,
    ) -> RefreshOutcome {
        let (url, goal) = (url(), RefreshGoal { stale_token: Some(Secret::new("a1")), unsaved: None });
        let ask = |record, fence| Box::pin(ask(record, fence));
        Box::pin(run_refresh(&self.login, (&self.auth, &url), goal, ask, |_| true)).await
    }

    async fn acquire_lease(&self) -> Lease {
        self.login.store.acquire(&self.login.lease_name(), LEASE_TTL).await.unwrap().unwrap()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// Whether nobody holds the lease.
    async fn is_free(&self) -> bool {
        match self.login.store.acquire(&self.login.lease_name(), LEASE_TTL).await.unwrap() {
            Some(lease) => {
                self.login.store.release(lease).await.unwrap();
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

fn access(outcome: &RefreshOutcome) -> &str {
    match outcome {
        RefreshOutcome::Current(record, _) => record.access.expose(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_new_token_is_saved_before_it_is_returned() {
    let bench = RefreshBench::new().await;
    let outcome = bench.refresh(async |_| given("a2", Some("r2"))).await;
    assert_eq!(access(&outcome), "a2");
    let kept = bench.kept().await.unwrap();
    assert_eq!((kept.access, kept.refresh), ("a2".into(), Some("r2".into())));
    assert_eq!(bench.asked(), ["r1"]);
    assert!(bench.is_free().await);
}

#[tokio::test]
async fn a_token_of_another_process_is_adopted_without_a_request() {
    let bench = RefreshBench::new().await;
    bench.keep(&record("a2", Some("r2"), Some(in_an_hour()))).await;
    let outcome = bench.refresh(async |_| refused(AuthErrorKind::Refused)).await;
    assert_eq!(access(&outcome), "a2");
    assert!(bench.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_process_adopts_the_token_of_the_other() {
    let bench = RefreshBench::new().await;
    let lease = bench.acquire_lease().await;
    let other = async {
        sleep(Duration::from_secs(10)).await;
        bench.keep(&record("a2", Some("r2"), Some(in_an_hour()))).await;
        bench.login.store.release(lease).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(bench.refresh(async |_| refused(AuthErrorKind::Refused)), other);
    assert_eq!(access(&outcome), "a2");
    assert!(bench.asked().is_empty());
}

// The refused token is not the stored one: another process was faster, or a person logged in.
#[tokio::test]
async fn invalid_grant_counts_only_for_the_stored_token() {
    let bench = RefreshBench::new().await;
    let outcome = bench
        .refresh(async |_| {
            bench.keep(&record("a2", Some("r2"), Some(in_an_hour()))).await;
            refused(AuthErrorKind::InvalidGrant)
        })
        .await;
    assert_eq!(access(&outcome), "a2");
    assert_eq!(bench.kept().await.unwrap().state, LoginState::Ok);
}

#[tokio::test]
async fn a_newer_stored_refresh_token_is_used() {
    let bench = RefreshBench::new().await;
    let outcome = bench
        .refresh(async |count| {
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
async fn an_ended_login_is_marked_and_kept() {
    let bench = RefreshBench::new().await;
    let outcome = bench.refresh(async |_| refused(AuthErrorKind::InvalidGrant)).await;
    let RefreshOutcome::LoginEnded { why, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(why.kind, AuthErrorKind::InvalidGrant);
    let kept = bench.kept().await.unwrap();
    assert!(matches!(kept.state, LoginState::NeedsLogin(_)));
    assert_eq!(kept.refresh, Some("r1".into()));
    // The spent token is not sent again.
    let again = bench.refresh(async |_| given("a2", None)).await;
    assert!(matches!(again, RefreshOutcome::LoginEnded { .. }));
    assert_eq!(bench.asked(), ["r1"]);
}

#[tokio::test]
async fn a_temporary_failure_changes_nothing() {
    for kind in [AuthErrorKind::Unavailable, AuthErrorKind::Refused, AuthErrorKind::Untrusted] {
        let bench = RefreshBench::new().await;
        let before = bench.kept().await;
        let outcome = bench.refresh(async |_| refused(kind)).await;
        assert!(matches!(outcome, RefreshOutcome::Failed(error) if error.kind == kind));
        assert_eq!(bench.kept().await, before);
        assert!(bench.is_free().await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_authorization_server_times_out_before_the_lease() {
    let bench = RefreshBench::new().await;
    let before = Instant::now();
    let outcome = bench.run(async |_, _| std::future::pending().await).await;
    assert!(matches!(outcome, RefreshOutcome::Failed(error) if error.kind == AuthErrorKind::Unavailable));
    assert_eq!(before.elapsed(), CONNECT_TIMEOUT);
    assert!(bench.is_free().await);
}

/// Once a refresh token is sent, the login depends on its response.
#[tokio::test(start_paused = true)]
async fn a_slow_response_is_awaited_while_the_lease_is_renewed() {
    let bench = RefreshBench::new().await;
    let slow = bench.refresh(async |_| {
        for _ in 0..9 {
            sleep(LEASE_TTL).await;
            assert!(!bench.is_free().await);
        }
        given("a2", Some("r2"))
    });
    assert_eq!(access(&slow.await), "a2");
    assert_eq!(bench.kept().await.unwrap().refresh, Some("r2".into()));
    assert!(bench.is_free().await);
}

#[tokio::test(start_paused = true)]
async fn a_missing_response_times_out() {
    let bench = RefreshBench::new().await;
    let before = Instant::now();
    let outcome = bench.refresh(async |_| std::future::pending().await).await;
    assert!(matches!(outcome, RefreshOutcome::Failed(error) if error.kind == AuthErrorKind::Unavailable));
    assert_eq!(before.elapsed(), RESPONSE_TIMEOUT);
    assert!(bench.is_free().await);
}

/// Another process took the lease while the connection was opened.
#[tokio::test]
async fn nothing_is_sent_on_a_connection_that_outlasted_the_lease() {
    let bench = RefreshBench::new().await;
    let (dials, sent) = (AtomicU32::new(0), AtomicU32::new(0));
    let ask = async |_: LoginRecord, fence: SendFence| {
        if dials.fetch_add(1, Ordering::Relaxed) == 0 {
            bench.store.end_lease().await;
            let other = bench.acquire_lease().await;
            bench.keep(&record("a2", Some("r2"), Some(in_an_hour()))).await;
            bench.login.store.release(other).await.unwrap();
        }
        fence
            .wait_until_open()
            .await
            .map_err(|_| AuthError::new(AuthErrorKind::Unavailable, "called off"))?;
        sent.fetch_add(1, Ordering::Relaxed);
        given("b2", Some("s2"))
    };
    let outcome = bench.run(ask).await;
    assert_eq!(access(&outcome), "a2");
    assert_eq!((dials.into_inner(), sent.into_inner()), (1, 0));
    assert!(bench.is_free().await);
}

/// The process was suspended between the confirmation and the write.
#[tokio::test]
async fn a_late_request_is_not_sent_and_the_refresh_restarts() {
    let bench = RefreshBench::new().await;
    let sent = Mutex::new(Vec::new());
    let late = AtomicBool::new(true);
    let ask = async |record: LoginRecord, fence: SendFence| {
        let window =
            fence.wait_until_open().await.map_err(|_| AuthError::new(AuthErrorKind::Unavailable, "no"))?;
        let window =
            if late.swap(false, Ordering::Relaxed) { SendWindow::new(Duration::ZERO) } else { window };
        if !fence.check_window(window) {
            return refused(AuthErrorKind::Unavailable);
        }
        sent.lock().push(record.refresh.unwrap().expose().to_owned());
        given("a2", Some("r2"))
    };
    let outcome = bench.run(ask).await;
    assert_eq!(access(&outcome), "a2");
    assert_eq!(sent.into_inner(), ["r1"]);
    assert!(bench.is_free().await);
}

/// A refresh token that is sent twice, such as with a nonce, is sent under a confirmed lease each
/// time.
#[tokio::test]
async fn a_repeated_request_confirms_the_lease_again() {
    for lost in [false, true] {
        let bench = RefreshBench::new().await;
        let sent = AtomicU32::new(0);
        let ask = async |_: LoginRecord, fence: SendFence| {
            fence.wait_until_open().await.unwrap();
            sent.fetch_add(1, Ordering::Relaxed);
            if lost {
                bench.store.end_lease().await;
            }
            fence
                .wait_until_open()
                .await
                .map_err(|_| AuthError::new(AuthErrorKind::Unavailable, "called off"))?;
            sent.fetch_add(1, Ordering::Relaxed);
            given("a2", Some("r2"))
        };
        let ask = |record, fence| Box::pin(ask(record, fence));
        let (url, goal) = (url(), RefreshGoal { stale_token: Some(Secret::new("a1")), unsaved: None });
        let outcome = Box::pin(run_refresh(&bench.login, (&bench.auth, &url), goal, ask, |_| true)).await;
        assert_eq!(matches!(outcome, RefreshOutcome::Current(..)), !lost, "{outcome:?}");
        assert_eq!(sent.into_inner(), if lost { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_logout_meanwhile_stays_a_logout() {
    let bench = RefreshBench::new().await;
    let outcome = bench
        .refresh(async |_| {
            bench.login.store.remove(&bench.login.key, Precondition::Any).await.unwrap();
            given("a2", Some("r2"))
        })
        .await;
    assert!(matches!(outcome, RefreshOutcome::LoggedOut(Some(given)) if given.access == "a2".into()));
    assert_eq!(bench.kept().await, None);
}

// A former holder of the lease was refused with the refresh token that our tokens were received
// for.
#[tokio::test]
async fn an_end_marked_by_another_process_does_not_discard_new_tokens() {
    let bench = RefreshBench::new().await;
    let outcome = bench
        .refresh(async |_| {
            bench.keep(&bench.kept().await.unwrap().with_login_needed("refused")).await;
            given("a2", Some("r2"))
        })
        .await;
    assert_eq!(access(&outcome), "a2");
    let kept = bench.kept().await.unwrap();
    assert_eq!((kept.state, kept.refresh), (LoginState::Ok, Some("r2".into())));
}

#[tokio::test]
async fn a_login_meanwhile_is_not_overwritten() {
    let bench = RefreshBench::new().await;
    let mut login = record("b1", Some("s1"), Some(in_an_hour()));
    login.logged_in_at = SystemTime::now();
    let outcome = bench
        .refresh(async |_| {
            bench.keep(&login).await;
            given("a2", Some("r2"))
        })
        .await;
    assert_eq!(access(&outcome), "b1");
    assert_eq!(bench.kept().await, Some(login));
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_loses_nothing_and_keeps_the_lease() {
    let bench = RefreshBench::new().await;
    let refresh = bench.refresh(async |_| {
        bench.store.writes_fail.store(true, Ordering::Relaxed);
        given("a2", Some("r2"))
    });
    let watch = async {
        sleep(Duration::from_secs(6)).await;
        assert!(!bench.is_free().await);
        bench.store.writes_fail.store(false, Ordering::Relaxed);
    };
    let (outcome, ()) = tokio::join!(refresh, watch);
    assert_eq!(access(&outcome), "a2");
    assert_eq!(bench.kept().await.unwrap().refresh, Some("r2".into()));
}

#[tokio::test(start_paused = true)]
async fn unsaved_tokens_are_returned_and_saved_by_the_next_refresh() {
    let bench = RefreshBench::new().await;
    bench.store.writes_fail.store(true, Ordering::Relaxed);
    let outcome = bench.refresh(async |_| given("a2", Some("r2"))).await;
    let RefreshOutcome::Unsaved(mine) = outcome else { panic!("{outcome:?}") };
    assert_eq!(mine.record.access, "a2".into());
    assert_eq!(bench.kept().await.unwrap().refresh, Some("r1".into()));
    // The store works again, and the next refresh starts with the unsaved login: r1 is never sent
    // again.
    bench.store.writes_fail.store(false, Ordering::Relaxed);
    let before = Instant::now();
    let outcome = bench.refresh_with(Some(mine), async |_| given("a3", Some("r3"))).await;
    assert_eq!(access(&outcome), "a3");
    assert_eq!(bench.asked(), ["r1", "r2"]);
    // It does not wait for its own lease, which could not be released.
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert!(bench.is_free().await);
}

/// Without rotation, a refresh loses nothing: it does not wait for the save, keeps no lease, and is
/// repeated if the disk stays full for longer than the token lives.
#[tokio::test(start_paused = true)]
async fn tokens_that_can_be_requested_again_are_used_unsaved() {
    let bench = RefreshBench::new().await;
    bench.store.writes_fail.store(true, Ordering::Relaxed);
    let before = Instant::now();
    let outcome = bench.refresh(async |_| given("a2", None)).await;
    let RefreshOutcome::Unsaved(mine) = outcome else { panic!("{outcome:?}") };
    assert_eq!((mine.record.access.expose(), before.elapsed()), ("a2", Duration::ZERO));
    assert!(mine.right.0.is_none());
    let outcome = bench.refresh_with(Some(mine), async |_| given("a3", None)).await;
    let RefreshOutcome::Unsaved(mine) = outcome else { panic!("{outcome:?}") };
    assert_eq!(mine.record.access.expose(), "a3");
    assert_eq!(bench.asked(), ["r1", "r1"]);
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_an_error_and_nobody_is_asked() {
    let bench = RefreshBench::new().await;
    bench.store.all_fail.store(true, Ordering::Relaxed);
    let outcome = bench.refresh(async |_| given("a2", None)).await;
    assert!(matches!(outcome, RefreshOutcome::Failed(error) if error.kind == AuthErrorKind::Store));
    assert!(bench.asked().is_empty());
}

#[tokio::test]
async fn only_a_registered_client_that_is_unknown_ends_the_login() {
    let bench = RefreshBench::new().await;
    let outcome = bench.refresh(async |_| refused(AuthErrorKind::InvalidClient)).await;
    assert!(
        matches!(outcome, RefreshOutcome::LoginEnded { why, .. } if why.kind == AuthErrorKind::InvalidClient)
    );

    let bench = RefreshBench::new().await;
    let mut configured = record("a1", Some("r1"), Some(SystemTime::now()));
    configured.client.as_mut().unwrap().origin = crate::client::ClientOrigin::Configured;
    bench.keep(&configured).await;
    let outcome = bench.refresh(async |_| refused(AuthErrorKind::InvalidClient)).await;
    assert!(matches!(outcome, RefreshOutcome::Failed(error) if error.kind == AuthErrorKind::Setup));
    assert_eq!(bench.kept().await, Some(configured));
}

// AX-09: an assertion is sent once, and its refusal is reported.
#[tokio::test]
async fn a_refused_assertion_is_not_sent_again() {
    let bench = RefreshBench::new().await;
    let auth = with!(AuthSettings::default(), grant: bowline_config::Grant::ClientCredentials);
    let mut machine = record("a1", None, Some(SystemTime::now()));
    machine.by = crate::record::GrantKind::ClientCredentials;
    bench.keep(&machine).await;
    let bench = RefreshBench { auth, ..bench };
    let outcome = bench.refresh(async |_| refused(AuthErrorKind::InvalidGrant)).await;
    assert!(matches!(outcome, RefreshOutcome::Failed(error) if error.kind == AuthErrorKind::InvalidGrant));
    assert_eq!(bench.asked().len(), 1);
    assert_eq!(bench.kept().await, Some(machine));
}

#[tokio::test(start_paused = true)]
async fn a_dead_process_is_waited_for_until_its_lease_expires() {
    let bench = RefreshBench::new().await;
    let before = Instant::now();
    // Neither released nor renewed.
    let _dead = bench.acquire_lease().await;
    let outcome = bench.refresh(async |_| given("a2", Some("r2"))).await;
    assert_eq!(access(&outcome), "a2");
    assert!(before.elapsed() <= LEASE_TTL + Duration::from_secs(1), "{:?}", before.elapsed());
}

/// A program that is exiting acquires no lease, because it would never release it. Progress reports
/// say when the critical section starts and when it did not start after all.
#[tokio::test(start_paused = true)]
async fn the_critical_section_is_reported_and_can_be_refused() {
    let bench = RefreshBench::new().await;
    let (url, name) = (url(), bench.login.lease_name());
    let goal = || RefreshGoal { stale_token: Some(Secret::new("a1")), unsaved: None };
    let ask = |_, _| async { given("a2", Some("r2")) };
    let ended = run_refresh(&bench.login, (&bench.auth, &url), goal(), ask, |_| false).await;
    assert!(matches!(ended, RefreshOutcome::Failed(error) if error.kind == AuthErrorKind::Unavailable));
    assert!(bench.is_free().await);
    let lease = bench.login.store.acquire(&name, LEASE_TTL).await.unwrap().unwrap();
    let passed = Mutex::new(Vec::new());
    let other = async {
        sleep(Duration::from_secs(1)).await;
        bench.login.store.release(lease).await.unwrap();
    };
    let note = |pass| {
        passed.lock().push(pass);
        true
    };
    let refresh = run_refresh(&bench.login, (&bench.auth, &url), goal(), ask, note);
    let (outcome, ()) = tokio::join!(refresh, other);
    assert_eq!(access(&outcome), "a2");
    let mut passed = passed.into_inner();
    assert_eq!(passed.pop(), Some(RefreshProgress::Requesting));
    assert_eq!(passed.last(), Some(&RefreshProgress::Starting), "it had the lease");
    assert!(passed.len() > 2 && passed.windows(2).all(|two| two[0] != two[1]), "{passed:?}");
}
