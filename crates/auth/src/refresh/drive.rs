//! Owns how a renewal is carried out: the steps that the core asks for, done with a store, a clock and whoever
//! gives tokens.

use std::convert::Infallible;
use std::future::Future;
use std::time::{Duration, SystemTime};

use bowline_config::Auth;
use bowline_store::{Expect, Key, Lease, Safe, Version};
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use super::core::{News, Now, Outcome, Renewal, Step, Wish};
use crate::error::{AuthError, AuthErrorKind};
use crate::record::Record;
use crate::tokens::Tokens;

/// What must not be broken off is about to begin, or is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    In,
    Out,
}

/// Where one login is kept.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    pub(crate) safe: Safe,
    pub(crate) key: Key,
}

/// How long a lease is good without being renewed: so long may a process that died hold up the others.
pub(crate) const TTL: Duration = Duration::from_secs(30);
/// How long an authorization server may take. Less than a lease, so that even one that cannot be renewed meanwhile
/// outlives the request.
const ASKING: Duration = Duration::from_secs(25);
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

/// Carries out a renewal. `ask` has tokens given for a record. `pass` is told when the lease is about to be had, and
/// may say no because the program is ending; and when it was not had after all. A lease that nobody gives back holds up
/// every other process.
///
/// To be run in a task of its own: whoever drops it may lose what was given.
pub(crate) async fn renew<F>(
    shelf: &Shelf,
    entry: (&Auth, &Url),
    wish: Wish,
    ask: impl Fn(Record) -> F,
    pass: impl Fn(Pass) -> bool,
) -> Outcome
where
    F: Future<Output = Result<Tokens, AuthError>>,
{
    let name = shelf.lease();
    let mut held: Option<Lease> = None;
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
            Step::Acquire => match shelf.safe.acquire(&name, TTL).await {
                Ok(Some(lease)) => {
                    held = Some(lease);
                    News::Acquired
                }
                not_had => {
                    pass(Pass::Out);
                    not_had.map_or_else(|error| News::StoreFailed(error.into()), |_| News::Taken)
                }
            },
            Step::Pause => {
                pauses += 1;
                let range = if pauses <= FIRST_PAUSES { FIRST_PAUSE } else { PAUSE };
                sleep(Duration::from_millis(fastrand::u64(range))).await;
                News::Waited
            }
            Step::Confirm => confirm(&shelf.safe, &mut held).await,
            Step::Ask(record) => match holding(&shelf.safe, held.as_ref(), limited(ask(*record))).await {
                Ok(tokens) => News::Given(tokens),
                Err(error) => News::Refused(error),
            },
            Step::Write(record, version) => {
                let write = shelf.write(entry, &record, version);
                match holding(&shelf.safe, held.as_ref(), write).await {
                    Ok(Some(version)) => News::Wrote(version),
                    Ok(None) => News::Outrun,
                    Err(error) => News::StoreFailed(error),
                }
            }
            Step::Hold(wait) => {
                holding(&shelf.safe, held.as_ref(), sleep(wait)).await;
                News::Waited
            }
            Step::Done(outcome) => {
                if let Some(lease) = held.take()
                    && let Err(error) = shelf.safe.release(lease).await
                {
                    // It ends by itself.
                    tracing::debug!(%error, lease = name, "a lease could not be given back");
                }
                return *outcome;
            }
        };
        step = renewal.handle(now(), news);
    }
}

/// The time, by both clocks.
pub(crate) fn now() -> Now {
    Now { wall: SystemTime::now(), steady: Instant::now().into_std() }
}

async fn confirm(safe: &Safe, held: &mut Option<Lease>) -> News {
    let Some(lease) = held.as_ref() else { return News::Lost };
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

async fn limited(asking: impl Future<Output = Result<Tokens, AuthError>>) -> Result<Tokens, AuthError> {
    timeout(ASKING, asking).await.unwrap_or_else(|_| {
        let seconds = ASKING.as_secs();
        let what = format!("the authorization server did not answer within {seconds} s");
        Err(AuthError::new(AuthErrorKind::Unavailable, what))
    })
}

#[cfg(test)]
mod tests;
