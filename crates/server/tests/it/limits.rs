//! Limits: sizes, times and numbers.

use std::time::Duration;

use bowline_server::HttpSettings;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http_client::{HttpClient, soon};
use crate::test_server::{Report, TestServer, bind, initialize, notification, refusal, request, result};

const NEWEST: &str = "2025-11-25";

async fn connect(listener: &bowline_server::HttpListener) -> TcpStream {
    TcpStream::connect(listener.local_addr().unwrap()).await.unwrap()
}

/// Reads until the listener closes the connection.
async fn read_all(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A listener that closes a connection on which something is unread resets it.
    let _ = soon(stream.read_to_end(&mut text)).await;
    String::from_utf8(text).unwrap()
}

/// HT-05: too large a body is refused, whether its length is announced or not.
#[tokio::test]
async fn ht_05_oversized_body_is_refused() {
    let server = TestServer::start_with(HttpSettings::new().with_message_limit(1000)).await;
    let host = server.initialize(NEWEST).await;
    let fits = |length: usize| {
        let bare = request(1, "echo", json!({"text": ""})).to_string().len();
        request(1, "echo", json!({"text": "x".repeat(length - bare)}))
    };
    assert_eq!(host.post(&fits(1000)).await.status, 200);
    let refused = host.post(&fits(1001)).await;
    assert_eq!(refused.expect_json(413).await, refusal(-32600, "the message is too large"));

    let listener = bind(HttpSettings::new().with_message_limit(1000)).await;
    let mut stream = connect(&listener).await;
    let chunk = format!("200\r\n{}\r\n", "x".repeat(512));
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}{chunk}{chunk}").as_bytes()).await.unwrap();
    let mut status = [0; 12];
    soon(stream.read_exact(&mut status)).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
}

/// A connection that sends nothing, or half a head, is closed.
#[tokio::test]
async fn slow_heads_are_cut_off() {
    let listener = bind(HttpSettings::new().with_header_timeout(Duration::from_millis(50))).await;
    for sent in ["", "P", "POST /mcp HTTP/1.1\r\nHost: local", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = connect(&listener).await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let _ = soon(stream.read_to_end(&mut rest)).await;
        assert!(!rest.starts_with(b"HTTP/1.1 2"), "{sent}");
    }
}

#[tokio::test]
async fn slow_bodies_are_cut_off() {
    let listener = bind(HttpSettings::new().with_body_timeout(Duration::from_millis(50))).await;
    let mut stream = connect(&listener).await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let reply = read_all(&mut stream).await;
    assert!(reply.starts_with("HTTP/1.1 408"), "{reply}");
}

/// Bodies share a bounded amount of memory.
#[tokio::test]
async fn bodies_share_their_memory() {
    let server = TestServer::start_with(HttpSettings::new().with_body_memory(16 * 1024)).await;
    let host = server.initialize(NEWEST).await;
    let large = request(1, "echo", json!({"text": "x".repeat(20 * 1024)}));
    let refused = host.post(&large).await;
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.expect_json(503).await, refusal(-32603, "there are too many large messages"));
    for _ in 0..10 {
        let fits = request(1, "echo", json!({"text": "x".repeat(10 * 1024)}));
        assert_eq!(host.post(&fits).await.status, 200, "what was used is returned");
    }
}

/// Beyond the limit, connections wait until another is closed.
#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let listener = bind(HttpSettings::new().with_max_connections(1)).await;
    let probe = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut first = connect(&listener).await;
    let mut reply = [0; 1024];
    for _ in 0..20 {
        first.write_all(probe).await.unwrap();
        assert!(soon(first.read(&mut reply)).await.unwrap() > 0);
    }
    let mut second = connect(&listener).await;
    second.write_all(probe).await.unwrap();
    for _ in 0..20 {
        first.write_all(probe).await.unwrap();
        assert!(soon(first.read(&mut reply)).await.unwrap() > 0);
        assert!(second.try_read(&mut reply).is_err(), "nothing was said to the second");
    }
    drop(first);
    assert!(soon(second.read(&mut reply)).await.unwrap() > 0);
}

/// While nobody takes the messages of a host, its POSTs wait, and a bounded number is queued.
#[tokio::test]
async fn posts_wait_for_the_host_to_be_read() {
    let mut listener = bind(HttpSettings::new()).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let posting = {
        let client = client.clone();
        tokio::spawn(async move { client.post(&initialize(NEWEST)).await })
    };
    let mut host = soon(listener.accept()).await.unwrap();
    let Some(bowline_server::HostEvent::Initialize(request)) = soon(host.next()).await else {
        panic!("no initialize")
    };
    request.respond(Ok(&bowline_proto::wire::Json::empty_object())).await;
    request.accept();
    let reply = posting.await.unwrap();
    let session = client.with("mcp-session-id", reply.header("mcp-session-id").unwrap());
    for _ in 0..16 {
        session.post(&notification("notifications/x")).await.expect_empty(202).await;
    }
    let waiting = tokio::spawn(async move { session.post(&notification("notifications/y")).await.status });
    for expected in std::iter::repeat_n("notifications/x", 16).chain(["notifications/y"]) {
        let Some(bowline_server::HostEvent::Notification { method, .. }) = soon(host.next()).await else {
            panic!("no notification")
        };
        assert_eq!(&*method, expected);
    }
    assert_eq!(waiting.await.unwrap(), 202);
}

/// HTTP/2 by prior knowledge: many requests on one connection.
#[tokio::test]
async fn http_2_is_served() {
    let mut server = TestServer::start().await;
    let host = server.initialize(NEWEST).await;
    let reply = server.client.post(&initialize(NEWEST)).await;
    let id = reply.header("mcp-session-id").unwrap().to_owned();
    let stream = TcpStream::connect(server.client.addr()).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = soon(handshake).await.unwrap();
    tokio::spawn(connection);
    let post = |message: Value, authority: &str| {
        Request::post(format!("http://{authority}/mcp"))
            .header("mcp-session-id", &id)
            .body(Full::new(Bytes::from(message.to_string())))
            .unwrap()
    };
    let hanging =
        tokio::spawn(sender.send_request(post(request(1, "talk", json!({"steps": 0})), "localhost")));
    server.expect(Report::Arrived("talk".into())).await;
    let echo = soon(sender.send_request(post(request(2, "echo", json!({})), "localhost:9"))).await.unwrap();
    let body = echo.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), result(2, json!({})));
    let foreign =
        soon(sender.send_request(post(request(3, "echo", json!({})), "evil.example"))).await.unwrap();
    assert_eq!(foreign.status(), 403);
    soon(sender.send_request(post(notification("notifications/go"), "localhost"))).await.unwrap();
    let response = soon(hanging).await.unwrap().unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), result(1, json!({"said": 0})));
    drop(host);
}

/// Bytes that are no HTTP end their connection and nothing else.
#[tokio::test]
async fn garbage_ends_its_connection_only() {
    let server = TestServer::start().await;
    for garbage in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..], b"GARBAGE\r\n\r\n", b"\0\0\0\0\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.client.addr()).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let _ = soon(stream.read_to_end(&mut rest)).await;
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 400"), "{rest:?}");
    }
    server.initialize(NEWEST).await;
}
