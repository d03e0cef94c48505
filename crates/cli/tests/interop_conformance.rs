//! The server leg of the official conformance suite: each scenario has the same result through
//! `bowline serve` as at the server itself, alone and among other servers.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bowline_testkit::{self as testkit, Completion, HttpServer, Resource, Script, ScriptedRequest, Tool};
use serde_json::{Value, json};
use tempfile::TempDir;

const BOWLINE: &str = env!("CARGO_BIN_EXE_bowline");
/// One pixel, and a moment of silence.
const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// Passed and failed checks of each scenario.
type Verdicts = BTreeMap<String, (u32, u32)>;

fn required_variable(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `cargo xtask test --only interop`, which installs the suite")
    })
}

/// The server that the suite expects.
fn fixture() -> Script {
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = json!({"type": "image", "data": IMAGE, "mimeType": "image/png"});
    let embedded = |uri: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": "This is embedded."}});
    let result = |name: &str, content: Value| Tool::named(name).result(json!({ "content": content }));
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let schema = |properties: Value| json!({"type": "object", "properties": properties});
    let form = |name: &str, properties: Value| {
        Tool::asks(name, [ScriptedRequest::form_elicitation("form", "Please answer", schema(properties))])
    };
    let defaults = json!({
        "name": {"type": "string", "default": "John Doe"}, "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5}, "verified": {"type": "boolean", "default": true},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    });
    let titled = json!([{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}]);
    let enums = json!({
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    });
    let arguments = json!([{"name": "arg1", "required": true}, {"name": "arg2", "required": true}]);
    testkit::server()
        .legacy()
        .tool(result("test_simple_text", json!([text("This is a simple text response for testing.")])))
        .tool(result("test_image_content", json!([image])))
        .tool(result("test_audio_content", json!([{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}])))
        .tool(result("test_embedded_resource", json!([embedded("test://embedded-resource")])))
        .tool(result("test_multiple_content_types", json!([text("Several types:"), image, embedded("test://mixed")])))
        .tool(Tool::logs("test_tool_with_logging", ["one", "two", "three"].map(|line| ("info", json!(line)))))
        .tool(Tool::named("test_error_handling").result(json!({"content": [text("It fails on purpose.")], "isError": true})))
        .tool(Tool::like("test_tool_with_progress", "slow"))
        .tool(Tool::asks("test_sampling", [ScriptedRequest::sampling("model", "Say something", 100)]))
        .tool(form("test_elicitation", json!({"username": {"type": "string"}, "email": {"type": "string"}})))
        .tool(form("test_elicitation_sep1034_defaults", defaults))
        .tool(form("test_elicitation_sep1330_enums", enums))
        .resource("test://static-text", "This is the content of the static text resource.")
        .resource_with(Resource::blob("test://static-binary", "image/png", b"\x89PNG"))
        .resource("test://watched-resource", "watched")
        .template("test://template/{id}/data")
        .prompt_json(
            json!({"name": "test_simple_prompt", "description": "A prompt"}),
            user(text("This is a simple prompt for testing.")),
        )
        .prompt_json(
            json!({"name": "test_prompt_with_arguments", "description": "A prompt", "arguments": arguments}),
            user(text("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")),
        )
        .prompt_json(
            json!({"name": "test_prompt_with_embedded_resource", "description": "A prompt", "arguments": [{"name": "resourceUri", "required": true}]}),
            user(embedded("test://example-resource")),
        )
        .prompt_json(json!({"name": "test_prompt_with_image", "description": "A prompt"}), user(image.clone()))
        .completes(Completion::prompt("test_prompt_with_arguments", "arg1", &["test", "testing"]))
}

/// The server that the scenarios of 2026-07-28 expect.
fn modern_fixture() -> Script {
    let form = |key: &str, name: &str| {
        let schema = json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
        ScriptedRequest::form_elicitation(key, "Please answer", schema)
    };
    let sampling = |key: &str| ScriptedRequest::sampling(key, "Say something", 100);
    let roots = || ScriptedRequest::roots("client_roots");
    let tool = |name: &str| format!("test_input_required_result_{name}");
    let rounds = [[form("step1", "name")], [form("step2", "color")]];
    fixture()
        .tool(Tool::logs("test_logging_tool", [("info", json!("one"))]))
        .tool(Tool::asks("test_streaming_elicitation", [form("user_name", "name")]))
        .tool(Tool::asks(&tool("elicitation"), [form("user_name", "name")]))
        .tool(Tool::asks(&tool("sampling"), [sampling("capital_question")]))
        .tool(Tool::asks(&tool("list_roots"), [roots()]))
        .tool(Tool::asks(&tool("request_state"), [form("confirm", "ok")]))
        .tool(Tool::asks(
            &tool("multiple_inputs"),
            [form("user_name", "name"), sampling("greeting"), roots()],
        ))
        .tool(Tool::asks_in_rounds(&tool("multi_round"), rounds))
        .tool(Tool::asks(&tool("tampered_state"), [form("confirm", "ok")]))
        .tool(Tool::asks(&tool("capabilities"), [sampling("capital_question")]))
        .tool(Tool::asks("test_missing_capability", [sampling("model")]))
        .prompt(&tool("prompt"), "A prompt with context")
        .asks("prompts/get", &tool("prompt"), [form("user_context", "context")])
}

/// Runs the suite of this version, with these options.
async fn run_suite(version: &str, url: String, options: &'static [&'static str]) -> Verdicts {
    let modules = PathBuf::from(required_variable("BOWLINE_NODE_MODULES"));
    let entry = modules.join(format!("conformance-{version}/dist/index.js"));
    let mut command = Command::new(required_variable("BOWLINE_NODE"));
    command
        .arg(entry)
        .args(["server", "--url", &url])
        .args(options)
        .stdin(Stdio::null())
        .env("NO_COLOR", "1");
    let run = tokio::task::spawn_blocking(move || command.output().expect("the suite starts"));
    let output = run.await.expect("no panic");
    let shown = String::from_utf8_lossy(&output.stdout);
    let verdicts: Verdicts = shown.lines().filter_map(verdict).collect();
    assert!(!verdicts.is_empty(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    verdicts
}

/// Reads `✓ ping: 1 passed, 0 failed`.
fn verdict(line: &str) -> Option<(String, (u32, u32))> {
    let (name, counts) = line.trim().strip_prefix(['✓', '✗'])?.trim().split_once(": ")?;
    let mut counts = counts.split(", ").map(|count| count.split(' ').next()?.parse().ok());
    Some((name.to_owned(), (counts.next()??, counts.next()??)))
}

/// `bowline serve` in front of these servers, ended when this is dropped.
struct Gateway {
    child: Child,
    url: String,
}

impl Gateway {
    fn start(home: &Path, servers: &[(&str, &HttpServer)]) -> Self {
        let mut config = String::new();
        for (name, server) in servers {
            writeln!(config, "[servers.{name}]\nurl = '{}'", server.url()).expect("writing to a string");
        }
        let file = home.join("servers.toml");
        std::fs::write(&file, config).expect("a file");
        let mut command = Command::new(BOWLINE);
        command.args(["serve", "--no-token", "--listen", "127.0.0.1:0", "--config"]).arg(file);
        command.env("HOME", home).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("bowline starts");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("a note");
        let url = line.split([' ', ';']).find(|word| word.starts_with("http://")).expect("a URL").to_owned();
        Self { child, url }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_suite_finds_no_difference_behind_the_gateway() {
    let mut others = Vec::new();
    for number in 0..9 {
        others.push((
            format!("other{number}"),
            testkit::server().tool(format!("tool{number}").as_str()).run().await,
        ));
    }
    for version in ["0.1.16", "0.2.0-alpha.12"] {
        let fixture = fixture().run().await;
        let direct = run_suite(version, fixture.url(), &[]).await;
        let (alone, among) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
        let gateway = Gateway::start(alone.path(), &[("fixture", &fixture)]);
        assert_same(version, &direct, &run_suite(version, gateway.url.clone(), &[]).await);
        let all: Vec<_> = others
            .iter()
            .map(|(name, server)| (name.as_str(), server))
            .chain([("fixture", &fixture)])
            .collect();
        let gateway = Gateway::start(among.path(), &all);
        assert_same(version, &direct, &run_suite(version, gateway.url.clone(), &[]).await);
    }
}

/// GW-16: what 2026-07-28 requires, in front of a server of that revision and of one with sessions.
#[tokio::test]
async fn the_scenarios_of_2026_07_28_have_the_same_results_behind_the_gateway() {
    const OPTIONS: &[&str] = &["--requirements", "2026-07-28"];
    let version = "0.2.0-alpha.12";
    let modern = modern_fixture().modern().run().await;
    let direct = run_suite(version, modern.url(), OPTIONS).await;
    let home = TempDir::new().expect("a folder");
    let gateway = Gateway::start(home.path(), &[("fixture", &modern)]);
    assert_same(version, &direct, &run_suite(version, gateway.url.clone(), OPTIONS).await);
    let legacy = modern_fixture().legacy().run().await;
    let home = TempDir::new().expect("a folder");
    let gateway = Gateway::start(home.path(), &[("fixture", &legacy)]);
    let mut through = run_suite(version, gateway.url.clone(), OPTIONS).await;
    for (scenario, extra_failures) in [
        // A request of a server with sessions has no key, and the scenario wants a certain one.
        ("input-required-result-basic-elicitation", 1),
        // Such a server has no error for a capability that the host did not declare.
        ("server-stateless", 2),
    ] {
        through.get_mut(scenario).expect("it was run").1 -= extra_failures;
    }
    assert_same(version, &direct, &through);
}

/// A scenario may pass more behind the gateway, which checks more than the test kit's server does.
fn assert_same(version: &str, direct: &Verdicts, through: &Verdicts) {
    assert_eq!(direct.keys().collect::<Vec<_>>(), through.keys().collect::<Vec<_>>());
    for (scenario, (passed, failed)) in direct {
        println!("{version} {scenario}: direct {passed}/{failed}, through {:?}", through[scenario]);
        assert!(through[scenario].1 <= *failed, "{version}: {scenario} fails behind the gateway");
    }
}
