//! What is done for a call that failed: ask, wait, send it once more, or say why not.
//!
//! Whether a request may be sent again is decided by `fault.rs` and `loss.rs`; here it is only done. All
//! of it happens in the caller's own future: a caller who leaves takes the retry along.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bowline_proto::fault::{Cause, Execution, Fault};
use bowline_proto::loss::Verdict;
use bowline_proto::revision::Era;
use bowline_proto::session::{Announcement, Event};
use bowline_proto::wire::{Json, code, method};
use tokio::time::{sleep, timeout};

use super::alive::Standing;
use super::authorize::Ask as Asking;
use super::call::FAR;
use super::{CallOptions, Failure, Judged, Live, Shared};
use crate::events::Life;

/// What was asked for.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) params: Option<&'a Json>,
    pub(super) options: &'a CallOptions,
}

/// What a call has left to be saved with.
#[expect(clippy::struct_excessive_bools, reason = "each chance is used up by itself")]
struct Chances {
    /// When there is no time left, whatever is hoped for.
    until: Instant,
    /// It was sent a second time.
    resent: bool,
    /// For that a new session was opened.
    renewed: bool,
    /// The server was waited for because it was busy.
    waited: bool,
    /// HM-10: the annotations were fetched anew for it.
    corrected: bool,
    /// How often it was asked for who we are.
    logins: u32,
    /// That is settled: there is no more to be had.
    denied: bool,
    /// The session may have been the reason. A new one finds out.
    doubted: bool,
    /// The first time it may have been run: whatever becomes of the second, that stays so.
    doubt: bool,
}

/// How a failed call goes on.
enum Next {
    /// On the next link, once there is one. Nothing was sent on the last.
    Anew,
    /// On the next link; counts as the one retry. With the failure to report if there is no such link.
    Again(Failure),
    /// On the same link.
    Here,
}

impl Shared {
    /// Tries to get a failed call done after all, once. Gives the link on which it was.
    pub(super) async fn save(
        self: &Arc<Self>,
        live: &Arc<Live>,
        ask: Ask<'_>,
        begun: Instant,
        generation: u64,
        failure: Failure,
    ) -> Result<(Arc<Live>, Json), Failure> {
        let limits = self.limits(ask.options);
        let now = Instant::now();
        let (mut begun, mut generation) = (begun, generation);
        // All of it happens in the call's own time: what it may take in all, and what it may be silent.
        let mut end = (begun + limits.total.min(FAR)).min(now + limits.idle.min(FAR));
        let mut chances = Chances {
            until: end,
            resent: false,
            renewed: false,
            waited: false,
            corrected: false,
            logins: 0,
            denied: false,
            doubted: false,
            doubt: false,
        };
        let mut live = Arc::clone(live);
        let mut failure = failure;
        for _ in 0..MOST_TURNS {
            chances.doubt |= failure.is_doubtful();
            let known = failure.known();
            if self.may_be_let_in(&failure, &chances) {
                let entering = self.enter(&live, ask, failure, generation, &mut chances);
                let (entered, aside) = self.in_time(end, entering).await;
                (begun, end, chances.until) = (begun + aside, end + aside, chances.until + aside);
                match entered {
                    Some(Ok(())) => {}
                    Some(Err(refused)) => {
                        failure = refused;
                        continue;
                    }
                    None => return Err(chances.told(known)),
                }
            } else {
                let next = self.next_link(&live, ask, failure, &mut chances);
                let (next, aside) = self.in_time(end, next).await;
                (begun, end, chances.until) = (begun + aside, end + aside, chances.until + aside);
                match next {
                    Some(Ok(next)) => live = next,
                    Some(Err(failure)) => return Err(chances.told(failure)),
                    None => return Err(chances.told(known)),
                }
            }
            let total = (begun + limits.total.min(FAR)).saturating_duration_since(Instant::now());
            if total.is_zero() {
                return Err(chances.told(known));
            }
            let options = CallOptions { idle: Some(limits.idle), total: Some(total), ..ask.options.clone() };
            generation = self.generation();
            match self.once(&live, ask.method, ask.params, &options).await {
                Ok(result) => {
                    live.prove();
                    return Ok((live, result));
                }
                Err(again) => failure = again,
            }
        }
        Err(chances.told(failure))
    }

