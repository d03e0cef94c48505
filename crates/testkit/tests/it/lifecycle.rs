//! Stopping, starting, recording and dropping a server.

use crate::support::{Client, TEST_TIMEOUT, initialize, request, within_timeout};
use bowline_testkit as testkit;
use http_body_util::BodyExt;
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tokio::net::TcpStream;

#[tokio::test]
async fn restart_keeps_the_port_and_loses_sessions() {
    let server = testkit::server().tool("echo").run().await;
    let client = Client::legacy(server.addr()).await;
    let mut kept = client.connect().await.unwrap();
    let addr = server.addr();
    server.restart().await;
    assert_eq!(server.addr(), addr);
    let ping = request(1, "ping", json!({}));
    assert!(kept.send_request(client.request("POST", ping.to_string().into_bytes())).await.is_err());
    assert_eq!(client.post(&ping).await.status, 404);
    Client::legacy(addr).await.call("echo", json!({})).await;
    assert_eq!((server.runs(), server.initialize_count()), (2, 2));
    assert_eq!(server.received().last().unwrap().run, 2);
}

#[tokio::test]
async fn a_stopped_server_refuses() {
    let server = testkit::server().run().await;
    let client = Client::new(server.addr());
    server.stop().await;
    server.stop().await;
    let refused = TcpStream::connect(server.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    server.start().await;
    server.start().await;
    assert_eq!(client.post(&initialize("2025-11-25")).await.status, 200);
    assert_eq!(server.runs(), 2);
}

/// No other socket gets the port while the server is being stopped.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_port_is_kept_through_many_stops() {
    let server = testkit::server().run().await;
    let crowd = crate::support::PortContenders::contending_for(server.addr()).await;
    for _ in 0..200 {
        // Stopping may have to wait for this connection; it is reset, so that it does not hold the
        // port itself.
        TcpStream::connect(server.addr()).await.unwrap().set_zero_linger().unwrap();
        server.stop().await;
        let refused = TcpStream::connect(server.addr()).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        server.start().await;
    }
    assert_eq!((server.runs(), crowd.times_taken()), (201, 0));
}

#[tokio::test]
async fn messages_are_recorded_in_order() {
    let server = testkit::server().tool("echo").run().await;
    let client = Client::legacy(server.addr()).await.with_header("x-mine", "yes");
    client.call("echo", json!({"k": 1})).await;
    let received = server.received();
    let methods: Vec<&str> = received.iter().map(|r| r.method.as_str()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/call"]);
    let call = &received[2];
    assert_eq!((call.seq, call.run, call.connection), (2, 1, 3));
    assert_eq!((call.http_method.as_str(), call.path.as_str()), ("POST", "/mcp"));
    assert_eq!(call.header("X-Mine"), Some("yes"));
    assert_eq!(call.session.as_deref(), Some(client.session()));
    assert_eq!(call.params()["arguments"], json!({"k": 1}));
    assert_eq!(server.connections(), 3);
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = testkit::server().tool("echo").run().await;
    let client = Client::legacy(server.addr()).await;
    let mut sender = client.connect().await.unwrap();
    for n in 0..10 {
        let message = request(n, "tools/call", json!({"name": "echo"})).to_string().into_bytes();
        let reply = sender.send_request(client.request("POST", message)).await.unwrap();
        assert_eq!(reply.status(), 200);
        reply.into_body().collect().await.unwrap();
    }
    assert_eq!(server.connections(), 3);
    server.close_connections().await;
    assert_eq!(server.sessions().len(), 1);
}

#[tokio::test]
async fn http_2_with_prior_knowledge() {
    let server = testkit::server().tool("slow").tool("echo").run().await;
    let client = Client::legacy(server.addr()).await;
    let stream = TcpStream::connect(server.addr()).await.unwrap();
    let executor = hyper_util::rt::TokioExecutor::new();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(executor, hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let send = async |tool: &str, ms: u64| {
        let message = request(1, "tools/call", json!({"name": tool, "arguments": {"ms": ms}}));
        let mut request = client.request("POST", message.to_string().into_bytes());
        request.headers_mut().remove("host");
        *request.uri_mut() = server.url().parse().unwrap();
        sender.clone().send_request(request).await
    };
    // The slow call does not delay the other: both are on one connection.
    tokio::select! {
        _ = send("slow", 3_600_000) => panic!("it cannot be done"),
        reply = within_timeout(send("echo", 0)) => {
            let reply = reply.unwrap();
            assert_eq!((reply.version(), reply.status().as_u16()), (hyper::Version::HTTP_2, 200));
        }
    }
    server.arm(testkit::Fault::cut_after(5).on("tools/call"));
    let reply = within_timeout(send("echo", 0)).await.unwrap();
    assert!(within_timeout(reply.into_body().collect()).await.is_err());
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn waiting_wakes_for_what_comes_later() {
    let server = testkit::server().run().await;
    let waiting = tokio::spawn({
        let control = server.control();
        async move { control.wait_for(|r| r.has_method("initialize"), TEST_TIMEOUT).await.seq }
    });
    Client::legacy(server.addr()).await;
    assert_eq!(within_timeout(waiting).await.unwrap(), 0);
}

#[tokio::test]
#[should_panic(expected = "0 connections, 0 messages")]
async fn failed_wait_panics_with_a_summary() {
    let server = testkit::server().run().await;
    server.wait_for(|_| true, Duration::from_millis(10)).await;
}

#[tokio::test]
async fn dropping_ends_everything() {
    let server = testkit::server().tool("slow").run().await;
    let control = server.control();
    let client = Client::legacy(server.addr()).await;
    let call = request(1, "tools/call", json!({"name": "slow", "arguments": {"ms": 3_600_000}}));
    let mut waiting = Box::pin(client.open("POST", call.to_string().into_bytes()));
    tokio::select! {
        _ = &mut waiting => panic!("it cannot be done"),
        () = control.wait_until(|c| c.executions("slow") == 1, TEST_TIMEOUT) => {}
    }
    let addr = server.addr();
    drop(server);
    let refused = TcpStream::connect(addr).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(within_timeout(waiting).await.is_err());
    assert_eq!(control.received().len(), 3);
}

#[tokio::test]
async fn a_panic_inside_is_raised_when_dropped() {
    let server = testkit::server().tool_fn("bomb", json!({"type": "object"}), |_| panic!("tick")).run().await;
    let client = Client::legacy(server.addr()).await;
    let call = request(1, "tools/call", json!({"name": "bomb"}));
    client.try_post(&call).await.unwrap_err();
    let panic = catch_unwind(AssertUnwindSafe(|| drop(server))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"tick"));
}

#[test]
fn works_without_the_tests_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(testkit::server().run());
    // Nothing polls the test's runtime now, and a blocking client is still served.
    let mut stream = std::net::TcpStream::connect(server.addr()).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /other HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 404"), "{text}");
}
