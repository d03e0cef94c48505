//! Browsers and other programs connect to the listener over real sockets.

use bowline_testkit::Browser;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const WAIT: Duration = Duration::from_secs(10);

fn done() -> ResultPage {
    ResultPage::LoggedIn { app: "Bowline".into(), server: "files".into() }
}

async fn listening(redirect: &Redirect) -> (Url, Listener) {
    let (url, listener) = open(redirect, None).await.unwrap();
    (url, listener.unwrap())
}

/// Sends bytes, and returns everything that comes back.
async fn raw(url: &Url, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", url.port().unwrap())).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection may also be reset.
    let _ = timeout(WAIT, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Serves the listener while `other` runs.
async fn during<T>(listener: &mut Listener, other: impl Future<Output = T>) -> T {
    tokio::select! {
        visit = listener.next_visit() => panic!("nobody was expected: {visit:?}"),
        done = other => done,
    }
}

#[tokio::test]
async fn a_browser_gets_its_page_whole_and_the_socket_is_closed() {
    let (url, mut listener) = listening(&Redirect::AnyPort).await;
    assert_eq!((url.host_str(), url.path()), (Some("127.0.0.1"), "/callback"));
    let address = format!("{url}?code=c&state=s");
    let browser = tokio::spawn(async move { Browser::new().visit(&address).await });
    let visit = listener.next_visit().await;
    assert_eq!(visit.query, "code=c&state=s");
    listener.close_with_page(visit, done()).await;
    let refused = TcpStream::connect(("127.0.0.1", url.port().unwrap())).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let page = browser.await.unwrap();
    assert_eq!(page.status, 200);
    assert!(
        page.body.contains("You are logged in") && page.body.trim_end().ends_with("</html>"),
        "{}",
        page.body
    );
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
}

#[tokio::test]
async fn a_dropped_listener_is_closed() {
    let (url, listener) = listening(&Redirect::AnyPort).await;
    drop(listener);
    assert!(TcpStream::connect(("127.0.0.1", url.port().unwrap())).await.is_err());
}

#[tokio::test]
async fn other_requests_do_not_end_the_login() {
    let (url, mut listener) = listening(&Redirect::AnyPort).await;
    let port = url.port().unwrap();
    let host = format!("Host: 127.0.0.1:{port}\r\n\r\n");
    let not_found = "HTTP/1.1 404";
    for (request, status) in [
        (format!("GET /favicon.ico HTTP/1.1\r\n{host}"), not_found),
        (format!("GET / HTTP/1.1\r\n{host}"), not_found),
        (format!("GET /callback/more?code=c HTTP/1.1\r\n{host}"), not_found),
        (format!("HEAD /callback?code=c HTTP/1.1\r\n{host}"), not_found),
        (format!("POST /callback?code=c HTTP/1.1\r\n{host}"), not_found),
        ("nonsense\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        (format!("GET /callback?{} HTTP/1.1\r\n{host}", "x".repeat(2 * MAX_HEAD_SIZE)), ""),
    ] {
        let answer = during(&mut listener, raw(&url, &request)).await;
        assert!(answer.starts_with(status), "{}: {answer}", &request[..20]);
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    let address = format!("{url}?code=c");
    let browser = tokio::spawn(async move { Browser::new().visit(&address).await });
    assert_eq!(listener.next_visit().await.query, "code=c");
    drop(listener);
    drop(browser);
}

// DNS rebinding: a foreign name that points at this machine must not reach the listener.
#[tokio::test]
async fn only_our_own_host_is_answered() {
    let (url, mut listener) = listening(&Redirect::AnyPort).await;
    let port = url.port().unwrap();
    for host in [
        format!("evil.example:{port}"),
        format!("127.0.0.1:{}", port ^ 1),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}"),
        format!("user@127.0.0.1:{port}"),
        String::new(),
    ] {
        let request = format!("GET /callback?code=c HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = during(&mut listener, raw(&url, &request)).await;
        assert!(answer.starts_with("HTTP/1.1 421") || answer.starts_with("HTTP/1.1 400"), "{host}: {answer}");
    }
    let answer = during(&mut listener, raw(&url, "GET /callback?code=c HTTP/1.0\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.0 421"), "{answer}");
}

#[tokio::test]
async fn a_silent_connection_blocks_nothing() {
    let (url, mut listener) = listening(&Redirect::AnyPort).await;
    // Browsers open connections in advance.
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(TcpStream::connect(("127.0.0.1", url.port().unwrap())).await.unwrap());
    }
    let address = format!("{url}?code=c");
    let browser = tokio::spawn(async move { Browser::new().visit(&address).await });
    let visit = timeout(WAIT, listener.next_visit()).await.unwrap();
    let begun = std::time::Instant::now();
    listener.close_with_page(visit, done()).await;
    assert!(begun.elapsed() < PAGE_TIMEOUT, "idle connections are not waited for");
    assert_eq!(browser.await.unwrap().status, 200);
    drop(idle);
}

#[tokio::test]
async fn a_second_visit_gets_the_page_for_unknown_logins() {
    let (url, mut listener) = listening(&Redirect::AnyPort).await;
    let visit = |n: u8| {
        let address = format!("{url}?code={n}");
        tokio::spawn(async move { Browser::new().visit(&address).await })
    };
    let (one, first) = (visit(1), listener.next_visit().await);
    first.show(ResultPage::UnknownLogin);
    assert_eq!(one.await.unwrap().status, 400);
    let (two, second) = (visit(2), listener.next_visit().await);
    assert_eq!(second.query, "code=2");
    listener.close_with_page(second, ResultPage::Failed { server: "files".into(), why: "<no>".into() }).await;
    let page = two.await.unwrap();
    assert_eq!(page.status, 400);
    assert!(page.body.contains("&lt;no&gt;"), "{}", page.body);
}

#[tokio::test]
async fn several_wait_at_once() {
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(listening(&Redirect::AnyPort).await);
    }
    let ports: std::collections::HashSet<_> = all.iter().map(|(url, _)| url.port()).collect();
    assert_eq!(ports.len(), 5);
    for (n, (url, mut listener)) in all.into_iter().enumerate() {
        let address = format!("{url}?code={n}");
        let browser = tokio::spawn(async move { Browser::new().visit(&address).await });
        let visit = listener.next_visit().await;
        assert_eq!(visit.query, format!("code={n}"));
        listener.close_with_page(visit, done()).await;
        assert_eq!(browser.await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn a_configured_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let uri = format!("http://127.0.0.1:{port}/cb").parse().unwrap();
    for redirect in [Redirect::Port(port), Redirect::Uri(uri)] {
        let error = open(&redirect, None).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup);
        assert!(error.what.contains(&format!("port {port} is in use")), "{error}");
        assert!(error.hint.unwrap().contains(&port.to_string()));
    }
    // Where any port will do, a preferred port that is taken is replaced.
    let (url, listener) = open(&Redirect::AnyPort, Some(port)).await.unwrap();
    assert!(listener.is_some() && url.port() != Some(port));
    drop(taken);
    let (url, _listener) = open(&Redirect::AnyPort, Some(port)).await.unwrap();
    assert_eq!(url.port(), Some(port));
}

#[tokio::test]
async fn a_configured_address_is_listened_on_to_the_letter() {
    let (url, listener) = listening(&Redirect::AnyPort).await;
    let port = url.port().unwrap();
    drop(listener);
    let uri: Url = format!("http://localhost:{port}/oauth/done").parse().unwrap();
    let (url, mut listener) = listening(&Redirect::Uri(uri.clone())).await;
    assert_eq!(url, uri);
    let address = format!("{uri}?code=c");
    let browser = tokio::spawn(async move { Browser::new().visit(&address).await });
    let visit = listener.next_visit().await;
    listener.close_with_page(visit, done()).await;
    assert_eq!(browser.await.unwrap().status, 200);
}

#[tokio::test]
async fn an_address_elsewhere_is_not_listened_on() {
    for uri in ["https://app.example/cb", "https://127.0.0.1:9/cb"] {
        let uri: Url = uri.parse().unwrap();
        let (url, listener) = open(&Redirect::Uri(uri.clone()), None).await.unwrap();
        assert!(listener.is_none());
        assert_eq!(url, uri);
    }
}

#[tokio::test]
async fn an_unused_redirect_has_no_listener() {
    let port = |url: Url| url.port().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let wish = taken.local_addr().unwrap().port();
    let other = port(unused_redirect(&Redirect::AnyPort, Some(wish)).await);
    assert_ne!(other, wish);
    assert!(TcpStream::connect(("127.0.0.1", other)).await.is_err());
    drop(taken);
    assert_eq!(port(unused_redirect(&Redirect::AnyPort, Some(wish)).await), wish);
    // A configured redirect is not changed.
    assert_eq!(unused_redirect(&Redirect::Port(7), Some(wish)).await, loopback_redirect(7));
}
