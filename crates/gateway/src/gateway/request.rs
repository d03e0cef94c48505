//! Serves one request of the host.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bowline::types::{LogLevel, code, method};
use bowline::{Client, Execution, HandlerResult, Json, RpcError, Status};
use bowline_proto::wire::object::Edit;
use bowline_server::OpenRequest;

use super::Shared;
use super::connection::LOG_LEVEL_WAIT;
use super::lists::list;
use super::route::{Route, route};
use super::session::HostSession;
use super::subscriptions::ResourceWatch;
use super::tasks::{TaskCall, without_task};
use super::upstream::{HostTasks, UpstreamUse, Upstreams};
use crate::catalog::{ListKind, Snapshot, Target};
use crate::error_response::{self, unknown_method};
use crate::exposed_result::with_exposed_uris;
pub(super) use crate::forwarded_call::CallKind;
use crate::forwarded_call::{ForwardedCall, TaskProgress, call_options};
use crate::open_calls::OpenCall;
use crate::unchecked_methods;

impl HostSession {
    /// Serves one request and sends its response.
    ///
    /// Dropping the future cancels it on the server, and no response is sent.
    pub(super) async fn serve_request(
        self: Arc<Self>,
        upstreams: Arc<Upstreams>,
        request: OpenRequest,
        method: Box<str>,
        params: Option<Json>,
    ) {
        if !upstreams.wait_until_accepted().await {
            return request.respond(Err(&error_response::initialize_failed())).await;
        }
        if let Some(view) = upstreams.removed_view() {
            return request.respond(Err(&error_response::view_removed(view))).await;
        }
        self.find_roots(&upstreams, &request).await;
        let (open, service) = OpenCall::begin(request);
        let answer = Box::pin(self.answer(&upstreams, &open, &method, params)).await;
        service.finish();
        open.request.respond(answer.as_ref()).await;
    }

    async fn answer(
        &self,
        upstreams: &Arc<Upstreams>,
        open: &Arc<OpenCall>,
        method: &str,
        params: Option<Json>,
    ) -> HandlerResult {
        let context = CallContext { gateway: &self.gateway, upstreams, method };
        let about_task = Box::pin(self.answer_task_request(upstreams, open, method, params.as_ref()));
        if let Some(answer) = about_task.await {
            return answer;
        }
        let mut task_call = None;
        let mut params = params;
        if method == method::TOOLS_CALL {
            if upstreams.host_tasks() == HostTasks::Experiment {
                task_call = TaskCall::parse(self, upstreams, open, params.as_ref())?;
            }
            params = without_task(params);
        }
        let call = RoutedCall::new(context, params.clone()).await;
        if task_call.is_some() && matches!(call.route, Route::Forward { .. }) {
            TaskCall::check_support(call.snapshot(), params.as_ref())?;
        }
        if call.may_have_effects(method, params.as_ref()) {
            if open.request.is_repeated() {
                return Err(error_response::interrupted());
            }
            open.request.record().await;
        }
        let result = match call.route {
            Route::Subscribe(ref target) => self.subscribe(upstreams, target, params.as_ref()).await?,
            Route::Unsubscribe { ref uri } => {
                upstreams.subscriptions.end(uri);
                Json::empty_object()
            }
            Route::SetLevel => {
                if requested_log_level(params.as_ref()).is_none() {
                    return Err(RpcError::new(code::INVALID_PARAMS, "params need a level of logging"));
                }
                upstreams.wait_for_log_level().await;
                Json::empty_object()
            }
            _ => {
                return match task_call {
                    Some(task_call) => Box::pin(call.answer(context, &task_call, params)).await,
                    None => call.answer(context, open, params).await,
                };
            }
        };
        open.request.wait_until_session_is_recorded().await;
        Ok(result)
    }

    async fn subscribe(
        &self,
        upstreams: &Arc<Upstreams>,
        target: &Target,
        params: Option<&Json>,
    ) -> HandlerResult {
        let exposed: String =
            params.and_then(|params| params.member("uri")?.decode().ok()).unwrap_or_default();
        if !upstreams.subscriptions.has_room(&exposed) {
            return Err(RpcError::new(code::INVALID_PARAMS, "too many subscriptions in one session"));
        }
        let missing = || unknown_method(method::RESOURCES_SUBSCRIBE);
        let mut watch = ResourceWatch::open(upstreams, target).await.ok_or_else(missing)??;
        let (link, reached) = (self.link.clone(), Arc::downgrade(upstreams));
        upstreams.subscriptions.begin(exposed.clone(), async move {
            while let Some(change) = watch.next().await {
                let uri = change.exposed(&exposed);
                // The view may be another one by now.
                let is_shown =
                    |upstreams: Arc<Upstreams>| upstreams.catalog().snapshot().resource(uri).is_some();
                if !reached.upgrade().is_some_and(is_shown) {
                    continue;
                }
                let params = Edit::new().set_str("uri", uri).apply(None).ok();
                link.notify(method::RESOURCE_UPDATED, params.as_ref()).await;
            }
        });
        Ok(Json::empty_object())
    }
}

