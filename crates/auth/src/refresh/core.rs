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
use crate::record::{GrantKind, LoginRecord, LoginState};
use crate::tokens::Tokens;

/// The state machine of one refresh, from its goal to its outcome.
#[derive(Debug)]
pub(crate) struct RefreshMachine {
    goal: RefreshGoal,
    phase: Phase,
    /// Pairs of refresh token and client that were refused. None is sent twice.
    spent: Vec<SpentGrant>,
    /// The error kind of the last refusal.
    end_kind: AuthErrorKind,
    /// When the wait for other processes ends.
    wait_deadline: Instant,
    restarts: u32,
}

/// What a refresh is to achieve.
#[derive(Clone, Debug)]
pub(crate) struct RefreshGoal {
    /// The token to replace; any other valid token will do. `None` means that every token will do,
    /// and only the unsaved login has to be saved.
    pub(crate) stale_token: Option<Secret>,
    /// A login from an earlier refresh that could not be saved.
    pub(crate) unsaved: Option<UnsavedLogin>,
}

/// A login that is not in the store yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsavedLogin {
    pub(crate) record: LoginRecord,
    pub(crate) source: LoginSource,
    /// Retained until the login is saved: another process would use the refresh token that is
    /// already spent.
    pub(crate) right: RetainedRight,
}

/// The right to refresh a login. When the last clone is dropped, the lock is released; the lease
/// expires by itself.
#[derive(Clone, Debug)]
pub(crate) struct RefreshRight {
    pub(crate) lease: Lease,
    /// Released last.
    pub(crate) lock: Arc<Lock>,
}

/// A refresh right that is kept beyond the refresh that acquired it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetainedRight(pub(crate) Option<RefreshRight>);

/// Always equal: logins are compared by their content, whoever may refresh them.
impl PartialEq for RetainedRight {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RetainedRight {}

/// How an unsaved login came about, which decides what it may replace in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginSource {
    /// A refresh of the login with this refresh token; `None` for a grant without one.
    Refresh(Option<Secret>),
    /// A new login, in place of the one that was made at this time; `None` if there was none.
    Login(Option<SystemTime>),
}

/// The time by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    /// Wall clock, for the expiry of tokens.
    pub(crate) wall: SystemTime,
    /// Monotonic clock, for waits.
    pub(crate) monotonic: Instant,
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
    Connect(Box<LoginRecord>),
    /// Confirm that the lease is ours, for its full time: [`RefreshEvent::Confirmed`] or
    /// [`RefreshEvent::LeaseLost`].
    ConfirmLease,
    /// Send the prepared request, unless the clocks say that the confirmation is too old:
    /// [`RefreshEvent::TokensReceived`], [`RefreshEvent::RequestFailed`], or
    /// [`RefreshEvent::LeaseLost`] if it was not sent.
    Send,
    /// Write the record over this version, or where there is none: [`RefreshEvent::Written`] or
    /// [`RefreshEvent::VersionConflict`].
    Write(Box<LoginRecord>, Option<Version>),
    /// Wait this long before the next write, while keeping the lease: [`RefreshEvent::Waited`].
    WaitWithLease(Duration),
    /// The refresh is over. The driver releases lock and lease.
    Done(Box<RefreshOutcome>),
}

/// The result of a [`Step`].
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is used up at once")]
pub(crate) enum RefreshEvent {
    RecordRead(Option<(LoginRecord, Version)>),
    Acquired,
    /// Another process holds the lock or lease; its process id, if known.
    HeldByOther(Option<u32>),
    Waited,
    Connected,
    Confirmed,
    LeaseLost,
    TokensReceived(Tokens),
    RequestFailed(AuthError),
    Written(Version),
    VersionConflict,
    /// The store operation failed.
    StoreFailed(AuthError),
}

/// The outcome of a refresh.
#[derive(Clone, Debug)]
pub(crate) enum RefreshOutcome {
    /// The login as it is stored now, refreshed by this process or another.
    Current(LoginRecord, Version),
    /// The refreshed login, which could not be saved.
    Unsaved(UnsavedLogin),
    /// A person has to log in. Record and version are as stored now.
    LoginEnded { record: LoginRecord, version: Version, why: AuthError },
    /// The login was deleted meanwhile. Holds the tokens received since, if any, which are to be
    /// revoked.
    LoggedOut(Option<Box<LoginRecord>>),
    /// The refresh failed and changed nothing.
    Failed(AuthError),
}

