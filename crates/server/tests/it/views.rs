//! Views: which hosts get which, by path and by token, and that a session stays with its own.

use std::sync::Arc;

use bowline_server::HttpSettings;
use serde_json::{Value, json};

use crate::http_client::{HttpClient, TestReply};
use crate::restart::Memory;
use crate::test_server::{TestServer, initialize, notification, refusal, request, result};

const NEWEST: &str = "2025-11-25";

fn settings() -> HttpSettings {
    HttpSettings::new()
        .with_bearer_token("general")
        .with_view("a", Some("token-a"))
        .with_view("b", Some("token-b"))
}

/// A host that sends everything to one path, with one token.
#[derive(Clone)]
pub(crate) struct ViewHost {
    client: HttpClient,
    path: &'static str,
}

impl ViewHost {
    pub(crate) fn new(client: &HttpClient, path: &'static str, token: &str) -> Self {
        let client = match token {
            "" => client.clone(),
            token => client.with("authorization", &format!("Bearer {token}")),
        };
        Self { client, path }
    }

    pub(crate) async fn send(&self, method: &str, body: &str) -> TestReply {
        self.client.send(method, self.path, body).await
    }

    pub(crate) async fn post(&self, message: &Value) -> TestReply {
        self.send("POST", &message.to_string()).await
    }

    /// Begins a session, and returns its id.
    pub(crate) async fn begin(&self) -> String {
        let reply = self.post(&initialize(NEWEST)).await;
        assert_eq!(reply.status, 200);
        let id = reply.header("mcp-session-id").expect("a session").to_owned();
        self.in_session(&id).post(&notification("notifications/initialized")).await.expect_empty(202).await;
        id
    }

    pub(crate) fn in_session(&self, id: &str) -> Self {
        Self { client: self.client.with("mcp-session-id", id), path: self.path }
    }

    /// The view that the server sees.
    pub(crate) async fn view(&self) -> Value {
        let answer = self.post(&request(1, "view", json!({}))).await.expect_json(200).await;
        answer["result"]["view"].clone()
    }
}

