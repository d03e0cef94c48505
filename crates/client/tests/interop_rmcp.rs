//! Interop with servers made with rmcp, the Rust SDK, in both eras: over Streamable HTTP in this
//! process, and over stdio in a second process of this test binary.

#[path = "support_interop/basic_server.rs"]
mod basic_server;
#[path = "rmcp/features.rs"]
mod features;
#[path = "support_interop/interactive_server.rs"]
mod interactive_server;
#[path = "rmcp/legacy_requests.rs"]
mod legacy_requests;
#[path = "support_interop/limit.rs"]
mod limit;
#[path = "support_interop/scripted_handler.rs"]
mod scripted_handler;
#[path = "support_interop/scripted_host.rs"]
mod scripted_host;
#[path = "support_interop/serve.rs"]
mod serve;
#[path = "rmcp/subscriptions.rs"]
mod subscriptions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use basic_server::{BasicServer, TOOLS};
use bowline::config::Protocol;
use bowline::types::code;
use bowline::types::{Content, ResourceBody};
use bowline::{CallOptions, Cause, Client, Era, Execution, Revision, Server};
use bowline_config::TransportSettings as _;
use interactive_server::InteractiveServer;
use limit::within;
use parking_lot::Mutex;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use scripted_handler::ScriptedHandler;
use serde_json::{Value, json};

/// Runs each check against its servers.
macro_rules! against {
    ($($server:ident: $($check:ident),* $(,)?;)*) => {
        $(mod $server {
            $(#[tokio::test]
            async fn $check() {
                super::limit::within(stringify!($check), async {
                    super::$check(super::$server().await).await;
                })
                .await;
            })*
        })*
    };
}

against! {
    legacy_http: is_legacy, lists_are_complete, tools_are_called, progress_arrives_in_order,
        a_dropped_call_is_cancelled, a_form_is_filled_in, resources_are_read, prompts_are_expanded;
    legacy_http_without_sessions: is_legacy, lists_are_complete, tools_are_called,
        progress_arrives_in_order, resources_are_read, prompts_are_expanded;
    modern_http: is_modern, lists_are_complete, tools_are_called, progress_arrives_in_order,
        a_dropped_call_is_cancelled, a_form_is_filled_in, resources_are_read, prompts_are_expanded,
        arguments_are_mirrored_into_headers;
    modern_http_with_json: is_modern, lists_are_complete, tools_are_called, progress_arrives_in_order,
        a_dropped_call_is_cancelled, a_form_is_filled_in, resources_are_read, prompts_are_expanded,
        arguments_are_mirrored_into_headers;
    legacy_stdio: is_legacy, lists_are_complete, tools_are_called, progress_arrives_in_order,
        a_dropped_call_is_cancelled, a_form_is_filled_in, resources_are_read, prompts_are_expanded;
    modern_stdio: is_modern, lists_are_complete, tools_are_called, progress_arrives_in_order,
        a_dropped_call_is_cancelled, a_form_is_filled_in, resources_are_read, prompts_are_expanded;
}

// === servers ===

async fn legacy_http() -> Server {
    serve_http(BasicServer::new(ALL_VERSIONS), config()).await.with_protocol(Protocol::Legacy)
}

async fn legacy_http_without_sessions() -> Server {
    let config = config().with_legacy_session_mode(false).with_json_response(true);
    serve_http(BasicServer::new(ALL_VERSIONS), config).await.with_protocol(Protocol::Legacy)
}

async fn modern_http() -> Server {
    serve_http(BasicServer::new(ALL_VERSIONS), config()).await.with_protocol(Protocol::Modern)
}

async fn modern_http_with_json() -> Server {
    let config = config().with_json_response(true).with_legacy_session_mode(false);
    serve_http(BasicServer::new(ALL_VERSIONS), config).await.with_protocol(Protocol::Modern)
}

async fn legacy_stdio() -> Server {
    stdio_server("all").with_protocol(Protocol::Legacy)
}

async fn modern_stdio() -> Server {
    stdio_server("all").with_protocol(Protocol::Modern)
}

async fn serve_http(knots: BasicServer, config: StreamableHttpServerConfig) -> Server {
    Server::http("knots", serve::http(knots, config).await).build().expect("a loopback URL")
}

