//! The link that calls use, and the callers that wait for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bowline_proto::client::keepalive::{Probe, smallest_list_method};
use bowline_proto::client::loss::Verdict;
use bowline_proto::client::negotiation::{Peer, Reply};
use bowline_proto::client::retry::LinkFacts;
use bowline_proto::client::session::{Attempt, Status};
use bowline_proto::revision::Era;
use bowline_proto::wire::outgoing::RequestMeta;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::timeout;

use super::wire::Wire;
use crate::connection::failure::{Failure, JudgedReply};
use crate::connection::login::Login;
use crate::connection::options::RequestOrigin;
use crate::status::StatusWatch;

/// The live link of one connection, its status, and the callers that wait for a link.
pub(crate) struct Links {
    live: RwLock<Option<Arc<LiveLink>>>,
    /// Whether there has ever been a live link.
    was_connected: AtomicBool,
    /// Number of callers that wait for a link.
    waiting_callers: AtomicUsize,
    status: watch::Sender<Status>,
    /// Each [`StatusWatch`] has a clone, so that they can be counted.
    status_watches: Arc<()>,
}

/// A link that calls may use, with everything that is fixed for its lifetime.
pub(crate) struct LiveLink {
    pub(crate) attempt: Attempt,
    pub(crate) peer: Arc<Peer>,
    pub(crate) meta: RequestMeta,
    pub(crate) wire: Wire,
    /// Whether requests name a session, which the server can lose.
    pub(crate) has_session: bool,
    /// Whether requests carry configured credentials.
    pub(crate) has_configured_credentials: bool,
    pub(crate) findings: LinkFindings,
    /// The last probes of the session. The lock is held while a probe is in flight, so that one
    /// probe serves all callers that wait.
    pub(crate) probes: tokio::sync::Mutex<Vec<ProbeRecord>>,
}

/// What calls have found out about a link.
#[derive(Debug, Default)]
pub(crate) struct LinkFindings {
    /// Whether the server has answered anything since the handshake.
    proven: AtomicBool,
    /// Whether the server is known to have lost the session.
    session_lost: AtomicBool,
    /// Whether reconnecting did not help against refused credentials.
    challenged: AtomicBool,
    /// Whether listing the tools failed when a call needed the list.
    unlistable: AtomicBool,
}

/// A finished probe of a session and its reply.
pub(crate) struct ProbeRecord {
    pub(crate) probe: Probe,
    pub(crate) sent_at: Instant,
    pub(crate) verdict: Verdict,
    pub(crate) reply: Reply,
}

impl Links {
    pub(crate) fn new(status: Status) -> Self {
        Self {
            live: RwLock::default(),
            was_connected: AtomicBool::new(false),
            waiting_callers: AtomicUsize::new(0),
            status: watch::Sender::new(status),
            status_watches: Arc::default(),
        }
    }

    pub(crate) fn live(&self) -> Option<Arc<LiveLink>> {
        self.live.read().clone()
    }

    pub(crate) fn set_live(&self, live: Arc<LiveLink>) {
        self.was_connected.store(true, Ordering::Relaxed);
        *self.live.write() = Some(live);
    }

    /// Keeps further calls off the link of this attempt.
    pub(crate) fn retire(&self, attempt: Attempt) {
        let mut live = self.live.write();
        if live.as_ref().is_some_and(|live| live.attempt == attempt) {
            *live = None;
        }
    }

