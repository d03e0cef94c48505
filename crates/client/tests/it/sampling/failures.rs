//! Endpoints that refuse, lie, flood or stay silent, and content that an API cannot express.

use std::time::Duration;

use bowline::config::SamplingApi;
use bowline::host::{Sample as _, SamplingRefusal};
use serde_json::{Value, json};

use super::{
    API_KEY, Endpoint, Reply, completion, conversation, failure_message, minimal_request, provider,
    sample_request, to_value,
};
use crate::support::TEST_TIMEOUT;

async fn failure_for(reply: Reply) -> String {
    let endpoint = Endpoint::new([reply]).await;
    let outcome = provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(minimal_request()).await;
    assert_eq!(endpoint.requests().len(), 1, "asked once");
    failure_message(outcome)
}

/// The server gets the status and nothing else; the log has a short note without any part of the
/// key.
#[tokio::test]
async fn a_refusal_hides_the_endpoints_text() {
    for (status, body, note) in [
        (
            401,
            json!({ "error": { "message": format!("Incorrect key: {API_KEY}."), "type": "auth" } }),
            "Incorrect key: [redacted].",
        ),
        (401, json!({ "error": { "message": "Incorrect key: sk-te****6789" } }), "Incorrect key: [redacted]"),
        (403, json!({ "error": { "message": format!("Bearer {}", &API_KEY[..12]) } }), "Bearer [redacted]"),
        (429, json!({ "error": "slow\ndown, org-4711" }), "slow down, org-4711"),
        (500, json!({ "detail": "broken" }), "broken"),
        (
            529,
            json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } }),
            "Overloaded",
        ),
    ] {
        let (log, _guard) = super::capture_log();
        let why = failure_for(Reply::Json(status, body)).await;
        assert_eq!(why, format!("the model's endpoint answered with HTTP status {status}"));
        let log = log();
        assert!(log.contains("WARN") && log.contains(&format!("note={note:?}")), "{log}");
        assert!(log.contains("server=\"test\"") && !log.contains("6789"), "{log}");
    }
    let page = format!("<html>{API_KEY}</html>");
    for reply in [Reply::Text(502, "text/html", page), Reply::Json(502, json!([1]))] {
        assert_eq!(failure_for(reply).await, "the model's endpoint answered with HTTP status 502");
    }
}

/// The URL may contain an account or a key, so it is not logged.
#[tokio::test]
async fn the_log_has_no_part_of_the_address() {
    let body = json!({ "error": { "message": "acct-4711-x owes 5 EUR; token 9f8e7d6c5b" } });
    let endpoint = Endpoint::new([Reply::Json(402, body)]).await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |settings| {
        settings.base_url.set_path("/acct-4711-x/v1");
        settings.base_url.set_query(Some("token=9f8e7d6c5b"));
    });
    let (log, _guard) = super::capture_log();
    failure_message(provider.sample(minimal_request()).await);
    assert!(log().contains("[redacted] owes 5 EUR; token [redacted]"), "{}", log());
}

#[tokio::test]
async fn an_invalid_response_is_a_failure() {
    for (reply, expected) in [
        (Reply::Json(200, json!({ "choices": [] })), "the answer holds no choice"),
        (Reply::Json(200, json!({ "content": [] })), "the answer is not a chat completion"),
        (Reply::Text(200, "application/json", "{".to_owned()), "the answer is not a chat completion"),
        (Reply::Text(200, "text/html", "<html>".to_owned()), "the model's endpoint did not answer with JSON"),
        (
            Reply::Text(200, "text/event-stream", "data: {}\n\n".to_owned()),
            "the model's endpoint did not answer with JSON",
        ),
    ] {
        assert_eq!(failure_for(reply).await, expected);
    }
    // SA-04: a server that offered no tool cannot be told to run one.
    let call = json!({ "id": "1", "type": "function", "function": { "name": "x", "arguments": "{}" } });
    let called =
        |call: Value| Reply::Json(200, json!({ "choices": [{ "message": { "tool_calls": [call] } }] }));
    assert_eq!(failure_for(called(call)).await, "the model called a tool where it was given none");
    let endpoint =
        Endpoint::new([called(json!({ "function": { "name": "time", "arguments": "[1]" } }))]).await;
    let outcome =
        provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(sample_request(conversation())).await;
    assert_eq!(failure_message(outcome), "the model called a tool with arguments that are no object");
}

/// A reply with thousands of parts is refused before it is processed.
#[tokio::test]
async fn a_response_with_too_many_parts_is_refused() {
    let calls = vec![json!({ "id": "1", "function": { "name": "time" } }); 1000];
    let endpoint =
        Endpoint::new([Reply::Json(200, json!({ "choices": [{ "message": { "tool_calls": calls } }] }))])
            .await;
    let outcome =
        provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(sample_request(conversation())).await;
    assert_eq!(failure_message(outcome), "the model called too many tools");
    let blocks = vec![json!({ "type": "text", "text": "x" }); 1000];
    let endpoint = Endpoint::new([Reply::Json(200, json!({ "content": blocks }))]).await;
    let outcome = provider(SamplingApi::Anthropic, &endpoint, |_| {}).sample(minimal_request()).await;
    assert_eq!(failure_message(outcome), "the answer has too many parts");
}

