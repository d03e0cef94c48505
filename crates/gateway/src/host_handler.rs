//! [`HostHandler`]: forwards requests of a server to the host.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bowline::{Handler, HandlerResult, Json, ServerRequest};
use bowline_proto::server::session::out_of_order;
use bowline_server::{Handshake, HostLink};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::error_response;
use crate::open_calls::{OpenCall, OpenCalls};

/// Handles server requests by forwarding them to the host.
pub(crate) struct HostHandler {
    pub(crate) link: HostLink,
    /// The calls that a request may be for.
    pub(crate) open_calls: Arc<OpenCalls>,
    /// The handshake of the host: it gets requests only after it.
    pub(crate) handshake: Handshake,
    /// The capabilities of the host, which the server is told of.
    pub(crate) capabilities: Json,
    /// How long a host may take to respond. Often a person has to decide, so it is long; but
    /// nothing waits forever.
    pub(crate) response_timeout: Duration,
}

impl Handler for HostHandler {
    fn capabilities(&self) -> Json {
        self.capabilities.clone()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move {
            let answer = async {
                // A server may send requests as soon as its own handshake is done; the host gets
                // them only after its own.
                if !self.handshake.wait_until_ready().await {
                    return Err(out_of_order("the host was turned away"));
                }
                match self.open_calls.latest() {
                    Some(call) => {
                        // The question may be about another call, if one is open.
                        let next_open = || self.open_calls.cancellation_of_open();
                        ask_because_of(&call, &request, next_open).await
                    }
                    None => self.link.send_request(&request.method, &request.params).await,
                }
            };
            timeout(self.response_timeout, answer).await.unwrap_or_else(|_| {
                tracing::warn!(method = %request.method, "the host did not answer the server in time");
                Err(error_response::host_timeout())
            })
        })
    }
}

/// Asks the host of a call what a server asks. When the host has canceled the call, and all others that `next_open`
/// returns, the question is canceled at the host and answered with an error.
pub(crate) async fn ask_because_of(
    call: &OpenCall,
    request: &ServerRequest,
    next_open: impl Fn() -> Option<CancellationToken>,
) -> HandlerResult {
    let mut answer = pin!(call.request.send_request(&request.method, &request.params));
    let mut open = call.cancellation().clone();
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = open.cancelled() => match next_open() {
                Some(next) => open = next,
                None => return Err(error_response::call_canceled()),
            },
        }
    }
}
