//! One request of the host's, from its line to the line of its answer.

use std::sync::Arc;

use bowline::wire::object::Edit;
use bowline::wire::{Id, Json, code, meta, method};
use bowline::{Answer, CallOptions, Era, Status};
use tokio::sync::mpsc;

use super::Session;
use super::upstream::Upstream;
use crate::{greeting, refusal};

impl Session {
    /// Answers one request with what the server makes of it.
    ///
    /// Dropping the future cancels it on the server, and no answer is sent.
    pub(super) async fn serve(
        self: Arc<Self>,
        upstream: Arc<Upstream>,
        id: Id,
        method: Box<str>,
        params: Option<Json>,
    ) {
        let answer = match upstream.greeted().await {
            None => Err(refusal::out_of_order("initialize failed; say it again")),
            Some(offer) => {
                let answer = Box::pin(self.call(&upstream, &method, params)).await;
                match answer {
                    // The host was promised lists that this server turned out not to have.
                    Err(error) if offer.is_blind() && error.code == code::METHOD_NOT_FOUND => {
                        greeting::empty_list(&method).ok_or(error)
                    }
                    answer => answer,
                }
            }
        };
        self.link.answer(&id, &answer).await;
    }

    async fn call(&self, upstream: &Upstream, method: &str, params: Option<Json>) -> Answer {
        let client = &upstream.client;
        if let Status::Ready(peer) = &*client.status().borrow()
            && peer.era() == Era::Modern
            && let Some(refused) = refusal::cannot_be_bridged(method)
        {
            return Err(refused);
        }
        // How long a call may take is the host's to say: it cancels what it no longer waits for. Ours is the
        // limit for those that never do.
        let most = self.relay.server.timeouts.max;
        let mut options = CallOptions::new().timeout(most).max_timeout(most);
        let token = params.as_ref().and_then(|params| params.member("_meta")?.member(meta::PROGRESS_TOKEN));
        let (heard, mut progress) = mpsc::channel(PROGRESS);
        if token.is_some() {
            options = options.on_raw_progress(move |params| {
                // Of progress only the newest counts: what finds no room is dropped.
                if params.as_bytes().len() <= LARGEST_PROGRESS {
                    let _ = heard.try_send(params);
                }
            });
        }
        let call = client.request_with(method, &params, &options);
        tokio::pin!(call);
        let result = loop {
            tokio::select! {
                biased;
                Some(params) = progress.recv() => self.tell_progress(token.as_ref(), &params).await,
                result = &mut call => break result,
            }
        };
        // None after the answer.
        while let Ok(params) = progress.try_recv() {
            self.tell_progress(token.as_ref(), &params).await;
        }
        result.map_err(|error| {
            tracing::info!(%error, "a call failed");
            refusal::of(&error, &client.status().borrow())
        })
    }

    /// Progress under the name that the host gave it.
    async fn tell_progress(&self, token: Option<&Json>, params: &Json) {
        let Some(token) = token else { return };
        let Ok(params) = Edit::new().set(meta::PROGRESS_TOKEN, token).apply(Some(params)) else { return };
        self.link.notify(method::PROGRESS, Some(&params)).await;
    }
}

/// How much progress of a call waits for a host that reads slowly.
const PROGRESS: usize = 64;
/// More than any progress says.
const LARGEST_PROGRESS: usize = 64 * 1024;