/// The level of log messages that the params of a request name.
pub(super) fn requested_log_level(params: Option<&Json>) -> Option<LogLevel> {
    let name: String = params?.member("level")?.decode().ok()?;
    LogLevel::from_name(&name)
}

/// A request of a host, and the connections that it may be forwarded on.
#[derive(Clone, Copy)]
pub(super) struct CallContext<'a> {
    pub(super) gateway: &'a Shared,
    pub(super) upstreams: &'a Upstreams,
    pub(super) method: &'a str,
}

/// What is done with a request of a host.
pub(super) struct RoutedCall {
    snapshot: Arc<Snapshot>,
    route: Route,
}

/// The host's end of a request that is forwarded.
pub(super) trait CallOrigin: Sync {
    /// Forwards the request to one server. What the server sends before its response reaches the
    /// host before the response does.
    ///
    /// Dropping the future cancels the request on the server.
    fn forward(
        &self,
        used: UpstreamUse,
        snapshot: &Snapshot,
        method: &str,
        params: Option<Json>,
    ) -> impl Future<Output = HandlerResult> + Send;
}

impl RoutedCall {
    /// Decides what is done with a request.
    pub(super) async fn new(context: CallContext<'_>, params: Option<Json>) -> Self {
        let CallContext { gateway, upstreams, method } = context;
        let catalog = upstreams.catalog();
        let mut snapshot = catalog.snapshot();
        let mut routed = route(&snapshot, method, params.clone());
        if let Route::Refuse(_) | Route::NotFound { .. } | Route::Search { .. } = routed {
            // It may be of a server whose lists were never fetched.
            catalog.wait_until_known(gateway.list_wait).await;
            snapshot = catalog.snapshot();
            routed = route(&snapshot, method, params);
        }
        Self { snapshot, route: routed }
    }

    /// The lists by which it was decided.
    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Whether it must not be executed twice. Of methods that are not known here, that is not known.
    fn may_have_effects(&self, method: &str, params: Option<&Json>) -> bool {
        match self.route {
            Route::Unknown => true,
            _ if method == method::TOOLS_CALL => {
                let name: Option<String> = params.and_then(|params| params.member("name")?.decode().ok());
                !name.is_some_and(|name| self.snapshot.is_harmless_tool(&name))
            }
            _ => false,
        }
    }

    /// Answers a request that changes nothing of the session of its host. Other methods are unknown
    /// here.
    pub(super) async fn answer(
        self,
        context: CallContext<'_>,
        origin: &impl CallOrigin,
        params: Option<Json>,
    ) -> HandlerResult {
        let CallContext { gateway, upstreams, method } = context;
        let Self { snapshot, route } = self;
        match route {
            Route::List(kind) => {
                Ok(list(upstreams.catalog(), kind, gateway.list_wait, upstreams.host_tasks()).await)
            }
            Route::FirstList(kind) => {
                // Hosts give up on a server whose first list fails or takes long, so they are told that there is
                // nothing yet if it is down, but not if a person has to help.
                upstreams.wait_for_sole_server(gateway.list_wait).await?;
                Ok(list(upstreams.catalog(), kind, Duration::ZERO, upstreams.host_tasks()).await)
            }
            Route::Forward { server, params: own } => match upstreams.connect(&server) {
                Some(used) => origin.forward(used?, &snapshot, method, own).await,
                None => Err(removed_target(upstreams, method, params)),
            },
            Route::Search { uri } => search(upstreams, &snapshot, origin, &uri, params).await,
            Route::Unknown => {
                let used = upstreams.only().and_then(|only| upstreams.connect(&only));
                let used = used.ok_or_else(|| unknown_method(method))??;
                let exposure = &used.upstream.server.config.exposure;
                if let Some(refused) = unchecked_methods::refuse_in_session(exposure, method) {
                    return Err(refused);
                }
                origin.forward(used, &snapshot, method, params).await
            }
            Route::NotFound { kind, error } => Err(not_found(upstreams, kind, error)),
            Route::Refuse(error) => Err(error),
            Route::Subscribe(_) | Route::Unsubscribe { .. } | Route::SetLevel => Err(unknown_method(method)),
        }
    }
}

