//! The standalone GET stream of a legacy HTTP connection, which carries the server's notifications
//! and requests.
//!
//! It is optional (HL-05): a server without one answers 405 or 404, or without a stream. A stream
//! that is cut is reopened with growing delays. If it cannot be resumed, what may have changed
//! meanwhile is looked for.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bowline_proto::fault::{Cause, Fault};
use bowline_proto::frame::sse::Event;
use bowline_proto::revision::Era;
use bowline_proto::wire;
use bowline_transport::http::{EventStream, HttpResponse, ResponseBody};
use http::HeaderValue;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::connection::link::OpenLink;
use crate::connection::link::exchange::{is_message, is_too_large};
use crate::connection::link::headers::{LAST_EVENT_ID, SESSION_ID};
use crate::connection::link::resume::{ResumeState, is_temporary, retry_after};
use crate::connection::login::{LoginMode, auth_refusal};
use crate::connection::{Connection, LiveLink, Wire};

/// Opens the standalone stream of a legacy HTTP server, unless that was done.
pub(crate) fn open_standalone_stream(
    link: &mut OpenLink,
    connection: &Arc<Connection>,
    live: &Arc<LiveLink>,
) {
    if !live.wire.is_http() || live.peer.era() != Era::Legacy || link.stream_ended.is_some() {
        return;
    }
    let over = CancellationToken::new();
    let (until, listening) =
        (over.clone().drop_guard(), read_standalone_stream(Arc::clone(connection), Arc::clone(live)));
    link.stream_ended = Some(over);
    let mut listening = Box::pin(async move {
        listening.await;
        drop(until);
    });
    // Poll once now, so that the GET is sent before the first call: with both in flight, a
    // server may choose either stream. The spawned task polls again at once, so no wake-up is
    // lost.
    let polled = listening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    if polled.is_pending() {
        link.tasks.push(tokio::spawn(listening).abort_handle());
    }
}

/// Reads the stream until the server offers none. Runs until dropped.
async fn read_standalone_stream(connection: Arc<Connection>, live: Arc<LiveLink>) {
    let Wire::Http { link, headers } = &live.wire else { return };
    // A session that was resumed on another link continues its stream.
    let session = headers.get(SESSION_ID).cloned();
    let position = session.as_ref().and_then(|session| connection.session.stream_position(session));
    let mut resume = position.map_or_else(ResumeState::default, ResumeState::from);
    let mut opened_once = false;
    // Whether notifications may have been missed.
    let mut gap = false;
    let mut short: u32 = 0;
    loop {
        let mut headers = (**headers).clone();
        if let Some(last) = &resume.last_id {
            headers.insert(LAST_EVENT_ID, last.clone());
        }
        let generation = connection.login.credentials_generation();
        let mut asked_wait = Duration::ZERO;
        match link.get(&headers).await {
            Ok(HttpResponse { status: 200..300, body: ResponseBody::Events(mut events), .. }) => {
                let opened = clock::now();
                opened_once = true;
                let stream = StandaloneStream { connection: &connection, live: &live, session: &session };
                // What came while no stream was open is sent again only if there are event ids.
                let refresh_delay = (gap && resume.last_id.is_none()).then(|| reopen_delay(short));
                stream.read(&mut events, &mut resume, refresh_delay).await;
                connection.suspect_server(&live);
                if clock::elapsed(opened) > MIN_STABLE_DURATION {
                    resume.reset_backoff();
                    short = 0;
                } else {
                    short = short.saturating_add(1);
                }
            }
            // TK-01: the stream needs a valid token. If none is available now, wait for new
            // credentials.
            Ok(answer) if connection.login.identity().is_some() && auth_refusal(&answer).is_some() => {
                let Some(refused) = auth_refusal(&answer) else { return };
                let mut changes = connection.login.identity().map(crate::auth::Identity::watch_generation);
                let entered =
                    connection.login.reauthenticate(&refused, generation, "GET", LoginMode::Silent).await;
                if let (Err(_), Some(changes)) = (entered, &mut changes)
                    && changes.changed().await.is_none()
                {
                    return;
                }
                short = short.saturating_add(1);
            }
            // The server still sees an earlier stream of ours as open.
            Ok(answer) if is_temporary(answer.status) => asked_wait = retry_after(&answer),
            Err(_) => {}
            // A server that no longer offers its stream has most likely lost the session. A GET is
            // no proof of that; a probe is.
            Ok(HttpResponse { status: 400 | 404 | 410, .. }) if opened_once && live.has_session => {
                if connection.confirm_session_loss(&live).await {
                    let fault = Fault::before_sending(Cause::SessionLost);
                    connection.report_session_loss(
                        &live,
                        fault.with_note("its stream is gone, and so is the session"),
                    );
                }
                return;
            }
            Ok(_) => {
                tracing::debug!(server = %connection.server.name, "the server offers no stream of its own");
                return;
            }
        }
        gap = true;
        // A server that sends events and cuts each time makes progress, but must not dictate the
        // pace.
        tokio::time::sleep(resume.next_delay().max(reopen_delay(short)).max(asked_wait)).await;
    }
}

/// The delay after this many streams in a row that lasted no time.
fn reopen_delay(short: u32) -> Duration {
    (MIN_REOPEN_DELAY * (1 << (short / 4).min(8))).min(MAX_REOPEN_DELAY)
}

/// The stream while it is open.
struct StandaloneStream<'a> {
    connection: &'a Arc<Connection>,
    live: &'a Arc<LiveLink>,
    session: &'a Option<HeaderValue>,
}

impl StandaloneStream<'_> {
    /// Reads the stream to its end. With `refresh_delay`, what may have changed unnoticed is looked for if the stream
    /// lasts for this long: one that is cut again at once would have all of it fetched each time.
    async fn read(
        &self,
        events: &mut EventStream,
        resume: &mut ResumeState,
        mut refresh_delay: Option<Duration>,
    ) {
        let opened = Instant::now();
        loop {
            let next = events.next();
            let event = match refresh_delay {
                None => next.await,
                Some(delay) => {
                    let Ok(event) = timeout_at(opened + delay, next).await else {
                        refresh_delay = None;
                        self.connection.refresh_after_stream_gap(self.live);
                        continue;
                    };
                    event
                }
            };
            match event {
                Ok(Some(event)) => self.handle(&event, resume),
                // One oversized message is dropped; the stream continues.
                Err(fault) if is_too_large(&fault) => {
                    tracing::warn!(server = %self.connection.server.name, %fault, "a message was dropped");
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn handle(&self, event: &Event, resume: &mut ResumeState) {
        resume.record_event(event);
        if event.id.is_some() {
            let last = resume.last_id.clone();
            *self.connection.session.stream_position.lock() = self.session.clone().zip(last);
        }
        if is_message(event) {
            wire::parse(&event.data, |parsed| self.connection.handle_message(&self.live.wire, None, parsed));
        }
    }
}

/// Delay between streams that last no time, at first and at most.
const MIN_REOPEN_DELAY: Duration = Duration::from_millis(125);
const MAX_REOPEN_DELAY: Duration = Duration::from_secs(5);
/// A stream that lasted longer was cut for being idle, not by a server that cuts every stream.
const MIN_STABLE_DURATION: Duration = Duration::from_secs(5);
