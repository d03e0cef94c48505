//! Single requests: limits, redirects, and which headers reach whom.

use std::time::Duration;

use crate::support::proxy::tunnel_once;
use crate::support::raw::RawServer;
use crate::support::tls::{Authority, ClientAuth};
use crate::support::{RecordedRequest, Server, json, reply, stream, with};
use bowline_config::Tls;
use bowline_proto::fault::{Cause, Limit, Misbehavior};
use bowline_transport::http::{
    AddressSource, FetchError, FetchLimits, Fetcher, Proxies, RefusalReason, SendFence, SendWindow, Zone,
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Version};

const FROM_LOCAL_SERVER: AddressSource = AddressSource::Server(Zone::Loopback);

fn fetch() -> Fetcher {
    Fetcher::new(Tls::default(), Proxies::Direct)
}

fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

#[track_caller]
fn cause(error: FetchError) -> Cause {
    match error {
        FetchError::Failed(fault) => fault.cause,
        FetchError::Refused(refusal) => panic!("{refusal}"),
    }
}

#[tokio::test]
async fn one_request_over_a_connection_of_its_own() {
    let server = Server::start(async |seen: RecordedRequest| with(json(seen.body), "x-seen", "yes")).await;
    let fetch = fetch();
    for n in 1..=2 {
        let request = Request::post(server.url()).header("content-type", "text/plain").body("hello".into());
        let response = fetch.send(request.unwrap(), FROM_LOCAL_SERVER).await.unwrap();
        assert_eq!((response.status().as_u16(), &response.body()[..]), (200, &b"hello"[..]));
        assert_eq!(response.headers()["x-seen"], "yes");
        assert_eq!(server.connections(), n);
    }
    let seen = &server.seen()[0];
    assert_eq!((&seen.method, seen.uri.path()), (&Method::POST, "/mcp"));
    assert_eq!(seen.headers["content-type"], "text/plain");
    assert_eq!(seen.headers["host"], server.address.to_string());
    assert!(seen.headers["user-agent"].to_str().unwrap().starts_with("bowline/"));
}

#[tokio::test]
async fn every_status_is_an_answer() {
    let server = Server::start(async |seen: RecordedRequest| {
        let code = seen.uri.path()[1..].parse().unwrap();
        reply(code, "text/html", vec![b'x'; 300 * 1024])
    })
    .await;
    for code in [400, 401, 404, 429, 500, 503] {
        let response =
            fetch().send(get(&format!("http://{}/{code}", server.address)), FROM_LOCAL_SERVER).await.unwrap();
        assert_eq!(response.status().as_u16(), code);
        assert!((1..=64 * 1024).contains(&response.body().len()), "{}", response.body().len());
    }
}

#[tokio::test]
async fn bodies_are_decompressed_and_bounded_by_what_comes_out() {
    let server = Server::start(async |seen: RecordedRequest| {
        // A megabyte of zeros in 1,051 bytes, and `{}`.
        let body = if seen.uri.path() == "/bomb" { bomb().await } else { compressed(b"{}").await };
        with(json(body), "content-encoding", "gzip")
    })
    .await;
    let at = |path| get(&format!("http://{}{path}", server.address));
    let response = fetch().send(at("/small"), FROM_LOCAL_SERVER).await.unwrap();
    assert_eq!(&response.body()[..], b"{}");
    assert!(!response.headers().contains_key("content-encoding"));
    let error = fetch().send(at("/bomb"), FROM_LOCAL_SERVER).await.unwrap_err();
    assert_eq!(cause(error), Cause::Protocol(Misbehavior::TooLarge { limit: 256 * 1024 }));
}

async fn bomb() -> Vec<u8> {
    compressed(&vec![0; 1024 * 1024]).await
}

async fn compressed(bytes: &[u8]) -> Vec<u8> {
    use async_compression::tokio::bufread::GzipEncoder;
    use tokio::io::AsyncReadExt;
    let mut out = Vec::new();
    GzipEncoder::new(bytes).read_to_end(&mut out).await.unwrap();
    out
}

