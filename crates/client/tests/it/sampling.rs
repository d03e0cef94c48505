//! The sampling provider: requests to the endpoint, approval, limits and failures (group SA).

mod approval;
mod endpoint;
mod failures;
mod quirks;
mod schemas;

use std::sync::Arc;

use bowline::config::{Sampling, SamplingApi, SamplingPolicy, Secret};
use bowline::host::{Host, HostFuture, Sample, SampleRequest, SamplingRefusal};
use bowline::sampling::{Approve, Decision, Provider, SamplingPlan};
use bowline::types::{SamplingRequest, SamplingResult};
use bowline::{Client, Handler, Json, Revision};
use bowline_testkit as testkit;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::endpoint::{Endpoint, Reply};
use crate::support::run_everywhere;

const API_KEY: &str = "sk-test-0123456789";

/// Makes a provider that needs no approval.
fn provider(api: SamplingApi, endpoint: &Endpoint, change: impl FnOnce(&mut Sampling)) -> Provider {
    let base = match api {
        SamplingApi::OpenAi => format!("{}/v1", endpoint.url),
        SamplingApi::Anthropic => endpoint.url.clone(),
    };
    let mut settings = Sampling::new(api, base, "small-1").unwrap().with_policy(SamplingPolicy::Allow);
    change(&mut settings);
    Provider::with_key(settings, Some(Secret::new(API_KEY))).unwrap()
}

fn sample_request(params: Value) -> SampleRequest {
    let request = SamplingRequest::decode(&Json::encode(&params).unwrap()).unwrap();
    SampleRequest::new("test", request)
}

/// Makes the smallest valid request.
fn minimal_request() -> SampleRequest {
    sample_request(
        json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "Hi" } }], "maxTokens": 50 }),
    )
}

fn completion(text: &str) -> Reply {
    Reply::Json(
        200,
        json!({
            "model": "small-1-2026",
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 },
        }),
    )
}

fn to_value(result: &SamplingResult) -> Value {
    result.to_json(Revision::V2025_11_25).unwrap().decode().unwrap()
}

/// A conversation with every feature of both APIs.
fn conversation() -> Value {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    json!({
        "messages": [
            { "role": "user", "content": [
                { "type": "text", "text": "What is this?" },
                { "type": "image", "data": "iVBO", "mimeType": "image/png" },
            ] },
            { "role": "assistant", "content": [
                { "type": "text", "text": "Let me look." },
                { "type": "tool_use", "id": "call_a", "name": "weather.now", "input": { "city": "Oslo" } },
                { "type": "tool_use", "id": "call_b", "name": "time", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "toolUseId": "call_a", "content": [{ "type": "text", "text": "rain" }], "_meta": { "k": 1 } },
                { "type": "tool_result", "toolUseId": "call_b", "content": [], "structuredContent": { "h": 9 }, "isError": true },
            ] },
        ],
        "systemPrompt": "Be brief.",
        "maxTokens": 100,
        "temperature": 1.5,
        "stopSequences": ["END", " "],
        "metadata": { "user": "somebody" },
        "modelPreferences": { "hints": [{ "name": "large" }] },
        "tools": [
            { "name": "weather.now", "description": "Weather", "inputSchema": schema },
            { "name": "time", "inputSchema": { "type": "object" } },
        ],
        "toolChoice": { "mode": "required" },
    })
}

