//! Tests of the listener: the turns of requests, cancellation, and the handshake.

use std::future::pending;

use bowline_proto::wire::{RpcError, code};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::sync::mpsc;

use super::*;

/// A listener, and the host at its other end.
struct TestHost {
    stdin: DuplexStream,
    stdout: Lines<BufReader<DuplexStream>>,
}

impl TestHost {
    fn connect() -> (Self, Host) {
        let (stdin, reader) = tokio::io::duplex(1024 * 1024);
        let (writer, stdout) = tokio::io::duplex(1024 * 1024);
        (Self { stdin, stdout: BufReader::new(stdout).lines() }, Host::new(reader, writer))
    }

    /// A host whose `initialize` was accepted.
    async fn initialized() -> (Self, Host) {
        let (mut test, mut host) = Self::connect();
        test.send(r#"{"jsonrpc":"2.0","id":"hello","method":"initialize"}"#).await;
        let Some(HostEvent::Initialize(request)) = host.next().await else { panic!("no initialize") };
        request.accept();
        (test, host)
    }

    async fn send(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn send_request(&mut self, id: u32) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#)).await;
    }

    async fn cancel(&mut self, id: u32) {
        let params = format!(r#"{{"requestId":{id}}}"#);
        self.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#))
            .await;
    }
}

async fn next_request(host: &mut Host) -> OpenRequest {
    match host.next().await {
        Some(HostEvent::Request { request, .. }) => request,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn waiting_requests_run_in_turn_and_can_be_canceled() {
    let (mut test, mut host) = TestHost::initialized().await;
    for id in 0..512 {
        test.send_request(id).await;
        next_request(&mut host).await.spawn(|request| async move {
            let _request = request;
            pending::<()>().await;
        });
    }
    let (sender, mut ran) = mpsc::unbounded_channel();
    for id in [1000, 1001, 1002] {
        test.send_request(id).await;
        let sender = sender.clone();
        next_request(&mut host).await.spawn(|request| async move {
            sender.send(id).unwrap();
            request.respond(Ok(&Json::empty_object())).await;
        });
    }
    test.cancel(1001).await;
    test.cancel(7).await;
    test.send(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
    assert!(matches!(host.next().await, Some(HostEvent::Notification { .. })));
    assert_eq!((ran.recv().await, ran.recv().await), (Some(1000), Some(1002)));
    host.link().abort_requests().await;
    assert!(ran.try_recv().is_err());
    for id in [1000, 1002] {
        let line = test.stdout.next_line().await.unwrap().unwrap();
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

/// BM-02: the error has no id, since one with the id would be taken for the response to the first request.
#[tokio::test]
async fn bm_02_duplicate_id_on_a_pipe_is_refused_without_an_id() {
    let (mut test, mut host) = TestHost::initialized().await;
    test.send_request(5).await;
    let first = next_request(&mut host).await;
    test.send_request(5).await;
    test.send(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
    assert!(matches!(host.next().await, Some(HostEvent::Notification { .. })));
    let line = test.stdout.next_line().await.unwrap().unwrap();
    let refusal =
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"a request with this id is under way"}}"#;
    assert_eq!(line, refusal);
    first.respond(Ok(&Json::empty_object())).await;
    assert_eq!(test.stdout.next_line().await.unwrap().unwrap(), r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
}

#[tokio::test]
async fn refused_host_may_initialize_again() {
    let (mut test, mut host) = TestHost::connect();
    test.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#).await;
    let Some(HostEvent::Initialize(first)) = host.next().await else { panic!("no initialize") };
    let handshake = first.handshake();
    drop(first);
    assert!(!handshake.wait_until_answered().await);
    test.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#).await;
    let Some(HostEvent::Initialize(second)) = host.next().await else { panic!("no initialize") };
    second.accept();
    assert!(second.handshake().wait_until_answered().await);
    assert!(!handshake.wait_until_ready().await, "the first stays refused");
}

/// A host that has read the error need not wait until whoever refused it is done.
#[tokio::test]
async fn host_that_has_read_a_refusal_may_initialize_again() {
    let (mut test, mut host) = TestHost::connect();
    test.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#).await;
    let Some(HostEvent::Initialize(first)) = host.next().await else { panic!("no initialize") };
    first.respond(Err(&RpcError::new(code::INTERNAL_ERROR, "not now"))).await;
    let line = test.stdout.next_line().await.unwrap().unwrap();
    assert_eq!(line, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"not now"}}"#);
    test.send(r#"{"jsonrpc":"2.0","id":2,"method":"initialize"}"#).await;
    let Some(HostEvent::Initialize(second)) = host.next().await else { panic!("no initialize") };
    drop(first);
    second.accept();
    assert!(second.handshake().wait_until_answered().await, "the first does not refuse the second");
}

#[tokio::test]
async fn requests_to_the_host_fail_when_it_leaves() {
    let (mut test, host) = TestHost::initialized().await;
    let link = host.link().clone();
    let request = tokio::spawn(async move { link.send_request("roots/list", &Json::empty_object()).await });
    let sent = test.stdout.next_line().await.unwrap().unwrap();
    assert_eq!(sent, r#"{"jsonrpc":"2.0","id":0,"method":"roots/list","params":{}}"#);
    host.link().fail_sent_requests();
    assert_eq!(request.await.unwrap().unwrap_err().message, "the host has left");
}

/// On a pipe, messages that belong to a request are written like any other.
#[tokio::test]
async fn related_messages_are_written_to_the_pipe() {
    let (mut test, mut host) = TestHost::initialized().await;
    test.send_request(1).await;
    next_request(&mut host).await.spawn(|request| async move {
        request.notify("notifications/progress", Some(&Json::empty_object())).await;
        let roots = request.send_request("roots/list", &Json::empty_object()).await;
        request.respond(roots.as_ref()).await;
    });
    let lines = [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":0,"method":"roots/list","params":{}}"#,
    ];
    for line in lines {
        assert_eq!(test.stdout.next_line().await.unwrap().unwrap(), line);
    }
    test.send(r#"{"jsonrpc":"2.0","id":0,"result":{"roots":[]}}"#).await;
    test.send(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
    assert!(matches!(host.next().await, Some(HostEvent::Notification { .. })));
    let line = test.stdout.next_line().await.unwrap().unwrap();
    assert_eq!(line, r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#);
}

#[tokio::test]
async fn a_host_on_a_pipe_reads_that_it_has_too_many_requests() {
    let (mut test, host) = TestHost::initialized().await;
    let mut host = host.with_limits(HostLimits::new().with_requests_in_flight(1));
    test.send_request(1).await;
    let open = next_request(&mut host).await;
    test.send_request(2).await;
    test.cancel(9).await;
    test.send_request(3).await;
    // What was refused does not reach whoever serves the host.
    let serving = tokio::spawn(async move { (next_request(&mut host).await, host) });
    for id in [2, 3] {
        let line = test.stdout.next_line().await.unwrap().unwrap();
        assert!(
            line.contains(&format!("\"id\":{id},\"error\"")) && line.contains("1 of this host"),
            "{line}"
        );
    }
    open.respond(Ok(&Json::empty_object())).await;
    drop(open);
    test.send_request(4).await;
    let (request, _host) = serving.await.unwrap();
    request.respond(Ok(&Json::empty_object())).await;
    for id in [1, 4] {
        let line = test.stdout.next_line().await.unwrap().unwrap();
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}