#[derive(Debug)]
enum Phase {
    /// Reads the record; at first without the lease, which is the cheapest way to find a new token.
    Reading { leased: bool },
    /// Acquires lock and lease.
    Acquiring,
    /// Waits for another process to finish.
    WaitingForOther,
    /// Connects to the authorization server.
    Connecting { base: Box<LoginRecord>, version: Version },
    /// Confirms the lease.
    ConfirmingLease { base: Box<LoginRecord>, version: Version },
    /// Waits for the token response.
    AwaitingTokens { base: Box<LoginRecord>, version: Version },
    /// Writes the new record over this version.
    Writing(PendingWrite, Option<Version>),
    /// Another process has written; reads its record.
    ReadingConflict(PendingWrite),
    /// Waits before the next write over this version.
    WaitingToWrite(PendingWrite, Option<Version>),
    /// Waits before reading again what another process wrote.
    WaitingToReread(PendingWrite),
    /// Writes that the login has ended.
    MarkingEnded { ended: Box<LoginRecord>, why: AuthError, version: Version },
    /// The refresh is over.
    Done,
}

/// A login that is being written.
#[derive(Debug)]
struct PendingWrite {
    login: Box<UnsavedLogin>,
    age: TokenAge,
    failures: u32,
    deadline: Instant,
}

/// When the tokens to be written were received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenAge {
    /// By this refresh; they are what was wanted.
    Fresh,
    /// Earlier, and could not be saved then; they may need a refresh themselves.
    Earlier,
}

/// A refresh token and client that the authorization server has refused.
#[derive(Debug, PartialEq, Eq)]
struct SpentGrant {
    client: Option<String>,
    refresh: Option<Secret>,
}

/// How long to wait for other processes: two of them may die in a row.
pub(crate) const MAX_WAIT_FOR_OTHERS: Duration = Duration::from_secs(75);
/// How long a write is retried before the login is used unsaved: less than a call's timeout, so
/// that a full disk fails no call.
pub(crate) const SAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many writes are attempted at least.
const MIN_SAVE_ATTEMPTS: u32 = 6;
/// How often a refresh starts over, with another refresh token or after losing the lease.
const MAX_RESTARTS: u32 = 4;

// === impl RefreshMachine ===

impl RefreshMachine {
    /// Creates the machine, and returns its first step.
    pub(crate) fn new(now: ClockReading, goal: RefreshGoal) -> (Self, Step) {
        let phase = Phase::Reading { leased: false };
        let end_kind = AuthErrorKind::InvalidGrant;
        let wait_deadline = now.monotonic + MAX_WAIT_FOR_OTHERS;
        (Self { goal, phase, spent: Vec::new(), end_kind, wait_deadline, restarts: 0 }, Step::Read)
    }

