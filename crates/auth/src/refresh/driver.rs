//! Performs the steps of a refresh: reads and writes the store, waits, and sends the token request.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::AuthSettings;
use bowline_store::{EncryptedStore, Key, Lease, Precondition, Version};
use bowline_transport::http::{SendFence, SendWindow};
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use super::core::{
    ClockReading, RefreshEvent, RefreshGoal, RefreshMachine, RefreshOutcome, RefreshRight, RetainedRight,
    Step,
};
use crate::error::{AuthError, AuthErrorKind};
use crate::record::LoginRecord;
use crate::tokens::Tokens;

/// Progress of a refresh, reported to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RefreshProgress {
    /// The critical section is about to begin. The caller may refuse it.
    Starting,
    /// The critical section did not begin after all.
    NotStarted,
    /// The lock or lease is held by another process, which is waited for; its process id, if known.
    WaitingForOther(Option<u32>),
    /// The authorization server is about to be contacted.
    Requesting,
    /// The new tokens could not be saved yet, for this reason; the login would be lost with them.
    SaveFailed(AuthError),
}

/// The place of one login in the store.
#[derive(Clone, Debug)]
pub(crate) struct LoginStore {
    pub(crate) store: EncryptedStore,
    pub(crate) key: Key,
}

/// How long a lease lasts without renewal. A process that dies blocks the others for this long.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(30);
/// Timeout for everything up to sending the request; for the whole request if it carries nothing
/// that can be used once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(25);
/// How long after the confirmation of the lease the request may be sent. The rest of the lease
/// covers the transmission.
pub(crate) const SEND_WINDOW: Duration = Duration::from_secs(10);
/// Timeout for a response that carries single-use tokens. It is long because giving up costs the
/// login. Other processes wait for the lock meanwhile.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);
/// Intervals at which the store is polled while another process refreshes, in milliseconds. The
/// first polls are faster, because most refreshes are quick.
const POLL_INTERVAL_MS: std::ops::Range<u64> = 50..200;
const FIRST_POLL_INTERVAL_MS: std::ops::Range<u64> = 15..50;
const FIRST_POLLS: u32 = 4;

impl LoginStore {
    /// Reads the login, unless it belongs to another configuration of the server.
    pub(crate) async fn read(
        &self,
        auth: &AuthSettings,
        url: &Url,
    ) -> Result<Option<(LoginRecord, Version)>, AuthError> {
        let found = self.store.get::<LoginRecord>(&self.key).await?;
        Ok(found.filter(|(record, _)| record.belongs_to(auth, url)))
    }

    /// Writes a login over a version, or where there is none. Returns `None` if another process was
    /// first.
    async fn write(
        &self,
        entry: (&AuthSettings, &Url),
        record: &LoginRecord,
        over: Option<Version>,
    ) -> Result<Option<Version>, AuthError> {
        let expect = match over {
            Some(version) => Precondition::AtVersion(version),
            // A login of another configuration counts as absent, but has a version that must be
            // named.
            None => match self.store.get::<LoginRecord>(&self.key).await? {
                Some((kept, _)) if kept.belongs_to(entry.0, entry.1) => return Ok(None),
                Some((_, version)) => Precondition::AtVersion(version),
                None => Precondition::Absent,
            },
        };
        Ok(self.store.put(&self.key, record, expect).await?)
    }

    /// The name of the lease for refreshes.
    pub(crate) fn lease_name(&self) -> String {
        format!("refresh/{}", self.key.id)
    }
}

/// A token request that waits for its fence.
struct PreparedRequest<F> {
    response: Pin<Box<F>>,
    fence: SendFence,
    /// Set when the lease is confirmed.
    window: Option<SendWindow>,
}

