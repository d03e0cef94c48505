//! `subscriptions/listen`: changes of lists and resources, until the host closes its connection or
//! cancels the request on a pipe.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline::Json;
use bowline::types::method;
use bowline_proto::server::modern::listen::{ListenFilter, ListenStream};
use bowline_proto::server::modern::request::ModernRequest;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::Capabilities;
use bowline_server::StatelessRequest;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::announce::ListChanges;
use super::super::handshake::{offered_capabilities, offered_server_info};
use super::super::shared_upstreams::UpstreamLease;
use super::super::subscriptions::ResourceWatch;
use super::super::tasks::StatelessTask;
use super::StatelessHosts;
use crate::catalog::{ListKind, Snapshot};

/// How many changes of resources may wait for the host to read. Servers are read on meanwhile, and a
/// resource whose changes were missed counts as changed.
const MAX_QUEUED_CHANGES: usize = 64;

/// Serves one subscription, until the gateway stops.
// GW-08
pub(super) async fn serve(hosts: &StatelessHosts, lease: &UpstreamLease, request: StatelessRequest) {
    let is_on_pipe = request.is_on_pipe();
    let StatelessRequest { request, id, params, client, .. } = request;
    let mut granted = match ListenFilter::parse(params.as_ref(), &client) {
        Ok(filter) => {
            let offered = offered_capabilities(&lease.catalog().snapshot(), true);
            filter.limit_to(&Capabilities::decode(&offered).expect("capabilities are an object"))
        }
        Err(refusal) => return request.respond(Err(&refusal.error)).await,
    };
    let (sender, mut updates) = mpsc::channel(MAX_QUEUED_CHANGES);
    if !granted.resource_uris.is_empty() {
        let resources = [ListKind::Resources, ListKind::Templates];
        lease.catalog().wait_until_listed(&resources, hosts.gateway.list_wait).await;
    }
    let seen = lease.catalog().snapshot();
    let wanted = std::mem::take(&mut granted.resource_uris);
    // Dropping it ends the subscriptions.
    let mut watching = JoinSet::new();
    granted.resource_uris =
        Box::pin(watch_resources(hosts, (lease, &seen), wanted, sender, &mut watching)).await;
    let (states, mut task_states) = mpsc::channel(MAX_QUEUED_CHANGES);
    let wanted = std::mem::take(&mut granted.task_ids);
    granted.task_ids = watch_tasks(hosts, (lease, &client), wanted, &states, &mut watching);
    // The channel is closed when no task is watched any more.
    drop(states);
    let (mut stream, acknowledgment) = ListenStream::open(&id, granted);
    request.send_notification(&acknowledgment).await;
    let mut lists = ListChanges::since(lease.catalog(), seen);
    loop {
        let changes = tokio::select! {
            methods = lists.next() => {
                let Some(methods) = methods else { return };
                methods.into_iter().filter_map(|method| stream.tag_notification(method, None)).collect()
            }
            Some(uri) = updates.recv() => {
                // The view may be another one by now.
                if lease.catalog().snapshot().resource(&uri).is_none() {
                    continue;
                }
                let params = Edit::new().set_str("uri", &uri).apply(None).ok();
                Vec::from_iter(stream.tag_notification(method::RESOURCE_UPDATED, params.as_ref()))
            }
            Some(state) = task_states.recv() => {
                Vec::from_iter(stream.tag_notification(method::TASK, Some(&state)))
            }
            () = hosts.stopping.cancelled() => {
                if let Some(result) = stream.end_with_result(&offered_server_info(&lease.catalog().snapshot())) {
                    request.respond(Ok(&result)).await;
                    if is_on_pipe {
                        request.send_notification(&stream.cancellation()).await;
                    }
                }
                return;
            }
        };
        for change in changes {
            request.send_notification(&change).await;
        }
    }
}

/// Subscribes to resources of servers, as far as there is room. Returns those whose server did not
/// refuse; their changes are sent to `updates` by tasks in `watching`.
pub(super) async fn watch_resources(
    hosts: &StatelessHosts,
    (lease, snapshot): (&UpstreamLease, &Snapshot),
    wanted: BTreeSet<Box<str>>,
    updates: mpsc::Sender<String>,
    watching: &mut JoinSet<()>,
) -> BTreeSet<Box<str>> {
    let wait = hosts.gateway.list_wait;
    let mut subscribing = JoinSet::new();
    for uri in wanted {
        let Some(target) = snapshot.resource(&uri) else { continue };
        let Ok(permit) = Arc::clone(&hosts.watches).try_acquire_owned() else { break };
        let upstreams = lease.upstreams();
        subscribing.spawn(async move {
            let watch = ResourceWatch::open_within(wait, &upstreams, &target).await?;
            Some((uri, watch, permit))
        });
    }
    let mut granted = BTreeSet::new();
    while let Some(subscribed) = subscribing.join_next().await {
        if let Ok(Some((uri, watch, permit))) = subscribed {
            let forwarding = forward_changes(watch, uri.clone(), updates.clone());
            watching.spawn(async move {
                forwarding.await;
                drop(permit);
            });
            granted.insert(uri);
        }
    }
    granted
}

/// Watches tasks of the host, as far as there is room. Returns those that it has; their states are
/// sent to `states` by tasks in `watching`.
// TN-08
fn watch_tasks(
    hosts: &StatelessHosts,
    (lease, client): (&UpstreamLease, &ModernRequest),
    wanted: BTreeSet<Box<str>>,
    states: &mpsc::Sender<Json>,
    watching: &mut JoinSet<()>,
) -> BTreeSet<Box<str>> {
    let audience = lease.audience();
    let mut granted = BTreeSet::new();
    for id in wanted {
        let Some(task) = hosts.gateway.tasks.find_by_id(&audience, &id) else { continue };
        let Ok(permit) = Arc::clone(&hosts.watches).try_acquire_owned() else { break };
        let task = StatelessTask {
            gateway: Arc::clone(&hosts.gateway),
            lease: lease.clone(),
            capabilities: client.client_capabilities.clone(),
            task,
        };
        let states = states.clone();
        watching.spawn(async move {
            task.watch(states).await;
            drop(permit);
        });
        granted.insert(id);
    }
    granted
}

/// Sends the URI of each change, as hosts know it.
async fn forward_changes(mut watch: ResourceWatch, exposed: Box<str>, updates: mpsc::Sender<String>) {
    while let Some(change) = watch.next().await {
        if updates.send(change.exposed(&exposed).to_owned()).await.is_err() {
            return;
        }
    }
}