    /// Handles the result of a step, and returns the next step.
    pub(crate) fn handle_event(&mut self, now: ClockReading, news: RefreshEvent) -> Step {
        match (std::mem::replace(&mut self.phase, Phase::Done), news) {
            (Phase::Reading { leased }, RefreshEvent::RecordRead(found)) => {
                self.handle_record(now, leased, found)
            }
            (Phase::Acquiring, RefreshEvent::Acquired) => self.read(Phase::Reading { leased: true }),
            (Phase::Acquiring, RefreshEvent::HeldByOther(by)) if now.monotonic >= self.wait_deadline => {
                self.fail(held_up_error(by))
            }
            (Phase::Acquiring, RefreshEvent::HeldByOther(_)) => {
                self.transition(Phase::WaitingForOther, Step::Pause)
            }
            (Phase::WaitingForOther, RefreshEvent::Waited) => self.read(Phase::Reading { leased: false }),
            (Phase::Connecting { base, version }, RefreshEvent::Connected) => {
                self.transition(Phase::ConfirmingLease { base, version }, Step::ConfirmLease)
            }
            (Phase::ConfirmingLease { base, version }, RefreshEvent::Confirmed) => {
                self.transition(Phase::AwaitingTokens { base, version }, Step::Send)
            }
            (Phase::ConfirmingLease { .. } | Phase::AwaitingTokens { .. }, RefreshEvent::LeaseLost) => {
                self.restart(Phase::Reading { leased: false })
            }
            (
                Phase::Connecting { base, version } | Phase::AwaitingTokens { base, version },
                RefreshEvent::TokensReceived(tokens),
            ) => {
                let source = LoginSource::Refresh(base.refresh.clone());
                let record = base.with_refreshed_tokens(&tokens, now.wall);
                let mine = UnsavedLogin { record, source, right: RetainedRight::default() };
                self.write(PendingWrite::new(now, mine, TokenAge::Fresh), Some(version))
            }
            (
                Phase::Connecting { base, .. } | Phase::AwaitingTokens { base, .. },
                RefreshEvent::RequestFailed(error),
            ) => self.handle_refusal(*base, error),
            (Phase::Writing(saving, _), RefreshEvent::Written(version)) => match saving.age {
                TokenAge::Fresh => self.finish(RefreshOutcome::Current(saving.login.record, version)),
                TokenAge::Earlier => self.handle_record(now, true, Some((saving.login.record, version))),
            },
            (Phase::Writing(saving, _), RefreshEvent::VersionConflict) => {
                self.read(Phase::ReadingConflict(saving))
            }
            (Phase::Writing(saving, version), RefreshEvent::StoreFailed(error)) => {
                self.wait_or_give_up(now, saving, error, |saving| Phase::WaitingToWrite(saving, version))
            }
            (Phase::ReadingConflict(saving), RefreshEvent::RecordRead(found)) => {
                self.handle_conflict(now, saving, found)
            }
            (Phase::ReadingConflict(saving), RefreshEvent::StoreFailed(error)) => {
                self.wait_or_give_up(now, saving, error, Phase::WaitingToReread)
            }
            (Phase::WaitingToWrite(saving, version), RefreshEvent::Waited) => self.write(saving, version),
            (Phase::WaitingToReread(saving), RefreshEvent::Waited) => {
                self.read(Phase::ReadingConflict(saving))
            }
            (Phase::MarkingEnded { ended, why, .. }, RefreshEvent::Written(version)) => {
                self.finish(RefreshOutcome::LoginEnded { record: *ended, version, why })
            }
            (Phase::MarkingEnded { .. }, RefreshEvent::VersionConflict) => {
                self.restart(Phase::Reading { leased: true })
            }
            // The mark could not be written, but the login has ended: the next refresh finds out
            // again.
            (Phase::MarkingEnded { ended, why, version }, RefreshEvent::StoreFailed(_)) => {
                self.finish(RefreshOutcome::LoginEnded { record: *ended, version, why })
            }
            (_, RefreshEvent::StoreFailed(error)) => self.fail(error),
            (phase, news) => self.fail(AuthError::new(
                AuthErrorKind::Store,
                format!("unexpected event during a token refresh: {} in {}", news.name(), phase.name()),
            )),
        }
    }

    /// Decides what to do with the stored record.
    fn handle_record(
        &mut self,
        now: ClockReading,
        leased: bool,
        found: Option<(LoginRecord, Version)>,
    ) -> Step {
        let kept = found.as_ref().map(|(record, _)| record);
        if let Some(unsaved) = self.goal.unsaved.take_if(|mine| mine.supersedes(kept)) {
            if leased {
                let version = found.map(|(_, version)| version);
                return self.write(PendingWrite::new(now, unsaved, TokenAge::Earlier), version);
            }
            self.goal.unsaved = Some(unsaved);
            return self.transition(Phase::Acquiring, Step::Acquire);
        }
        let Some((record, version)) = found else {
            let given = self.goal.unsaved.take().map(|mine| Box::new(mine.record));
            return self.finish(RefreshOutcome::LoggedOut(given));
        };
        let good = match &self.goal.stale_token {
            Some(stale) => record.access != *stale && !due::is_due(&record, now.wall),
            None => true,
        };
        if good {
            return self.finish(RefreshOutcome::Current(record, version));
        }
        if let LoginState::NeedsLogin(why) = &record.state {
            let why = AuthError::new(AuthErrorKind::LoginNeeded, why.clone());
            return self.finish(RefreshOutcome::LoginEnded { record, version, why });
        }
        if !record.is_refreshable() {
            let why = AuthError::new(AuthErrorKind::LoginNeeded, "the login has no refresh token");
            return self.finish(RefreshOutcome::LoginEnded { record, version, why });
        }
        if !leased {
            return self.transition(Phase::Acquiring, Step::Acquire);
        }
        if self.spent.contains(&SpentGrant::from_record(&record)) {
            let why = match self.end_kind {
                AuthErrorKind::InvalidClient => "the authorization server no longer knows this client",
                _ => "the authorization server ended the login",
            };
            let why = AuthError::new(self.end_kind, why);
            let ended = Box::new(record.with_login_needed(why.what.clone()));
            let step = Step::Write(ended.clone(), Some(version));
            return self.transition(Phase::MarkingEnded { ended, why, version }, step);
        }
        let base = Box::new(record);
        let step = Step::Connect(base.clone());
        self.transition(Phase::Connecting { base, version }, step)
    }

