//! Credentials: which requests are signed, and which servers see the signature.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::support::raw::{RawServer, settle};
use crate::support::tls::{Authority, ClientAuth};
use crate::support::{
    RecordedRequest, Server, body_json, config, config_with, json, link, link_to, post, reply, stream, with,
};
use bowline_proto::fault::{Cause, Execution};
use bowline_testkit::with;
use bowline_transport::http::{Credentials, HttpLink, open_sse};
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderValue, Method, Version};
use url::Url;

/// Signs each request with another token, and records its calls.
#[derive(Debug, Default)]
struct Signer {
    signed: Mutex<Vec<(Method, Url)>>,
    learned: Mutex<Vec<(Url, String)>>,
}

impl Signer {
    fn signed(&self) -> Vec<(Method, String)> {
        let signed = self.signed.lock();
        signed.iter().map(|(method, url)| (method.clone(), url.path().to_owned())).collect()
    }
}

impl Credentials for Signer {
    fn sign(&self, method: &Method, url: &Url, headers: &mut HeaderMap) {
        let mut signed = self.signed.lock();
        signed.push((method.clone(), url.clone()));
        let token = format!("Bearer s3cret-{}", signed.len());
        headers.entry(AUTHORIZATION).or_insert(token.parse().unwrap());
    }

    fn observe_response(&self, url: &Url, headers: &HeaderMap) {
        let nonce = headers.get("dpop-nonce").map_or("", |nonce| nonce.to_str().unwrap());
        self.learned.lock().push((url.clone(), nonce.to_owned()));
    }
}

fn authorized(link: &HttpLink) -> (Arc<Signer>, HttpLink) {
    let signer = Arc::new(Signer::default());
    let link = link.with_credentials(Arc::clone(&signer) as Arc<dyn Credentials>);
    (signer, link)
}

fn tokens(server: &Server) -> Vec<String> {
    let token = |seen: RecordedRequest| seen.headers[AUTHORIZATION].to_str().unwrap().to_owned();
    server.seen().into_iter().map(token).collect()
}

// TK-01
#[tokio::test]
async fn tk_01_every_request_is_signed_anew_and_no_url_holds_the_token() {
    let server = Server::start(async |seen: RecordedRequest| match seen.uri.path() {
        "/mcp" if seen.method == Method::POST => with(reply(307, "", ""), "location", "/moved/post"),
        "/mcp" if seen.method == Method::DELETE => with(reply(308, "", ""), "location", "/moved/delete"),
        "/mcp" => with(reply(302, "", ""), "location", "/moved/get"),
        _ => json("{}"),
    })
    .await;
    let (signer, link) = authorized(&server.link());
    let resumption =
        HeaderMap::from_iter([("last-event-id".parse().unwrap(), HeaderValue::from_static("7"))]);
    post(&link).await.unwrap();
    link.get(&HeaderMap::new()).await.unwrap();
    link.get(&resumption).await.unwrap();
    link.delete(&HeaderMap::new()).await.unwrap();
    post(&link.join_url("/messages?session=1").unwrap().clone()).await.unwrap();

    let expected = [
        (Method::POST, "/mcp"),
        (Method::POST, "/moved/post"),
        (Method::GET, "/mcp"),
        (Method::GET, "/moved/get"),
        (Method::GET, "/mcp"),
        (Method::GET, "/moved/get"),
        (Method::DELETE, "/mcp"),
        (Method::DELETE, "/moved/delete"),
        (Method::POST, "/messages"),
    ];
    assert_eq!(signer.signed(), expected.map(|(method, path)| (method, path.to_owned())));
    let seen = server.seen();
    assert_eq!(seen.iter().filter(|seen| seen.headers.contains_key("last-event-id")).count(), 2);
    // Another proof for each sending.
    let numbered: Vec<_> = (1..=seen.len()).map(|n| format!("Bearer s3cret-{n}")).collect();
    assert_eq!(tokens(&server), numbered);
    assert!(seen.iter().all(|seen| !seen.uri.to_string().contains("s3cret")));
}

// TK-01
#[tokio::test]
async fn tk_01_over_http_2_too() {
    let authority = Authority::new();
    let acceptor = authority.server(&[b"h2"], ClientAuth::Any);
    let server = Server::start_with(Some(acceptor), async |_| json("{}")).await;
    let url = format!("https://{}/mcp", server.address);
    let (_, link) = authorized(&link_to(&with!(config(&url), tls: authority.trust())));
    for _ in 0..2 {
        post(&link).await.unwrap();
    }
    assert!(server.seen().iter().all(|seen| seen.version == Version::HTTP_2));
    assert_eq!(tokens(&server), ["Bearer s3cret-1", "Bearer s3cret-2"]);
}

