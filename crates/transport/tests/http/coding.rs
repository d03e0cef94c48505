//! Compressed responses: complete and streamed, broken and bomb-like.

use crate::support::{Server, body_events, body_json, config, json, post, stream, with};
use async_compression::tokio::write::GzipEncoder;
use bowline_proto::fault::{Cause, Misbehavior};
use bowline_transport::http::{HttpLink, Limits, Proxies};
use bytes::Bytes;
use http::HeaderMap;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

/// Compresses data into one gzip member.
async fn encode(data: &[u8]) -> Bytes {
    let mut encoder = GzipEncoder::new(Vec::new());
    encoder.write_all(data).await.unwrap();
    encoder.shutdown().await.unwrap();
    encoder.into_inner().into()
}

/// A server that returns the body of each request with the given content encoding.
async fn echo() -> Server {
    Server::start(async |seen| {
        with(json(seen.body), "content-encoding", seen.headers["x-coding"].to_str().unwrap())
    })
    .await
}

fn coding_header(coding: &str) -> HeaderMap {
    HeaderMap::from_iter([("x-coding".parse().unwrap(), coding.parse().unwrap())])
}

#[tokio::test]
async fn json_is_decompressed() {
    let server = echo().await;
    let link = server.link();
    let large: Vec<u8> = (0..300_000_u32).map(|n| (n.wrapping_mul(n) % 251) as u8).collect();
    for data in [&b"{\"id\":1}"[..], &large] {
        let answer = link.post(encode(data).await, &coding_header("gzip")).await.unwrap();
        assert!(body_json(answer) == data);
    }
    let answer = link.post("{}".into(), &coding_header("identity")).await.unwrap();
    assert_eq!(body_json(answer), "{}");
    assert_eq!(server.connections(), 1, "what was decompressed gives its connection back");
}

#[tokio::test]
async fn several_members_are_one_body() {
    let server = echo().await;
    let body = [encode(b"{\"id\"").await, encode(b":1}").await].concat();
    let answer = server.link().post(body.into(), &coding_header("gzip")).await.unwrap();
    assert_eq!(body_json(answer), "{\"id\":1}");
}

#[tokio::test]
async fn a_bomb_is_stopped_at_the_limit() {
    let server = echo().await;
    let limits = Limits { body: 100_000, ..Limits::default() };
    let link = HttpLink::with_proxies(&config(&server.url()), limits, &Proxies::Direct).unwrap();
    let bomb = encode(&vec![b'0'; 3_000_000]).await;
    assert!(bomb.len() < 50_000, "the bomb itself is small");
    let fault = link.post(bomb, &coding_header("gzip")).await.unwrap_err();
    assert_eq!(fault.cause, Cause::Protocol(Misbehavior::TooLarge { limit: 100_000 }));
}

#[tokio::test]
async fn what_cannot_be_decompressed_says_so() {
    let server = echo().await;
    let link = server.link();
    let whole = encode(b"{\"id\":1,\"result\":{\"content\":[]}}").await;
    let half = whole.slice(..whole.len() / 2);
    for body in [Bytes::from_static(b"{\"plain\":true}"), half] {
        let fault = link.post(body, &coding_header("gzip")).await.unwrap_err();
        assert_eq!(fault.cause, Cause::Protocol(Misbehavior::Encoding));
    }
    for unknown in ["compress", "br", "gzip, gzip"] {
        let fault = link.post("{}".into(), &coding_header(unknown)).await.unwrap_err();
        assert_eq!(fault.cause, Cause::Protocol(Misbehavior::Encoding), "{unknown}");
    }
}

#[tokio::test]
async fn a_compressed_stream_is_not_held_back() {
    let (tell, mut told) = mpsc::channel(1);
    let server = Server::start(move |_| {
        let tell = tell.clone();
        async move {
            let (pieces, reply) = stream(200, "text/event-stream");
            tell.send(pieces).await.unwrap();
            with(reply, "content-encoding", "gzip")
        }
    })
    .await;
    let mut events = body_events(post(&server.link()).await.unwrap());
    let pieces = told.recv().await.unwrap();
    let mut encoder = GzipEncoder::new(Vec::new());
    for data in ["one", "two", "three"] {
        encoder.write_all(format!("data: {data}\n\n").as_bytes()).await.unwrap();
        encoder.flush().await.unwrap();
        pieces.send(std::mem::take(encoder.get_mut()).into()).await.unwrap();
        // Nothing more is sent before this arrives.
        assert_eq!(events.next().await.unwrap().unwrap().data, data);
    }
    encoder.shutdown().await.unwrap();
    pieces.send(std::mem::take(encoder.get_mut()).into()).await.unwrap();
    drop(pieces);
    assert_eq!(events.next().await.unwrap(), None);
}