#[tokio::test]
async fn an_oversized_body_is_refused_and_not_shown() {
    for announced in [true, false] {
        let server = Server::start(move |_| async move {
            let body = Bytes::from("s3cret".repeat(50_000));
            if announced {
                return json(body);
            }
            let (pieces, reply) = stream(200, "application/json");
            tokio::spawn(async move { while pieces.send(body.slice(..10_000)).await.is_ok() {} });
            reply
        })
        .await;
        let error = fetch().send(get(&server.url()), FROM_LOCAL_SERVER).await.unwrap_err();
        assert!(!format!("{error:?} {error}").contains("s3cret"));
        assert_eq!(cause(error), Cause::Protocol(Misbehavior::TooLarge { limit: 256 * 1024 }));
    }
    // As much as is allowed.
    let server = Server::start(async |_| json(vec![b' '; 256 * 1024])).await;
    assert_eq!(fetch().send(get(&server.url()), FROM_LOCAL_SERVER).await.unwrap().body().len(), 256 * 1024);
}

#[tokio::test]
async fn a_slow_body_costs_no_more_than_the_limit() {
    let (started, mut waiting) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(move |_| {
        let (pieces, reply) = stream(200, "application/json");
        pieces.try_send("{".into()).unwrap();
        started.send(pieces).unwrap();
        std::future::ready(reply)
    })
    .await;
    let limits = FetchLimits { total: Duration::from_millis(200), ..FetchLimits::default() };
    let error = fetch().limits(limits).send(get(&server.url()), FROM_LOCAL_SERVER).await.unwrap_err();
    assert_eq!(cause(error), Cause::Timeout(Limit::Idle));
    // And the connection is closed.
    waiting.recv().await.unwrap().closed().await;
}

#[tokio::test]
async fn a_silent_server_costs_no_more_than_the_limit() {
    let raw = RawServer::bind().await;
    let limits = FetchLimits { total: Duration::from_millis(100), ..FetchLimits::default() };
    let fetch = fetch().limits(limits);
    let (sent, _peer) = tokio::join!(fetch.send(get(&raw.url()), FROM_LOCAL_SERVER), raw.accept());
    assert_eq!(cause(sent.unwrap_err()), Cause::Timeout(Limit::Idle));
    drop(raw);
    let free = RawServer::bind().await.url();
    assert_eq!(cause(fetch.send(get(&free), FROM_LOCAL_SERVER).await.unwrap_err()), Cause::Refused);
}

// TK-02
#[tokio::test]
async fn tk_02_a_redirect_to_another_origin_carries_no_authorization() {
    let other = Server::start(async |_| json("{}")).await;
    let elsewhere = other.url();
    let server = Server::start(move |seen: RecordedRequest| {
        let location = if seen.uri.path() == "/mcp" { "/second" } else { &*elsewhere };
        std::future::ready(with(reply(302, "", ""), "location", location))
    })
    .await;
    let request = Request::get(server.url())
        .header("authorization", "Bearer s3cret")
        .header("cookie", "s3cret")
        .header("x-api-key", "s3cret")
        .header("user-agent", "configured")
        .header("accept", "application/json")
        .header("mcp-protocol-version", "2025-11-25")
        .body(Bytes::new());
    assert_eq!(fetch().send(request.unwrap(), FROM_LOCAL_SERVER).await.unwrap().status(), 200);
    for seen in server.seen() {
        assert_eq!(seen.headers["authorization"], "Bearer s3cret");
        assert_eq!(seen.headers["x-api-key"], "s3cret");
    }
    assert_eq!(server.seen().len(), 2);
    let headers: HeaderMap = other.seen()[0].headers.clone();
    assert!(!format!("{headers:?}").contains("s3cret") && !headers.contains_key("authorization"));
    assert_ne!(headers["user-agent"], "configured");
    assert_eq!(headers["accept"], "application/json");
    assert_eq!(headers["mcp-protocol-version"], "2025-11-25");
}

#[tokio::test]
async fn only_a_get_is_redirected_and_not_for_ever() {
    let server = Server::start(async |seen: RecordedRequest| {
        let code = if seen.method == Method::GET { 302 } else { 307 };
        with(reply(code, "", ""), "location", "/again")
    })
    .await;
    let error = fetch().send(get(&server.url()), FROM_LOCAL_SERVER).await.unwrap_err();
    assert!(matches!(cause(error), Cause::Redirect { .. }));
    assert_eq!(server.seen().len(), 4, "the first, and three redirects");
    for (n, method) in [(5, Method::POST), (6, Method::PUT), (7, Method::DELETE)] {
        let request = Request::builder().method(method).uri(server.url()).body("secret".into()).unwrap();
        let response = fetch().send(request, FROM_LOCAL_SERVER).await.unwrap();
        assert_eq!((response.status().as_u16(), server.seen().len()), (307, n));
    }
}

