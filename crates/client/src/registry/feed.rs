//! Reads the events of one client, without losing those between connecting and subscribing, until
//! the client is closed.

use std::sync::Arc;
use std::time::SystemTime;

use bowline_proto::client::session::Status;
use bowline_proto::fault::Fault;

use crate::client::Client;
use crate::events::{ConnectionEvent, ConnectionEventKind, Event, EventReceiver, channel};

/// The events of one client. Does not keep it alive.
#[derive(Debug)]
pub(crate) struct Feed {
    events: EventReceiver<Event>,
    initial: InitialEvent,
}

/// The event that led to the client's state when the feed was created.
#[derive(Debug)]
enum InitialEvent {
    /// There is none, or it was received in the ordinary way.
    None,
    /// It is delivered next.
    Pending(ConnectionEvent),
    /// It was delivered; if it is received again, it is skipped.
    Delivered(SystemTime),
}

impl Feed {
    /// The events from now on.
    pub(crate) fn from_now(client: &Client) -> Self {
        Self { events: client.events(), initial: InitialEvent::None }
    }

    /// The current state as an event, then the events from now on. A client starts connecting
    /// before anyone can subscribe, so earlier events are not lost.
    pub(crate) fn with_initial_event(client: &Client) -> Self {
        let mut feed = Self::from_now(client);
        // An event that was already received implies the state.
        if feed.events.is_empty()
            && let Some(life) = initial_event(client)
        {
            feed.initial = InitialEvent::Pending(life);
        }
        feed
    }

    /// A single event, for a client that could not be created.
    pub(crate) fn from_single_event(life: ConnectionEvent) -> Self {
        Self { events: channel(1).1, initial: InitialEvent::Pending(life) }
    }

    /// Waits for the next event. `None` once the client is closed and everything was delivered.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        if let InitialEvent::Pending(life) = std::mem::replace(&mut self.initial, InitialEvent::None) {
            self.initial = InitialEvent::Delivered(life.at);
            return Some(Event::Connection(life));
        }
        loop {
            match self.events.next().await {
                Some(Event::Connection(life)) if self.is_duplicate(&life) => {}
                received => return received,
            }
        }
    }

    fn is_duplicate(&mut self, life: &ConnectionEvent) -> bool {
        let InitialEvent::Delivered(at) = self.initial else { return false };
        self.initial = InitialEvent::None;
        at == life.at
    }
}

fn initial_event(client: &Client) -> Option<ConnectionEvent> {
    let (health, status) = (client.health(), client.status().current());
    let (turn, at, cause): (_, _, Option<Fault>) = match (health.connected_since, health.last_fault, status) {
        (Some(since), _, _) => (ConnectionEventKind::Connected, since, None),
        (None, Some((at, fault)), Status::NeedsLogin(_)) => {
            (ConnectionEventKind::NeedsLogin, at, Some(fault))
        }
        (None, Some((at, fault)), Status::Failed(_)) => (ConnectionEventKind::Failed, at, Some(fault)),
        (None, Some((at, fault)), Status::BackingOff { .. }) => {
            (ConnectionEventKind::Disconnected, at, Some(fault))
        }
        _ => return None,
    };
    Some(ConnectionEvent {
        kind: turn,
        server: Arc::from(client.name()),
        at,
        cause,
        attempt: health.attempt,
        outage: None,
    })
}
