//! Who we are, on one connection: before a request, when one is refused, and when that changes.
//!
//! How a login is had is decided in `bowline_auth`. Here it is asked for, and what it means for calls is done.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bowline_auth::{AuthError, AuthErrorKind, RefreshState, Refusal};
use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::session::{Attempt, Command, Event, Status};
use bowline_proto::wire::outgoing::Frame;
use bowline_transport::http::Answer;
use tokio::time::{sleep_until, timeout};

use super::{Failure, Live, Shared, Wire};

/// Whether a person may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Somebody waits for it.
    Anybody,
    /// Nobody does, or the reason may be another.
    Nobody,
}

impl Shared {
    /// Who we are at the moment. To be read before a request is sent.
    pub(super) fn generation(&self) -> u64 {
        self.auth.as_ref().map_or(0, bowline_auth::Identity::generation)
    }

    /// Who we are to the server, if it may want to know.
    pub(crate) fn identity(&self) -> Option<&bowline_auth::Identity> {
        self.auth.as_ref()
    }

    /// Whether requests carry something that proves who we are.
    pub(super) fn proves_who(&self, live: &Live) -> bool {
        live.credentials || self.auth.as_ref().is_some_and(bowline_auth::Identity::has_credentials)
    }

    /// Waits for a renewal that is under way, and lets no other begin. Says whether everything is written down.
    pub(crate) async fn settle_login(&self) -> Result<(), AuthError> {
        match &self.auth {
            Some(auth) => auth.settle().await,
            None => Ok(()),
        }
    }

    /// Sees to it that a request does not go out with a token that has ended. Takes no longer than the call may.
    pub(super) async fn freshen(&self, patience: Duration) -> Result<(), Failure> {
        let Some(auth) = &self.auth else { return Ok(()) };
        let Ok(fresh) = timeout(patience, auth.fresh()).await else {
            let note = "renewing it takes longer than the call may";
            return Err(Failure::Fault(Fault::before_sending(Cause::LoginUnavailable).note(note)));
        };
        fresh.map_err(|error| Failure::Fault(fault(&error, 401, &[])))
    }

    /// Does something in the time that a call has, in which it does not count how long a person is asked. Gives what
    /// came of it in time, and how much did not count.
    pub(super) async fn in_time<T>(
        &self,
        end: Instant,
        doing: impl Future<Output = T>,
    ) -> (Option<T>, Duration) {
        let before = self.asking.total();
        let aside = || self.asking.total().saturating_sub(before);
        let mut status = self.status();
        tokio::pin!(doing);
        loop {
            // While somebody is asked, the end moves on with the clock.
            let until = (end + aside()).max(Instant::now() + TICK);
            tokio::select! {
                biased;
                done = &mut doing => return (Some(done), aside()),
                _ = status.wait_for(|status| *status == Status::Closed) => return (None, aside()),
                () = sleep_until(until.into()) => {}
            }
            if Instant::now() >= end + aside() {
                return (None, aside());
            }
        }
    }

