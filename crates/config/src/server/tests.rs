//! Tests of the settings of a server.

use super::*;
use crate::TransportSettings as _;

#[test]
fn debug_shows_no_secret() {
    let stdio = Server::stdio("a", "srv")
        .args(["--key", "hunter2"])
        .build()
        .unwrap()
        .with_env("TOKEN", "hunter2")
        .unwrap();
    let http = Server::http("b", "https://h:8443/s/hunter2?key=hunter2")
        .header("Authorization", "hunter2")
        .build()
        .unwrap();
    let shown = format!("{stdio:?} {http:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    for kept in ["srv", "TOKEN", "https://h:8443", "Authorization"] {
        assert!(shown.contains(kept), "{kept} in {shown}");
    }
}

#[test]
fn setters_of_the_other_transport_are_refused() {
    let stdio = || Server::stdio("a", "srv").build().unwrap();
    let http = || Server::http("b", "http://h/").build().unwrap();
    assert_eq!(stdio().with_header("A", "b"), Err(InvalidValue::NotHttp));
    assert_eq!(stdio().with_tls(Tls::default()), Err(InvalidValue::NotHttp));
    assert_eq!(http().with_env("A", "b"), Err(InvalidValue::NotStdio));
    assert_eq!(http().with_cwd("/"), Err(InvalidValue::NotStdio));
    assert_eq!(stdio().without_fallback(), Err(InvalidValue::NotHttp));
    let sse = || Server::sse("c", "http://h/").build().unwrap();
    assert_eq!(sse().with_env("A", "b"), Err(InvalidValue::NotStdio));
    assert!(sse().with_header("A", "b").is_ok());
}

#[test]
fn a_header_replaces_its_namesake() {
    let server = Server::http("b", "http://h/").header("X-Key", "1").header("x-key", "2").build().unwrap();
    let Transport::Http(http) = server.transport else {
        panic!("not http");
    };
    assert_eq!(http.headers, [("x-key".to_owned(), Secret::from("2"))]);
}

#[test]
fn a_call_never_outlives_the_cap() {
    let hour = Duration::from_secs(3600);
    let second = Duration::from_secs(1);
    let server = Server::stdio("a", "srv").build().unwrap().with_idle_timeout(hour);
    assert_eq!(server.timeouts.total, hour);
    let server = server.with_timeout(second);
    assert_eq!((server.timeouts.idle, server.timeouts.total), (second, second));
}

#[test]
fn keepalive_is_off_or_not_too_often() {
    let keepalive = |interval| Server::stdio("a", "srv").build().unwrap().with_keepalive(interval).keepalive;
    let seconds = Duration::from_secs;
    assert_eq!(Server::stdio("a", "srv").build().unwrap().keepalive, Some(seconds(180)));
    assert_eq!(keepalive(None), None);
    assert_eq!(keepalive(Some(Duration::ZERO)), None);
    assert_eq!(keepalive(Some(Duration::from_nanos(1))), Some(seconds(5)));
    assert_eq!(keepalive(Some(seconds(5))), Some(seconds(5)));
    assert_eq!(keepalive(Some(seconds(6))), Some(seconds(6)));
}

#[test]
fn either_http_is_tried_unless_one_is_named() {
    let fallback = |server: Server| match server.transport {
        Transport::Http(http) => Some(http.fallback),
        Transport::Stdio(_) | Transport::Sse(_) => None,
    };
    let http = Server::http("b", "http://h/").build().unwrap();
    assert_eq!(fallback(http.clone()), Some(true));
    assert_eq!(fallback(http.without_fallback().unwrap()), Some(false));
    assert_eq!(fallback(Server::sse("b", "http://h/").build().unwrap()), None);
    assert_eq!(Server::sse("b", "ftp://h/").build(), Err(InvalidValue::UrlScheme));
}

#[test]
fn hooks_for_all_come_before_its_own() {
    let hook = |name: &str| Hook::command(name, [""; 0]);
    let server = Server::stdio("a", "srv").build().unwrap().with_hook(hook("3")).with_hook(hook("4"));
    let server = server.with_common_hooks(&[hook("1"), hook("2")]);
    assert_eq!(server.hooks, ["1", "2", "3", "4"].map(hook));
}

#[test]
#[cfg(unix)]
fn a_socket_needs_an_absolute_path_and_plain_http() {
    let server = |url: &str| Server::http("b", url).build().unwrap();
    let socket = |server: Server| server.transport.http().unwrap().socket.clone();
    assert_eq!(socket(server("http://h/").with_socket("/s").unwrap()), Some("/s".into()));
    assert_eq!(server("http://h/").with_socket("s"), Err(InvalidValue::SocketPath));
    assert_eq!(server("https://h/").with_socket("/s"), Err(InvalidValue::SocketScheme));
    let stdio = Server::stdio("a", "srv").build().unwrap();
    assert_eq!(stdio.with_socket("/s"), Err(InvalidValue::NotHttp));
    assert_eq!(Server::http("b", "http://h/").socket("s").build(), Err(InvalidValue::SocketPath));
}

#[test]
#[cfg(not(unix))]
fn there_are_no_unix_sockets() {
    let server = Server::http("b", "http://h/").socket("C:\\s").build();
    assert_eq!(server, Err(InvalidValue::SocketUnsupported));
}

#[test]
fn half_a_client_certificate_is_refused() {
    let tls = Tls { client_cert: Some("c.pem".into()), ..Tls::default() };
    let server = Server::http("b", "https://h/").build().unwrap();
    assert_eq!(server.with_tls(tls), Err(InvalidValue::TlsPair));
}
