//! Decides what a refresh does next. It does no I/O: it takes events and the time, and returns
//! steps.
//!
//! A refresh token can be used once. If it is used a second time, by whichever process, the
//! authorization server revokes every token of that login. So, with any number of processes that
//! share a login:
//!
//! - A refresh token is used only under a lock and a lease, and only as it was read after both were
//!   acquired. The lock belongs to the operating system: a stopped process keeps it, so that no
//!   other process of its machine can use the token meanwhile. The lease protects against processes
//!   of other machines.
//! - The connection is opened first, then the lease is confirmed, then the token is sent. A process
//!   that was suspended in between notices it by the lease, or by the clocks at the moment of the
//!   write, and starts over.
//! - The new tokens are saved before they are used, and before lock and lease are released.
//! - A write names the version that it replaces, so that a concurrent login or logout wins.
//! - A process that finds a newer token in the store uses that one and sends no request.
//!
//! Two losses cannot be prevented here. A process that dies between the response and the write
//! loses the new tokens. Where there is no lock, because machines share the store, so does a
//! process that is suspended for longer than the lease after it has sent the token.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bowline_config::Secret;
use bowline_store::{Lease, Lock, Version};

use super::due;
use crate::client::ClientOrigin;
use crate::error::{AuthError, AuthErrorKind};
use crate::record::{By, Record, Standing};
use crate::tokens::Tokens;

/// The state machine of one refresh, from its goal to its outcome.
#[derive(Debug)]
pub(crate) struct Renewal {
    wish: Wish,
    phase: Phase,
    /// Pairs of refresh token and client that were refused. None is sent twice.
    spent: Vec<Shown>,
    /// The error kind of the last refusal.
    ended_by: AuthErrorKind,
    /// When the wait for other processes ends.
    patience: Instant,
    rounds: u32,
}

/// What a refresh is to achieve.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// The token to replace; any other valid token will do. `None` means that every token will do,
    /// and only the unsaved login has to be saved.
    pub(crate) stale: Option<Secret>,
    /// A login from an earlier refresh that could not be saved.
    pub(crate) unsaved: Option<Unsaved>,
}

/// A login that is not in the store yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsaved {
    pub(crate) record: Record,
    pub(crate) over: Over,
    /// Retained until the login is saved: another process would use the refresh token that is
    /// already spent.
    pub(crate) right: KeptRight,
}

/// The right to refresh a login. When the last clone is dropped, the lock is released; the lease
/// expires by itself.
#[derive(Clone, Debug)]
pub(crate) struct Right {
    pub(crate) lease: Lease,
    /// Released last.
    pub(crate) lock: Arc<Lock>,
}

/// A refresh right that is kept beyond the refresh that acquired it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRight(pub(crate) Option<Right>);

/// Always equal: logins are compared by their content, whoever may refresh them.
impl PartialEq for KeptRight {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeptRight {}

/// How an unsaved login came about, which decides what it may replace in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// A refresh of the login with this refresh token; `None` for a grant without one.
    Renewed(Option<Secret>),
    /// A new login, in place of the one that was made at this time; `None` if there was none.
    Login(Option<SystemTime>),
}

/// The time by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Wall clock, for the expiry of tokens.
    pub(crate) wall: SystemTime,
    /// Monotonic clock, for waits.
    pub(crate) steady: Instant,
}

/// What to do next. Each step is answered by one [`RefreshEvent`].
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Read the record: [`RefreshEvent::RecordRead`].
    Read,
    /// Acquire lock and lease: [`RefreshEvent::Acquired`] or [`RefreshEvent::HeldByOther`].
    Acquire,
    /// Wait a little for the process that holds them: [`RefreshEvent::Waited`].
    Pause,
    /// Prepare the token request for this record and open the connection, without sending anything
    /// that can be used once: [`RefreshEvent::Connected`]. A request without such a secret is sent
    /// at once: [`RefreshEvent::TokensReceived`]. Either can fail with
    /// [`RefreshEvent::RequestFailed`].
    Dial(Box<Record>),
    /// Confirm that the lease is ours, for its full time: [`RefreshEvent::Confirmed`] or
    /// [`RefreshEvent::LeaseLost`].
    Confirm,
    /// Send the prepared request, unless the clocks say that the confirmation is too old:
    /// [`RefreshEvent::TokensReceived`], [`RefreshEvent::RequestFailed`], or
    /// [`RefreshEvent::LeaseLost`] if it was not sent.
    Send,
    /// Write the record over this version, or where there is none: [`RefreshEvent::Written`] or
    /// [`RefreshEvent::VersionConflict`].
    Write(Box<Record>, Option<Version>),
    /// Wait this long before the next write, while keeping the lease: [`RefreshEvent::Waited`].
    Hold(Duration),
    /// The refresh is over. The driver releases lock and lease.
    Done(Box<Outcome>),
}

