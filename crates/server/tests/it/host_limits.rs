//! What one host, and all hosts with one token may use; and what a host reads that wants more.

use bowline_server::{HOSTS_PER_IDENTITY, HostLimits, HttpSettings};
use serde_json::{Value, json};

use crate::http_client::{HttpClient, TestReply, soon};
use crate::test_server::{
    Report, TestServer, begin_session, bind, initialize, notification, request, result,
};
use crate::{sse, stateless};

const NEWEST: &str = "2025-11-25";

fn in_flight(requests: usize) -> HttpSettings {
    HttpSettings::new().with_host_limits(HostLimits::new().with_requests_in_flight(requests))
}

/// The response to a request that was not admitted.
pub(crate) fn refused(id: u64, cause: &str, message: &str, retry_after: f64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {
        "code": -31050,
        "message": format!("bowline: {message} (the request was not executed); wait {retry_after} s"),
        "data": {"bowline": {"cause": cause, "execution": "not_executed", "retry_after": retry_after}},
    }})
}

fn too_many_open(id: u64, limit: usize, whose: &str) -> Value {
    refused(id, "busy", &format!("too many requests are open: {limit} of {whose} may be"), 1.0)
}

/// Sends a request that is not answered, and waits until it is served.
async fn hang(server: &mut TestServer, host: &HttpClient, id: u64) -> tokio::task::JoinHandle<TestReply> {
    let host = host.clone();
    let posting = tokio::spawn(async move { host.post(&request(id, "hang", json!({}))).await });
    server.expect(Report::Arrived("hang".into())).await;
    posting
}

async fn cancel(host: &HttpClient, id: u64) {
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    host.post(&cancel).await.expect_empty(202).await;
}

async fn expect_served(host: &HttpClient, id: u64) {
    let answer = host.post(&request(id, "echo", json!({}))).await.expect_json(200).await;
    assert_eq!(answer, result(id, json!({})));
}

async fn expect_refused(host: &HttpClient, expected: &Value) {
    let id = expected["id"].as_u64().unwrap();
    let answer = host.post(&request(id, "echo", json!({}))).await.expect_json(200).await;
    assert_eq!(answer, *expected);
}

#[tokio::test]
async fn a_host_has_a_limited_number_of_requests_open() {
    let mut server = TestServer::start_with(in_flight(2)).await;
    let host = server.initialize(NEWEST).await;
    let neighbor = server.initialize(NEWEST).await;
    let _hanging = [hang(&mut server, &host, 1).await, hang(&mut server, &host, 2).await];
    let refusal = too_many_open(3, 2, "this host");
    expect_refused(&host, &refusal).await;
    expect_refused(&host, &refusal).await;
    // Others with the same token are served, and so is what is not limited.
    expect_served(&neighbor, 3).await;
    let pong = host.post(&request(4, "ping", json!({}))).await.expect_json(200).await;
    assert_eq!(pong, result(4, json!({})));
    // A cancellation makes room, and an answer does. From then on the wait depends on how fast they came.
    cancel(&host, 1).await;
    server.expect(Report::Gone("hang".into())).await;
    for id in 5..10 {
        expect_served(&host, id).await;
    }
    let _hanging = hang(&mut server, &host, 11).await;
    let answer = host.post(&request(12, "echo", json!({}))).await.expect_json(200).await;
    let wait = answer["error"]["data"]["bowline"]["retry_after"].as_f64().unwrap();
    assert!((0.1..=5.0).contains(&wait), "{wait}");
    let why = "too many requests are open: 2 of this host may be";
    assert_eq!(answer, refused(12, "busy", why, wait));
}

/// The hosts with one token have more than one of them, but not everything.
#[tokio::test]
async fn hosts_with_one_token_share_a_limit() {
    let settings = in_flight(1).with_bearer_token("general").with_view("a", Some("token-a"));
    let mut server = TestServer::start_with(settings).await;
    let general = server.client.with("authorization", "Bearer general");
    let mut sessions = Vec::new();
    for id in 0..u64::from(HOSTS_PER_IDENTITY) {
        let host = begin_session(&general, NEWEST).await;
        let posting = hang(&mut server, &host, id).await;
        sessions.push((host, posting));
    }
    let further = begin_session(&general, NEWEST).await;
    expect_refused(&further, &too_many_open(9, 4, "the hosts with this token")).await;
    let other = begin_session(&server.client.with("authorization", "Bearer token-a"), NEWEST).await;
    expect_served(&other, 9).await;
    // What one of them gives up, another one may use.
    cancel(&sessions[0].0, 0).await;
    server.expect(Report::Gone("hang".into())).await;
    expect_served(&further, 10).await;
}

/// Each request of a batch counts, and each that is refused has its own error.
#[tokio::test]
async fn a_part_of_a_batch_is_refused() {
    let mut server = TestServer::start_with(in_flight(2)).await;
    let host = server.initialize("2025-03-26").await.with("accept", "application/json");
    let batch: Vec<_> = (1..=4).map(|id| request(id, "talk", json!({"steps": 0}))).collect();
    let posting = {
        let host = host.clone();
        tokio::spawn(async move { host.post(&json!(batch)).await.expect_json(200).await })
    };
    for _ in 0..2 {
        server.expect(Report::Arrived("talk".into())).await;
    }
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    let mut answers = soon(posting).await.unwrap().as_array().unwrap().clone();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let refusals = [too_many_open(3, 2, "this host"), too_many_open(4, 2, "this host")];
    let results = [result(1, json!({"said": 0})), result(2, json!({"said": 0}))];
    assert_eq!(answers, [results, refusals].concat());
}

