//! Serves one connection: HTTP/1.1, or HTTP/2 by prior knowledge.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::site::Site;
use super::socket::Connection;

/// How many requests one HTTP/2 connection may have open.
const MAX_CONCURRENT_STREAMS: u32 = 256;
/// How often an HTTP/2 connection is checked while it is silent, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves a connection until it ends. When `closing` is canceled, no more requests are read, and the
/// connection ends with its last response.
pub(crate) async fn serve_connection(site: Arc<Site>, connection: Connection, closing: CancellationToken) {
    let header_timeout = site.settings().header_timeout;
    let has_begun = Arc::new(AtomicBool::new(false));
    let service = {
        let has_begun = Arc::clone(&has_begun);
        service_fn(move |request| {
            has_begun.store(true, Ordering::Relaxed);
            let responding = Arc::clone(&site).respond(request);
            async move { Ok::<_, Infallible>(responding.await) }
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let mut exchanges = pin!(builder.serve_connection(TokioIo::new(connection), service));
    // The limit of HTTP/1.1 applies only once it is known that it is HTTP/1.1, and HTTP/2 has none.
    let mut first_request = pin!(sleep(header_timeout));
    let mut is_timed = true;
    let mut is_closing = false;
    loop {
        tokio::select! {
            ended = exchanges.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error, "a connection of a host broke");
                }
                return;
            }
            () = first_request.as_mut(), if is_timed => {
                if !has_begun.load(Ordering::Relaxed) {
                    return;
                }
                is_timed = false;
            }
            () = closing.cancelled(), if !is_closing => {
                exchanges.as_mut().graceful_shutdown();
                is_closing = true;
            }
        }
    }
}