// TK-01: the stream of HTTP+SSE, and the endpoint that it names.
#[tokio::test]
async fn tk_01_http_sse_is_signed_as_well() {
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    let server = Server::start(move |seen: RecordedRequest| {
        let tell = tell.clone();
        async move {
            if seen.method == Method::POST {
                return reply(202, "", "");
            }
            let (pieces, reply) = stream(200, "text/event-stream");
            pieces.try_send("event: endpoint\ndata: /messages?session=1\n\n".into()).unwrap();
            tell.send(pieces).await.unwrap();
            reply
        }
    })
    .await;
    let (signer, link) = authorized(&server.link());
    let opened = open_sse(&link, &HeaderMap::new()).await.unwrap();
    let _stream = told.recv().await.unwrap();
    post(&opened.post).await.unwrap();
    let paths = [(Method::GET, "/mcp"), (Method::POST, "/messages")];
    assert_eq!(signer.signed(), paths.map(|(method, path)| (method, path.to_owned())));
    assert_eq!(tokens(&server), ["Bearer s3cret-1", "Bearer s3cret-2"]);
}

// TK-02
#[tokio::test]
async fn tk_02_another_origin_is_never_asked() {
    let other = Server::start(async |_| json("{}")).await;
    let elsewhere = other.url();
    let server =
        Server::start(move |_| std::future::ready(with(reply(307, "", ""), "location", &elsewhere))).await;
    let (signer, link) = authorized(&server.link());
    for sent in [post(&link).await, link.get(&HeaderMap::new()).await] {
        let fault = sent.unwrap_err();
        assert!(matches!(fault.cause, Cause::Redirect { .. }), "{fault}");
        assert_eq!(fault.execution, Execution::NotExecuted);
        assert!(!format!("{fault:?} {link:?}").contains("s3cret"));
    }
    assert!(link.join_url(&other.url()).is_err());
    assert_eq!((signer.signed().len(), other.connections()), (2, 0));
}

#[tokio::test]
async fn answers_are_looked_at_whatever_their_status() {
    let server = Server::start(async |seen: RecordedRequest| match seen.uri.path() {
        "/mcp" => with(with(reply(307, "", ""), "location", "/next"), "dpop-nonce", "one"),
        _ => with(reply(401, "", ""), "dpop-nonce", "two"),
    })
    .await;
    let (signer, link) = authorized(&server.link());
    assert_eq!(post(&link).await.unwrap().status, 401);
    assert_eq!(link.delete(&HeaderMap::new()).await.unwrap(), 401);
    let url = |path: &str| Url::parse(&server.url()).unwrap().join(path).unwrap();
    let (one, two) = ((url("/mcp"), "one".to_owned()), (url("/next"), "two".to_owned()));
    assert_eq!(*signer.learned.lock(), [one.clone(), two.clone(), one, two]);
}

#[tokio::test]
async fn what_the_configuration_sets_is_there_to_be_seen() {
    let server = Server::start(async |_| json("{}")).await;
    let config = config_with(&server.url(), &[("Authorization", "Basic ours"), ("X-Key", "k")]);
    let (signer, link) = authorized(&link_to(&config));
    post(&link).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!((&seen.headers[AUTHORIZATION], signer.signed().len()), (&"Basic ours".parse().unwrap(), 1));
    assert_eq!(seen.headers[HOST], server.address.to_string());
    // The original link is unchanged.
    post(&link_to(&config_with(&server.url(), &[]))).await.unwrap();
    let plain = server.link();
    let (other, _) = authorized(&plain);
    post(&plain).await.unwrap();
    assert!(other.signed().is_empty());
    assert!(!server.seen()[2].headers.contains_key(AUTHORIZATION));
}

// TK-01: a request that never left on a dead connection is signed again for the next one.
#[tokio::test]
async fn tk_01_a_second_sending_has_a_proof_of_its_own() {
    let raw = RawServer::bind().await;
    let (signer, link) = authorized(&link(&raw.url()));
    let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let (first, peer) = tokio::join!(post(&link), async {
        let mut peer = raw.accept().await;
        peer.request().await;
        peer.write(answer).await;
        peer
    });
    assert_eq!(body_json(first.unwrap()), "{}");
    drop(peer);
    settle().await;
    let (second, head) = tokio::join!(post(&link), async {
        let mut peer = raw.accept().await;
        let head = peer.request().await;
        peer.write(answer).await;
        head
    });
    assert_eq!(body_json(second.unwrap()), Bytes::from_static(b"{}"));
    let sent = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap();
    assert_eq!(sent, format!("Bearer s3cret-{}", signer.signed().len()));
}
