//! [`Subscription`]: notifications about one resource, the same in both eras (RS-03, RS-04).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bowline_proto::client::session::Status;
use bowline_proto::revision::Era;
use bowline_proto::wire::method;
use bowline_proto::wire::object::Edit;
use futures_core::Stream;

use super::Feature;
use crate::client::Client;
use crate::connection::CallOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, EventReceiver, Topic};
use crate::status::StatusWatch;

/// Changes of one resource, from the moment of subscribing. It survives reconnects; after each, the
/// resource counts as changed, since notifications may have been missed. It is a [`Stream`], and
/// [`Subscription::next`] needs no further crate.
///
/// Dropping it unsubscribes, unless someone else is still subscribed to the same resource.
pub struct Subscription {
    demand: ResourceDemand,
    events: EventReceiver<Event>,
    status: StatusWatch,
    /// Waits for the end of the subscription, from the first poll on.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
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

impl ResourceChange {
    /// Creates a change that the server announced, for the unit test of a host.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), inferred: false }
    }
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
        Ok(Subscription { demand: wanted, events, status, end: None })
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
        poll_fn(|cx| self.poll_change(cx)).await
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Option<ResourceChange>> {
        // Changes from before the end are received before it.
        while let Poll::Ready(event) = Pin::new(&mut self.events).poll_next(cx) {
            let Some(event) = event else { return Poll::Ready(None) };
            if let Some(change) = self.change_from_event(event) {
                return Poll::Ready(Some(change));
            }
        }
        let (demand, status) = (&self.demand, &self.status);
        let end = self.end.get_or_insert_with(|| Box::pin(demand.ended(status.clone())));
        ready!(end.as_mut().poll(cx));
        // A finished future must not be polled again; another one ends as well.
        self.end = None;
        Poll::Ready(None)
    }

    fn change_from_event(&self, event: Event) -> Option<ResourceChange> {
        match event {
            Event::Notification(said) => match said.topic() {
                Topic::ResourceUpdated { uri } if is_within(&uri, &self.demand.uri) => {
                    Some(ResourceChange { uri, inferred: said.inferred })
                }
                _ => None,
            },
            // An update may be among the missed events.
            Event::Missed(_) => Some(ResourceChange { uri: self.demand.uri.to_string(), inferred: true }),
            _ => None,
        }
    }
}

/// Ends where [`Subscription::next`] returns `None`.
impl Stream for Subscription {
    type Item = ResourceChange;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ResourceChange>> {
        self.poll_change(cx)
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

    /// Waits until the connection is closed or the server has ended the subscription.
    fn ended(&self, mut status: StatusWatch) -> impl Future<Output = ()> + Send + Sync + use<> {
        let (client, uri) = (self.client.clone(), Arc::clone(&self.uri));
        async move {
            tokio::select! {
                _ = status.wait_for(|status| *status == Status::Closed) => {}
                () = client.connection().session.subscriptions.wait_for_refusal(&uri) => {}
            }
        }
    }
}

impl Drop for ResourceDemand {
    fn drop(&mut self) {
        if self.client.connection().session.subscriptions.release_resource(&self.uri) {
            self.client.connection().unsubscribe(&self.uri);
        }
    }
}