/// The result of a [`Step`].
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is used up at once")]
pub(crate) enum News {
    Found(Option<(Record, Version)>),
    Acquired,
    /// Another process holds the lock or lease; its process id, if known.
    Taken(Option<u32>),
    Waited,
    Dialed,
    Confirmed,
    Lost,
    Given(Tokens),
    Refused(AuthError),
    Wrote(Version),
    Outrun,
    /// The store operation failed.
    StoreFailed(AuthError),
}

/// The outcome of a refresh.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The login as it is stored now, refreshed by this process or another.
    Good(Record, Version),
    /// The refreshed login, which could not be saved.
    Unsaved(Unsaved),
    /// A person has to log in. Record and version are as stored now.
    Ended { record: Record, version: Version, why: AuthError },
    /// The login was deleted meanwhile. Holds the tokens received since, if any, which are to be
    /// revoked.
    Gone(Option<Box<Record>>),
    /// The refresh failed and changed nothing.
    Failed(AuthError),
}

#[derive(Debug)]
enum Phase {
    /// Reads the record; at first without the lease, which is the cheapest way to find a new token.
    Look { leased: bool },
    /// Acquires lock and lease.
    Lease,
    /// Waits for another process to finish.
    Others,
    /// Connects to the authorization server.
    Dialing { base: Box<Record>, version: Version },
    /// Confirms the lease.
    Right { base: Box<Record>, version: Version },
    /// Waits for the token response.
    Tokens { base: Box<Record>, version: Version },
    /// Writes the new record over this version.
    Saved(Saving, Option<Version>),
    /// Another process has written; reads its record.
    Overtaken(Saving),
    /// Waits before the next write over this version.
    Resting(Saving, Option<Version>),
    /// Waits before reading again what another process wrote.
    Resigned(Saving),
    /// Writes that the login has ended.
    Marked { ended: Box<Record>, why: AuthError, version: Version },
    /// The refresh is over.
    Over,
}

/// A login that is being written.
#[derive(Debug)]
struct Saving {
    mine: Box<Unsaved>,
    source: Source,
    failures: u32,
    give_up: Instant,
}

/// When the tokens to be written were received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// By this refresh; they are what was wanted.
    Now,
    /// Earlier, and could not be saved then; they may need a refresh themselves.
    Earlier,
}

/// A refresh token and client that the authorization server has refused.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    client: Option<String>,
    refresh: Option<Secret>,
}

/// How long to wait for other processes: two of them may die in a row.
pub(crate) const PATIENCE: Duration = Duration::from_secs(75);
/// How long a write is retried before the login is used unsaved: less than a call's timeout, so
/// that a full disk fails no call.
pub(crate) const SAVING: Duration = Duration::from_secs(5);
/// How many writes are attempted at least.
const WRITES: u32 = 6;
/// How often a refresh starts over, with another refresh token or after losing the lease.
const ROUNDS: u32 = 4;

// === impl RefreshMachine ===

impl Renewal {
    /// Creates the machine, and returns its first step.
    pub(crate) fn new(now: Now, wish: Wish) -> (Self, Step) {
        let phase = Phase::Look { leased: false };
        let ended_by = AuthErrorKind::InvalidGrant;
        let patience = now.steady + PATIENCE;
        (Self { wish, phase, spent: Vec::new(), ended_by, patience, rounds: 0 }, Step::Read)
    }

