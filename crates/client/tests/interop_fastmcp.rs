//! Interop with a server made with FastMCP, the Python framework, over stdio and Streamable HTTP.
//! It speaks both eras.

#[path = "support_interop/limit.rs"]
mod limit;
#[path = "support_interop/peer.rs"]
mod peer;
#[path = "support_interop/scripted_handler.rs"]
mod scripted_handler;
#[path = "support_interop/scripted_host.rs"]
mod scripted_host;
#[path = "fastmcp/server_requests.rs"]
mod server_requests;
#[path = "fastmcp/subscriptions.rs"]
mod subscriptions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline::config::Protocol;
use bowline::types::code;
use bowline::types::{CallToolResult, Content, LogLevel, LogMessage, ResourceBody};
use bowline::{
    CallOptions, Client, Era, ErrorKind, Event, Revision, Server, TaskEnd, TaskHandle, TaskOrResult, Topic,
};
use limit::within;
use parking_lot::Mutex;
use peer::{HttpPeer, required_variable};
use scripted_handler::ScriptedHandler;
use serde_json::{Value, json};
use tokio::process::Command;

/// How to reach one instance of a server. Over HTTP it runs until this is dropped.
struct Peer {
    server: Server,
    http: Option<HttpPeer>,
}

impl Peer {
    fn stdio(script: &str) -> Self {
        let args = [&*script_path(script), "stdio"];
        Self {
            server: Server::stdio("ropes", required_variable("BOWLINE_FASTMCP_PYTHON"))
                .args(args)
                .build()
                .unwrap(),
            http: None,
        }
    }

    async fn http(script: &str) -> Self {
        let python = required_variable("BOWLINE_FASTMCP_PYTHON");
        let peer = HttpPeer::start(|port| {
            let mut command = Command::new(&python);
            command.args([&*script_path(script), "http", &port.to_string()]);
            command
        })
        .await;
        Self { server: Server::http("ropes", peer.url()).build().expect("a loopback URL"), http: Some(peer) }
    }
}

fn script_path(script: &str) -> String {
    format!("{}/tests/servers/{script}", env!("CARGO_MANIFEST_DIR"))
}

const SCRIPT: &str = "fastmcp_server.py";

#[tokio::test]
async fn over_stdio_in_the_modern_era() {
    run_all_checks(Peer::stdio(SCRIPT), Protocol::Modern, Revision::V2026_07_28).await;
}

#[tokio::test]
async fn over_stdio_in_the_legacy_era() {
    run_all_checks(Peer::stdio(SCRIPT), Protocol::Legacy, Revision::V2025_11_25).await;
}

#[tokio::test]
async fn over_http_in_the_modern_era() {
    run_all_checks(Peer::http(SCRIPT).await, Protocol::Modern, Revision::V2026_07_28).await;
}

#[tokio::test]
async fn over_http_in_the_legacy_era() {
    run_all_checks(Peer::http(SCRIPT).await, Protocol::Legacy, Revision::V2025_11_25).await;
}

/// Runs all checks on one connection, because starting Python takes longer than all of them.
async fn run_all_checks(peer: Peer, era: Protocol, revision: Revision) {
    let person = ScriptedHandler::accepting(&json!({ "value": "Ann" }));
    let server = peer.server.clone().with_protocol(era);
    let client = within("connect", Client::builder(server).handler(person.clone()).connect()).await.unwrap();
    within("introduction", the_server_introduces_itself(&client, revision)).await;
    within("lists", lists_are_complete(&client)).await;
    within("tools", tools_are_called(&client)).await;
    within("progress", progress_arrives_in_order(&client)).await;
    within("cancelling", a_dropped_call_is_cancelled(&client)).await;
    within("elicitation", a_form_is_filled_in(&client, &person)).await;
    within("logging", log_messages_are_events(&client)).await;
    within("resources", resources_are_read(&client)).await;
    within("prompts", prompts_are_expanded(&client)).await;
    within("close", check_close(client, &peer)).await;
}

/// DE-05, DE-09: the probe times out while the server is still starting. Once it is up, it answers
/// the probe, which makes the connection modern, and refuses the handshake that followed.
#[tokio::test]
async fn a_slow_start_is_not_taken_for_the_legacy_era() {
    within("connect", async {
        let server = Peer::stdio(SCRIPT).server.with_probe_timeout(Duration::from_millis(50));
        let client = Client::connect(server).await.unwrap();
        assert_eq!(client.peer().await.unwrap().era(), Era::Modern);
        client.close().await;
    })
    .await;
}

/// DE-11
#[tokio::test]
async fn the_newest_era_is_found_over_http() {
    let ropes = Peer::http(SCRIPT).await;
    within("connect", async {
        let client = Client::connect(ropes.server.clone()).await.unwrap();
        assert_eq!(client.peer().await.unwrap().revision, Revision::V2026_07_28);
        client.close().await;
    })
    .await;
}

