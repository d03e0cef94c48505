//! GET: the event stream of a session, or a stream that is resumed.

use std::sync::Arc;

use bowline_proto::server::event_streams::{EventId, EventStreams, Reader, ResumeError};
use bowline_proto::server::http::AcceptedFormats;
use http::HeaderMap;
use http::header::ACCEPT;

use super::event_body::{EventBody, StreamReader};
use super::refusal::Refusal;
use super::reply::{self, Reply};
use super::resume::resume_stream;
use super::session::HttpSession;
use super::site::{Site, text_of};
use crate::audience::Audience;

/// Opens an event stream.
// HL-05, HL-07
pub(crate) async fn serve_get(
    site: &Site,
    audience: &Audience,
    headers: &HeaderMap,
) -> Result<Reply, Refusal> {
    let accepted = AcceptedFormats::parse(headers.get_all(ACCEPT).iter().map(text_of));
    if !accepted.event_stream {
        return Err(Refusal::Accept);
    }
    let session = site.find_session(audience, headers).await?;
    let Some(last) = headers.get("last-event-id") else {
        // It replaces one that is open: a host has one at a time, and after a broken connection it
        // often comes back before the old connection is known to be dead. Two at once would each
        // get a part of the messages, and the dead one would swallow its part.
        let reader = session.with_streams(EventStreams::open_standalone);
        return Ok(reply::events(open_body(site, audience, session, reader).begin_with_id()));
    };
    let last = EventId::parse(text_of(last)).ok_or(ResumeError::UnknownEvent)?;
    let reader = resume_stream(site, &session, last).await?;
    Ok(reply::events(open_body(site, audience, session, reader)))
}

fn open_body(site: &Site, audience: &Audience, session: Arc<HttpSession>, reader: Reader) -> EventBody {
    let reader = StreamReader::new(session, reader);
    EventBody::new(reader, site.settings().keep_alive_interval, None).end_at(audience.expiry())
}