    /// Handles the result of a step, and returns the next step.
    pub(crate) fn handle(&mut self, now: Now, news: News) -> Step {
        match (std::mem::replace(&mut self.phase, Phase::Over), news) {
            (Phase::Look { leased }, News::Found(found)) => self.look(now, leased, found),
            (Phase::Lease, News::Acquired) => self.read(Phase::Look { leased: true }),
            (Phase::Lease, News::Taken(by)) if now.steady >= self.patience => self.fail(held_up(by)),
            (Phase::Lease, News::Taken(_)) => self.next(Phase::Others, Step::Pause),
            (Phase::Others, News::Waited) => self.read(Phase::Look { leased: false }),
            (Phase::Dialing { base, version }, News::Dialed) => {
                self.next(Phase::Right { base, version }, Step::Confirm)
            }
            (Phase::Right { base, version }, News::Confirmed) => {
                self.next(Phase::Tokens { base, version }, Step::Send)
            }
            (Phase::Right { .. } | Phase::Tokens { .. }, News::Lost) => {
                self.again(Phase::Look { leased: false })
            }
            (Phase::Dialing { base, version } | Phase::Tokens { base, version }, News::Given(tokens)) => {
                let over = Over::Renewed(base.refresh.clone());
                let record = base.renewed(&tokens, now.wall);
                let mine = Unsaved { record, over, right: KeptRight::default() };
                self.save(Saving::new(now, mine, Source::Now), Some(version))
            }
            (Phase::Dialing { base, .. } | Phase::Tokens { base, .. }, News::Refused(error)) => {
                self.refused(*base, error)
            }
            (Phase::Saved(saving, _), News::Wrote(version)) => match saving.source {
                Source::Now => self.done(Outcome::Good(saving.mine.record, version)),
                Source::Earlier => self.look(now, true, Some((saving.mine.record, version))),
            },
            (Phase::Saved(saving, _), News::Outrun) => self.read(Phase::Overtaken(saving)),
            (Phase::Saved(saving, version), News::StoreFailed(error)) => {
                self.rest(now, saving, error, |saving| Phase::Resting(saving, version))
            }
            (Phase::Overtaken(saving), News::Found(found)) => self.overtaken(now, saving, found),
            (Phase::Overtaken(saving), News::StoreFailed(error)) => {
                self.rest(now, saving, error, Phase::Resigned)
            }
            (Phase::Resting(saving, version), News::Waited) => self.save(saving, version),
            (Phase::Resigned(saving), News::Waited) => self.read(Phase::Overtaken(saving)),
            (Phase::Marked { ended, why, .. }, News::Wrote(version)) => {
                self.done(Outcome::Ended { record: *ended, version, why })
            }
            (Phase::Marked { .. }, News::Outrun) => self.again(Phase::Look { leased: true }),
            // The mark could not be written, but the login has ended: the next refresh finds out
            // again.
            (Phase::Marked { ended, why, version }, News::StoreFailed(_)) => {
                self.done(Outcome::Ended { record: *ended, version, why })
            }
            (_, News::StoreFailed(error)) => self.fail(error),
            (phase, news) => self.fail(AuthError::new(
                AuthErrorKind::Store,
                format!("a renewal went out of step: {} in {}", news.name(), phase.name()),
            )),
        }
    }

    /// Decides what to do with the stored record.
    fn look(&mut self, now: Now, leased: bool, found: Option<(Record, Version)>) -> Step {
        let kept = found.as_ref().map(|(record, _)| record);
        if let Some(unsaved) = self.wish.unsaved.take_if(|mine| mine.is_over(kept)) {
            if leased {
                let version = found.map(|(_, version)| version);
                return self.save(Saving::new(now, unsaved, Source::Earlier), version);
            }
            self.wish.unsaved = Some(unsaved);
            return self.next(Phase::Lease, Step::Acquire);
        }
        let Some((record, version)) = found else {
            let given = self.wish.unsaved.take().map(|mine| Box::new(mine.record));
            return self.done(Outcome::Gone(given));
        };
        let good = match &self.wish.stale {
            Some(stale) => record.access != *stale && !due::is_due(&record, now.wall),
            None => true,
        };
        if good {
            return self.done(Outcome::Good(record, version));
        }
        if let Standing::NeedsLogin(why) = &record.state {
            let why = AuthError::new(AuthErrorKind::LoginNeeded, why.clone());
            return self.done(Outcome::Ended { record, version, why });
        }
        if !record.is_renewable() {
            let why = AuthError::new(AuthErrorKind::LoginNeeded, "the login came without a refresh token");
            return self.done(Outcome::Ended { record, version, why });
        }
        if !leased {
            return self.next(Phase::Lease, Step::Acquire);
        }
        if self.spent.contains(&Shown::of(&record)) {
            let why = match self.ended_by {
                AuthErrorKind::InvalidClient => "the authorization server does not know our client any more",
                _ => "the authorization server ended the login",
            };
            let why = AuthError::new(self.ended_by, why);
            let ended = Box::new(record.ended(why.what.clone()));
            let step = Step::Write(ended.clone(), Some(version));
            return self.next(Phase::Marked { ended, why, version }, step);
        }
        let base = Box::new(record);
        let step = Step::Dial(base.clone());
        self.next(Phase::Dialing { base, version }, step)
    }

