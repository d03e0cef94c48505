//! Connections that are kept, closed, cut or refused; and what a failure says about the request.

use std::sync::Arc;
use std::time::Duration;

use crate::support::raw::{RawServer, settle};
use crate::support::{Server, body_events, body_json, config, json, link, post, with};
use bowline_proto::fault::{Cause, Execution, Limit, Misbehavior};
use bowline_transport::http::{HttpLink, Limits, Proxies, ResponseBody};
use http::HeaderMap;
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn nobody_there_means_not_executed() {
    let address = RawServer::bind().await.address;
    // Nobody listens there any more.
    let fault = post(&link(&format!("http://{address}/"))).await.unwrap_err();
    assert_eq!((fault.cause, fault.execution), (Cause::Refused, Execution::NotExecuted));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_means_not_executed() {
    // No resolver has to be asked: a label may have 63 characters.
    let name = "x".repeat(64);
    let fault = post(&link(&format!("http://{name}.test/"))).await.unwrap_err();
    assert_eq!((fault.cause, fault.execution), (Cause::Dns, Execution::NotExecuted));
}

#[tokio::test]
async fn a_connection_that_takes_too_long_means_not_executed() {
    let raw = RawServer::bind().await;
    let limits = Limits { connect: Duration::from_millis(50), ..Limits::default() };
    let url = raw.url().replace("http:", "https:");
    let link = HttpLink::with_proxies(&config(&url), limits, &Proxies::Direct).unwrap();
    // Accepted by the system, and then no TLS handshake.
    let fault = post(&link).await.unwrap_err();
    assert_eq!((fault.cause, fault.execution), (Cause::Timeout(Limit::Connect), Execution::NotExecuted));
}

#[tokio::test]
async fn a_cut_before_the_answer_leaves_the_outcome_unknown() {
    let raw = RawServer::bind().await;
    for answer in [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-ty"] {
        let link = link(&raw.url());
        let (result, ()) = tokio::join!(post(&link), raw.answer_once(answer));
        let fault = result.unwrap_err();
        assert_eq!((fault.cause, fault.execution), (Cause::Cut, Execution::Unknown));
    }
}

// HT-05
#[tokio::test]
async fn ht_05_a_truncated_body_is_a_cut() {
    let raw = RawServer::bind().await;
    for answer in [
        &b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"id\":"[..],
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n6\r\n{\"id\":\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 100\r\n\r\n\x1f\x8b",
    ] {
        let link = link(&raw.url());
        let (result, ()) = tokio::join!(post(&link), raw.answer_once(answer));
        let fault = result.unwrap_err();
        assert_eq!((fault.cause, fault.execution), (Cause::Cut, Execution::Unknown));
    }
    // A status is a response all the same.
    let link = link(&raw.url());
    let answer =
        b"HTTP/1.1 503 No\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"half\":";
    let (result, ()) = tokio::join!(post(&link), raw.answer_once(answer));
    let answer = result.unwrap();
    assert!(answer.status_fault().evidence.body_is_cut);
    let ResponseBody::Other(body) = answer.body else { panic!("{:?}", answer.body) };
    assert_eq!((answer.status, &*body), (503, &b"{\"half\":"[..]));
}

/// A caller that judges an error response by its body has to know whether the body is complete.
#[tokio::test]
async fn a_refusal_tells_whether_its_body_is_whole() {
    let raw = RawServer::bind().await;
    for (answer, is_cut) in [
        (&b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"[..], false),
        (b"HTTP/1.1 404 No\r\ncontent-length: 2\r\n\r\nno", false),
        (b"HTTP/1.1 404 No\r\ncontent-length: 20\r\n\r\n", true),
        (b"HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n", true),
        (b"HTTP/1.1 404 No\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\n\x1f\x8b\x08", true),
        (b"HTTP/1.1 404 No\r\ncontent-encoding: rot13\r\ncontent-length: 2\r\n\r\nab", true),
        (b"HTTP/1.1 404 No\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n", false),
        (b"HTTP/1.1 404 No\r\ncontent-type: text/event-stream\r\ncontent-length: 20\r\n\r\ndata: 1", true),
        (
            b"HTTP/1.1 404 No\r\ncontent-type: text/event-stream\r\ncontent-length: 20\r\n\r\ndata: 1\n\n",
            false,
        ),
        // A keepalive event is no message.
        (
            b"HTTP/1.1 404 No\r\ncontent-type: text/event-stream\r\ncontent-length: 40\r\n\r\nevent: a\ndata: 1\n\n",
            true,
        ),
    ] {
        let link = link(&raw.url());
        let (result, ()) = tokio::join!(post(&link), raw.answer_once(answer));
        let text = String::from_utf8_lossy(answer);
        assert_eq!(result.unwrap().status_fault().evidence.body_is_cut, is_cut, "{text}");
    }
}

#[tokio::test]
async fn a_cut_stream_gives_what_came_and_then_says_so() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
        17\r\nid: 4\ndata: one\n\ndata: tw\r\n";
    let (result, ()) = tokio::join!(post(&link), raw.answer_once(answer));
    let mut events = body_events(result.unwrap());
    assert_eq!(events.next().await.unwrap().unwrap().data, "one");
    let fault = events.next().await.unwrap_err();
    assert_eq!((fault.cause, fault.execution), (Cause::Cut, Execution::Unknown));
    assert_eq!(events.last_event_id(), Some("4"));
    assert_eq!(events.next().await.unwrap(), None);
}

#[tokio::test]
async fn what_is_not_http_says_so() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let (result, ()) = tokio::join!(post(&link), raw.answer_once(b"220 mail.test ESMTP\r\n\r\n"));
    let fault = result.unwrap_err();
    assert_eq!(
        (fault.cause, fault.execution),
        (Cause::Protocol(Misbehavior::ContentType), Execution::Unknown)
    );
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_costs_nothing() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    // Three at once, so that three are kept.
    let (first, second, third, ()) = tokio::join!(post(&link), post(&link), post(&link), async {
        let mut peers = [raw.accept().await, raw.accept().await, raw.accept().await];
        for peer in &mut peers {
            peer.request().await;
        }
        for peer in &mut peers {
            peer.write(OK).await;
        }
        // And all three are closed here.
    });
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    settle().await;
    let (result, ()) = tokio::join!(post(&link), raw.answer_once(OK));
    assert_eq!(result.unwrap().status, 200);
}

#[tokio::test]
async fn a_kept_connection_that_was_spoken_on_is_not_used() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let (result, mut peer) = tokio::join!(post(&link), async {
        let mut peer = raw.accept().await;
        peer.request().await;
        peer.write(OK).await;
        peer
    });
    assert_eq!(result.unwrap().status, 200);
    // Not the response to anything: must not become the response to the next request.
    peer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\nevil").await;
    settle().await;
    let (result, ()) = tokio::join!(post(&link), raw.answer_once(OK));
    assert_eq!(body_json(result.unwrap()), "{}");
}

