//! One subscription: its request, its acknowledgment, and how it ends.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_proto::client::negotiation::Reply;
use bowline_proto::fault::{Cause, Fault, Misbehavior};
use bowline_proto::revision::Era;
use bowline_proto::wire::outgoing::{self, Frame, ProgressMode};
use bowline_proto::wire::view::SubscriptionAcknowledgment;
use bowline_proto::wire::{RpcError, code, method};
use bowline_transport::pipe::PipeWriter;
use tokio::sync::oneshot;

use super::NotificationFilter;
use crate::connection::link::exchange::Exchange;
use crate::connection::login::{Login, LoginMode};
use crate::connection::{Connection, LiveLink, Wire};

#[derive(Debug)]
pub(super) struct OpenSubscription {
    pub(super) end_sender: oneshot::Sender<SubscriptionEnd>,
    pub(super) acknowledge_sender: Option<oneshot::Sender<SubscriptionAcknowledgment>>,
}

/// How a subscription ended (SB-04).
#[derive(Debug)]
pub(super) enum SubscriptionEnd {
    /// The server sent a result or canceled it.
    Ended,
    /// The server answered with an error.
    Refused(RpcError),
    /// It could not be opened. Another attempt is pointless, unless the server has had a
    /// subscription before.
    Unavailable(Fault),
    /// The connection was cut.
    Cut(Fault),
}

/// A running subscription.
pub(super) type SubscriptionFuture = Pin<Box<dyn Future<Output = SubscriptionEnd> + Send>>;

/// The parameters of one subscription.
pub(super) struct ListenRequest {
    pub(super) filter: NotificationFilter,
    pub(super) acknowledge_sender: oneshot::Sender<SubscriptionAcknowledgment>,
    /// Set once the server has answered with a stream, or a pipe has accepted the request.
    pub(super) opened: Arc<AtomicBool>,
}

impl Connection {
    /// Runs one subscription from the request to its end. Dropping the future cancels it on the
    /// server.
    pub(super) async fn run_subscription(
        self: Arc<Self>,
        live: Arc<LiveLink>,
        listen: ListenRequest,
    ) -> SubscriptionEnd {
        let ListenRequest { filter, acknowledge_sender: acknowledged, opened } = listen;
        let id = self.engine.state().calls.next_id();
        let (ended, ending) = oneshot::channel();
        let open = OpenSubscription { end_sender: ended, acknowledge_sender: Some(acknowledged) };
        self.session.subscriptions.open.lock().insert(id, open);
        let _leave = ListenGuard { connection: &self, live: &live, id };
        let params = filter.params();
        let frame = outgoing::request(id, method::LISTEN, Some(&params), &live.meta, ProgressMode::Unwanted)
            .expect("the params are an object");
        match &live.wire {
            Wire::Pipe(writer) => listen_on_pipe(writer, &frame, &opened, ending).await,
            Wire::Http { link, headers } => {
                let headers = self.lists.call_headers(&live, headers, method::LISTEN, Some(&params));
                let (connection, wire, era) = (&self, &live.wire, Era::Modern);
                let exchange = Exchange { connection, link, wire, id, era, resume_wait: None };
                let generation = self.login.credentials_generation();
                let reply = tokio::select! {
                    biased;
                    Ok(ending) = ending => return ending,
                    reply = exchange.run_subscription(frame.body(), &headers, &opened) => reply,
                };
                end_from_reply(&self.login, generation, reply).await
            }
            Wire::EventStream { .. } => SubscriptionEnd::Unavailable(Fault::protocol(Misbehavior::NoAnswer)),
        }
    }
}

async fn listen_on_pipe(
    writer: &PipeWriter,
    frame: &Frame,
    opened: &AtomicBool,
    ending: oneshot::Receiver<SubscriptionEnd>,
) -> SubscriptionEnd {
    match writer.send(frame).await {
        Ok(()) => {
            opened.store(true, Ordering::Relaxed);
            ending.await.unwrap_or_else(|_| SubscriptionEnd::Cut(Fault::new(Cause::Closed)))
        }
        Err(fault) => SubscriptionEnd::Cut(fault),
    }
}

/// How a subscription over HTTP ended, by the reply to its request.
async fn end_from_reply(login: &Login, generation: u64, reply: Reply) -> SubscriptionEnd {
    match reply {
        Reply::Result(_) => SubscriptionEnd::Ended,
        Reply::Error { error, .. } => SubscriptionEnd::Refused(error),
        Reply::Fault(fault) if is_auth_refusal(&fault) => {
            match login.reauthenticate(&fault, generation, method::LISTEN, LoginMode::Silent).await {
                Ok(()) => SubscriptionEnd::Cut(fault),
                Err(fault) => SubscriptionEnd::Unavailable(fault),
            }
        }
        Reply::Fault(fault) if is_permanent(&fault) => SubscriptionEnd::Unavailable(fault),
        Reply::Fault(fault) => SubscriptionEnd::Cut(fault),
        Reply::Accepted | Reply::Silence => {
            SubscriptionEnd::Unavailable(Fault::protocol(Misbehavior::NoAnswer))
        }
    }
}

/// Cancels the subscription on the server when dropped.
struct ListenGuard<'a> {
    connection: &'a Arc<Connection>,
    live: &'a Arc<LiveLink>,
    id: u64,
}

impl Drop for ListenGuard<'_> {
    fn drop(&mut self) {
        // Still in the table: the server has not ended it.
        if self.connection.session.subscriptions.open.lock().remove(&self.id).is_some() {
            self.connection.cancel_request(self.live, self.id, "no longer listened to");
        }
    }
}

impl SubscriptionEnd {
    /// Whether the server does not support subscriptions at all.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == code::METHOD_NOT_FOUND)
    }
}

impl fmt::Display for SubscriptionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the server ended the subscription"),
            Self::Refused(error) => error.fmt(f),
            Self::Unavailable(fault) | Self::Cut(fault) => fault.fmt(f),
        }
    }
}

fn is_auth_refusal(fault: &Fault) -> bool {
    matches!(fault.cause, Cause::LoginRequired { .. })
}

/// Whether another attempt would fail in the same way.
fn is_permanent(fault: &Fault) -> bool {
    match &fault.cause {
        Cause::Status { code, .. } => (400..500).contains(code) && !matches!(code, 408 | 425 | 429),
        Cause::LoginRequired { .. } => true,
        // One oversized message is not the fault of the stream.
        Cause::Protocol(what) => !matches!(what, Misbehavior::NoAnswer | Misbehavior::TooLarge { .. }),
        _ => false,
    }
}