async fn the_server_introduces_itself(client: &Client, revision: Revision) {
    let peer = client.peer().await.unwrap();
    assert_eq!(peer.revision, revision);
    let info = peer.server.as_ref().unwrap();
    assert_eq!((&*info.name, &*info.version), ("ropes", "3.2.1"));
    assert_eq!(peer.instructions.as_deref(), Some("Coil them."));
    client.ping().await.unwrap();
}

/// PA-01, PA-02: the server puts two elements on a page.
async fn lists_are_complete(client: &Client) {
    let tools = client.list_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(
        names,
        ["cut", "double", "fail", "pictures", "count", "say", "greet", "hang", "hung_so_often", "process_id"]
    );
    assert!(tools[0].is_read_only());
    let output: Value = tools[0].output_schema.as_ref().unwrap().decode().unwrap();
    assert_eq!(output["required"], json!(["name", "meters"]));

    let resources = client.list_resources().await.unwrap();
    let uris: Vec<&str> = resources.iter().map(|resource| &*resource.uri).collect();
    assert_eq!(uris, ["rope://manila", "rope://picture"]);
    let templates = client.list_resource_templates().await.unwrap();
    assert_eq!(&*templates[0].uri_template, "rope://length/{meters}");
    let prompts = client.list_prompts().await.unwrap();
    let required: Vec<bool> = prompts[0].arguments().iter().map(|argument| argument.required).collect();
    assert_eq!(required, [true, false]);
}

/// TL-04, TL-05, TL-07
async fn tools_are_called(client: &Client) {
    let structured = |result: &CallToolResult| -> Value {
        result.structured.as_ref().expect("structured content").decode().unwrap()
    };
    let rope = client.call_tool("cut", &json!({ "name": "manila", "meters": 2.5 })).await.unwrap();
    assert_eq!(structured(&rope), json!({ "name": "manila", "meters": 2.5 }));
    assert_eq!(serde_json::from_str::<Value>(&rope.text()).unwrap(), structured(&rope));
    let doubled = client.call_tool("double", &json!({ "number": 21 })).await.unwrap();
    assert_eq!(doubled.text(), "42");
    assert_eq!(structured(&doubled), json!({ "result": 42 }));

    let pictures = client.call_tool("pictures", &Value::Null).await.unwrap();
    let [Content::Text(_), Content::Image(image), Content::Audio(audio)] = &*pictures.content else {
        panic!("{:?}", pictures.content)
    };
    assert_eq!((&*image.data.get(), &*image.mime_type), ("AAEC", "image/png"));
    assert_eq!((&*audio.data.get(), &*audio.mime_type), ("AwQF", "audio/wav"));

    let failed = client.call_tool("fail", &Value::Null).await.unwrap();
    assert!(failed.is_error);
    assert!(failed.text().contains("the rope broke"), "{}", failed.text());
    let wrong = client.call_tool("double", &json!({ "number": "many" })).await.unwrap();
    assert!(wrong.is_error, "{wrong:?}");
}

/// PR-01, PR-02
async fn progress_arrives_in_order(client: &Client) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let options = CallOptions::new().on_progress({
        let seen = Arc::clone(&seen);
        move |progress| seen.lock().push((progress.progress, progress.message))
    });
    let result = client.call_tool_with("count", &json!({ "to": 50 }), &options).await.unwrap();
    assert_eq!(result.text(), "counted");
    let expected: Vec<_> =
        (1..=50).map(|step| (f64::from(step), Some(format!("step {step}").into_boxed_str()))).collect();
    assert_eq!(*seen.lock(), expected);
}

/// CN-01 on legacy connections and on stdio, HM-12 on modern HTTP: the tool itself is interrupted.
async fn a_dropped_call_is_cancelled(client: &Client) {
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("hang", &Value::Null).await }
    });
    let until = async |began: u32, cancelled: u32| {
        let counts = json!({ "began": began, "cancelled": cancelled });
        client.call_tool("hung_so_often", &counts).await.unwrap();
    };
    until(1, 0).await;
    call.abort();
    until(1, 1).await;
}

/// HL-06 in the legacy era; MR-02, MR-03, MR-04 in the modern one, with a state sealed by the
/// server.
async fn a_form_is_filled_in(client: &Client, person: &ScriptedHandler) {
    let greeting = client.call_tool("greet", &Value::Null).await.unwrap();
    assert_eq!(greeting.text(), "hello Ann");
    let asked = person.requests();
    let [(method, params)] = &*asked else { panic!("{asked:?}") };
    assert_eq!((&**method, &params["message"]), ("elicitation/create", &json!("Who are you?")));
    // EL-08
    let greeting = client.call_tool("greet", &Value::Null).await.unwrap();
    assert_eq!(greeting.text(), "hello stranger");
}