/// The interactive server, in each era and over each transport.
async fn interactive_servers() -> [(&'static str, Server); 4] {
    let http = async || {
        let url = serve::http(InteractiveServer::default(), config()).await;
        Server::http("rigging", url).build().expect("a loopback URL")
    };
    [
        ("legacy http", http().await.with_protocol(Protocol::Legacy)),
        ("modern http", http().await.with_protocol(Protocol::Modern)),
        ("legacy stdio", stdio_server("rigging").with_protocol(Protocol::Legacy)),
        ("modern stdio", stdio_server("rigging").with_protocol(Protocol::Modern)),
    ]
}

/// rmcp notices that a client has left only on its next write, so make it write often.
fn config() -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default().with_sse_keep_alive(Some(Duration::from_millis(50)))
}

/// Starts this test binary as a server on stdio. What the test harness prints first is noise to the
/// client (ST-02).
fn stdio_server(speaking: &str) -> Server {
    let this = std::env::current_exe().expect("a test has a path");
    let args = ["--quiet", "--nocapture", "--exact", "the_era_of_a_child_is_found"];
    Server::stdio("knots", this.to_str().expect("a path in UTF-8"))
        .args(args)
        .build()
        .unwrap()
        .with_env(ROLE_VARIABLE, speaking)
        .expect("a plain name and value")
}

const ROLE_VARIABLE: &str = "INTEROP_RMCP_SPEAKS";
const ALL_VERSIONS: &[ProtocolVersion] = ProtocolVersion::KNOWN_VERSIONS;
const MODERN_VERSIONS: &[ProtocolVersion] = &[ProtocolVersion::V_2026_07_28];

fn legacy_versions() -> &'static [ProtocolVersion] {
    ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25)
}

// === negotiation ===

/// DE-01, DE-02, DE-03
#[tokio::test]
async fn the_era_of_a_child_is_found() {
    // `stdio` started this process: serve instead of testing.
    if let Ok(speaking) = std::env::var(ROLE_VARIABLE) {
        let versions = match &*speaking {
            "all" => ALL_VERSIONS,
            "legacy" => legacy_versions(),
            "modern" => MODERN_VERSIONS,
            "rigging" => {
                serve::stdio(InteractiveServer::default()).await;
                std::process::exit(0);
            }
            other => panic!("{other}: speaks nothing"),
        };
        serve::stdio(BasicServer::new(versions)).await;
        std::process::exit(0);
    }
    within("negotiation", async {
        for (speaking, revision) in [
            ("all", Revision::V2026_07_28),
            ("modern", Revision::V2026_07_28),
            ("legacy", Revision::V2025_11_25),
        ] {
            let client = Client::connect(stdio_server(speaking)).await.unwrap();
            assert_eq!(client.peer().await.unwrap().revision, revision, "{speaking}");
            assert_eq!(client.list_tools().await.unwrap().len(), TOOLS.len(), "{speaking}");
            client.close().await;
        }
    })
    .await;
}

/// DE-06, DE-11, LC-02
#[tokio::test]
async fn the_newest_common_revision_is_found_over_http() {
    within("negotiation", async {
        for (speaking, revision) in [
            (ALL_VERSIONS, Revision::V2026_07_28),
            (MODERN_VERSIONS, Revision::V2026_07_28),
            (legacy_versions(), Revision::V2025_11_25),
            (ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_06_18), Revision::V2025_06_18),
            (ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_03_26), Revision::V2025_03_26),
            (ProtocolVersion::known_up_to(&ProtocolVersion::V_2024_11_05), Revision::V2024_11_05),
        ] {
            let client =
                Client::connect(serve_http(BasicServer::new(speaking), config()).await).await.unwrap();
            assert_eq!(client.peer().await.unwrap().revision, revision);
            assert_eq!(client.list_tools().await.unwrap().len(), TOOLS.len(), "{revision:?}");
            client.close().await;
        }
    })
    .await;
}

/// DE-04, LC-06: a version mismatch is reported before anything is called.
#[tokio::test]
async fn an_era_that_a_server_does_not_speak_is_refused() {
    within("refusal", async {
        let legacy_only = serve_http(BasicServer::new(legacy_versions()), config()).await;
        let modern_only = serve_http(BasicServer::new(MODERN_VERSIONS), config()).await;
        for server in [
            legacy_only.with_protocol(Protocol::Modern),
            modern_only.with_protocol(Protocol::Legacy),
            stdio_server("legacy").with_protocol(Protocol::Modern),
            stdio_server("modern").with_protocol(Protocol::Legacy),
        ] {
            let asked = format!("{server:?}");
            let error = Client::connect(server).await.unwrap_err();
            let fault = error.fault().unwrap();
            assert!(matches!(fault.cause, Cause::NoCommonVersion { .. }), "{asked}: {error:?}");
            assert_eq!(error.execution(), Execution::NotExecuted);
        }
    })
    .await;
}

