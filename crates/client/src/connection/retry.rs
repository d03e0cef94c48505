//! Performs what [`bowline_proto::retry`] decides for a failed request, and decides nothing.
//!
//! All of it happens in the caller's own future, so dropping the call ends the retry.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::keepalive;
use bowline_proto::loss::Verdict;
use bowline_proto::retry::{self, FinalFailure, LinkFacts, Report, Retry, Step};
use bowline_proto::revision::Era;
use bowline_proto::session::{Announcement, Event};
use bowline_proto::wire::Json;
use tokio::time::timeout;

use super::authorize::Ask as Asking;
use super::options::Purpose;
use super::{CallOptions, Failure, JudgedReply, Live, Shared};
use crate::events::Life;

/// The method, params and options of a call.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) params: Option<&'a Json>,
    pub(super) options: &'a CallOptions,
}

/// The failure of the first sending of a request.
pub(super) struct FirstFailure {
    pub(super) begun: Instant,
    /// Generation of the credentials that it was sent with.
    pub(super) generation: u64,
    pub(super) failure: Failure,
}

impl Shared {
    /// Retries a failed request until its final outcome. Returns the link that answered it.
    pub(super) async fn retry_request(
        self: &Arc<Self>,
        live: &Arc<Live>,
        ask: Ask<'_>,
        first: FirstFailure,
    ) -> Result<(Arc<Live>, Json), Failure> {
        let FirstFailure { begun, mut generation, failure } = first;
        let request = retry::RequestFacts {
            method: ask.method.into(),
            harmless: self.is_harmless(ask.method, ask.params),
            pinned: ask.options.pinned,
            quiet: ask.options.purpose != Purpose::Caller,
            max_retry_after: self.reconnect_wait,
        };
        let mut retry = Retry::new(request, begun, self.limits(ask.options));
        let mut live = Arc::clone(live);
        let mut step = retry.handle_failure(Instant::now(), self.facts(&live), evidence(failure)?);
        loop {
            if let Some(report) = retry.poll_report() {
                self.report_failure(&live, report);
            }
            step = match step {
                Step::Finish(outcome) => return Err(outcome.into()),
                Step::Send => {
                    let limits = retry.limits(Instant::now());
                    let (idle, total) = (Some(limits.idle), Some(limits.total));
                    let options = CallOptions { idle, total, ..ask.options.clone() };
                    generation = self.generation();
                    if let Some(listener) = &options.progress {
                        listener.restart();
                    }
                    match self.once(&live, ask.method, ask.params, &options).await {
                        Ok(result) => {
                            live.prove();
                            return Ok((live, result));
                        }
                        Err(failure) => {
                            retry.handle_failure(Instant::now(), self.facts(&live), evidence(failure)?)
                        }
                    }
                }
                Step::Probe(probe) => match self.within(&mut retry, self.probe_session(&live, probe)).await {
                    Some(answer) => retry.handle_probe(Instant::now(), answer),
                    None => retry.handle_timeout(Instant::now()),
                },
                Step::Reconnect => match self.next_link(&mut retry, &live, ask.options).await {
                    Ok(next) => {
                        live = next;
                        retry.handle_link(Instant::now(), Ok(self.facts(&live)))
                    }
                    Err(Failure::Fault(fault)) => retry.handle_link(Instant::now(), Err(fault)),
                    Err(other) => return Err(other),
                },
                Step::CheckHarmless => {
                    // Without the list it is unknown whether the tool is harmless, and nothing is
                    // sent.
                    let options = CallOptions::quietly();
                    let listing = crate::features::tools::list(self, &live, &options);
                    match self.within(&mut retry, Box::pin(listing)).await {
                        Some(_) => {
                            let harmless = self.is_harmless(ask.method, ask.params).unwrap_or(false);
                            retry.handle_harmless(Instant::now(), harmless)
                        }
                        None => retry.handle_timeout(Instant::now()),
                    }
                }
                Step::RefetchAnnotations => {
                    match self.within(&mut retry, self.refresh_annotations(&live)).await {
                        Some(()) => retry.handle_annotations(Instant::now()),
                        None => retry.handle_timeout(Instant::now()),
                    }
                }
                Step::LogIn { refused, quietly } => {
                    let asking = if quietly { Asking::Nobody } else { Asking::Anybody };
                    let operation = super::purpose(ask.method, ask.params);
                    let entering = self.be_let_in(&refused, generation, &operation, asking);
                    match self.within(&mut retry, entering).await {
                        Some(entered) => retry.handle_login(Instant::now(), entered),
                        None => retry.handle_timeout(Instant::now()),
                    }
                }
                Step::Wait(until) => {
                    // Ends early if the connection is closed.
                    let _ = self.within(&mut retry, tokio::time::sleep_until(until.into())).await;
                    retry.handle_timeout(Instant::now())
                }
            };
        }
    }

