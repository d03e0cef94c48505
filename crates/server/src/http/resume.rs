//! Resumes the event stream of a host, also if its responses were dropped from the log.

use bowline_proto::server::event_streams::{EventId, Reader, ResumeError, StreamId};
use bowline_proto::wire::{Id, outgoing};
use bytes::Bytes;

use super::session::HttpSession;
use super::site::Site;
use crate::given_up::response_lost;

/// Resumes a stream after this event. A response that was dropped from the log comes from the journal of the session;
/// if that does not have it, the host gets an error for its request, as it does after a restart.
// HL-07
pub(crate) async fn resume_stream(
    site: &Site,
    session: &HttpSession,
    last: EventId,
) -> Result<Reader, ResumeError> {
    let mut responses: Vec<(Id, Bytes)> = Vec::new();
    loop {
        let resumed = session.with_streams(|streams| {
            let mut missing = streams.trimmed_requests(last);
            missing.retain(|request| !responses.iter().any(|(known, _)| known == request));
            // A further response may have been dropped while others were loaded.
            if missing.is_empty() { Ok(streams.resume_with(last, &responses)) } else { Err(missing) }
        });
        match resumed {
            Ok(resumed) => return resumed,
            Err(missing) => responses.extend(find_responses(site, session, last.stream, missing).await),
        }
    }
}

/// Finds the responses to requests of a stream in the journal. Those that it does not have are errors.
async fn find_responses(
    site: &Site,
    session: &HttpSession,
    stream: StreamId,
    requests: Vec<Id>,
) -> Vec<(Id, Bytes)> {
    let recorded = match session.journal() {
        Some(journal) => {
            // One at a time, as when sessions are restored: a journal may have 8 MiB.
            let _turn = site.restoring.lock().await;
            journal.load_responses(stream).await
        }
        None => Vec::new(),
    };
    let response_to = |request: &Id| {
        let mut recorded = recorded.iter();
        recorded.find(|data| outgoing::response_id(data, data.len()).as_ref() == Some(request)).cloned()
    };
    let lost = |request: &Id| outgoing::response(request, Err(&response_lost())).body();
    let with_response = |request: Id| {
        let data = response_to(&request).unwrap_or_else(|| lost(&request));
        (request, data)
    };
    requests.into_iter().map(with_response).collect()
}
