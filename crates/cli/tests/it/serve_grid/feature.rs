//! The features of the protocol, each used by one host at one server.

use std::time::Duration;

use bowline_testkit::Control;
use serde_json::{Value, json};

use super::host::{GridHost, Revision, text};
use super::upstream::{FILLERS, TOOLS, Upstream};
use crate::connect::host::TEST_TIMEOUT;

/// A feature of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    List,
    Call,
    Progress,
    Cancel,
    BigResult,
    Images,
    Structured,
    Resource,
    Template,
    Subscription,
    Prompt,
    Completion,
    LogLevel,
    Form,
    Url,
    Sampling,
    Roots,
    /// A call that the server turns into a task, for a host that waits for the result.
    Task,
    /// A task that the host creates, and asks for itself.
    HostTask,
    ListChanged,
}

impl Feature {
    pub(super) const ALL: [Self; 20] = [
        Self::List,
        Self::Call,
        Self::Progress,
        Self::Cancel,
        Self::BigResult,
        Self::Images,
        Self::Structured,
        Self::Resource,
        Self::Template,
        Self::Subscription,
        Self::Prompt,
        Self::Completion,
        Self::LogLevel,
        Self::Form,
        Self::Url,
        Self::Sampling,
        Self::Roots,
        Self::Task,
        Self::HostTask,
        Self::ListChanged,
    ];

    /// Whether hosts of this revision have it.
    pub(super) fn is_in(self, revision: Revision) -> bool {
        match self {
            Self::Form => revision >= Revision::V2025_06_18,
            Self::Url | Self::HostTask => revision >= Revision::V2025_11_25,
            _ => true,
        }
    }

