//! Performs what [`bowline_proto::client::retry`] decides for a failed request, and decides nothing.
//!
//! All of it happens in the caller's own future, so dropping the call ends the retry.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bowline_proto::client::keepalive;
use bowline_proto::client::loss::Verdict;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::retry::{self, FinalFailure, LinkFacts, Report, Retry, Step};
use bowline_proto::client::session::{Announcement, Event};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::Era;
use bowline_proto::wire::Json;
use tokio::time::timeout;

use crate::connection::login::LoginMode as Asking;
use crate::connection::options::RequestOrigin;
use crate::connection::{CallOptions, Failure, JudgedReply, LiveLink, Shared};
use crate::events::ConnectionEvent;

/// The method, params and options of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a Json>,
    pub(crate) options: &'a CallOptions,
}

/// The failure of the first sending of a request.
pub(crate) struct FirstFailure {
    pub(crate) started: Instant,
    /// Generation of the credentials that it was sent with.
    pub(crate) generation: u64,
    pub(crate) failure: Failure,
}

impl Shared {
    /// Retries a failed request until its final outcome. Returns the link that answered it.
    pub(crate) async fn retry_request(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
        first: FirstFailure,
    ) -> Result<(Arc<LiveLink>, Json), Failure> {
        let FirstFailure { started: begun, mut generation, failure } = first;
        let request = retry::RequestFacts {
            method: ask.method.into(),
            harmless: self.is_harmless(ask.method, ask.params),
            pinned: ask.options.pinned,
            quiet: ask.options.origin != RequestOrigin::Caller,
            max_retry_after: self.reconnect_wait,
        };
        let mut retry = Retry::new(request, begun, self.limits(ask.options));
        let mut live = Arc::clone(live);
        let mut step =
            retry.handle_failure(Instant::now(), self.link_facts(&live), into_retry_failure(failure)?);
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
                    generation = self.credentials_generation();
                    if let Some(listener) = &options.progress {
                        listener.restart();
                    }
                    match self.send_once(&live, ask.method, ask.params, &options).await {
                        Ok(result) => {
                            live.mark_proven();
                            return Ok((live, result));
                        }
                        Err(failure) => retry.handle_failure(
                            Instant::now(),
                            self.link_facts(&live),
                            into_retry_failure(failure)?,
                        ),
                    }
                }
                Step::Probe(probe) => {
                    match self.run_within_deadline(&mut retry, self.probe_session(&live, probe)).await {
                        Some(answer) => retry.handle_probe(Instant::now(), answer),
                        None => retry.handle_timeout(Instant::now()),
                    }
                }
                Step::Reconnect => match self.wait_for_next_link(&mut retry, &live, ask.options).await {
                    Ok(next) => {
                        live = next;
                        retry.handle_link(Instant::now(), Ok(self.link_facts(&live)))
                    }
                    Err(Failure::Fault(fault)) => retry.handle_link(Instant::now(), Err(fault)),
                    Err(other) => return Err(other),
                },
                Step::CheckHarmless => {
                    // Without the list it is unknown whether the tool is harmless, and nothing is
                    // sent.
                    let options = CallOptions::background();
                    let listing = crate::features::tools::list_tools(self, &live, &options);
                    match self.run_within_deadline(&mut retry, Box::pin(listing)).await {
                        Some(_) => {
                            let harmless = self.is_harmless(ask.method, ask.params).unwrap_or(false);
                            retry.handle_harmless(Instant::now(), harmless)
                        }
                        None => retry.handle_timeout(Instant::now()),
                    }
                }
                Step::RefetchAnnotations => {
                    match self.run_within_deadline(&mut retry, self.refresh_annotations(&live)).await {
                        Some(()) => retry.handle_annotations(Instant::now()),
                        None => retry.handle_timeout(Instant::now()),
                    }
                }
                Step::LogIn { refused, quietly } => {
                    let asking = if quietly { Asking::Silent } else { Asking::Interactive };
                    let operation = crate::connection::describe_request(ask.method, ask.params);
                    let entering = self.reauthenticate(&refused, generation, &operation, asking);
                    match self.run_within_deadline(&mut retry, entering).await {
                        Some(entered) => retry.handle_login(Instant::now(), entered),
                        None => retry.handle_timeout(Instant::now()),
                    }
                }
                Step::Wait(until) => {
                    // Ends early if the connection is closed.
                    let _ =
                        self.run_within_deadline(&mut retry, tokio::time::sleep_until(until.into())).await;
                    retry.handle_timeout(Instant::now())
                }
            };
        }
    }

    /// Runs `future` in the time that the request has left. `None` on timeout.
    async fn run_within_deadline<T>(&self, retry: &mut Retry, future: impl Future<Output = T>) -> Option<T> {
        let (done, pause) = self.run_until_deadline(retry.deadline(), future).await;
        retry.exclude_pause(pause);
        done
    }

    /// Waits for the link that replaces this one.
    async fn wait_for_next_link(
        &self,
        retry: &mut Retry,
        live: &Arc<LiveLink>,
        options: &CallOptions,
    ) -> Result<Arc<LiveLink>, Failure> {
        self.wait_for_link_loss(live).await;
        let before = self.prompt_clock.total();
        let left = retry.deadline().saturating_duration_since(Instant::now());
        let found = self.wait_for_link_with(left, options).await;
        retry.exclude_pause(self.prompt_clock.total().saturating_sub(before));
        found
    }

    /// Gives the reader of the link a moment to notice the loss that a POST has noticed.
    async fn wait_for_link_loss(&self, live: &Arc<LiveLink>) {
        let mut status = self.status();
        let left = async {
            while self.live().is_some_and(|now| now.attempt == live.attempt) {
                if status.changed().await.is_err() {
                    break;
                }
            }
        };
        let _ = timeout(LINK_LOSS_TIMEOUT, left).await;
    }

    /// The facts about a link that the retry decision needs.
    pub(crate) fn link_facts(&self, live: &LiveLink) -> LinkFacts {
        LinkFacts {
            http: live.wire.is_http(),
            modern: live.peer.era() == Era::Modern,
            session: live.has_session,
            credentials: self.sends_credentials(live),
            can_authorize: self.auth.is_some(),
            proven: live.is_proven(),
            challenged: live.challenged.load(Ordering::Relaxed),
            list_method: keepalive::smallest_list_method(&live.peer),
        }
    }

    fn report_failure(&self, live: &Arc<LiveLink>, report: Report) {
        match report {
            Report::SessionLost(fault) => self.report_session_loss(live, fault),
            Report::LinkLost(fault) => {
                self.retire_link(live.attempt);
                self.report_link_event(live.attempt, Event::LinkLost(fault));
            }
            // The login event is emitted once per link; the connection stays usable.
            Report::NeedsLogin(fault) => {
                if !live.challenged.swap(true, Ordering::Relaxed) {
                    let wanted = Announcement::NeedsLogin(fault);
                    self.emit(crate::events::Event::Connection(ConnectionEvent::new(&self.name, 0, wanted)));
                }
            }
            Report::LinkSuperseded => self.retire_link(live.attempt),
        }
    }

    /// Reports that the server lost the session of a link.
    pub(crate) fn report_session_loss(&self, live: &LiveLink, fault: Fault) {
        live.mark_session_lost();
        self.retire_link(live.attempt);
        self.report_link_event(live.attempt, Event::SessionLost { fault, proven: live.is_proven() });
    }
}