#[tokio::test]
async fn a_client_certificate_is_for_one_origin() {
    let authority = Authority::new();
    let certified = || authority.server(&[b"h2", b"http/1.1"], ClientAuth::Certified);
    let own = Server::start_with(Some(certified()), async |_| json("{}")).await;
    let other = Server::start_with(Some(certified()), async |_| json("{}")).await;
    let url = |server: &Server| format!("https://{}/", server.address);
    let fetch =
        Fetcher::new(authority.client(), Proxies::Direct).with_certificate_for(&url(&own).parse().unwrap());
    assert_eq!(fetch.send(get(&url(&own)), FROM_LOCAL_SERVER).await.unwrap().status(), 200);
    assert_eq!(own.seen()[0].version, Version::HTTP_2);
    assert_eq!(cause(fetch.send(get(&url(&other)), FROM_LOCAL_SERVER).await.unwrap_err()), Cause::Tls);
    // With a `Host` header of the caller, over HTTP/1.1.
    let named = Request::get(url(&own)).header("host", "other.test").body(Bytes::new()).unwrap();
    assert_eq!(fetch.send(named, AddressSource::User).await.unwrap().status(), 200);
    assert_eq!(own.seen()[1].version, Version::HTTP_11);
    assert_eq!(own.seen()[1].headers["host"], "other.test");
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn goes_through_the_proxies_of_the_server() {
    let authority = Authority::new();
    let server = Server::start_with(Some(authority.server(&[], ClientAuth::Any)), async |_| json("{}")).await;
    let raw = RawServer::bind().await;
    let proxies = Proxies::Fixed { http: String::new(), https: raw.url(), bypass: String::new() };
    let fetch = Fetcher::new(authority.trust(), proxies);
    // The user chose the proxy, also when a server chose the address.
    let request = get("https://server.test/");
    let (sent, head) = tokio::join!(
        fetch.send(request, AddressSource::Server(Zone::Public)),
        tunnel_once(&raw, server.address)
    );
    assert_eq!(sent.unwrap().status(), 200);
    assert!(head.starts_with("CONNECT server.test:443 "), "{head}");
}

/// A request that waits for a fence.
fn fenced_request(url: &str, fence: &SendFence) -> Request<Bytes> {
    let mut request = Request::post(url).body("refresh_token=once".into()).unwrap();
    request.extensions_mut().insert(fence.clone());
    request
}

/// The connection is made before permission is requested, and nothing of the request is on it by
/// then.
#[tokio::test]
async fn a_fenced_request_leaves_when_it_may_on_a_connection_that_is_there() {
    let server = Server::start(async |seen: RecordedRequest| json(seen.body)).await;
    let fence = SendFence::new(Duration::from_secs(20));
    let (fetch, request) = (fetch(), fenced_request(&server.url(), &fence));
    let opening = async {
        fence.wait_for_request().await;
        assert_eq!((server.connections(), server.seen().len()), (1, 0));
        fence.open(SendWindow::new(Duration::from_secs(10)));
    };
    let (answer, ()) = tokio::join!(fetch.send(request, FROM_LOCAL_SERVER), opening);
    assert_eq!(&answer.unwrap().body()[..], b"refresh_token=once");
    assert_eq!((server.connections(), server.seen().len()), (1, 1));
    assert!(!fence.was_missed());
}

#[tokio::test]
async fn a_fenced_request_that_may_not_leave_does_not() {
    let server = Server::start(async |seen: RecordedRequest| json(seen.body)).await;
    let fence = SendFence::new(Duration::from_secs(20));
    let (fetch, request) = (fetch(), fenced_request(&server.url(), &fence));
    let closing = async {
        fence.wait_for_request().await;
        fence.close();
    };
    let (answer, ()) = tokio::join!(fetch.send(request, FROM_LOCAL_SERVER), closing);
    assert_eq!(cause(answer.unwrap_err()), Cause::Closed);
    assert!(server.seen().is_empty() && !fence.was_missed());
}

/// The program was stopped after it was allowed to send.
#[tokio::test]
async fn a_fenced_request_that_comes_too_late_does_not_leave() {
    let authority = Authority::new();
    let plain = Server::start(async |seen: RecordedRequest| json(seen.body)).await;
    let acceptor = authority.server(&[b"h2"], ClientAuth::Any);
    let shared = Server::start_with(Some(acceptor), async |seen: RecordedRequest| json(seen.body)).await;
    let secure = format!("https://{}/", shared.address);
    for (server, url, tls) in [(&plain, plain.url(), Tls::default()), (&shared, secure, authority.trust())] {
        let fence = SendFence::new(Duration::from_secs(20));
        let fetch = Fetcher::new(tls, Proxies::Direct);
        let request = fenced_request(&url, &fence);
        let opening = async {
            fence.wait_for_request().await;
            fence.open(SendWindow::new(Duration::ZERO));
        };
        let (answer, ()) = tokio::join!(fetch.send(request, FROM_LOCAL_SERVER), opening);
        assert!(matches!(answer, Err(FetchError::Failed(_))), "{answer:?}");
        assert!(fence.was_missed());
        let bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
        assert!(bodies.iter().all(|body| !body.starts_with(b"refresh_token")), "{bodies:?}");
    }
}

/// Other requests are given up after [`FetchLimits::total`]; a single-use one is awaited longer.
#[tokio::test]
async fn the_answer_to_a_fenced_request_is_waited_for_as_the_fence_says() {
    let server = Server::start(async |seen: RecordedRequest| {
        if &seen.body[..] != b"quick" {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        json(seen.body)
    })
    .await;
    let limits = FetchLimits { total: Duration::from_millis(100), ..FetchLimits::default() };
    let fetch = fetch().limits(limits);
    let fence = SendFence::new(Duration::from_secs(20));
    let opening = async {
        fence.wait_for_request().await;
        fence.open(SendWindow::new(Duration::from_secs(10)));
    };
    let (answer, ()) =
        tokio::join!(fetch.send(fenced_request(&server.url(), &fence), FROM_LOCAL_SERVER), opening);
    assert_eq!(answer.unwrap().status().as_u16(), 200);
    let slow = fetch.send(Request::post(server.url()).body("slow".into()).unwrap(), FROM_LOCAL_SERVER).await;
    assert_eq!(cause(slow.unwrap_err()), Cause::Timeout(Limit::Idle));
}

// SE-01: the proxy would resolve the name in its own network, and we would not see the result.
#[tokio::test]
async fn se_01_a_proxy_is_not_asked_for_names_of_inner_networks() {
    let authority = Authority::new();
    let server = Server::start_with(Some(authority.server(&[], ClientAuth::Any)), async |_| json("{}")).await;
    let raw = RawServer::bind().await;
    let proxies = Proxies::Fixed { http: raw.url(), https: raw.url(), bypass: String::new() };
    let fetch = Fetcher::new(authority.trust(), proxies);
    let told = AddressSource::Server(Zone::Public);
    for (url, why) in [
        ("https://metadata.google.internal/computeMetadata/v1/", RefusalReason::Special),
        ("https://metadata/", RefusalReason::Special),
        ("https://vault.internal/", RefusalReason::TooPrivate(Zone::Private)),
        ("https://jenkins/", RefusalReason::TooPrivate(Zone::Private)),
        ("https://0xa000001/", RefusalReason::TooPrivate(Zone::Private)),
        ("https://localhost/", RefusalReason::TooPrivate(Zone::Loopback)),
    ] {
        match fetch.send(get(url), told).await {
            Err(FetchError::Refused(refusal)) => assert_eq!(refusal.reason, why, "{url}"),
            other => panic!("{url}: {other:?}"),
        }
    }
    // The first request that the proxy gets is an allowed one.
    let (sent, head) =
        tokio::join!(fetch.send(get("https://server.test/"), told), tunnel_once(&raw, server.address));
    assert_eq!(sent.unwrap().status(), 200);
    assert!(head.starts_with("CONNECT server.test:443 "), "{head}");
}
