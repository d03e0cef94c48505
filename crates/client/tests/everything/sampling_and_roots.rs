//! Sampling and roots: the requests of the server for its own ends.

use bowline::config::{Sampling, SamplingApi, SamplingPolicy, Secret};
use bowline::host::{Host, Root, Roots, SamplingRefusal};
use bowline::sampling::Provider;
use bowline::types::{LogLevel, Role};
use bowline::{Event, Topic};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use crate::scripted_host::ScriptedModel;
use crate::{Everything, within};

const TOOL: &str = "trigger-sampling-request";

/// Returns the part of a result in which the server quotes our response.
fn quoted_reply(text: &str) -> Value {
    let (_, json) = text.split_once("LLM sampling result: \n").expect("a quoted answer");
    serde_json::from_str(json).expect("JSON is quoted")
}

/// SA-01, SA-06, SA-07
#[tokio::test]
async fn a_tool_samples_a_model() {
    within("sampling", async {
        for everything in Everything::start_both().await {
            let model = ScriptedModel::new(Ok("A bowline."));
            let client = everything.connect_as(Host::new().sampling(model.clone())).await;
            let arguments = json!({ "prompt": "Which knot?", "maxTokens": 17 });
            let result = client.call_tool(TOOL, &arguments).await.unwrap();
            assert_eq!(
                quoted_reply(&result.text()),
                json!({
                    "model": "knot-1",
                    "stopReason": "endTurn",
                    "role": "assistant",
                    "content": { "type": "text", "text": "A bowline." },
                })
            );
            let asked = model.requests();
            let [asked] = &*asked else { panic!("{asked:?}") };
            assert_eq!(&*asked.server, "everything");
            assert_eq!(asked.request.max_tokens, 17);
            assert_eq!(asked.request.temperature, Some(0.7));
            assert_eq!(asked.request.system_prompt.as_deref(), Some("You are a helpful test server."));
            let [message] = &*asked.request.messages else { panic!("{asked:?}") };
            assert_eq!(message.role, Role::User);
            assert!(message.json.as_str().contains("context: Which knot?"), "{message:?}");
            client.close().await;

            // SA-07: after a refusal the server reports an error, and the tool fails.
            let client = everything
                .connect_as(Host::new().sampling(ScriptedModel::new(Err(SamplingRefusal::Declined))))
                .await;
            let refused = client.call_tool(TOOL, &arguments).await.unwrap();
            assert!(refused.is_error);
            assert!(refused.text().contains("MCP error -1: User rejected"), "{}", refused.text());
            client.close().await;

            // SA-01: a host without a model is not offered the tool.
            let client = everything.connect().await;
            assert!(client.list_tools().await.unwrap().iter().all(|tool| &*tool.name != TOOL));
            client.close().await;
        }
    })
    .await;
}

/// SA-03, SA-06: sampling from the tool through a model endpoint over HTTP and back.
#[tokio::test]
async fn a_model_behind_an_endpoint_answers_a_tool() {
    within("sampling", async {
        for everything in Everything::start_both().await {
            let (url, request) = start_endpoint().await;
            let settings = Sampling::new(SamplingApi::OpenAi, format!("{url}/v1"), "small-1").unwrap();
            let settings = settings.with_policy(SamplingPolicy::Allow);
            let provider = Provider::with_key(settings, Some(Secret::new("sk-0123"))).unwrap();
            let client = everything.connect_as(Host::new().sampling(provider)).await;
            let arguments = json!({ "prompt": "Which knot?", "maxTokens": 17 });
            let result = client.call_tool(TOOL, &arguments).await.unwrap();
            assert_eq!(
                quoted_reply(&result.text()),
                json!({
                    "model": "small-1-2026",
                    "stopReason": "endTurn",
                    "role": "assistant",
                    "content": { "type": "text", "text": "A sheet bend." },
                })
            );
            let request = request.await.unwrap();
            assert_eq!(request["model"], "small-1");
            assert_eq!(request["max_tokens"], 17);
            assert_eq!(request["temperature"], 0.7);
            assert_eq!(request["messages"][0]["content"], "You are a helpful test server.");
            let asked = request["messages"][1]["content"].to_string();
            assert!(asked.contains("context: Which knot?"), "{asked}");
            client.close().await;
        }
    })
    .await;
}

/// Starts a model endpoint that answers one request over HTTP. Returns its URL and that request.
async fn start_endpoint() -> (String, tokio::task::JoinHandle<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let request = tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            match line.trim_end().to_ascii_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                _ if line == "\r\n" => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let message = json!({ "role": "assistant", "content": "A sheet bend." });
        let choices = json!([{ "index": 0, "message": message, "finish_reason": "stop" }]);
        let answer = json!({ "model": "small-1-2026", "choices": choices }).to_string();
        let head = format!("Content-Type: application/json\r\nContent-Length: {}", answer.len());
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{answer}").as_bytes()).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    });
    (url, request)
}

/// RT-01, RT-02, RT-03: after `roots/list_changed` the server requests the roots again by itself.
#[tokio::test]
async fn roots_are_asked_for_again_when_they_change() {
    within("roots", async {
        for everything in Everything::start_both().await {
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let [first, second] = folders.each_ref().map(|folder| Root::folder(folder.path()).unwrap());
            let roots = Roots::new([first.clone().with_name("first")]);
            let client = everything.connect_as(Host::new().roots(roots.clone())).await;
            client.set_log_level(LogLevel::Info).await.unwrap();
            let mut events = client.events();

            let listed = client.call_tool("get-roots-list", &Value::Null).await.unwrap().text();
            assert!(listed.contains(&format!("1. first\n   URI: {}", first.uri())), "{listed}");
            assert!(listed.contains("(1 total)"), "{listed}");

            roots.set([first.clone(), second.clone()]);
            // The server logs a line once it has requested them.
            loop {
                let Event::Notification(said) = events.next().await.unwrap() else { continue };
                if let Topic::Log(log) = said.topic()
                    && log.as_str().contains("Roots updated: 2 root(s)")
                {
                    break;
                }
            }
            let listed = client.call_tool("get-roots-list", &Value::Null).await.unwrap().text();
            let expected = format!("2. {}\n   URI: {}", second.name().unwrap(), second.uri());
            assert!(listed.contains(&expected), "{listed}");
            client.close().await;
        }
    })
    .await;
}
