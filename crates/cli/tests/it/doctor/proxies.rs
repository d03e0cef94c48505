//! Proxies that do not do their work, and programs that speak no HTTP.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::{Examined, configure_url, verdict, verdict_of_url};
use crate::context::Context;

/// Listens, and answers every connection that sends something with `answer`. Without an answer it is silent.
fn listen(answer: Option<&'static [u8]>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            match answer {
                Some(answer) => drop(std::thread::spawn(move || respond(stream, answer))),
                None => silent.push(stream),
            }
        }
    });
    address
}

/// Answers a connection. What else is sent is read, since closing before that would reset the connection.
fn respond(mut stream: TcpStream, answer: &[u8]) {
    let mut buffer = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    if matches!(stream.read(&mut buffer), Ok(1..)) && stream.write_all(answer).is_ok() {
        drop(stream.shutdown(Shutdown::Write));
        while matches!(stream.read(&mut buffer), Ok(1..)) {}
    }
}

/// Examines a server that is configured as `docs`, with the variables of a proxy.
fn examine_with_proxy(url: &str, proxy: &str) -> Examined {
    let context = Context::new();
    configure_url(&context, url);
    let mut doctor = context.bowline(["doctor", "docs", "--connect-timeout", "5s"]);
    doctor.env("http_proxy", proxy).env("https_proxy", proxy);
    Examined::run(doctor)
}

const LOGIN_REQUIRED: &[u8] = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";

#[test]
fn proxy_that_opens_no_tunnel_without_credentials_is_named() {
    let proxy = listen(Some(LOGIN_REQUIRED));
    let examined = examine_with_proxy("https://docs.example/mcp", &format!("http://{proxy}"));
    verdict!(examined.verdict(), @"
    exit 3
    tls failed, you: the proxy at 127.0.0.1:[PORT] requires credentials (status 407)
      write user and password into HTTP_PROXY, HTTPS_PROXY or ALL_PROXY: http://USER:PASSWORD@127.0.0.1:[PORT]
      $ -
    ");
    assert_eq!(examined.check("dns")["seen"], "the proxy resolves the name of the server");
}

#[test]
fn proxy_that_forwards_nothing_without_credentials_is_named() {
    let proxy = listen(Some(LOGIN_REQUIRED));
    let examined = examine_with_proxy("http://docs.example/mcp", &format!("http://{proxy}"));
    verdict!(examined.verdict(), @"
    exit 3
    connection failed, you: the proxy at 127.0.0.1:[PORT] requires credentials (status 407)
      write user and password into HTTP_PROXY, HTTPS_PROXY or ALL_PROXY: http://USER:PASSWORD@127.0.0.1:[PORT]
      $ -
    ");
}

#[test]
fn proxy_that_does_not_answer_is_named() {
    let proxy = format!("http://{}", listen(None));
    verdict!(examine_with_proxy("https://docs.example/mcp", &proxy).verdict(), @"
    exit 4
    tls failed, network: the proxy at 127.0.0.1:[PORT] does not answer
      correct HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or name the server in NO_PROXY
      $ NO_PROXY=docs.example bowline doctor docs
    ");
    verdict!(examine_with_proxy("http://docs.example/mcp", &proxy).verdict(), @"
    exit 4
    connection failed, network: no answer comes through the proxy at 127.0.0.1:[PORT]
      correct HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or name the server in NO_PROXY
      $ NO_PROXY=docs.example bowline doctor docs
    ");
}

/// A tunnel that is open makes the server behind it the one that does not answer.
#[test]
fn server_that_hangs_behind_a_proxy_is_named() {
    let proxy = listen_as_tunnel();
    verdict!(examine_with_proxy("https://docs.example/mcp", &format!("http://{proxy}")).verdict(), @"
    exit 4
    tls failed, server: the handshake was not finished within 10 s
      the server, or something in front of it, hangs: ask who runs it
      $ bowline doctor docs
    ");
}

/// Listens as a proxy that opens tunnels to a server that says nothing.
fn listen_as_tunnel() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut tunnels = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            if matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
                tunnels.push(stream);
            }
        }
    });
    address
}

/// Names of variables differ in case on Unix only.
#[cfg(unix)]
#[test]
fn variable_that_names_no_proxy_is_named() {
    let examined = examine_with_proxy("https://no-such-host.invalid/mcp", "::::");
    let check = examined.check("proxy");
    assert_eq!((&check["status"], &check["blame"]), (&"warning".into(), &"you".into()), "{check}");
    let seen = "none: the server is reached directly, since https_proxy is not the URL of a proxy";
    assert_eq!(check["seen"], seen);
    let remedy = "set https_proxy to an address such as http://HOST:PORT, or unset it";
    assert_eq!(check["remedy"]["text"], remedy);
    assert_eq!(examined.status("dns"), "failed");
}

#[test]
fn invalid_header_is_named() {
    let server = listen(Some(b"HTTP/1.1 200 OK\r\nno header\r\n\r\n"));
    verdict!(verdict_of_url(&format!("http://{server}/mcp")), @"
    exit 3
    connection failed, server: the server's answer is not valid HTTP: invalid HTTP header parsed
      the server, or something in front of it, breaks HTTP: report it to who runs it
      $ bowline info docs -vv
    ");
}

#[test]
fn program_without_http_is_named() {
    let server = listen(Some(b"SSH-2.0-OpenSSH_9.9\r\n"));
    verdict!(verdict_of_url(&format!("http://{server}/mcp")), @"
    exit 3
    connection failed, you: what listens there does not speak HTTP
      correct the port in the URL
      $ bowline edit
    ");
}