/// Converts a failed sending for the retry decision. `Err` if nothing was sent and there is nothing
/// to decide.
fn into_retry_failure(failure: Failure) -> Result<retry::SendFailure, Failure> {
    Ok(match failure {
        Failure::LinkSuperseded => retry::SendFailure::NotSent,
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
            FinalFailure::NotSent => Self::LinkSuperseded,
        }
    }
}

impl JudgedReply {
    /// The failure that the caller sees if the session is alive after all.
    pub(crate) fn into_failure(self) -> Failure {
        retry::failure_from_reply(&self.reply).into()
    }
}

impl Failure {
    /// Converts the failure into a session loss, with the server's text as evidence.
    pub(crate) fn into_loss(self) -> Fault {
        match self {
            Self::Session(refused) => retry::session_loss_fault(&retry::failure_from_reply(&refused.reply)),
            Self::Server(error) => retry::session_loss_fault(&FinalFailure::ServerError(error)),
            Self::Fault(fault) => retry::session_loss_fault(&FinalFailure::Fault(fault)),
            Self::Declined(_) | Self::Usage(_) | Self::LinkSuperseded => {
                Fault::before_sending(Cause::SessionLost)
            }
        }
    }
}

/// Maximum time in which the loss of one connection shows on all others of the same server.
const LINK_LOSS_TIMEOUT: Duration = Duration::from_millis(250);
