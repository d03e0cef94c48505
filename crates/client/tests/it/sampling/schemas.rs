//! Tool schemas are rewritten for the APIs, and the model's calls are mapped back to the server's
//! names.

use bowline::config::SamplingApi;
use bowline::host::{Sample as _, SampleRequest};
use serde_json::{Value, json};

use super::{Endpoint, Reply, failure_message, provider, sample_request, to_value};

/// Makes a request with one tool, `find`, that was called once.
fn request(schema: &Value, input: &Value) -> SampleRequest {
    sample_request(json!({
        "messages": [
            { "role": "user", "content": { "type": "text", "text": "Find it." } },
            { "role": "assistant", "content": { "type": "tool_use", "id": "c1", "name": "find", "input": input } },
            { "role": "user", "content": { "type": "tool_result", "toolUseId": "c1", "content": [] } },
        ],
        "maxTokens": 9,
        "tools": [{ "name": "find", "inputSchema": schema }],
    }))
}

/// Returns the request body, and the tool input that comes back when the model calls `find` with
/// `input`.
async fn run_find_tool(
    api: SamplingApi,
    request: SampleRequest,
    input: impl FnOnce(&Value) -> Value,
) -> (Value, Value) {
    // The reply depends on the request, so send the request once before.
    let empty = match api {
        SamplingApi::OpenAi => json!({ "choices": [{ "message": { "content": "" } }] }),
        SamplingApi::Anthropic => json!({ "content": [] }),
    };
    let endpoint = Endpoint::new([Reply::Json(200, empty)]).await;
    provider(api, &endpoint, |_| {}).sample(request.clone()).await.unwrap();
    let body = endpoint.only_request().body;
    let input = input(&body);
    let call = match api {
        SamplingApi::OpenAi => {
            let call = json!({ "id": "c2", "function": { "name": "find", "arguments": input.to_string() } });
            json!({ "choices": [{ "message": { "tool_calls": [call] } }] })
        }
        SamplingApi::Anthropic => {
            json!({ "content": [{ "type": "tool_use", "id": "c2", "name": "find", "input": input }] })
        }
    };
    let endpoint = Endpoint::new([Reply::Json(200, call)]).await;
    let result = provider(api, &endpoint, |_| {}).sample(request).await.unwrap();
    (body, to_value(&result)["content"]["input"].clone())
}

fn schema_of(api: SamplingApi, body: &Value) -> Value {
    match api {
        SamplingApi::OpenAi => body["tools"][0]["function"]["parameters"].clone(),
        SamplingApi::Anthropic => body["tools"][0]["input_schema"].clone(),
    }
}

/// No composition at the root, always `properties`, and no pattern with look-around.
#[tokio::test]
async fn schemas_are_rewritten_for_the_apis() {
    for api in SamplingApi::ALL {
        for schema in [
            json!({ "type": "object" }),
            json!({}),
            json!({ "type": "object", "oneOf": [
                { "properties": { "id": { "type": "integer" } }, "required": ["id"] },
                { "properties": { "name": { "type": "string", "pattern": "^(?!x).*$" } }, "required": ["name"] },
            ] }),
        ] {
            let input = json!({ "id": 1 });
            let (body, called) = run_find_tool(api, request(&schema, &input), |_| input.clone()).await;
            let told = schema_of(api, &body);
            assert_eq!(told["type"], "object", "{api}: {told}");
            assert!(told["properties"].is_object(), "{api}: {told}");
            for keyword in ["oneOf", "anyOf", "allOf"] {
                assert_eq!(told[keyword], Value::Null, "{api}: {told}");
            }
            assert!(!told.to_string().contains("(?!"), "{api}: {told}");
            assert_eq!(called, input, "{api}");
        }
    }
}

/// Member names that an API rejects are replaced, in both directions.
#[tokio::test]
async fn renamed_members_are_restored() {
    let schema = json!({ "type": "object", "properties": { "größe in cm": { "type": "integer" } } });
    let (body, called) =
        run_find_tool(SamplingApi::Anthropic, request(&schema, &json!({ "größe in cm": 5 })), |body| {
            let told = schema_of(SamplingApi::Anthropic, body);
            let name = told["properties"].as_object().unwrap().keys().next().unwrap().clone();
            assert!(
                name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)),
                "{name}"
            );
            // Earlier calls in the conversation use the replaced names as well.
            assert_eq!(body["messages"][1]["content"][0]["input"], json!({ (name.clone()): 5 }));
            json!({ name: 7 })
        })
        .await;
    assert_eq!(called, json!({ "größe in cm": 7 }), "{body}");
}

/// An invalid argument schema is refused with the tool's name, before anybody is asked.
#[tokio::test]
async fn a_schema_that_cannot_be_rewritten_is_refused() {
    for api in SamplingApi::ALL {
        let endpoint = Endpoint::new([]).await;
        let request = request(&json!({ "type": "string" }), &json!({}));
        let why = failure_message(provider(api, &endpoint, |_| {}).sample(request).await);
        assert!(why.starts_with("the tool find cannot be told to this model: "), "{why}");
        assert!(endpoint.requests().is_empty());
    }
}

/// This API refuses blank texts, so they are not sent.
#[tokio::test]
async fn blank_texts_are_not_sent() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let params = json!({
        "messages": [
            { "role": "user", "content": [text(" \n"), text("Hi")] },
            { "role": "assistant", "content": text("\t") },
            { "role": "assistant", "content": { "type": "tool_use", "id": "c1", "name": "find", "input": {} } },
            { "role": "user", "content": { "type": "tool_result", "toolUseId": "c1", "content": [text(" ")] } },
        ],
        "systemPrompt": "  ",
        "maxTokens": 9,
    });
    let endpoint = Endpoint::new([Reply::Json(200, json!({ "content": [] }))]).await;
    provider(SamplingApi::Anthropic, &endpoint, |_| {}).sample(sample_request(params)).await.unwrap();
    let body = endpoint.only_request().body;
    assert_eq!(body["system"], Value::Null);
    assert_eq!(
        body["messages"],
        json!([
            { "role": "user", "content": [text("Hi")] },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "c1", "name": "find", "input": {} }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c1", "content": [] }] },
        ])
    );
}
