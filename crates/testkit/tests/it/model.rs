//! The scripted model endpoint, in each of its interfaces.

use bowline_testkit::{ScriptedModel, ToolOutcome};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Posts a request and returns the status line, and the data of every event or the message.
async fn post(model: &ScriptedModel, path: &str, body: Value) -> (String, Vec<Value>) {
    let address = model.origin().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.expect("it listens");
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.lines().next().expect("a status").to_owned();
    let data = body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    (status, data.filter_map(|line| serde_json::from_str(line).ok()).collect())
}

#[tokio::test]
async fn messages_are_a_call_and_its_result_in_turn() {
    let model = ScriptedModel::start().await;
    let host = async {
        let tools = json!([{"name": "mcp__knots__echo"}]);
        let first = json!({"stream": true, "tools": tools, "messages": []});
        let (_, events) = post(&model, "/v1/messages?beta=true", first.clone()).await;
        assert_eq!(events[1]["content_block"]["name"], "mcp__knots__echo");
        assert_eq!(events[2]["delta"]["partial_json"], r#"{"a":1}"#);
        // A request that is sent again gets the same call.
        assert_eq!(post(&model, "/v1/messages", first).await.1, events);
        let id = &events[1]["content_block"]["id"];
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": "x", "is_error": true});
        let second =
            json!({"stream": true, "tools": tools, "messages": [{"role": "user", "content": [result]}]});
        let (_, events) = post(&model, "/v1/messages", second).await;
        assert_eq!(events[4]["delta"]["stop_reason"], "end_turn");
    };
    let test = async {
        assert_eq!(model.call("echo", &json!({"a": 1})).await, ToolOutcome::Error("x".into()));
        let offered = ToolOutcome::NotOffered(vec!["mcp__knots__echo".into()]);
        assert_eq!(model.call("missing", &json!({})).await, offered);
        model.finish();
    };
    tokio::join!(host, test);
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn chat_completions_are_a_call_and_its_result_in_turn() {
    let model = ScriptedModel::start().await;
    let host = async {
        let tools = json!([{"type": "function", "function": {"name": "echo"}}]);
        let (_, chunks) =
            post(&model, "/v1/chat/completions", json!({"stream": true, "tools": tools, "messages": []}))
                .await;
        let call = &chunks[0]["choices"][0]["delta"]["tool_calls"][0];
        assert_eq!(call["function"], json!({"name": "echo", "arguments": "{}"}));
        assert_eq!(chunks[1]["choices"][0]["finish_reason"], "tool_calls");
        let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "x"});
        let (_, messages) =
            post(&model, "/v1/chat/completions", json!({"tools": tools, "messages": [result]})).await;
        assert_eq!(messages[0]["choices"][0]["message"]["content"], "done");
    };
    let test = async {
        assert_eq!(model.call("echo", &json!({})).await, ToolOutcome::Result("x".into()));
        model.finish();
    };
    tokio::join!(host, test);
}

#[tokio::test]
async fn responses_are_a_call_and_its_result_in_turn() {
    let model = ScriptedModel::start().await;
    let host = async {
        let tools = json!([{"type": "namespace", "name": "knots", "tools": [{"name": "echo"}]}]);
        let (_, events) =
            post(&model, "/v1/responses", json!({"stream": true, "tools": tools, "input": []})).await;
        let call = &events[1]["item"];
        assert_eq!((&call["namespace"], &call["name"]), (&json!("knots"), &json!("echo")));
        let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "x"});
        let (_, messages) = post(&model, "/v1/responses", json!({"tools": tools, "input": [result]})).await;
        assert_eq!(messages[0]["output"][0]["content"][0]["text"], "done");
    };
    let test = async {
        assert_eq!(model.call("echo", &json!({})).await, ToolOutcome::Result("x".into()));
        model.finish();
    };
    tokio::join!(host, test);
}

/// A request without tools does not wait for the test, and an unknown path is refused.
#[tokio::test]
async fn other_requests_are_answered_at_once() {
    let model = ScriptedModel::start().await;
    let (status, messages) = post(&model, "/v1/messages", json!({"messages": []})).await;
    assert_eq!((&*status, &messages[0]["content"][0]["text"]), ("HTTP/1.1 200 OK", &json!("knots")));
    let (status, _) = post(&model, "/v1/nothing", json!({})).await;
    assert_eq!(status, "HTTP/1.1 404 Not Found");
}
