//! The subscriptions of a modern server: `subscriptions/listen`, kept open (group SB).
//!
//! Subscribers register in [`SubscriptionDemand`]. One task per link and [`SubscriptionKind`] keeps
//! a subscription open for it; tasks have their own, so that its refusal does not affect lists and
//! resources. When the demand changes, the new subscription is opened before the old one is
//! dropped, so that nothing is missed. A subscription that was cut is reopened, and possible
//! changes meanwhile are looked for. One that the server ended is not reopened until the demand
//! changes, and its waiters are told.

mod request;
pub(super) mod standalone_stream;
mod supervise;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bowline_proto::fault::{Cause, Fault};
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{
    Capabilities, FeatureCapability, SubscriptionAcknowledgment, subscription_id,
};
use bowline_proto::wire::{Json, meta};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::timeout;

use request::{OpenSubscription, SubscriptionEnd};

use super::failure::{Failure, RequestOutcome};

/// The demand, its outcome, and the open subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    demand: watch::Sender<SubscriptionDemand>,
    /// Outcome for lists and resources. `None` if there is none yet, or none any more.
    outcome: watch::Sender<Option<ListenOutcome>>,
    /// Open subscriptions by request id. There are two while one replaces the other.
    open: Mutex<HashMap<u64, OpenSubscription>>,
    /// Legacy: held while a resource is subscribed or unsubscribed, so that the server receives
    /// both in order. The URI's hash selects the lock.
    resource_locks: [tokio::sync::Mutex<()>; 16],
}

/// What a subscription covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionKind {
    /// Lists and resources.
    Changes,
    /// Tasks that are waited for.
    Tasks,
}

/// What subscribers want to be notified of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SubscriptionDemand {
    lists: bool,
    /// Number of subscribers for each resource.
    uris: BTreeMap<String, usize>,
    tasks: BTreeMap<String, usize>,
    /// Incremented by each new subscriber. A subscription that the server ended is then requested
    /// again.
    generation: u64,
}

/// The outcome of a `subscriptions/listen` request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListenOutcome {
    filter: NotificationFilter,
    /// Generation of the demand at that time.
    generation: u64,
    result: Result<SubscriptionAcknowledgment, String>,
}

/// The `notifications` member of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NotificationFilter {
    #[serde(skip_serializing_if = "is_false")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    resource_subscriptions: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    task_ids: BTreeSet<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Subscriptions {
    fn update_demand(&self, change: impl FnOnce(&mut SubscriptionDemand)) {
        self.demand.send_if_modified(|wants| {
            let before = wants.clone();
            change(wants);
            *wants != before
        });
    }

    pub(crate) fn uris(&self) -> Vec<String> {
        self.demand.borrow().uris.keys().cloned().collect()
    }

    /// Ends the subscription with this id. Returns whether there was one.
    pub(crate) fn finish_subscription(&self, id: Option<u64>, outcome: RequestOutcome) -> bool {
        let Some(open) = id.and_then(|id| self.open.lock().remove(&id)) else { return false };
        let ending = match outcome {
            Ok(_) => SubscriptionEnd::Ended,
            Err(Failure::Server(error)) => SubscriptionEnd::Refused(error),
            Err(Failure::Fault(fault)) => SubscriptionEnd::Cut(fault),
            Err(_) => SubscriptionEnd::Cut(Fault::new(Cause::Closed)),
        };
        let _ = open.end_sender.send(ending);
        true
    }

    /// Handles a cancellation by the server, which on a modern connection can only mean a
    /// subscription (SB-04, CN-05).
    pub(crate) fn handle_cancelled(&self, id: Option<u64>) -> bool {
        self.finish_subscription(id, Ok(Json::empty_object()))
    }

    pub(crate) fn handle_acknowledged(&self, params: &Json) {
        let Some(id) = subscription_id(params).and_then(|id| id.as_request_number()) else { return };
        let Ok(granted) = SubscriptionAcknowledgment::decode(params) else { return };
        let waiting = self.open.lock().get_mut(&id).and_then(|open| open.acknowledge_sender.take());
        if let Some(waiting) = waiting {
            let _ = waiting.send(granted);
        }
    }

    /// Whether a notification belongs to an open subscription, or to none at all (SB-03).
    pub(crate) fn is_expected(&self, params: Option<&Json>) -> bool {
        match params.and_then(subscription_id) {
            Some(id) => id.as_request_number().is_some_and(|id| self.open.lock().contains_key(&id)),
            None => true,
        }
    }
}

