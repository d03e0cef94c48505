//! Which addresses are requested, with which headers, and which responses are accepted: over real
//! sockets.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_testkit::with;
use bowline_transport::http::{Lookup, LookupFuture};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::*;

type Heads = Arc<Mutex<Vec<http::request::Parts>>>;

/// A server that runs until it is dropped.
struct Server {
    address: SocketAddr,
    heads: Heads,
    task: AbortHandle,
}

impl Server {
    async fn start(answer: impl Fn(&str) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heads, answer) = (Heads::default(), Arc::new(answer));
        let log = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = answer(request.uri().path()).map(Full::new);
                    log.lock().push(request.into_parts().0);
                    async move { Ok::<_, Infallible>(answer) }
                });
                // Each client sends one request and disconnects.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
            }
        });
        Self { address, heads, task: task.abort_handle() }
    }

    fn url(&self, path: &str) -> Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    fn heads(&self) -> Vec<http::request::Parts> {
        self.heads.lock().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Resolves every name to the address that its first label stands for.
#[derive(Debug, Default)]
struct Names(AtomicUsize);

impl Lookup for Names {
    fn lookup(&self, name: &str) -> LookupFuture {
        let asked = self.0.fetch_add(1, Ordering::SeqCst);
        let ip: Option<IpAddr> = match name.split('.').next().unwrap() {
            "public" => Some([8, 8, 8, 8].into()),
            "private" => Some([10, 0, 0, 1].into()),
            "local" => Some([127, 0, 0, 1].into()),
            "metadata" => Some([169, 254, 169, 254].into()),
            // Public at the first lookup, and on this machine afterwards.
            "rebinding" if asked == 0 => Some([8, 8, 8, 8].into()),
            "rebinding" => Some([127, 0, 0, 1].into()),
            // The other way round: public only at the second lookup.
            "settling" if asked == 1 => Some([8, 8, 8, 8].into()),
            "settling" => Some([10, 0, 0, 1].into()),
            _ => None,
        };
        Box::pin(std::future::ready(ip.map(|ip| vec![ip]).ok_or_else(|| io::ErrorKind::NotFound.into())))
    }
}

fn net(server: &str, headers: &[(&str, &str)]) -> (AuthHttpClient, Arc<Names>) {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    net_to(&with!(Http::from_url(server.parse().unwrap()), headers: headers))
}

fn net_to(server: &Http) -> (AuthHttpClient, Arc<Names>) {
    let names = Arc::new(Names::default());
    let fetch =
        Fetcher::new(server.tls.clone(), Proxies::Direct).with_lookup(Arc::clone(&names) as Arc<dyn Lookup>);
    (AuthHttpClient::with_fetch(fetch, server), names)
}

fn answer(status: u16, media: &str, body: &'static str) -> Response<Bytes> {
    let builder = Response::builder().status(status).header("content-type", media);
    builder.body(Bytes::from_static(body.as_bytes())).unwrap()
}

fn post(url: &Url) -> Request<Bytes> {
    Request::post(url.as_str()).body(Bytes::from_static(b"code=s3cret")).unwrap()
}

#[tokio::test]
async fn a_document_is_an_object_or_there_is_none() {
    let server = Server::start(|path| match path {
        "/typed" => answer(200, "application/json", r#"{"a":1}"#),
        "/untyped" => answer(200, "text/plain", "\u{feff}{\"a\":1}"),
        "/page" => answer(200, "text/html; charset=utf-8", "<!doctype html>"),
        "/list" => answer(200, "text/plain", "[]"),
        "/broken" => answer(200, "Application/JSON; charset=utf-8", r#"{"a":"#),
        "/large" => answer(200, "application/json", Box::leak("[]".repeat(200_000).into_boxed_str())),
        "/moved" => Response::builder().status(301).header("location", "/typed").body(Bytes::new()).unwrap(),
        "/circle" => {
            Response::builder().status(301).header("location", "/circle").body(Bytes::new()).unwrap()
        }
        path => answer(path[1..].parse().unwrap(), "application/json", r#"{"a":1}"#),
    })
    .await;
    let (net, _) = net(server.url("/mcp").as_str(), &[]);
    for path in ["/typed", "/untyped", "/moved"] {
        let document = net.get_document(&server.url(path)).await.unwrap().unwrap();
        assert_eq!(document, serde_json::json!({ "a": 1 }), "{path}");
    }
    for path in ["/400", "/401", "/403", "/404", "/405", "/410", "/451", "/page"] {
        assert_eq!(net.get_document(&server.url(path)).await.unwrap(), None, "{path}");
    }
    for path in ["/408", "/429", "/500", "/502", "/503", "/201", "/304"] {
        let error = net.get_document(&server.url(path)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Unavailable, "{path}: {error}");
        assert!(error.what.contains(&path[1..]) && error.what.contains("127.0.0.1"), "{error}");
    }
    for path in ["/list", "/broken", "/large", "/circle"] {
        let error = net.get_document(&server.url(path)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted, "{path}: {error}");
        assert!(error.what.contains("127.0.0.1"), "{error}");
    }
}

// AD-07, TK-02
#[tokio::test]
async fn tk_02_configured_headers_are_for_the_servers_own_origin() {
    let other = Server::start(|_| answer(200, "application/json", "{}")).await;
    let elsewhere = other.url("/redirected").to_string();
    let server = Server::start(move |path| match path {
        "/away" => Response::builder().status(302).header("location", &elsewhere).body(Bytes::new()).unwrap(),
        _ => answer(200, "application/json", "{}"),
    })
    .await;
    let configured = [("X-Key", "s3cret"), ("Authorization", "Basic s3cret"), ("X-Old", "s3cret")];
    let (net, _) = net(server.url("/mcp").as_str(), &configured);
    net.clone().set_headers(HeaderMap::from_iter([
        (HeaderName::from_static("x-old"), HeaderValue::from_static("new")),
        (HeaderName::from_static("x-made"), HeaderValue::from_static("s3cret")),
    ]));
    let version = HeaderMap::from_iter([(
        HeaderName::from_static("mcp-protocol-version"),
        HeaderValue::from_static("2025-11-25"),
    )]);
    net.get_document_with_headers(&server.url("/own"), &version).await.unwrap();
    let basic = Request::get(server.url("/basic").as_str()).header("authorization", "Basic mine");
    net.request_discovered(basic.body(Bytes::new()).unwrap()).await.unwrap();
    net.request_discovered(post(&server.url("/token"))).await.unwrap();
    net.get_document_with_headers(&server.url("/away"), &version).await.unwrap();
    net.get_document_with_headers(&other.url("/other"), &version).await.unwrap();
    net.request_discovered(post(&other.url("/token"))).await.unwrap();
    net.request_configured(post(&other.url("/chosen"))).await.unwrap();

    let own = server.heads();
    assert_eq!(own.len(), 4);
    for head in &own {
        assert_eq!(head.headers["x-key"], "s3cret");
        assert_eq!(head.headers["x-made"], "s3cret");
        assert_eq!(head.headers["x-old"], "new");
    }
    assert_eq!(own[0].headers["authorization"], "Basic s3cret");
    assert_eq!(own[1].headers["authorization"], "Basic mine", "what the request says is stronger");
    assert_eq!(own[0].headers["mcp-protocol-version"], "2025-11-25");
    let others = other.heads();
    assert_eq!(others.len(), 4);
    for head in &others {
        assert!(!format!("{:?}", head.headers).contains("x-") && !head.headers.contains_key("authorization"));
    }
    assert!(others[..2].iter().all(|head| head.headers["mcp-protocol-version"] == "2025-11-25"));
    assert!(!format!("{net:?}").contains("s3cret"));
}

// SE-01
#[tokio::test]
async fn se_01_what_a_public_server_names_is_checked() {
    let listening = Server::start(|_| answer(200, "application/json", "{}")).await;
    let port = listening.address.port();
    let (net, _) = net("https://public.test/mcp", &[]);
    for url in [
        "http://169.254.169.254/".to_owned(),
        "http://[::ffff:10.0.0.1]/".to_owned(),
        "https://metadata.test/".to_owned(),
        "https://private.test/".to_owned(),
        "http://public.test:8080/".to_owned(),
        format!("https://local.test:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://127.0.0.1:{port}/"),
    ] {
        let url: Url = url.parse().unwrap();
        for error in
            [net.get_document(&url).await.unwrap_err(), net.request_discovered(post(&url)).await.unwrap_err()]
        {
            assert_eq!(error.kind, AuthErrorKind::Untrusted, "{url}: {error}");
            assert!(error.what.contains(url.host_str().unwrap()), "{error}");
            assert!(!error.is_transient() && !error.what.contains("s3cret"));
        }
    }
    assert!(listening.heads().is_empty());
}

// SE-02
#[tokio::test]
async fn se_02_a_server_does_not_become_less_public() {
    let listening = Server::start(|_| answer(200, "application/json", "{}")).await;
    let (rebinding, _) = net("https://rebinding.test/mcp", &[]);
    for _ in 0..3 {
        let error = rebinding.get_document(&listening.url("/")).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted, "{error}");
        assert_eq!(rebinding.server_zone().await.unwrap(), Zone::Public);
    }
    assert!(listening.heads().is_empty());
    let (settling, names) = net("https://settling.test/mcp", &[]);
    for (asked, zone) in [Zone::Private, Zone::Public, Zone::Public, Zone::Public].into_iter().enumerate() {
        assert_eq!(
            settling.server_zone().await.unwrap(),
            zone,
            "when it is asked about for the {asked}th time"
        );
    }
    assert_eq!(names.0.load(Ordering::SeqCst), 4, "each time anew");
    // A server that was never public may name private neighbors.
    let (intranet, _) = net("https://private.test/mcp", &[]);
    for _ in 0..3 {
        assert_eq!(intranet.server_zone().await.unwrap(), Zone::Private);
    }
}

// AF-07, SE-01: a server on this machine may name any address, except over plain `http` and
// forbidden ones.
#[tokio::test]
async fn se_01_what_a_server_of_this_machine_names_is_checked_too() {
    let (net, _) = net("http://127.0.0.1:9/mcp", &[]);
    for url in [
        "http://public.test/token",
        "http://10.0.0.1/token",
        "https://169.254.169.254/token",
        "https://metadata.test/token",
    ] {
        let url: Url = url.parse().unwrap();
        let error = net.request_discovered(post(&url)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted, "{url}: {error}");
    }
}

#[tokio::test]
async fn the_servers_own_origin_is_the_persons_choice() {
    let server = Server::start(|_| answer(200, "application/json", "{}")).await;
    // A name, so that only the configuration allows it.
    let own = format!("http://local.test:{}/mcp", server.address.port());
    let url = own.parse().unwrap();
    let mut entry = Http::from_url(own.parse().unwrap());
    entry.allow_http = true;
    let (net, _) = net_to(&entry);
    assert!(net.get_document(&url).await.unwrap().is_some());
    // Codes and tokens are not sent there over plain `http`.
    let error = net.request_discovered(post(&url)).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Untrusted, "{error}");
    assert!(error.what.contains("https"), "{error}");
    assert_eq!(server.heads().len(), 1);
    // Unless the configuration allows it.
    assert_eq!(net.request_configured(post(&url)).await.unwrap().status(), 200);
}

#[tokio::test]
async fn nothing_goes_over_plain_http_to_another_machine() {
    let server = Server::start(|_| answer(200, "application/json", "{}")).await;
    let own: Url = format!("http://local.test:{}/mcp", server.address.port()).parse().unwrap();
    let issuer: Url = format!("http://local.test:{}/realm", server.address.port()).parse().unwrap();
    let mut entry = Http::from_url("https://public.test/mcp".parse().unwrap());
    entry.auth.issuer = Some(issuer.to_string());
    let (by_issuer, _) = net_to(&entry);
    let (by_server, _) = net_to(&Http::from_url(own.clone()));
    for error in [
        by_server.get_document(&own).await.unwrap_err(),
        by_server.request_discovered(post(&own)).await.unwrap_err(),
        by_server.request_configured(post(&own)).await.unwrap_err(),
        by_issuer.get_document(&issuer).await.unwrap_err(),
        by_issuer.request_configured(post(&issuer)).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, AuthErrorKind::PlainHttp, "{error}");
        assert!(error.what.contains("local.test") && !error.is_transient(), "{error}");
        assert!(error.hint.unwrap().contains("`allow_http = true`"));
    }
    assert!(server.heads().is_empty());
    for here in [
        "http://127.0.0.1:1/",
        "http://127.3.2.1/",
        "http://[::1]/",
        "http://localhost/",
        "http://a.localhost/",
    ] {
        by_server.check_encrypted(&here.parse().unwrap()).unwrap();
    }
    for there in ["http://10.0.0.1/", "http://localhost.test/", "http://127.0.0.1.test/", "http://8.8.8.8/"] {
        by_server.check_encrypted(&there.parse().unwrap()).unwrap_err();
    }
}

#[tokio::test]
async fn the_configured_issuer_is_the_persons_choice_too() {
    let issuer = Server::start(|_| answer(200, "application/json", "{}")).await;
    let url =
        |path: &str| -> Url { format!("http://local.test:{}{path}", issuer.address.port()).parse().unwrap() };
    let mut server = Http::from_url("https://public.test/mcp".parse().unwrap());
    let (net, _) = net_to(&server);
    let error = net.get_document(&issuer.url("/.well-known/openid-configuration")).await.unwrap_err();
    assert!(error.hint.is_some_and(|hint| hint.contains("issuer")));
    server.auth.issuer = Some(url("/realm").into());
    server.allow_http = true;
    server.headers = vec![("X-Key".to_owned(), "s3cret".into())];
    let (net, _) = net_to(&server);
    assert!(net.get_document(&url("/.well-known/openid-configuration/realm")).await.unwrap().is_some());
    // Without the headers of the server, without secrets over plain `http`, and to no other host.
    assert!(!issuer.heads()[0].headers.contains_key("x-key"));
    assert_eq!(
        net.request_discovered(post(&url("/token"))).await.unwrap_err().kind,
        AuthErrorKind::Untrusted
    );
    assert_eq!(net.get_document(&issuer.url("/")).await.unwrap_err().kind, AuthErrorKind::Untrusted);
    assert_eq!(issuer.heads().len(), 1);
}

#[tokio::test]
async fn an_unreachable_server_is_a_temporary_failure() {
    // Nothing listens there any more.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gone = format!("http://{free}/").parse().unwrap();
    let (local, _) = net("http://127.0.0.1:1/mcp", &[]);
    let (lost, _) = net("https://nowhere.test/mcp", &[]);
    for error in [
        local.get_document(&gone).await.unwrap_err(),
        local.get_document(&"https://nowhere.test/".parse().unwrap()).await.unwrap_err(),
        lost.get_document(&"https://public.test/".parse().unwrap()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, AuthErrorKind::Unavailable, "{error}");
    }
}
