//! Interop with `@modelcontextprotocol/server-everything`, the reference server of the TypeScript
//! SDK, over stdio and Streamable HTTP. It speaks the legacy era.

#[path = "everything/completion_and_results.rs"]
mod completion_and_results;
#[path = "everything/elicitation.rs"]
mod elicitation;
#[path = "support_interop/limit.rs"]
mod limit;
#[path = "everything/notifications.rs"]
mod notifications;
#[path = "support_interop/peer.rs"]
mod peer;
#[cfg(unix)]
#[path = "everything/process.rs"]
mod process;
#[path = "everything/sampling_and_roots.rs"]
mod sampling_and_roots;
#[path = "support_interop/scripted_handler.rs"]
mod scripted_handler;
#[path = "support_interop/scripted_host.rs"]
mod scripted_host;
#[path = "everything/tasks.rs"]
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bowline::types::code;
use bowline::types::{Content, LogLevel, LogMessage, ResourceBody, Role};
use bowline::{CallOptions, Client, Era, Event, Handler, Revision, Server, Status, Topic};
use bowline_config::TransportSettings as _;
use limit::within;
use parking_lot::Mutex;
use peer::{HttpPeer, required_variable};
use scripted_handler::ScriptedHandler;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;

/// How to reach one instance of the server. Over HTTP it runs until this is dropped.
struct Everything {
    server: Server,
    http: Option<HttpPeer>,
}

impl Everything {
    fn stdio() -> Self {
        let entry = required_variable("BOWLINE_EVERYTHING");
        let server = Server::stdio("everything", required_variable("BOWLINE_NODE"))
            .args([entry, "stdio".to_owned()])
            .build()
            .unwrap();
        Self { server, http: None }
    }

    async fn http() -> Self {
        let (node, entry) = (required_variable("BOWLINE_NODE"), required_variable("BOWLINE_EVERYTHING"));
        let peer = HttpPeer::start(|port| {
            let mut command = Command::new(&node);
            command.args([&*entry, "streamableHttp"]).env("PORT", port.to_string());
            command
        })
        .await;
        Self {
            server: Server::http("everything", peer.url()).build().expect("a loopback URL"),
            http: Some(peer),
        }
    }

    /// Starts one instance over each transport.
    async fn start_both() -> [Self; 2] {
        [Self::stdio(), Self::http().await]
    }

    async fn connect(&self) -> Client {
        Client::connect(self.server.clone()).await.expect("the server can be connected to")
    }

    /// Connects with a handler for the server's requests.
    async fn connect_as(&self, host: impl Handler) -> Client {
        let connecting = Client::builder(self.server.clone()).handler(host).connect();
        let client = connecting.await.expect("the server can be connected to");
        self.wait_for_stream().await;
        client
    }

    /// Connects, and waits until the server's notifications can reach us.
    async fn connect_listening(&self) -> Client {
        let client = self.connect().await;
        self.wait_for_stream().await;
        client
    }

    /// Over HTTP, waits until the server has seen the GET of the newest session: earlier
    /// notifications are lost.
    async fn wait_for_stream(&self) {
        let Some(http) = &self.http else { return };
        let has_stream = |lines: &[String]| {
            let session =
                lines.iter().rev().find_map(|line| line.strip_prefix("Session initialized with ID: "))?;
            let stream = format!("Establishing new SSE stream for session {session}");
            lines.contains(&stream).then_some(())
        };
        http.wait_for_log("the stream of a session", has_stream).await;
    }
}

/// Runs each check over each transport.
macro_rules! over_both {
    ($($check:ident),* $(,)?) => {
        mod stdio {
            $(#[tokio::test]
            async fn $check() {
                super::within(stringify!($check), super::$check(super::Everything::stdio())).await;
            })*
        }

        mod http {
            $(#[tokio::test]
            async fn $check() {
                let everything = super::Everything::http().await;
                super::within(stringify!($check), super::$check(everything)).await;
            })*
        }
    };
}

over_both!(
    the_server_introduces_itself,
    everything_it_offers_is_listed,
    all_kinds_of_content_arrive,
    results_can_be_structured,
    a_failed_tool_is_a_result_and_an_unknown_method_an_error,
    progress_arrives_in_order_before_the_result,
    a_dropped_call_leaves_the_connection_working,
    many_calls_at_once_get_their_own_answers,
    resources_are_text_or_bytes,
    prompts_take_arguments,
    log_messages_and_resource_updates_are_events,
    a_form_is_filled_in_during_a_call,
    roots_and_sampling_are_answered,
    raw_requests_reach_what_has_no_verb,
);

