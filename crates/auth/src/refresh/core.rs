//! Owns what a renewal does next. Pure: it is told what happened and says what to do; it waits for nobody.
//!
//! A refresh token can be used once. Whoever uses it a second time, knowingly or not, makes the authorization server
//! take back everything it gave for that login. So, with any number of processes that hold the same login:
//!
//! - it is used only under a lock and a lease, and only as it was read after both were had. The lock is the operating
//!   system's: a process that is stopped keeps it, so that nobody else of its machine can use the token meanwhile. The
//!   lease is for processes of other machines;
//! - the connection is made first, then the lease is confirmed, then the token is sent: a process that stood still in
//!   between finds by the lease, or by the clocks at the moment of the write, that it has to begin anew;
//! - what was had for it is written down before it is used, and before lock and lease are given back;
//! - a write says which version it replaces, so that a login or a logout in between wins;
//! - whoever finds a better token than the one it came with takes that, and asks nobody.
//!
//! Two things cannot be prevented from here. A process that dies between the authorization server's answer and the
//! write loses what it was given. And where there is no lock, because processes of several machines share the store, so
//! does one that stands still for longer than the lease after the token was sent.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bowline_config::Secret;
use bowline_store::{Lease, Lock, Version};

use super::due;
use crate::client::ClientOrigin;
use crate::error::{AuthError, AuthErrorKind};
use crate::record::{By, Record, Standing};
use crate::tokens::Tokens;

/// One renewal, from the wish to its outcome.
#[derive(Debug)]
pub(crate) struct Renewal {
    wish: Wish,
    phase: Phase,
    /// What was refused: a refresh token, and the client that showed it. Nothing is shown twice.
    spent: Vec<Shown>,
    /// How the last of them was refused.
    ended_by: AuthErrorKind,
    /// When others are waited for no longer.
    patience: Instant,
    rounds: u32,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// The token that is not good enough; whatever else is found may be. `None`: each is, and nothing is wanted but
    /// that what was had earlier is written down.
    pub(crate) stale: Option<Secret>,
    /// What was had earlier and could not be written down.
    pub(crate) unsaved: Option<Unsaved>,
}

/// A login that the store does not know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsaved {
    pub(crate) record: Record,
    pub(crate) over: Over,
    /// Held until it is written down: whoever got it would use a refresh token that is spent.
    pub(crate) right: KeptRight,
}

/// The right to refresh a login. Dropped, the last clone gives back the lock, and the lease ends by itself.
#[derive(Clone, Debug)]
pub(crate) struct Right {
    pub(crate) lease: Lease,
    /// Given back last.
    pub(crate) lock: Arc<Lock>,
}

/// The right to refresh a login, held beyond the refresh that took it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRight(pub(crate) Option<Right>);

/// Two logins are equal by what they hold, whoever has the right to refresh them.
impl PartialEq for KeptRight {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeptRight {}

/// In place of what something is to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// It is a renewal of what has this refresh token; `None`: none, no person was needed.
    Renewed(Option<Secret>),
    /// It is a login of its own, in place of the one that was made then; `None`: there was none.
    Login(Option<SystemTime>),
}

/// The time, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// What ends of tokens are told by.
    pub(crate) wall: SystemTime,
    /// What waits are told by.
    pub(crate) steady: Instant,
}

/// What is to be done next. Each is answered by one [`News`].
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Read the record: [`News::Found`].
    Read,
    /// Take the lock and the lease: [`News::Acquired`] or [`News::Taken`].
    Acquire,
    /// Somebody else has it. Wait a little: [`News::Waited`].
    Pause,
    /// Have everything ready to ask for tokens with this record, the connection included, and send nothing that can be
    /// used once: [`News::Dialed`]. Where nothing of that kind is sent there is nothing to wait for: [`News::Given`].
    /// [`News::Refused`] in either case.
    Dial(Box<Record>),
    /// Make sure that the lease is ours, and for its whole time: [`News::Confirmed`] or [`News::Lost`].
    Confirm,
    /// Send what is ready, unless the clocks say that the confirmation is old: [`News::Given`], [`News::Refused`], or
    /// [`News::Lost`] if it was not sent.
    Send,
    /// Replace this version, or nothing: [`News::Wrote`] or [`News::Outrun`].
    Write(Box<Record>, Option<Version>),
    /// It could not be written. Wait so long, with the lease: [`News::Waited`].
    Hold(Duration),
    /// It is over. The lease is given back if it is held.
    Done(Box<Outcome>),
}

