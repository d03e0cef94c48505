//! Goes on with a session that another process has begun.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bowline_proto::revision::Revision;
use bowline_proto::server::event_streams::{EventStreams, StreamId};
use bowline_proto::server::session_journal::{RecordedPost, SessionRecord, recorded_posts};
use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, Semaphore, SemaphorePermit};

use super::post_record::PostRecord;
use super::refusal::Refusal;
use super::session::{HttpSession, SessionKind};
use super::session_id::SessionId;
use super::site::Site;
use super::ticket::PostTicket;
use crate::audience::Audience;
use crate::host::{Host, InboundMessage};

/// The sessions that are being restored: after a restart the hosts of all of them come back together.
pub(crate) struct Restorations {
    /// A permit is a restoration, with its journal in memory.
    permits: Semaphore,
    /// The turns of each session, of which one request at a time has one.
    turns: Mutex<HashMap<SessionId, SessionTurns>>,
}

#[derive(Default)]
struct SessionTurns {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How many requests have the turn or wait for it.
    requests: usize,
}

/// The turn of a request to restore its session.
struct RestorationTurn<'a> {
    /// Released before the request is no longer counted.
    turn: Option<OwnedMutexGuard<()>>,
    restorations: &'a Restorations,
    id: &'a SessionId,
}

/// How many sessions are restored at once: a journal may have 8 MiB.
const MAX_RESTORATIONS: usize = 8;

impl Restorations {
    /// Waits until no other request restores this session: the requests of a host come together.
    ///
    /// Dropping the future gives up the turn.
    async fn take_turn<'a>(&'a self, id: &'a SessionId) -> RestorationTurn<'a> {
        let turn = {
            let mut turns = self.turns.lock();
            let turns = turns.entry(id.clone()).or_default();
            turns.requests += 1;
            Arc::clone(&turns.turn)
        };
        let mut taken = RestorationTurn { turn: None, restorations: self, id };
        taken.turn = Some(turn.lock_owned().await);
        taken
    }

    /// Waits until there is room for one more restoration.
    async fn begin(&self) -> SemaphorePermit<'_> {
        self.permits.acquire().await.expect("it is never closed")
    }
}

impl Default for Restorations {
    fn default() -> Self {
        Self { permits: Semaphore::new(MAX_RESTORATIONS), turns: Mutex::default() }
    }
}

impl Drop for RestorationTurn<'_> {
    fn drop(&mut self) {
        drop(self.turn.take());
        let mut turns = self.restorations.turns.lock();
        if let Some(session) = turns.get_mut(self.id) {
            session.requests -= 1;
            if session.requests == 0 {
                turns.remove(self.id);
            }
        }
    }
}

/// Finds a session, in this process or in what another one has recorded. While that cannot be loaded, the request is
/// refused, and the host may retry it: after 404 it would begin another session.
// HL-03
pub(crate) async fn find_or_restore(
    site: &Site,
    id: &SessionId,
    audience: &Audience,
) -> Result<Arc<HttpSession>, Refusal> {
    let find = || site.sessions.find((SessionKind::Streamable, audience), id);
    if let Some(session) = find()? {
        return Ok(session);
    }
    let Some(journal) = &site.journal else { return Err(Refusal::UnknownSession) };
    let _turn = site.restorations.take_turn(id).await;
    if let Some(session) = find()? {
        return Ok(session);
    }
    let _permit = site.restorations.begin().await;
    // Whoever may not have the session must not take it from those who may.
    let wanted = audience.clone();
    let is_for = move |record: &SessionRecord| {
        Audience::recorded(record.principal.as_deref(), record.view.as_deref()) == wanted
    };
    let Some((journal, record, entries)) = journal.load(id, is_for).await? else {
        return Err(Refusal::UnknownSession);
    };
    if site.draining.is_cancelled() {
        return Err(Refusal::Draining);
    }
    let posts = recorded_posts(entries);
    let restored = posts.iter().map(|post| post.stream.clone());
    let streams = EventStreams::restore(site.settings().log_limits, number_base(), restored);
    let source = site.sessions.restore((id.clone(), audience.clone()), &site.settings(), streams, journal)?;
    let session = Arc::clone(source.session());
    session.set_revision(record.revision.as_deref().and_then(Revision::parse));
    tracing::info!(open = posts.len(), "the session of a host goes on after a restart");
    let mut inbox: Vec<InboundMessage> = Vec::new();
    for message in record.messages() {
        let post = PostTicket::new(Arc::clone(&session), NO_STREAM, None);
        inbox.push(InboundMessage::new(message, Some(post)));
    }
    for RecordedPost { stream, open } in posts {
        let requests = stream.unanswered + stream.responses.len();
        let record = Arc::new(PostRecord::restored(stream.stream, requests, open.len()));
        for message in open {
            let post = PostTicket::repeated(Arc::clone(&session), stream.stream, Arc::clone(&record));
            inbox.push(InboundMessage::new(message, Some(post)));
        }
    }
    site.hosts.send(Host::restored(source, inbox)).await.map_err(|_| Refusal::Draining)?;
    Ok(session)
}

/// A stream that does not exist: responses onto it are for nobody.
const NO_STREAM: StreamId = StreamId::NONE;

/// A number above all that earlier processes gave to events and streams of the session.
fn number_base() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX >> 17) << 16
}
