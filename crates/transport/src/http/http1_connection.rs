//! One HTTP/1.1 connection, while it is in use and while it is kept.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use hyper::client::conn::http1;
use tokio::task::unconstrained;
use tokio::time::{Instant, timeout_at};

use super::dial::ByteStream;
use super::payload::Payload;
use super::socket::SocketControl;
use super::wake_filter::WakeFilter;

/// An HTTP/1.1 connection.
pub(super) struct Http1Connection {
    pub(super) sender: http1::SendRequest<Payload>,
    pub(super) driver: ConnectionDriver,
    pub(super) wake_filter: WakeFilter,
    pub(super) socket: SocketControl,
    /// When it was put into the pool; `None` if it is new.
    pub(super) kept_since: Option<Instant>,
}

/// Drives a connection when it is polled. `None` when the connection has ended.
pub(super) struct ConnectionDriver(Option<http1::Connection<ByteStream, Payload>>);

// === impl Line ===

impl Http1Connection {
    pub(super) fn new(
        sender: http1::SendRequest<Payload>,
        connection: http1::Connection<ByteStream, Payload>,
        socket: SocketControl,
    ) -> Self {
        Self {
            sender,
            driver: ConnectionDriver(Some(connection)),
            wake_filter: WakeFilter::default(),
            socket,
            kept_since: None,
        }
    }

    /// Ends an exchange. Returns whether the connection can carry another. From now on events on
    /// the connection wake `idle`, in place of the task that had the exchange.
    pub(super) fn park(&mut self, idle: &Waker) -> bool {
        let Self { driver: driven, wake_filter: gate, .. } = self;
        let mut settle = pin!(unconstrained(poll_fn(|cx| {
            gate.settle(cx.waker(), |cx| driven.drive(cx));
            Poll::Ready(())
        })));
        let _ = settle.as_mut().poll(&mut Context::from_waker(idle));
        self.sender.is_ready()
    }

    /// Waits until `until` for the server to close the connection. Returns whether it stayed open.
    pub(super) async fn stays_open_until(&mut self, until: Instant) -> bool {
        let Self { sender, driver: driven, wake_filter: gate, .. } = self;
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

impl ConnectionDriver {
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
