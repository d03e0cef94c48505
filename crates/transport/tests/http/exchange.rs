//! Requests and responses: headers, bodies, limits, redirects, cookies.

use std::time::Duration;

use crate::support::raw::{RawServer, settle};
use crate::support::{
    Server, body_events, body_json, config, config_with, json, link, link_to, post, reply, stream, with,
};
use bowline_proto::fault::{Cause, Execution, Misbehavior};
use bowline_transport::http::{HttpLink, Limits, Proxies, ResponseBody};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};

// HT-01, HL-02
#[tokio::test]
async fn ht_01_every_request_has_its_headers() {
    let server = Server::start(async |_| json("{}")).await;
    let link = link_to(&config_with(&server.url(), &[("X-Key", "secret"), ("Authorization", "Bearer ours")]));
    let mut extra = HeaderMap::new();
    extra.insert("mcp-session-id", HeaderValue::from_static("s1"));
    extra.insert("authorization", HeaderValue::from_static("Bearer theirs"));
    link.post(Bytes::from_static(b"{\"a\":1}"), &extra).await.unwrap();
    link.get(&extra).await.unwrap();
    assert_eq!(link.delete(&extra).await.unwrap(), 200);

    let [posted, got, deleted] = server.seen().try_into().unwrap();
    assert_eq!((&posted.method, posted.uri.path()), (&Method::POST, "/mcp"));
    assert_eq!(posted.body, "{\"a\":1}");
    assert_eq!(posted.headers["content-type"], "application/json");
    assert_eq!(posted.headers["accept"], "application/json, text/event-stream");
    assert_eq!(
        (&got.method, &got.headers["accept"]),
        (&Method::GET, &HeaderValue::from_static("text/event-stream"))
    );
    assert_eq!(deleted.method, Method::DELETE);
    for seen in [posted, got, deleted] {
        let value = |name| seen.headers[name].to_str().unwrap();
        assert_eq!(value("host"), server.address.to_string());
        assert_eq!(value("accept-encoding"), "gzip");
        assert!(value("user-agent").starts_with("bowline/"));
        assert_eq!(value("x-key"), "secret");
        assert_eq!(value("mcp-session-id"), "s1");
        assert_eq!(value("authorization"), "Bearer ours");
    }
    let shown = format!("{link:?}");
    assert!(!shown.contains("secret") && !shown.contains("/mcp"), "{shown}");
}

#[tokio::test]
async fn ht_02_the_server_chooses_json_or_events() {
    let server = Server::start(async |seen| match &*seen.body {
        b"json" => reply(200, "application/json; charset=utf-8", "{\"id\":1}"),
        b"events" => {
            reply(200, "Text/Event-Stream; charset=utf-8", ": hello\n\nid: 7\ndata: {\"id\":\ndata: 1}\n\n")
        }
        _ => reply(200, "", "{\"id\":1}"),
    })
    .await;
    let link = server.link();
    let none = HeaderMap::new();
    for json in ["json", "unsaid"] {
        assert_eq!(body_json(link.post(json.into(), &none).await.unwrap()), "{\"id\":1}");
    }
    let mut events = body_events(link.post("events".into(), &none).await.unwrap());
    let event = events.next().await.unwrap().unwrap();
    assert_eq!((&*event.data, event.id.as_deref()), (&b"{\"id\":\n1}"[..], Some("7")));
    assert_eq!(events.next().await.unwrap(), None);
    assert_eq!(events.next().await.unwrap(), None);
    assert_eq!(events.last_event_id(), Some("7"));
    assert_eq!(server.connections(), 1, "the end of a stream gives its connection back");
}

#[tokio::test]
async fn ht_03_an_accepted_notification_has_no_body() {
    let server = Server::start(async |seen| match &*seen.body {
        b"plain" => reply(202, "", ""),
        b"text" => reply(202, "text/plain", "Accepted"),
        b"json" => reply(202, "application/json", "null"),
        b"none" => reply(204, "", ""),
        b"empty" => reply(200, "application/json", ""),
        _ => {
            let (pieces, reply) = stream(202, "text/plain");
            tokio::spawn(async move {
                pieces.send("never ends".into()).await.unwrap();
                pieces.closed().await;
            });
            reply
        }
    })
    .await;
    let link = server.link();
    for (body, status) in [("plain", 202), ("text", 202), ("json", 202), ("none", 204), ("empty", 200)] {
        let answer = link.post(body.into(), &HeaderMap::new()).await.unwrap();
        assert_eq!(answer.status, status);
        assert!(matches!(answer.body, ResponseBody::Empty), "{body}: {:?}", answer.body);
    }
    assert_eq!(server.connections(), 1);
    // A body that does not end is not waited for.
    let answer = link.post("endless".into(), &HeaderMap::new()).await.unwrap();
    assert!(matches!(answer.body, ResponseBody::Empty));
}

