//! TLS, HTTP/2 and proxies.

use std::sync::Arc;

use crate::support::proxy::{socks_once, tunnel_once};
use crate::support::raw::{RawServer, settle};
use crate::support::tls::{Authority, ClientAuth};
use crate::support::{RecordedRequest, Server, body_events, body_json, config, json, link_to, post, stream};
use bowline_config::Tls;
use bowline_proto::fault::{Cause, Execution, Fault};
use bowline_testkit::with;
use bowline_transport::http::{HttpLink, HttpResponse, Limits, Proxies};
use bytes::Bytes;
use http::{HeaderMap, Version};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;

const H2: &[&[u8]] = &[b"h2", b"http/1.1"];
const H1: &[&[u8]] = &[b"http/1.1"];

async fn echo(authority: &Authority, protocols: &[&[u8]], clients: ClientAuth) -> Server {
    Server::start_with(Some(authority.server(protocols, clients)), async |seen: RecordedRequest| {
        json(seen.body)
    })
    .await
}

fn secure(server: &Server, tls: Tls) -> HttpLink {
    link_to(&with!(config(&format!("https://{}/mcp", server.address)), tls: tls))
}

#[track_caller]
fn assert_tls(result: Result<HttpResponse, Fault>) {
    let fault = result.unwrap_err();
    assert_eq!((&fault.cause, fault.execution), (&Cause::Tls, Execution::NotExecuted), "{fault}");
}

#[tokio::test]
async fn a_ca_file_is_trusted_besides_the_system() {
    let authority = Authority::new();
    for (protocols, version) in [(H2, Version::HTTP_2), (H1, Version::HTTP_11), (&[], Version::HTTP_11)] {
        let server = echo(&authority, protocols, ClientAuth::Any).await;
        let link = secure(&server, authority.trust());
        for _ in 0..3 {
            assert_eq!(body_json(post(&link).await.unwrap()), "{}");
        }
        assert_eq!(server.connections(), 1, "{version:?}");
        let seen = &server.seen()[0];
        assert_eq!(seen.version, version);
        let host =
            seen.uri.authority().map_or_else(|| seen.headers["host"].to_str().unwrap(), |host| host.as_str());
        assert_eq!(host, server.address.to_string());
        assert_eq!(seen.headers.contains_key("host"), version == Version::HTTP_11);
    }
}