#[tokio::test]
async fn calls_one_after_the_other_use_one_connection() {
    let server = Server::start(async |seen| json(seen.body)).await;
    let link = server.link();
    for _ in 0..50 {
        assert_eq!(body_json(post(&link).await.unwrap()), "{}");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_the_same_time_use_as_many_connections_as_needed_and_no_more() {
    let all_there = Arc::new(Barrier::new(64));
    let server = Server::start(move |seen| {
        let all_there = Arc::clone(&all_there);
        async move {
            all_there.wait().await;
            json(seen.body)
        }
    })
    .await;
    let link = server.link();
    for _ in 0..3 {
        let mut calls = JoinSet::new();
        for n in 0..64 {
            let link = link.clone();
            calls.spawn(async move {
                let body = format!("{{\"id\":{n}}}");
                let answer = link.post(body.clone().into(), &HeaderMap::new()).await.unwrap();
                assert_eq!(body_json(answer), body);
            });
        }
        while let Some(call) = calls.join_next().await {
            call.unwrap();
        }
    }
    assert_eq!(server.connections(), 64);
}

#[tokio::test]
async fn a_server_may_not_want_to_keep_a_connection() {
    let server = Server::start(async |seen| {
        let name = if &*seen.body == b"close" { "connection" } else { "keep-alive" };
        with(json("{}"), name, if name == "connection" { "close" } else { "timeout=1" })
    })
    .await;
    for how in ["close", "timeout"] {
        let link = server.link();
        let before = server.connections();
        for _ in 0..2 {
            link.post(how.into(), &HeaderMap::new()).await.unwrap();
        }
        assert_eq!(server.connections() - before, 2, "{how}");
    }
}

#[tokio::test]
async fn a_connection_is_not_kept_for_ever() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let (result, mut peer) = tokio::join!(post(&link), async {
        let mut peer = raw.accept().await;
        peer.request().await;
        peer.write(OK).await;
        peer
    });
    result.unwrap();
    // From here on the clock jumps to the next timer whenever nothing else happens.
    tokio::time::pause();
    let hour = Duration::from_secs(3600);
    tokio::time::timeout(hour, peer.closed()).await.expect("closed long before");
    drop(link);
}

/// The newest one stays: it serves the next call, and tells when the server goes away.
#[tokio::test]
async fn a_burst_leaves_one_connection_behind() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let is_answered = Notify::new();
    let call = async || {
        post(&link).await.unwrap();
        is_answered.notify_one();
    };
    let ((), (), (mut older, mut newest)) = tokio::join!(call(), call(), async {
        let (mut older, mut newest) = (raw.accept().await, raw.accept().await);
        for peer in [&mut older, &mut newest] {
            peer.request().await;
            peer.write(OK).await;
            is_answered.notified().await;
        }
        (older, newest)
    });
    // From here on the clock jumps to the next timer whenever nothing else happens.
    tokio::time::pause();
    let soon = Duration::from_secs(30);
    tokio::time::timeout(soon, older.closed()).await.expect("closed long before");
    let ((), ()) = tokio::join!(call(), async {
        newest.request().await;
        newest.write(OK).await;
    });
}