/// Runs a refresh.
///
/// `request_tokens` requests tokens for a record. If the request carries a single-use token, it
/// holds the request back until the fence opens. `on_progress` is called before lock and lease are
/// acquired, and may refuse that because the program is exiting: a lease that is never released
/// blocks every other process. It is called again if they were not acquired after all. Its result
/// is ignored for all other reports.
///
/// A login that could not be saved keeps lock and lease in
/// [`UnsavedLogin::right`](super::core::UnsavedLogin::right): otherwise another process would use
/// the spent refresh token as soon as the disk has room again.
///
/// Run it in its own task: dropping it may lose the new tokens.
pub(crate) async fn run_refresh<F>(
    login_store: &LoginStore,
    server: (&AuthSettings, &Url),
    goal: RefreshGoal,
    request_tokens: impl Fn(LoginRecord, SendFence) -> F,
    on_progress: impl Fn(RefreshProgress) -> bool,
) -> RefreshOutcome
where
    F: Future<Output = Result<Tokens, AuthError>>,
{
    let mut held: Option<RefreshRight> = None;
    let kept = goal.unsaved.as_ref().and_then(|mine| mine.right.0.clone());
    let mut ready: Option<PreparedRequest<F>> = None;
    let mut pauses = 0;
    let (mut machine, mut step) = RefreshMachine::new(now(), goal);
    loop {
        let news = match step {
            Step::Read => match login_store.read(server.0, server.1).await {
                Ok(found) => RefreshEvent::RecordRead(found),
                Err(error) => RefreshEvent::StoreFailed(error),
            },
            Step::Acquire if !on_progress(RefreshProgress::Starting) => {
                return RefreshOutcome::Failed(AuthError::new(
                    AuthErrorKind::Unavailable,
                    "the program is ending",
                ));
            }
            Step::Acquire => {
                let news = acquire(login_store, kept.clone(), &mut held).await;
                if held.is_none() {
                    on_progress(RefreshProgress::NotStarted);
                }
                if let RefreshEvent::HeldByOther(by) = news {
                    on_progress(RefreshProgress::WaitingForOther(by));
                }
                news
            }
            Step::Pause => {
                pauses += 1;
                let range = if pauses <= FIRST_POLLS { FIRST_POLL_INTERVAL_MS } else { POLL_INTERVAL_MS };
                sleep(Duration::from_millis(fastrand::u64(range))).await;
                RefreshEvent::Waited
            }
            Step::Connect(record) => {
                on_progress(RefreshProgress::Requesting);
                let fence = SendFence::new(RESPONSE_TIMEOUT);
                let response = Box::pin(request_tokens(*record, fence.clone()));
                let mut request = PreparedRequest { response, fence, window: None };
                let news = keep_lease_during(&login_store.store, held.lease(), request.connect()).await;
                ready = matches!(news, RefreshEvent::Connected).then_some(request);
                news
            }
            Step::ConfirmLease => {
                let window = SendWindow::new(SEND_WINDOW);
                let news = confirm_lease(&login_store.store, &mut held).await;
                match (&news, &mut ready) {
                    (RefreshEvent::Confirmed, Some(ready)) => ready.window = Some(window),
                    // The connection is dropped.
                    _ => ready = None,
                }
                news
            }
            Step::Send => match ready.take() {
                Some(request) => {
                    let news = keep_lease_during(
                        &login_store.store,
                        held.lease(),
                        request.send(&login_store.store, held.lease()),
                    )
                    .await;
                    if matches!(news, RefreshEvent::LeaseLost)
                        && let Some(held) = held.take()
                    {
                        // The lease may still be ours, and would block us.
                        held.release(&login_store.store).await;
                    }
                    news
                }
                None => RefreshEvent::LeaseLost,
            },
            Step::Write(record, version) => {
                let write = login_store.write(server, &record, version);
                match keep_lease_during(&login_store.store, held.lease(), write).await {
                    Ok(Some(version)) => RefreshEvent::Written(version),
                    Ok(None) => RefreshEvent::VersionConflict,
                    Err(error) => {
                        if machine.would_lose_login() {
                            on_progress(RefreshProgress::SaveFailed(error.clone()));
                        }
                        RefreshEvent::StoreFailed(error)
                    }
                }
            }
            Step::WaitWithLease(wait) => {
                keep_lease_during(&login_store.store, held.lease(), sleep(wait)).await;
                RefreshEvent::Waited
            }
            Step::Done(mut outcome) => {
                match (&mut *outcome, held.take()) {
                    (RefreshOutcome::Unsaved(mine), held) if mine.would_lose_login() => {
                        mine.right = RetainedRight(held);
                    }
                    (_, Some(held)) => held.release(&login_store.store).await,
                    (_, None) => {}
                }
                return *outcome;
            }
        };
        step = machine.handle_event(now(), news);
    }
}

/// Acquires the lock, unless it was retained, then the lease. The lock comes first, because its
/// holder may be suspended after its lease has expired.
async fn acquire(
    login_store: &LoginStore,
    kept: Option<RefreshRight>,
    held: &mut Option<RefreshRight>,
) -> RefreshEvent {
    let name = login_store.lease_name();
    let lock = match kept {
        Some(kept) => match login_store.store.renew(&kept.lease, LEASE_TTL).await {
            Ok(true) => {
                *held = Some(kept);
                return RefreshEvent::Acquired;
            }
            Ok(false) => kept.lock,
            Err(error) => return RefreshEvent::StoreFailed(error.into()),
        },
        None => match login_store.store.lock(&name).await {
            Ok(Ok(lock)) => Arc::new(lock),
            Ok(Err(locked)) => return RefreshEvent::HeldByOther(locked.pid),
            Err(error) => return RefreshEvent::StoreFailed(error.into()),
        },
    };
    match login_store.store.acquire(&name, LEASE_TTL).await {
        Ok(Some(lease)) => {
            *held = Some(RefreshRight { lease, lock });
            RefreshEvent::Acquired
        }
        Ok(None) => RefreshEvent::HeldByOther(None),
        Err(error) => RefreshEvent::StoreFailed(error.into()),
    }
}

