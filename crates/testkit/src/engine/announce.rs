//! Announcements of changes to handshake sessions and to modern subscriptions that requested them.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::modern::SUBSCRIPTION_KEY;
use super::{Engine, Outlet, Session, StreamKind};
use crate::rpc;

/// An open modern subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionInfo {
    /// The id of the `subscriptions/listen` request.
    pub id: Value,
    /// The part of the requested filter that the server granted.
    pub filter: Value,
}

/// A subscription with the outlet its notifications go to.
pub(super) struct OpenSubscription {
    subscription: SubscriptionInfo,
    /// The process of the subscription on stdio; `None` over HTTP.
    session: Option<String>,
    outlet: Arc<dyn Outlet>,
}

/// How the server ends a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionEnd {
    /// The server sends the final result.
    Result,
    /// The server sends `notifications/cancelled`.
    Cancelled,
    /// The server sends nothing: over HTTP the stream ends, on stdio nothing more arrives.
    Silent,
}

impl Engine {
    pub(crate) fn register_subscription(
        &self,
        channel: Option<&str>,
        listening: SubscriptionInfo,
        outlet: Arc<dyn Outlet>,
    ) {
        let mut listeners = self.live.subscriptions.lock();
        listeners.retain(|listener| listener.outlet.is_open());
        listeners.push(OpenSubscription {
            subscription: listening,
            session: channel.map(str::to_owned),
            outlet,
        });
        drop(listeners);
        self.message_log.notify_waiters();
    }

    pub(crate) fn open_subscriptions(&self) -> Vec<SubscriptionInfo> {
        let mut listeners = self.live.subscriptions.lock();
        listeners.retain(|listener| listener.outlet.is_open());
        listeners.iter().map(|listener| listener.subscription.clone()).collect()
    }

    /// Announces a change to both eras; `flag` is the member of a subscription's filter. Returns
    /// how many it reached.
    pub(crate) fn announce(&self, method: &str, flag: &str, params: &Value) -> usize {
        let uri = params["uri"].as_str();
        // RS-03: a session gets updates only of the resources it subscribed to, and of those below
        // them.
        let in_sessions = self.announce_to_sessions(method, params, |session| {
            uri.is_none_or(|uri| session.subscriptions.iter().any(|root| is_within(uri, root)))
        });
        let to_listeners = self.announce_to_subscriptions(method, params, |filter| match &filter[flag] {
            Value::Array(uris) => uri.is_some_and(|uri| uris.iter().any(|wanted| wanted == uri)),
            other => *other == true,
        });
        in_sessions + to_listeners
    }

    /// Notifies each handshake session that wants it, once. Returns how many.
    pub(super) fn announce_to_sessions(
        &self,
        method: &str,
        params: &Value,
        wants: impl Fn(&Session) -> bool,
    ) -> usize {
        // Only sessions with a handshake: a stdio process may be used in the modern era.
        let sessions = self.sessions();
        let listens = |id: &Option<String>| {
            sessions.iter().any(|session| session.id == id.as_deref().unwrap_or_default() && wants(session))
        };
        let mut notified = HashSet::new();
        for registered in self.live.outlets.lock().iter().rev() {
            if registered.kind != StreamKind::Post
                && !notified.contains(&registered.session)
                && listens(&registered.session)
                && registered.outlet.send(rpc::notification(method, params.clone()))
            {
                notified.insert(registered.session.clone());
            }
        }
        notified.len()
    }

    /// Notifies each subscription whose filter wants it. Returns how many.
    pub(super) fn announce_to_subscriptions(
        &self,
        method: &str,
        params: &Value,
        wants: impl Fn(&Value) -> bool,
    ) -> usize {
        let listeners = self.live.subscriptions.lock();
        let wanting = listeners.iter().filter(|listener| wants(&listener.subscription.filter));
        let notified = wanting.filter(|listener| {
            let mut params = if params.is_null() { json!({}) } else { params.clone() };
            params["_meta"][SUBSCRIPTION_KEY] = listener.subscription.id.clone();
            listener.outlet.send(rpc::notification(method, params))
        });
        notified.count()
    }

    /// Ends the subscription with this id, or all of them. Returns how many.
    pub(crate) fn end_subscriptions(&self, only: Option<&Value>, how: SubscriptionEnd) -> usize {
        let mut listeners = self.live.subscriptions.lock();
        let chosen = |listener: &mut OpenSubscription| only.is_none_or(|id| listener.subscription.id == *id);
        let ending: Vec<OpenSubscription> = listeners.extract_if(.., chosen).collect();
        drop(listeners);
        for OpenSubscription { subscription: SubscriptionInfo { id, .. }, outlet, .. } in &ending {
            match how {
                SubscriptionEnd::Result => {
                    let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: id}});
                    outlet.send(rpc::result(id, result));
                }
                SubscriptionEnd::Cancelled => {
                    let params = json!({"requestId": id, "_meta": {SUBSCRIPTION_KEY: id}});
                    outlet.send(rpc::notification("notifications/cancelled", params));
                }
                SubscriptionEnd::Silent => {}
            }
            outlet.finish();
        }
        self.message_log.notify_waiters();
        ending.len()
    }

    /// Removes a subscription that the client canceled.
    pub(super) fn remove_subscription(&self, channel: Option<&str>, id: &Value) {
        self.live
            .subscriptions
            .lock()
            .retain(|listener| listener.session.as_deref() != channel || listener.subscription.id != *id);
    }
}

/// Returns whether `uri` equals `root` or is below it.
fn is_within(uri: &str, root: &str) -> bool {
    uri.strip_prefix(root).is_some_and(|rest| rest.is_empty() || root.ends_with('/') || rest.starts_with('/'))
}