async fn the_server_introduces_itself(everything: Everything) {
    let client = everything.connect().await;
    let peer = client.peer().await.unwrap();

    // LC-02, DE-03 or DE-07: whatever the probe returned, the handshake agreed on the newest
    // revision.
    assert_eq!(peer.revision, Revision::V2025_11_25);
    assert_eq!(peer.era(), Era::Legacy);
    let info = peer.server.as_ref().unwrap();
    assert_eq!(&*info.name, "mcp-servers/everything");
    assert_eq!(info.title().as_deref(), Some("Everything Reference Server"));
    assert!(peer.instructions.as_deref().unwrap().starts_with("# Everything Server"));
    assert!(peer.capabilities.tools.unwrap().list_changed);
    assert!(peer.capabilities.prompts.unwrap().list_changed);
    assert!(peer.capabilities.resources.unwrap().subscribe);
    assert!(peer.capabilities.logging && peer.capabilities.completions);
    assert!(matches!(client.status().current(), Status::Ready(ready) if ready.revision == peer.revision));
    client.ping().await.unwrap();
    client.close().await;
}

async fn everything_it_offers_is_listed(everything: Everything) {
    let client = everything.connect().await;

    let tools = client.list_tools_full().await.unwrap();
    assert!(tools.dropped.is_empty(), "{:?}", tools.dropped);
    let names: Vec<&str> = tools.items.iter().map(|tool| &*tool.name).collect();
    assert_eq!(
        names,
        [
            "echo",
            "get-annotated-message",
            "get-env",
            "get-resource-links",
            "get-resource-reference",
            "get-structured-content",
            "get-sum",
            "get-tiny-image",
            "gzip-file-as-resource",
            "toggle-simulated-logging",
            "toggle-subscriber-updates",
            "trigger-long-running-operation",
            "simulate-research-query",
        ]
    );
    let sum = &tools.items[6];
    assert_eq!(sum.display_name(), "Get Sum Tool");
    assert!(sum.is_read_only() && sum.is_idempotent() && !sum.is_destructive() && !sum.is_open_world());
    let schema: Value = sum.input_schema.decode().unwrap();
    assert_eq!(schema["required"], json!(["a", "b"]));
    assert!(tools.items[5].output_schema.is_some());

    let resources = client.list_resources().await.unwrap();
    let names: Vec<&str> = resources.iter().map(|resource| &*resource.name).collect();
    assert_eq!(
        names,
        [
            "architecture.md",
            "extension.md",
            "features.md",
            "how-it-works.md",
            "instructions.md",
            "startup.md",
            "structure.md"
        ]
    );
    assert!(resources.iter().all(|resource| resource.mime_type().as_deref() == Some("text/markdown")));

    let templates = client.list_resource_templates().await.unwrap();
    let templates: Vec<&str> = templates.iter().map(|template| &*template.uri_template).collect();
    assert_eq!(
        templates,
        ["demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"]
    );

    let prompts = client.list_prompts().await.unwrap();
    let names: Vec<&str> = prompts.iter().map(|prompt| &*prompt.name).collect();
    assert_eq!(names, ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"]);
    // PM-02
    let arguments: Vec<(String, bool)> = prompts[1]
        .arguments()
        .into_iter()
        .map(|argument| (argument.name.into(), argument.required))
        .collect();
    assert_eq!(arguments, [("city".to_owned(), true), ("state".to_owned(), false)]);
    client.close().await;
}

/// TL-04
async fn all_kinds_of_content_arrive(everything: Everything) {
    let client = everything.connect().await;

    // ST-01: line breaks and characters beyond ASCII in an argument survive.
    let message = "two\nlines, \u{2028} and a knot 🪢 \"quoted\"";
    let echo = client.call_tool("echo", &json!({ "message": message })).await.unwrap();
    assert_eq!(echo.text(), format!("Echo: {message}"));
    assert!(!echo.is_error);

    let image = client.call_tool("get-tiny-image", &Value::Null).await.unwrap();
    let [Content::Text(_), Content::Image(image), Content::Text(_)] = &*image.content else {
        panic!("{:?}", image.content)
    };
    assert_eq!(&*image.mime_type, "image/png");
    let bytes = BASE64_STANDARD.decode(image.data.get().as_bytes()).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));

    let arguments = json!({ "messageType": "error", "includeImage": true });
    let annotated = client.call_tool("get-annotated-message", &arguments).await.unwrap();
    let annotations = annotated.content[0].annotations();
    assert_eq!(annotations.audience, [Role::User, Role::Assistant]);
    assert_eq!(annotations.priority, Some(1.0));
    assert_eq!(annotated.content[1].annotations().priority, Some(0.5));

    let links = client.call_tool("get-resource-links", &json!({ "count": 4 })).await.unwrap();
    let uris: Vec<&str> = links
        .content
        .iter()
        .filter_map(|content| match content {
            Content::ResourceLink(resource) => Some(&*resource.uri),
            _ => None,
        })
        .collect();
    assert_eq!(uris.len(), 4);
    // TL-11: the link can be read although no list contains it.
    assert_eq!(client.read_resource(uris[0]).await.unwrap().contents.len(), 1);

    for (kind, id) in [("Text", 3), ("Blob", 4)] {
        let arguments = json!({ "resourceType": kind, "resourceId": id });
        let embedded = client.call_tool("get-resource-reference", &arguments).await.unwrap();
        let Content::Resource(embedded) = &embedded.content[1] else { panic!("{:?}", embedded.content) };
        let text = match &embedded.resource.body {
            ResourceBody::Text(text) => text.get().into_owned(),
            ResourceBody::Blob(blob) => {
                String::from_utf8(BASE64_STANDARD.decode(blob.get().as_bytes()).unwrap()).unwrap()
            }
            other => panic!("{other:?}"),
        };
        assert!(text.starts_with(&format!("Resource {id}: This is a")), "{text}");
    }
    client.close().await;
}

