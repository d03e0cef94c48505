//! Serves one request of the host, from its line to the line of its response.

use std::sync::Arc;
use std::time::Duration;

use bowline::config::Timeouts;
use bowline::types::code;
use bowline::{CallOptions, Era, ErrorKind, HandlerResult, Json, Status};
use bowline_proto::wire::meta;
use bowline_proto::wire::object::Edit;
use bowline_server::OpenRequest;

use super::queue::OpenCall;
use super::upstream::Upstream;
use super::{HostSession, trace};
use crate::{error_response, handshake};

impl HostSession {
    /// Forwards one request to the server and sends its response.
    ///
    /// Dropping the future cancels it on the server, and no response is sent.
    pub(super) async fn serve_request(
        self: Arc<Self>,
        upstream: Arc<Upstream>,
        request: OpenRequest,
        method: Box<str>,
        params: Option<Json>,
    ) {
        let open = Arc::new(OpenCall);
        let answer = match upstream.wait_for_initialize().await {
            None => Err(error_response::initialize_failed()),
            Some(offer) => {
                // Hosts give up on a server whose first list fails or takes long. They list again
                // after a change notification, which they get when the server connects.
                if offer.is_speculative()
                    && !upstream.has_connected()
                    && let Some(nothing) = handshake::empty_list_result(&method)
                {
                    request.respond(Ok(&nothing)).await;
                    // The change may have been announced before this was written.
                    if upstream.has_connected() {
                        upstream.announce_list_changes(&self.link).await;
                    }
                    return;
                }
                let answer = Box::pin(self.call(&upstream, &open, &method, params)).await;
                match answer {
                    // The host was offered lists that this server turned out not to have.
                    Err(error) if offer.is_speculative() && error.code == code::METHOD_NOT_FOUND => {
                        handshake::empty_list_result(&method).ok_or(error)
                    }
                    answer => answer,
                }
            }
        };
        upstream.wait_until_delivered().await;
        // Ends progress before the response is written.
        drop(open);
        request.respond(answer.as_ref()).await;
    }

    async fn call(
        &self,
        upstream: &Upstream,
        open: &Arc<OpenCall>,
        method: &str,
        params: Option<Json>,
    ) -> HandlerResult {
        let client = &upstream.client;
        if let Status::Ready(peer) = client.status().current()
            && peer.era() == Era::Modern
            && let Some(refused) = error_response::unsupported_by_modern(method)
        {
            return Err(refused);
        }
        let timeouts = &self.relay.server.timeouts;
        let mut options = CallOptions::new().idle_timeout(idle_timeout(timeouts)).timeout(timeouts.max);
        let token = params.as_ref().and_then(|params| params.member("_meta")?.member(meta::PROGRESS_TOKEN));
        if upstream.host_declares_tasks {
            options = options.raw();
        }
        if let Some(token) = token {
            let (queue, open) = (Arc::clone(&upstream.queue), Arc::downgrade(open));
            options = options.on_raw_progress(move |params| {
                if params.as_bytes().len() > MAX_PROGRESS_BYTES {
                    return;
                }
                // Progress with the token of the host.
                if let Ok(params) = Edit::new().set(meta::PROGRESS_TOKEN, &token).apply(Some(&params)) {
                    queue.push_progress(&open, params);
                }
            });
        }
        let params = params.map(trace::continue_trace);
        let result = client.request_with(method, &params, &options).await;
        result.map_err(|error| {
            tracing::info!(%error, "a call failed");
            let status = client.status().current();
            // Without a connection the missing login was reported when the connection was lost.
            if let (ErrorKind::Fault(fault), Status::Ready(_)) = (error.kind(), &status)
                && error_response::scopes_to_add(fault).is_some()
            {
                (self.relay.on_denied)(fault);
            }
            error_response::from_error(&error, &upstream.connection_state(&self.relay, &status))
        })
    }
}

/// How long a call may be silent.
///
/// That is up to the host: it cancels what it no longer waits for, and many tools are silent for
/// longer than the default. So unless the user configured a timeout, only the limit for the whole
/// call applies, for hosts that never cancel.
fn idle_timeout(timeouts: &Timeouts) -> Duration {
    if timeouts.call == Timeouts::default().call { timeouts.max } else { timeouts.call }
}

/// Larger progress is dropped; no real one is.
const MAX_PROGRESS_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_testkit::with;

    #[test]
    fn only_a_limit_that_was_set_ends_a_silent_call() {
        let seconds = Duration::from_secs;
        for (call, max, limit) in [(60, 600, 600), (5, 600, 5), (120, 600, 120), (30, 30, 30), (60, 60, 60)] {
            let timeouts = with!(Timeouts::default(), call: seconds(call), max: seconds(max));
            assert_eq!(idle_timeout(&timeouts), seconds(limit));
        }
        assert_eq!(Timeouts::default().call, seconds(60));
    }
}