/// SA-03, SA-04, SA-06: the exact request, and parallel tool calls as an array.
#[tokio::test]
async fn sa_06_chat_completions() {
    let calls = json!([
        { "id": "call_1", "type": "function", "function": { "name": "weather_now", "arguments": "{\"city\":\"Bergen\"}" } },
        { "id": "call_2", "type": "function", "function": { "name": "time", "arguments": "" } },
    ]);
    let message = json!({ "role": "assistant", "content": "Both.", "tool_calls": calls });
    let endpoint = Endpoint::new([Reply::Json(
        200,
        json!({ "model": "large-2", "choices": [{ "message": message, "finish_reason": "tool_calls" }] }),
    )])
    .await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |settings| {
        settings.models.push("large-2".to_owned());
        settings.headers.push(("X-Team".to_owned(), Secret::new("rope")));
    });
    let result = provider.sample(sample_request(conversation())).await.unwrap();
    let seen = endpoint.only_request();
    assert_eq!(seen.line, "POST /v1/chat/completions HTTP/1.1");
    let header = |name: &str| seen.headers.get(name).map(String::as_str);
    assert_eq!(header("authorization"), Some(&*format!("Bearer {API_KEY}")));
    assert_eq!((header("x-team"), header("x-api-key")), (Some("rope"), None));
    assert_eq!(
        (header("content-type"), header("accept")),
        (Some("application/json"), Some("application/json"))
    );
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    assert_eq!(
        seen.body,
        json!({
            "model": "large-2",
            "stream": false,
            "max_tokens": 100,
            "temperature": 1.5,
            "stop": ["END", " "],
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": [
                    { "type": "text", "text": "What is this?" },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBO" } },
                ] },
                { "role": "assistant", "content": "Let me look.", "tool_calls": [
                    { "id": "call_a", "type": "function", "function": { "name": "weather_now", "arguments": r#"{"city":"Oslo"}"# } },
                    { "id": "call_b", "type": "function", "function": { "name": "time", "arguments": "{}" } },
                ] },
                { "role": "tool", "tool_call_id": "call_a", "content": "rain" },
                { "role": "tool", "tool_call_id": "call_b", "content": r#"The tool failed: {"h":9}"# },
            ],
            "tools": [
                { "type": "function", "function": { "name": "weather_now", "description": "Weather", "parameters": schema } },
                { "type": "function", "function": { "name": "time", "parameters": { "type": "object", "properties": {} } } },
            ],
            "tool_choice": "required",
        })
    );
    assert_eq!(
        to_value(&result),
        json!({
            "role": "assistant",
            "content": [
                { "type": "text", "text": "Both." },
                { "type": "tool_use", "id": "call_1", "name": "weather.now", "input": { "city": "Bergen" } },
                { "type": "tool_use", "id": "call_2", "name": "time", "input": {} },
            ],
            "model": "large-2",
            "stopReason": "toolUse",
        })
    );
}

