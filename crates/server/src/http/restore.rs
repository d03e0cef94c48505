//! Goes on with a session that another process has begun.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bowline_proto::revision::Revision;
use bowline_proto::server::event_streams::{EventStreams, StreamId};
use bowline_proto::server::session_journal::{RecordedPost, SessionRecord, recorded_posts};

use super::post_record::PostRecord;
use super::refusal::Refusal;
use super::session::{HttpSession, SessionKind};
use super::session_id::SessionId;
use super::site::Site;
use super::ticket::PostTicket;
use crate::audience::Audience;
use crate::host::{Host, InboundMessage};

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
    // One at a time: requests of one host come together, and after a restart those of all hosts do.
    let _turn = site.restoring.lock().await;
    if let Some(session) = find()? {
        return Ok(session);
    }
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
