//! One exchange on a connection: sends the request, reads the head of the response, then its body
//! chunk by chunk; and decides when the connection may be reused.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bowline_proto::fault::{Execution, Fault};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::failure;
use super::http1_connection::Http1Connection;
use super::payload::Payload;
use super::pool::{ConnectionLease, DEFAULT_KEEP_ALIVE, Pool};

/// The body of a response that is arriving.
///
/// Dropping it before its end closes its connection (HTTP/1.1) or resets its stream (HTTP/2).
pub(super) struct BodyStream {
    body: Incoming,
    /// `None` over HTTP/2, and at the end of the body.
    connection: Option<Box<Http1Connection>>,
    pool: Arc<Pool>,
    keep_alive: Duration,
}

/// The rest of a body that nobody wants any more, on a connection that can be reused when it has
/// ended.
pub(super) struct BodyTail {
    body: Incoming,
    connection: Box<Http1Connection>,
    keep_alive: Duration,
}

/// Result of reading a tail.
pub(super) enum TailOutcome {
    /// It has ended, and its connection may be kept this long.
    Ended(Box<Http1Connection>, Duration),
    /// Its connection broke.
    Broken,
    /// It is longer than a connection is worth.
    TooLong,
    /// It has not ended yet.
    Pending(BodyTail),
}

/// The version of HTTP that a request is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    Http1,
    Http2,
}

/// Sends a request and waits for the head of the response.
///
/// If a kept connection turns out to be closed before the request was written, the request is built
/// again for the next connection. `request` is therefore called more than once. A close that is
/// seen after bytes of the request were sent proves nothing: the server may have read them before
/// it closed.
pub(super) async fn send_request(
    pool: &Arc<Pool>,
    request: impl Fn(HttpVersion) -> Request<Payload>,
) -> Result<(StatusCode, HeaderMap, BodyStream), Fault> {
    loop {
        let (reused, sent, line, untouched) = match pool.lease().await? {
            ConnectionLease::Exclusive(mut line) => {
                let before = line.socket.written();
                let Http1Connection { sender, driver: driven, wake_filter: gate, socket, kept_since: kept } =
                    &mut *line;
                if kept.is_some() {
                    socket.check_before_write();
                }
                let mut response = pin!(sender.try_send_request(request(HttpVersion::Http1)));
                let sent = poll_fn(|cx| {
                    gate.poll(cx, |cx| {
                        driven.drive(cx);
                        response.as_mut().poll(cx)
                    })
                });
                let (reused, sent) = (kept.is_some(), sent.await);
                let untouched = line.socket.written() == before;
                (reused, sent, Some(line), untouched)
            }
            ConnectionLease::Shared { mut sender, reused } => {
                let mut request = request(HttpVersion::Http2);
                let payload = request.body_mut().watch();
                let sent = sender.try_send_request(request).await;
                (reused, sent, None, payload.is_untouched())
            }
        };
        match sent {
            Ok(response) => {
                if reused {
                    pool.record_reuse_success();
                }
                let (head, body) = response.into_parts();
                let keep = keep_alive_timeout(&head.headers);
                return Ok((
                    head.status,
                    head.headers,
                    BodyStream { body, connection: line, pool: Arc::clone(pool), keep_alive: keep },
                ));
            }
            Err(mut error) => {
                // A connection that returns the message accepts no more, and neither does an
                // HTTP/1.1 connection that failed. An HTTP/2 connection may live on, and would get
                // the same request again.
                let over = error.take_message().is_some();
                if reused && (over || (untouched && line.is_some())) {
                    if line.is_some() {
                        pool.record_closed();
                    }
                    continue;
                }
                if reused && line.is_some() {
                    pool.record_reuse_failure();
                }
                let error = error.into_error();
                let fault = match line {
                    Some(_) => failure::exchange_fault(&error),
                    None => failure::http2_exchange_fault(&error),
                };
                return Err(if over || untouched { fault.not_executed() } else { fault });
            }
        }
    }
}

