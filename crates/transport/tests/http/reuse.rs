//! Kept connections that the server closes: before a request is written, while idle, and from our
//! side.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::support::closing::{CloseKind, CloseTrigger, ClosingServer};
use crate::support::frames::FrameServer;
use crate::support::raw::{Peer, RawServer, settle};
use crate::support::tls::{Authority, ClientAuth};
use crate::support::{Server, body_events, body_json, config, json, link, link_to, post};
use bowline_proto::fault::{Cause, Execution};
use bowline_testkit::with;
use bowline_transport::http::{HttpLink, open_sse};
use bytes::Bytes;
use http::HeaderMap;
use rustls::{ServerConnection, StreamOwned};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// Posts on a single-threaded runtime, which is blocked whenever the server closes: nothing but the
/// system itself can know of the close when the next request is sent.
async fn post_after_each_close(server: &ClosingServer, link: &HttpLink) {
    for n in 0..10 {
        let body = n.to_string();
        let answer = link.post(body.clone().into(), &HeaderMap::new()).await;
        assert_eq!(answer.unwrap().status, 200, "{n}");
        server.end_connection();
        assert_eq!(server.requests.try_iter().collect::<Vec<_>>(), [body]);
    }
}

#[tokio::test]
async fn a_close_that_only_the_system_knows_of_costs_nothing() {
    for ending in [CloseKind::Close, CloseKind::Reset, CloseKind::Speak] {
        let server = ClosingServer::start(ending, CloseTrigger::OnCommand, |socket| socket);
        let link = link(&format!("http://{}/mcp", server.address));
        post_after_each_close(&server, &link).await;
    }
}

#[tokio::test]
async fn a_close_that_only_the_system_knows_of_costs_nothing_over_tls() {
    let authority = Authority::new();
    for ending in [CloseKind::Close, CloseKind::Reset] {
        let tls = authority.server_config(&[b"http/1.1"], ClientAuth::Any);
        let server = ClosingServer::start(ending, CloseTrigger::OnCommand, move |socket| {
            StreamOwned::new(ServerConnection::new(tls.clone()).unwrap(), socket)
        });
        let url = format!("https://{}/mcp", server.address);
        let link = link_to(&with!(config(&url), tls: authority.trust()));
        post_after_each_close(&server, &link).await;
    }
}

/// Whether a request crosses the close is up to chance here, so only the labels are checked.
#[tokio::test]
async fn what_is_labeled_not_executed_was_never_read() {
    let server = ClosingServer::start(CloseKind::Close, CloseTrigger::AfterReply, |socket| socket);
    let link = link(&format!("http://{}/mcp", server.address));
    let mut unread = HashSet::new();
    for n in 0..200 {
        let body = n.to_string();
        match link.post(body.clone().into(), &HeaderMap::new()).await {
            Ok(answer) => assert_eq!(answer.status, 200),
            Err(fault) if fault.execution == Execution::NotExecuted => assert!(unread.insert(body)),
            Err(fault) => assert_eq!(fault.cause, Cause::Cut, "{fault}"),
        }
    }
    let mut read = HashSet::new();
    for body in server.requests.try_iter() {
        assert!(read.insert(body), "sent twice");
    }
    assert_eq!(read.intersection(&unread).count(), 0);
}

// HS-02
#[tokio::test]
async fn hs_02_a_message_is_not_posted_to_a_connection_that_a_restart_closed() {
    let raw = RawServer::bind().await;
    let (link, none) = (link(&raw.url()), HeaderMap::new());
    let stream = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: /m\n\n";
    let (sse, mut events) = tokio::join!(open_sse(&link, &none), async {
        let mut peer = raw.accept().await;
        peer.request().await;
        peer.write(stream).await;
        peer
    });
    let sse = sse.unwrap();
    let message = || sse.post.post(Bytes::from_static(b"{}"), &none);
    let (posted, peer) = tokio::join!(message(), accept_and_answer(&raw));
    assert_eq!(posted.unwrap().status, 200);
    // Closed in this very thread, and the next message is posted before the runtime can notice.
    close_now(peer);
    let (posted, _peer) = tokio::join!(message(), accept_and_answer(&raw));
    assert_eq!(posted.unwrap().status, 200);
    events.write(b"data: 1\n\n").await;
}

/// Accepts a connection and answers one request on it.
async fn accept_and_answer(raw: &RawServer) -> Peer {
    let mut peer = raw.accept().await;
    peer.request().await;
    peer.write(OK).await;
    peer
}

fn close_now(peer: Peer) {
    drop(peer.socket.into_std().unwrap());
}

#[tokio::test]
async fn idle_closed_tells_of_a_close_by_the_server() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    // The wait begins before there is a connection, or after it was closed.
    for waits_first in [true, false] {
        let mut closed = pin!(link.wait_for_idle_close());
        if waits_first {
            assert!(is_pending(closed.as_mut()).await);
        }
        let (result, peer) = tokio::join!(post(&link), accept_and_answer(&raw));
        result.unwrap();
        settle().await;
        if waits_first {
            assert!(is_pending(closed.as_mut()).await);
        }
        close_now(peer);
        closed.await;
    }
}

