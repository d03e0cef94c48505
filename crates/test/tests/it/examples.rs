//! The examples of the library, with fake servers.
#![expect(clippy::duplicate_mod, reason = "each example declares the module that all share")]

#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/agent.rs"]
mod agent;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/call.rs"]
mod call;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/elicitation.rs"]
mod elicitation;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/events.rs"]
mod events;
#[cfg(unix)]
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/hooks.rs"]
mod hooks;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/info.rs"]
mod info;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/layers.rs"]
mod layers;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/login.rs"]
mod login;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/model.rs"]
mod model;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/ping.rs"]
mod ping;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/prompt.rs"]
mod prompt;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/prompts.rs"]
mod prompts;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/raw_request.rs"]
mod raw_request;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/read.rs"]
mod read;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/registry.rs"]
mod registry;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/resources.rs"]
mod resources;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/sampling.rs"]
mod sampling;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/subscribe.rs"]
mod subscribe;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/task.rs"]
mod task;
#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../../examples/tools.rs"]
mod tools;

use std::fmt::Write as _;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use bowline::Server;
use bowline::auth::{DeviceCode, LoginPage, LoginPrompt, PageReply, PromptFuture};
use bowline::config::{KeyLocation, Sampling, SamplingApi, StoreConfig};
use bowline::types::Task;
use bowline_test::{ElicitationReply, FakeHttpServer, FakeServer, ToolContext, ToolError};
use bowline_testkit::{Browser, Protection, Script, ScriptedModel, TaskPlan, Tool, auth_server};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::sync::{Notify, watch};

/// The example that shows a whole agent stays small.
#[test]
fn agent_has_fewer_than_150_lines() {
    let lines = include_str!("../../../../examples/agent.rs").lines().count();
    assert!(lines < 150, "{lines}");
}

/// What an example has written so far.
#[derive(Clone, Default)]
struct Output(watch::Sender<String>);

impl Output {
    fn text(&self) -> String {
        self.0.borrow().clone()
    }

