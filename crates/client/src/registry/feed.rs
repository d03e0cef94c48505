//! Reads the events of one client, without losing those between connecting and subscribing, until
//! the client is closed.

use std::sync::Arc;
use std::time::SystemTime;

use bowline_proto::fault::Fault;
use bowline_proto::session::Status;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use crate::client::Client;
use crate::events::{Event, EventReceiver, Life, Turn, channel};

/// The events of one client. Does not keep it alive.
#[derive(Debug)]
pub(crate) struct Feed {
    events: EventReceiver<Event>,
    status: watch::Receiver<Status>,
    present: Present,
}

/// An item of a feed.
#[derive(Debug)]
pub(crate) enum Fed {
    Event(Event),
    /// Number of events that were lost because they were not taken in time.
    Missed(u64),
}

/// The event that led to the client's state when the feed was created.
#[derive(Debug)]
enum Present {
    /// There is none, or it was received in the ordinary way.
    None,
    /// It is delivered next.
    Untold(Life),
    /// It was delivered; if it is received again, it is skipped.
    Told(SystemTime),
}

impl Feed {
    /// The events from now on.
    pub(crate) fn from_now(client: &Client) -> Self {
        Self { events: client.events(), status: client.status(), present: Present::None }
    }

    /// The current state as an event, then the events from now on. A client starts connecting
    /// before anyone can subscribe, so earlier events are not lost.
    pub(crate) fn with_present(client: &Client) -> Self {
        let mut feed = Self::from_now(client);
        // An event that was already received implies the state.
        if feed.events.is_empty()
            && let Some(life) = present(client)
        {
            feed.present = Present::Untold(life);
        }
        feed
    }

    /// A single event, for a client that could not be created.
    pub(crate) fn only(life: Life) -> Self {
        let (events, status) = (channel(1).1, watch::channel(Status::Closed).1);
        Self { events, status, present: Present::Untold(life) }
    }

    /// Waits for the next item. `None` once the client is closed and everything was delivered.
    pub(crate) async fn next(&mut self) -> Option<Fed> {
        if let Present::Untold(life) = std::mem::replace(&mut self.present, Present::None) {
            self.present = Present::Told(life.at);
            return Some(Fed::Event(Event::Life(life)));
        }
        loop {
            let received = tokio::select! {
                // Events before the end are delivered before the end.
                biased;
                received = self.events.recv() => received,
                _ = self.status.wait_for(|status| *status == Status::Closed) => return None,
            };
            match received {
                Ok(Event::Life(life)) if self.is_told(&life) => {}
                Ok(event) => return Some(Fed::Event(event)),
                Err(RecvError::Lagged(count)) => return Some(Fed::Missed(count)),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn is_told(&mut self, life: &Life) -> bool {
        let Present::Told(at) = self.present else { return false };
        self.present = Present::None;
        at == life.at
    }
}

fn present(client: &Client) -> Option<Life> {
    let (health, status) = (client.health(), client.status().borrow().clone());
    let (turn, at, cause): (_, _, Option<Fault>) = match (health.since, health.last_fault, status) {
        (Some(since), _, _) => (Turn::Connected, since, None),
        (None, Some((at, fault)), Status::NeedsLogin(_)) => (Turn::NeedsLogin, at, Some(fault)),
        (None, Some((at, fault)), Status::Failed(_)) => (Turn::Failed, at, Some(fault)),
        (None, Some((at, fault)), Status::BackingOff { .. }) => (Turn::Disconnected, at, Some(fault)),
        _ => return None,
    };
    Some(Life { turn, server: Arc::from(client.name()), at, cause, attempt: health.attempt, outage: None })
}