    /// Whether a call was refused for who we are, and that may still be settled.
    fn may_be_let_in(&self, failure: &Failure, chances: &Chances) -> bool {
        let settled = chances.denied || (chances.doubted && !chances.resent);
        self.auth.is_some() && !settled && chances.logins < MOST_LOGINS && failure.denial().is_some()
    }

    /// Has it settled who we are, for a call that was refused for that. `Ok`: it goes again, over the same link.
    async fn enter(
        self: &Arc<Self>,
        live: &Arc<Live>,
        ask: Ask<'_>,
        failure: Failure,
        generation: u64,
        chances: &mut Chances,
    ) -> Result<(), Failure> {
        let Some(refused) = failure.denial() else { return Err(failure) };
        chances.logins += 1;
        // The session may be the reason; before a person is asked, a new one finds out.
        let doubtful = is_of_session(&failure) && self.may_be_for_session(live, chances);
        let quietly = doubtful || ask.options.quiet;
        let asking = if quietly { Asking::Nobody } else { Asking::Anybody };
        let operation = super::purpose(ask.method, ask.params);
        let Err(why) = self.be_let_in(refused, generation, &operation, asking).await else { return Ok(()) };
        chances.doubted = doubtful;
        chances.denied = !doubtful;
        Err(match failure {
            Failure::Session(judged) if matches!(why.cause, Cause::LoginRequired { .. }) => {
                Failure::Session(Box::new(Judged { shown: Failure::Fault(why), ..*judged }))
            }
            _ => Failure::Fault(why),
        })
    }

    /// Some servers say 401 to a session they have forgotten. With credentials that were good a moment ago, one new
    /// session is worth a try before a person is asked.
    fn may_be_for_session(&self, live: &Live, chances: &Chances) -> bool {
        let tried = live.challenged.load(Ordering::Relaxed);
        live.session && self.proves_who(live) && live.is_proven() && !tried && !chances.resent
    }

    /// The link over which a failed call goes once more, or why it does not.
    async fn next_link(
        self: &Arc<Self>,
        live: &Arc<Live>,
        ask: Ask<'_>,
        failure: Failure,
        chances: &mut Chances,
    ) -> Result<Arc<Live>, Failure> {
        let next = self.next(live, ask, failure, chances).await?;
        let left = chances.until.saturating_duration_since(Instant::now());
        match next {
            Next::Here => Ok(Arc::clone(live)),
            Next::Again(shown) if ask.options.pinned => Err(shown),
            Next::Anew if ask.options.pinned => Err(Failure::Left),
            Next::Anew => self.ready_for(left, ask.options).await,
            Next::Again(shown) => {
                let live =
                    self.ready_for(left, ask.options).await.map_err(|missing| explained(&shown, missing))?;
                if !self.may_repeat(&live, ask, &shown).await {
                    return Err(shown);
                }
                chances.doubt |= shown.is_doubtful();
                chances.resent = true;
                Ok(live)
            }
        }
    }

    /// What a failure means for the connection, and for the call.
    async fn next(
        self: &Arc<Self>,
        live: &Arc<Live>,
        ask: Ask<'_>,
        failure: Failure,
        chances: &mut Chances,
    ) -> Result<Next, Failure> {
        match failure {
            Failure::Left => {
                // The session has moved on; the driver may be about to follow.
                self.leave(live.attempt);
                Ok(Next::Anew)
            }
            // HM-10: the schema we hold is out of date. Get the newest, then once more. Elsewhere the code is the
            // server's own.
            Failure::Server(error)
                if error.code == code::HEADER_MISMATCH
                    && ask.method == method::TOOLS_CALL
                    && live.wire.is_http()
                    && live.peer.era() == Era::Modern
                    && !std::mem::replace(&mut chances.corrected, true) =>
            {
                self.refresh_annotations(live).await;
                Ok(Next::Here)
            }
            Failure::Session(judged) => self.next_of_session(live, ask, *judged, chances).await,
            Failure::Fault(fault) => self.lose_link(live, ask, fault, chances).await,
            other => Err(other),
        }
    }