/// LG-02, LG-03
async fn log_messages_are_events(client: &Client) {
    let mut events = client.events();
    let mut params = json!({ "name": "say", "arguments": { "what": "heave" } });
    if client.peer().await.unwrap().era() == Era::Modern {
        // A modern server logs nothing until a request asks for it.
        params["_meta"] = json!({ "io.modelcontextprotocol/logLevel": "info" });
    }
    let result = client.request("tools/call", &params).await.unwrap();
    assert_eq!(CallToolResult::decode(&result).unwrap().text(), "said");
    let Event::Notification(said) = events.next().await.unwrap() else { panic!("it said nothing") };
    let Topic::Log(log) = said.topic() else { panic!("it said something else") };
    let log = LogMessage::decode(log).unwrap();
    assert_eq!((log.level, log.logger.as_deref()), (LogLevel::Info, Some("ropes")));
    assert!(log.data.as_str().contains("heave"), "{:?}", log.data);
}

/// RS-01, RS-02
async fn resources_are_read(client: &Client) {
    for (uri, expected) in
        [("rope://manila", "abaca fiber"), ("rope://picture", "AAEC"), ("rope://length/7", "7 m of rope")]
    {
        let resource = client.read_resource(uri).await.unwrap();
        let (ResourceBody::Text(body) | ResourceBody::Blob(body)) = &resource.contents[0].body else {
            panic!("{:?}", resource.contents)
        };
        assert_eq!(body.get(), expected);
        assert_eq!(matches!(resource.contents[0].body, ResourceBody::Blob(_)), uri == "rope://picture");
    }
    let error = client.read_resource("rope://none").await.unwrap_err();
    let error = error.server_error().unwrap();
    assert!([-32002, code::INVALID_PARAMS].contains(&error.code), "{error:?}");
}

/// PM-01: even a number is sent as text.
async fn prompts_are_expanded(client: &Client) {
    let arguments = BTreeMap::from(
        [("rope", "hemp"), ("strands", "4")].map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let prompt = client.get_prompt("splice", &arguments).await.unwrap();
    let Content::Text(text) = &prompt.messages[0].content else { panic!("{prompt:?}") };
    assert_eq!(text.text.get(), "Splice hemp, 4 strands");
}

async fn check_close(client: Client, peer: &Peer) {
    let pid = client.call_tool("process_id", &Value::Null).await.unwrap().text();
    let era = client.peer().await.unwrap().era();
    client.close().await;
    match &peer.http {
        // HL-04; the modern era has no session to end (LC-14).
        Some(http) if era == Era::Legacy => drop(http.wait_for_line("\"DELETE /mcp HTTP/1.1\" 200").await),
        Some(_) => {}
        // ST-04
        #[cfg(unix)]
        None => {
            let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
            assert_eq!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH));
        }
        #[cfg(not(unix))]
        None => drop(pid),
    }
}

/// The tasks extension of 2026-07-28, as `fastmcp-tasks` implements it (TN-01 to TN-09).
#[tokio::test]
async fn calls_become_tasks() {
    let python = required_variable("BOWLINE_FASTMCP_PYTHON");
    let peer = HttpPeer::start(|port| {
        let mut command = Command::new(&python);
        command.args([TASKS_SCRIPT, &port.to_string()]);
        command
    })
    .await;
    let server =
        Server::http("braids", peer.url()).build().expect("a loopback URL").with_protocol(Protocol::Modern);
    let person = ScriptedHandler::accepting(&json!({ "value": "hemp" }));
    let client = Client::builder(server.clone()).handler(person.clone()).connect().await.unwrap();
    let none = json!({});
    within("a task that is not seen", async {
        let result = client.call_tool("braid", &json!({ "strands": 3 })).await.unwrap();
        assert_eq!(result.text(), "braided 3");
        // TN-04
        assert!(client.call_tool("fray", &none).await.unwrap().is_error);
        // TN-05
        assert_eq!(client.call_tool("ask", &none).await.unwrap().text(), "took hemp");
        assert_eq!(person.requests().len(), 1);
    })
    .await;
    within("a handle that is kept", async {
        let begun = client.call_tool_task("braid", &json!({ "strands": 4 }), &CallOptions::new()).await;
        let TaskOrResult::Task(handle) = begun.unwrap() else { panic!("it was answered at once") };
        // TN-09
        let other = Client::connect(server.clone()).await.unwrap();
        assert_eq!(other.wait_task(&handle, &CallOptions::new()).await.unwrap().text(), "braided 4");
        other.close().await;
        let begun = client.call_tool_task("wait", &none, &CallOptions::new()).await;
        let TaskOrResult::Task(handle) = begun.unwrap() else { panic!("it was answered at once") };
        client.cancel_task(&handle).await.unwrap();
        let error = client.wait_task(&handle, &CallOptions::new()).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::Cancelled));
        let unknown = TaskHandle::from_id("no-such-task", handle.dialect, handle.created_at);
        assert_eq!(*client.task(&unknown).await.unwrap_err().kind(), ErrorKind::Task(TaskEnd::NotFound));
    })
    .await;
    client.close().await;
}

const TASKS_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/fastmcp_tasks_server.py");