/// DE-05, DE-09: the probe times out before a modern server answers it. The handshake that follows
/// is refused, and the refusal names the revisions that the server speaks.
#[tokio::test]
async fn a_slow_reply_is_not_taken_for_the_legacy_era() {
    within("negotiation", async {
        // Slower than the first probe's timeout, faster than that of the second probe.
        let knots = BasicServer::new(MODERN_VERSIONS).with_discover_delay(Duration::from_millis(300));
        let server = serve_http(knots, config()).await.with_probe_timeout(Duration::from_millis(100));
        let client = Client::connect(server).await.unwrap();
        assert_eq!(client.peer().await.unwrap().revision, Revision::V2026_07_28);
        client.close().await;
    })
    .await;
}

async fn is_legacy(server: Server) {
    let client = check_introduction(server).await;
    let peer = client.peer().await.unwrap();
    assert_eq!((peer.era(), peer.revision), (Era::Legacy, Revision::V2025_11_25));
    client.close().await;
}

async fn is_modern(server: Server) {
    let client = check_introduction(server).await;
    let peer = client.peer().await.unwrap();
    assert_eq!((peer.era(), peer.revision), (Era::Modern, Revision::V2026_07_28));
    client.close().await;
}

/// LC-07, LC-10, LC-11
async fn check_introduction(server: Server) -> Client {
    let client = connect(server).await;
    let peer = client.peer().await.unwrap();
    let info = peer.server.as_ref().unwrap();
    assert_eq!((&*info.name, &*info.version), ("knots", "1.2.3"));
    assert_eq!(info.title().as_deref(), Some("Knots"));
    assert_eq!(peer.instructions.as_deref(), Some("Tie them tight."));
    assert!(peer.capabilities.tools.is_some() && !peer.capabilities.logging);
    // LC-14: in the modern era `ping` does not exist, and rmcp would refuse it.
    client.ping().await.unwrap();
    client
}

// === features ===

/// PA-01, PA-02
async fn lists_are_complete(server: Server) {
    let client = connect(server).await;
    let tools = client.list_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, TOOLS);
    assert!(tools[0].output_schema.is_some());
    let resources = client.list_resources().await.unwrap();
    assert_eq!((&*resources[0].uri, resources[0].size()), ("knot://bowline", Some(9)));
    assert_eq!(client.list_resource_templates().await.unwrap(), []);
    let prompts = client.list_prompts().await.unwrap();
    assert!(prompts[0].arguments()[0].required);
    client.close().await;
}

/// TL-04, TL-05, TL-07
async fn tools_are_called(server: Server) {
    let client = connect(server).await;
    let sum = client.call_tool("add", &json!({ "a": 40, "b": 2 })).await.unwrap();
    assert_eq!(sum.result.structured.unwrap().decode::<Value>().unwrap(), json!({ "sum": 42 }));

    let kinds = client.call_tool("kinds", &Value::Null).await.unwrap();
    let [
        Content::Text(text),
        Content::Image(image),
        Content::Audio(audio),
        Content::ResourceLink(link),
        Content::Resource(embedded),
    ] = &*kinds.content
    else {
        panic!("{:?}", kinds.content)
    };
    assert_eq!(text.text.get(), "a knot 🪢");
    assert_eq!((&*image.data.get(), &*image.mime_type), ("AAEC", "image/png"));
    assert_eq!((&*audio.data.get(), &*audio.mime_type), ("AwQF", "audio/wav"));
    assert_eq!(&*link.uri, "knot://bowline");
    assert!(matches!(&embedded.resource.body, ResourceBody::Text(text) if text.get() == "up the hole"));

    let failed = client.call_tool("fail", &Value::Null).await.unwrap();
    assert!(failed.is_error);
    assert_eq!(failed.text(), "it slipped");

    let error = client.call_tool("untie", &Value::Null).await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, code::INVALID_PARAMS);
    client.close().await;
}