/// The exact request of the Messages API for the same conversation.
#[tokio::test]
async fn sa_06_messages() {
    let content = json!([
        { "type": "thinking", "thinking": "hm", "signature": "s" },
        { "type": "tool_use", "id": "toolu_1", "name": "weather_now", "input": { "city": "Bergen" } },
        { "type": "tool_use", "id": "toolu_2", "name": "time", "input": {} },
    ]);
    let endpoint = Endpoint::new([Reply::Json(
        200,
        json!({ "model": "small-1", "content": content, "stop_reason": "tool_use", "usage": { "input_tokens": 9, "output_tokens": 4 } }),
    )])
    .await;
    let provider = provider(SamplingApi::Anthropic, &endpoint, |_| {});
    let result = provider.sample(sample_request(conversation())).await.unwrap();
    let seen = endpoint.only_request();
    assert_eq!(seen.line, "POST /v1/messages HTTP/1.1");
    let header = |name: &str| seen.headers.get(name).map(String::as_str);
    assert_eq!((header("x-api-key"), header("authorization")), (Some(API_KEY), None));
    assert_eq!(header("anthropic-version"), Some("2023-06-01"));
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    assert_eq!(
        seen.body,
        json!({
            "model": "small-1",
            "max_tokens": 100,
            "system": "Be brief.",
            "temperature": 1.0,
            "stop_sequences": ["END"],
            "messages": [
                { "role": "user", "content": [
                    { "type": "text", "text": "What is this?" },
                    { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBO" } },
                ] },
                { "role": "assistant", "content": [
                    { "type": "text", "text": "Let me look." },
                    { "type": "tool_use", "id": "call_a", "name": "weather_now", "input": { "city": "Oslo" } },
                    { "type": "tool_use", "id": "call_b", "name": "time", "input": {} },
                ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "call_a", "content": [{ "type": "text", "text": "rain" }] },
                    { "type": "tool_result", "tool_use_id": "call_b", "content": [{ "type": "text", "text": r#"{"h":9}"# }], "is_error": true },
                ] },
            ],
            "tools": [
                { "name": "weather_now", "description": "Weather", "input_schema": schema },
                { "name": "time", "input_schema": { "type": "object", "properties": {} } },
            ],
            "tool_choice": { "type": "any" },
        })
    );
    assert_eq!(
        to_value(&result),
        json!({
            "role": "assistant",
            "content": [
                { "type": "tool_use", "id": "toolu_1", "name": "weather.now", "input": { "city": "Bergen" } },
                { "type": "tool_use", "id": "toolu_2", "name": "time", "input": {} },
            ],
            "model": "small-1",
            "stopReason": "toolUse",
        })
    );
}

/// A conversation with past tool calls but no tools: the Messages API still needs their
/// declarations.
#[tokio::test]
async fn sa_04_tools_of_earlier_turns_are_declared_but_not_callable() {
    let mut params = conversation();
    for member in ["tools", "toolChoice"] {
        params.as_object_mut().unwrap().remove(member);
    }
    let endpoint = Endpoint::new([Reply::Json(200, json!({ "content": [] }))]).await;
    let result =
        provider(SamplingApi::Anthropic, &endpoint, |_| {}).sample(sample_request(params)).await.unwrap();
    let body = endpoint.only_request().body;
    let past = |name: &str| json!({ "name": name, "input_schema": { "type": "object", "properties": {} } });
    assert_eq!(body["tools"], json!([past("time"), past("weather_now")]));
    assert_eq!(body["tool_choice"], json!({ "type": "none" }));
    // The reply is empty, and the protocol requires a block.
    assert_eq!(to_value(&result)["content"], json!({ "type": "text", "text": "" }));
}

/// SA-06: known stop reasons are mapped to the protocol's values, others are passed on.
#[tokio::test]
async fn sa_06_reasons_to_stop() {
    for (said, meant) in [("stop", "endTurn"), ("length", "maxTokens"), ("content_filter", "content_filter")]
    {
        let choice = json!({ "message": { "content": "x" }, "finish_reason": said });
        let endpoint = Endpoint::new([Reply::Json(200, json!({ "choices": [choice] }))]).await;
        let result =
            provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(minimal_request()).await.unwrap();
        assert_eq!(to_value(&result)["stopReason"], meant);
        // The reply names no model, so it is the requested one.
        assert_eq!(to_value(&result)["model"], "small-1");
    }
    let stopped = json!({ "message": { "content": "x" }, "finish_reason": "stop", "stop_reason": "END" });
    let endpoint = Endpoint::new([Reply::Json(200, json!({ "choices": [stopped] }))]).await;
    let result = provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(minimal_request()).await.unwrap();
    assert_eq!(result.stop_reason.as_deref(), Some("stopSequence"));
    // Some endpoints reply in parts, including their reasoning.
    let parts = json!([{ "type": "thinking", "thinking": [] }, { "type": "text", "text": "x" }]);
    let endpoint =
        Endpoint::new([Reply::Json(200, json!({ "choices": [{ "message": { "content": parts } }] }))]).await;
    let result = provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(minimal_request()).await.unwrap();
    assert_eq!(to_value(&result)["content"], json!({ "type": "text", "text": "x" }));
    for (said, meant) in [
        ("end_turn", "endTurn"),
        ("max_tokens", "maxTokens"),
        ("stop_sequence", "stopSequence"),
        ("refusal", "refusal"),
    ] {
        let message = json!({ "content": [{ "type": "text", "text": "x" }], "stop_reason": said });
        let endpoint = Endpoint::new([Reply::Json(200, message)]).await;
        let result =
            provider(SamplingApi::Anthropic, &endpoint, |_| {}).sample(minimal_request()).await.unwrap();
        assert_eq!(result.stop_reason.as_deref(), Some(meant));
    }
}

/// SA-01: the tools capability is declared, and nothing else.
#[tokio::test]
async fn sa_01_tools_are_declared() {
    let endpoint = Endpoint::new([]).await;
    let host = Host::new().sampling(provider(SamplingApi::OpenAi, &endpoint, |_| {}));
    let declared: Value = host.capabilities().decode().unwrap();
    assert_eq!(declared, json!({ "sampling": { "tools": {} } }));
}

/// A server samples, a person approves request and result, the model replies, and the server
/// proceeds: over both transports and in both eras, with one provider.
#[tokio::test]
async fn sa_02_a_server_is_answered_by_a_model() {
    for (name, running, server) in run_everywhere(testkit::server().tool("ask")).await {
        let endpoint = Endpoint::new([completion("Forty-two.")]).await;
        let person = Person::default();
        let provider =
            provider(SamplingApi::OpenAi, &endpoint, |settings| settings.policy = SamplingPolicy::Ask);
        let host = Host::new().sampling(provider.approver(person.clone()));
        let client = Client::builder(server).handler(host).connect().await.unwrap();
        let params = json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "6 x 7?" } }], "maxTokens": 9 });
        let call = json!({ "method": "sampling/createMessage", "params": params });
        let result = client.call_tool("ask", &call).await.unwrap();
        assert!(result.text().contains("Forty-two."), "{name}: {}", result.text());
        assert_eq!(
            endpoint.only_request().body["messages"],
            json!([{ "role": "user", "content": "6 x 7?" }])
        );
        assert_eq!(person.seen(), ["request of test: 6 x 7? -> small-1, 9", "result: Forty-two."], "{name}");
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// SA-06: several tool calls reach the server in both eras.
#[tokio::test]
async fn sa_06_parallel_calls_reach_the_server() {
    for (name, _running, server) in run_everywhere(testkit::server().tool("ask")).await {
        let call = |id: &str| json!({ "id": id, "function": { "name": "weather_now", "arguments": "{}" } });
        let message = json!({ "content": null, "tool_calls": [call("one"), call("two")] });
        let endpoint =
            Endpoint::new([Reply::Json(200, json!({ "choices": [{ "message": message }] }))]).await;
        let host = Host::new().sampling(provider(SamplingApi::OpenAi, &endpoint, |_| {}));
        let client = Client::builder(server).handler(host).connect().await.unwrap();
        let call = json!({ "method": "sampling/createMessage", "params": conversation() });
        let result = client.call_tool("ask", &call).await.unwrap();
        let answer: Value = serde_json::from_str(&result.text()).unwrap();
        let answer = answer.get("result").unwrap_or(&answer);
        let used = |id: &str| json!({ "type": "tool_use", "id": id, "name": "weather.now", "input": {} });
        assert_eq!(answer["content"], json!([used("one"), used("two")]), "{name}: {answer}");
        assert_eq!(
            (&answer["stopReason"], &answer["role"]),
            (&json!("toolUse"), &json!("assistant")),
            "{name}"
        );
        client.close().await;
    }
}

