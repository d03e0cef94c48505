//! Opening HTTP+SSE, from both sides. How endpoints are resolved is tested beside the code.

use std::sync::Arc;
use std::time::Duration;

use crate::support::raw::{RawServer, settle};
use crate::support::{Server, config, config_with, link, link_to, reply, stream, with};
use bowline_proto::fault::{Cause, Execution, Fault, Limit, Misbehavior, Recovery};
use bowline_transport::http::{HttpLink, Limits, Proxies, ResponseBody, open_sse};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::Notify;

const SSE: &str = "text/event-stream";
const ENDPOINT: &str = "event: endpoint\ndata: /messages?session_id=s3cret\n\n";

/// A server that answers every GET with these events and then ends the stream.
async fn server_with_events(events: &'static str) -> Server {
    Server::start(move |_| async move { reply(200, SSE, events) }).await
}

async fn expect_refusal(link: &HttpLink) -> Fault {
    let fault = open_sse(link, &HeaderMap::new()).await.expect_err("it is refused");
    assert_eq!(fault.execution, Execution::NotExecuted, "{fault}");
    assert!(!format!("{fault:?} {fault}").contains("s3cret"), "{fault:?}");
    fault
}

// HS-02, HS-03: credentials go on both, and so do a load balancer's cookies.
#[tokio::test]
async fn hs_02_messages_go_to_the_endpoint_and_come_on_the_stream() {
    let (pieces, opened) = stream(200, SSE);
    let opened = parking_lot::Mutex::new(Some(with(opened, "set-cookie", "node=7; Path=/")));
    let server = Server::start(move |seen| {
        let stream = (seen.method == Method::GET).then(|| opened.lock().take().unwrap());
        async move { stream.unwrap_or_else(|| reply(202, "text/plain", "Accepted")) }
    })
    .await;
    pieces.send(ENDPOINT.into()).await.unwrap();
    let link = link_to(&config_with(&server.url(), &[("X-Key", "hunter2")]));
    let extra = HeaderMap::from_iter([("x-extra".parse().unwrap(), HeaderValue::from_static("1"))]);
    let mut sse = open_sse(&link, &extra).await.unwrap();
    let answer = sse.post.post(Bytes::from_static(b"{\"id\":1}"), &HeaderMap::new()).await.unwrap();
    assert_eq!(answer.status, 202);

    let [got, posted] = server.seen().try_into().unwrap();
    assert_eq!((&got.method, got.uri.path()), (&Method::GET, "/mcp"));
    assert_eq!(got.headers["accept"], SSE);
    assert_eq!(got.headers["x-extra"], "1");
    assert_eq!(
        (&posted.method, posted.uri.to_string()),
        (&Method::POST, "/messages?session_id=s3cret".into())
    );
    assert_eq!(posted.body, "{\"id\":1}");
    assert_eq!(posted.headers["content-type"], "application/json");
    assert_eq!(posted.headers["cookie"], "node=7");
    for headers in [got.headers, posted.headers] {
        assert_eq!(headers["x-key"], "hunter2");
    }

    pieces.send("event: message\ndata: {\"id\":1}\n\n".into()).await.unwrap();
    let message = sse.events.next().await.unwrap().unwrap();
    assert_eq!((message.name, &*message.data), (None, &b"{\"id\":1}"[..]));
    let shown = format!("{sse:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("messages"), "{shown}");

    // HS-03: dropping the stream ends the session for the server too.
    drop(sse);
    pieces.closed().await;
}

#[tokio::test]
async fn what_comes_before_the_endpoint_is_let_go_and_what_comes_after_is_kept() {
    let server = server_with_events(concat!(
        ": welcome\n\n",
        "retry: 3000\n\n",
        "event: ping\ndata: 2026-01-01\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n",
        "event: endpoint\ndata: /first\n\n",
        "data: {}\n\n",
        "event: endpoint\ndata: /second\n\n",
    ))
    .await;
    let mut sse = open_sse(&server.link(), &HeaderMap::new()).await.unwrap();
    sse.post.post(Bytes::new(), &HeaderMap::new()).await.unwrap();
    assert_eq!(server.seen()[1].uri.path(), "/first");
    let message = sse.events.next().await.unwrap().unwrap();
    assert_eq!((message.name.as_deref(), &*message.data), (None, &b"{}"[..]));
    let second = sse.events.next().await.unwrap().unwrap();
    assert_eq!((second.name.as_deref(), &*second.data), (Some("endpoint"), &b"/second"[..]));
    assert_eq!(sse.events.next().await.unwrap(), None);
}

// HS-02: the configured URL counts, even if it was redirected.
#[tokio::test]
async fn hs_02_the_stream_may_be_redirected_within_the_origin() {
    let server = Server::start(async |seen| match seen.uri.path() {
        "/mcp" => with(reply(307, "", ""), "location", "/moved/sse"),
        "/moved/sse" => reply(200, SSE, "event: endpoint\ndata: messages?s=1\n\n"),
        _ => reply(202, "", ""),
    })
    .await;
    let sse = open_sse(&server.link(), &HeaderMap::new()).await.unwrap();
    sse.post.post(Bytes::new(), &HeaderMap::new()).await.unwrap();
    assert_eq!(server.seen().last().unwrap().uri, "/messages?s=1");
}

// HS-02: nothing is posted to another origin, though it is reachable.
#[tokio::test]
async fn hs_02_an_endpoint_of_another_origin_is_refused() {
    let other = Server::start(async |_| reply(202, "", "")).await;
    let event = format!("event: endpoint\ndata: http://{}/m/s3cret?s=s3cret\n\n", other.address);
    let server = Server::start(move |_| {
        let event = event.clone();
        async move { reply(200, SSE, event) }
    })
    .await;
    let fault = expect_refusal(&server.link()).await;
    let foreign = Misbehavior::ForeignEndpoint { origin: format!("http://{}/", other.address) };
    assert_eq!(fault.cause, Cause::Protocol(foreign));
    assert_eq!(fault.recovery(), Recovery::GiveUp);
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn a_refused_get_keeps_its_status_and_body() {
    let server = Server::start(async |seen| match seen.uri.query().unwrap() {
        "405" => with(reply(405, "", ""), "allow", "POST"),
        "404" => reply(404, "text/html", "<h1>nothing here</h1>"),
        "400" => reply(400, "application/json", "{\"error\":\"no\"}"),
        "503" => with(reply(503, "text/plain", "later"), "retry-after", "7"),
        "403" => reply(403, "", ""),
        "401" => with(reply(401, "text/plain", "who?"), "www-authenticate", "Bearer realm=\"x\""),
        _ => with(reply(403, "", ""), "www-authenticate", "Bearer"),
    })
    .await;
    let status = |code, retry_after: Option<u64>| Cause::Status {
        code,
        retry_after: retry_after.map(Duration::from_secs),
    };
    let login = |code, challenge: &str| Cause::LoginRequired { code, challenge: vec![challenge.into()] };
    for (query, cause, body) in [
        ("405", status(405, None), None),
        ("404", status(404, None), Some("<h1>nothing here</h1>")),
        ("400", status(400, None), Some("{\"error\":\"no\"}")),
        ("503", status(503, Some(7)), Some("later")),
        ("403", status(403, None), None),
        ("401", login(401, "Bearer realm=\"x\""), Some("who?")),
        ("scope", login(403, "Bearer"), None),
    ] {
        let fault = expect_refusal(&link(&format!("{}?{query}", server.url()))).await;
        assert_eq!((&fault.cause, fault.evidence.body.as_deref()), (&cause, body), "{query}");
    }
}

#[tokio::test]
async fn a_success_that_is_no_stream_is_refused() {
    let server = Server::start(async |seen| match seen.uri.query().unwrap() {
        "json" => reply(200, "application/json", "{\"ok\":true}"),
        "html" => reply(200, "text/html", "<h1>app</h1>"),
        "empty" => reply(200, "", ""),
        _ => reply(204, "", ""),
    })
    .await;
    for (query, status, body) in [
        ("json", 200, Some("{\"ok\":true}")),
        ("html", 200, Some("<h1>app</h1>")),
        ("empty", 200, None),
        ("none", 204, None),
    ] {
        let fault = expect_refusal(&link(&format!("{}?{query}", server.url()))).await;
        assert_eq!(fault.cause, Cause::Protocol(Misbehavior::ContentType), "{query}");
        assert_eq!(fault.evidence.body.as_deref(), body, "{query}");
        assert!(fault.to_string().contains(&status.to_string()), "{fault}");
    }
}

#[tokio::test]
async fn a_stream_without_an_endpoint_is_refused() {
    let missing = Cause::Protocol(Misbehavior::NoAnswer);
    for events in ["", ": nothing\n\n", "data: {}\n\n", "event: endpoint\ndata: /half?s=s3cret\n"] {
        assert_eq!(
            expect_refusal(&server_with_events(events).await.link()).await.cause,
            missing,
            "{events:?}"
        );
    }
    // An event without data does not count.
    assert_eq!(expect_refusal(&server_with_events("event: endpoint\n\n").await.link()).await.cause, missing);
    let fault = expect_refusal(&server_with_events("event: endpoint\ndata:\n\n").await.link()).await;
    assert_eq!(fault.cause, Cause::Protocol(Misbehavior::BadResult));
}

#[tokio::test]
async fn a_stream_of_another_kind_is_not_listened_to_for_long() {
    let (pieces, opened) = stream(200, SSE);
    let opened = parking_lot::Mutex::new(Some(opened));
    let server = Server::start(move |_| {
        let opened = opened.lock().take().unwrap();
        async move { opened }
    })
    .await;
    let ticker = async { while pieces.send("event: price\ndata: 7\n\n".into()).await.is_ok() {} };
    let link = server.link();
    let (fault, ()) = tokio::join!(expect_refusal(&link), ticker);
    assert_eq!(fault.cause, Cause::Protocol(Misbehavior::NoAnswer));
}

#[tokio::test]
async fn a_stream_that_is_cut_before_the_endpoint_is_a_cut() {
    let raw = RawServer::bind().await;
    let head =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nevent";
    let link = link(&raw.url());
    let (fault, ()) = tokio::join!(expect_refusal(&link), raw.answer_once(head));
    assert_eq!(fault.cause, Cause::Cut);
}

#[tokio::test]
async fn an_endpoint_over_the_limit_of_events_is_not_shown() {
    let server = server_with_events("event: endpoint\ndata: /messages?session_id=s3cret\n\n").await;
    let limits = Limits { event: 40, ..Limits::default() };
    let link = HttpLink::with_proxies(&config(&server.url()), limits, &Proxies::Direct).unwrap();
    let fault = expect_refusal(&link).await;
    assert_eq!(fault.cause, Cause::Protocol(Misbehavior::TooLarge { limit: 40 }));
    assert_eq!(fault.evidence.body, None);
}

/// The connect timeout bounds the whole opening: also for a server that accepts and sends nothing,
/// or nothing that matters.
#[tokio::test]
async fn silence_ends_at_the_connect_limit() {
    for silent in ["before the head", "after the head"] {
        let asked = Arc::new(Notify::new());
        let told = Arc::clone(&asked);
        let server = Server::start(move |_| {
            let told = Arc::clone(&told);
            async move {
                let (pieces, opened) = stream(200, SSE);
                tokio::spawn(async move {
                    pieces.send(": ping\n\n".into()).await.unwrap();
                    pieces.closed().await;
                });
                told.notify_one();
                if silent == "before the head" { std::future::pending().await } else { opened }
            }
        })
        .await;
        let link = server.link();
        let opening = tokio::spawn(async move { expect_refusal(&link).await });
        asked.notified().await;
        settle().await;
        // Nobody has anything to do any more but wait, so the clock jumps.
        tokio::time::pause();
        assert_eq!(opening.await.unwrap().cause, Cause::Timeout(Limit::Connect), "{silent}");
        tokio::time::resume();
    }
}

/// Servers differ in how they accept a message, and some respond at once.
#[tokio::test]
async fn any_success_says_that_a_message_was_taken() {
    let server = Server::start(async |seen| match &*seen.body {
        b"" => reply(200, SSE, ENDPOINT),
        b"text" => reply(200, "text/plain", "Accepted"),
        b"unsaid" => reply(200, "", "Accepted"),
        b"accepted" => reply(202, "text/plain", "Accepted"),
        b"none" => reply(204, "", ""),
        _ => reply(200, "application/json", "{\"id\":1}"),
    })
    .await;
    let sse = open_sse(&server.link(), &HeaderMap::new()).await.unwrap();
    for (message, status, body) in [
        ("text", 200, "Accepted"),
        ("unsaid", 200, "Accepted"),
        ("accepted", 202, ""),
        ("none", 204, ""),
        ("answered", 200, "{\"id\":1}"),
    ] {
        let answer = sse.post.post(message.into(), &HeaderMap::new()).await.unwrap();
        let found = match answer.body {
            ResponseBody::Json(body) | ResponseBody::Other(body) => body,
            ResponseBody::Empty | ResponseBody::Events(_) => Bytes::new(),
        };
        assert_eq!((answer.status, found), (status, body.into()), "{message}");
    }
}
