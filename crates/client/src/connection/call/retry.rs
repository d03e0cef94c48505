//! Performs what [`bowline_proto::client::retry`] decides for a failed request, and decides nothing.
//!
//! All of it happens in the caller's own future, so dropping the call ends the retry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::client::loss::Verdict;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::retry::{self, Report, Retry, Step};
use bowline_proto::client::session::{Announcement, Event};
use bowline_proto::fault::Fault;
use bowline_proto::wire::Json;

use super::request::{CallRequest, describe_request};
use crate::clock;
use crate::connection::engine::FailedCallWatch;
use crate::connection::login::LoginMode;
use crate::connection::options::RequestOrigin;
use crate::connection::{CallOptions, Connection, Failure, LiveLink};
use crate::events::ConnectionEvent;

/// The failure of the first sending of a request.
pub(crate) struct FirstFailure {
    pub(crate) started: Instant,
    /// Generation of the credentials that it was sent with.
    pub(crate) generation: u64,
    /// The time in which the server had a person prompted during this sending.
    pub(crate) prompt_time: Duration,
    /// Whether the server sent a message about the request before this sending failed.
    pub(crate) was_heard_of: bool,
    pub(crate) failure: Failure,
}

impl Connection {
    /// Retries a failed request until its final outcome. Returns the link that answered it.
    pub(crate) async fn retry_request(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
        first: FirstFailure,
    ) -> Result<(Arc<LiveLink>, Json), Failure> {
        let FirstFailure { started: begun, mut generation, prompt_time, was_heard_of, failure } = first;
        let harmless = self.lists.is_harmless(ask.method, ask.params);
        let request = retry::RequestFacts {
            method: ask.method.into(),
            harmless,
            pinned: ask.options.pinned,
            quiet: ask.options.origin != RequestOrigin::Caller,
            max_retry_after: self.server.reconnect_wait,
        };
        let mut retry = Retry::new(request, begun, self.server.limits(ask.options));
        retry.exclude_pause(prompt_time);
        if was_heard_of {
            retry.record_message();
        }
        let mut live = Arc::clone(live);
        // What the server sends about the request may come after its refusal, on another stream.
        let mut watch = self.engine.watch_failed(ask.meter.failed_id());
        let mut step =
            retry.handle_failure(clock::now(), live.facts(&self.login), into_retry_failure(failure)?);
        loop {
            if let Some(report) = retry.poll_report() {
                self.report_failure(&live, report, harmless).await;
            }
            step = match step {
                Step::Finish(outcome) => return Err(outcome.into()),
                Step::Send => {
                    let limits = retry.limits(clock::now());
                    let (idle, total) = (Some(limits.idle), Some(limits.total));
                    let options = CallOptions { idle, total, ..ask.options.clone() };
                    generation = self.login.credentials_generation();
                    if let Some(listener) = &options.progress {
                        listener.restart();
                    }
                    let prompted = ask.meter.prompt_time();
                    match self.send_once(&live, CallRequest { options: &options, ..ask }).await {
                        Ok(result) => {
                            live.mark_proven();
                            return Ok((live, result));
                        }
                        Err(failure) => {
                            retry.exclude_pause(ask.meter.prompt_time().saturating_sub(prompted));
                            if ask.meter.take_was_heard_of() {
                                retry.record_message();
                            }
                            watch = self.engine.watch_failed(ask.meter.failed_id());
                            let facts = live.facts(&self.login);
                            retry.handle_failure(clock::now(), facts, into_retry_failure(failure)?)
                        }
                    }
                }
                Step::Probe(probe) => {
                    let answer = self.run_within_deadline(&mut retry, self.probe_session(&live, probe)).await;
                    watch.tell(&mut retry);
                    match answer {
                        Some(answer) => retry.handle_probe(clock::now(), answer),
                        None => retry.handle_timeout(clock::now()),
                    }
                }
                Step::Reconnect => {
                    let found = self.wait_for_next_link(&mut retry, &live, ask).await;
                    watch.tell(&mut retry);
                    match found {
                        Ok(next) => {
                            ask.meter.record_new_link();
                            live = next;
                            retry.handle_link(clock::now(), Ok(live.facts(&self.login)))
                        }
                        Err(Failure::Fault(fault)) => retry.handle_link(clock::now(), Err(fault)),
                        Err(other) => return Err(other),
                    }
                }
                Step::CheckHarmless => self.check_harmless(&mut retry, &live, ask).await,
                Step::RefetchAnnotations => {
                    match self.run_within_deadline(&mut retry, self.refresh_annotations(&live)).await {
                        Some(()) => retry.handle_annotations(clock::now()),
                        None => retry.handle_timeout(clock::now()),
                    }
                }
                Step::LogIn { refused, quietly } => {
                    let mode = if quietly { LoginMode::Silent } else { LoginMode::Interactive };
                    let _wait = ask.meter.start_wait();
                    let operation = describe_request(ask.method, ask.params);
                    let entering = self.login.reauthenticate(&refused, generation, &operation, mode);
                    let entered = self.run_within_deadline(&mut retry, entering).await;
                    watch.tell(&mut retry);
                    match entered {
                        Some(entered) => retry.handle_login(clock::now(), entered),
                        None => retry.handle_timeout(clock::now()),
                    }
                }
                Step::Wait(until) => {
                    let _wait = ask.meter.start_wait();
                    // Ends early if the connection is closed.
                    let _ =
                        self.run_within_deadline(&mut retry, tokio::time::sleep_until(until.into())).await;
                    watch.tell(&mut retry);
                    retry.handle_timeout(clock::now())
                }
            };
        }
    }

