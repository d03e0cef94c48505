//! [`Subscription`]: notifications about one resource, the same in both eras (RS-03, RS-04).

use std::sync::Arc;

use bowline_proto::client::session::Status;
use bowline_proto::revision::Era;
use bowline_proto::wire::method;
use bowline_proto::wire::object::Edit;

use super::Feature;
use crate::client::Client;
use crate::connection::CallOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, EventReceiver, Topic};
use crate::status::StatusWatch;

/// Changes of one resource, from the moment of subscribing. It survives reconnects; after each, the
/// resource counts as changed, since notifications may have been missed.
///
/// Dropping it unsubscribes, unless someone else is still subscribed to the same resource.
pub struct Subscription {
    demand: ResourceDemand,
    events: EventReceiver<Event>,
    status: StatusWatch,
}

/// A changed resource, which should be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceChange {
    /// URI of the resource: the one that was subscribed to, or one below it. Untrusted.
    pub uri: String,
    /// Whether the client inferred the change because notifications may have been missed.
    pub inferred: bool,
}

/// Registers the demand for a resource until it is dropped.
struct ResourceDemand {
    client: Client,
    uri: Arc<str>,
}

impl Client {
    /// Subscribes to the changes of a resource, by its exact URI. A server that does not support it
    /// is an error.
    ///
    /// Dropping the future unsubscribes.
    pub async fn subscribe(&self, uri: &str) -> Result<Subscription> {
        let method = method::RESOURCES_SUBSCRIBE;
        let live = self.live_link(method).await?;
        Feature::Resources.require(self.connection(), &live.peer, method)?;
        if !live.peer.capabilities.resources.is_some_and(|resources| resources.subscribe) {
            return Err(self.connection().server.not_offered("resource subscriptions", method));
        }
        let (events, status) = (self.events(), self.status());
        let (wanted, want) = ResourceDemand::new(self.clone(), uri);
        match live.peer.era() {
            Era::Legacy => {
                let _turn = self.connection().session.subscriptions.lock_resource(uri).await;
                let params = Edit::new().set_str("uri", uri).apply(None).expect("a string is JSON");
                self.connection().request_on(&live, method, Some(&params), &CallOptions::new()).await?;
            }
            Era::Modern => {
                let patience = self.connection().server.link_timeout(&CallOptions::new());
                if let Err(why) =
                    self.connection().session.subscriptions.wait_for_subscription(uri, want, patience).await
                {
                    return Err(Error::new(
                        ErrorKind::NotGranted(why),
                        &self.connection().server.name,
                        method,
                    ));
                }
            }
        }
        Ok(Subscription { demand: wanted, events, status })
    }
}

impl Subscription {
    /// The URI that was subscribed to.
    pub fn uri(&self) -> &str {
        &self.demand.uri
    }

    /// Waits for the next change. `None` once the connection is closed or the server has ended the
    /// subscription; then it can be requested again.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<ResourceChange> {
        loop {
            let event = tokio::select! {
                biased;
                event = self.events.next() => event,
                _ = self.status.wait_for(|status| *status == Status::Closed) => return None,
                () = self.demand.client.connection().session.subscriptions.wait_for_refusal(&self.demand.uri) => return None,
            };
            match event? {
                Event::Notification(said) => {
                    if let Topic::ResourceUpdated { uri } = said.topic()
                        && is_within(&uri, &self.demand.uri)
                    {
                        return Some(ResourceChange { uri, inferred: said.inferred });
                    }
                }
                // An update may be among the missed events.
                Event::Missed(_) => {
                    return Some(ResourceChange { uri: self.demand.uri.to_string(), inferred: true });
                }
                _ => {}
            }
        }
    }
}

/// Whether a URI is the subscribed one, or below it (RS-03).
fn is_within(uri: &str, subscribed: &str) -> bool {
    uri.strip_prefix(subscribed)
        .is_some_and(|rest| rest.is_empty() || subscribed.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("uri", &self.demand.uri).finish_non_exhaustive()
    }
}

impl ResourceDemand {
    /// Registers the demand. The number is its generation.
    fn new(client: Client, uri: &str) -> (Self, u64) {
        let want = client.connection().session.subscriptions.demand_resource(uri);
        (Self { client, uri: uri.into() }, want)
    }
}

impl Drop for ResourceDemand {
    fn drop(&mut self) {
        if self.client.connection().session.subscriptions.release_resource(&self.uri) {
            self.client.connection().unsubscribe(&self.uri);
        }
    }
}
