//! Servers on Unix sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use bowline_config::Http;
use bowline_proto::fault::{Cause, Execution};
use bowline_testkit::with;
use bowline_transport::http::{HttpLink, Limits, Proxies};
use http::HeaderMap;
use tempfile::TempDir;

use crate::support::{body_json, config, config_with, link_to, post};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

fn on_socket(url: &str, path: &Path) -> Http {
    with!(config(url), socket: Some(path.to_owned()))
}

fn listener() -> (TempDir, PathBuf, UnixListener) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    (folder, path, listener)
}

/// Reads one request of a client that sends its length, and returns its head.
fn read_request(stream: &UnixStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "the client left");
    }
    let length = head.to_ascii_lowercase();
    let length = length.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    head
}

/// Serves one connection: each request is answered with `OK`.
fn serve_one(listener: UnixListener, requests: usize) -> JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let answer = |_| {
            let head = read_request(&stream);
            (&stream).write_all(OK).unwrap();
            head
        };
        let heads = (0..requests).map(answer).collect();
        let _ = stream.flush();
        heads
    })
}

#[tokio::test]
async fn requests_go_to_the_socket_and_name_the_host_of_the_url() {
    let (_folder, path, listener) = listener();
    let server = serve_one(listener, 2);
    let link = link_to(&on_socket("http://server.test:81/mcp?a=b", &path));
    for _ in 0..2 {
        assert_eq!(&*body_json(post(&link).await.unwrap()), b"{}");
    }
    for head in server.join().unwrap() {
        assert!(head.starts_with("POST /mcp?a=b HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nhost: server.test:81\r\n"), "{head}");
    }
}

#[tokio::test]
async fn a_socket_is_never_reached_through_a_proxy() {
    let (_folder, path, listener) = listener();
    let server = serve_one(listener, 1);
    let nobody = "http://127.0.0.1:1";
    let proxies = Proxies::Fixed { http: nobody.into(), https: nobody.into(), bypass: String::new() };
    let config = on_socket("http://server.test/mcp", &path);
    let link = HttpLink::with_proxies(&config, Limits::default(), &proxies).unwrap();
    assert_eq!(post(&link).await.unwrap().status, 200);
    // The proxy would have been given the whole URL.
    assert!(server.join().unwrap()[0].starts_with("POST /mcp HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_closed_or_missing_socket_means_not_executed() {
    let (folder, path, listener) = listener();
    drop(listener);
    for path in [path, folder.path().join("missing")] {
        let fault = post(&link_to(&on_socket("http://h/", &path))).await.unwrap_err();
        assert_eq!((fault.cause, fault.execution), (Cause::Refused, Execution::NotExecuted), "{path:?}");
    }
    let too_long = folder.path().join("x".repeat(200));
    let fault = post(&link_to(&on_socket("http://h/", &too_long))).await.unwrap_err();
    assert_eq!((fault.cause, fault.execution), (Cause::Unreachable, Execution::NotExecuted));
}

#[tokio::test]
async fn a_cut_on_a_socket_leaves_the_outcome_unknown() {
    let (_folder, path, listener) = listener();
    let server = thread::spawn(move || read_request(&listener.accept().unwrap().0));
    let fault = post(&link_to(&on_socket("http://h/", &path))).await.unwrap_err();
    assert_eq!((fault.cause, fault.execution), (Cause::Cut, Execution::Unknown));
    server.join().unwrap();
}

/// The runtime has one thread, which is blocked when the server closes: nothing but the system can
/// know of the close when the next request is sent.
#[tokio::test]
async fn a_close_that_only_the_system_knows_of_costs_nothing_on_a_socket() {
    let (_folder, path, listener) = listener();
    let (close, told) = mpsc::channel::<()>();
    let (tell, closed) = mpsc::channel();
    let server = thread::spawn(move || {
        for _ in 0..10 {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&stream);
            stream.write_all(OK).unwrap();
            told.recv().unwrap();
            drop(stream);
            tell.send(()).unwrap();
        }
    });
    let link = link_to(&on_socket("http://h/mcp", &path));
    for n in 0..10 {
        assert_eq!(post(&link).await.unwrap().status, 200, "{n}");
        close.send(()).unwrap();
        closed.recv().unwrap();
    }
    server.join().unwrap();
}

#[tokio::test]
async fn credentials_are_sent_on_a_socket_whatever_its_host_is_called() {
    let (_folder, path, listener) = listener();
    let server = serve_one(listener, 1);
    let config = config_with("http://server.test/mcp", &[("Authorization", "Bearer x")]);
    let link = link_to(&with!(config, socket: Some(path)));
    assert_eq!(link.post("{}".into(), &HeaderMap::new()).await.unwrap().status, 200);
    assert!(server.join().unwrap()[0].contains("\r\nauthorization: Bearer x\r\n"));
}