/// What happened.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is used up at once")]
pub(crate) enum News {
    Found(Option<(Record, Version)>),
    Acquired,
    /// By which process, if that is known.
    Taken(Option<u32>),
    Waited,
    Dialed,
    Confirmed,
    Lost,
    Given(Tokens),
    Refused(AuthError),
    Wrote(Version),
    Outrun,
    /// The store could not do what it was asked to.
    StoreFailed(AuthError),
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// This is the login now, by our doing or somebody else's.
    Good(Record, Version),
    /// The same, except that it could not be written down.
    Unsaved(Unsaved),
    /// A person has to log in. This is what the store says now.
    Ended { record: Record, version: Version, why: AuthError },
    /// There is no login any more. What we were given meanwhile, if anything, is of no use to anybody.
    Gone(Option<Box<Record>>),
    /// Nothing has changed.
    Failed(AuthError),
}

#[derive(Debug)]
enum Phase {
    /// Waits for what the store has; first without the lease, which costs the least.
    Look { leased: bool },
    /// Waits for the lease.
    Lease,
    /// Waits for somebody else to be done.
    Others,
    /// Waits for the connection to the authorization server.
    Dialing { base: Box<Record>, version: Version },
    /// Waits for the lease to be confirmed.
    Right { base: Box<Record>, version: Version },
    /// Waits for the authorization server.
    Tokens { base: Box<Record>, version: Version },
    /// Waits for it to be written down.
    Saved(Saving, Option<Version>),
    /// Somebody else has written; waits for what.
    Overtaken(Saving),
    /// Waits before it is written again, over this.
    Resting(Saving, Option<Version>),
    /// Waits before it is looked at again what somebody else has written.
    Resigned(Saving),
    /// Waits for the login's end to be written down.
    Marked { ended: Box<Record>, why: AuthError, version: Version },
    /// It is over.
    Over,
}

/// What is to be written down.
#[derive(Debug)]
struct Saving {
    mine: Box<Unsaved>,
    source: Source,
    failures: u32,
    give_up: Instant,
}

/// Where something to be written down comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// It was given to us just now: it is what was wanted.
    Now,
    /// It could not be written down earlier, and may itself be what is to be renewed.
    Earlier,
}

/// What the authorization server was shown.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    client: Option<String>,
    refresh: Option<Secret>,
}

/// For how long others are waited for: two of them may die in a row.
pub(crate) const PATIENCE: Duration = Duration::from_secs(75);
/// For how long a write is tried before what is to be written is used all the same: less than a call waits for its
/// server, so that a full disk costs no call.
pub(crate) const SAVING: Duration = Duration::from_secs(5);
/// How often it is tried at least.
const WRITES: u32 = 6;
/// How many refresh tokens are tried, and how often a lost lease is taken again.
const ROUNDS: u32 = 4;

// === impl Renewal ===

impl Renewal {
    /// Begins, with what is to be done first.
    pub(crate) fn new(now: Now, wish: Wish) -> (Self, Step) {
        let phase = Phase::Look { leased: false };
        let ended_by = AuthErrorKind::InvalidGrant;
        let patience = now.steady + PATIENCE;
        (Self { wish, phase, spent: Vec::new(), ended_by, patience, rounds: 0 }, Step::Read)
    }

    /// What is to be done next, now that this has happened.
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
            // It was not written down, but it is true: the next one will find out as well.
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

    /// What is in the store, and what of it is of use.
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