    /// Runs `future` in the time that the request has left. `None` on timeout.
    async fn within<T>(&self, retry: &mut Retry, doing: impl Future<Output = T>) -> Option<T> {
        let (done, pause) = self.in_time(retry.deadline(), doing).await;
        retry.exclude_pause(pause);
        done
    }

    /// Waits for the link that replaces this one.
    async fn next_link(
        &self,
        retry: &mut Retry,
        live: &Arc<Live>,
        options: &CallOptions,
    ) -> Result<Arc<Live>, Failure> {
        self.settle(live).await;
        let before = self.asking.total();
        let left = retry.deadline().saturating_duration_since(Instant::now());
        let found = self.ready_for(left, options).await;
        retry.exclude_pause(self.asking.total().saturating_sub(before));
        found
    }

    /// Gives the reader of the link a moment to notice the loss that a POST has noticed.
    async fn settle(&self, live: &Arc<Live>) {
        let mut status = self.status();
        let left = async {
            while self.live().is_some_and(|now| now.attempt == live.attempt) {
                if status.changed().await.is_err() {
                    break;
                }
            }
        };
        let _ = timeout(SETTLE_TIME, left).await;
    }

    /// The facts about a link that the retry decision needs.
    pub(super) fn facts(&self, live: &Live) -> LinkFacts {
        LinkFacts {
            http: live.wire.is_http(),
            modern: live.peer.era() == Era::Modern,
            session: live.session,
            credentials: self.proves_who(live),
            can_authorize: self.auth.is_some(),
            proven: live.is_proven(),
            challenged: live.challenged.load(Ordering::Relaxed),
            list_method: keepalive::smallest_list_method(&live.peer),
        }
    }

    fn report_failure(&self, live: &Arc<Live>, report: Report) {
        match report {
            Report::SessionLost(fault) => self.lose_session(live, fault),
            Report::LinkLost(fault) => {
                self.leave(live.attempt);
                self.report(live.attempt, Event::LinkLost(fault));
            }
            // The login event is emitted once per link; the connection stays usable.
            Report::NeedsLogin(fault) => {
                if !live.challenged.swap(true, Ordering::Relaxed) {
                    let wanted = Announcement::NeedsLogin(fault);
                    self.tell(crate::events::Event::Life(Life::new(&self.name, 0, wanted)));
                }
            }
            Report::LinkSuperseded => self.leave(live.attempt),
        }
    }

    /// Reports that the server lost the session of a link.
    pub(super) fn lose_session(&self, live: &Live, fault: Fault) {
        live.forget();
        self.leave(live.attempt);
        self.report(live.attempt, Event::SessionLost { fault, proven: live.is_proven() });
    }
}

/// Converts a failed sending for the retry decision. `Err` if nothing was sent and there is nothing
/// to decide.
fn evidence(failure: Failure) -> Result<retry::SendFailure, Failure> {
    Ok(match failure {
        Failure::Left => retry::SendFailure::NotSent,
        Failure::Session(refused) => retry::SendFailure::Reply(refused.verdict, refused.reply),
        Failure::Server(error) => {
            retry::SendFailure::Reply(Verdict::Answer, Reply::Error { status: None, error, stray: false })
        }
        Failure::Fault(fault) => retry::SendFailure::Reply(Verdict::Answer, Reply::Fault(fault)),
        other @ (Failure::Declined(_) | Failure::Usage(_)) => return Err(other),
    })
}

impl From<FinalFailure> for Failure {
    fn from(outcome: FinalFailure) -> Self {
        match outcome {
            FinalFailure::ServerError(error) => Self::Server(error),
            FinalFailure::Fault(fault) => Self::Fault(fault),
            FinalFailure::NotSent => Self::Left,
        }
    }
}

impl JudgedReply {
    /// The failure that the caller sees if the session is alive after all.
    pub(super) fn shown(self) -> Failure {
        retry::failure_from_reply(&self.reply).into()
    }
}

impl Failure {
    /// Converts the failure into a session loss, with the server's text as evidence.
    pub(super) fn into_loss(self) -> Fault {
        match self {
            Self::Session(refused) => retry::session_loss_fault(&retry::failure_from_reply(&refused.reply)),
            Self::Server(error) => retry::session_loss_fault(&FinalFailure::ServerError(error)),
            Self::Fault(fault) => retry::session_loss_fault(&FinalFailure::Fault(fault)),
            Self::Declined(_) | Self::Usage(_) | Self::Left => Fault::before_sending(Cause::SessionLost),
        }
    }
}

/// Maximum time in which the loss of one connection shows on all others of the same server.
const SETTLE_TIME: Duration = Duration::from_millis(250);