    /// Handles a refused token request.
    fn refused(&mut self, base: Record, error: AuthError) -> Step {
        let origin = base.client.as_ref().map(|client| client.origin);
        match (error.kind, origin) {
            // AX-09: without a person there is no refresh token that another process could have
            // replaced.
            (AuthErrorKind::InvalidGrant, _) if base.by != By::Person => self.fail(error),
            // The token may have been replaced by a former holder of the lease, or by a new login.
            (AuthErrorKind::InvalidGrant, _) => self.spend(&base, error.kind),
            // The registered client is unknown by now, and its tokens are void.
            (AuthErrorKind::InvalidClient, Some(ClientOrigin::Registered)) => self.spend(&base, error.kind),
            (AuthErrorKind::InvalidClient, Some(ClientOrigin::Configured)) => {
                let hint = "check the client's id, its secret and how it is to prove itself";
                self.fail(AuthError { kind: AuthErrorKind::Setup, ..error }.hint(hint))
            }
            _ => self.fail(error),
        }
    }

    fn spend(&mut self, base: &Record, kind: AuthErrorKind) -> Step {
        self.spent.push(Shown::of(base));
        self.ended_by = kind;
        self.again(Phase::Look { leased: true })
    }

    /// Handles a version conflict: tokens were received, but another process wrote first.
    fn overtaken(&mut self, now: Now, saving: Saving, found: Option<(Record, Version)>) -> Step {
        if saving.mine.is_over(found.as_ref().map(|(record, _)| record)) {
            return self.save(saving, found.map(|(_, version)| version));
        }
        if found.is_none() {
            // A logout; the login must not be restored.
            return self.done(Outcome::Gone(Some(Box::new(saving.mine.record))));
        }
        // A new login, which wins; our tokens belong to the older one.
        self.look(now, true, found)
    }

    fn save(&mut self, saving: Saving, version: Option<Version>) -> Step {
        let step = Step::Write(Box::new(saving.mine.record.clone()), version);
        self.next(Phase::Saved(saving, version), step)
    }

    /// Waits before the next write, so that tokens are not lost to a disk that is full for a
    /// moment.
    fn rest(
        &mut self,
        now: Now,
        mut saving: Saving,
        error: AuthError,
        then: impl FnOnce(Saving) -> Phase,
    ) -> Step {
        // Both conditions, because a machine that slept has tried only once. Tokens that can be
        // requested again are not worth a wait.
        let tried_enough = now.steady >= saving.give_up && saving.failures >= WRITES;
        if tried_enough || !saving.mine.is_at_stake() {
            return match saving.source {
                Source::Now => self.done(Outcome::Unsaved(*saving.mine)),
                // The refresh token that they were received for is still valid.
                Source::Earlier if !saving.mine.is_at_stake() && self.wish.stale.is_some() => {
                    self.again(Phase::Look { leased: true })
                }
                // They stay unsaved. Refreshing them would only add more tokens that can be lost.
                Source::Earlier => self.fail(error),
            };
        }
        let wait = Duration::from_millis(100).saturating_mul(1 << saving.failures.min(5));
        saving.failures += 1;
        self.next(then(saving), Step::Hold(wait))
    }

    /// Whether a login is being written that would otherwise be lost.
    pub(crate) fn is_at_stake(&self) -> bool {
        match &self.phase {
            Phase::Saved(saving, _)
            | Phase::Overtaken(saving)
            | Phase::Resting(saving, _)
            | Phase::Resigned(saving) => saving.mine.is_at_stake(),
            _ => false,
        }
    }

