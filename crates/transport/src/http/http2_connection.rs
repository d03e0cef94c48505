//! Decides when an HTTP/2 connection is dead, and what its errors prove about a request.

use std::error::Error;
use std::time::Duration;

use bowline_proto::fault::Fault;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::dial::ByteStream;
use super::failure;
use super::payload::Payload;

/// Sends requests on a connection that many of them share.
pub(super) type Http2Sender = http2::SendRequest<Payload>;

/// Drives an HTTP/2 connection, and ends when no more requests can be sent on it.
pub(super) type Http2Driver = http2::Connection<ByteStream, Payload, TokioExecutor>;

pub(super) async fn handshake(stream: ByteStream) -> Result<(Http2Sender, Box<Http2Driver>), Fault> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    // Many requests share the connection, so none of them ends it by giving up. If it is dead, only
    // a ping detects that before TCP does, and until then each new request would be lost too.
    builder.timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
    let (sender, connection) =
        builder.handshake(stream).await.map_err(|error| failure::connect_fault(&error))?;
    Ok((sender, Box::new(connection)))
}

/// Whether the server said over HTTP/2 that it did not process the request.
///
/// It can do so with a reset of that stream as refused, or with a graceful GOAWAY whose last stream
/// is before that of the request. `h2` gives the error of a GOAWAY to exactly those streams, and to
/// requests that came too late to get a stream at all. Streams up to the last one continue, and end
/// with an I/O error if the connection does. A GOAWAY with another code comes from a server that
/// has failed, so its claim about what it processed is not believed.
pub(super) fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    let Some(error) = failure::find_source::<h2::Error>(error) else { return false };
    error.is_remote()
        && match error.reason() {
            Some(h2::Reason::REFUSED_STREAM) => error.is_reset(),
            Some(h2::Reason::NO_ERROR) => error.is_go_away(),
            _ => false,
        }
}

/// The versions of HTTP that are offered by ALPN, the preferred one first.
pub(super) const OFFERED_PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