    /// The authorization server said no.
    fn refused(&mut self, base: Record, error: AuthError) -> Step {
        let origin = base.client.as_ref().map(|client| client.origin);
        match (error.kind, origin) {
            // Whoever needs no person has nothing that could have been replaced meanwhile (AX-09).
            (AuthErrorKind::InvalidGrant, _) if base.by != By::Person => self.fail(error),
            // It may have been replaced by somebody who had the lease before it was lost, or by a new login.
            (AuthErrorKind::InvalidGrant, _) => self.spend(&base, error.kind),
            // The registration is dead, and with it what was given to it.
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

    /// We were given tokens, and somebody else wrote first.
    fn overtaken(&mut self, now: Now, saving: Saving, found: Option<(Record, Version)>) -> Step {
        if saving.mine.is_over(found.as_ref().map(|(record, _)| record)) {
            return self.save(saving, found.map(|(_, version)| version));
        }
        if found.is_none() {
            // Somebody logged out: the login is not to come back.
            return self.done(Outcome::Gone(Some(Box::new(saving.mine.record))));
        }
        // A person logged in: that counts, and what we have is of an older login.
        self.look(now, true, found)
    }

    fn save(&mut self, saving: Saving, version: Option<Version>) -> Step {
        let step = Step::Write(Box::new(saving.mine.record.clone()), version);
        self.next(Phase::Saved(saving, version), step)
    }

    /// What was given must not be lost because a disk is full for a moment.
    fn rest(
        &mut self,
        now: Now,
        mut saving: Saving,
        error: AuthError,
        then: impl FnOnce(Saving) -> Phase,
    ) -> Step {
        // Both: a machine that slept meanwhile has tried once. What can be had again is worth no wait.
        let tried_enough = now.steady >= saving.give_up && saving.failures >= WRITES;
        if tried_enough || !saving.mine.is_at_stake() {
            return match saving.source {
                Source::Now => self.done(Outcome::Unsaved(*saving.mine)),
                // What it was had for is good for another.
                Source::Earlier if !saving.mine.is_at_stake() && self.wish.stale.is_some() => {
                    self.again(Phase::Look { leased: true })
                }
                // It is as unsaved as it was. To renew it would only give one more thing that can be lost.
                Source::Earlier => self.fail(error),
            };
        }
        let wait = Duration::from_millis(100).saturating_mul(1 << saving.failures.min(5));
        saving.failures += 1;
        self.next(then(saving), Step::Hold(wait))
    }

    /// Whether something is being written down that would be lost otherwise.
    pub(crate) fn is_at_stake(&self) -> bool {
        match &self.phase {
            Phase::Saved(saving, _)
            | Phase::Overtaken(saving)
            | Phase::Resting(saving, _)
            | Phase::Resigned(saving) => saving.mine.is_at_stake(),
            _ => false,
        }
    }

    /// Looks once more, unless that has been done often enough.
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
    /// Whether it counts more than what the store has.
    ///
    /// A renewal does if the store has what it was had for. If it came with another refresh token, nobody can use the
    /// kept one any more, whatever the clocks say; if not, both are as good and the later one counts. A login does if
    /// the store has the one that it replaced, however often that was renewed since.
    pub(crate) fn is_over(&self, kept: Option<&Record>) -> bool {
        match (&self.over, kept) {
            (Over::Renewed(exchanged), Some(kept)) => {
                kept.refresh == *exchanged
                    && kept.logged_in_at == self.record.logged_in_at
                    && (self.is_at_stake() || kept.obtained_at() < self.record.obtained_at())
            }
            // Somebody logged out.
            (Over::Renewed(_), None) => false,
            (Over::Login(replaced), kept) => *replaced == kept.map(|kept| kept.logged_in_at),
        }
    }

    /// Whether the login is lost with it. It is not where it can be had again: an authorization server that does not
    /// rotate refresh tokens takes the kept one once more, and some logins need no person.
    pub(crate) fn is_at_stake(&self) -> bool {
        match &self.over {
            Over::Renewed(exchanged) => self.record.refresh != *exchanged,
            Over::Login(_) => self.record.by == By::Person,
        }
    }
}

/// Somebody else does not get done.
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
