//! Owns the reading of one client's events: nothing is lost between connecting and listening, and the end
//! of the client is the end of the feed.

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

/// What comes out of a feed.
#[derive(Debug)]
pub(crate) enum Fed {
    Event(Event),
    /// So many were lost, because nobody took them in time.
    Missed(u64),
}

/// The event that led to where the client was when the feed began.
#[derive(Debug)]
enum Present {
    /// There is none, or it has come.
    None,
    /// To be told next.
    Untold(Life),
    /// It was told; if it comes by the ordinary way as well, that is once too often.
    Told(SystemTime),
}

impl Feed {
    /// What happens from now on.
    pub(crate) fn from_now(client: &Client) -> Self {
        Self { events: client.events(), status: client.status(), present: Present::None }
    }

    /// What happens from now on, and before it how things stand. A client begins to connect before anybody
    /// can listen to it: what it said until then is not lost this way.
    pub(crate) fn with_present(client: &Client) -> Self {
        let mut feed = Self::from_now(client);
        // Whatever has come already tells how things stand.
        if feed.events.is_empty()
            && let Some(life) = present(client)
        {
            feed.present = Present::Untold(life);
        }
        feed
    }

    /// One event, of a client that never was.
    pub(crate) fn only(life: Life) -> Self {
        let (events, status) = (channel(1).1, watch::channel(Status::Closed).1);
        Self { events, status, present: Present::Untold(life) }
    }

    /// The next. `None`: the client is closed, and everything was told.
    pub(crate) async fn next(&mut self) -> Option<Fed> {
        if let Present::Untold(life) = std::mem::replace(&mut self.present, Present::None) {
            self.present = Present::Told(life.at);
            return Some(Fed::Event(Event::Life(life)));
        }
        loop {
            let received = tokio::select! {
                // What was said before the end comes before the end.
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