    /// Reads what is remembered of us, and renews it if it has to be. An error only if nothing may be sent: without
    /// the headers that a program makes we would be somebody else, and what proves who we are must not be readable on
    /// the way.
    pub(super) async fn prepare(&self) -> Result<(), Fault> {
        let Some(auth) = &self.auth else { return Ok(()) };
        let preparing = async {
            auth.load().await?;
            auth.fresh().await
        };
        tokio::pin!(preparing);
        // A little sooner than the whole attempt is given up, which could not say what it waited for.
        let limit = self.timeouts.connect.mul_f64(0.9);
        let prepared = if let Ok(prepared) = timeout(limit, &mut preparing).await {
            prepared
        } else {
            let state = auth.refresh_state().borrow().clone();
            match slow_refresh(&state, limit) {
                Some(fault) => return Err(fault),
                None => preparing.await,
            }
        };
        match prepared {
            Err(error) if matches!(error.kind, AuthErrorKind::Command | AuthErrorKind::PlainHttp) => {
                Err(fault(&error, 401, &[]))
            }
            Err(error) => {
                tracing::debug!(server = %self.name, %error, "connecting without a login");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Whether a login that is missing may be had now that somebody waits for it: a person was not asked yet, or
    /// another process has made us somebody else.
    pub(super) async fn may_log_in(&self) -> bool {
        let Some(auth) = &self.auth else { return false };
        if auth.is_interactive() && self.unasked.swap(false, Ordering::Relaxed) {
            return true;
        }
        let before = auth.generation();
        Box::pin(auth.load()).await.is_ok() && auth.generation() != before
    }

    /// A request was refused for who we are. `Ok`: it is worth another try.
    pub(super) async fn be_let_in(
        &self,
        refused: &Fault,
        generation: u64,
        operation: &str,
        ask: Ask,
    ) -> Result<(), Fault> {
        let (Some(auth), Cause::LoginRequired { code, challenge }) = (&self.auth, &refused.cause) else {
            return Err(refused.clone());
        };
        let refusal = Refusal {
            status: *code,
            challenge: challenge.clone(),
            generation,
            operation: operation.to_owned(),
            quiet: ask == Ask::Nobody,
        };
        // Rare, and large: kept out of the futures of everybody else.
        Box::pin(auth.answer(&refusal)).await.map_err(|error| {
            let mut fault = fault(&error, *code, challenge);
            fault.evidence.body.clone_from(&refused.evidence.body);
            fault
        })
    }

    /// Something is about to be sent that opens a link.
    pub(super) fn note_opening(&self) {
        self.opened_as.store(self.generation(), Ordering::Relaxed);
    }

    /// The same for the opening of a connection.
    pub(super) async fn authorize(self: Arc<Self>, attempt: Attempt, refused: Fault) {
        // A person who does nothing is not shown a page because a server thinks that it is time for one.
        let unasked = self.was_live.load(Ordering::Relaxed) && self.waiting.load(Ordering::Relaxed) == 0;
        let ask = if unasked { Ask::Nobody } else { Ask::Anybody };
        self.unasked.store(unasked, Ordering::Relaxed);
        let generation = self.opened_as.load(Ordering::Relaxed);
        let event = match self.be_let_in(&refused, generation, "connect", ask).await {
            Ok(()) => Event::Authorized,
            Err(fault) => Event::Denied(fault),
        };
        self.report(attempt, event);
    }

    /// Keeps our token good, and tells the connection when we are somebody else. Ends when dropped.
    pub(super) async fn attend(self: Arc<Self>) {
        let Some(auth) = self.auth.clone() else { return };
        let mut changes = auth.changes();
        let mut standing = auth.standing();
        let watch = async {
            while changes.changed().await.is_ok() {
                let now = auth.standing();
                if std::mem::replace(&mut standing, now) != now {
                    // CA-03, TL-10: another account, or more rights, may see other things.
                    self.outdate_all();
                    self.look_anew();
                }
                self.command(Command::LoggedIn);
            }
        };
        tokio::join!(auth.keep(), watch);
    }

    /// Looks again at what somebody has asked for, now that we may see more of it, or less.
    fn look_anew(self: &Arc<Self>) {
        if let Some(live) = self.live() {
            let shared = Arc::clone(self);
            self.errands.serve(async move { shared.look(live).await });
        }
    }

    /// Sends what needs no answer: a notification, or our answer to the server.
    pub(super) async fn say(&self, wire: &Wire, frame: &Frame) -> Result<(), Fault> {
        let (post, headers) = match wire {
            Wire::Pipe(writer) => return writer.send(frame).await,
            Wire::Http { link: post, headers } | Wire::EventStream { post, headers } => (post, headers),
        };
        let generation = self.generation();
        let answer = post.post(frame.body(), headers).await?;
        let Some(refused) = denial(&answer) else { return Ok(()) };
        // Whether the server takes it is its own affair, but not that it does not know us.
        self.be_let_in(&refused, generation, "notification", Ask::Nobody).await?;
        post.post(frame.body(), headers).await.map(drop)
    }
}

/// Whether an answer says that it matters who we are, and we are not.
pub(super) fn denial(answer: &Answer) -> Option<Fault> {
    if !matches!(answer.status, 401 | 403) {
        return None;
    }
    Some(answer.refusal()).filter(|fault| matches!(fault.cause, Cause::LoginRequired { .. }))
}

impl Failure {
    /// What was said, if a request was refused for who we are.
    pub(super) fn denial(&self) -> Option<&Fault> {
        match self {
            Self::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => Some(fault),
            Self::Session(refused) => match &refused.reply {
                Reply::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => Some(fault),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Why a login could not be had, as the connection sees it.
fn fault(error: &AuthError, code: u16, challenge: &[String]) -> Fault {
    let words = match &error.hint {
        // How to log in is the host's to say.
        Some(hint) if error.kind != AuthErrorKind::LoginNeeded => format!("{}; {hint}", error.what),
        _ => error.what.clone(),
    };
    let cause = match error.kind {
        AuthErrorKind::Unavailable => Cause::LoginUnavailable,
        AuthErrorKind::Store => Cause::Store,
        AuthErrorKind::Command => Cause::HeadersCommand,
        AuthErrorKind::PlainHttp => Cause::PlainHttp,
        _ => Cause::LoginRequired { code, challenge: challenge.to_vec() },
    };
    Fault::before_sending(cause).note(words)
}

/// Says whom a connection waits for that is not opened because the login is refreshed first; `None`: it is not.
pub(super) fn slow_refresh(state: &RefreshState, waited: Duration) -> Option<Fault> {
    let seconds = waited.as_secs();
    let what = match state {
        RefreshState::AuthorizationServer => {
            format!("the token endpoint of its authorization server has not answered for {seconds} s")
        }
        RefreshState::OtherProcess(Some(process)) => {
            format!("process {process}, which does that, is not done after {seconds} s")
        }
        RefreshState::OtherProcess(None) => {
            format!("another process, which does that, is not done after {seconds} s")
        }
        RefreshState::Store(error) => error.what.clone(),
        _ => return None,
    };
    let note = format!("the login is renewed first, and {what}; nothing is lost: try again later");
    Some(Fault::before_sending(Cause::Timeout(Limit::Connect)).note(note))
}

/// How often it is looked whether a person is still asked.
const TICK: Duration = Duration::from_millis(20);