impl RefreshRight {
    async fn release(self, store: &EncryptedStore) {
        let name = self.lease.name.clone();
        if let Err(error) = store.release(self.lease).await {
            // The lease expires by itself.
            tracing::debug!(%error, lease = name, "a lease could not be given back");
        }
    }
}

/// Access to the lease of an optional right.
trait AsLease {
    fn lease(&self) -> Option<&Lease>;
}

impl AsLease for Option<RefreshRight> {
    fn lease(&self) -> Option<&Lease> {
        self.as_ref().map(|held| &held.lease)
    }
}

impl<F: Future<Output = Result<Tokens, AuthError>>> PreparedRequest<F> {
    /// Runs the request up to its fence, or to the end if it needs no fence.
    async fn connect(&mut self) -> RefreshEvent {
        let dialed = async {
            tokio::select! {
                biased;
                answer = &mut self.response => response_event(answer),
                () = self.fence.wait_for_request() => RefreshEvent::Connected,
            }
        };
        timeout(CONNECT_TIMEOUT, dialed).await.unwrap_or_else(|_| timeout_event(CONNECT_TIMEOUT))
    }

    /// Opens the fence and waits for the response. If the request is repeated under the same fence,
    /// such as with a nonce, the lease is confirmed again first.
    async fn send(mut self, store: &EncryptedStore, lease: Option<&Lease>) -> RefreshEvent {
        let Some(window) = self.window else { return RefreshEvent::LeaseLost };
        self.fence.open(window);
        let answered = async {
            loop {
                tokio::select! {
                    biased;
                    answer = &mut self.response => return answer,
                    () = self.fence.wait_for_request() => {
                        let window = SendWindow::new(SEND_WINDOW);
                        let ours = match lease {
                            Some(lease) => store.renew(lease, LEASE_TTL).await.unwrap_or(false),
                            None => false,
                        };
                        if ours { self.fence.open(window) } else { self.fence.close() }
                    }
                }
            }
        };
        match timeout(RESPONSE_TIMEOUT, answered).await {
            Ok(Err(_)) if self.fence.was_missed() => RefreshEvent::LeaseLost,
            Ok(answer) => response_event(answer),
            Err(_) => timeout_event(RESPONSE_TIMEOUT),
        }
    }
}

fn timeout_event(limit: Duration) -> RefreshEvent {
    let what = format!("the authorization server did not answer within {} s", limit.as_secs());
    RefreshEvent::RequestFailed(AuthError::new(AuthErrorKind::Unavailable, what))
}

fn response_event(answer: Result<Tokens, AuthError>) -> RefreshEvent {
    match answer {
        Ok(tokens) => RefreshEvent::TokensReceived(tokens),
        Err(error) => RefreshEvent::RequestFailed(error),
    }
}

/// Reads both clocks.
pub(crate) fn now() -> ClockReading {
    ClockReading { wall: SystemTime::now(), monotonic: Instant::now().into_std() }
}

async fn confirm_lease(store: &EncryptedStore, held: &mut Option<RefreshRight>) -> RefreshEvent {
    let Some(lease) = held.lease() else { return RefreshEvent::LeaseLost };
    match store.renew(lease, LEASE_TTL).await {
        Ok(true) => RefreshEvent::Confirmed,
        Ok(false) => {
            *held = None;
            RefreshEvent::LeaseLost
        }
        Err(error) => RefreshEvent::StoreFailed(error.into()),
    }
}

/// Runs `work` while renewing the lease. If the lease cannot be renewed, `work` continues, because
/// it cannot be undone.
pub(crate) async fn keep_lease_during<T>(
    store: &EncryptedStore,
    held: Option<&Lease>,
    work: impl Future<Output = T>,
) -> T {
    let Some(lease) = held else { return work.await };
    let keep = async {
        loop {
            sleep(LEASE_TTL / 3).await;
            if let Err(error) = store.renew(lease, LEASE_TTL).await {
                tracing::debug!(%error, lease = lease.name, "a lease could not be renewed");
            }
        }
    };
    tokio::select! {
        done = work => done,
        never = keep => { let never: Infallible = never; match never {} }
    }
}

#[cfg(test)]
mod tests;