#[tokio::test]
async fn idle_closed_tells_of_a_reset_and_of_a_stream_that_had_just_ended() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let mut closed = pin!(link.wait_for_idle_close());
    assert!(is_pending(closed.as_mut()).await);
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (result, mut peer) = tokio::join!(post(&link), async {
        let mut peer = raw.accept().await;
        peer.request().await;
        peer.write(head).await;
        peer.write(b"b\r\ndata: one\n\n\r\n").await;
        peer
    });
    let mut events = body_events(result.unwrap());
    assert_eq!(events.next().await.unwrap().unwrap().data, "one");
    events.release();
    peer.write(b"0\r\n\r\n").await;
    settle().await;
    assert!(is_pending(closed.as_mut()).await);
    socket2::SockRef::from(&peer.socket).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    close_now(peer);
    closed.await;
}

#[tokio::test]
async fn idle_closed_is_silent_about_what_we_close_and_about_what_is_in_use() {
    let server = Server::start(async |seen| json(seen.body)).await;
    let link = server.link();
    let mut closed = pin!(link.wait_for_idle_close());
    for _ in 0..3 {
        post(&link).await.unwrap();
        assert!(is_pending(closed.as_mut()).await);
    }
    link.forget_connections();
    post(&link).await.unwrap();
    link.abort_in_flight();
    settle().await;
    assert!(is_pending(closed.as_mut()).await);

    let raw = RawServer::bind().await;
    let link = crate::support::link(&raw.url());
    let mut closed = pin!(link.wait_for_idle_close());
    assert!(is_pending(closed.as_mut()).await);
    let (result, ()) = tokio::join!(post(&link), raw.answer_once(b""));
    assert_eq!(result.unwrap_err().cause, Cause::Cut);
    settle().await;
    assert!(is_pending(closed.as_mut()).await);
}

#[tokio::test]
async fn idle_closed_tells_of_http_2() {
    let server = FrameServer::bind().await;
    let link = server.link();
    let mut closed = pin!(link.wait_for_idle_close());
    assert!(is_pending(closed.as_mut()).await);
    let (result, peer) = tokio::join!(post(&link), async {
        let mut peer = server.accept().await;
        let stream = peer.request().await;
        peer.answer(stream).await;
        peer
    });
    assert_eq!(result.unwrap().status, 200);
    settle().await;
    assert!(is_pending(closed.as_mut()).await);
    drop(peer);
    closed.await;
    // A connection that we drop ourselves is not reported.
    let mut closed = pin!(link.wait_for_idle_close());
    let (result, mut peer) = tokio::join!(post(&link), async {
        let mut peer = server.accept().await;
        let stream = peer.request().await;
        peer.answer(stream).await;
        peer
    });
    assert_eq!(result.unwrap().status, 200);
    assert!(is_pending(closed.as_mut()).await);
    link.forget_connections();
    assert_eq!(peer.next_request().await, None);
    settle().await;
    assert!(is_pending(closed.as_mut()).await);
}

#[tokio::test]
async fn abort_in_flight_ends_what_is_silent_and_leaves_the_outcome_unknown() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let (result, mut peer) = tokio::join!(post(&link), async {
        let mut peer = raw.accept().await;
        peer.request().await;
        link.abort_in_flight();
        peer
    });
    let fault = result.unwrap_err();
    assert_eq!((&fault.cause, fault.execution), (&Cause::Cut, Execution::Unknown), "{fault}");
    peer.closed().await;
    // The next one is not disturbed.
    let (result, ()) = tokio::join!(post(&link), raw.answer_once(OK));
    assert_eq!(body_json(result.unwrap()), "{}");
}

/// The end of such a stream is the end of its connection, so a clean cut would look like an orderly
/// end.
#[tokio::test]
async fn abort_in_flight_cuts_event_streams() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let (result, _peer) = tokio::join!(post(&link), async {
        let mut peer = raw.accept().await;
        peer.request().await;
        peer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: one\n\n").await;
        peer
    });
    let mut events = body_events(result.unwrap());
    assert_eq!(events.next().await.unwrap().unwrap().data, "one");
    let waiting = tokio::spawn(async move { events.next().await });
    settle().await;
    link.abort_in_flight();
    let fault = waiting.await.unwrap().unwrap_err();
    assert_eq!((&fault.cause, fault.execution), (&Cause::Cut, Execution::Unknown), "{fault}");
}

#[tokio::test]
async fn abort_in_flight_ends_all_streams_of_http_2() {
    let server = FrameServer::bind().await;
    let link = server.link();
    let (first, second, _peer) = tokio::join!(post(&link), post(&link), async {
        let mut peer = server.accept().await;
        assert_eq!((peer.request().await, peer.request().await), (1, 3));
        link.abort_in_flight();
        peer
    });
    for result in [first, second] {
        let fault = result.unwrap_err();
        assert_eq!((&fault.cause, fault.execution), (&Cause::Cut, Execution::Unknown), "{fault}");
    }
    let (result, _peer) = tokio::join!(post(&link), async {
        let mut peer = server.accept().await;
        assert_eq!(peer.request().await, 1);
        peer.answer(1).await;
        peer
    });
    assert_eq!(result.unwrap().status, 200);
}

/// Polls once.
async fn is_pending(mut future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}