    /// The same for an answer that speaks of the session.
    async fn next_of_session(
        self: &Arc<Self>,
        live: &Arc<Live>,
        ask: Ask<'_>,
        judged: Judged,
        chances: &mut Chances,
    ) -> Result<Next, Failure> {
        let Judged { verdict, refused, shown } = judged;
        if verdict == Verdict::Login {
            // If a new session is refused in the same way, it is this request that is.
            if self.may_be_for_session(live, chances) {
                return self.lose_session(live, &shown, Execution::NotExecuted, chances);
            }
            // A person is told once; the connection itself is none the worse.
            if let (false, Failure::Fault(fault)) = (live.challenged.swap(true, Ordering::Relaxed), &shown) {
                let wanted = Announcement::NeedsLogin(fault.clone());
                self.tell(crate::events::Event::Life(Life::new(&self.name, 0, wanted)));
            }
            return Err(shown);
        }
        // A loss that comes again from the session that was opened for it is doubted too.
        if verdict != Verdict::Lost || chances.renewed {
            let standing = self.is_still_there(live, verdict).await;
            if standing != Standing::Gone {
                return match shown {
                    Failure::Fault(fault) if fault.is_outage() => {
                        self.lose_link(live, ask, fault, chances).await
                    }
                    // The server's own business: handed on untouched.
                    other => Err(other),
                };
            }
        }
        // The session is gone; whether the request was run before that is another matter.
        let execution = match &shown {
            _ if verdict == Verdict::Lost || refused => Execution::NotExecuted,
            Failure::Fault(fault) => fault.execution,
            _ => Execution::Unknown,
        };
        self.lose_session(live, &shown, execution, chances)
    }

    /// Somebody found out by other means than a call.
    pub(super) fn forget_session(&self, live: &Live, how: &str) {
        let fault = Fault::before_sending(Cause::SessionLost).note(how);
        live.forget();
        self.leave(live.attempt);
        self.report(live.attempt, Event::Forgotten { fault, proven: live.is_proven() });
    }

    /// The server has forgotten the session.
    fn lose_session(
        &self,
        live: &Arc<Live>,
        shown: &Failure,
        execution: Execution,
        chances: &mut Chances,
    ) -> Result<Next, Failure> {
        let fault = Fault { execution, ..shown.as_loss() };
        live.forget();
        self.leave(live.attempt);
        self.report(live.attempt, Event::Forgotten { fault: fault.clone(), proven: live.is_proven() });
        if chances.renewed {
            // The session that was opened for this call is gone too.
            return Err(Failure::Fault(Fault { cause: Cause::NotAffine, ..fault }));
        }
        if chances.resent {
            return Err(Failure::Fault(fault));
        }
        chances.renewed = true;
        Ok(Next::Again(Failure::Fault(fault)))
    }

    async fn lose_link(
        self: &Arc<Self>,
        live: &Arc<Live>,
        ask: Ask<'_>,
        fault: Fault,
        chances: &mut Chances,
    ) -> Result<Next, Failure> {
        // The server is busy and says for how long.
        if let Cause::Status { code: 429, retry_after: Some(wait) } = fault.cause
            && wait <= self.reconnect_wait
            && Instant::now() + wait < chances.until
            && !std::mem::replace(&mut chances.waited, true)
        {
            sleep(wait).await;
            return Ok(Next::Here);
        }
        self.tell_outage(live, &fault);
        // Where it is not known yet whether the request may be repeated, the answer comes with the next link.
        let harmless = self.is_harmless(ask.method, ask.params).unwrap_or(true);
        if chances.resent || !fault.may_resend(harmless) {
            return Err(Failure::Fault(fault));
        }
        self.settle(live).await;
        Ok(Next::Again(Failure::Fault(fault)))
    }

    /// Over HTTP nobody else notices that the server is gone. On a pipe or a stream its reader does, though
    /// perhaps a moment later; but where nobody can be reached there is nothing to wait for.
    fn tell_outage(&self, live: &Arc<Live>, fault: &Fault) {
        let unreachable =
            matches!(fault.cause, Cause::Refused | Cause::Dns | Cause::Unreachable | Cause::Tls);
        if fault.is_outage() && (live.wire.is_http() || unreachable) {
            self.leave(live.attempt);
            self.report(live.attempt, Event::Lost(fault.clone()));
        }
    }

