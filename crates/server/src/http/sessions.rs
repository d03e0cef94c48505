//! [`Sessions`]: the sessions of a listener by their id, bounded in number and in idle time.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use bowline_proto::server::event_streams::EventStreams;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};

use super::idle_watch::OpenSessions;
use super::journal::{Journal, SessionJournal};
use super::refusal::Refusal;
use super::session::{HttpSession, SessionIdentity, SessionKind};
use super::session_id::{SessionId, SessionIdKey};
use super::settings::HttpSettings;
use super::source::{HttpSource, MAX_QUEUED_POSTS};
use super::stateless_sessions::StatelessSessions;
use crate::admission::Admission;
use crate::audience::Audience;
use crate::limits::{listener_full, session_refused};

/// The sessions of a listener.
pub(crate) struct Sessions {
    table: Mutex<SessionTable>,
    /// The sessions of one request each.
    stateless: StatelessSessions,
    open: OpenSessions,
    admission: Admission,
    id_key: SessionIdKey,
}

#[derive(Default)]
struct SessionTable {
    by_id: HashMap<SessionId, Arc<HttpSession>>,
    /// How many sessions each principal has.
    by_principal: HashMap<Option<Box<str>>, usize>,
}

impl Sessions {
    pub(crate) fn new(settings: &HttpSettings) -> Self {
        let admission = Admission::new(settings.host_limits);
        // What is not recorded ends with the process.
        let id_key =
            settings.session_store.as_ref().map_or_else(SessionIdKey::random, |store| store.id_key());
        let stateless = StatelessSessions::default();
        Self { table: Mutex::default(), stateless, open: OpenSessions::default(), admission, id_key }
    }

    /// Returns the id in a message of a host. A forged one is refused as an unknown one is, before any
    /// look-up.
    pub(crate) fn verify_id(&self, text: &str) -> Result<SessionId, Refusal> {
        self.id_key.verify(text).ok_or(Refusal::UnknownSession)
    }

    /// Begins a session.
    pub(crate) fn begin(
        self: &Arc<Self>,
        (kind, audience): (SessionKind, &Audience),
        settings: &HttpSettings,
        journal: Option<&Journal>,
    ) -> Result<HttpSource, Refusal> {
        let (sender, posts) = mpsc::channel(MAX_QUEUED_POSTS);
        let id = self.id_key.issue();
        let journal = journal.map(|journal| journal.begin(&id, audience));
        let identity = SessionIdentity { id, kind, audience: audience.clone() };
        let session =
            HttpSession::new(identity, settings, sender, Arc::downgrade(self), journal, self.open.count());
        self.insert(session, settings).map(|session| HttpSource::new(session, posts))
    }

    /// Goes on with a recorded session.
    pub(crate) fn restore(
        self: &Arc<Self>,
        (id, audience): (SessionId, Audience),
        settings: &HttpSettings,
        streams: EventStreams<Waker>,
        journal: SessionJournal,
    ) -> Result<HttpSource, Refusal> {
        let (sender, posts) = mpsc::channel(MAX_QUEUED_POSTS);
        let identity = SessionIdentity { id, kind: SessionKind::Streamable, audience };
        let sessions = Arc::downgrade(self);
        let session = HttpSession::with_event_streams(
            identity,
            streams,
            settings,
            sender,
            sessions,
            Some(journal),
            self.open.count(),
        );
        self.insert(session, settings).map(|session| HttpSource::new(session, posts))
    }

