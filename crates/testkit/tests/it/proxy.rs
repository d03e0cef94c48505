//! The rules of the proxy, seen from both ends.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bowline_testkit::{FaultProxy, ProxyRules};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Client, TEST_TIMEOUT, within_timeout};

/// Connects a client and a server through a proxy.
async fn pair() -> (FaultProxy, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).await;
    let (client, server) = connect(&proxy, &listener).await;
    (proxy, client, server)
}

async fn connect(proxy: &FaultProxy, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(proxy.addr()).await.unwrap();
    let (server, _) = within_timeout(listener.accept()).await.unwrap();
    (client, server)
}

async fn pass(from: &mut TcpStream, to: &mut TcpStream, text: &str) {
    from.write_all(text.as_bytes()).await.unwrap();
    let mut buffer = vec![0; text.len()];
    within_timeout(to.read_exact(&mut buffer)).await.unwrap();
    assert_eq!(buffer, text.as_bytes());
}

async fn rest(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let end = within_timeout(stream.read_to_end(&mut bytes)).await;
    (bytes, end.err().map(|error| error.kind()))
}

#[tokio::test]
async fn without_rules_it_is_a_wire() {
    let (proxy, mut client, mut server) = pair().await;
    pass(&mut client, &mut server, "question").await;
    pass(&mut server, &mut client, "answer").await;
    let info = proxy.links()[0];
    assert_eq!((info.number, info.open, info.request_bytes, info.reply_bytes), (1, true, 8, 6));
    // A half-closed connection still carries the response.
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut server).await, (Vec::new(), None));
    pass(&mut server, &mut client, "late").await;
    drop(server);
    assert_eq!(rest(&mut client).await, (Vec::new(), None));
    proxy.wait_until(|p| !p.links()[0].open, TEST_TIMEOUT).await;
}

#[tokio::test]
async fn delay_holds_each_piece() {
    let (proxy, mut client, mut server) = pair().await;
    proxy.set_rules(ProxyRules::new().delay(Duration::from_millis(80)));
    let start = Instant::now();
    pass(&mut client, &mut server, "slow").await;
    assert!(start.elapsed() >= Duration::from_millis(80));
    proxy.set_rules(ProxyRules::new());
    pass(&mut client, &mut server, "fast").await;
}

#[tokio::test]
async fn cuts_count_from_when_they_are_set() {
    let (proxy, mut client, mut server) = pair().await;
    pass(&mut server, &mut client, "before").await;
    proxy.set_rules(ProxyRules::new().cut_reply_after(4));
    server.write_all(b"abcdefgh").await.unwrap();
    assert_eq!(rest(&mut client).await, (b"abcd".to_vec(), None));
    proxy.wait_until(|p| !p.links()[0].open, TEST_TIMEOUT).await;

    let (proxy, mut client, mut server) = pair().await;
    proxy.set_rules(ProxyRules::new().cut_request_after(2));
    client.write_all(b"xyz").await.unwrap();
    assert_eq!(rest(&mut server).await, (b"xy".to_vec(), None));
}

#[tokio::test]
async fn a_cut_can_be_a_reset_and_strikes_idle_connections() {
    let (proxy, mut client, _server) = pair().await;
    proxy.set_rules(ProxyRules::new().cut_reply_after(0).with_reset());
    assert_eq!(rest(&mut client).await.1, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_stall_keeps_bytes_until_it_is_over() {
    let (proxy, mut client, mut server) = pair().await;
    pass(&mut client, &mut server, "x").await;
    proxy.set_rules(ProxyRules::new().stall_reply());
    server.write_all(b"held").await.unwrap();
    // The other direction is not stalled, and its bytes prove that time has passed.
    pass(&mut client, &mut server, "still going").await;
    assert_eq!(client.try_read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(proxy.links()[0].open);
    proxy.set_rules(ProxyRules::new());
    let mut buffer = [0; 4];
    within_timeout(client.read_exact(&mut buffer)).await.unwrap();
    assert_eq!(&buffer, b"held");
}

/// No other socket gets the port between refusing and accepting.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_port_is_kept_through_many_refusals() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).await;
    let crowd = crate::support::PortContenders::contending_for(proxy.addr()).await;
    for _ in 0..200 {
        proxy.refuse_connections().await;
        let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        proxy.accept_connections().await;
    }
    assert_eq!(crowd.times_taken(), 0);
    connect(&proxy, &listener).await;
}

#[tokio::test]
async fn refusing_leaves_open_connections_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).await;
    let (mut client, mut server) = connect(&proxy, &listener).await;
    proxy.refuse_connections().await;
    let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    pass(&mut client, &mut server, "old friend").await;
    proxy.accept_connections().await;
    connect(&proxy, &listener).await;
}

#[tokio::test]
async fn a_target_that_is_away_looks_like_a_reset() {
    let gone: SocketAddr = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let proxy = FaultProxy::start(gone).await;
    // The reset may arrive before the connection is reported.
    let error = match TcpStream::connect(proxy.addr()).await {
        Ok(mut client) => rest(&mut client).await.1,
        Err(error) => Some(error.kind()),
    };
    assert_eq!(error, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn dropping_ends_everything() {
    let (proxy, mut client, _server) = pair().await;
    let addr = proxy.addr();
    drop(proxy);
    assert_eq!(rest(&mut client).await.0, Vec::<u8>::new());
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn a_session_survives_a_broken_wire() {
    let server = bowline_testkit::server().tool("counter").run().await;
    let proxy = FaultProxy::start(server.addr()).await;
    let client = Client::legacy(proxy.addr()).await;
    proxy.set_rules(ProxyRules::new().cut_reply_after(20));
    let call = crate::support::request(1, "tools/call", serde_json::json!({"name": "counter"}));
    client.try_post(&call).await.unwrap_err();
    proxy.set_rules(ProxyRules::new());
    assert_eq!(client.call("counter", serde_json::json!({})).await, "2");
}
