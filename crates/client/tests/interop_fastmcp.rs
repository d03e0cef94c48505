//! Interop with a server made with FastMCP, the Python framework, over stdio and over Streamable HTTP. It
//! speaks both eras.

#[path = "support_interop/peer.rs"]
mod peer;
#[path = "support_interop/person.rs"]
mod person;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline::config::Protocol;
use bowline::view::{Body, CallToolResult, Content, Level, LogMessage};
use bowline::wire::code;
use bowline::{CallOptions, Client, Era, Event, Revision, Server};
use peer::{HttpPeer, required, within};
use person::Person;
use serde_json::{Value, json};
use tokio::process::Command;

/// How to reach one instance of the server; over HTTP it runs as long as this lives.
struct Ropes {
    server: Server,
    _http: Option<HttpPeer>,
}

impl Ropes {
    fn stdio() -> Self {
        let server = Server::stdio("ropes", required("BOWLINE_FASTMCP_PYTHON"), [SCRIPT, "stdio"]);
        Self { server, _http: None }
    }

    async fn http() -> Self {
        let python = required("BOWLINE_FASTMCP_PYTHON");
        let peer = HttpPeer::start(|port| {
            let mut command = Command::new(&python);
            command.args([SCRIPT, "http", &port.to_string()]);
            command
        })
        .await;
        Self { server: Server::http("ropes", peer.url()).expect("a loopback URL"), _http: Some(peer) }
    }

    /// In each era in turn: starting Python takes longer than all checks together.
    fn in_both_eras(&self) -> [Server; 2] {
        [Protocol::Modern, Protocol::Legacy].map(|era| self.server.clone().with_protocol(era))
    }
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/fastmcp_server.py");

/// Runs each check over each transport.
macro_rules! over_both {
    ($($check:ident),* $(,)?) => {
        mod stdio {
            $(#[tokio::test]
            async fn $check() {
                super::within(stringify!($check), super::$check(super::Ropes::stdio())).await;
            })*
        }

        mod http {
            $(#[tokio::test]
            async fn $check() {
                let ropes = super::Ropes::http().await;
                super::within(stringify!($check), super::$check(ropes)).await;
            })*
        }
    };
}

over_both!(
    the_server_introduces_itself,
    lists_are_complete,
    tools_are_called,
    progress_arrives_in_order,
    a_dropped_call_is_cancelled,
    a_form_is_filled_in,
    log_messages_are_events,
    resources_and_prompts_are_read,
);

async fn the_server_introduces_itself(ropes: Ropes) {
    // DE-01, DE-11: left to itself, the newest is found.
    let client = connect(ropes.server.clone()).await;
    assert_eq!(client.server().await.unwrap().revision, Revision::V2026_07_28);
    client.close().await;

    for (server, revision) in
        ropes.in_both_eras().into_iter().zip([Revision::V2026_07_28, Revision::V2025_11_25])
    {
        let client = connect(server).await;
        let peer = client.server().await.unwrap();
        assert_eq!(peer.revision, revision);
        let info = peer.server.as_ref().unwrap();
        assert_eq!((&*info.name, &*info.version), ("ropes", "3.2.1"));
        assert_eq!(peer.instructions.as_deref(), Some("Coil them."));
        client.ping().await.unwrap();
        client.close().await;
    }
}

/// PA-01, PA-02: two elements to a page.
async fn lists_are_complete(ropes: Ropes) {
    for server in ropes.in_both_eras() {
        let client = connect(server).await;
        let tools = client.list_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(
            names,
            [
                "cut",
                "double",
                "fail",
                "pictures",
                "count",
                "say",
                "greet",
                "hang",
                "how_hung",
                "process_id"
            ]
        );
        assert!(tools[0].is_read_only());
        let output: Value = tools[0].output_schema.as_ref().unwrap().decode().unwrap();
        assert_eq!(output["required"], json!(["name", "metres"]));

        let resources = client.list_resources().await.unwrap();
        let uris: Vec<&str> = resources.iter().map(|resource| &*resource.uri).collect();
        assert_eq!(uris, ["rope://manila", "rope://picture"]);
        let templates = client.list_resource_templates().await.unwrap();
        assert_eq!(&*templates[0].uri_template, "rope://length/{metres}");
        let prompts = client.list_prompts().await.unwrap();
        let required: Vec<bool> = prompts[0].arguments().iter().map(|argument| argument.required).collect();
        assert_eq!(required, [true, false]);
        client.close().await;
    }
}

/// TL-04, TL-05, TL-07
async fn tools_are_called(ropes: Ropes) {
    for server in ropes.in_both_eras() {
        let client = connect(server).await;
        let structured = |result: &CallToolResult| -> Value {
            result.structured.as_ref().expect("structured content").decode().unwrap()
        };
        let rope = client.call_tool("cut", &json!({ "name": "manila", "metres": 2.5 })).await.unwrap();
        assert_eq!(structured(&rope), json!({ "name": "manila", "metres": 2.5 }));
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
        client.close().await;
    }
}

/// PR-01, PR-02
async fn progress_arrives_in_order(ropes: Ropes) {
    for server in ropes.in_both_eras() {
        let client = connect(server).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let options = CallOptions::new().on_progress({
            let seen = Arc::clone(&seen);
            move |progress| seen.lock().unwrap().push((progress.progress, progress.message))
        });
        let result = client.call_tool_with("count", &json!({ "to": 50 }), &options).await.unwrap();
        assert_eq!(result.text(), "counted");
        let expected: Vec<_> =
            (1..=50).map(|step| (f64::from(step), Some(format!("step {step}").into_boxed_str()))).collect();
        assert_eq!(*seen.lock().unwrap(), expected);
        client.close().await;
    }
}

/// CN-01 on legacy connections and on stdio, HM-12 on modern HTTP: the tool itself is interrupted.
async fn a_dropped_call_is_cancelled(ropes: Ropes) {
    for server in ropes.in_both_eras() {
        let client = connect(server).await;
        let how_hung = async || client.call_tool("how_hung", &Value::Null).await.unwrap().text();
        let before = how_hung().await;
        let (began, cancelled) = counts(&before);
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("hang", &Value::Null).await }
        });
        let until = async |expected: (u32, u32)| {
            let mut seen = String::new();
            for _ in 0..500 {
                seen = how_hung().await;
                if counts(&seen) == expected {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("{seen}, not {expected:?}");
        };
        until((began + 1, cancelled)).await;
        call.abort();
        until((began + 1, cancelled + 1)).await;
        client.close().await;
    }
}

