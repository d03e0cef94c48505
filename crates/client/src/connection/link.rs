//! One link: the tasks that serve it, and how it is shut down.

pub(super) mod event_stream;
pub(super) mod exchange;
pub(super) mod handshake;
pub(super) mod headers;
pub(super) mod live;
pub(super) mod pipe;
pub(super) mod resume;
pub(super) mod target;
pub(super) mod wire;

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::client::negotiation::Peer;
use bowline_proto::client::session::Attempt;
use bowline_proto::revision::{Era, Revision};
use bowline_proto::wire::outgoing::RequestMeta;
use bowline_transport::http::HttpLink;
use bowline_transport::process;
use http::HeaderValue;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Connection;
use super::server::ServerSettings;
use live::{LinkFindings, LiveLink};
use wire::Wire;

/// A link and the tasks that serve it.
pub(crate) struct OpenLink {
    pub(crate) wire: Wire,
    /// Session id from the response to `initialize`.
    pub(crate) session: Arc<Mutex<Option<HeaderValue>>>,
    pub(crate) process: Option<process::Handle>,
    /// A process that another program keeps.
    pub(crate) attached: Option<process::AttachedHandle>,
    pub(crate) tasks: Vec<AbortHandle>,
    /// Tasks that keep subscriptions open. They are ended first, so that the server is told.
    pub(crate) supervisors: Vec<JoinHandle<()>>,
    /// Id of the open negotiation message, and the task that sends it.
    pub(crate) handshake: Option<(u64, AbortHandle)>,
    /// Whether the old session was probed over this link.
    pub(crate) session_probed: bool,
    /// Agreed revision, for the headers of the last request.
    pub(crate) revision: Revision,
    /// Whether this session replaces an earlier one.
    pub(crate) replaces_session: bool,
    /// Number of `roots/list` requests when `notifications/initialized` was sent.
    pub(crate) roots_requests_before: u64,
    /// Canceled when the standalone stream has ended; `None` if it was never requested.
    pub(crate) stream_ended: Option<CancellationToken>,
    /// The live link, once a new session was negotiated.
    pub(crate) live_link: Option<Arc<LiveLink>>,
}

impl OpenLink {
    pub(crate) fn new(wire: Wire) -> Self {
        Self {
            wire,
            session: Arc::default(),
            revision: Revision::NEWEST_LEGACY,
            process: None,
            attached: None,
            tasks: Vec::new(),
            supervisors: Vec::new(),
            handshake: None,
            session_probed: false,
            replaces_session: false,
            roots_requests_before: 0,
            stream_ended: None,
            live_link: None,
        }
    }

    /// Returns the live link, which is created when the negotiation is done.
    pub(crate) fn make_live(
        &mut self,
        server: &ServerSettings,
        attempt: Attempt,
        peer: Arc<Peer>,
        credentials: bool,
    ) -> Arc<LiveLink> {
        if let Some(live) = &self.live_link {
            return Arc::clone(live);
        }
        let meta = match peer.era() {
            Era::Legacy => RequestMeta::none(),
            Era::Modern => server.declaration.modern_meta(peer.revision),
        };
        let session = match &mut self.wire {
            Wire::Pipe(_) => false,
            // The endpoint URL identifies the session.
            Wire::EventStream { .. } => true,
            Wire::Http { headers, .. } => {
                let session = self.session.lock().clone();
                *headers = Arc::new(headers::base(peer.revision, session.as_ref()));
                peer.era() == Era::Legacy && session.is_some()
            }
        };
        self.revision = peer.revision;
        let live = Arc::new(LiveLink {
            attempt,
            peer,
            meta,
            wire: self.wire.clone(),
            has_session: session,
            has_configured_credentials: credentials,
            findings: LinkFindings::default(),
            probes: tokio::sync::Mutex::default(),
        });
        self.live_link = Some(Arc::clone(&live));
        live
    }

    /// Shuts the link down: pending sends first, then the session, then the process.
    pub(crate) async fn shut_down(
        mut self,
        connection: &Connection,
        orderly: bool,
        errands: CancellationToken,
    ) {
        if let Some((_, task)) = &self.handshake {
            task.abort();
        }
        for supervisor in std::mem::take(&mut self.supervisors) {
            supervisor.abort();
            let _ = supervisor.await;
        }
        if orderly {
            connection.background.drain().await;
        }
        errands.cancel();
        if orderly {
            connection.background.cancel_session_tasks();
        }
        match &self.wire {
            Wire::Pipe(writer) => writer.close(),
            // The end of the stream ends the session.
            Wire::EventStream { .. } => {}
            Wire::Http { link, .. } => {
                let session = self.session.lock().take();
                if let Some(session) = session.filter(|_| orderly && !connection.session.is_kept()) {
                    end_session(link, self.revision, &session).await;
                }
            }
        }
        if let Some(process) = self.process.take() {
            let exit = process.shutdown().await;
            if let Some(end) = process.end() {
                connection.events.record_process_end(end);
            }
            tracing::debug!(server = %connection.server.name, ?exit, "the server's process ended");
        }
        if let Some(attached) = self.attached.take() {
            attached.wait_until_released().await;
        }
        // Last, so that the final messages of a server are still read.
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Dropping a link ends its tasks.
impl Drop for OpenLink {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        for supervisor in &self.supervisors {
            supervisor.abort();
        }
    }
}

/// Ends a session on the server (HL-04). A server that does not support it answers 405, which is
/// fine.
pub(crate) async fn end_session(link: &HttpLink, agreed: Revision, session: &HeaderValue) {
    let headers = headers::base(agreed, Some(session));
    let _ = timeout(DELETE_TIMEOUT, link.delete(&headers)).await;
}

/// Maximum time to wait for the server to confirm the end of a session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);