    /// Keeps further calls off every link, for good.
    pub(crate) fn close(&self) {
        *self.live.write() = None;
        self.publish_status(Status::Closed);
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.live().is_some_and(|live| live.peer.era() == Era::Modern)
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Returns a watch for users of the library.
    pub(crate) fn watch_status(&self) -> StatusWatch {
        StatusWatch::new(self.status(), Arc::clone(&self.status_watches))
    }

    /// Whether a user of the library holds a watch.
    pub(crate) fn is_status_watched(&self) -> bool {
        Arc::strong_count(&self.status_watches) > 1
    }

    pub(crate) fn publish_status(&self, status: Status) {
        self.status.send_if_modified(|seen| {
            let changed = *seen != status;
            *seen = status;
            changed
        });
    }

    /// Counts a caller that waits for a link until the guard is dropped.
    pub(crate) fn count_waiting_caller(&self) -> WaitingCaller<'_> {
        self.waiting_callers.fetch_add(1, Ordering::Relaxed);
        WaitingCaller(&self.waiting_callers)
    }

    /// Whether a lost link is reopened though no caller waits for it.
    pub(crate) fn is_unattended(&self) -> bool {
        self.was_connected.load(Ordering::Relaxed) && self.waiting_callers.load(Ordering::Relaxed) == 0
    }

    /// Gives the reader of a link a moment to notice the loss that a POST has noticed.
    pub(crate) async fn wait_for_loss(&self, lost: &LiveLink) {
        let mut status = self.status();
        let left = async {
            while self.live().is_some_and(|live| live.is_same_link(lost)) {
                if status.changed().await.is_err() {
                    break;
                }
            }
        };
        let _ = timeout(LINK_LOSS_TIMEOUT, left).await;
    }
}

/// A caller that waits for a link until this is dropped.
pub(crate) struct WaitingCaller<'a>(&'a AtomicUsize);

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LiveLink {
    pub(crate) fn is_same_link(&self, other: &Self) -> bool {
        self.attempt == other.attempt
    }

    /// Records that the server has answered on this session.
    pub(crate) fn mark_proven(&self) {
        if !self.is_proven() {
            self.findings.proven.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.findings.proven.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_unlistable(&self) {
        self.findings.unlistable.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_unlistable(&self) -> bool {
        self.findings.unlistable.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_session_lost(&self) {
        self.findings.session_lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_session_lost(&self) -> bool {
        self.findings.session_lost.load(Ordering::Relaxed)
    }

    /// Records that reconnecting did not help against refused credentials. Returns whether that was
    /// known.
    pub(crate) fn mark_challenged(&self) -> bool {
        self.findings.challenged.swap(true, Ordering::Relaxed)
    }

    /// Whether requests on this link carry credentials.
    fn sends_credentials(&self, login: &Login) -> bool {
        self.has_configured_credentials || login.has_credentials()
    }

    /// The facts about this link that the retry decision needs.
    pub(crate) fn facts(&self, login: &Login) -> LinkFacts {
        LinkFacts {
            http: self.wire.is_http(),
            modern: self.peer.era() == Era::Modern,
            session: self.has_session,
            credentials: self.sends_credentials(login),
            can_authorize: login.identity().is_some(),
            proven: self.is_proven(),
            challenged: self.findings.challenged.load(Ordering::Relaxed),
            list_method: smallest_list_method(&self.peer),
        }
    }

    /// Classifies a response other than a result: is it about the request, or about the session?
    pub(crate) fn judge_reply(
        &self,
        login: &Login,
        method: &str,
        origin: RequestOrigin,
        reply: Reply,
    ) -> Failure {
        let credentials = self.sends_credentials(login);
        let is_legacy_http = self.wire.is_http() && self.peer.era() == Era::Legacy;
        let verdict = if is_legacy_http && !self.has_session {
            reply.handshake_verdict(method, credentials)
        } else {
            reply.session_verdict(method, self.has_session, credentials)
        };
        let refused = JudgedReply { verdict, reply };
        match verdict {
            // For a probe, every response is evidence about the session.
            Verdict::Answer if origin != RequestOrigin::Probe && !refused.has_refused_headers() => {
                refused.into_failure()
            }
            _ => Failure::Session(Box::new(refused)),
        }
    }
}

/// Maximum time in which the loss of one connection shows on all others of the same server.
const LINK_LOSS_TIMEOUT: Duration = Duration::from_millis(250);
