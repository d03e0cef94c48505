//! [`StatelessRequest`]: one request of a host of revision 2026-07-28, which has no session; over HTTP
//! or on a pipe.

use std::future::Future;

use bowline_proto::server::modern::Refusal;
use bowline_proto::server::modern::headers::{MirroredRequest, check_headers};
use bowline_proto::server::modern::request::ModernRequest;
use bowline_proto::wire::mirror::HeaderAnnotations;
use bowline_proto::wire::{Id, Json};
use http::HeaderMap;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::audience::Audience;
use crate::http::BodyMemory;
use crate::open_request::OpenRequest;

/// One request of a host of revision 2026-07-28. Its `_meta` is valid, and over HTTP its headers
/// repeat its body as far as that can be known without its tool.
///
/// # Behavior
/// - Over HTTP the end of its connection cancels it, and on a pipe `notifications/cancelled` does: what
///   [`StatelessRequest::spawn`] runs is dropped.
/// - Over HTTP its response is JSON if it is the first thing to say, and an event stream otherwise. Only
///   notifications that belong to it may be sent before it.
/// - The host cannot be sent requests.
#[derive(Debug)]
#[non_exhaustive]
pub struct StatelessRequest {
    /// The request, to answer.
    pub request: OpenRequest,
    /// Its id.
    pub id: Id,
    /// Its method.
    pub method: Box<str>,
    /// Its params, with the `_meta` that the host sent.
    pub params: Option<Json>,
    /// What its `_meta` says.
    pub client: ModernRequest,
    /// The memory that its params use, which are a part of its body. Whoever keeps them longer than
    /// the request keeps this as long.
    pub memory: BodyMemory,
    /// Who sends it, and which view of the servers it is for.
    pub audience: Audience,
    pub(crate) origin: RequestOrigin,
}

/// How a request has come.
#[derive(Debug)]
pub(crate) enum RequestOrigin {
    /// On a pipe, on which there are no headers.
    Pipe,
    /// Over HTTP, from a process that relays a pipe and does not know what headers would repeat.
    RelayedPipe,
    /// Over HTTP, with headers that repeat parts of the body.
    Http(HeaderMap),
}

/// The requests of hosts of revision 2026-07-28. Dropping it drops those that wait.
#[derive(Debug)]
pub struct StatelessRequests {
    requests: mpsc::Receiver<StatelessRequest>,
    draining: CancellationToken,
}

impl StatelessRequest {
    /// Spawns the task that serves the request. The task ends when the connection of the host does, or
    /// when the host cancels the request on a pipe.
    pub fn spawn<F>(self, serve: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.is_on_pipe() {
            let spawner = self.request.spawner();
            return spawner.spawn(serve(self));
        }
        let link = self.request.link().clone();
        let serving = serve(self);
        let tasks = link.tasks().clone();
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = link.wait_for_disconnect() => {}
                () = serving => {}
            }
        });
    }

    /// Whether the host is on a pipe, on which it reads all messages in the order in which they are sent.
    pub fn is_on_pipe(&self) -> bool {
        matches!(self.origin, RequestOrigin::Pipe)
    }

    /// Whether the host is on a pipe, here or at a process that relays it.
    pub fn is_from_pipe(&self) -> bool {
        matches!(self.origin, RequestOrigin::Pipe | RequestOrigin::RelayedPipe)
    }

    /// The view of the servers that it is for. `None` is everything.
    pub fn view(&self) -> Option<&str> {
        self.audience.view()
    }

    /// Checks that the headers repeat the arguments that the annotations of the called tool name. There
    /// are none on a pipe.
    // GW-03
    pub fn check_arguments(&self, annotations: &HeaderAnnotations) -> Result<(), Refusal> {
        let RequestOrigin::Http(headers) = &self.origin else { return Ok(()) };
        check(headers, &self.client, (&self.method, self.params.as_ref()), Some(annotations))
    }
}

impl StatelessRequests {
    pub(crate) fn new(requests: mpsc::Receiver<StatelessRequest>, draining: CancellationToken) -> Self {
        Self { requests, draining }
    }

    /// Waits for the next request. `None` once no more are accepted.
    ///
    /// Dropping the future loses no request.
    pub async fn next(&mut self) -> Option<StatelessRequest> {
        tokio::select! {
            biased;
            () = self.draining.cancelled() => None,
            request = self.requests.recv() => request,
        }
    }
}

/// Checks the headers of a request, given by its method and params, against its body.
// GW-03
pub(crate) fn check(
    headers: &HeaderMap,
    request: &ModernRequest,
    (method, params): (&str, Option<&Json>),
    annotations: Option<&HeaderAnnotations>,
) -> Result<(), Refusal> {
    let values = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let mirrored = MirroredRequest { request, method, params, annotations };
    check_headers(values, &mirrored).map_err(|mismatch| mismatch.refusal())
}