#[tokio::test]
async fn ht_03_a_body_that_was_announced_and_does_not_come_is_not_waited_for() {
    let raw = RawServer::bind().await;
    let link = link(&raw.url());
    let asking = tokio::spawn(async move { post(&link).await });
    let mut peer = raw.accept().await;
    peer.request().await;
    peer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 8\r\n\r\n").await;
    settle().await;
    // Nobody has anything to do any more but wait, so the clock jumps.
    tokio::time::pause();
    let limit = Duration::from_secs(10);
    let answer = tokio::time::timeout(limit, asking).await.expect("not waited for");
    assert_eq!(answer.unwrap().unwrap().status, 202);
    peer.closed().await;
}

#[tokio::test]
async fn ht_03_a_refusal_keeps_its_status_and_body() {
    const ERROR: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#;
    let server = Server::start(async |seen| match &*seen.body {
        b"json" => with(reply(400, "application/json", ERROR), "www-authenticate", "Bearer"),
        b"text" => reply(404, "text/plain", "gone"),
        b"nothing" => reply(405, "", ""),
        b"large" => reply(413, "application/json", vec![b'x'; 100_000]),
        b"unknown" => with(reply(500, "application/json", "?"), "content-encoding", "rot13"),
        _ => {
            let (pieces, reply) = stream(400, "text/event-stream");
            tokio::spawn(async move {
                pieces.send("id: 1\ndata:\n\n".into()).await.unwrap();
                pieces.send(format!("data: {ERROR}\n\n").into()).await.unwrap();
                // The stream stays open until the client leaves.
                pieces.closed().await;
            });
            reply
        }
    })
    .await;
    let link = server.link();
    let ask = async |body: &'static str| link.post(body.into(), &HeaderMap::new()).await.unwrap();

    let answer = ask("json").await;
    assert_eq!((answer.status, answer.header("WWW-Authenticate")), (400, Some("Bearer")));
    assert_eq!(body_json(answer), ERROR);
    let ResponseBody::Other(text) = ask("text").await.body else { panic!() };
    assert_eq!(text, "gone");
    let answer = ask("nothing").await;
    assert!(answer.status == 405 && matches!(answer.body, ResponseBody::Empty));
    let answer = ask("unknown").await;
    assert!(answer.status == 500 && matches!(answer.body, ResponseBody::Empty));
    // HT-05: readable, and bounded.
    let answer = ask("large").await;
    let ResponseBody::Other(text) = answer.body else { panic!() };
    assert_eq!((answer.status, text.len()), (413, 64 * 1024));
    // HM-11 and DE-07 read the error however it is framed.
    let answer = ask("events").await;
    assert_eq!(answer.status, 400);
    assert_eq!(body_json(answer), ERROR);
}

