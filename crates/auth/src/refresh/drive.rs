//! Performs the steps of a refresh: reads and writes the store, waits, and sends the token request.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::Auth;
use bowline_store::{Expect, Key, Lease, Safe, Version};
use bowline_transport::http::{Fence, Window};
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use super::core::{KeptRight, News, Now, Outcome, Renewal, Right, Step, Wish};
use crate::error::{AuthError, AuthErrorKind};
use crate::record::Record;
use crate::tokens::Tokens;

/// Progress of a refresh, reported to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The critical section is about to begin. The caller may refuse it.
    In,
    /// The critical section did not begin after all.
    Out,
    /// The lock or lease is held by another process, which is waited for; its process id, if known.
    Others(Option<u32>),
    /// The authorization server is about to be contacted.
    Asking,
    /// The new tokens could not be saved yet, for this reason; the login would be lost with them.
    Unwritten(AuthError),
}

/// The place of one login in the store.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    pub(crate) safe: Safe,
    pub(crate) key: Key,
}

/// How long a lease lasts without renewal. A process that dies blocks the others for this long.
pub(crate) const TTL: Duration = Duration::from_secs(30);
/// Timeout for everything up to sending the request; for the whole request if it carries nothing
/// that can be used once.
const DIALING: Duration = Duration::from_secs(25);
/// How long after the confirmation of the lease the request may be sent. The rest of the lease
/// covers the transmission.
pub(crate) const SENDING: Duration = Duration::from_secs(10);
/// Timeout for a response that carries single-use tokens. It is long because giving up costs the
/// login. Other processes wait for the lock meanwhile.
pub(crate) const ANSWERING: Duration = Duration::from_secs(300);
/// Intervals at which the store is polled while another process refreshes, in milliseconds. The
/// first polls are faster, because most refreshes are quick.
const PAUSE: std::ops::Range<u64> = 50..200;
const FIRST_PAUSE: std::ops::Range<u64> = 15..50;
const FIRST_PAUSES: u32 = 4;

impl Shelf {
    /// Reads the login, unless it belongs to another configuration of the server.
    pub(crate) async fn read(&self, auth: &Auth, url: &Url) -> Result<Option<(Record, Version)>, AuthError> {
        let found = self.safe.get::<Record>(&self.key).await?;
        Ok(found.filter(|(record, _)| record.is_for(auth, url)))
    }

    /// Writes a login over a version, or where there is none. Returns `None` if another process was
    /// first.
    async fn write(
        &self,
        entry: (&Auth, &Url),
        record: &Record,
        over: Option<Version>,
    ) -> Result<Option<Version>, AuthError> {
        let expect = match over {
            Some(version) => Expect::At(version),
            // A login of another configuration counts as absent, but has a version that must be
            // named.
            None => match self.safe.get::<Record>(&self.key).await? {
                Some((kept, _)) if kept.is_for(entry.0, entry.1) => return Ok(None),
                Some((_, version)) => Expect::At(version),
                None => Expect::Nothing,
            },
        };
        Ok(self.safe.put(&self.key, record, expect).await?)
    }

    /// The name of the lease for refreshes.
    pub(crate) fn lease(&self) -> String {
        format!("refresh/{}", self.key.id)
    }
}