    /// Finds out whether a tool is harmless that no list has shown yet. Without the list it is not, and nothing is
    /// sent.
    async fn check_harmless(
        self: &Arc<Self>,
        retry: &mut Retry,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Step {
        let options = CallOptions::background();
        let listing = self.list_tools(live, &options);
        match self.run_within_deadline(retry, Box::pin(listing)).await {
            Some(_) => {
                let harmless = self.lists.is_harmless(ask.method, ask.params).unwrap_or(false);
                retry.handle_harmless(clock::now(), harmless)
            }
            None => retry.handle_timeout(clock::now()),
        }
    }

    /// Reports a failure to the session. A lost session closes the streams on which messages about the request may
    /// still be on their way, so that of one that may have effects is reported after a moment.
    async fn report_failure(&self, live: &LiveLink, report: Report, harmless: Option<bool>) {
        if matches!(report, Report::SessionLost(_)) && harmless != Some(true) {
            tokio::time::sleep(LATE_MESSAGE_WAIT).await;
        }
        self.report_failure_now(live, report);
    }

    /// Runs `future` in the time that the request has left. `None` on timeout.
    async fn run_within_deadline<T>(&self, retry: &mut Retry, future: impl Future<Output = T>) -> Option<T> {
        let (done, pause) =
            self.login.run_until_deadline(self.links.status(), retry.deadline(), future).await;
        retry.exclude_pause(pause);
        done
    }

    /// Waits for the link that replaces this one.
    async fn wait_for_next_link(
        &self,
        retry: &mut Retry,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Result<Arc<LiveLink>, Failure> {
        let _wait = ask.meter.start_wait();
        self.links.wait_for_loss(live).await;
        let before = self.login.prompt_time();
        let left = retry.deadline().saturating_duration_since(clock::now());
        let found = self.wait_for_link_with(left, ask.options).await;
        retry.exclude_pause(self.login.prompt_time().saturating_sub(before));
        found
    }

    fn report_failure_now(&self, live: &LiveLink, report: Report) {
        match report {
            Report::SessionLost(fault) => self.report_session_loss(live, fault),
            Report::LinkLost(fault) => {
                self.links.retire(live.attempt);
                self.engine.report_link_event(live.attempt, Event::LinkLost(fault));
            }
            // The login event is emitted once per link; the connection stays usable.
            Report::NeedsLogin(fault) => {
                if !live.mark_challenged() {
                    let wanted = Announcement::NeedsLogin(fault);
                    self.events.emit(crate::events::Event::Connection(ConnectionEvent::from_announcement(
                        &self.server.name,
                        0,
                        wanted,
                    )));
                }
            }
            Report::LinkSuperseded => self.links.retire(live.attempt),
        }
    }

    /// Reports that the server lost the session of a link.
    pub(crate) fn report_session_loss(&self, live: &LiveLink, fault: Fault) {
        live.mark_session_lost();
        self.links.retire(live.attempt);
        self.engine.report_link_event(live.attempt, Event::SessionLost { fault, proven: live.is_proven() });
    }
}

/// How long a session stays open after a refusal that means its loss, for what the server sent before the refusal on
/// another connection.
const LATE_MESSAGE_WAIT: Duration = Duration::from_millis(5);

impl FailedCallWatch<'_> {
    fn tell(&self, retry: &mut Retry) {
        if self.was_heard_of() {
            retry.record_message();
        }
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