/// TL-05
async fn results_can_be_structured(everything: Everything) {
    let client = everything.connect().await;
    let weather =
        client.call_tool("get-structured-content", &json!({ "location": "Chicago" })).await.unwrap();
    let structured: Value = weather.structured.as_ref().unwrap().decode().unwrap();
    assert_eq!(
        structured,
        json!({ "temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82 })
    );
    assert_eq!(serde_json::from_str::<Value>(&weather.text()).unwrap(), structured);
    client.close().await;
}

/// TL-07
async fn a_failed_tool_is_a_result_and_an_unknown_method_an_error(everything: Everything) {
    let client = everything.connect().await;
    let failed = client.call_tool("get-sum", &json!({ "a": "no number" })).await.unwrap();
    assert!(failed.is_error);
    assert!(failed.text().contains("Invalid arguments"), "{}", failed.text());

    let error = client.request("bowline/unknown", &Value::Null).await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, code::METHOD_NOT_FOUND);
    assert_eq!(error.method(), "bowline/unknown");
    client.close().await;
}

/// PR-01, PR-02
async fn progress_arrives_in_order_before_the_result(everything: Everything) {
    let client = everything.connect().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let options = CallOptions::new().on_progress({
        let seen = Arc::clone(&seen);
        move |progress| seen.lock().push((progress.progress, progress.total))
    });
    let arguments = json!({ "duration": 0.5, "steps": 25 });
    let result = client.call_tool_with("trigger-long-running-operation", &arguments, &options).await.unwrap();
    assert_eq!(result.text(), "Long running operation completed. Duration: 0.5 seconds, Steps: 25.");
    let expected: Vec<_> = (1..=25).map(|step| (f64::from(step), Some(25.0))).collect();
    assert_eq!(*seen.lock(), expected);
    client.close().await;
}

/// CN-03
async fn a_dropped_call_leaves_the_connection_working(everything: Everything) {
    let client = everything.connect().await;
    let (started, mut running) = mpsc::unbounded_channel();
    let options = CallOptions::new().on_progress(move |_| {
        let _ = started.send(());
    });
    let arguments = json!({ "duration": 60, "steps": 1200 });
    tokio::select! {
        outcome = client.call_tool_with("trigger-long-running-operation", &arguments, &options) => {
            panic!("a call of a minute ended: {outcome:?}")
        }
        // The server is working on the call now.
        _ = running.recv() => {}
    }
    // The tool keeps reporting progress although the call is gone.
    for a in 0..20 {
        let sum = client.call_tool("get-sum", &json!({ "a": a, "b": 1 })).await.unwrap();
        assert_eq!(sum.text(), format!("The sum of {a} and 1 is {}.", a + 1));
    }
    client.ping().await.unwrap();
    assert!(matches!(client.status().current(), Status::Ready(_)));
    client.close().await;
}

/// BM-02
async fn many_calls_at_once_get_their_own_answers(everything: Everything) {
    let client = everything.connect().await;
    let mut calls = tokio::task::JoinSet::new();
    for a in 0..64 {
        let client = client.clone();
        calls.spawn(async move {
            let sum = client.call_tool("get-sum", &json!({ "a": a, "b": a })).await.unwrap();
            assert_eq!(sum.text(), format!("The sum of {a} and {a} is {}.", 2 * a));
        });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    client.close().await;
}

/// RS-01
async fn resources_are_text_or_bytes(everything: Everything) {
    let client = everything.connect().await;

    let document = client.read_resource("demo://resource/static/document/instructions.md").await.unwrap();
    let ResourceBody::Text(text) = &document.contents[0].body else { panic!("{document:?}") };
    assert_eq!(Some(&*text.get()), client.peer().await.unwrap().instructions.as_deref());
    assert_eq!(document.contents[0].mime_type().as_deref(), Some("text/markdown"));

    let blob = client.read_resource("demo://resource/dynamic/blob/7").await.unwrap();
    let ResourceBody::Blob(blob) = &blob.contents[0].body else { panic!("{blob:?}") };
    let bytes = BASE64_STANDARD.decode(blob.get().as_bytes()).unwrap();
    assert!(bytes.starts_with(b"Resource 7: This is a base64 blob"));

    // RS-02
    let error = client.read_resource("demo://resource/none").await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, code::INVALID_PARAMS);
    client.close().await;
}

/// PM-01
async fn prompts_take_arguments(everything: Everything) {
    let client = everything.connect().await;
    let arguments = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let text = |content: &Content| match content {
        Content::Text(text) => text.text.get().into_owned(),
        other => panic!("{other:?}"),
    };

    let simple = client.get_prompt("simple-prompt", &BTreeMap::new()).await.unwrap();
    assert_eq!(text(&simple.messages[0].content), "This is a simple prompt without arguments.");

    let place = arguments(&[("city", "Bergen"), ("state", "Vestland")]);
    let weather = client.get_prompt("args-prompt", &place).await.unwrap();
    assert_eq!(weather.messages[0].role, Role::User);
    assert_eq!(text(&weather.messages[0].content), "What's weather in Bergen, Vestland?");

    let which = arguments(&[("resourceType", "Blob"), ("resourceId", "2")]);
    let embedding = client.get_prompt("resource-prompt", &which).await.unwrap();
    assert!(matches!(&embedding.messages[1].content, Content::Resource(_)), "{embedding:?}");

    let error = client.get_prompt("args-prompt", &BTreeMap::new()).await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, code::INVALID_PARAMS);
    client.close().await;
}

