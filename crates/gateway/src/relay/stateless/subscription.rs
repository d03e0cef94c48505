//! Relays a subscription, which outlives the gateway: it is opened again there, and the host is told of
//! everything that may have changed meanwhile.

use bowline::Json;
use bowline::types::method;
use bowline_proto::server::modern::listen::{ListenFilter, ListenStream};
use bowline_proto::wire::object::Edit;
use bowline_server::StatelessRequest;

use super::exchange::{Exchange, Received, RequestBody};
use super::{RetryWaits, StatelessRelay};
use crate::gateway::server_info;

/// What the host knows of its subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing: the acknowledgment was not passed on yet.
    ExpectAcknowledgment,
    /// It was acknowledged, and is open.
    Open,
}

impl StatelessRelay {
    /// Relays a subscription until the gateway refuses it, or until the host ends.
    ///
    /// Dropping the future cancels the subscription.
    // ST-05, SB-05, GW-08
    pub(super) async fn relay_subscription(&self, request: StatelessRequest) {
        let body = RequestBody::new(&request.id, &request.method, request.params.as_ref());
        let mut progress = Progress::ExpectAcknowledgment;
        let mut waits = RetryWaits::new(Some(self.0.reconnect_wait));
        loop {
            let fault = tokio::select! {
                biased;
                () = self.0.stopping.cancelled() => return end(&request).await,
                exchange = self.follow(&body, &request, &mut progress, &mut waits) => match exchange {
                    Exchange::Answered(Err(error)) => return request.request.respond(Err(&error)).await,
                    // A gateway that ends says so with a result. The next one goes on.
                    Exchange::Answered(Ok(_)) | Exchange::Lost => None,
                    Exchange::NotExecuted(fault) => Some(fault),
                },
            };
            if !waits.wait().await
                && let Some(fault) = fault
            {
                return request.request.respond(Err(&self.describe(&fault))).await;
            }
        }
    }

    /// Opens the subscription at the gateway, and passes on what is said there until it ends.
    async fn follow(
        &self,
        body: &RequestBody,
        request: &StatelessRequest,
        progress: &mut Progress,
        waits: &mut RetryWaits,
    ) -> Exchange {
        let mut reader = match self.send(body).await {
            Ok(reader) => reader,
            Err(exchange) => return exchange,
        };
        loop {
            let (method, params) = match reader.next().await {
                Received::Notification { method, params } => (method, params),
                Received::End(exchange) => {
                    self.report(&exchange);
                    return exchange;
                }
            };
            if *method == *method::LISTEN_ACKNOWLEDGED {
                *waits = RetryWaits::new(Some(self.0.reconnect_wait));
                match progress {
                    Progress::ExpectAcknowledgment => *progress = Progress::Open,
                    Progress::Open => {
                        announce_all(request, params.as_ref()).await;
                        continue;
                    }
                }
            }
            request.request.notify(&method, params.as_ref()).await;
        }
    }
}

/// Tells the host that everything has changed that the params of an acknowledgment grant.
async fn announce_all(request: &StatelessRequest, acknowledged: Option<&Json>) {
    let Ok(granted) = ListenFilter::parse(acknowledged, &request.client) else { return };
    let uris: Vec<_> = granted.resource_uris.iter().cloned().collect();
    let (stream, _) = ListenStream::open(&request.id, granted);
    for list in [method::TOOLS_CHANGED, method::PROMPTS_CHANGED, method::RESOURCES_CHANGED] {
        if let Some(changed) = stream.tag_notification(list, None) {
            request.request.send_notification(&changed).await;
        }
    }
    for uri in uris {
        let params = Edit::new().set_str("uri", &uri).apply(None).ok();
        if let Some(updated) = stream.tag_notification(method::RESOURCE_UPDATED, params.as_ref()) {
            request.request.send_notification(&updated).await;
        }
    }
}

/// Ends the subscription with a result.
async fn end(request: &StatelessRequest) {
    let (mut stream, _) = ListenStream::open(&request.id, ListenFilter::default());
    if let Some(result) = stream.end_with_result(&server_info()) {
        request.request.respond(Ok(&result)).await;
        request.request.send_notification(&stream.cancellation()).await;
    }
}