    async fn wait_for(&self, part: &str) {
        self.0.subscribe().wait_for(|text| text.contains(part)).await.unwrap();
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_modify(|text| text.push_str(std::str::from_utf8(bytes).unwrap()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn serve(server: FakeServer) -> FakeHttpServer {
    server.serve_http().await.unwrap()
}

/// A URL where nobody listens: the port was free a moment ago.
fn closed_url() -> String {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("http://{address}/mcp")
}

fn eras() -> [FakeServer; 2] {
    [FakeServer::new(), FakeServer::modern()]
}

/// A tool that reports progress and returns, or goes on forever.
async fn knit(context: ToolContext, arguments: Value) -> Result<String, ToolError> {
    context.progress(1.0, Some(2.0), Some("half"));
    if arguments["forever"] == true {
        std::future::pending::<()>().await;
    }
    context.progress(2.0, Some(2.0), None);
    Ok(format!("knitted {}", arguments["what"].as_str().unwrap_or_default()))
}

#[tokio::test]
async fn call_shows_progress_and_result() {
    for server in eras() {
        let server = serve(server.async_tool("knit", knit)).await;
        let (rest, mut out) = (["knit", "what=socks", "size=3"].map(String::from), Output::default());
        call::run(server.server(), &rest, std::future::pending(), &mut out).await.unwrap();
        assert_eq!(out.text(), "1 of Some(2.0): half\n2 of Some(2.0): \nknitted socks (1 attempts)\n");
        assert_eq!(server.calls("knit"), [json!({ "what": "socks", "size": 3 })]);
    }
}

#[tokio::test]
async fn call_is_canceled() {
    let server = serve(FakeServer::new().async_tool("knit", knit)).await;
    let (rest, mut out) = (["knit", "forever=true"].map(String::from), Output::default());
    let shown = out.clone();
    let stop = async move { shown.wait_for("half").await };
    call::run(server.server(), &rest, stop, &mut out).await.unwrap();
    assert_eq!(out.text(), "1 of Some(2.0): half\ncanceled\n");
    assert!(server.received().iter().any(|one| one.method == "notifications/cancelled"));
}

#[tokio::test]
async fn tools_are_listed_with_their_descriptions() {
    for server in eras() {
        let server = server.tool("knit", |_| "").tool("purl", |_| "");
        let server = serve(server.define("purl", json!({ "description": "Purls." }))).await;
        let mut out = Output::default();
        tools::run(server.server(), &mut out).await.unwrap();
        assert_eq!(out.text(), "knit\t\npurl\tPurls.\n");
    }
}

/// A tool that asks with a form.
async fn order(context: ToolContext, _: Value) -> Result<String, ToolError> {
    let size = json!({ "type": "string", "default": "large" });
    let schema = json!({ "type": "object", "properties": { "size": size } });
    Ok(match context.elicit_form("Which size?", schema).await? {
        ElicitationReply::Accept(form) => format!("a {} one", form["size"].as_str().unwrap_or_default()),
        _ => "none".to_owned(),
    })
}

#[tokio::test]
async fn elicitation_accepts_the_defaults_or_declines() {
    // A question that is put otherwise is declined.
    let agree: fn(String) -> bool = |asked| asked == "fake asks: Which size?\n{\"size\":\"large\"}";
    let decline: fn(String) -> bool = |_| false;
    for (ask, expected) in [(agree, "a large one\n"), (decline, "none\n")] {
        for server in eras() {
            let (server, mut out) = (serve(server.async_tool("order", order)).await, Output::default());
            elicitation::run(server.server(), "order", ask, &mut out).await.unwrap();
            assert_eq!(out.text(), expected);
        }
    }
}

#[tokio::test]
async fn registry_shows_connections_and_statuses() {
    let (a, b) = (serve(FakeServer::new().name("a")).await, serve(FakeServer::modern().name("b")).await);
    let down = Server::http("down", closed_url()).build().unwrap();
    let mut out = Output::default();
    let shown = out.clone();
    let stop = async {
        for line in ["a connected\n", "b connected\n", "down disconnected: connection refused"] {
            shown.wait_for(line).await;
        }
    };
    registry::run(vec![a.server(), b.server(), down], stop, &mut out).await.unwrap();
    let text = out.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert_eq!(lines[3..5], ["a: ready, recovered 0 times", "b: ready, recovered 0 times"]);
    // It may be connecting again.
    assert!(lines[5].starts_with("down: ") && lines[5].ends_with("recovered 0 times"), "{text}");
}

#[tokio::test]
async fn subscribe_prints_changes() {
    for server in eras() {
        let server = serve(server.resource("note:///1", "first")).await;
        let mut out = Output::default();
        let shown = out.clone();
        let stop = async {
            shown.wait_for("subscribed to").await;
            server.update_resource("note:///1", "second");
            shown.wait_for("parts").await;
        };
        subscribe::run(server.server(), "note:///1", stop, &mut out).await.unwrap();
        assert_eq!(out.text(), "subscribed to note:///1\nnote:///1 changed: 1 parts\n");
    }
}

/// Words that follow the server on the command line of an example.
fn words<const N: usize>(words: [&str; N]) -> [String; N] {
    words.map(String::from)
}

#[tokio::test]
async fn info_shows_what_a_server_said_of_itself() {
    for (server, revision) in
        [(FakeServer::new(), "2025-11-25 (Legacy)"), (FakeServer::modern(), "2026-07-28 (Modern)")]
    {
        let server = serve(server.name("shop").instructions("Ask first.").tool("knit", |_| "")).await;
        let mut out = Output::default();
        info::run(server.server(), &mut out).await.unwrap();
        let text = out.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("server        shop "), "{text}");
        assert_eq!(lines[1], format!("revision      {revision}"));
        assert!(lines[2].starts_with("capabilities  {") && lines[2].contains("\"tools\""), "{text}");
        assert_eq!(lines[3], "instructions  Ask first.");
    }
}

#[tokio::test]
async fn ping_is_answered_three_times() {
    for server in eras() {
        let (server, mut out) = (serve(server).await, Output::default());
        ping::run(server.server(), &mut out).await.unwrap();
        let text = out.text();
        let is_answer = |line: &str| line.starts_with("fake: answered after ");
        assert!(text.lines().count() == 3 && text.lines().all(is_answer), "{text}");
    }
}

#[tokio::test]
async fn read_prints_text() {
    for server in eras() {
        let (server, mut out) = (serve(server.resource("note:///1", "first")).await, Output::default());
        read::run(server.server(), "note:///1", &mut out).await.unwrap();
        assert_eq!(out.text(), "first\n");
    }
}

/// A tool that has a model answer.
async fn ask_model(context: ToolContext, _: Value) -> Result<String, ToolError> {
    let question = json!({ "type": "text", "text": "Which knot?" });
    let messages = json!([{ "role": "user", "content": question }]);
    let answer =
        context.request("sampling/createMessage", json!({ "messages": messages, "maxTokens": 9 })).await?;
    Ok(answer["content"]["text"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn sampling_asks_a_person_before_and_after_the_model() {
    let model = ScriptedModel::start().await;
    let settings = || {
        let endpoint = format!("{}/v1", model.origin());
        Sampling::new(SamplingApi::OpenAi, endpoint, "knots").unwrap()
    };
    let agree: fn(String) -> bool =
        |asked| asked.ends_with(":\n  user: Which knot?") || asked.starts_with("fake will be told: ");
    for server in eras() {
        let (server, mut out) = (serve(server.async_tool("ask", ask_model)).await, Output::default());
        sampling::run(server.server(), settings(), "ask", agree, &mut out).await.unwrap();
        assert_eq!(out.text(), "knots\n");
    }
    assert_eq!(model.requests().len(), 2);

    // A person who refuses keeps the model from being asked.
    let server = serve(FakeServer::new().async_tool("ask", ask_model)).await;
    let mut out = Output::default();
    sampling::run(server.server(), settings(), "ask", |_| false, &mut out).await.unwrap();
    assert_eq!(model.requests().len(), 2);
}

/// A person with a browser who pastes the address that it ends up at.
struct BrowserUser;

impl LoginPrompt for BrowserUser {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        Box::pin(async move { PageReply::Pasted(Browser::new().follow(page.url.as_str()).await) })
    }

    fn show_device_code(&self, _: DeviceCode) -> PromptFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// A prompt for a login that must not be needed.
struct NoUser;

impl LoginPrompt for NoUser {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        panic!("no login is needed, but there is a page: {}", page.url)
    }

    fn show_device_code(&self, code: DeviceCode) -> PromptFuture<'_, ()> {
        panic!("no login is needed, but there is a code for {}", code.url)
    }
}

#[tokio::test]
async fn login_is_stored_for_the_second_run() {
    let login_server = auth_server().start().await;
    let protection = Protection::with_auth_server(&login_server);
    let server = Script::default().tool("echo").protected(protection).run().await;
    let entry = || Server::http("kit", server.url()).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::default();
    config.key = KeyLocation::File;
    let (mut first, mut second) = (Output::default(), Output::default());
    login::run(entry(), &config, folder.path(), BrowserUser, &mut first).await.unwrap();
    login::run(entry(), &config, folder.path(), NoUser, &mut second).await.unwrap();
    let text = first.text();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("logins are stored in "), "{text}");
    assert_eq!(lines[1], "echo");
    assert!(
        lines[2].starts_with("as ") && lines[2].ends_with(&format!(" of {}", login_server.issuer())),
        "{text}"
    );
    assert_eq!(second.text(), text);
}

#[tokio::test]
async fn layers_redact_arguments_and_ask_before_a_call() {
    let agree: fn(String) -> bool = |asked| asked == "call echo of fake with {\"a\":{\"b\":1}}";
    let decline: fn(String) -> bool = |_| false;
    let rest = words(["echo", r#"a={"b":1,"token":"x"}"#, "email=a@b.example"]);
    for (ask, expected, calls) in [
        (agree, "{\"a\":{\"b\":1}}\necho done: 1\n", 1),
        (decline, "not sent: the user refused\necho declined: 1\n", 0),
    ] {
        for server in eras() {
            let server = serve(server.tool("echo", |args| args)).await;
            let mut out = Output::default();
            layers::run(server.server(), &rest, ask, &mut out).await.unwrap();
            assert_eq!(out.text(), expected);
            server.assert_called("echo", calls);
        }
    }
}

#[tokio::test]
async fn model_prints_definitions_and_what_was_left_out() {
    for server in eras() {
        let server = server.instructions("Ask first.").tool("knit", |_| "").tool("purl", |_| "");
        let server = server.define("knit", json!({ "description": "Knits." }));
        // The arguments of a tool are an object, for every provider.
        let server = serve(server.define("purl", json!({ "inputSchema": { "type": "string" } }))).await;
        let (mut out, mut warnings) = (Output::default(), Output::default());
        model::run(server.server(), &mut out, &mut warnings).await.unwrap();
        let text = out.text();
        let (instructions, definitions) = text.split_once("\n\n").unwrap();
        assert!(instructions.ends_with("\n> Ask first."), "{instructions}");
        let schema = json!({ "type": "object", "properties": {} });
        let expected = json!([{ "name": "knit", "description": "Knits.", "input_schema": schema }]);
        assert_eq!(definitions.parse::<Value>().unwrap(), expected);
        assert_eq!(warnings.text(), "left out: purl: its arguments are not an object\n");
    }
}

#[tokio::test]
async fn task_prints_states_and_result() {
    let plan = || TaskPlan::after_polls(2);
    let scripts = [bowline_testkit::server(), bowline_testkit::server().modern()];
    for script in scripts {
        let server = script.tool(Tool::named("work").task(plan())).tool("echo").run().await;
        let states = Output::default();
        let show = states.clone();
        let show = move |task: &Task| {
            show.0.send_modify(|text| writeln!(text, "{:?}", task.status).expect("a string takes all"));
        };
        let show: Arc<dyn Fn(&Task) + Send + Sync> = Arc::new(show);
        let mut out = Output::default();
        let entry = || Server::http("kit", server.url()).build().unwrap();
        task::run(entry(), &words(["work", "n=1"]), Arc::clone(&show), &mut out).await.unwrap();
        // This tool is answered at once.
        task::run(entry(), &words(["echo", "text=hello"]), show, &mut out).await.unwrap();
        assert_eq!(states.text(), "Working\nCompleted\n");
        assert_eq!(out.text(), "{\"n\":\"1\"}\n{\"text\":\"hello\"}\n");
    }
}

#[tokio::test]
async fn events_are_printed_until_the_end() {
    for server in eras() {
        let called = Arc::new(Notify::new());
        let trigger = Arc::clone(&called);
        let server = server.tool("knit", |_| "").tool("go", move |_| {
            trigger.notify_one();
            "gone"
        });
        let server = serve(server).await;
        let mut out = Output::default();
        let shown = out.clone();
        let stop = async {
            called.notified().await;
            server.remove_tool("knit");
            shown.wait_for("ToolsChanged\n").await;
        };
        events::run(server.server(), Some("go"), stop, &mut out).await.unwrap();
        assert_eq!(out.text(), "ToolsChanged\n");
    }
}

#[tokio::test]
async fn prompts_are_listed_and_expanded() {
    for server in eras() {
        let greet = |args: Value| format!("Greet {}.", args["name"].as_str().unwrap_or_default());
        let server = serve(server.prompt("greet", greet)).await;
        let mut out = Output::default();
        prompts::run(server.server(), &mut out).await.unwrap();
        prompt::run(server.server(), &words(["greet", "name=Ada"]), &mut out).await.unwrap();
        assert_eq!(out.text(), "greet\t\nUser: Greet Ada.\n");
    }
}

#[tokio::test]
async fn resources_are_listed_with_their_types() {
    for server in eras() {
        let server = serve(server.resource("note:///1", "first")).await;
        let mut out = Output::default();
        resources::run(server.server(), &mut out).await.unwrap();
        assert_eq!(out.text(), "note:///1\tnote:///1\ttext/plain\n");
    }
}

#[tokio::test]
async fn raw_request_prints_the_result_or_the_refusal() {
    let server = serve(FakeServer::new().tool("knit", |_| "knitted")).await;
    let mut out = Output::default();
    let call = words(["tools/call", r#"{"name":"knit"}"#]);
    raw_request::run(server.server(), &call, &mut out).await.unwrap();
    raw_request::run(server.server(), &words(["knots/list"]), &mut out).await.unwrap();
    let expected = r#"{"content":[{"text":"knitted","type":"text"}]}
refused with -32601: Method not found: knots/list
"#;
    assert_eq!(out.text(), expected);
}

#[cfg(unix)]
#[tokio::test]
async fn hooks_receive_the_events_of_a_connection() {
    let server = serve(FakeServer::new()).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("events");
    let script = format!("echo $BOWLINE_EVENT >> '{}'", log.display());
    let mut out = Output::default();
    let shown = out.clone();
    let stop = async move { shown.wait_for("ready").await };
    hooks::run(server.server(), &words(["sh", "-c", &script]), stop, &mut out).await.unwrap();
    assert_eq!(out.text(), "ready\n");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "connected\n");
}

/// A server with a tool for each thing that the agent does.
fn shop(server: FakeServer) -> FakeServer {
    let server = server.name("shop").async_tool("knit", knit).tool("shy", |_| "here");
    server.async_tool("interview", |context, _| async move {
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let ElicitationReply::Accept(form) = context.elicit_form("Who are you?", schema).await? else {
            return Err(ToolError::new("declined"));
        };
        let content = json!({ "type": "text", "text": "Which knot?" });
        let messages = json!([{ "role": "user", "content": content }]);
        let question = json!({ "messages": messages, "maxTokens": 9 });
        let knot = context.request("sampling/createMessage", question).await?;
        let roots = context.request("roots/list", json!({})).await?;
        Ok(json!([form["name"], knot["content"]["text"], roots["roots"][0]["name"]]).to_string())
    })
}

fn write_servers(shop: &FakeHttpServer, other: &FakeHttpServer) -> NamedTempFile {
    let servers = json!({ "mcpServers": {
        "shop": { "url": shop.url() },
        "other": { "url": other.url() },
        "down": { "url": closed_url() },
    } });
    let file = NamedTempFile::with_suffix(".json").unwrap();
    std::fs::write(file.path(), servers.to_string()).unwrap();
    file
}

#[tokio::test]
async fn agent_runs_a_model() {
    for (era, recoveries) in [(FakeServer::new(), 1), (FakeServer::modern(), 0)] {
        let (server, other) =
            (serve(shop(era)).await, serve(FakeServer::new().tool("echo", |args| args)).await);
        // It appears later.
        server.remove_tool("shy");
        let file = write_servers(&server, &other);
        let shown = Output::default();
        let screen = shown.clone();
        let screen = Arc::new(move |line: String| screen.0.send_modify(|text| text.extend([&*line, "\n"])));
        let mut turn = 0;
        let model = async |request: &Value| {
            turn += 1;
            let has_shy = request["tools"].to_string().contains("shop__shy");
            let (name, input) = match turn {
                1 => ("shop__knit", json!({ "what": "socks" })),
                2 => ("shop__interview", json!({})),
                3 => ("shop__knit", json!({ "forever": true })),
                4 => {
                    assert!(!has_shy, "{request}");
                    server.restore_tool("shy");
                    shown.wait_for(r#"event: shop tools: added ["shy"], removed []"#).await;
                    ("other__echo", json!({ "text": "ready" }))
                }
                5 => {
                    assert!(has_shy, "{request}");
                    server.restart().await;
                    ("shop__shy", json!({}))
                }
                6 => ("shop__missing", json!({})),
                _ => return None,
            };
            let stop_at = if turn == 3 { json!(1) } else { Value::Null };
            Some(json!({ "name": name, "input": input, "stop_at": stop_at }))
        };
        agent::run(file.path(), model, screen).await.unwrap();

        let text = shown.text();
        let is_event = |line: &&str| line.starts_with("event: ");
        let (events, lines): (Vec<_>, Vec<_>) = text.lines().partition(is_event);
        // A server that is down is connecting now and then, and the system has its own words for it.
        let lines = lines.iter().map(|line| line.split(": tcp connect error").next().unwrap_or_default());
        let lines = lines.collect::<Vec<_>>().join("\n").replace("connecting", "backing off");
        assert_eq!(lines, EXPECTED_AGENT.trim().replace("{recoveries}", &recoveries.to_string()), "{text}");
        for event in ["shop connected", "other connected", "down disconnected"] {
            let event = format!("event: {event}");
            assert_eq!(events.iter().filter(|shown| **shown == event).count(), 1, "{event}: {text}");
        }
        server.assert_called("shy", 1);
        assert_eq!(server.calls("knit").len(), 2);
        // In the modern era the end of the stream cancels.
        let canceled = server.received().iter().any(|one| one.method == "notifications/cancelled");
        assert_eq!(canceled, recoveries == 1);
    }
}

const EXPECTED_AGENT: &str = r#"
3 tools
left out: down: the server is backing off: connection refused
call: shop__knit {"what":"socks"}
progress: 1 of 2
progress: 2 of 2
result: knitted socks
call: shop__interview {}
form: shop asks: Who are you?
sampling: shop asks for 9 tokens
result: ["Ada","A bowline.","project"]
call: shop__knit {"forever":true}
progress: 1 of 2
failed: the person stopped this call
call: other__echo {"text":"ready"}
result: {"text":"ready"}
call: shop__shy {}
result: here
call: shop__missing {}
failed: there is no tool "shop__missing"
down: backing off, recovered 0 times
other: ready, recovered 0 times
shop: ready, recovered {recoveries} times
"#;