    /// Starts over with a read, at most [`MAX_RESTARTS`] times.
    fn again(&mut self, phase: Phase) -> Step {
        self.rounds += 1;
        if self.rounds > ROUNDS {
            let what = "the login changed again and again while it was renewed";
            return self.fail(AuthError::new(AuthErrorKind::Unavailable, what));
        }
        self.read(phase)
    }

    fn read(&mut self, phase: Phase) -> Step {
        self.next(phase, Step::Read)
    }

    fn fail(&mut self, error: AuthError) -> Step {
        self.done(Outcome::Failed(error))
    }

    fn done(&mut self, outcome: Outcome) -> Step {
        self.next(Phase::Over, Step::Done(Box::new(outcome)))
    }

    fn next(&mut self, phase: Phase, step: Step) -> Step {
        self.phase = phase;
        step
    }
}

impl Unsaved {
    /// Whether this login replaces the stored one.
    ///
    /// A refresh does if the store still holds the login that was refreshed. If it came with a new
    /// refresh token, the stored one is spent, whatever the clocks say; if not, both are valid and
    /// the later one wins. A new login does if the store still holds the login it replaced, however
    /// often that was refreshed since.
    pub(crate) fn is_over(&self, kept: Option<&Record>) -> bool {
        match (&self.over, kept) {
            (Over::Renewed(exchanged), Some(kept)) => {
                kept.refresh == *exchanged
                    && kept.logged_in_at == self.record.logged_in_at
                    && (self.is_at_stake() || kept.obtained_at() < self.record.obtained_at())
            }
            // A logout.
            (Over::Renewed(_), None) => false,
            (Over::Login(replaced), kept) => *replaced == kept.map(|kept| kept.logged_in_at),
        }
    }

    /// Whether the login is lost if this is not saved. It is not if the tokens can be requested
    /// again: the authorization server does not rotate refresh tokens, or the grant needs no
    /// person.
    pub(crate) fn is_at_stake(&self) -> bool {
        match &self.over {
            Over::Renewed(exchanged) => self.record.refresh != *exchanged,
            Over::Login(_) => self.record.by == By::Person,
        }
    }
}

/// The error for a process that holds lock or lease for too long.
fn held_up(by: Option<u32>) -> AuthError {
    let what = match by {
        Some(process) => format!("process {process} has been renewing the login for too long"),
        None => "somebody else has been renewing the login for too long".to_owned(),
    };
    let error = AuthError::new(AuthErrorKind::Unavailable, what);
    match by {
        Some(process) => error.hint(format!("if process {process} is stopped, continue it or end it")),
        None => error,
    }
}

impl Saving {
    fn new(now: Now, mine: Unsaved, source: Source) -> Self {
        Self { mine: Box::new(mine), source, failures: 0, give_up: now.steady + SAVING }
    }
}

impl Shown {
    fn of(record: &Record) -> Self {
        Self {
            client: record.client.as_ref().map(|client| client.id.clone()),
            refresh: record.refresh.clone(),
        }
    }
}

impl News {
    fn name(&self) -> &'static str {
        match self {
            Self::Found(_) => "found",
            Self::Acquired => "acquired",
            Self::Taken(_) => "taken",
            Self::Waited => "waited",
            Self::Dialed => "dialed",
            Self::Confirmed => "confirmed",
            Self::Lost => "lost",
            Self::Given(_) => "given",
            Self::Refused(_) => "refused",
            Self::Wrote(_) => "wrote",
            Self::Outrun => "outrun",
            Self::StoreFailed(_) => "store failed",
        }
    }
}

impl Phase {
    fn name(&self) -> &'static str {
        match self {
            Self::Look { .. } => "look",
            Self::Lease => "lease",
            Self::Others => "others",
            Self::Dialing { .. } => "dialing",
            Self::Right { .. } => "right",
            Self::Tokens { .. } => "tokens",
            Self::Saved(..) => "saved",
            Self::Overtaken(_) => "overtaken",
            Self::Resting(..) => "resting",
            Self::Resigned(_) => "resigned",
            Self::Marked { .. } => "marked",
            Self::Over => "over",
        }
    }
}
