//! One subscription: its request, its acknowledgment, and how it ends.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Fault, Misbehavior};
use bowline_proto::revision::Era;
use bowline_proto::wire::outgoing::{self, ProgressMode};
use bowline_proto::wire::view::SubscriptionAcknowledgment;
use bowline_proto::wire::{RpcError, code, method};
use tokio::sync::oneshot;

use super::super::authorize::Ask;
use super::super::exchange::Exchange;
use super::super::link::lock;
use super::super::{Live, Shared, Wire};
use super::Filter;

#[derive(Debug)]
pub(super) struct Open {
    pub(super) ended: oneshot::Sender<Ending>,
    pub(super) acknowledged: Option<oneshot::Sender<SubscriptionAcknowledgment>>,
}

/// How a subscription ended (SB-04).
#[derive(Debug)]
pub(super) enum Ending {
    /// The server sent a result or canceled it.
    Over,
    /// The server answered with an error.
    Refused(RpcError),
    /// It could not be opened. Another attempt is pointless, unless the server has had a
    /// subscription before.
    Unfit(Fault),
    /// The connection was cut.
    Cut(Fault),
}

/// A running subscription.
pub(super) type Listening = Pin<Box<dyn Future<Output = Ending> + Send>>;

/// The parameters of one subscription.
pub(super) struct Listen {
    pub(super) filter: Filter,
    pub(super) acknowledged: oneshot::Sender<SubscriptionAcknowledgment>,
    /// Set once the server has answered with a stream, or a pipe has accepted the request.
    pub(super) opened: Arc<AtomicBool>,
}

impl Shared {
    /// Runs one subscription from the request to its end. Dropping the future cancels it on the
    /// server.
    pub(super) async fn listen(self: Arc<Self>, live: Arc<Live>, listen: Listen) -> Ending {
        let Listen { filter, acknowledged, opened } = listen;
        let id = self.core().calls.next_id();
        let (ended, ending) = oneshot::channel();
        let open = Open { ended, acknowledged: Some(acknowledged) };
        lock(&self.subscriptions.open).insert(id, open);
        let _leave = Leave { shared: &self, live: &live, id };
        let params = filter.params();
        let frame = outgoing::request(id, method::LISTEN, Some(&params), &live.meta, ProgressMode::Unwanted)
            .expect("the params are an object");
        match &live.wire {
            Wire::Pipe(writer) => match writer.send(&frame).await {
                Ok(()) => {
                    opened.store(true, Ordering::Relaxed);
                    ending.await.unwrap_or_else(|_| Ending::Cut(Fault::new(Cause::Closed)))
                }
                Err(fault) => Ending::Cut(fault),
            },
            Wire::Http { link, headers } => {
                let generation = self.generation();
                let headers = self.call_headers(&live, headers, method::LISTEN, Some(&params));
                let exchange = Exchange { shared: &self, link, wire: &live.wire, id, era: Era::Modern };
                tokio::select! {
                    biased;
                    Ok(ending) = ending => ending,
                    reply = exchange.run_listening(frame.body(), &headers, &opened) => match reply {
                        Reply::Result(_) => Ending::Over,
                        Reply::Error { error, .. } => Ending::Refused(error),
                        Reply::Fault(fault) if is_denial(&fault) => {
                            match self.be_let_in(&fault, generation, method::LISTEN, Ask::Nobody).await {
                                Ok(()) => Ending::Cut(fault),
                                Err(fault) => Ending::Unfit(fault),
                            }
                        }
                        Reply::Fault(fault) if is_unfit(&fault) => Ending::Unfit(fault),
                        Reply::Fault(fault) => Ending::Cut(fault),
                        Reply::Accepted | Reply::Silence => {
                            Ending::Unfit(Fault::protocol(Misbehavior::NoAnswer))
                        }
                    },
                }
            }
            Wire::EventStream { .. } => Ending::Unfit(Fault::protocol(Misbehavior::NoAnswer)),
        }
    }
}

/// Cancels the subscription on the server when dropped.
struct Leave<'a> {
    shared: &'a Arc<Shared>,
    live: &'a Arc<Live>,
    id: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        // Still in the table: the server has not ended it.
        if lock(&self.shared.subscriptions.open).remove(&self.id).is_some() {
            self.shared.cancel(self.live, self.id, "no longer listened to");
        }
    }
}

impl Ending {
    /// Whether the server does not support subscriptions at all.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == code::METHOD_NOT_FOUND)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over => f.write_str("the server ended the subscription"),
            Self::Refused(error) => error.fmt(f),
            Self::Unfit(fault) | Self::Cut(fault) => fault.fmt(f),
        }
    }
}

fn is_denial(fault: &Fault) -> bool {
    matches!(fault.cause, Cause::LoginRequired { .. })
}

/// Whether another attempt would fail in the same way.
fn is_unfit(fault: &Fault) -> bool {
    match &fault.cause {
        Cause::Status { code, .. } => (400..500).contains(code) && !matches!(code, 408 | 425 | 429),
        Cause::LoginRequired { .. } => true,
        // One oversized message is not the fault of the stream.
        Cause::Protocol(what) => !matches!(what, Misbehavior::NoAnswer | Misbehavior::TooLarge { .. }),
        _ => false,
    }
}
