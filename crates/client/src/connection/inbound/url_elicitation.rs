//! Calls that a server of 2025-11-25 refuses with error -32042 until a person has visited a URL
//! (EL-11).

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bowline_proto::revision::Era;
use bowline_proto::wire::view::{ElicitResult, ElicitationCompletion, UrlElicitation};
use bowline_proto::wire::{Json, RpcError, code, method};
use tokio::time::sleep;

use super::Inbound;
use super::server_requests::ServerQuestion;
use crate::connection::call::{CallRequest, describe_request};
use crate::connection::engine::MAX_WAIT;
use crate::connection::{Connection, Failure, LiveLink};
use crate::events::{Event, EventReceiver};
use crate::handler::UrlElicitationOutcome;

impl Connection {
    /// Whether an error requires URL elicitations that this host supports.
    pub(crate) fn requires_url_elicitation(
        &self,
        live: &LiveLink,
        ask: CallRequest<'_>,
        error: &RpcError,
    ) -> bool {
        error.code == code::URL_ELICITATION_REQUIRED
            && live.peer.era() == Era::Legacy
            && !ask.options.raw
            && self.server.declaration.has_url_elicitation()
    }

    /// Elicits each URL, waits until the person is done, and sends the request once more. If it is
    /// refused again, or the person declines, the server's error stands.
    pub(crate) async fn elicit_urls_and_retry(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
        refused: RpcError,
    ) -> Result<(Option<Arc<LiveLink>>, Json), Failure> {
        let mut pages = refused.data.as_ref().map(UrlElicitation::from_error_data).unwrap_or_default();
        if pages.is_empty() || pages.len() > MAX_URL_ELICITATIONS {
            return Err(Failure::Server(refused));
        }
        // Subscribe before the first URL is shown: a person can be quick.
        let heard = self.events.subscribe();
        let during = describe_request(ask.method, ask.params);
        for page in &pages {
            let question = ServerQuestion {
                method: method::ELICIT.into(),
                params: Some(elicitation_params(page)),
                purpose: Some(Arc::clone(&during)),
                key: None,
            };
            let answer = self.call_handler(ask.options.handler.as_ref(), question).await;
            let consents = answer.ok().and_then(|answer| ElicitResult::decode(&answer).ok());
            if !matches!(consents, Some(ElicitResult::Accept(_))) {
                return Err(Failure::Server(refused));
            }
        }
        let ids: Vec<Box<str>> = pages.iter_mut().filter_map(|page| page.id.take()).collect();
        let handler = ask.options.handler.as_ref().unwrap_or(&self.inbound.handler);
        let done = wait_for_completions(heard, ids.iter().cloned().collect());
        let completion = tokio::select! {
            biased;
            () = done => UrlElicitationOutcome::Retry,
            completion = handler.await_url_elicitation(Arc::clone(&self.server.name), ids) => completion,
            () = sleep(self.server.limits(ask.options).total.min(MAX_WAIT)) => UrlElicitationOutcome::GiveUp,
        };
        match completion {
            UrlElicitationOutcome::Retry => self.send_with_retry(live, ask).await,
            UrlElicitationOutcome::GiveUp => Err(Failure::Server(refused)),
        }
    }
}

impl Inbound {
    /// Passes the server's notice of a completed elicitation to the handler.
    pub(super) fn handle_elicitation_complete(&self, server: &str, params: Option<&Json>) {
        if let Some(Ok(done)) = params.map(ElicitationCompletion::decode)
            // A handler that panics must not take the connection down.
            && catch_unwind(AssertUnwindSafe(|| self.handler.url_elicitation_completed(server, &done.id))).is_err()
        {
            tracing::error!(server, "a handler panicked");
        }
    }
}

/// Waits until the server has announced the completion of all ids. Never returns if there are none.
async fn wait_for_completions(mut heard: EventReceiver<Event>, mut open: HashSet<Box<str>>) {
    if open.is_empty() {
        return std::future::pending().await;
    }
    while !open.is_empty() {
        match heard.next().await {
            Some(Event::Notification(said)) if *said.method == *method::ELICIT_COMPLETE => {
                if let Some(Ok(done)) = said.params.as_ref().map(ElicitationCompletion::decode) {
                    open.remove(&done.id);
                }
            }
            // A completion may be among the missed events; the person can still confirm.
            Some(_) => {}
            None => return std::future::pending().await,
        }
    }
}

/// The `elicitation/create` params that the server would have sent.
fn elicitation_params(page: &UrlElicitation) -> Json {
    let mut params = serde_json::json!({ "mode": "url", "message": page.message, "url": page.url });
    if let Some(id) = &page.id {
        params["elicitationId"] = (**id).into();
    }
    Json::encode(&params).expect("strings are JSON")
}

/// Maximum number of URLs that one call may require.
const MAX_URL_ELICITATIONS: usize = 8;