// HM-12
#[tokio::test]
async fn hm_12_dropping_a_request_closes_its_connection() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let mut peer = {
        let asking = post(&link);
        tokio::select! {
            result = asking => panic!("{result:?}"),
            peer = async {
                let mut peer = raw.accept().await;
                peer.request().await;
                peer
            } => peer,
        }
    };
    peer.closed().await;
    // The next one is not disturbed.
    let (result, ()) = tokio::join!(post(&link), raw.answer_once(OK));
    assert_eq!(result.unwrap().status, 200);
}

// HM-12
#[tokio::test]
async fn hm_12_dropping_a_stream_closes_its_connection() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let (result, mut peer) = tokio::join!(post(&link), async {
        let mut peer = raw.accept().await;
        peer.request().await;
        peer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: one\n\n").await;
        peer
    });
    let mut events = body_events(result.unwrap());
    assert_eq!(events.next().await.unwrap().unwrap().data, "one");
    drop(events);
    peer.closed().await;
}

#[tokio::test]
async fn one_failure_is_not_the_others() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let (cut, answered, ()) = tokio::join!(post(&link), post(&link), async {
        let mut peers = [raw.accept().await, raw.accept().await];
        for peer in &mut peers {
            peer.request().await;
        }
        let [first, mut second] = peers;
        drop(first);
        second.write(OK).await;
    });
    let (cut, answered) = if cut.is_err() { (cut, answered) } else { (answered, cut) };
    assert_eq!(cut.unwrap_err().cause, Cause::Cut);
    assert_eq!(answered.unwrap().status, 200);
}
