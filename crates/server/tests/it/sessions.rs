//! Sessions: their ids, their ends, and that they do not mix.

use std::collections::HashSet;
use std::time::Duration;

use bowline_server::HttpSettings;
use serde_json::json;

use crate::host_limits::refused;
use crate::http_client::{HttpClient, soon};
use crate::test_server::{
    Report, TestServer, begin_session, bind, initialize, notification, refusal, request, result,
};

const NEWEST: &str = "2025-11-25";

/// SE-08, HL-02: ids are random, long and visible ASCII.
#[tokio::test]
async fn se_08_session_ids_are_random_and_visible() {
    let server = TestServer::start().await;
    let mut ids = HashSet::new();
    for _ in 0..20 {
        let reply = server.client.post(&initialize(NEWEST)).await;
        let id = reply.header("mcp-session-id").unwrap().to_owned();
        assert_eq!(id.len(), 96, "128 bits and a tag: {id}");
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert_eq!(reply.expect_json(200).await["result"]["protocolVersion"], NEWEST);
        assert!(ids.insert(id));
    }
}

/// HL-02, HL-03: a missing id is 400; an unknown, foreign or ended one is 404 and not told apart.
#[tokio::test]
async fn hl_03_missing_and_unknown_session_ids_are_refused() {
    let server = TestServer::start().await;
    let ended = server.initialize(NEWEST).await;
    ended.delete().await.expect_empty(204).await;
    let without = ended.without("mcp-session-id");
    let unknown = ended.with("mcp-session-id", &"0".repeat(48));
    let garbage = ended.with("mcp-session-id", "' OR 1=1 --");
    let missing = refusal(-32600, "the MCP-Session-Id header is missing");
    let not_found = refusal(-32600, "no such session");
    for (host, status, body) in [
        (without, 400, missing),
        (unknown, 404, not_found.clone()),
        (ended, 404, not_found.clone()),
        (garbage, 404, not_found),
    ] {
        let replies =
            [host.post(&request(1, "ping", json!({}))).await, host.get().await, host.delete().await];
        for reply in replies {
            assert_eq!(reply.expect_json(status).await, body);
        }
    }
}

/// HL-01: a version that is unsupported, or not the agreed one, is refused; none is fine.
#[tokio::test]
async fn hl_01_version_header_must_fit() {
    let server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    for (version, message) in [
        ("1900-01-01", "this MCP-Protocol-Version is not supported"),
        ("2026-07-28", "this MCP-Protocol-Version is not supported"),
        ("2025-11-25", "the session agreed on another MCP-Protocol-Version"),
    ] {
        let host = host.with("mcp-protocol-version", version);
        let replies =
            [host.post(&request(1, "ping", json!({}))).await, host.get().await, host.delete().await];
        for reply in replies {
            assert_eq!(reply.expect_json(400).await, refusal(-32600, message));
        }
    }
    let without = host.without("mcp-protocol-version");
    assert_eq!(
        without.post(&request(1, "ping", json!({}))).await.expect_json(200).await,
        result(1, json!({}))
    );
    let odd = server.client.with("mcp-protocol-version", "1900-01-01").post(&initialize(NEWEST)).await;
    assert_eq!(odd.expect_json(400).await, refusal(-32600, "this MCP-Protocol-Version is not supported"));
}

/// LC-02: each host gets the revision that it requests.
#[tokio::test]
async fn lc_02_all_revisions_with_sessions_are_served() {
    let server = TestServer::start().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let reply = server.client.post(&initialize(revision)).await.expect_json(200).await;
        assert_eq!(reply["result"]["protocolVersion"], revision);
    }
    let newer = server.client.post(&initialize("2026-07-28")).await.expect_json(200).await;
    assert_eq!(newer["result"]["protocolVersion"], NEWEST);
}

/// HL-04: DELETE ends the host, its streams and its requests.
#[tokio::test]
async fn hl_04_delete_ends_the_session() {
    let mut server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    let standalone = host.get().await.expect_events();
    let hanging = {
        let host = host.clone();
        tokio::spawn(async move { host.post(&request(5, "hang", json!({}))).await.expect_json(200).await })
    };
    server.expect(Report::Arrived("hang".into())).await;
    host.delete().await.expect_empty(204).await;
    standalone.expect_end().await;
    assert_eq!(
        hanging.await.unwrap()["error"]["message"],
        "bowline: the request was given up (the server may have executed it)"
    );
    server.expect(Report::Ended).await;
    assert_eq!(host.delete().await.status, 404);
}

