//! Resumes the event stream of a host, also if its responses were dropped from the log.

use bowline_proto::server::event_streams::{EventId, MissingResponse, Reader, StreamId};
use bowline_proto::wire::{Id, outgoing};
use bytes::Bytes;

use super::journal::JournalUnavailable;
use super::refusal::Refusal;
use super::session::HttpSession;
use super::site::Site;
use crate::given_up::response_lost;

/// Resumes a stream after this event. A response that was dropped from the log comes from the journal of the session;
/// if that does not have it, the host gets an error for its request, as it does after a restart. If the journal cannot be
/// loaded now, the resume is refused, and the host may retry it.
// HL-07
pub(crate) async fn resume_stream(
    site: &Site,
    session: &HttpSession,
    last: EventId,
) -> Result<Reader, Refusal> {
    let mut responses: Vec<(Id, Bytes)> = Vec::new();
    loop {
        let resumed = session.with_streams(|streams| {
            let mut missing = streams.missing_responses(last);
            missing.retain(|missing| !responses.iter().any(|(known, _)| *known == missing.request));
            // A further response may have been dropped while others were loaded.
            if missing.is_empty() { Ok(streams.resume_with(last, &responses)) } else { Err(missing) }
        });
        match resumed {
            Ok(resumed) => return resumed.map_err(Refusal::from),
            Err(missing) => responses.extend(find_responses(site, session, last.stream, missing).await?),
        }
    }
}

/// Finds responses of a stream in the journal. Those that it does not have are errors.
async fn find_responses(
    site: &Site,
    session: &HttpSession,
    stream: StreamId,
    missing: Vec<MissingResponse>,
) -> Result<Vec<(Id, Bytes)>, JournalUnavailable> {
    let recorded = match session.journal() {
        Some(journal) => {
            // Apart from the restorations: hosts without their session wait for more than one response.
            let _permit = site.response_loads.acquire().await.expect("it is never closed");
            journal.load_responses(stream).await?
        }
        None => Vec::new(),
    };
    let response_to = |request: &Id| {
        let mut recorded = recorded.iter();
        recorded.find(|data| outgoing::response_id(data, data.len()).as_ref() == Some(request)).cloned()
    };
    let with_response = |MissingResponse { request, is_oversized }: MissingResponse| {
        let lost = || outgoing::response(&request, Err(&response_lost(is_oversized))).body();
        let data = response_to(&request).unwrap_or_else(lost);
        (request, data)
    };
    Ok(missing.into_iter().map(with_response).collect())
}