/// A token request that waits for its fence.
struct Ready<F> {
    asking: Pin<Box<F>>,
    fence: Fence,
    /// Set when the lease is confirmed.
    window: Option<Window>,
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
pub(crate) async fn renew<F>(
    shelf: &Shelf,
    entry: (&Auth, &Url),
    wish: Wish,
    ask: impl Fn(Record, Fence) -> F,
    pass: impl Fn(Pass) -> bool,
) -> Outcome
where
    F: Future<Output = Result<Tokens, AuthError>>,
{
    let mut held: Option<Right> = None;
    let kept = wish.unsaved.as_ref().and_then(|mine| mine.right.0.clone());
    let mut ready: Option<Ready<F>> = None;
    let mut pauses = 0;
    let (mut renewal, mut step) = Renewal::new(now(), wish);
    loop {
        let news = match step {
            Step::Read => match shelf.read(entry.0, entry.1).await {
                Ok(found) => News::Found(found),
                Err(error) => News::StoreFailed(error),
            },
            Step::Acquire if !pass(Pass::In) => {
                return Outcome::Failed(AuthError::new(AuthErrorKind::Unavailable, "the program is ending"));
            }
            Step::Acquire => {
                let news = acquire(shelf, kept.clone(), &mut held).await;
                if held.is_none() {
                    pass(Pass::Out);
                }
                if let News::Taken(by) = news {
                    pass(Pass::Others(by));
                }
                news
            }
            Step::Pause => {
                pauses += 1;
                let range = if pauses <= FIRST_PAUSES { FIRST_PAUSE } else { PAUSE };
                sleep(Duration::from_millis(fastrand::u64(range))).await;
                News::Waited
            }
            Step::Dial(record) => {
                pass(Pass::Asking);
                let fence = Fence::new(ANSWERING);
                let asking = Box::pin(ask(*record, fence.clone()));
                let mut request = Ready { asking, fence, window: None };
                let news = holding(&shelf.safe, held.lease(), request.dial()).await;
                ready = matches!(news, News::Dialed).then_some(request);
                news
            }
            Step::Confirm => {
                let window = Window::new(SENDING);
                let news = confirm(&shelf.safe, &mut held).await;
                match (&news, &mut ready) {
                    (News::Confirmed, Some(ready)) => ready.window = Some(window),
                    // The connection is dropped.
                    _ => ready = None,
                }
                news
            }
            Step::Send => match ready.take() {
                Some(request) => {
                    let news =
                        holding(&shelf.safe, held.lease(), request.send(&shelf.safe, held.lease())).await;
                    if matches!(news, News::Lost)
                        && let Some(held) = held.take()
                    {
                        // The lease may still be ours, and would block us.
                        held.release(&shelf.safe).await;
                    }
                    news
                }
                None => News::Lost,
            },
            Step::Write(record, version) => {
                let write = shelf.write(entry, &record, version);
                match holding(&shelf.safe, held.lease(), write).await {
                    Ok(Some(version)) => News::Wrote(version),
                    Ok(None) => News::Outrun,
                    Err(error) => {
                        if renewal.is_at_stake() {
                            pass(Pass::Unwritten(error.clone()));
                        }
                        News::StoreFailed(error)
                    }
                }
            }
            Step::Hold(wait) => {
                holding(&shelf.safe, held.lease(), sleep(wait)).await;
                News::Waited
            }
            Step::Done(mut outcome) => {
                match (&mut *outcome, held.take()) {
                    (Outcome::Unsaved(mine), held) if mine.is_at_stake() => mine.right = KeptRight(held),
                    (_, Some(held)) => held.release(&shelf.safe).await,
                    (_, None) => {}
                }
                return *outcome;
            }
        };
        step = renewal.handle(now(), news);
    }
}

/// Acquires the lock, unless it was retained, then the lease. The lock comes first, because its
/// holder may be suspended after its lease has expired.
async fn acquire(shelf: &Shelf, kept: Option<Right>, held: &mut Option<Right>) -> News {
    let name = shelf.lease();
    let lock = match kept {
        Some(kept) => match shelf.safe.renew(&kept.lease, TTL).await {
            Ok(true) => {
                *held = Some(kept);
                return News::Acquired;
            }
            Ok(false) => kept.lock,
            Err(error) => return News::StoreFailed(error.into()),
        },
        None => match shelf.safe.lock(&name).await {
            Ok(Ok(lock)) => Arc::new(lock),
            Ok(Err(locked)) => return News::Taken(locked.by),
            Err(error) => return News::StoreFailed(error.into()),
        },
    };
    match shelf.safe.acquire(&name, TTL).await {
        Ok(Some(lease)) => {
            *held = Some(Right { lease, lock });
            News::Acquired
        }
        Ok(None) => News::Taken(None),
        Err(error) => News::StoreFailed(error.into()),
    }
}

impl Right {
    async fn release(self, safe: &Safe) {
        let name = self.lease.name.clone();
        if let Err(error) = safe.release(self.lease).await {
            // The lease expires by itself.
            tracing::debug!(%error, lease = name, "a lease could not be given back");
        }
    }
}

/// Access to the lease of an optional right.
trait Leased {
    fn lease(&self) -> Option<&Lease>;
}

impl Leased for Option<Right> {
    fn lease(&self) -> Option<&Lease> {
        self.as_ref().map(|held| &held.lease)
    }
}

impl<F: Future<Output = Result<Tokens, AuthError>>> Ready<F> {
    /// Runs the request up to its fence, or to the end if it needs no fence.
    async fn dial(&mut self) -> News {
        let dialed = async {
            tokio::select! {
                biased;
                answer = &mut self.asking => told(answer),
                () = self.fence.reached() => News::Dialed,
            }
        };
        timeout(DIALING, dialed).await.unwrap_or_else(|_| unanswered(DIALING))
    }

    /// Opens the fence and waits for the response. If the request is repeated under the same fence,
    /// such as with a nonce, the lease is confirmed again first.
    async fn send(mut self, safe: &Safe, lease: Option<&Lease>) -> News {
        let Some(window) = self.window else { return News::Lost };
        self.fence.open(window);
        let answered = async {
            loop {
                tokio::select! {
                    biased;
                    answer = &mut self.asking => return answer,
                    () = self.fence.reached() => {
                        let window = Window::new(SENDING);
                        let ours = match lease {
                            Some(lease) => safe.renew(lease, TTL).await.unwrap_or(false),
                            None => false,
                        };
                        if ours { self.fence.open(window) } else { self.fence.close() }
                    }
                }
            }
        };
        match timeout(ANSWERING, answered).await {
            Ok(Err(_)) if self.fence.was_missed() => News::Lost,
            Ok(answer) => told(answer),
            Err(_) => unanswered(ANSWERING),
        }
    }
}

fn unanswered(limit: Duration) -> News {
    let what = format!("the authorization server did not answer within {} s", limit.as_secs());
    News::Refused(AuthError::new(AuthErrorKind::Unavailable, what))
}

fn told(answer: Result<Tokens, AuthError>) -> News {
    match answer {
        Ok(tokens) => News::Given(tokens),
        Err(error) => News::Refused(error),
    }
}

/// Reads both clocks.
pub(crate) fn now() -> Now {
    Now { wall: SystemTime::now(), steady: Instant::now().into_std() }
}

async fn confirm(safe: &Safe, held: &mut Option<Right>) -> News {
    let Some(lease) = held.lease() else { return News::Lost };
    match safe.renew(lease, TTL).await {
        Ok(true) => News::Confirmed,
        Ok(false) => {
            *held = None;
            News::Lost
        }
        Err(error) => News::StoreFailed(error.into()),
    }
}

/// Runs `work` while renewing the lease. If the lease cannot be renewed, `work` continues, because
/// it cannot be undone.
pub(crate) async fn holding<T>(safe: &Safe, held: Option<&Lease>, work: impl Future<Output = T>) -> T {
    let Some(lease) = held else { return work.await };
    let keep = async {
        loop {
            sleep(TTL / 3).await;
            if let Err(error) = safe.renew(lease, TTL).await {
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
