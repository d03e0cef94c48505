//! A scripted model endpoint on a loopback socket: gives prepared replies and records requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A request as received.
#[derive(Clone, Debug)]
pub(super) struct ReceivedRequest {
    pub(super) line: String,
    /// Header names are in lower case.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Value,
}

/// How to answer one request.
pub(super) enum Reply {
    Json(u16, Value),
    Text(u16, &'static str, String),
    Redirect(u16, String),
    /// A body of this many bytes without an end.
    Flood(usize),
    /// No reply until the client gives up.
    Silence,
}

pub(super) struct Endpoint {
    pub(super) url: String,
    shared: Arc<EndpointState>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct EndpointState {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<ReceivedRequest>>,
    arrived: Notify,
    hung_up: Notify,
}

impl Endpoint {
    pub(super) async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(EndpointState {
            replies: Mutex::new(replies.into_iter().collect()),
            ..EndpointState::default()
        });
        let serving = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                tokio::spawn(async move {
                    let _ = serve(stream, &shared).await;
                });
            }
        });
        Self { url, shared, task }
    }

    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.requests.lock().clone()
    }

    /// Returns the only request.
    pub(super) fn only_request(&self) -> ReceivedRequest {
        let mut seen = self.requests();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    /// Waits for a request to arrive.
    pub(super) async fn wait_for_request(&self) {
        self.shared.arrived.notified().await;
    }

    /// Waits for a client to give up on [`Reply::Silence`].
    pub(super) async fn wait_for_hang_up(&self) {
        self.shared.hung_up.notified().await;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, shared: &EndpointState) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(seen) = read_request(&mut stream).await? {
        shared.requests.lock().push(seen);
        shared.arrived.notify_one();
        let reply = shared.replies.lock().pop_front();
        match reply.expect("a request that nobody expected") {
            Reply::Json(status, body) => {
                write_reply(&mut stream, status, "application/json", &body.to_string()).await?;
            }
            Reply::Text(status, media, body) => write_reply(&mut stream, status, media, &body).await?,
            Reply::Redirect(status, to) => {
                let head = format!("HTTP/1.1 {status} X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
            }
            Reply::Flood(bytes) => {
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                let piece = vec![b'['; 64 * 1024];
                for _ in 0..bytes / piece.len() {
                    stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
                    stream.write_all(&piece).await?;
                    stream.write_all(b"\r\n").await?;
                }
                stream.write_all(b"0\r\n\r\n").await?;
            }
            Reply::Silence => {
                let _ = stream.read(&mut [0]).await;
                shared.hung_up.notify_one();
                return Ok(());
            }
        }
    }
    Ok(())
}

async fn write_reply(
    stream: &mut BufReader<TcpStream>,
    status: u16,
    media: &str,
    body: &str,
) -> std::io::Result<()> {
    let head =
        format!("HTTP/1.1 {status} X\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<ReceivedRequest>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body = serde_json::from_slice(&body).expect("a body of JSON");
    Ok(Some(ReceivedRequest { line: line.trim_end().to_owned(), headers, body }))
}
