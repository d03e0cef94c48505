//! Stands in for HTTP/2 without the feature `http2`: it is not offered, so there is no such
//! connection.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use bowline_proto::fault::{Cause, Fault};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;

use super::dial::ByteStream;
use super::payload::Payload;

#[derive(Clone)]
pub(super) struct Http2Sender(Infallible);

impl Http2Sender {
    pub(super) fn is_closed(&self) -> bool {
        match self.0 {}
    }

    #[expect(clippy::unused_async, reason = "the signature is that of the feature")]
    pub(super) async fn try_send_request(
        &mut self,
        _request: Request<Payload>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Payload>>> {
        match self.0 {}
    }
}

pub(super) struct Http2Driver(Infallible);

impl Future for Http2Driver {
    type Output = hyper::Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        match self.0 {}
    }
}

/// Fails. TLS already refuses a server that selects a protocol that was not offered.
#[expect(clippy::unused_async, reason = "the signature is that of the feature")]
pub(super) async fn handshake(_stream: ByteStream) -> Result<(Http2Sender, Box<Http2Driver>), Fault> {
    Err(Fault::before_sending(Cause::NotBuilt { feature: "http2" }))
}

pub(super) fn is_unprocessed(_error: &(dyn Error + 'static)) -> bool {
    false
}

/// The versions of HTTP that are offered by ALPN.
pub(super) const OFFERED_PROTOCOLS: &[&[u8]] = &[b"http/1.1"];
