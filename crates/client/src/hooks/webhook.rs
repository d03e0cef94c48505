//! Calls a webhook: one POST, and a second one only if the first was not received.

use std::future::Future;
use std::time::Duration;

use bowline_config::{Http, Secret};
use bowline_proto::fault::{Execution, Fault};
use bowline_transport::http::{HttpLink, Limits};
use bytes::Bytes;
use http::HeaderMap;
use tokio::time::{sleep, timeout};
use url::Url;

/// A webhook. Its connection is reused for the next event.
pub(super) struct Webhook {
    link: HttpLink,
    limit: Duration,
}

/// The outcome of a webhook call.
#[derive(Debug)]
pub(super) enum WebhookOutcome {
    /// It answered with this status.
    Status(u16),
    /// The request was not delivered, or the response was not readable.
    Fault(Fault),
    /// It took longer than the timeout.
    TimedOut,
}

/// Delay before the second attempt, for a receiver that is being restarted.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Maximum size of a response that is read, in bytes. Its contents are ignored.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

impl Webhook {
    pub(super) fn new(url: &Url, headers: &[(String, Secret)], limit: Duration) -> Result<Self, Fault> {
        let mut config = Http::from_url(url.clone());
        config.headers = headers.to_vec();
        // Whoever configured the webhook chose plain HTTP.
        config.allow_http = true;
        let limits = Limits { connect: limit, body: MAX_RESPONSE_BYTES, event: MAX_RESPONSE_BYTES };
        Ok(Self { link: HttpLink::new(&config, limits)?, limit })
    }

    /// Posts `json`, within the timeout in any case.
    pub(super) async fn post(&self, json: String) -> WebhookOutcome {
        self.post_with_retry(json, sleep(RETRY_DELAY)).await
    }

    async fn post_with_retry(&self, json: String, pause: impl Future<Output = ()>) -> WebhookOutcome {
        let body = Bytes::from(json);
        let posting = async {
            match self.post_once(body.clone()).await {
                // It was certainly not received, so a second attempt cannot duplicate it.
                Err(fault) if fault.is_outage() && fault.execution == Execution::NotExecuted => {
                    pause.await;
                    self.post_once(body).await
                }
                outcome => outcome,
            }
        };
        match timeout(self.limit, posting).await {
            Ok(Ok(status)) => WebhookOutcome::Status(status),
            Ok(Err(fault)) => WebhookOutcome::Fault(fault),
            Err(_) => WebhookOutcome::TimedOut,
        }
    }

    async fn post_once(&self, body: Bytes) -> Result<u16, Fault> {
        self.link.post(body, &HeaderMap::new()).await.map(|answer| answer.status)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::task::JoinHandle;

    use super::*;

    fn webhook(addr: SocketAddr) -> Webhook {
        let url = format!("http://{addr}/").parse().unwrap();
        Webhook::new(&url, &[], Duration::from_secs(20)).unwrap()
    }

    /// Accepts one request, sends this response, and closes the connection.
    fn serve_once(listener: TcpListener, answer: &'static [u8]) -> JoinHandle<String> {
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        })
    }

    /// The socket is bound but not listening, so the first attempt is refused.
    #[tokio::test]
    async fn unreachable_webhook_is_called_once_more() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let webhook = webhook(socket.local_addr().unwrap());
        let mut served = None;
        let back = async {
            served = Some(serve_once(socket.listen(1).unwrap(), b"HTTP/1.1 204 No Content\r\n\r\n"));
        };
        let posted = webhook.post_with_retry("{}".to_owned(), back).await;
        assert!(matches!(posted, WebhookOutcome::Status(204)), "{posted:?}");
        assert!(served.expect("there was a second attempt").await.unwrap().starts_with("POST / HTTP/1.1"));
    }

    /// It may have acted on the request, so another attempt could duplicate it.
    #[tokio::test]
    async fn webhook_that_hung_up_is_not_called_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let webhook = webhook(listener.local_addr().unwrap());
        let served = serve_once(listener, b"");
        let never = async { panic!("a second attempt") };
        let posted = webhook.post_with_retry("{}".to_owned(), never).await;
        assert!(matches!(posted, WebhookOutcome::Fault(_)), "{posted:?}");
        assert!(served.await.unwrap().ends_with("{}"));
    }
}