    /// Handles a refused token request.
    fn handle_refusal(&mut self, base: LoginRecord, error: AuthError) -> Step {
        let origin = base.client.as_ref().map(|client| client.origin);
        match (error.kind, origin) {
            // AX-09: without a person there is no refresh token that another process could have
            // replaced.
            (AuthErrorKind::InvalidGrant, _) if base.by != GrantKind::Person => self.fail(error),
            // The token may have been replaced by a former holder of the lease, or by a new login.
            (AuthErrorKind::InvalidGrant, _) => self.mark_spent(&base, error.kind),
            // The registered client is unknown by now, and its tokens are void.
            (AuthErrorKind::InvalidClient, Some(ClientOrigin::Registered)) => {
                self.mark_spent(&base, error.kind)
            }
            (AuthErrorKind::InvalidClient, Some(ClientOrigin::Configured)) => {
                let hint = "check the client's id, its secret and its authentication method";
                self.fail(AuthError { kind: AuthErrorKind::Setup, ..error }.hint(hint))
            }
            _ => self.fail(error),
        }
    }

    fn mark_spent(&mut self, base: &LoginRecord, kind: AuthErrorKind) -> Step {
        self.spent.push(SpentGrant::from_record(base));
        self.end_kind = kind;
        self.restart(Phase::Reading { leased: true })
    }

    /// Handles a version conflict: tokens were received, but another process wrote first.
    fn handle_conflict(
        &mut self,
        now: ClockReading,
        saving: PendingWrite,
        found: Option<(LoginRecord, Version)>,
    ) -> Step {
        if saving.login.supersedes(found.as_ref().map(|(record, _)| record)) {
            return self.write(saving, found.map(|(_, version)| version));
        }
        if found.is_none() {
            // A logout; the login must not be restored.
            return self.finish(RefreshOutcome::LoggedOut(Some(Box::new(saving.login.record))));
        }
        // A new login, which wins; our tokens belong to the older one.
        self.handle_record(now, true, found)
    }

    fn write(&mut self, saving: PendingWrite, version: Option<Version>) -> Step {
        let step = Step::Write(Box::new(saving.login.record.clone()), version);
        self.transition(Phase::Writing(saving, version), step)
    }

    /// Waits before the next write, so that tokens are not lost to a disk that is full for a
    /// moment.
    fn wait_or_give_up(
        &mut self,
        now: ClockReading,
        mut saving: PendingWrite,
        error: AuthError,
        then: impl FnOnce(PendingWrite) -> Phase,
    ) -> Step {
        // Both conditions, because a machine that slept has tried only once. Tokens that can be
        // requested again are not worth a wait.
        let tried_enough = now.monotonic >= saving.deadline && saving.failures >= MIN_SAVE_ATTEMPTS;
        if tried_enough || !saving.login.would_lose_login() {
            return match saving.age {
                TokenAge::Fresh => self.finish(RefreshOutcome::Unsaved(*saving.login)),
                // The refresh token that they were received for is still valid.
                TokenAge::Earlier if !saving.login.would_lose_login() && self.goal.stale_token.is_some() => {
                    self.restart(Phase::Reading { leased: true })
                }
                // They stay unsaved. Refreshing them would only add more tokens that can be lost.
                TokenAge::Earlier => self.fail(error),
            };
        }
        let wait = Duration::from_millis(100).saturating_mul(1 << saving.failures.min(5));
        saving.failures += 1;
        self.transition(then(saving), Step::WaitWithLease(wait))
    }

    /// Whether a login is being written that would otherwise be lost.
    pub(crate) fn would_lose_login(&self) -> bool {
        match &self.phase {
            Phase::Writing(saving, _)
            | Phase::ReadingConflict(saving)
            | Phase::WaitingToWrite(saving, _)
            | Phase::WaitingToReread(saving) => saving.login.would_lose_login(),
            _ => false,
        }
    }