/// The body of an error response that is framed as events, however the stream continues.
#[tokio::test]
async fn a_refusal_counts_however_its_event_stream_ends() {
    const ERROR: &str = r#"{"error":{"code":-32600,"message":"Session not found"}}"#;
    for stays_open in [false, true] {
        for (written, json) in [
            (format!("event: message\ndata: {ERROR}"), true),
            (format!("event: message\r\ndata: {ERROR}\r\n"), true),
            (format!(": ping\n\nid: 1\ndata:\n\ndata: {ERROR}\r"), true),
            (format!("event: ping\ndata: {{}}\n\ndata: {ERROR}\n\n"), true),
            (ERROR.to_owned(), true),
            (format!(" {ERROR}\n"), true),
            ("Session not found".to_owned(), false),
            (": ping\n\n".to_owned(), false),
        ] {
            let sent = written.clone();
            let (tell, mut told) = tokio::sync::mpsc::channel(1);
            let server = Server::start(move |_| {
                let (sent, tell) = (sent.clone(), tell.clone());
                async move {
                    let (pieces, reply) = stream(404, "text/event-stream");
                    tokio::spawn(async move {
                        pieces.send(sent.into()).await.unwrap();
                        if stays_open {
                            tell.send(()).await.unwrap();
                            pieces.closed().await;
                        }
                    });
                    reply
                }
            })
            .await;
            let link = server.link();
            let asking = tokio::spawn(async move { post(&link).await });
            if stays_open {
                told.recv().await.unwrap();
                settle().await;
                // Nobody has anything to do any more but wait, so the clock jumps.
                tokio::time::pause();
            }
            let limit = Duration::from_secs(10);
            let answer = tokio::time::timeout(limit, asking).await.expect("not waited for");
            if stays_open {
                tokio::time::resume();
            }
            let answer = answer.unwrap().unwrap();
            assert_eq!(answer.status, 404);
            match answer.body {
                ResponseBody::Json(body) => {
                    assert!(json && body.trim_ascii() == ERROR.as_bytes(), "{written:?}: {body:?}");
                }
                ResponseBody::Other(body) => assert!(!json && body == written, "{written:?}: {body:?}"),
                other => panic!("{written:?}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn something_else_is_given_as_its_first_bytes() {
    let server = Server::start(async |_| reply(200, "text/html", vec![b'h'; 70_000])).await;
    let ResponseBody::Other(body) = post(&server.link()).await.unwrap().body else { panic!() };
    assert_eq!(body.len(), 64 * 1024);
}

#[tokio::test]
async fn a_large_body_is_whole_however_it_was_sent() {
    let large: Bytes = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = large.clone();
    let server = Server::start(move |seen| {
        let sent = sent.clone();
        async move {
            if &*seen.body == b"length" {
                return json(sent);
            }
            let (pieces, reply) = stream(200, "application/json");
            tokio::spawn(async move {
                for piece in sent.chunks(77_777) {
                    pieces.send(Bytes::copy_from_slice(piece)).await.unwrap();
                }
            });
            reply
        }
    })
    .await;
    let link = server.link();
    for how in ["length", "chunked", "length"] {
        assert!(body_json(link.post(how.into(), &HeaderMap::new()).await.unwrap()) == large, "{how}");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let server = Server::start(async |seen| match &*seen.body {
        b"length" => json(vec![b'x'; 1001]),
        b"fits" => json(vec![b'x'; 1000]),
        _ => {
            let (pieces, reply) = stream(200, "application/json");
            // Sends until the client closes.
            tokio::spawn(async move { while pieces.send(vec![b'x'; 100].into()).await.is_ok() {} });
            reply
        }
    })
    .await;
    let limits = Limits { body: 1000, ..Limits::default() };
    let link = HttpLink::with_proxies(&config(&server.url()), limits, &Proxies::Direct).unwrap();
    for how in ["length", "chunked"] {
        let fault = link.post(how.into(), &HeaderMap::new()).await.unwrap_err();
        assert_eq!(fault.cause, Cause::Protocol(Misbehavior::TooLarge { limit: 1000 }), "{how}");
        assert_eq!(fault.execution, Execution::Unknown);
    }
    // Only that request fails.
    assert_eq!(body_json(link.post("fits".into(), &HeaderMap::new()).await.unwrap()).len(), 1000);
}

#[tokio::test]
async fn an_event_over_the_limit_leaves_the_stream_usable() {
    let events = format!("data: {}\n\ndata: after\n\n", "x".repeat(2000));
    let server = Server::start(move |_| {
        let events = events.clone();
        async { reply(200, "text/event-stream", events) }
    })
    .await;
    let limits = Limits { event: 1000, ..Limits::default() };
    let link = HttpLink::with_proxies(&config(&server.url()), limits, &Proxies::Direct).unwrap();
    let mut events = body_events(post(&link).await.unwrap());
    let fault = events.next().await.unwrap_err();
    assert_eq!(fault.cause, Cause::Protocol(Misbehavior::TooLarge { limit: 1000 }));
    assert_eq!(events.next().await.unwrap().unwrap().data, "after");
    assert_eq!(events.next().await.unwrap(), None);
}

#[tokio::test]
async fn events_come_as_they_are_sent() {
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    let server = Server::start(move |_| {
        let tell = tell.clone();
        async move {
            let (pieces, reply) = stream(200, "text/event-stream");
            tell.send(pieces).await.unwrap();
            reply
        }
    })
    .await;
    let mut events = body_events(server.link().get(&HeaderMap::new()).await.unwrap());
    let pieces = told.recv().await.unwrap();
    pieces.send("data: one\n\nda".into()).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().data, "one");
    // Dropping `next` while half an event is there loses nothing.
    pieces.send("ta: t".into()).await.unwrap();
    tokio::select! {
        biased;
        event = events.next() => panic!("{event:?}"),
        () = settle() => {}
    }
    pieces.send("wo\r\n\r\n".into()).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().data, "two");
    drop(pieces);
    assert_eq!(events.next().await.unwrap(), None);
}

#[tokio::test]
async fn redirects_stay_within_the_origin() {
    let server = Server::start(async |seen| {
        let away = |status, to: &str| with(reply(status, "", ""), "location", to);
        match seen.uri.path() {
            "/mcp" => away(307, "/second?token=1"),
            "/second" => away(308, "third"),
            "/third" => json(seen.body),
            "/loop" => away(307, "/loop"),
            "/see-other" => away(303, "/third"),
            "/moved" => away(301, "/third"),
            "/elsewhere" => away(307, "https://elsewhere.test/steal?token=secret"),
            "/nowhere" => reply(302, "", ""),
            _ => reply(404, "", ""),
        }
    })
    .await;
    let link = server.link();
    let answer = link.post("body".into(), &HeaderMap::new()).await.unwrap();
    assert_eq!(body_json(answer), "body");
    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.method == Method::POST && seen.body == "body"));
    assert_eq!(seen[1].uri, "/second?token=1");
    assert_eq!(server.connections(), 1);

    let refused = async |path: &str| post(&link.join_url(path).unwrap()).await.unwrap_err();
    let origin = format!("http://{}", server.address);
    for (path, location, execution) in [
        ("/loop", format!("{origin}/loop"), Execution::NotExecuted),
        ("/see-other", format!("{origin}/third"), Execution::Unknown),
        ("/moved", format!("{origin}/third"), Execution::Unknown),
        ("/elsewhere", "https://elsewhere.test/steal".to_owned(), Execution::NotExecuted),
    ] {
        let fault = refused(path).await;
        assert_eq!(fault.cause, Cause::Redirect { location }, "{path}");
        assert_eq!(fault.execution, execution, "{path}");
        assert!(fault.evidence.note.is_some(), "{path}");
    }
    // A POST is not turned into a GET, but a GET may be redirected by any of them.
    assert_eq!(link.join_url("/moved").unwrap().get(&HeaderMap::new()).await.unwrap().status, 200);
    // Without a location it is a response like any other.
    assert_eq!(post(&link.join_url("/nowhere").unwrap()).await.unwrap().status, 302);
}

#[tokio::test]
async fn hs_02_another_endpoint_must_be_of_the_same_origin() {
    let server = Server::start(async |seen| json(seen.uri.to_string())).await;
    let link = server.link();
    for endpoint in
        ["/messages?sessionId=1".to_owned(), format!("http://{}/messages?sessionId=1", server.address)]
    {
        let answer = post(&link.join_url(&endpoint).unwrap()).await.unwrap();
        assert_eq!(body_json(answer), "/messages?sessionId=1");
    }
    assert!(matches!(link.join_url("http://elsewhere.test/").unwrap_err().cause, Cause::Redirect { .. }));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn cookies_are_kept_until_the_session_ends() {
    let server = Server::start(async |seen| {
        let cookie = seen.headers.get("cookie").map_or("none", |value| value.to_str().unwrap()).to_owned();
        with(
            with(json(cookie), "set-cookie", "lb=a1; Path=/; HttpOnly"),
            "set-cookie",
            "other=2; Domain=elsewhere.test",
        )
    })
    .await;
    let link = server.link();
    let cookies = async || body_json(post(&link).await.unwrap());
    assert_eq!(cookies().await, "none");
    assert_eq!(cookies().await, "lb=a1");
    link.clear_cookies();
    assert_eq!(cookies().await, "none");
}

/// The buffer of a large body is reused for the next one when nobody holds the first any more, and
/// released when none follows.
#[tokio::test]
async fn memory_of_a_large_body_is_used_again() {
    let server = Server::start(async |_| json(format!("[{}]", " ".repeat(600_000)))).await;
    let link = server.link();
    let first = body_json(post(&link).await.unwrap());
    let second = body_json(post(&link).await.unwrap());
    assert_ne!(second.as_ptr(), first.as_ptr(), "the first is still held");
    assert!(first.starts_with(b"[ ") && first.ends_with(b" ]"));
    let place = second.as_ptr();
    drop(second);
    let third = body_json(post(&link).await.unwrap());
    assert_eq!((third.as_ptr(), third.len()), (place, 600_002));
    assert!(!third.is_unique(), "it is kept");
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(third.is_unique());
}