/// LG-01, LG-03, RS-03. Over HTTP these notifications come on the GET stream (HL-05).
async fn log_messages_and_resource_updates_are_events(everything: Everything) {
    let client = everything.connect().await;
    let mut events = client.events();
    let subscribe = async |id: u32| {
        let params = json!({ "uri": format!("demo://resource/dynamic/text/{id}") });
        client.request("resources/subscribe", &params).await.unwrap();
    };
    // Each subscription is logged as `info`, so at this level nothing is logged for it.
    client.request("logging/setLevel", &json!({ "level": "error" })).await.unwrap();
    subscribe(1).await;
    client.request("logging/setLevel", &json!({ "level": "debug" })).await.unwrap();

    // Log lines before the server has seen the GET are lost, so trigger them again.
    let log = async {
        loop {
            if let Event::Notification(said) = events.next().await.unwrap()
                && let Topic::Log(params) = said.topic()
            {
                break LogMessage::decode(params).unwrap();
            }
        }
    };
    let nudge = async {
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        loop {
            tick.tick().await;
            subscribe(2).await;
        }
    };
    let log = tokio::select! {
        log = log => log,
        () = nudge => unreachable!("it goes on for ever"),
    };
    assert_eq!(log.level, LogLevel::Info);
    let text: String = log.data.decode().unwrap();
    assert!(text.contains("Received Subscribe Resource request for URI"), "{text}");
    assert!(text.contains("dynamic/text/2"), "the level was not kept to: {text}");

    client.call_tool("toggle-subscriber-updates", &Value::Null).await.unwrap();
    let mut updated = Vec::new();
    while updated.len() < 2 {
        if let Event::Notification(said) = events.next().await.unwrap()
            && let Topic::ResourceUpdated { uri } = said.topic()
        {
            updated.push(uri);
        }
    }
    assert_eq!(updated, ["demo://resource/dynamic/text/1", "demo://resource/dynamic/text/2"]);
    client.close().await;
}

