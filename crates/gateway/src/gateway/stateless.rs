//! Serves hosts of revision 2026-07-28, each of whose requests stands on its own.

mod call_parking;
mod listen;
mod running_call;

use std::sync::Arc;

use bowline::types::{code, method};
use bowline::{HandlerResult, Json, RpcError};
use bowline_proto::server::modern::Refusal;
use bowline_proto::server::modern::input::InputRetry;
use bowline_proto::server::modern::methods::{MethodKind, may_require_input, method_not_found};
use bowline_proto::server::modern::request::ModernRequest;
use bowline_proto::server::modern::results::{complete_result, error_for_modern_host};
use bowline_proto::wire::meta;
use bowline_proto::wire::object::Edit;
use bowline_server::{OpenRequest, StatelessRequest};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Shared;
use super::handshake::{build_discovery, offered_server_info};
use super::loops::HostPosition;
use super::request::{CallContext, RoutedCall};
use super::session::INSTRUCTIONS_WAIT;
use super::shared_upstreams::{SharedUpstreams, UpstreamLease};
use super::tasks::{StatelessTask, TaskIssuer};
use crate::catalog::Snapshot;
use crate::error_response;
use crate::view::ViewChoice;
use call_parking::{CallParking, HostRequest};
use running_call::{CallStart, CallTurn, RunningCall};

/// The hosts without a session, and the connections that they share. Clones share everything.
#[derive(Clone)]
pub(crate) struct StatelessHosts {
    gateway: Arc<Shared>,
    upstreams: Arc<SharedUpstreams>,
    /// The calls that wait for input.
    parking: Arc<CallParking>,
    /// A token is held by each request.
    requests: TaskTracker,
    /// A token is held by each call, from its begin until it has ended or was canceled on its server.
    calls: TaskTracker,
    /// Canceled when subscriptions are to end.
    stopping: CancellationToken,
    /// A token is held by each subscription.
    subscriptions: TaskTracker,
    /// A permit is a resource whose changes a host wants.
    watches: Arc<Semaphore>,
}

/// Most resources whose changes hosts without a session want, of all together. No more are granted.
const MAX_WATCHES: usize = 10_000;

impl StatelessHosts {
    pub(super) fn new(gateway: Arc<Shared>) -> Self {
        let upstreams = SharedUpstreams::new(Arc::clone(&gateway));
        let parking = CallParking::new(gateway.input_timeout);
        Self {
            gateway,
            upstreams,
            parking,
            requests: TaskTracker::new(),
            calls: TaskTracker::new(),
            stopping: CancellationToken::new(),
            subscriptions: TaskTracker::new(),
            watches: Arc::new(Semaphore::new(MAX_WATCHES)),
        }
    }

    /// Serves a request in its own task, which ends with the connection of the host, or when the host
    /// cancels the request on a pipe.
    pub(crate) fn serve(&self, request: StatelessRequest) {
        let (hosts, token) = (self.clone(), self.requests.token());
        request.spawn(|request| async move {
            hosts.serve_request(request).await;
            drop(token);
        });
    }

    /// Closes connections that are idle for too long. Never returns.
    pub(super) async fn close_idle(&self) {
        self.upstreams.close_idle().await;
    }

    /// Ends all subscriptions of hosts with a result.
    pub(crate) fn end_subscriptions(&self) {
        self.stopping.cancel();
    }

    /// Waits until all subscriptions have ended.
    pub(crate) async fn wait_for_subscriptions(&self) {
        self.subscriptions.close();
        self.subscriptions.wait().await;
    }

    /// Waits until no request is open, cancels the calls that wait for input, and closes all
    /// connections to servers.
    pub(crate) async fn close(&self) {
        self.requests.close();
        self.requests.wait().await;
        self.parking.close();
        // A call that was dropped is canceled by its task, a moment later, over a connection that is open.
        self.calls.close();
        self.calls.wait().await;
        self.upstreams.close().await;
    }

    /// Whether there is no such view, or no longer.
    fn is_missing(&self, view: &str) -> bool {
        self.gateway.views.current().is_missing(&ViewChoice::selected(Some(view)))
    }

    /// Whether the roots of the host decide what it sees. They can only be asked for in a session, which
    /// every host on a pipe can begin that has roots: those are older than its revision.
    fn has_to_tell_roots(&self, request: &StatelessRequest) -> bool {
        let declared = || request.client.client_capabilities.member("roots").is_some_and(|it| it.is_object());
        request.is_from_pipe()
            && request.view().is_none()
            && self.gateway.views.current().has_roots()
            && declared()
    }

