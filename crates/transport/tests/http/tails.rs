//! Streams that are dropped after the event that mattered: their connections are reused, or closed.

use std::time::Duration;

use crate::support::raw::{Peer, RawServer, settle};
use crate::support::{body_events, link, post};
use bowline_transport::http::HttpLink;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nb\r\ndata: one\n\n\r\n";
const END: &[u8] = b"0\r\n\r\n";

/// Posts, reads the one event, and drops the stream.
async fn exchange(link: &HttpLink) {
    let mut events = body_events(post(link).await.unwrap());
    assert_eq!(events.next().await.unwrap().unwrap().data, "one");
    events.release();
}

/// Answers one request on a connection without ending the stream.
async fn answer(peer: &mut Peer) {
    peer.request().await;
    peer.write(ANSWER).await;
}

async fn accept_and_answer(raw: &RawServer) -> Peer {
    let mut peer = raw.accept().await;
    answer(&mut peer).await;
    peer
}

#[tokio::test]
async fn a_stream_that_ended_gives_its_connection_back() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let ((), mut peer) = tokio::join!(exchange(&link), accept_and_answer(&raw));
    for _ in 0..3 {
        // The end arrives after the stream was dropped.
        peer.write(END).await;
        settle().await;
        tokio::join!(exchange(&link), answer(&mut peer));
    }
}

#[tokio::test]
async fn a_few_that_never_end_do_not_stand_before_the_others() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let mut stuck = Vec::new();
    for _ in 0..8 {
        let ((), peer) = tokio::join!(exchange(&link), accept_and_answer(&raw));
        stuck.push(peer);
    }
    let ((), mut good) = tokio::join!(exchange(&link), accept_and_answer(&raw));
    good.write(END).await;
    settle().await;
    // Within a few requests the one that ended is found again.
    let mut made = 0;
    loop {
        let reused = tokio::select! {
            ((), ()) = async { tokio::join!(exchange(&link), answer(&mut good)) } => true,
            peer = accept_and_answer(&raw) => {
                stuck.push(peer);
                false
            }
        };
        if reused {
            break;
        }
        made += 1;
        assert!(made < 10, "the connection that ended is never found");
    }
}

#[tokio::test]
async fn a_stream_that_never_ends_is_closed_soon() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let ((), mut peer) = tokio::join!(exchange(&link), accept_and_answer(&raw));
    // From here on the clock jumps to the next timer whenever nothing else happens.
    tokio::time::pause();
    let minute = Duration::from_secs(60);
    tokio::time::timeout(minute, peer.closed()).await.expect("closed within seconds");
    drop(link);
}