/// GW-14: sessions with equal ids of requests and events do not mix.
#[tokio::test]
async fn gw_14_sessions_with_equal_ids_do_not_mix() {
    let server = TestServer::start().await;
    let (a, b) = (server.initialize("2025-06-18").await, server.initialize("2025-06-18").await);
    let (mut a_stream, mut b_stream) = (a.get().await.expect_events(), b.get().await.expect_events());
    let (mut a_events, mut b_events) =
        tokio::join!(async { a.post(&request(1, "ask", json!({}))).await.expect_events() }, async {
            b.post(&request(1, "ask", json!({}))).await.expect_events()
        },);
    let (a_question, b_question) = (a_events.next().await.unwrap(), b_events.next().await.unwrap());
    assert_eq!(a_question, b_question, "the precondition: the same ids in both sessions");
    let id = a_question.message["id"].clone();
    b.post(&result(id.clone(), json!({"roots": ["b"]}))).await.expect_empty(202).await;
    assert_eq!(b_events.message().await, result(1, json!({"roots": ["b"]})));
    a.post(&result(id, json!({"roots": ["a"]}))).await.expect_empty(202).await;
    assert_eq!(a_events.message().await, result(1, json!({"roots": ["a"]})));
    a.post(&notification("notifications/announce")).await.expect_empty(202).await;
    assert_eq!(a_stream.message().await["method"], "notifications/tools/list_changed");
    // An event id of one session is none in the other.
    let stolen = b.with("last-event-id", "7-1").get().await;
    assert_eq!(stolen.expect_json(400).await, refusal(-32600, "no such event is known in this session"));
    b.post(&notification("notifications/question")).await.expect_empty(202).await;
    assert_eq!(b_stream.message().await["method"], "roots/list", "the first message of its stream");
}

/// A refused `initialize` has no session id, and its session ends.
#[tokio::test]
async fn refused_initialize_begins_no_session() {
    let mut server = TestServer::start().await;
    let params = json!({"protocolVersion": NEWEST, "clientInfo": {"name": "unwanted", "version": "1"}});
    let reply = server.client.post(&request("i", "initialize", params)).await;
    assert_eq!(reply.header("mcp-session-id"), None);
    let error = json!({"code": -32602, "message": "not you"});
    assert_eq!(reply.expect_json(200).await, json!({"jsonrpc": "2.0", "id": "i", "error": error}));
    server.expect(Report::Ended).await;
}

/// The session of a host that was gone before it got its id ends at once.
#[tokio::test]
async fn host_that_leaves_during_initialize_ends_its_session() {
    let mut listener = bind(HttpSettings::new()).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let posting = tokio::spawn(async move { client.post(&initialize(NEWEST)).await });
    let mut host = soon(listener.accept()).await.unwrap();
    let Some(bowline_server::HostEvent::Initialize(_request)) = soon(host.next()).await else {
        panic!("no initialize")
    };
    posting.abort();
    assert!(soon(host.next()).await.is_none());
    soon(host.wait_for_output_close()).await;
    soon(host.link().wait_for_disconnect()).await;
}

#[tokio::test]
async fn idle_sessions_end() {
    let settings = HttpSettings::new().with_idle_timeout(Duration::from_secs(1));
    let mut server = TestServer::start_with(settings).await;
    let host = server.initialize("2025-06-18").await;
    server.expect(Report::Ended).await;
    let gone = host.post(&request(1, "ping", json!({}))).await;
    assert_eq!(gone.expect_json(404).await, refusal(-32600, "no such session"));
    // One that only sent `initialize`.
    assert_eq!(server.client.post(&initialize(NEWEST)).await.status, 200);
    server.expect(Report::Ended).await;
}

/// A session with an open stream is not idle: another one that began later ends before it.
#[tokio::test]
async fn session_with_an_open_stream_is_not_idle() {
    let settings = HttpSettings::new().with_idle_timeout(Duration::from_secs(1));
    let mut server = TestServer::start_with(settings).await;
    let reply = server.client.post(&initialize("2025-06-18")).await;
    let host = server.client.with("mcp-session-id", reply.header("mcp-session-id").unwrap());
    let mut stream = host.get().await.expect_events();
    for _ in 0..2 {
        assert_eq!(server.client.post(&initialize(NEWEST)).await.status, 200);
        server.expect(Report::Ended).await;
    }
    host.post(&notification("notifications/initialized")).await.expect_empty(202).await;
    host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    assert_eq!(stream.message().await["method"], "notifications/tools/list_changed");
}

/// A listener is idle when the last session has ended and its host was dropped, and not before.
#[tokio::test]
async fn a_listener_is_idle_without_sessions() {
    let mut listener = bind(HttpSettings::new()).await;
    let idle = listener.idle_watch();
    soon(idle.wait_until_idle_for(Duration::ZERO)).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let posting = tokio::spawn(async move { client.post(&initialize(NEWEST)).await.status });
    let host = soon(listener.accept()).await.unwrap();
    let waiting = tokio::spawn(async move { idle.wait_until_idle_for(Duration::ZERO).await });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    posting.abort();
    drop(host);
    soon(waiting).await.unwrap();
}

#[tokio::test]
async fn a_thousand_sessions_begin_and_end() {
    let settings = HttpSettings::new().with_max_sessions(1000).with_sse("/sse", "/messages");
    let mut server = TestServer::start_with(settings).await;
    let mut hosts = Vec::new();
    for _ in 0..1000 {
        hosts.push(begin_session(&server.client, "2025-06-18").await);
    }
    // Hosts read the error of a request in a response of status 200.
    let full = server.client.post(&initialize(NEWEST)).await;
    assert_eq!(full.header("mcp-session-id"), None);
    let message = "too many sessions: 1000 may be open at once";
    assert_eq!(full.expect_json(200).await, refused(0, "sessions", message, 5.0));
    let full = server.client.send("GET", "/sse", "").await;
    assert_eq!((full.status, full.header("retry-after")), (429, Some("5")));
    for host in &hosts {
        host.delete().await.expect_empty(204).await;
    }
    for _ in 0..1000 {
        server.expect(Report::Ended).await;
    }
    assert_eq!(hosts[500].get().await.status, 404);
    begin_session(&server.client, NEWEST).await;
}
