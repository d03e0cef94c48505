//! Serves one request of the host, from its line to the line of its response.

use std::sync::Arc;

use bowline::types::{code, method};
use bowline::{Era, ErrorKind, HandlerResult, Json, Status};
use bowline_server::OpenRequest;

use super::HostSession;
use super::exposed;
use super::upstream::Upstream;
use crate::forwarded_call::{CallKind, ForwardedCall, TaskProgress, call_options};
use crate::open_calls::OpenCall;
use crate::{error_response, handshake, unchecked_methods};

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
        let (open, service) = OpenCall::begin(request);
        upstream.open_calls.add(&open);
        let answer = match upstream.wait_for_initialize().await {
            None => Err(error_response::initialize_failed()),
            Some(offer) => {
                // Hosts give up on a server whose first list fails or takes long. They list again
                // after a change notification, which they get when the server connects.
                if offer.is_speculative()
                    && !upstream.has_connected()
                    && let Some(nothing) = handshake::empty_list_result(&method)
                {
                    service.finish();
                    open.request.respond(Ok(&nothing)).await;
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
        service.finish();
        upstream.wait_until_delivered().await;
        open.request.respond(answer.as_ref()).await;
    }

    async fn call(
        &self,
        upstream: &Upstream,
        open: &Arc<OpenCall>,
        method: &str,
        params: Option<Json>,
    ) -> HandlerResult {
        let exposure = &self.relay.server.exposure;
        let refused = unchecked_methods::refuse_in_session(exposure, method)
            .or_else(|| exposed::refuse(exposure, method, params.as_ref()));
        if let Some(refused) = refused {
            return Err(refused);
        }
        let client = &upstream.client;
        let status = client.status().current();
        let era = if let Status::Ready(peer) = &status { Some(peer.era()) } else { None };
        if era == Some(Era::Modern)
            && let Some(refused) = error_response::unsupported_by_modern(method)
        {
            return Err(refused);
        }
        let wants_task =
            params.as_ref().and_then(|params| params.member("task")).is_some_and(|task| task.is_object());
        let kind = if wants_task && method == method::TOOLS_CALL && era == Some(Era::Legacy) {
            CallKind::Task { ttl: None }
        } else {
            CallKind::Request
        };
        let link = self.link.clone();
        let task_progress: Box<TaskProgress> =
            Box::new(move |params| link.try_notify(method::PROGRESS, Some(params)));
        let forwarded =
            ForwardedCall { client, queue: &upstream.queue, kind, task_progress: Some(task_progress) };
        let mut options = call_options(&self.relay.server.timeouts);
        if upstream.host_declares_tasks {
            options = options.raw();
        }
        if let Some(wait) = self.relay.resume_wait {
            options = options.resume_wait(wait);
        }
        let result = tokio::select! {
            result = Box::pin(forwarded.send(open, method, params, options)) => result,
            () = self.relay.wait_for_hang() => return Err(error_response::hung(&self.relay.server.name)),
        };
        let result = result.map(|result| exposed::filter_page(exposure, method, result));
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
