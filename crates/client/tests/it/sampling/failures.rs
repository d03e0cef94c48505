//! Endpoints that refuse, lie, flood or stay silent, and content that an API cannot express.

use std::time::Duration;

use bowline::config::SamplingApi;
use bowline::host::{Sample as _, SamplingRefusal};
use serde_json::{Value, json};

use super::{Endpoint, KEY, Reply, asked, completion, conversation, failed, hello, provider, shown};
use crate::support::SOON;

async fn one(reply: Reply) -> String {
    let endpoint = Endpoint::new([reply]).await;
    let outcome = provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(hello()).await;
    assert_eq!(endpoint.seen().len(), 1, "asked once");
    failed(outcome)
}

/// The server gets the status and nothing else; the log has a short note without any part of the
/// key.
#[tokio::test]
async fn a_refusal_is_told_without_the_endpoints_words() {
    for (status, body, note) in [
        (
            401,
            json!({ "error": { "message": format!("Incorrect key: {KEY}."), "type": "auth" } }),
            "Incorrect key: [redacted].",
        ),
        (401, json!({ "error": { "message": "Incorrect key: sk-te****6789" } }), "Incorrect key: [redacted]"),
        (403, json!({ "error": { "message": format!("Bearer {}", &KEY[..12]) } }), "Bearer [redacted]"),
        (429, json!({ "error": "slow\ndown, org-4711" }), "slow down, org-4711"),
        (500, json!({ "detail": "broken" }), "broken"),
        (
            529,
            json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } }),
            "Overloaded",
        ),
    ] {
        let (log, _guard) = super::log();
        let why = one(Reply::Json(status, body)).await;
        assert_eq!(why, format!("the model's endpoint answered with HTTP status {status}"));
        let log = log();
        assert!(log.contains("WARN") && log.contains(&format!("note={note:?}")), "{log}");
        assert!(log.contains("server=\"test\"") && !log.contains("6789"), "{log}");
    }
    let page = format!("<html>{KEY}</html>");
    for reply in [Reply::Text(502, "text/html", page), Reply::Json(502, json!([1]))] {
        assert_eq!(one(reply).await, "the model's endpoint answered with HTTP status 502");
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
    let (log, _guard) = super::log();
    failed(provider.sample(hello()).await);
    assert!(log().contains("[redacted] owes 5 EUR; token [redacted]"), "{}", log());
}

#[tokio::test]
async fn an_answer_that_is_none_is_a_failure() {
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
        assert_eq!(one(reply).await, expected);
    }
    // SA-04: a server that offered no tool cannot be told to run one.
    let call = json!({ "id": "1", "type": "function", "function": { "name": "x", "arguments": "{}" } });
    let called =
        |call: Value| Reply::Json(200, json!({ "choices": [{ "message": { "tool_calls": [call] } }] }));
    assert_eq!(one(called(call)).await, "the model called a tool where it was given none");
    let endpoint =
        Endpoint::new([called(json!({ "function": { "name": "time", "arguments": "[1]" } }))]).await;
    let outcome = provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(asked(conversation())).await;
    assert_eq!(failed(outcome), "the model called a tool with arguments that are no object");
}

/// A reply with thousands of parts is refused before it is processed.
#[tokio::test]
async fn an_answer_of_too_many_parts_is_none() {
    let calls = vec![json!({ "id": "1", "function": { "name": "time" } }); 1000];
    let endpoint =
        Endpoint::new([Reply::Json(200, json!({ "choices": [{ "message": { "tool_calls": calls } }] }))])
            .await;
    let outcome = provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(asked(conversation())).await;
    assert_eq!(failed(outcome), "the model called too many tools");
    let blocks = vec![json!({ "type": "text", "text": "x" }); 1000];
    let endpoint = Endpoint::new([Reply::Json(200, json!({ "content": blocks }))]).await;
    let outcome = provider(SamplingApi::Anthropic, &endpoint, |_| {}).sample(hello()).await;
    assert_eq!(failed(outcome), "the answer has too many parts");
}

/// Results are matched by id, so each call gets one.
#[tokio::test]
async fn calls_without_ids_get_some() {
    let call = |id: Value| json!({ "id": id, "function": { "name": "time", "arguments": {} } });
    let calls = json!([call(json!("call_1")), call(Value::Null), call(json!("call_1")), call(json!(""))]);
    let choice = json!({ "message": { "content": null, "tool_calls": calls }, "finish_reason": "stop" });
    let endpoint = Endpoint::new([Reply::Json(200, json!({ "choices": [choice] }))]).await;
    let result =
        provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(asked(conversation())).await.unwrap();
    let result = shown(&result);
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
        let why =
            one(Reply::Redirect(status, format!("{}/v1/chat/completions?k={KEY}", elsewhere.url))).await;
        assert!(!why.contains(KEY), "{why}");
    }
    assert!(elsewhere.seen().is_empty());
    let endpoint =
        Endpoint::new([Reply::Redirect(308, "/v2/chat/completions".to_owned()), completion("moved")]).await;
    provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(hello()).await.unwrap();
    let seen = endpoint.seen();
    assert_eq!(seen[1].line, "POST /v2/chat/completions HTTP/1.1");
    assert_eq!(seen[0].body, seen[1].body);
}

/// An endless body and a silent endpoint are given up.
#[tokio::test]
async fn floods_and_silence_are_bounded() {
    let (log, _guard) = super::log();
    assert_eq!(one(Reply::Flood(64 * 1024 * 1024)).await, "no answer of the model's endpoint");
    assert!(log().contains("more than 16777216 bytes"), "{}", log());
    let endpoint = Endpoint::new([Reply::Silence]).await;
    let slow =
        provider(SamplingApi::OpenAi, &endpoint, |settings| settings.timeout = Duration::from_millis(200));
    assert_eq!(failed(slow.sample(hello()).await), "the model did not answer within 200ms");
    tokio::time::timeout(SOON, endpoint.hung_up()).await.expect("the exchange ends");
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
        let asked = provider.sample(hello());
        tokio::select! {
            outcome = asked => panic!("{outcome:?}"),
            () = endpoint.arrived() => {}
        }
    }
    tokio::time::timeout(SOON, endpoint.hung_up()).await.expect("the exchange ends");
    // Its slot is free again, but its tokens stay reserved: its cost is unknown.
    provider.sample(hello()).await.unwrap();
    assert_eq!(endpoint.seen()[1].body["max_tokens"], 10);
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_costs_nothing() {
    let gone = Endpoint::new([]).await;
    let provider = provider(SamplingApi::OpenAi, &gone, |settings| settings.tokens_per_hour = Some(50));
    drop(gone);
    for _ in 0..2 {
        assert_eq!(failed(provider.sample(hello()).await), "no answer of the model's endpoint");
    }
}

/// Content that an API cannot express is refused, not left out: that would change the conversation.
#[tokio::test]
async fn content_that_cannot_be_said_is_refused() {
    let sound = |media: &str| json!({ "type": "audio", "data": "UklG", "mimeType": media });
    let picture = |media: &str| json!({ "type": "image", "data": "iVBO", "mimeType": media });
    let said = |role: &str, content: Value| {
        asked(json!({ "messages": [{ "role": role, "content": content }], "maxTokens": 5 }))
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
        assert!(endpoint.seen().is_empty());
    }
    let endpoint = Endpoint::new([completion("a beep")]).await;
    provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(said("user", sound("audio/wav"))).await.unwrap();
    let part = json!({ "type": "input_audio", "input_audio": { "data": "UklG", "format": "wav" } });
    assert_eq!(endpoint.only().body["messages"][0]["content"], json!([part]));
}