/// A host that is too fast is told when it is served again.
#[tokio::test]
async fn a_host_that_is_too_fast_has_to_wait() {
    let limits = HostLimits::new().with_rate(5, 2);
    let server = TestServer::start_with(HttpSettings::new().with_host_limits(limits)).await;
    let host = server.initialize(NEWEST).await;
    // The two of the burst are served. A slow machine may earn some more meanwhile.
    let (mut answered, mut refusal) = (0, Value::Null);
    while refusal.is_null() {
        let answer = host.post(&request(answered, "echo", json!({}))).await.expect_json(200).await;
        answered += u64::from(answer.get("result").is_some());
        refusal = answer["error"].clone();
    }
    assert!(answered >= 2);
    let facts = &refusal["data"]["bowline"];
    assert_eq!((&refusal["code"], &facts["cause"]), (&json!(-31050), &json!("rate")));
    let wait = facts["retry_after"].as_f64().unwrap();
    assert!((0.1..=0.2).contains(&wait), "{refusal}");
    tokio::time::sleep(std::time::Duration::from_secs_f64(wait)).await;
    expect_served(&host, 100).await;
}

#[tokio::test]
async fn an_identity_has_a_limited_number_of_sessions() {
    let limits = HostLimits::new().with_sessions(2);
    let settings = HttpSettings::new().with_host_limits(limits).with_sse("/sse", "/messages");
    let settings = settings.with_bearer_token("general").with_view("a", Some("token-a"));
    let server = TestServer::start_with(settings).await;
    let general = server.client.with("authorization", "Bearer general");
    let host = begin_session(&general, NEWEST).await;
    let (events, _) = sse::open(&general).await;
    // Hosts read the error of a request in a response of status 200.
    let reply = general.post(&initialize(NEWEST)).await;
    assert_eq!(reply.header("mcp-session-id"), None);
    let message = "too many sessions: 2 may be open with this token";
    assert_eq!(reply.expect_json(200).await, refused(0, "sessions", message, 5.0));
    let reply = general.send("GET", "/sse", "").await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("5")));
    // Another identity is not concerned.
    begin_session(&server.client.with("authorization", "Bearer token-a"), NEWEST).await;
    // Both ways to end a session make room for another one.
    host.delete().await.expect_empty(204).await;
    let host = begin_session(&general, NEWEST).await;
    drop(events);
    soon(async {
        while general.post(&initialize(NEWEST)).await.header("mcp-session-id").is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    expect_served(&host, 1).await;
}

/// Over HTTP+SSE the error comes on the stream, as every response does.
#[tokio::test]
async fn a_host_over_sse_is_told_on_its_stream() {
    let mut server = TestServer::start_with(in_flight(1).with_sse("/sse", "/messages")).await;
    let client = server.client.clone();
    let (mut events, endpoint) = sse::open(&client).await;
    sse::post(&client, &endpoint, &initialize("2024-11-05")).await;
    events.message().await;
    sse::post(&client, &endpoint, &request(1, "hang", json!({}))).await;
    server.expect(Report::Arrived("hang".into())).await;
    sse::post(&client, &endpoint, &request(2, "echo", json!({}))).await;
    assert_eq!(events.message().await, too_many_open(2, 1, "this host"));
}

/// A request of a host of 2026-07-28 is over when its connection is.
#[tokio::test]
async fn a_host_without_a_session_is_limited_too() {
    let mut server = TestServer::start_both(in_flight(1)).await;
    let client = server.client.clone();
    let hanging = {
        let client = client.clone();
        tokio::spawn(async move { stateless::send(&client, 1, "hang", json!({})).await })
    };
    server.expect(Report::Arrived("hang".into())).await;
    let answer = stateless::send(&client, 2, "echo", json!({})).await.expect_json(200).await;
    assert_eq!(answer, too_many_open(2, 1, "this host"));
    hanging.abort();
    server.expect(Report::Gone("hang".into())).await;
    // The place is free when the connection is known to be gone, a moment later.
    let is_free = async {
        while stateless::send(&client, 3, "echo", json!({})).await.expect_json(200).await["result"].is_null()
        {
            tokio::task::yield_now().await;
        }
    };
    soon(is_free).await;
}

/// Messages that nobody takes use the memory of their own session, and not that of others.
#[tokio::test]
async fn one_session_does_not_use_up_the_memory_for_bodies() {
    let settings = HttpSettings::new().with_body_memory(400 * 1024).with_message_limit(80 * 1024);
    let mut listener = bind(settings).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let posting = {
        let client = client.clone();
        tokio::spawn(async move { client.post(&initialize(NEWEST)).await })
    };
    let mut idle = soon(listener.accept()).await.unwrap();
    let Some(bowline_server::HostEvent::Initialize(initialization)) = soon(idle.next()).await else {
        panic!("no initialize")
    };
    initialization.respond(Ok(&bowline_proto::wire::Json::empty_object())).await;
    initialization.accept();
    let reply = posting.await.unwrap();
    let stuck = client.with("mcp-session-id", reply.header("mcp-session-id").unwrap());
    let large =
        |method: &str| json!({"jsonrpc": "2.0", "method": method, "params": {"x": "x".repeat(40 * 1024)}});
    // A quarter of the memory is for one session.
    for _ in 0..2 {
        stuck.post(&large("notifications/x")).await.expect_empty(202).await;
    }
    stuck.post(&large("notifications/x")).await.expect_json(503).await;
    let posting = {
        let client = client.clone();
        tokio::spawn(async move { client.post(&initialize(NEWEST)).await.status })
    };
    let mut other = soon(listener.accept()).await.unwrap();
    assert!(soon(other.next()).await.is_some(), "another host is served");
    posting.abort();
    // What its host takes is free again.
    assert!(soon(idle.next()).await.is_some());
    stuck.post(&large("notifications/x")).await.expect_empty(202).await;
}