/// Over HTTP both eras meet the same process, so the counts do not start at nothing.
fn counts(text: &str) -> (u32, u32) {
    let numbers: Vec<u32> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1])
}

/// HL-06 in the legacy era; MR-02, MR-03, MR-04 in the modern one, with a state that the server has sealed.
async fn a_form_is_filled_in(ropes: Ropes) {
    for server in ropes.in_both_eras() {
        let person = Person::filling_in(&json!({ "value": "Ann" }));
        let client = Client::builder(server.clone()).handler(person.clone()).connect().await.unwrap();
        let greeting = client.call_tool("greet", &Value::Null).await.unwrap();
        assert_eq!(greeting.text(), "hello Ann");
        let asked = person.asked();
        let [(method, params)] = &*asked else { panic!("{asked:?}") };
        assert_eq!((&**method, &params["message"]), ("elicitation/create", &json!("Who are you?")));
        client.close().await;

        // EL-08
        let person = Person::new(json!({ "elicitation": {} }), json!({ "action": "decline" }));
        let client = Client::builder(server).handler(person).connect().await.unwrap();
        let greeting = client.call_tool("greet", &Value::Null).await.unwrap();
        assert_eq!(greeting.text(), "hello stranger");
        client.close().await;
    }
}

/// LG-02, LG-03
async fn log_messages_are_events(ropes: Ropes) {
    for server in ropes.in_both_eras() {
        let client = connect(server).await;
        let mut events = client.events();
        let mut params = json!({ "name": "say", "arguments": { "what": "heave" } });
        if client.server().await.unwrap().era() == Era::Modern {
            // A modern server is silent until it is asked, request by request.
            params["_meta"] = json!({ "io.modelcontextprotocol/logLevel": "info" });
        }
        let result = client.request("tools/call", &params).await.unwrap();
        assert_eq!(CallToolResult::decode(&result).unwrap().text(), "said");
        let Event::Log(log) = events.recv().await.unwrap() else { panic!("it said something else") };
        let log = LogMessage::decode(&log).unwrap();
        assert_eq!((log.level, log.logger.as_deref()), (Level::Info, Some("ropes")));
        assert!(log.data.as_str().contains("heave"), "{:?}", log.data);
        client.close().await;
    }
}

/// RS-01, RS-02, RS-05, PM-01
async fn resources_and_prompts_are_read(ropes: Ropes) {
    for server in ropes.in_both_eras() {
        let client = connect(server).await;
        for (uri, expected) in
            [("rope://manila", "abaca fibre"), ("rope://picture", "AAEC"), ("rope://length/7", "7 m of rope")]
        {
            let resource = client.read_resource(uri).await.unwrap();
            let (Body::Text(body) | Body::Blob(body)) = &resource.contents[0].body;
            assert_eq!(body.get(), expected);
            assert_eq!(matches!(resource.contents[0].body, Body::Blob(_)), uri == "rope://picture");
        }
        let error = client.read_resource("rope://none").await.unwrap_err();
        let error = error.server_error().unwrap();
        assert!([-32002, code::INVALID_PARAMS].contains(&error.code), "{error:?}");

        // PM-01: even a number travels as text.
        let arguments = BTreeMap::from([("rope", "hemp"), ("strands", "4")].map(|(name, value)| {
            (name.to_owned(), value.to_owned())
        }));
        let prompt = client.get_prompt("splice", &arguments).await.unwrap();
        let Content::Text(text) = &prompt.messages[0].content else { panic!("{prompt:?}") };
        assert_eq!(text.text.get(), "Splice hemp, 4 strands");
        client.close().await;
    }
}

/// ST-04
#[cfg(unix)]
#[tokio::test]
async fn closing_leaves_no_process() {
    use nix::sys::signal::kill;
    within("close", async {
        let client = connect(Ropes::stdio().server).await;
        let pid = client.call_tool("process_id", &Value::Null).await.unwrap().text();
        let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
        assert_eq!(kill(pid, None), Ok(()));
        client.close().await;
        assert_eq!(kill(pid, None), Err(nix::errno::Errno::ESRCH));
    })
    .await;
}

async fn connect(server: Server) -> Client {
    Client::connect(server).await.expect("the server can be connected to")
}