/// HL-06, EL-05, EL-06
async fn a_form_is_filled_in_during_a_call(everything: Everything) {
    let person = ScriptedHandler::accepting(&json!({ "name": "Ann", "check": true, "integer": 7 }));
    let client = Client::builder(everything.server.clone()).handler(person.clone()).connect().await.unwrap();
    let result = client.call_tool("trigger-elicitation-request", &Value::Null).await.unwrap();
    assert!(result.text().contains("- Name: Ann"), "{}", result.text());
    assert!(result.text().contains("- Favorite Integer: 7"), "{}", result.text());

    let asked = person.requests();
    let [(method, params)] = &*asked else { panic!("{asked:?}") };
    assert_eq!(method, "elicitation/create");
    let params = bowline::Json::encode(params).unwrap();
    let Ok(bowline::types::Elicitation::Form(form)) = bowline::types::Elicitation::decode(&params) else {
        panic!("the form cannot be read: {params:?}")
    };
    assert_eq!(form.fields.len(), 13);
    let defaults: Value = form.defaults().decode().unwrap();
    assert_eq!(defaults["integer"], 42);
    assert_eq!(defaults["titledSingleSelectEnum"], "hero-1");
    assert_eq!(defaults["titledMultipleSelectEnum"], json!(["fish-1"]));
    // EL-08
    let result = client.call_tool("trigger-elicitation-request", &Value::Null).await.unwrap();
    assert!(result.text().contains("User declined"), "{}", result.text());
    client.close().await;
}

/// RT-01, SA-06
async fn roots_and_sampling_are_answered(everything: Everything) {
    // One object that is valid as either response: each reader takes the members it knows.
    let person = ScriptedHandler::new(
        json!({ "roots": {}, "sampling": {} }),
        [json!({
            "roots": [{ "uri": "file:///srv/knots", "name": "knots" }],
            "role": "assistant",
            "content": { "type": "text", "text": "A bowline." },
            "model": "test",
        })],
    );
    let client = Client::builder(everything.server.clone()).handler(person.clone()).connect().await.unwrap();
    let roots = client.call_tool("get-roots-list", &Value::Null).await.unwrap();
    assert!(roots.text().contains("file:///srv/knots"), "{}", roots.text());
    let sampled = client.call_tool("trigger-sampling-request", &json!({ "prompt": "Which?" })).await.unwrap();
    assert!(sampled.text().contains("A bowline."), "{}", sampled.text());
    // The server also requests roots by itself, some time after the handshake.
    let methods: BTreeSet<String> = person.requests().into_iter().map(|(method, _)| method).collect();
    assert_eq!(methods, ["roots/list", "sampling/createMessage"].map(String::from).into());
    client.close().await;
}

/// CP-01, CP-02
async fn raw_requests_reach_what_has_no_verb(everything: Everything) {
    let client = everything.connect().await;
    let params = json!({
        "ref": { "type": "ref/prompt", "name": "completable-prompt" },
        "argument": { "name": "name", "value": "" },
        "context": { "arguments": { "department": "Sales" } },
    });
    let result = client.request("completion/complete", &params).await.unwrap();
    let completion = bowline::types::Completion::decode(&result).unwrap();
    assert_eq!(completion.values, ["David", "Eve", "Frank"].map(Box::<str>::from));
    client.close().await;
}

/// HL-04
#[tokio::test]
async fn closing_ends_the_session_on_the_server() {
    let everything = Everything::http().await;
    let client = everything.connect().await;
    let http = everything.http.as_ref().unwrap();
    let session = http.wait_for_line("Session initialized with ID: ").await;
    let session = session.rsplit(' ').next().unwrap();
    client.close().await;
    // Only the DELETE of this session logs these two lines.
    http.wait_for_line(&format!("Received session termination request for session {session}")).await;
    http.wait_for_line(&format!("Transport closed for session {session}")).await;
}

/// ST-07: configured variables reach the child; other variables of the host do not.
#[tokio::test]
async fn the_child_gets_only_the_environment_that_is_meant_for_it() {
    let everything = Everything::stdio();
    let server = everything.server.with_env("KNOT", "bowline").unwrap();
    let client = Client::connect(server).await.unwrap();
    let result = client.call_tool("get-env", &Value::Null).await.unwrap();
    let env: BTreeMap<String, String> = serde_json::from_str(&result.text()).unwrap();
    assert_eq!(env.get("KNOT").map(String::as_str), Some("bowline"));
    assert!(env.contains_key("PATH"));
    assert!(!env.contains_key("BOWLINE_EVERYTHING"), "{env:?}");
    client.close().await;
}