impl BodyStream {
    /// Returns the next chunk. After the end, or a failure, there is none.
    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let piece = ready!(self.poll_body(cx));
        match &piece {
            Some(Ok(_)) => {}
            Some(Err(_)) => self.connection = None,
            None => {
                if let Some(line) = self.connection.take() {
                    self.pool.put(line, self.keep_alive);
                }
            }
        }
        Poll::Ready(piece)
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        match &mut self.connection {
            Some(line) => poll_connection(line, &mut self.body, cx),
            None => poll_data(&mut self.body, cx),
        }
    }

    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, Fault>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// How many bytes are still to come, if the server announced it.
    pub(super) fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Drops the body, but keeps the connection if the rest is already there, or arrives within a
    /// moment.
    pub(super) fn release(mut self) {
        if !self.try_drain()
            && let Some(line) = self.connection.take()
        {
            self.pool.keep_tail(BodyTail { body: self.body, connection: line, keep_alive: self.keep_alive });
        }
    }

    /// Reads what has arrived, without waiting. Returns whether the body has ended; a broken one
    /// counts as ended.
    fn try_drain(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..MAX_TAIL_CHUNKS {
            match self.poll_chunk(&mut cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return true,
                Poll::Pending => return false,
            }
        }
        self.connection = None;
        true
    }

    /// Drops the body, but keeps the connection if the rest is short or already there.
    pub(super) async fn discard(mut self) {
        // A server that announces a body need not send it.
        let _ = timeout(DISCARD_TIMEOUT, self.drain()).await;
    }

    async fn drain(&mut self) {
        let mut allowance = MAX_DISCARD_BYTES;
        let told = self.length().is_some_and(|length| length <= MAX_DISCARD_BYTES as u64);
        loop {
            let next = if told {
                self.chunk().await
            } else {
                match poll_fn(|cx| Poll::Ready(self.poll_chunk(cx))).await {
                    Poll::Ready(next) => next,
                    Poll::Pending => return,
                }
            };
            match next {
                Some(Ok(chunk)) if chunk.len() <= allowance => allowance -= chunk.len(),
                _ => return,
            }
        }
    }
}

fn poll_connection(
    line: &mut Http1Connection,
    body: &mut Incoming,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, Fault>>> {
    let Http1Connection { driver: driven, wake_filter: gate, .. } = line;
    gate.poll(cx, |cx| {
        driven.drive(cx);
        poll_data(body, cx)
    })
}

fn poll_data(body: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
    loop {
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                // Trailers are ignored.
                _ => {}
            },
            // The response has begun, so the request was read.
            Some(Err(error)) => {
                let fault = failure::exchange_fault(&error);
                return Poll::Ready(Some(Err(fault.with_execution(Execution::Unknown))));
            }
            None => return Poll::Ready(None),
        }
    }
}

impl std::fmt::Debug for BodyStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("length", &self.length()).finish_non_exhaustive()
    }
}

/// How many bytes, and how long, a discarded body is read to keep its connection.
const MAX_DISCARD_BYTES: usize = 64 * 1024;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// How many chunks are read after the last one that mattered: more are not worth a connection.
const MAX_TAIL_CHUNKS: usize = 4;

// === impl Tail ===

impl BodyTail {
    /// Reads what has arrived. `idle` is woken when there is more to read.
    pub(super) fn poll_end(mut self, idle: &Waker) -> TailOutcome {
        let mut cx = Context::from_waker(idle);
        for _ in 0..MAX_TAIL_CHUNKS {
            match poll_connection(&mut self.connection, &mut self.body, &mut cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_))) => return TailOutcome::Broken,
                Poll::Ready(None) => return TailOutcome::Ended(self.connection, self.keep_alive),
                Poll::Pending => return TailOutcome::Pending(self),
            }
        }
        TailOutcome::TooLong
    }
}

/// How long to keep the connection. A server that announces its limit closes at it, so we stay a
/// second below: a request that crosses the close is lost, and nobody can tell whether it was
/// executed.
fn keep_alive_timeout(headers: &HeaderMap) -> Duration {
    let Some(value) = headers.get("keep-alive").and_then(|value| value.to_str().ok()) else {
        return DEFAULT_KEEP_ALIVE;
    };
    let seconds = value.split(',').find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| value.trim().parse::<u64>().ok())?
    });
    seconds.map_or(DEFAULT_KEEP_ALIVE, |seconds| {
        Duration::from_secs(seconds.saturating_sub(1)).min(DEFAULT_KEEP_ALIVE)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn stays_below_the_servers_limit() {
        let kept = |value| {
            keep_alive_timeout(&HeaderMap::from_iter([(
                "keep-alive".parse().unwrap(),
                HeaderValue::from_static(value),
            )]))
        };
        assert_eq!(kept("timeout=5"), Duration::from_secs(4));
        assert_eq!(kept("max=100, Timeout=5"), Duration::from_secs(4));
        assert_eq!(kept("timeout=0"), Duration::ZERO);
        assert_eq!(kept("timeout=99999999999"), DEFAULT_KEEP_ALIVE);
        assert_eq!(kept("timeout=soon"), DEFAULT_KEEP_ALIVE);
        assert_eq!(keep_alive_timeout(&HeaderMap::new()), DEFAULT_KEEP_ALIVE);
    }
}
