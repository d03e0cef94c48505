//! Owns how a renewal is carried out: the steps that the core asks for, done with a store, a clock and whoever
//! gives tokens.

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

/// What a refresh tells whoever carries it out, as it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// What must not be broken off is about to begin. Whoever is told may refuse it.
    In,
    /// It did not begin after all.
    Out,
    /// Another process holds the lock or the lease, and is waited for; its id, where that is known.
    Others(Option<u32>),
    /// The authorization server is about to be asked.
    Asking,
    /// What it gave could not be written down yet, and why; the login is lost with it.
    Unwritten(AuthError),
}

/// Where one login is kept.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    pub(crate) safe: Safe,
    pub(crate) key: Key,
}

/// How long a lease is good without being renewed: so long may a process that died hold up the others.
pub(crate) const TTL: Duration = Duration::from_secs(30);
/// How long it may take until a request can be sent; or until it is answered, if it has nothing that can be used once.
const DIALING: Duration = Duration::from_secs(25);
/// How long after the lease was confirmed the request may be sent. What is left of the lease is for the way.
pub(crate) const SENDING: Duration = Duration::from_secs(10);
/// How long an answer is waited for that brings what can be used once, whoever has left meanwhile: to give up would cost
/// the login. Others wait for the lock until then.
pub(crate) const ANSWERING: Duration = Duration::from_secs(300);
/// How often somebody else's doing is looked at, in milliseconds: soon at first, for most are done soon.
const PAUSE: std::ops::Range<u64> = 50..200;
const FIRST_PAUSE: std::ops::Range<u64> = 15..50;
const FIRST_PAUSES: u32 = 4;

impl Shelf {
    /// What is kept, unless it is of another entry.
    pub(crate) async fn read(&self, auth: &Auth, url: &Url) -> Result<Option<(Record, Version)>, AuthError> {
        let found = self.safe.get::<Record>(&self.key).await?;
        Ok(found.filter(|(record, _)| record.is_for(auth, url)))
    }

    /// Writes a login in place of a version, or where there is none. `None`: somebody else was first.
    async fn write(
        &self,
        entry: (&Auth, &Url),
        record: &Record,
        over: Option<Version>,
    ) -> Result<Option<Version>, AuthError> {
        let expect = match over {
            Some(version) => Expect::At(version),
            // What is of another entry is as good as nothing, and has a version all the same.
            None => match self.safe.get::<Record>(&self.key).await? {
                Some((kept, _)) if kept.is_for(entry.0, entry.1) => return Ok(None),
                Some((_, version)) => Expect::At(version),
                None => Expect::Nothing,
            },
        };
        Ok(self.safe.put(&self.key, record, expect).await?)
    }

    /// What the lease for renewals is called.
    pub(crate) fn lease(&self) -> String {
        format!("refresh/{}", self.key.id)
    }
}

/// A request that waits for its fence.
struct Ready<F> {
    asking: Pin<Box<F>>,
    fence: Fence,
    /// Opened when the lease was confirmed.
    window: Option<Window>,
}

/// Carries out a renewal. `ask` has tokens given for a record; it holds the request back until the fence opens if it
/// sends something that can be used once. `pass` is told when the lease is about to be had, and may say no because the
/// program is ending; and when it was not had after all. A lease that nobody gives back holds up every other process.
/// What else `pass` is told needs no answer.
///
/// What could not be written down keeps the lock and the lease, in [`Unsaved::right`](super::core::Unsaved::right): as
/// soon as the disk has room again, another process would use the refresh token that was spent for it.
///
/// To be run in a task of its own: whoever drops it may lose what was given.
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
                    // The connection is given up.
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
                        // It may still be ours, and would keep us out.
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

/// Takes the lock first, unless it was `kept`: whoever holds that may be standing still, and its lease has ended.
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
            // It ends by itself.
            tracing::debug!(%error, lease = name, "a lease could not be given back");
        }
    }
}

/// The lease of what is held, if anything is.
trait Leased {
    fn lease(&self) -> Option<&Lease>;
}

impl Leased for Option<Right> {
    fn lease(&self) -> Option<&Lease> {
        self.as_ref().map(|held| &held.lease)
    }
}

impl<F: Future<Output = Result<Tokens, AuthError>>> Ready<F> {
    /// Goes as far as the fence, or to the end if there is nothing to hold back.
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

    /// Sends the request, and waits for the answer. A request that is made again under the same fence, because the
    /// first was refused for its form, needs a lease that is confirmed again.
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

/// The time, by both clocks.
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

/// Does something, and has the lease last meanwhile. One that cannot be renewed ends; what is done goes on, for it
/// cannot be taken back.
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
