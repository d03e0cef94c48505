//! Handshakes on connections that the server closes soon after a reply, without notice.

use std::sync::Arc;

use bowline::{Cause, Client, Execution, Server};
use bowline_testkit::{self as testkit, Fault};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::http;

/// A legacy server that closes the connection after each reply to one of `closes_after`. It closes
/// without reading when the next request arrives, as if it had closed just before.
struct ClosingServer {
    server: Server,
    /// The methods of answered requests, in order.
    answered_methods: Arc<Mutex<Vec<String>>>,
}

impl ClosingServer {
    async fn start(closes_after: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let answered = Arc::<Mutex<Vec<String>>>::default();
        let answers = Arc::clone(&answered);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, closes_after, Arc::clone(&answers)));
            }
        });
        Self { server: Server::http("closing", url).build().unwrap(), answered_methods: answered }
    }

    /// Returns how often a request with this method was answered.
    fn answer_count(&self, method: &str) -> usize {
        self.answered_methods.lock().iter().filter(|answered| *answered == method).count()
    }
}

async fn serve(stream: TcpStream, closes_after: &[&str], answered: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    while let Some((verb, message)) = read_request(&mut stream).await {
        let method = message["method"].as_str().unwrap_or(&verb).to_owned();
        let id = &message["id"];
        let result = match &*method {
            "initialize" => {
                json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "closing", "version": "1" } })
            }
            "tools/list" => json!({ "tools": [{ "name": "count", "inputSchema": { "type": "object" } }] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": "done" }] }),
            _ => Value::Null,
        };
        let (status, body) = match &*method {
            "GET" => ("405 Method Not Allowed", String::new()),
            "DELETE" | "notifications/initialized" => ("202 Accepted", String::new()),
            // The body keeps the connection alive.
            "server/discover" => ("400 Bad Request", json!({ "error": "no session" }).to_string()),
            _ => ("200 OK", json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()),
        };
        let reply = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nmcp-session-id: one\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        answered.lock().push(method.clone());
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
        if closes_after.contains(&&*method) {
            // Closing now discards what the client has sent.
            let _ = stream.read_u8().await;
            return;
        }
    }
}

/// Reads one request: its HTTP method and its message.
async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let (mut verb, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if verb.is_empty() {
            verb = line.split(' ').next()?.to_owned();
        } else if line.is_empty() {
            break;
        } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((verb, serde_json::from_slice(&body).unwrap_or_default()))
}

#[tokio::test]
async fn a_connection_closed_after_the_initialize_reply_is_retried() {
    let closing = ClosingServer::start(&["initialize"]).await;
    let client = Client::connect(closing.server.clone()).await.unwrap();
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    assert_eq!(
        (closing.answer_count("initialize"), closing.answer_count("notifications/initialized")),
        (1, 1)
    );
    client.close().await;
}

#[tokio::test]
async fn a_connection_closed_after_the_probe_reply_is_retried() {
    let closing = ClosingServer::start(&["server/discover"]).await;
    let client = Client::connect(closing.server.clone()).await.unwrap();
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    assert_eq!((closing.answer_count("server/discover"), closing.answer_count("initialize")), (1, 1));
    client.close().await;
}

/// A message of the handshake is sent at most twice.
#[tokio::test]
async fn a_server_that_cuts_off_every_handshake_sees_two_of_each() {
    let server = testkit::server().legacy().tool("echo").run().await;
    server.arm(Fault::close().on("initialize").always());
    let error = Client::connect(http(&server)).await.unwrap_err();
    assert_eq!((&error.fault().unwrap().cause, error.execution()), (&Cause::Cut, Execution::NotExecuted));
    assert_eq!((server.count("server/discover"), server.count("initialize")), (1, 2));

    let server = testkit::server().legacy().tool("echo").run().await;
    server.arm(Fault::close().on("notifications/initialized").always());
    let error = Client::connect(http(&server)).await.unwrap_err();
    assert_eq!((&error.fault().unwrap().cause, error.execution()), (&Cause::Cut, Execution::NotExecuted));
    assert_eq!((server.count("initialize"), server.count("notifications/initialized")), (1, 2));
}