    fn insert(&self, session: HttpSession, settings: &HttpSettings) -> Result<Arc<HttpSession>, Refusal> {
        let admission = self.admission.begin_session(session.audience());
        let session = session.with_admission(admission);
        let mut table = self.table.lock();
        if table.by_id.len() >= settings.max_sessions {
            return Err(Refusal::Limit(None, listener_full(settings.max_sessions)));
        }
        let count = table.by_principal.entry(principal_of(&session)).or_default();
        if let Some(limit) = settings.host_limits.sessions.filter(|limit| *count >= *limit) {
            return Err(Refusal::Limit(None, session_refused(limit)));
        }
        *count += 1;
        let session = Arc::new(session);
        table.by_id.insert(session.id().clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Begins a session for one request, which no host can name and which is not counted.
    pub(crate) fn begin_stateless(&self, audience: Audience, settings: &HttpSettings) -> Arc<HttpSession> {
        // It has no further messages.
        let (sender, _) = mpsc::channel(1);
        let identity = SessionIdentity { id: SessionId::none(), kind: SessionKind::Stateless, audience };
        let open = self.open.count();
        self.stateless.add(|place| {
            HttpSession::new(identity, settings, sender, Weak::new(), None, open).with_place(place)
        })
    }

    /// The number of sessions that are being served.
    pub(crate) fn open(&self) -> &OpenSessions {
        &self.open
    }

    /// Finds a session of this kind and audience that has not ended. `None` if this process has no
    /// session of this id. One that is here and not theirs is refused as if it were nowhere.
    // SE-08
    pub(crate) fn find(
        &self,
        (kind, audience): (SessionKind, &Audience),
        id: &SessionId,
    ) -> Result<Option<Arc<HttpSession>>, Refusal> {
        match self.table.lock().by_id.get(id) {
            Some(session) if session.kind() == kind && session.audience() == audience => {
                Ok(Some(Arc::clone(session)))
            }
            Some(_) => Err(Refusal::UnknownSession),
            None => Ok(None),
        }
    }

    pub(crate) fn remove(&self, id: &SessionId) {
        let mut table = self.table.lock();
        let Some(session) = table.by_id.remove(id) else { return };
        let principal = principal_of(&session);
        if let Some(count) = table.by_principal.get_mut(&principal) {
            *count -= 1;
            if *count == 0 {
                table.by_principal.remove(&principal);
            }
        }
    }

    /// Decides which requests of hosts are served.
    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Ends all sessions in this process.
    pub(crate) fn end_all(&self) {
        for session in self.matching(|_| true) {
            session.end();
        }
    }

    /// Ends all sessions in this process, also those of one request each. The requests that are open get no response:
    /// they are left to the processes that relay them.
    pub(crate) fn leave_all_to_relays(&self) {
        for session in self.matching(|_| true).into_iter().chain(self.stateless.open()) {
            session.leave_to_relays();
        }
    }

    /// Ends all sessions in this process, and answers the requests that are open with an error.
    pub(crate) fn give_up_all(&self) {
        for session in self.matching(|_| true).into_iter().chain(self.stateless.open()) {
            session.give_up();
        }
    }

    /// Ends the sessions of some audiences for good: their hosts are told that they do not exist.
    pub(crate) fn end_where(&self, condition: impl Fn(&Audience) -> bool) {
        for session in self.matching(|session| condition(session.audience())) {
            session.end_for_good();
        }
    }

    /// Ends sessions that are idle for too long. Never returns.
    pub(crate) async fn end_idle(&self, idle_timeout: Duration) {
        let mut ticks = interval((idle_timeout / 4).clamp(MIN_SWEEP_INTERVAL, MAX_SWEEP_INTERVAL));
        loop {
            ticks.tick().await;
            let now = Instant::now();
            for session in self.matching(|session| session.is_idle(now, idle_timeout)) {
                session.end_for_good();
            }
            for session in self.matching(|session| session.journal().is_some()) {
                session.touch(now);
            }
        }
    }

    /// The sessions that fulfill the condition. A session removes itself when it ends.
    fn matching(&self, condition: impl Fn(&HttpSession) -> bool) -> Vec<Arc<HttpSession>> {
        self.table.lock().by_id.values().filter(|session| condition(session)).cloned().collect()
    }
}

fn principal_of(session: &HttpSession) -> Option<Box<str>> {
    session.audience().principal().map(Box::from)
}

/// How often idle sessions are looked for, at least and at most.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(10);
const MAX_SWEEP_INTERVAL: Duration = Duration::from_secs(30);
