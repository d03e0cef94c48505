//! Compressed responses: complete and streamed, broken and bomb-like.

#[path = "support/http/mod.rs"]
mod support;

use async_compression::Level;
use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZstdEncoder};
use bowline_proto::fault::{Cause, Misbehavior};
use bowline_transport::http::{HttpLink, Limits, Proxies};
use bytes::Bytes;
use http::HeaderMap;
use support::{Server, body_events, body_json, config, json, post, stream, with};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

const CODINGS: [&str; 3] = ["gzip", "br", "zstd"];

fn encoder(coding: &str) -> Box<dyn Encode> {
    match coding {
        "gzip" => Box::new(GzipEncoder::new(Vec::new())),
        "br" => Box::new(BrotliEncoder::with_quality(Vec::new(), Level::Fastest)),
        "zstd" => Box::new(ZstdEncoder::new(Vec::new())),
        other => panic!("{other}"),
    }
}

/// An encoder whose output can be taken as it grows.
trait Encode: AsyncWrite + Unpin + Send {
    fn take(&mut self) -> Bytes;
}

macro_rules! encode {
    ($($encoder:ty),*) => {
        $(impl Encode for $encoder {
            fn take(&mut self) -> Bytes {
                std::mem::take(self.get_mut()).into()
            }
        })*
    };
}

encode!(GzipEncoder<Vec<u8>>, BrotliEncoder<Vec<u8>>, ZstdEncoder<Vec<u8>>);

async fn encode(coding: &str, data: &[u8]) -> Bytes {
    let mut encoder = encoder(coding);
    encoder.write_all(data).await.unwrap();
    encoder.shutdown().await.unwrap();
    encoder.take()
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
    for coding in CODINGS {
        for data in [&b"{\"id\":1}"[..], &large] {
            let answer = link.post(encode(coding, data).await, &coding_header(coding)).await.unwrap();
            assert!(body_json(answer) == data, "{coding}");
        }
    }
    let answer = link.post("{}".into(), &coding_header("identity")).await.unwrap();
    assert_eq!(body_json(answer), "{}");
    assert_eq!(server.connections(), 1, "what was decompressed gives its connection back");
}

#[tokio::test]
async fn several_members_are_one_body() {
    let server = echo().await;
    for coding in ["gzip", "zstd"] {
        let body = [encode(coding, b"{\"id\"").await, encode(coding, b":1}").await].concat();
        let answer = server.link().post(body.into(), &coding_header(coding)).await.unwrap();
        assert_eq!(body_json(answer), "{\"id\":1}", "{coding}");
    }
}

#[tokio::test]
async fn a_bomb_is_stopped_at_the_limit() {
    let server = echo().await;
    let limits = Limits { body: 100_000, ..Limits::default() };
    let link = HttpLink::with_proxies(&config(&server.url()), limits, &Proxies::Direct).unwrap();
    for coding in CODINGS {
        let bomb = encode(coding, &vec![b'0'; 3_000_000]).await;
        assert!(bomb.len() < 50_000, "{coding}: the bomb itself is small");
        let fault = link.post(bomb, &coding_header(coding)).await.unwrap_err();
        assert_eq!(fault.cause, Cause::Protocol(Misbehavior::TooLarge { limit: 100_000 }), "{coding}");
    }
}

#[tokio::test]
async fn what_cannot_be_decompressed_says_so() {
    let server = echo().await;
    let link = server.link();
    for coding in CODINGS {
        let whole = encode(coding, b"{\"id\":1,\"result\":{\"content\":[]}}").await;
        let half = whole.slice(..whole.len() / 2);
        for body in [Bytes::from_static(b"{\"plain\":true}"), half] {
            let fault = link.post(body, &coding_header(coding)).await.unwrap_err();
            assert_eq!(fault.cause, Cause::Protocol(Misbehavior::Encoding), "{coding}");
        }
    }
    for unknown in ["compress", "gzip, gzip"] {
        let fault = link.post("{}".into(), &coding_header(unknown)).await.unwrap_err();
        assert_eq!(fault.cause, Cause::Protocol(Misbehavior::Encoding), "{unknown}");
    }
}

#[tokio::test]
async fn a_compressed_stream_is_not_held_back() {
    for coding in CODINGS {
        let (tell, mut told) = mpsc::channel(1);
        let server = Server::start(move |_| {
            let tell = tell.clone();
            async move {
                let (pieces, reply) = stream(200, "text/event-stream");
                tell.send(pieces).await.unwrap();
                with(reply, "content-encoding", coding)
            }
        })
        .await;
        let mut events = body_events(post(&server.link()).await.unwrap());
        let pieces = told.recv().await.unwrap();
        let mut encoder = encoder(coding);
        for data in ["one", "two", "three"] {
            encoder.write_all(format!("data: {data}\n\n").as_bytes()).await.unwrap();
            encoder.flush().await.unwrap();
            pieces.send(encoder.take()).await.unwrap();
            // Nothing more is sent before this arrives.
            assert_eq!(events.next().await.unwrap().unwrap().data, data, "{coding}");
        }
        encoder.shutdown().await.unwrap();
        pieces.send(encoder.take()).await.unwrap();
        drop(pieces);
        assert_eq!(events.next().await.unwrap(), None, "{coding}");
    }
}