/// SA-07: a refusal is final. A legacy server gets error -1; a modern one gets no retry.
#[tokio::test]
async fn sa_07_a_refusal_in_both_eras() {
    for (name, running, server) in run_everywhere(testkit::server().tool("ask")).await {
        let endpoint = Endpoint::new([]).await;
        let provider =
            provider(SamplingApi::OpenAi, &endpoint, |settings| settings.policy = SamplingPolicy::Ask);
        let person = Person { refuse_request: true, ..Person::default() };
        let host = Host::new().sampling(provider.approver(person.clone()));
        let client = Client::builder(server).handler(host).connect().await.unwrap();
        let params = json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "?" } }], "maxTokens": 9 });
        let call = json!({ "method": "sampling/createMessage", "params": params });
        let outcome = client.call_tool("ask", &call).await;
        if name.starts_with("legacy") {
            assert!(outcome.unwrap().text().contains("-1"), "{name}");
        } else {
            outcome.unwrap_err();
            assert_eq!(running.count("tools/call"), 1, "{name}: no retry");
        }
        assert_eq!(person.seen().len(), 1, "{name}");
        assert!(endpoint.requests().is_empty(), "{name}");
        client.close().await;
    }
}

/// A person who records what is shown and decides as configured.
#[derive(Clone, Default)]
struct Person {
    seen: Arc<Mutex<Vec<String>>>,
    refuse_request: bool,
    refuse_result: bool,
    new_request: Option<SamplingRequest>,
    new_result: Option<SamplingResult>,
}

impl Person {
    fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }

    fn write(&self, line: String) {
        self.seen.lock().push(line);
    }
}

impl Approve for Person {
    fn request<'a>(
        &'a self,
        request: &'a SampleRequest,
        plan: &'a SamplingPlan,
    ) -> HostFuture<'a, Decision<SamplingRequest>> {
        let said = request.request.messages[0].content[0].as_text().unwrap_or_default();
        self.write(format!("request of {}: {said} -> {}, {}", request.server, plan.model, plan.max_tokens));
        let verdict = match &self.new_request {
            _ if self.refuse_request => Decision::Refuse,
            Some(request) => Decision::Replace(Box::new(request.clone())),
            None => Decision::Accept,
        };
        Box::pin(async move { verdict })
    }

    fn result<'a>(
        &'a self,
        _: &'a SampleRequest,
        result: &'a SamplingResult,
    ) -> HostFuture<'a, Decision<SamplingResult>> {
        self.write(format!("result: {}", result.content[0].as_text().unwrap_or_default()));
        let verdict = match &self.new_result {
            _ if self.refuse_result => Decision::Refuse,
            Some(result) => Decision::Replace(Box::new(result.clone())),
            None => Decision::Accept,
        };
        Box::pin(async move { verdict })
    }
}

/// Captures the log of this thread from here on.
fn capture_log() -> (impl Fn() -> String, tracing::subscriber::DefaultGuard) {
    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = LogBuffer::default();
    let sink = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || sink.clone()).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    (move || String::from_utf8(lines.0.lock().clone()).unwrap(), guard)
}

fn failure_message(outcome: Result<SamplingResult, SamplingRefusal>) -> String {
    match outcome {
        Err(SamplingRefusal::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}