/// PR-01, PR-02
async fn progress_arrives_in_order(server: Server) {
    let client = connect(server).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let options = CallOptions::new().on_progress({
        let seen = Arc::clone(&seen);
        move |progress| seen.lock().push((progress.progress, progress.message))
    });
    let result = client.call_tool_with("count", &json!({ "to": 200 }), &options).await.unwrap();
    assert_eq!(result.text(), "counted");
    let expected: Vec<_> =
        (1..=200).map(|step| (f64::from(step), Some(format!("step {step}").into_boxed_str()))).collect();
    assert_eq!(*seen.lock(), expected);
    client.close().await;
}

/// CN-01 on legacy connections and on stdio, HM-12 on modern HTTP: the server's cancellation token
/// fires.
async fn a_dropped_call_is_cancelled(server: Server) {
    let client = connect(server).await;
    let hangs = || {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool("hang", &Value::Null).await })
    };
    let until = async |began: u32, cancelled: u32| {
        let counts = json!({ "began": began, "cancelled": cancelled });
        client.call_tool("hung", &counts).await.unwrap();
    };
    let (kept, dropped) = (hangs(), hangs());
    until(2, 0).await;
    dropped.abort();
    until(2, 1).await;
    assert!(!kept.is_finished(), "only the dropped call is cancelled");
    kept.abort();
    until(2, 2).await;
    client.close().await;
}

/// HL-06 in the legacy era; MR-02, MR-03, MR-04 in the modern one.
async fn a_form_is_filled_in(server: Server) {
    let person = ScriptedHandler::accepting(&json!({ "name": "Ann" }));
    let client = Client::builder(server).handler(person.clone()).connect().await.unwrap();
    let greeting = client.call_tool("greet", &Value::Null).await.unwrap();
    assert_eq!(greeting.text(), "hello Ann");
    let asked = person.requests();
    let [(method, params)] = &*asked else { panic!("{asked:?}") };
    assert_eq!(method, "elicitation/create");
    assert_eq!(params["message"], "Who are you?");
    // EL-08
    let greeting = client.call_tool("greet", &Value::Null).await.unwrap();
    assert_eq!(greeting.text(), "hello stranger");
    client.close().await;
}

/// RS-01, RS-02
async fn resources_are_read(server: Server) {
    let client = connect(server).await;
    let knot = client.read_resource("knot://bowline").await.unwrap();
    let uris: Vec<&str> = knot.contents.iter().map(|part| &*part.uri).collect();
    assert_eq!(uris, ["knot://bowline/words", "knot://bowline/picture"]);
    assert!(matches!(&knot.contents[0].body, ResourceBody::Text(text) if text.get() == "up the hole"));
    assert!(matches!(&knot.contents[1].body, ResourceBody::Blob(blob) if blob.get() == "AAEC"));

    let not_found = match client.peer().await.unwrap().era() {
        Era::Legacy => -32002,
        Era::Modern => code::INVALID_PARAMS,
    };
    let error = client.read_resource("knot://granny").await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, not_found);
    client.close().await;
}

/// PM-01
async fn prompts_are_expanded(server: Server) {
    let client = connect(server).await;
    let knot = BTreeMap::from([("knot".to_owned(), "sheet bend".to_owned())]);
    let prompt = client.get_prompt("teach", &knot).await.unwrap();
    let Content::Text(text) = &prompt.messages[0].content else { panic!("{prompt:?}") };
    assert_eq!(text.text.get(), "Teach me sheet bend");
    let error = client.get_prompt("teach", &BTreeMap::new()).await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, code::INVALID_PARAMS);
    client.close().await;
}

/// HM-03, HM-04, HM-08, HM-10: rmcp compares headers with the body and refuses differences.
async fn arguments_are_mirrored_into_headers(server: Server) {
    let client = connect(server).await;
    client.list_tools().await.unwrap();
    for (region, seen) in [("eu-north", "eu-north"), ("日本", "=?base64?5pel5pys?=")] {
        let route = client.call_tool("route", &json!({ "region": region })).await.unwrap();
        assert_eq!(route.text(), seen);
    }
    let route = client.call_tool("route", &json!({ "region": null })).await.unwrap();
    assert_eq!(route.text(), "none");
    client.close().await;
}

async fn connect(server: Server) -> Client {
    Client::connect(server).await.expect("the server can be connected to")
}