impl CallOrigin for Arc<OpenCall> {
    async fn forward(
        &self,
        used: UpstreamUse,
        snapshot: &Snapshot,
        method: &str,
        params: Option<Json>,
    ) -> HandlerResult {
        // A host of 2025-11-25 is told of tools that have to be called as tasks, and does so itself.
        let kind = match used.upstream.host_tasks() {
            HostTasks::ByRequest if method == method::TOOLS_CALL => CallKind::Tool,
            _ => CallKind::Request,
        };
        forward_call(self, used, snapshot, (method, params), kind).await
    }
}

/// Forwards a request of a host with a session to one server. Returns what the server answers, with
/// exposed URIs.
///
/// Dropping the future cancels the request on the server.
pub(super) async fn forward_call(
    open: &Arc<OpenCall>,
    used: UpstreamUse,
    snapshot: &Snapshot,
    (method, params): (&str, Option<Json>),
    kind: CallKind,
) -> HandlerResult {
    let UpstreamUse { upstream, connection: connected } = used;
    let config = &upstream.server.config;
    let Some(_permit) = upstream.count_call() else {
        return Err(error_response::too_many_requests(&config.name));
    };
    connected.wait_for_log_level(LOG_LEVEL_WAIT).await;
    let sent = connected.members.begin(upstream.member(), open);
    let timeouts = &config.timeouts;
    let mut options = call_options(timeouts);
    if let Some(handler) = connected.call_handler(open, upstream.session(), timeouts.total) {
        options = options.handler(handler);
    }
    let task_progress = upstream.session().map(|session| -> Box<TaskProgress> {
        let (link, owners) = (session.link.clone(), Arc::clone(&connected.task_owners));
        Box::new(move |params| link.try_notify(method::PROGRESS, Some(&owners.rename_task(params))))
    });
    let call = ForwardedCall { client: &connected.client, queue: &connected.queue, kind, task_progress };
    let result = call.send(open, method, params, options).await;
    let is_done = match &result {
        Ok(_) => true,
        Err(error) => error.server_error().is_some() || error.execution() == Execution::NotExecuted,
    };
    // What the server said during the call belongs to it.
    connected.queue.wait_until_delivered().await;
    if is_done {
        sent.answered();
    }
    match result {
        Ok(result) => Ok(with_exposed_uris(result, snapshot, &config.name)),
        Err(error) => Err(upstream.error_response(&connected.client, &error)),
    }
}

/// Reads a resource that no server lists from the first of the likely servers that has it.
async fn search(
    upstreams: &Upstreams,
    snapshot: &Snapshot,
    origin: &impl CallOrigin,
    uri: &str,
    params: Option<Json>,
) -> HandlerResult {
    let mut first_error = None;
    for server in snapshot.likely_servers(uri) {
        let Some(Ok(used)) = upstreams.connect(&server) else { continue };
        // A server that lists resources is waited for if it is being connected.
        if !snapshot.lists_resources(&server) && !offers_resources(&used.connection.client) {
            continue;
        }
        match origin.forward(used, snapshot, method::RESOURCES_READ, params.clone()).await {
            Ok(result) => return Ok(result),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Err(first_error.unwrap_or_else(|| {
        let error = RpcError::new(code::RESOURCE_NOT_FOUND, format!("Resource not found: {uri}"));
        not_found(upstreams, ListKind::Resources, error)
    }))
}

/// The error for a name or a URI that no server lists. A model takes it as final, so it is another one if the lists of
/// a server were never known, since it is down or has not answered.
fn not_found(upstreams: &Upstreams, kind: ListKind, error: RpcError) -> RpcError {
    match upstreams.catalog().unlisted_server(kind) {
        Some((server, why)) => error_response::may_be_of(&server, &why, &error),
        None => error,
    }
}

fn offers_resources(client: &Client) -> bool {
    match client.status().current() {
        Status::Ready(peer) => peer.capabilities.resources.is_some(),
        _ => false,
    }
}

/// The error for a request to a server that was removed after the request was routed: the same as for
/// any name that is unknown.
fn removed_target(upstreams: &Upstreams, method: &str, params: Option<Json>) -> RpcError {
    match route(&upstreams.catalog().snapshot(), method, params) {
        Route::NotFound { error, .. } | Route::Refuse(error) => error,
        Route::Search { uri } => {
            RpcError::new(code::RESOURCE_NOT_FOUND, format!("Resource not found: {uri}"))
        }
        _ => unknown_method(method),
    }
}
