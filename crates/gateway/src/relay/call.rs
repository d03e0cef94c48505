//! Serves one request of the host, from its line to the line of its response.

use std::sync::Arc;
use std::time::Duration;

use bowline::config::Timeouts;
use bowline::wire::object::Edit;
use bowline::wire::{Id, Json, code, meta};
use bowline::{CallOptions, Era, ErrorKind, HandlerResult, Status};

use super::queue::OpenCall;
use super::upstream::Upstream;
use super::{Session, trace};
use crate::{greeting, refusal};

impl Session {
    /// Forwards one request to the server and sends its response.
    ///
    /// Dropping the future cancels it on the server, and no response is sent.
    pub(super) async fn serve(
        self: Arc<Self>,
        upstream: Arc<Upstream>,
        id: Id,
        method: Box<str>,
        params: Option<Json>,
    ) {
        let open = Arc::new(OpenCall);
        let answer = match upstream.greeted().await {
            None => Err(refusal::out_of_order("initialize failed; say it again")),
            Some(offer) => {
                // Hosts give up on a server whose first list fails or takes long. They list again
                // after a change notification, which they get when the server connects.
                if offer.is_blind()
                    && !upstream.has_come()
                    && let Some(nothing) = greeting::empty_list(&method)
                {
                    self.link.answer(&id, &Ok(nothing)).await;
                    // The change may have been announced before this was written.
                    if upstream.has_come() {
                        upstream.announce(&self.link).await;
                    }
                    return;
                }
                let answer = Box::pin(self.call(&upstream, &open, &method, params)).await;
                match answer {
                    // The host was offered lists that this server turned out not to have.
                    Err(error) if offer.is_blind() && error.code == code::METHOD_NOT_FOUND => {
                        greeting::empty_list(&method).ok_or(error)
                    }
                    answer => answer,
                }
            }
        };
        upstream.all_told().await;
        // Ends progress before the response is written.
        drop(open);
        self.link.answer(&id, &answer).await;
    }

    async fn call(
        &self,
        upstream: &Upstream,
        open: &Arc<OpenCall>,
        method: &str,
        params: Option<Json>,
    ) -> HandlerResult {
        let client = &upstream.client;
        if let Status::Ready(peer) = &*client.status().borrow()
            && peer.era() == Era::Modern
            && let Some(refused) = refusal::cannot_be_bridged(method)
        {
            return Err(refused);
        }
        let timeouts = &self.relay.server.timeouts;
        let mut options = CallOptions::new().timeout(silence(timeouts)).max_timeout(timeouts.max);
        let token = params.as_ref().and_then(|params| params.member("_meta")?.member(meta::PROGRESS_TOKEN));
        if upstream.knows_tasks {
            options = options.raw();
        }
        if let Some(token) = token {
            let (queue, open) = (Arc::clone(&upstream.queue), Arc::downgrade(open));
            options = options.on_raw_progress(move |params| {
                if params.as_bytes().len() > LARGEST_PROGRESS {
                    return;
                }
                // Progress with the token of the host.
                if let Ok(params) = Edit::new().set(meta::PROGRESS_TOKEN, &token).apply(Some(&params)) {
                    queue.push_progress(&open, params);
                }
            });
        }
        let params = params.map(trace::continued);
        let result = client.request_with(method, &params, &options).await;
        result.map_err(|error| {
            tracing::info!(%error, "a call failed");
            let status = client.status().borrow().clone();
            // Without a connection the missing login was reported when the connection was lost.
            if let (ErrorKind::Fault(fault), Status::Ready(_)) = (error.kind(), &status)
                && refusal::missing(fault).is_some()
            {
                (self.relay.on_denied)(fault);
            }
            refusal::of(&error, &upstream.standing(&self.relay, &status))
        })
    }
}

/// How long a call may be silent.
///
/// That is up to the host: it cancels what it no longer waits for, and many tools are silent for
/// longer than the default. So unless the user configured a timeout, only the limit for the whole
/// call applies, for hosts that never cancel.
fn silence(timeouts: &Timeouts) -> Duration {
    if timeouts.call == Timeouts::default().call { timeouts.max } else { timeouts.call }
}

/// Larger progress is dropped; no real one is.
const LARGEST_PROGRESS: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limit_that_was_set_ends_a_silent_call() {
        let seconds = Duration::from_secs;
        for (call, max, limit) in [(60, 600, 600), (5, 600, 5), (120, 600, 120), (30, 30, 30), (60, 60, 60)] {
            let timeouts = Timeouts { call: seconds(call), max: seconds(max), ..Timeouts::default() };
            assert_eq!(silence(&timeouts), seconds(limit));
        }
        assert_eq!(Timeouts::default().call, seconds(60));
    }
}