    /// Dropping the future cancels the request on its server.
    async fn serve_request(&self, request: StatelessRequest) {
        if let Some(view) = request.view().filter(|view| self.is_missing(view)) {
            return request.request.respond(Err(&error_response::view_removed(view))).await;
        }
        if self.has_to_tell_roots(&request) {
            let why =
                "a view depends on the roots of the host, which can only be asked for after `initialize`";
            return request.request.respond(Err(&error_response::handshake_required(why))).await;
        }
        match find_retry(&request) {
            Ok(None) => {}
            Ok(Some(retry)) => return Box::pin(self.resume(request, retry)).await,
            Err(refusal) => return request.request.respond(Err(&refusal.error)).await,
        }
        let position = if request.is_on_pipe() { HostPosition::Pipe } else { HostPosition::Network };
        if let Err(refusal) = self.gateway.gateway_id.check(request.audience.via(), position) {
            return request.request.respond(Err(&refusal)).await;
        }
        let lease = self.upstreams.lease(&request.client, &request.audience);
        match &*request.method {
            method::LISTEN => {
                let _subscription = self.subscriptions.token();
                Box::pin(listen::serve(self, &lease, request)).await;
            }
            method::DISCOVER => request.request.respond(discover(&lease).await.as_ref()).await,
            _ if MethodKind::of(&request.method) == MethodKind::Tasks => {
                Box::pin(self.answer_about_task(lease, request)).await;
            }
            _ => Box::pin(self.forward(lease, request)).await,
        }
    }

    /// Answers a request of the tasks extension.
    async fn answer_about_task(&self, lease: UpstreamLease, request: StatelessRequest) {
        let StatelessRequest { request, method, params, client, .. } = request;
        // GW-05, TN-08
        let is_offered = lease.catalog().offers_tasks(self.gateway.list_wait).await;
        let refusal = match is_offered {
            false => Some(method_not_found()),
            true if !client.declares_tasks() => Some(Refusal::undeclared_tasks()),
            true => None,
        };
        if let Some(refusal) = refusal {
            return request.respond(Err(&refusal.error)).await;
        }
        let answer = match self.gateway.tasks.find(&lease.audience(), params.as_ref()) {
            Ok(task) => {
                let gateway = Arc::clone(&self.gateway);
                let (lease, capabilities) = (lease.clone(), client.client_capabilities);
                let task = StatelessTask { gateway, lease, capabilities, task };
                task.answer(&method, params.as_ref()).await
            }
            Err(error) => Err(error),
        };
        let server_info = offered_server_info(&lease.catalog().snapshot());
        request.respond(modern_answer(&method, answer, &server_info).as_ref()).await;
    }

    /// Forwards a request in a task of its own, and waits for its end or for questions.
    async fn forward(&self, lease: UpstreamLease, request: StatelessRequest) {
        let params = forwarded_params(request.params.as_ref(), &request.client);
        let context = CallContext { gateway: &self.gateway, upstreams: &lease, method: &request.method };
        let routed = RoutedCall::new(context, params.clone()).await;
        if let Err(refusal) = check_arguments(&request, routed.snapshot()) {
            return request.request.respond(Err(&refusal.error)).await;
        }
        let StatelessRequest { request, method, params: sent, client, memory, audience, .. } = request;
        let gateway = Arc::clone(&self.gateway);
        let tasks = client.declares_tasks().then(|| {
            let gateway = Arc::clone(&self.gateway);
            TaskIssuer { gateway, audience: lease.audience() }
        });
        let call = CallStart {
            gateway,
            lease,
            tasks,
            routed,
            method: method.clone(),
            params,
            log_level: client.log_level,
            memory,
            token: self.calls.token(),
        };
        let host = HostRequest { method, params: sent, client, audience };
        let request = Arc::new(request);
        let call = Box::new(RunningCall::spawn(call, &request, &host));
        self.finish(call, request, &host).await;
    }