/// Results are matched by id, so each call gets one.
#[tokio::test]
async fn calls_without_ids_get_some() {
    let call = |id: Value| json!({ "id": id, "function": { "name": "time", "arguments": {} } });
    let calls = json!([call(json!("call_1")), call(Value::Null), call(json!("call_1")), call(json!(""))]);
    let choice = json!({ "message": { "content": null, "tool_calls": calls }, "finish_reason": "stop" });
    let endpoint = Endpoint::new([Reply::Json(200, json!({ "choices": [choice] }))]).await;
    let result = provider(SamplingApi::OpenAi, &endpoint, |_| {})
        .sample(sample_request(conversation()))
        .await
        .unwrap();
    let result = to_value(&result);
    let ids: Vec<_> =
        result["content"].as_array().unwrap().iter().map(|block| block["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["call_1", "call_2", "call_3", "call_4"]);
    assert_eq!(result["stopReason"], "toolUse");
}

/// The key goes only to the configured origin.
#[tokio::test]
async fn redirects_stay_on_the_origin() {
    let elsewhere = Endpoint::new([]).await;
    for status in [302, 307, 308] {
        let why = failure_for(Reply::Redirect(
            status,
            format!("{}/v1/chat/completions?k={API_KEY}", elsewhere.url),
        ))
        .await;
        assert!(!why.contains(API_KEY), "{why}");
    }
    assert!(elsewhere.requests().is_empty());
    let endpoint =
        Endpoint::new([Reply::Redirect(308, "/v2/chat/completions".to_owned()), completion("moved")]).await;
    provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(minimal_request()).await.unwrap();
    let seen = endpoint.requests();
    assert_eq!(seen[1].line, "POST /v2/chat/completions HTTP/1.1");
    assert_eq!(seen[0].body, seen[1].body);
}

/// An endless body and a silent endpoint are given up.
#[tokio::test]
async fn floods_and_silence_are_bounded() {
    let (log, _guard) = super::capture_log();
    assert_eq!(failure_for(Reply::Flood(64 * 1024 * 1024)).await, "no answer of the model's endpoint");
    assert!(log().contains("larger than 16 MiB"), "{}", log());
    let endpoint = Endpoint::new([Reply::Silence]).await;
    let slow =
        provider(SamplingApi::OpenAi, &endpoint, |settings| settings.timeout = Duration::from_millis(200));
    assert_eq!(
        failure_message(slow.sample(minimal_request()).await),
        "the model did not answer within 200ms"
    );
    tokio::time::timeout(TEST_TIMEOUT, endpoint.wait_for_hang_up()).await.expect("the exchange ends");
}

/// CN-04: a canceled request leaves nothing running.
#[tokio::test]
async fn dropping_a_request_ends_the_exchange() {
    let endpoint = Endpoint::new([Reply::Silence, completion("next")]).await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |settings| {
        settings.concurrent = 1;
        settings.tokens_per_hour = Some(60);
    });
    {
        let asked = provider.sample(minimal_request());
        tokio::select! {
            outcome = asked => panic!("{outcome:?}"),
            () = endpoint.wait_for_request() => {}
        }
    }
    tokio::time::timeout(TEST_TIMEOUT, endpoint.wait_for_hang_up()).await.expect("the exchange ends");
    // Its slot is free again, but its tokens stay reserved: its cost is unknown.
    provider.sample(minimal_request()).await.unwrap();
    assert_eq!(endpoint.requests()[1].body["max_tokens"], 10);
}

#[tokio::test]
async fn an_unreachable_endpoint_uses_no_budget() {
    let gone = Endpoint::new([]).await;
    let provider = provider(SamplingApi::OpenAi, &gone, |settings| settings.tokens_per_hour = Some(50));
    drop(gone);
    for _ in 0..2 {
        assert_eq!(
            failure_message(provider.sample(minimal_request()).await),
            "no answer of the model's endpoint"
        );
    }
}

/// Content that an API cannot express is refused, not left out: that would change the conversation.
#[tokio::test]
async fn content_the_api_cannot_express_is_refused() {
    let sound = |media: &str| json!({ "type": "audio", "data": "UklG", "mimeType": media });
    let picture = |media: &str| json!({ "type": "image", "data": "iVBO", "mimeType": media });
    let said = |role: &str, content: Value| {
        sample_request(json!({ "messages": [{ "role": role, "content": content }], "maxTokens": 5 }))
    };
    for (api, role, content, expected) in [
        (
            SamplingApi::OpenAi,
            "user",
            sound("audio/ogg"),
            "sound of type audio/ogg of the user cannot be told to this model",
        ),
        (
            SamplingApi::OpenAi,
            "assistant",
            picture("image/png"),
            "a picture of type image/png of the assistant cannot be told to this model",
        ),
        (
            SamplingApi::OpenAi,
            "user",
            json!({ "type": "hologram" }),
            "content of an unknown type of the user cannot be told to this model",
        ),
        (
            SamplingApi::Anthropic,
            "user",
            sound("audio/wav"),
            "sound of type audio/wav cannot be told to this model",
        ),
        (
            SamplingApi::Anthropic,
            "user",
            picture("image/tiff"),
            "a picture of type image/tiff cannot be told to this model",
        ),
    ] {
        let endpoint = Endpoint::new([]).await;
        let outcome = provider(api, &endpoint, |_| {}).sample(said(role, content)).await;
        assert_eq!(outcome, Err(SamplingRefusal::Failed(expected.to_owned())));
        assert!(endpoint.requests().is_empty());
    }
    let endpoint = Endpoint::new([completion("a beep")]).await;
    provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(said("user", sound("audio/wav"))).await.unwrap();
    let part = json!({ "type": "input_audio", "input_audio": { "data": "UklG", "format": "wav" } });
    assert_eq!(endpoint.only_request().body["messages"][0]["content"], json!([part]));
}