    /// Starts over with a read, at most [`MAX_RESTARTS`] times.
    fn restart(&mut self, phase: Phase) -> Step {
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS {
            let what = "the login kept changing while it was refreshed";
            return self.fail(AuthError::new(AuthErrorKind::Unavailable, what));
        }
        self.read(phase)
    }

    fn read(&mut self, phase: Phase) -> Step {
        self.transition(phase, Step::Read)
    }

    fn fail(&mut self, error: AuthError) -> Step {
        self.finish(RefreshOutcome::Failed(error))
    }

    fn finish(&mut self, outcome: RefreshOutcome) -> Step {
        self.transition(Phase::Done, Step::Done(Box::new(outcome)))
    }

    fn transition(&mut self, phase: Phase, step: Step) -> Step {
        self.phase = phase;
        step
    }
}

impl UnsavedLogin {
    /// Whether this login replaces the stored one.
    ///
    /// A refresh does if the store still holds the login that was refreshed. If it came with a new
    /// refresh token, the stored one is spent, whatever the clocks say; if not, both are valid and
    /// the later one wins. A new login does if the store still holds the login it replaced, however
    /// often that was refreshed since.
    pub(crate) fn supersedes(&self, kept: Option<&LoginRecord>) -> bool {
        match (&self.source, kept) {
            (LoginSource::Refresh(exchanged), Some(kept)) => {
                kept.refresh == *exchanged
                    && kept.logged_in_at == self.record.logged_in_at
                    && (self.would_lose_login() || kept.obtained_at() < self.record.obtained_at())
            }
            // A logout.
            (LoginSource::Refresh(_), None) => false,
            (LoginSource::Login(replaced), kept) => *replaced == kept.map(|kept| kept.logged_in_at),
        }
    }

    /// Whether the login is lost if this is not saved. It is not if the tokens can be requested
    /// again: the authorization server does not rotate refresh tokens, or the grant needs no
    /// person.
    pub(crate) fn would_lose_login(&self) -> bool {
        match &self.source {
            LoginSource::Refresh(exchanged) => self.record.refresh != *exchanged,
            LoginSource::Login(_) => self.record.by == GrantKind::Person,
        }
    }
}

/// The error for a process that holds lock or lease for too long.
fn held_up_error(by: Option<u32>) -> AuthError {
    let what = match by {
        Some(process) => format!("process {process} has been refreshing the login for too long"),
        None => "another process has been refreshing the login for too long".to_owned(),
    };
    let error = AuthError::new(AuthErrorKind::Unavailable, what);
    match by {
        Some(process) => error.hint(format!("if process {process} is stopped, continue it or end it")),
        None => error,
    }
}

impl PendingWrite {
    fn new(now: ClockReading, login: UnsavedLogin, age: TokenAge) -> Self {
        Self { login: Box::new(login), age, failures: 0, deadline: now.monotonic + SAVE_TIMEOUT }
    }
}

impl SpentGrant {
    fn from_record(record: &LoginRecord) -> Self {
        Self {
            client: record.client.as_ref().map(|client| client.id.clone()),
            refresh: record.refresh.clone(),
        }
    }
}

impl RefreshEvent {
    fn name(&self) -> &'static str {
        match self {
            Self::RecordRead(_) => "found",
            Self::Acquired => "acquired",
            Self::HeldByOther(_) => "taken",
            Self::Waited => "waited",
            Self::Connected => "dialed",
            Self::Confirmed => "confirmed",
            Self::LeaseLost => "lost",
            Self::TokensReceived(_) => "given",
            Self::RequestFailed(_) => "refused",
            Self::Written(_) => "wrote",
            Self::VersionConflict => "outrun",
            Self::StoreFailed(_) => "store failed",
        }
    }
}

impl Phase {
    fn name(&self) -> &'static str {
        match self {
            Self::Reading { .. } => "look",
            Self::Acquiring => "lease",
            Self::WaitingForOther => "others",
            Self::Connecting { .. } => "dialing",
            Self::ConfirmingLease { .. } => "right",
            Self::AwaitingTokens { .. } => "tokens",
            Self::Writing(..) => "saved",
            Self::ReadingConflict(_) => "overtaken",
            Self::WaitingToWrite(..) => "resting",
            Self::WaitingToReread(_) => "resigned",
            Self::MarkingEnded { .. } => "marked",
            Self::Done => "over",
        }
    }
}