impl NotificationFilter {
    /// The filter for the demand, limited to what the server offers (SB-01).
    fn from_demand(kind: SubscriptionKind, wants: &SubscriptionDemand, offered: &Capabilities) -> Self {
        if kind == SubscriptionKind::Tasks {
            return Self { task_ids: wants.tasks.keys().cloned().collect(), ..Self::default() };
        }
        let says = |feature: Option<FeatureCapability>| {
            wants.lists && feature.is_some_and(|feature| feature.list_changed)
        };
        let subscribe = offered.resources.is_some_and(|resources| resources.subscribe);
        Self {
            tools_list_changed: says(offered.tools),
            prompts_list_changed: says(offered.prompts),
            resources_list_changed: says(offered.resources),
            resource_subscriptions: wants.uris.keys().filter(|_| subscribe).cloned().collect(),
            task_ids: BTreeSet::new(),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this filter includes a list that `other` does not.
    fn adds_lists(&self, other: Option<&Self>) -> bool {
        let none = Self::default();
        let other = other.unwrap_or(&none);
        (self.tools_list_changed && !other.tools_list_changed)
            || (self.prompts_list_changed && !other.prompts_list_changed)
            || (self.resources_list_changed && !other.resources_list_changed)
    }

    /// Returns this filter without the resources that `other` includes.
    fn without_resources(&self, other: Option<&Self>) -> Self {
        let mut rest = self.clone();
        if let Some(other) = other {
            rest.resource_subscriptions.retain(|uri| !other.resource_subscriptions.contains(uri));
        }
        rest
    }

    fn params(&self) -> Json {
        let filter = Json::encode(self).expect("flags and strings are JSON");
        Edit::new().set("notifications", &filter).apply(None).expect("an object is JSON")
    }
}

impl Subscriptions {
    /// Requests notifications for changed lists.
    pub(crate) fn demand_lists(&self) {
        self.update_demand(|wants| {
            wants.lists = true;
            wants.generation += 1;
        });
    }

    /// Adds a subscriber of a resource, to be removed with [`Subscriptions::release_resource`]. Returns
    /// the generation of the demand.
    pub(crate) fn demand_resource(&self, uri: &str) -> u64 {
        let mut times = 0;
        self.update_demand(|wants| {
            *wants.uris.entry(uri.to_owned()).or_default() += 1;
            wants.generation += 1;
            times = wants.generation;
        });
        times
    }

    /// Removes a subscriber of a resource. Returns whether it was the last.
    pub(crate) fn release_resource(&self, uri: &str) -> bool {
        let mut last = false;
        self.update_demand(|wants| last = release(&mut wants.uris, uri));
        last
    }

    /// Adds a subscriber of a task (TN-08).
    pub(crate) fn demand_task(&self, id: &str) {
        self.update_demand(|wants| {
            *wants.tasks.entry(id.to_owned()).or_default() += 1;
            wants.generation += 1;
        });
    }

    pub(crate) fn release_task(&self, id: &str) {
        self.update_demand(|wants| {
            release(&mut wants.tasks, id);
        });
    }

    /// Waits until a modern server has granted or refused notifications for a resource (SB-02).
    /// `Err` holds the reason. Outcomes from before `generation` are ignored.
    pub(crate) async fn wait_for_subscription(
        &self,
        uri: &str,
        generation: u64,
        limit: Duration,
    ) -> Result<(), String> {
        let mut granted = self.outcome.subscribe();
        let asked = |granted: &Option<ListenOutcome>| {
            granted.as_ref().is_some_and(|granted| {
                granted.generation >= generation && granted.filter.resource_subscriptions.contains(uri)
            })
        };
        let Ok(Ok(granted)) = timeout(limit, granted.wait_for(asked)).await else {
            return Err("the server did not answer in time".to_owned());
        };
        match granted.as_ref().map(|granted| &granted.result) {
            Some(Ok(answer)) if answer.resource_uris.iter().any(|granted| **granted == *uri) => Ok(()),
            Some(Err(why)) => Err(why.clone()),
            _ => Err("the server does not tell of changes of this resource".to_owned()),
        }
    }

    /// Waits until the server refuses or ends notifications for a resource.
    pub(crate) async fn wait_for_refusal(&self, uri: &str) {
        let mut granted = self.outcome.subscribe();
        let refused = |granted: &Option<ListenOutcome>| {
            granted.as_ref().is_some_and(|granted| {
                granted.result.is_err() && granted.filter.resource_subscriptions.contains(uri)
            })
        };
        if granted.wait_for(refused).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Publishes the outcome for callers that wait for it.
    fn publish_outcome(
        &self,
        kind: SubscriptionKind,
        answer: Option<(&NotificationFilter, Result<SubscriptionAcknowledgment, String>)>,
        times: u64,
    ) {
        if kind == SubscriptionKind::Changes {
            let granted = answer.map(|(asked, answer)| ListenOutcome {
                filter: asked.clone(),
                generation: times,
                result: answer,
            });
            self.outcome.send_if_modified(|before| {
                let changed = *before != granted;
                *before = granted;
                changed
            });
        }
    }

    /// Legacy: locks the subscription state of a resource.
    pub(crate) async fn lock_resource(&self, uri: &str) -> tokio::sync::MutexGuard<'_, ()> {
        let turns = &self.resource_locks;
        let sum = uri.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        turns[sum % turns.len()].lock().await
    }
}

impl NotificationFilter {
    fn to_acknowledged(&self) -> SubscriptionAcknowledgment {
        SubscriptionAcknowledgment {
            tools: self.tools_list_changed,
            prompts: self.prompts_list_changed,
            resources: self.resources_list_changed,
            resource_uris: self.resource_subscriptions.iter().map(|uri| uri.as_str().into()).collect(),
            task_ids: self.task_ids.iter().map(|id| id.as_str().into()).collect(),
        }
    }
}

/// Removes the subscription id from a notification's params. `None` if there is none in them.
pub(crate) fn without_subscription_id(params: &Json) -> Option<Json> {
    let meta = params.member("_meta")?;
    meta.member(meta::SUBSCRIPTION_ID)?;
    let meta = Edit::new().remove(meta::SUBSCRIPTION_ID).apply(Some(&meta)).ok()?;
    let edit =
        if meta.as_str() == "{}" { Edit::new().remove("_meta") } else { Edit::new().set("_meta", &meta) };
    edit.apply(Some(params)).ok()
}

fn release(wanted: &mut BTreeMap<String, usize>, name: &str) -> bool {
    let Some(count) = wanted.get_mut(name) else { return false };
    *count -= 1;
    let last = *count == 0;
    if last {
        wanted.remove(name);
    }
    last
}
