//! What either side says unasked, carried to the other.

use std::ops::ControlFlow;

use bowline::wire::{Json, method};
use bowline::{Client, Event, Life, Status, Turn};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::timeout;

use super::Observer;
use super::upstream::{Gate, PASSING};
use crate::greeting::Offer;
use crate::host::HostLink;

/// Somebody who has an answer for the host, and lets what was said before it go first. It is let go by
/// dropping this.
pub(super) type Behind = oneshot::Sender<()>;

/// Carries what the server says, and what its client found out about its lists, to the host.
///
/// Events are told when they are read from the server, before the result of a later message is given to
/// its caller. So whoever is `behind` has only to wait for those that are in the stream by now.
pub(super) async fn to_host(
    mut events: broadcast::Receiver<Event>,
    mut behind: mpsc::Receiver<Behind>,
    link: HostLink,
    gate: Gate,
    observer: Observer,
) {
    let mut waiting: Vec<Behind> = Vec::new();
    // How many events are before those who wait. What comes later is not: a server that never stops talking
    // must not hold up its answers.
    let mut ahead = 0;
    loop {
        if ahead == 0 {
            waiting.clear();
        }
        let event = tokio::select! {
            // First what has happened, then the end.
            biased;
            Some(first) = behind.recv(), if waiting.is_empty() => {
                waiting.push(first);
                while let Ok(next) = behind.try_recv() {
                    waiting.push(next);
                }
                ahead = events.len();
                continue;
            }
            event = events.recv() => event,
            () = gate.ended().cancelled() => return,
        };
        let passed = match &event {
            Err(RecvError::Lagged(missed)) => usize::try_from(*missed).unwrap_or(usize::MAX),
            _ => 1,
        };
        if let Ok(Event::Life(life)) = &event {
            log(life);
            observer(life);
        }
        // A host that does not read must not hold up the end.
        match gate.ended().run_until_cancelled(tell(event, &link, &gate)).await {
            Some(ControlFlow::Break(())) => return,
            Some(ControlFlow::Continue(())) | None => ahead = ahead.saturating_sub(passed),
        }
    }
}

/// Tells the host of one event. Breaks when there are no more, or nobody to tell.
async fn tell(event: Result<Event, RecvError>, link: &HostLink, gate: &Gate) -> ControlFlow<()> {
    match event {
        // Of a task that is followed for the host. It has asked for none.
        Ok(Event::Notification(said)) if *said.method == *method::TASK => {}
        Ok(Event::Notification(said)) => {
            if gate.open().await.is_none() {
                return ControlFlow::Break(());
            }
            if said.inferred {
                tracing::info!(method = %said.method, "a list is another one after the recovery");
            }
            link.notify(&said.method, said.params.as_ref()).await;
        }
        Ok(Event::Life(life)) if life.turn == Turn::Connected => {
            gate.server_has_come();
            // The host was greeted without it.
            if gate.offer().is_some_and(Offer::is_blind) {
                announce(link, gate).await;
            }
        }
        Ok(_) => {}
        Err(RecvError::Lagged(missed)) => {
            tracing::warn!(missed, "the host reads too slowly; it is told to look again");
            // That may have been among it.
            gate.server_has_come();
            announce(link, gate).await;
        }
        Err(RecvError::Closed) => return ControlFlow::Break(()),
    }
    ControlFlow::Continue(())
}

/// Tells the host that every list may be another one.
pub(super) async fn announce(link: &HostLink, gate: &Gate) {
    let Some(offer) = gate.open().await else { return };
    for method in offer.changes() {
        link.notify(method, None).await;
    }
}

/// Carries what the host says to the server, as long as there is one: what it says of itself is asked for
/// again in every new session.
pub(super) async fn to_server(mut notes: mpsc::Receiver<(Box<str>, Option<Json>)>, client: Client) {
    while let Some((method, params)) = notes.recv().await {
        if !matches!(&*client.status().borrow(), Status::Ready(_)) {
            tracing::debug!(%method, "a notification of the host found no server");
            continue;
        }
        match timeout(PASSING, client.notify(&method, &params)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a notification of the host was not delivered"),
            Err(_) => tracing::debug!(%method, "a notification of the host was not delivered in time"),
        }
    }
}

fn log(life: &Life) {
    let turn = life.turn.as_str();
    match (&life.cause, life.outage) {
        (Some(cause), _) => tracing::info!(server = %life.server, turn, attempt = life.attempt, %cause),
        (None, Some(outage)) => tracing::info!(server = %life.server, turn, ?outage),
        (None, None) => tracing::info!(server = %life.server, turn),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bowline::Notification;
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use super::*;
    use crate::greeting::Made;
    use crate::host::Host;

    fn said(method: &str) -> Event {
        Event::Notification(Notification { method: method.into(), params: None, inferred: false })
    }

    /// What was missed may have been any change: the host is told of all that it was offered, and then goes
    /// on where it can.
    #[tokio::test]
    async fn a_host_that_missed_something_is_told_to_look_at_everything() {
        let (events, receiver) = broadcast::channel(2);
        for number in 0..5 {
            events.send(said(&format!("notifications/{number}"))).unwrap();
        }
        let (stdout, from) = tokio::io::duplex(64 * 1024);
        let host = Host::new(tokio::io::empty(), stdout);
        let offer = Offer { tools: true, prompts: false, resources: true, made: Made::Knowing };
        let carrying =
            to_host(receiver, mpsc::channel(1).1, host.link.clone(), Gate::opened(offer), Arc::new(|_| {}));
        drop(events);
        carrying.await;
        host.link.close(PASSING).await;
        let mut lines = BufReader::new(from).lines();
        for method in [
            "notifications/tools/list_changed",
            "notifications/resources/list_changed",
            "notifications/3",
            "notifications/4",
        ] {
            let line = lines.next_line().await.unwrap().unwrap();
            assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#));
        }
        assert_eq!(lines.next_line().await.unwrap(), None);
    }

    /// Also where some of it was missed, and while the server may go on talking.
    #[tokio::test]
    async fn an_answer_waits_for_what_was_said_before_it_and_for_nothing_else() {
        let (events, receiver) = broadcast::channel(2);
        for number in 0..5 {
            events.send(said(&format!("notifications/{number}"))).unwrap();
        }
        let (behind, answers) = mpsc::channel(1);
        let (answer, passed) = oneshot::channel();
        behind.try_send(answer).unwrap();
        let (stdout, from) = tokio::io::duplex(64 * 1024);
        let host = Host::new(tokio::io::empty(), stdout);
        let offer = Offer { tools: false, prompts: false, resources: false, made: Made::Knowing };
        let gate = Gate::opened(offer);
        let carrying = tokio::spawn(to_host(receiver, answers, host.link.clone(), gate, Arc::new(|_| {})));
        timeout(PASSING, passed).await.expect("it is let go").expect_err("by being dropped");
        host.link.notify("the answer", None).await;
        let mut lines = BufReader::new(from).lines();
        for method in ["notifications/3", "notifications/4", "the answer"] {
            let line = lines.next_line().await.unwrap().unwrap();
            assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#));
        }
        drop(events);
        carrying.await.unwrap();
    }
}
