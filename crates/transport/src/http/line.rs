//! One HTTP/1.1 connection, while it is in use and while it is kept.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use hyper::client::conn::http1;
use tokio::task::unconstrained;
use tokio::time::{Instant, timeout_at};

use super::dial::Stream;
use super::gate::Gate;
use super::payload::Payload;
use super::socket::SocketControl;

/// An HTTP/1.1 connection.
pub(super) struct Line {
    pub(super) sender: http1::SendRequest<Payload>,
    pub(super) driven: Driven,
    pub(super) gate: Gate,
    pub(super) socket: SocketControl,
    /// When it was put into the pool; `None` if it is new.
    pub(super) kept: Option<Instant>,
}

/// Drives a connection when it is polled. `None` when the connection has ended.
pub(super) struct Driven(Option<http1::Connection<Stream, Payload>>);

// === impl Line ===

impl Line {
    pub(super) fn new(
        sender: http1::SendRequest<Payload>,
        connection: http1::Connection<Stream, Payload>,
        socket: SocketControl,
    ) -> Self {
        Self { sender, driven: Driven(Some(connection)), gate: Gate::default(), socket, kept: None }
    }

    /// Ends an exchange. Returns whether the connection can carry another. From now on events on
    /// the connection wake `idle`, in place of the task that had the exchange.
    pub(super) fn rest(&mut self, idle: &Waker) -> bool {
        let Self { driven, gate, .. } = self;
        let mut settle = pin!(unconstrained(poll_fn(|cx| {
            gate.settle(cx.waker(), |cx| driven.drive(cx));
            Poll::Ready(())
        })));
        let _ = settle.as_mut().poll(&mut Context::from_waker(idle));
        self.sender.is_ready()
    }

    /// Waits until `until` for the server to close the connection. Returns whether it stayed open.
    pub(super) async fn outlasts(&mut self, until: Instant) -> bool {
        let Self { sender, driven, gate, .. } = self;
        let closed = poll_fn(|cx| {
            gate.poll(cx, |cx| {
                driven.drive(cx);
                if sender.is_ready() { Poll::Pending } else { Poll::Ready(()) }
            })
        });
        timeout_at(until, closed).await.is_err()
    }
}

// === impl Driven ===

impl Driven {
    /// Reads and writes what it can. When the connection has ended it is dropped, which notifies
    /// everybody who waits on it.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.0
            && Pin::new(connection).poll(cx).is_ready()
        {
            self.0 = None;
        }
    }
}