    /// Goes on with a call that waits for the input which this request brings.
    // GW-07, GW-16
    async fn resume(&self, request: StatelessRequest, retry: InputRetry) {
        let host = HostRequest {
            method: request.method.clone(),
            params: request.params.clone(),
            client: request.client.clone(),
            audience: request.audience.clone(),
        };
        let resumed = self.parking.resume(&retry, &host, |call| check_arguments(&request, call.snapshot()));
        match resumed {
            Ok(call) => {
                let request = Arc::new(request.request);
                call.attach(&request, &host);
                self.finish(call, request, &host).await;
            }
            Err(error) => request.request.respond(Err(&error)).await,
        }
    }

    /// Responds with the result of a call or with its questions, whichever come first.
    async fn finish(&self, mut call: Box<RunningCall>, request: Arc<OpenRequest>, host: &HostRequest) {
        let snapshot = Arc::clone(call.snapshot());
        let answer = loop {
            match call.wait(&host.client.client_capabilities).await {
                CallTurn::Ended(answer) => break answer,
                CallTurn::Asks => match self.parking.park(call, host) {
                    Ok(questions) => break Ok(questions),
                    Err((refused, error)) => {
                        call = refused;
                        call.refuse_questions(&error);
                    }
                },
            }
        };
        let server_info = offered_server_info(&snapshot);
        request.respond(modern_answer(&host.method, answer, &server_info).as_ref()).await;
    }
}

/// The result of `server/discover`, or an error if the only server cannot be used until a person helps.
async fn discover(lease: &UpstreamLease) -> HandlerResult {
    let catalog = lease.catalog();
    match catalog.snapshot().sole() {
        Some(_) => lease.wait_for_sole_server(INSTRUCTIONS_WAIT).await?,
        None => catalog.wait_until_known(INSTRUCTIONS_WAIT).await,
    }
    Ok(build_discovery(&catalog.snapshot(), catalog.may_offer_tasks()))
}

/// Refuses what hosts of this revision cannot request here, and finds what a retry brings.
// GW-05, GW-07
fn find_retry(request: &StatelessRequest) -> Result<Option<InputRetry>, Refusal> {
    match MethodKind::of(&request.method) {
        MethodKind::Core | MethodKind::Unknown => {}
        MethodKind::Tasks => return Ok(None),
        // TN-10
        MethodKind::Removed => return Err(method_not_found()),
    }
    if may_require_input(&request.method) { InputRetry::parse(request.params.as_ref()) } else { Ok(None) }
}

/// Checks the headers that repeat arguments of the called tool.
// GW-03
fn check_arguments(request: &StatelessRequest, snapshot: &Snapshot) -> Result<(), Refusal> {
    if *request.method != *method::TOOLS_CALL {
        return Ok(());
    }
    let name = request.params.as_ref().and_then(|params| params.member("name")?.decode::<String>().ok());
    match name.and_then(|name| snapshot.header_annotations(&name)) {
        Some(annotations) => request.check_arguments(annotations),
        None => Ok(()),
    }
}

/// The params without what the host says about itself, which the gateway says about itself to
/// servers.
// GW-13
fn forwarded_params(params: Option<&Json>, client: &ModernRequest) -> Option<Json> {
    let params = params?;
    let Some(meta) = params.member("_meta") else { return Some(params.clone()) };
    let keys = [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES, meta::CLIENT_INFO, meta::LOG_LEVEL];
    let mut edit = keys.into_iter().fold(Edit::new(), Edit::remove);
    if client.progress_token.is_none() {
        // It is missing, or no token.
        edit = edit.remove(meta::PROGRESS_TOKEN);
    }
    let meta = edit.apply(Some(&meta)).ok().filter(|meta| *meta != Json::empty_object());
    let edit = match &meta {
        Some(meta) => Edit::new().set("_meta", meta),
        None => Edit::new().remove("_meta"),
    };
    edit.apply(Some(params)).ok()
}

/// The answer of a server of either era, for a modern host.
// GW-06, GW-16
fn modern_answer(method: &str, answer: HandlerResult, server_info: &Json) -> HandlerResult {
    match answer {
        Ok(result) => complete_result(method, &result, server_info).map_err(|_| {
            RpcError::new(code::INTERNAL_ERROR, "the server sent a result that is not an object")
        }),
        Err(error) => Err(error_for_modern_host(&error).unwrap_or_else(|| {
            let message = "the server requires a visit to a page, which this host cannot be asked for";
            RpcError::new(code::INTERNAL_ERROR, message)
        })),
    }
}

#[cfg(test)]
mod tests;