    /// Gives the reader of a stream the moment it takes to notice what a post has noticed.
    async fn settle(&self, live: &Arc<Live>) {
        let mut status = self.status();
        let left = async {
            while self.live().is_some_and(|now| now.attempt == live.attempt) {
                if status.changed().await.is_err() {
                    break;
                }
            }
        };
        let _ = timeout(SETTLING, left).await;
    }

    /// Whether the request may be sent a second time, now that the server can be asked about its tools.
    async fn may_repeat(self: &Arc<Self>, live: &Arc<Live>, ask: Ask<'_>, failure: &Failure) -> bool {
        let Failure::Fault(fault) = failure else { return true };
        if fault.execution == Execution::NotExecuted {
            return true;
        }
        if self.is_harmless(ask.method, ask.params).is_none() {
            // The list is not for the caller; if it cannot be had, nothing is known and nothing is sent.
            let _ = Box::pin(crate::features::tools::list(self, live, &CallOptions::quietly())).await;
        }
        self.is_harmless(ask.method, ask.params).unwrap_or(false)
    }
}

impl Chances {
    /// The last failure, with what is known of all attempts.
    fn told(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Fault(fault) if self.doubt => {
                Failure::Fault(Fault { execution: Execution::Unknown, ..fault })
            }
            other => other,
        }
    }
}

impl Failure {
    /// What is known of the call if nothing more is learned.
    fn known(&self) -> Self {
        match self {
            Self::Fault(fault) => Self::Fault(fault.clone()),
            Self::Server(error) => Self::Server(error.clone()),
            Self::Session(judged) => judged.shown.known(),
            Self::Declined(error) => Self::Declined(error.clone()),
            Self::Usage(what) => Self::Usage(what),
            Self::Left => Self::Left,
        }
    }

    fn is_doubtful(&self) -> bool {
        matches!(self, Self::Fault(fault) if fault.execution == Execution::Unknown)
    }

    /// The failure as the loss of a session, with the server's words as evidence.
    pub(super) fn as_loss(&self) -> Fault {
        let lost = Fault::before_sending(Cause::SessionLost);
        match self {
            // Whoever is to log in is to be told how.
            Self::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => {
                fault.clone().not_executed()
            }
            Self::Fault(fault) => {
                let words = fault.evidence.body.as_deref().unwrap_or_default();
                lost.note(fault.cause.to_string()).body(words.as_bytes())
            }
            Self::Server(error) => lost.body(error.message.as_bytes()),
            Self::Session(judged) => judged.shown.as_loss(),
            Self::Declined(_) | Self::Usage(_) | Self::Left => lost,
        }
    }
}

/// The server did not come back in time: that is why, but what the first failure knew still holds.
fn explained(first: &Failure, missing: Failure) -> Failure {
    match (first, missing) {
        (Failure::Fault(first), Failure::Fault(why)) => {
            Failure::Fault(Fault { execution: first.execution, ..why })
        }
        (_, other) => other,
    }
}

fn is_of_session(failure: &Failure) -> bool {
    matches!(failure, Failure::Session(judged) if judged.verdict == Verdict::Login)
}

/// SC-04: how often one call may be asked for who we are.
const MOST_LOGINS: u32 = 3;

/// A broken connection is seen on all of a server's connections within this time, or only one was broken.
const SETTLING: Duration = Duration::from_millis(250);

/// No way through the states of a call is longer: left, corrected, sent again, and left once more in between.
const MOST_TURNS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that may have run must not be said not to have, because the server did not come back.
    #[test]
    fn what_is_known_of_the_first_failure_is_kept() {
        let missing = || Failure::Fault(Fault::before_sending(Cause::Refused));
        let Failure::Fault(fault) = explained(&Failure::Fault(Fault::new(Cause::Cut)), missing()) else {
            panic!()
        };
        assert_eq!((fault.cause, fault.execution), (Cause::Refused, Execution::Unknown));
        let first = Failure::Fault(Fault::before_sending(Cause::Cut));
        let Failure::Fault(fault) = explained(&first, missing()) else { panic!() };
        assert_eq!(fault.execution, Execution::NotExecuted);
    }
}
