//! Two users of a gateway, and a server on stdio that does not say which call it means.

use bowline_testkit::{self as testkit, ScriptedRequest, Tool};
use serde_json::{Value, json};

use super::Team;
use crate::connect::host::{Host, result_text};
use crate::status::stdio_entry;

const QUESTION: &str = "elicitation/create";

/// The host of a user, and what it was told so far, apart from responses.
struct User {
    name: &'static str,
    host: Host,
    told: Vec<Value>,
}

impl User {
    /// A host of the user whom the issuer names now.
    async fn join(team: &Team, name: &'static str) -> Self {
        team.issuer.edit(|script| script.account(name));
        let header = format!("Authorization: Bearer {}", team.token(""));
        let mut host = Host::start(team.context.bowline(["connect", &*team.url, "--header", &*header]));
        let client = json!({"name": "host", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client});
        host.request("initialize", params).await;
        host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(host.request("logging/setLevel", json!({"level": "debug"})).await["result"], json!({}));
        Self { name, host, told: Vec::new() }
    }

    /// Begins a call whose progress has the name of the user as its token.
    async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": self.name}});
        self.host.send_request("tools/call", params).await
    }

    /// Takes the next message, and answers a question with the name of the user.
    async fn next(&mut self) -> Value {
        let message = self.host.next_message().await;
        if message["method"] == QUESTION {
            let answer = json!({"action": "accept", "content": {"name": self.name}});
            self.host.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer})).await;
        }
        if message.get("method").is_some() {
            self.told.push(message.clone());
        }
        message
    }

    async fn response(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    fn count(&self, method: &str) -> usize {
        self.told.iter().filter(|message| message["method"] == method).count()
    }
}

/// LC-16, SE-12: questions, log messages and progress of one user never reach another, although the entry says that
/// all share the server.
#[tokio::test]
async fn what_a_server_says_to_one_user_reaches_no_other() {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let question = ScriptedRequest::form_elicitation("answer", "Who is there?", schema);
    let child = testkit::server()
        .legacy()
        .tool("slow")
        .tool(Tool::asks("who", [question]))
        .tool(Tool::logs("tell", [("info", json!("told"))]))
        .stdio()
        .await;
    let entry = stdio_entry("child", &child.command());
    let team = Team::new(&format!("{entry}share = 'all'\n")).await;
    let gateway = team.serve().await;
    let mut users = [User::join(&team, "alice").await, User::join(&team, "bob").await];
    let mut slow = Vec::new();
    for user in &mut users {
        // Ten messages a second are few enough to be read also on a busy machine.
        slow.push(user.begin("slow", json!({"ms": 600_000, "steps": 6_000})).await);
        while user.next().await["method"] != "notifications/progress" {}
    }
    // Both have a call open now, so that a process which they shared could not tell them apart.
    for user in &mut users {
        let id = user.begin("who", json!({})).await;
        let answer = user.response(id).await;
        let answer: Value = serde_json::from_str(result_text(&answer)).expect("JSON");
        assert_eq!(answer["answer"]["content"]["name"], user.name, "{answer}");
        let id = user.begin("tell", json!({})).await;
        user.response(id).await;
        while user.count("notifications/message") == 0 {
            user.next().await;
        }
    }
    for (user, id) in users.iter_mut().zip(slow) {
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        user.host.send(&cancel).await;
        let id = user.host.send_request("tools/list", json!({})).await;
        user.response(id).await;
        assert_eq!((user.count(QUESTION), user.count("notifications/message")), (1, 1), "{}", user.name);
        let tokens = user.told.iter().filter(|message| message["method"] == "notifications/progress");
        for progress in tokens {
            assert_eq!(progress["params"]["progressToken"], user.name);
        }
    }
    assert_eq!(child.processes().len(), 2, "each user has a process");
    for user in users {
        assert_eq!(user.host.close().await.status.code(), Some(0));
    }
    assert_eq!(gateway.terminate().await.code(), Some(0));
}