    /// Uses the feature and checks what comes of it. `is_first`: not used before in this session.
    pub(super) async fn use_once(self, host: &mut GridHost, server: &Upstream, is_first: bool) {
        match self {
            Self::List => list(host, server).await,
            Self::Call => {
                let said = host.call(&server.exposed("echo"), json!({"text": "knot"})).await;
                assert_eq!(said, r#"{"text":"knot"}"#);
            }
            Self::Progress => progress(host, server).await,
            Self::Cancel => cancel(host, server).await,
            Self::BigResult => {
                let said = host.call(&server.exposed("big"), json!({"bytes": 1_000_000})).await;
                assert_eq!(said.len(), 1_000_000);
            }
            Self::Images => {
                let call = json!({"name": server.exposed("gallery"), "arguments": {}});
                let result = host.result("tools/call", call).await;
                let blocks = result["content"].as_array().expect("blocks");
                assert!(blocks.iter().any(|block| block["type"] == "image"), "{result}");
            }
            Self::Structured => {
                let call = json!({"name": server.exposed("structured"), "arguments": {"a": 1}});
                let result = host.result("tools/call", call).await;
                assert_eq!(text(&result), r#"{"arguments":{"a":1},"size":1}"#);
                let is_known = host.revision >= Revision::V2025_06_18;
                assert!(!is_known || result["structuredContent"]["size"] == 1, "{result}");
            }
            Self::Resource => {
                let result = host.result("resources/read", json!({"uri": server.uri("a")})).await;
                assert_eq!(result["contents"][0]["text"], "the text of a");
            }
            Self::Template => {
                let listed = host.result("resources/templates/list", json!({})).await;
                let uri = server.uri("of/{id}");
                let templates = listed["resourceTemplates"].as_array().expect("a list");
                assert!(templates.iter().any(|template| template["uriTemplate"] == *uri), "{listed}");
                let result = host.result("resources/read", json!({"uri": server.uri("of/7")})).await;
                assert_eq!(result["contents"][0]["text"], *server.uri("of/7"));
            }
            Self::Subscription => subscription(host, server, is_first).await,
            Self::Prompt => {
                let get = json!({"name": server.exposed("greet"), "arguments": {"who": "you"}});
                let result = host.result("prompts/get", get).await;
                assert_eq!(result["messages"][0]["content"]["text"], "Hello you");
            }
            Self::Completion => {
                let of = json!({"type": "ref/prompt", "name": server.exposed("greet")});
                let params = json!({"ref": of, "argument": {"name": "who", "value": "wo"}});
                let result = host.result("completion/complete", params).await;
                assert_eq!(result["completion"]["values"], json!(["world"]));
            }
            Self::LogLevel => log_level(host, server, is_first).await,
            Self::Form => asks(host, server, "form", "elicitation/create", "Bergen").await,
            Self::Url => asks(host, server, "page", "elicitation/create", "accept").await,
            Self::Sampling => asks(host, server, "sample", "sampling/createMessage", "sampled").await,
            Self::Roots => asks(host, server, "roots", "roots/list", "file:///grid").await,
            Self::Task => {
                let said = host.call(&server.exposed("task"), json!({"text": "later"})).await;
                assert_eq!(said, r#"{"text":"later"}"#);
            }
            Self::HostTask => host_task(host, server).await,
            Self::ListChanged => list_changed(host, server, is_first).await,
        }
    }
}

/// A call as a task, in the way of the revision of the host, whatever kind of tasks the server has.
// GW-16
async fn host_task(host: &mut GridHost, server: &Upstream) {
    let mut call = json!({"name": server.exposed("task"), "arguments": {"text": "mine"}});
    if host.revision == Revision::V2025_11_25 {
        call["task"] = json!({"ttl": 60_000});
        let created = host.result("tools/call", call).await;
        let id = &created["task"]["taskId"];
        let result = host.result("tasks/result", json!({"taskId": id})).await;
        assert_eq!(text(&result), r#"{"text":"mine"}"#);
        let state = host.result("tasks/get", json!({"taskId": id})).await;
        assert_eq!(state["status"], "completed");
        return;
    }
    host.declares_tasks = true;
    let created = host.result("tools/call", call).await;
    assert_eq!(created["resultType"], "task", "{created}");
    let mut state = created.clone();
    while state["status"] == "working" {
        tokio::time::sleep(Duration::from_millis(10)).await;
        state = host.result("tasks/get", json!({"taskId": created["taskId"]})).await;
    }
    assert_eq!(state["status"], "completed", "{state}");
    assert_eq!(text(&state["result"]), r#"{"text":"mine"}"#);
    host.declares_tasks = false;
}

/// All pages of the server are one list.
async fn list(host: &mut GridHost, server: &Upstream) {
    let names = tool_names(host).await;
    let own: Vec<_> = TOOLS.iter().map(|tool| server.exposed(tool)).collect();
    for name in &own {
        assert!(names.contains(name), "no {name} in {names:?}");
    }
    let filler = server.exposed("tool_");
    assert_eq!(names.iter().filter(|name| name.starts_with(&filler)).count(), FILLERS);
}

async fn tool_names(host: &mut GridHost) -> Vec<String> {
    let mut result = host.result("tools/list", json!({})).await;
    // On a busy machine a server may not have been asked in time for the first list, which then says so.
    while result["_meta"]["bowline/stale-servers"].is_object() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        result = host.result("tools/list", json!({})).await;
    }
    assert_eq!(result["nextCursor"], Value::Null);
    let tools = result["tools"].as_array().expect("a list");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

async fn progress(host: &mut GridHost, server: &Upstream) {
    let name = server.exposed("slow");
    let call = json!({
        "name": name, "arguments": {"ms": 15, "steps": 3}, "_meta": {"progressToken": "mine"},
    });
    let outcome = host.request("tools/call", call).await;
    assert!(outcome.answer["result"].is_object(), "{}", outcome.answer);
    let steps: Vec<_> = outcome
        .notices
        .iter()
        .filter(|notice| notice["method"] == "notifications/progress")
        .map(|notice| (notice["params"]["progressToken"].clone(), notice["params"]["progress"].as_f64()))
        .collect();
    let expected: Vec<_> = [1.0, 2.0, 3.0].map(|step| (json!("mine"), Some(step))).into();
    assert_eq!(steps, expected);
}

/// A canceled call is canceled on the server that runs it.
async fn cancel(host: &mut GridHost, server: &Upstream) {
    let control = server.control();
    let (calls, cancellations) = (control.executions("slow"), control.cancellations().len());
    let call = json!({"name": server.exposed("slow"), "arguments": {"ms": 600_000, "steps": 60_000},
                      "_meta": {"progressToken": "mine"}});
    let open = host.begin("tools/call", call).await;
    control.wait_until(|control| control.executions("slow") == calls + 1, TEST_TIMEOUT).await;
    let received = control.received_with_method("tools/call");
    let id = &received.last().expect("the call").body["id"];
    host.cancel(open).await;
    // The server may also learn only now that a gateway that was killed no longer listens.
    let is_canceled = |control: &Control| control.cancellations()[cancellations..].contains(id);
    control.wait_until(is_canceled, TEST_TIMEOUT).await;
}

async fn subscription(host: &mut GridHost, server: &Upstream, is_first: bool) {
    let uri = server.uri("a");
    // A host without a session listens again; the others trust that their subscription holds.
    if is_first || host.revision == Revision::V2026_07_28 {
        host.subscribe(&uri).await;
    }
    let control = server.control();
    control.wait_until(|control| control.announce_resource(&uri) > 0, TEST_TIMEOUT).await;
    let updated = host.notification("notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], *uri);
}

/// A log message below the level of the host is not sent. A session has one level, which it keeps.
async fn log_level(host: &mut GridHost, server: &Upstream, is_first: bool) {
    let mut call = json!({"name": server.exposed("log"), "arguments": {}});
    if host.revision == Revision::V2026_07_28 {
        call["_meta"] = json!({"io.modelcontextprotocol/logLevel": "error"});
    } else if is_first {
        host.result("logging/setLevel", json!({"level": "error"})).await;
    }
    let outcome = host.request("tools/call", call).await;
    assert!(outcome.answer["result"].is_object(), "{}", outcome.answer);
    let on_stream = outcome.notices.into_iter().find(|notice| notice["method"] == LOG_MESSAGE);
    let message = match on_stream {
        Some(message) => message,
        // The servers of a session speak on the stream of the session.
        None => host.notification(LOG_MESSAGE).await,
    };
    assert_eq!(message["params"]["data"], "loud");
}

const LOG_MESSAGE: &str = "notifications/message";

/// The server asks the host in the middle of a call.
async fn asks(host: &mut GridHost, server: &Upstream, tool: &str, method: &str, answer: &str) {
    let call = json!({"name": server.exposed(tool), "arguments": {}});
    let outcome = host.request("tools/call", call).await;
    assert_eq!(outcome.asked, [method], "{}", outcome.answer);
    let said = text(&outcome.answer["result"]);
    assert!(said.contains(answer), "{said}");
}

async fn list_changed(host: &mut GridHost, server: &Upstream, is_first: bool) {
    // No other server has such a tool, so its name has no prefix.
    let name = format!("{}_of_{}", if is_first { "joined" } else { "joined_later" }, server.kind.name());
    if host.revision == Revision::V2026_07_28 {
        host.subscribe(&server.uri("a")).await;
    }
    // A list that nobody has fetched has not changed.
    assert!(!tool_names(host).await.contains(&name));
    let control = server.control();
    control.edit(|script| script.tool(name.as_str()));
    control.wait_until(|control| control.announce_tools() > 0, TEST_TIMEOUT).await;
    host.notification("notifications/tools/list_changed").await;
    assert!(tool_names(host).await.contains(&name));
    control.edit(|script| script.without_tool(&name));
    control.wait_until(|control| control.announce_tools() > 0, TEST_TIMEOUT).await;
    host.notification("notifications/tools/list_changed").await;
}