/// Every path with every token: what a new session gets.
#[tokio::test]
async fn a_view_is_selected_by_path_or_token() {
    let server = TestServer::start_with(settings()).await;
    for (path, token, expected) in [
        ("/mcp", "general", Ok(Value::Null)),
        ("/mcp/a", "general", Ok(json!("a"))),
        ("/mcp/b", "general", Ok(json!("b"))),
        ("/mcp", "token-a", Ok(json!("a"))),
        ("/mcp/a", "token-a", Ok(json!("a"))),
        ("/mcp", "token-b", Ok(json!("b"))),
        ("/mcp/a", "token-b", Err(403)),
        ("/mcp/b", "token-a", Err(403)),
        ("/mcp/c", "token-a", Err(403)),
        ("/mcp/c", "general", Err(404)),
        ("/mcp/", "general", Err(404)),
        ("/mcp/a/", "general", Err(404)),
        ("/mcp/A", "general", Err(404)),
        ("/mcp/%61", "general", Err(404)),
        ("/mcp", "", Err(401)),
        ("/mcp/a", "", Err(401)),
        ("/mcp/c", "wrong", Err(401)),
    ] {
        let host = ViewHost::new(&server.client, path, token);
        match expected {
            Ok(view) => {
                let id = host.begin().await;
                assert_eq!(host.in_session(&id).view().await, view, "{path} {token}");
            }
            Err(status) => {
                for method in ["POST", "GET", "DELETE", "PUT"] {
                    let reply = host.send(method, &initialize(NEWEST).to_string()).await;
                    assert_eq!(reply.status, status, "{method} {path} {token}");
                }
            }
        }
    }
    let unknown = ViewHost::new(&server.client, "/mcp/c", "general").post(&initialize(NEWEST)).await;
    assert_eq!(unknown.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(unknown.text().await, "there is no such view");
    let other = ViewHost::new(&server.client, "/mcp/b", "token-a").post(&initialize(NEWEST)).await;
    assert_eq!(other.expect_json(403).await, refusal(-32600, "this token is for another view"));
}

/// SE-08: the id of a session is of use only to the host that has its view and its token.
#[tokio::test]
async fn se_08_a_session_is_bound_to_its_view_and_its_token() {
    let server = TestServer::start_with(settings()).await;
    let host = |path, token| ViewHost::new(&server.client, path, token);
    // Hosts in one row are the same to the server.
    let audiences = [
        vec![host("/mcp", "general")],
        vec![host("/mcp/a", "general")],
        vec![host("/mcp/b", "general")],
        vec![host("/mcp", "token-a"), host("/mcp/a", "token-a")],
        vec![host("/mcp", "token-b"), host("/mcp/b", "token-b")],
    ];
    for (at, owners) in audiences.iter().enumerate() {
        let id = owners[0].begin().await;
        let others = audiences.iter().enumerate().filter(|(other, _)| *other != at);
        for other in others.flat_map(|(_, hosts)| hosts) {
            let other = other.in_session(&id);
            let ping = request(1, "ping", json!({})).to_string();
            for (method, body) in [("POST", &*ping), ("GET", ""), ("DELETE", "")] {
                let reply = other.send(method, body).await;
                assert_eq!(reply.expect_json(404).await, refusal(-32600, "no such session"), "{method}");
            }
        }
        for owner in owners {
            let answer = owner.in_session(&id).post(&request(2, "echo", json!({"x": 1}))).await;
            assert_eq!(answer.expect_json(200).await, result(2, json!({"x": 1})), "it goes on");
        }
        let last = owners.last().expect("there is one");
        last.in_session(&id).send("DELETE", "").await.expect_empty(204).await;
        assert_eq!(owners[0].in_session(&id).send("GET", "").await.status, 404);
    }
}

/// SE-08: in the next process too.
#[tokio::test]
async fn se_08_a_session_keeps_its_view_and_its_token_after_a_restart() {
    let rows = [("/mcp/a", "general"), ("/mcp", "token-a"), ("/mcp", "general")];
    for (path, token) in rows {
        let memory = Memory::default();
        let start = || TestServer::start_with(settings().with_session_store(Arc::new(memory.clone())));
        let first = start().await;
        let host = ViewHost::new(&first.client, path, token);
        let id = host.begin().await;
        let view = host.in_session(&id).view().await;
        memory.wait_for_record(NEWEST).await;
        first.kill().await;
        let second = start().await;
        for (other_path, other_token) in rows.into_iter().chain([("/mcp/b", "general"), ("/mcp", "token-b")])
        {
            if (other_path, other_token) == (path, token) {
                continue;
            }
            let other = ViewHost::new(&second.client, other_path, other_token).in_session(&id);
            let reply = other.post(&request(1, "ping", json!({}))).await;
            assert_eq!(reply.status, 404, "{path} {token} by {other_path} {other_token}");
        }
        let host = ViewHost::new(&second.client, path, token).in_session(&id);
        assert_eq!(host.view().await, view, "{path} {token}");
        // Now it is in this process, and still nobody else's.
        let other = ViewHost::new(&second.client, "/mcp/b", "general").in_session(&id);
        assert_eq!(other.send("DELETE", "").await.status, 404);
        assert_eq!(host.view().await, view);
    }
}

/// What was recorded before there were views is a session without one.
#[tokio::test]
async fn a_session_that_was_recorded_without_a_view_has_none() {
    let memory = Memory::default();
    let start = || TestServer::start_with(settings().with_session_store(Arc::new(memory.clone())));
    let first = start().await;
    let host = ViewHost::new(&first.client, "/mcp", "general");
    let id = host.begin().await;
    memory.wait_for_record(NEWEST).await;
    let record = memory.only_record();
    assert!(record.get("view").is_none() && record.get("principal").is_none(), "{record}");
    first.kill().await;
    let second = start().await;
    let host = ViewHost::new(&second.client, "/mcp", "general").in_session(&id);
    assert_eq!(host.view().await, Value::Null);
}

/// GW-10: hosts without a session select a view in the same way.
#[tokio::test]
async fn gw_10_a_request_without_a_session_has_the_view_of_its_path_or_token() {
    let server = TestServer::start_both(settings()).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = request(1, "view", json!({"_meta": meta}));
    for (path, token, expected) in [
        ("/mcp", "general", Ok(Value::Null)),
        ("/mcp/a", "general", Ok(json!("a"))),
        ("/mcp", "token-b", Ok(json!("b"))),
        ("/mcp/a", "token-b", Err(403)),
        ("/mcp/c", "general", Err(404)),
        ("/mcp/a", "", Err(401)),
    ] {
        let client = server.client.with("mcp-protocol-version", "2026-07-28").with("mcp-method", "view");
        let reply = ViewHost::new(&client, path, token).post(&message).await;
        match expected {
            Ok(view) => assert_eq!(reply.expect_json(200).await["result"]["view"], view, "{path} {token}"),
            Err(status) => assert_eq!(reply.status, status, "{path} {token}"),
        }
    }
}

/// HS-02: the endpoint for messages is that of the view.
#[tokio::test]
async fn hs_02_a_view_is_served_over_http_and_sse() {
    let server = TestServer::start_with(settings().with_sse("/sse", "/messages")).await;
    for (path, token) in [("/sse/a", "general"), ("/sse", "token-a")] {
        let host = ViewHost::new(&server.client, path, token);
        let mut events = host.send("GET", "").await.expect_events();
        let endpoint = events.endpoint().await;
        let session = endpoint.strip_prefix("/messages/a?session=").unwrap_or_else(|| panic!("{endpoint}"));
        for message in [
            initialize("2024-11-05"),
            notification("notifications/initialized"),
            request(1, "view", json!({})),
        ] {
            assert_eq!(host.client.send("POST", &endpoint, &message.to_string()).await.status, 202);
        }
        assert_eq!(events.message().await["id"], 0);
        assert_eq!(events.message().await, result(1, json!({"view": "a"})));
        let ping = request(2, "ping", json!({})).to_string();
        for (other_path, other_token, status) in [
            (format!("/messages?session={session}"), "general", 404),
            (format!("/messages/b?session={session}"), "general", 404),
            (format!("/messages/b?session={session}"), "token-b", 404),
            (format!("/messages/a?session={session}"), "token-b", 403),
        ] {
            let other = ViewHost::new(&server.client, "", other_token);
            let reply = other.client.send("POST", &other_path, &ping).await;
            assert_eq!(reply.status, status, "{other_path} {other_token}");
        }
    }
}