#[tokio::test]
async fn an_unknown_authority_is_not_trusted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = echo(&authority, H2, ClientAuth::Any).await;
    assert_tls(post(&secure(&server, Tls::default())).await);
    assert_tls(post(&secure(&server, other.trust())).await);
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_trusted() {
    let authority = Authority::new();
    let server = echo(&authority, H2, ClientAuth::Any).await;
    let url = format!("https://localhost:{}/mcp", server.address.port());
    assert_tls(post(&link_to(&with!(config(&url), tls: authority.trust()))).await);
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let authority = Authority::new();
    for protocols in [H2, H1] {
        let server = echo(&authority, protocols, ClientAuth::Certified).await;
        assert_eq!(body_json(post(&secure(&server, authority.client())).await.unwrap()), "{}");
        let result = post(&secure(&server, authority.trust())).await;
        if protocols == H1 {
            assert_tls(result);
        } else {
            // Over HTTP/2 the alert cannot be told from a later one.
            assert_eq!(result.unwrap_err().cause, Cause::Tls);
        }
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_server_without_tls_is_a_tls_failure() {
    let raw = RawServer::bind().await;
    let link = link_to(&config(&raw.url().replace("http:", "https:")));
    let (result, ()) = tokio::join!(post(&link), async {
        raw.accept().await.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    assert_tls(result);
}

#[tokio::test]
async fn http_2_needs_one_connection_for_all_calls() {
    let authority = Authority::new();
    let all_there = Arc::new(Barrier::new(64));
    let server =
        Server::start_with(Some(authority.server(H2, ClientAuth::Any)), move |seen: RecordedRequest| {
            let all_there = Arc::clone(&all_there);
            async move {
                all_there.wait().await;
                json(seen.body)
            }
        })
        .await;
    let link = secure(&server, authority.trust());
    let mut calls = JoinSet::new();
    for n in 0..64 {
        let link = link.clone();
        calls.spawn(async move {
            let body = n.to_string();
            let answer = link.post(body.clone().into(), &HeaderMap::new()).await.unwrap();
            assert_eq!(body_json(answer), body);
        });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

// HM-12
#[tokio::test]
async fn hm_12_dropping_a_stream_resets_it_and_nothing_else() {
    let authority = Authority::new();
    let (tell, mut told) = mpsc::channel(1);
    let server =
        Server::start_with(Some(authority.server(H2, ClientAuth::Any)), move |seen: RecordedRequest| {
            let tell = tell.clone();
            async move {
                if &*seen.body != b"events" {
                    return json(seen.body);
                }
                let (pieces, reply) = stream(200, "text/event-stream");
                tell.send(pieces).await.unwrap();
                reply
            }
        })
        .await;
    let link = secure(&server, authority.trust());
    let mut events = body_events(link.post("events".into(), &HeaderMap::new()).await.unwrap());
    let pieces: mpsc::Sender<Bytes> = told.recv().await.unwrap();
    pieces.send("data: one\n\n".into()).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().data, "one");
    drop(events);
    pieces.closed().await;
    assert_eq!(body_json(post(&link).await.unwrap()), "{}");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn http_2_connects_anew_after_the_server_closed() {
    let authority = Authority::new();
    let server = echo(&authority, H2, ClientAuth::Any).await;
    let (raw, url) = (RawServer::bind().await, "https://server.test/mcp");
    // Through a proxy, so that the connection can be cut from outside.
    let proxies = Proxies::Fixed { http: String::new(), https: raw.url(), bypass: String::new() };
    let config = with!(config(url), tls: authority.trust());
    let link = HttpLink::with_proxies(&config, Limits::default(), &proxies).unwrap();
    let (result, mut peer) = tokio::join!(post(&link), async {
        let mut peer = raw.accept().await;
        peer.request().await;
        let mut out = tokio::net::TcpStream::connect(server.address).await.unwrap();
        peer.write(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let passing = tokio::spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut peer.socket, &mut out) => {}
                _ = stopped => {}
            }
        });
        Some((stop, passing))
    });
    assert_eq!(body_json(result.unwrap()), "{}");
    let (stop, passing) = peer.take().unwrap();
    drop(stop);
    passing.await.unwrap();
    settle().await;
    let (result, _) = tokio::join!(post(&link), tunnel_once(&raw, server.address));
    assert_eq!(body_json(result.unwrap()), "{}");
}

#[tokio::test]
async fn http_goes_through_a_proxy_as_a_whole_url() {
    let proxy = Server::start(async |seen: RecordedRequest| json(seen.uri.to_string())).await;
    let address = format!("http://user:pass%21@{}", proxy.address);
    let proxies = Proxies::Fixed { http: address, https: String::new(), bypass: String::new() };
    let link =
        HttpLink::with_proxies(&config("http://server.test:8080/mcp?a=b"), Limits::default(), &proxies)
            .unwrap();
    assert_eq!(body_json(post(&link).await.unwrap()), "http://server.test:8080/mcp?a=b");
    let seen = &proxy.seen()[0];
    assert_eq!(seen.headers["host"], "server.test:8080");
    // user:pass!
    assert_eq!(seen.headers["proxy-authorization"], "Basic dXNlcjpwYXNzIQ==");
}

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    let authority = Authority::new();
    let server = echo(&authority, H2, ClientAuth::Any).await;
    let raw = RawServer::bind().await;
    let address = format!("http://user:pass%21@{}", raw.address);
    let proxies = Proxies::Fixed { http: String::new(), https: address, bypass: String::new() };
    let config = with!(config("https://server.test/mcp"), tls: authority.trust());
    let link = HttpLink::with_proxies(&config, Limits::default(), &proxies).unwrap();
    let (result, head) = tokio::join!(post(&link), tunnel_once(&raw, server.address));
    assert_eq!(body_json(result.unwrap()), "{}");
    assert!(head.starts_with("CONNECT server.test:443 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic dXNlcjpwYXNzIQ=="), "{head}");
    assert!(!server.seen()[0].headers.contains_key("proxy-authorization"));
}

#[tokio::test]
async fn a_socks_proxy_looks_up_the_name() {
    let server = Server::start(async |seen: RecordedRequest| json(seen.uri.to_string())).await;
    let raw = RawServer::bind().await;
    let address = format!("socks5://{}", raw.address);
    let proxies = Proxies::Fixed { http: address, https: String::new(), bypass: String::new() };
    let link =
        HttpLink::with_proxies(&config("http://server.test/mcp"), Limits::default(), &proxies).unwrap();
    let (result, name) = tokio::join!(post(&link), socks_once(&raw, server.address));
    assert_eq!((body_json(result.unwrap()), &*name), (Bytes::from_static(b"/mcp"), "server.test"));
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named() {
    let raw = RawServer::bind().await;
    let address = format!("http://user:hunter2@{}", raw.address);
    let proxies = Proxies::Fixed { http: String::new(), https: address, bypass: String::new() };
    let link =
        HttpLink::with_proxies(&config("https://server.test/mcp"), Limits::default(), &proxies).unwrap();
    let (result, ()) =
        tokio::join!(post(&link), raw.answer_once(b"HTTP/1.1 407 Login\r\ncontent-length: 0\r\n\r\n"));
    let fault = result.unwrap_err();
    assert_eq!((&fault.cause, fault.execution), (&Cause::Unreachable, Execution::NotExecuted));
    let shown = fault.to_string();
    assert!(shown.contains(&raw.address.to_string()) && !shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn this_machine_and_bypassed_hosts_are_reached_without_the_proxy() {
    let server = Server::start(async |seen: RecordedRequest| json(seen.uri.to_string())).await;
    // Nobody listens there any more.
    let proxy = RawServer::bind().await.url();
    let link = |url: &str, bypass: &str| {
        let proxies = Proxies::Fixed { http: proxy.clone(), https: proxy.clone(), bypass: bypass.to_owned() };
        HttpLink::with_proxies(&config(url), Limits::default(), &proxies).unwrap()
    };
    assert_eq!(body_json(post(&link(&server.url(), "")).await.unwrap()), "/mcp");
    // Such names resolve nowhere, so the two routes fail differently.
    let url = format!("http://{}.test/", "x".repeat(64));
    assert_eq!(post(&link(&url, "")).await.unwrap_err().cause, Cause::Refused);
    assert_eq!(post(&link(&url, ".test")).await.unwrap_err().cause, Cause::Dns);
}
