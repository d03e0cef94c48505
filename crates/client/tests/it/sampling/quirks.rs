//! Optional parameters that a model rejects are found out by trying, and left out from then on.

use bowline::config::SamplingApi;
use bowline::host::{Sample as _, SampleRequest};
use serde_json::{Value, json};

use super::{Endpoint, Reply, completion, failed, hello, provider};

fn refused(param: &str, code: &str) -> Reply {
    Reply::Json(400, json!({ "error": { "message": "no", "param": param, "code": code } }))
}

fn wish() -> SampleRequest {
    let mut request = hello();
    request.request.temperature = Some(0.5);
    request
}

fn wishes(endpoint: &Endpoint) -> Vec<[Value; 3]> {
    let members = ["max_tokens", "max_completion_tokens", "temperature"];
    endpoint.seen().iter().map(|seen| members.map(|name| seen.body[name].clone())).collect()
}

/// A parameter that the endpoint names as unsupported is left out of the retry and of later
/// requests.
#[tokio::test]
async fn wishes_that_are_not_taken_are_left_out() {
    let replies = [
        refused("max_tokens", "unsupported_parameter"),
        refused("temperature", "unsupported_value"),
        completion("a"),
        completion("b"),
        refused("temperature", "unsupported_value"),
    ];
    let endpoint = Endpoint::new(replies).await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |_| {});
    provider.sample(wish()).await.unwrap();
    provider.sample(wish()).await.unwrap();
    let wishes = wishes(&endpoint);
    let (none, fifty, half) = (Value::Null, json!(50), json!(0.5));
    assert_eq!(wishes[0], [fifty.clone(), none.clone(), half.clone()]);
    assert_eq!(wishes[1], [none.clone(), fifty.clone(), half]);
    assert_eq!(wishes[2], [none.clone(), fifty, none]);
    assert_eq!(wishes[3], wishes[2]);
    // A complaint about a parameter that was already left out is not retried.
    failed(provider.sample(wish()).await);
    assert_eq!(endpoint.seen().len(), 5);
}

/// A rejected value is no unsupported parameter, and another model may accept what one rejects.
#[tokio::test]
async fn a_refused_value_is_no_refused_wish() {
    let replies = [
        refused("max_tokens", "invalid_value"),
        refused("temperature", "unsupported_value"),
        completion("a"),
        completion("b"),
    ];
    let endpoint = Endpoint::new(replies).await;
    let provider =
        provider(SamplingApi::OpenAi, &endpoint, |settings| settings.models.push("large-2".to_owned()));
    failed(provider.sample(wish()).await);
    provider.sample(wish()).await.unwrap();
    let mut other = wish();
    other.request.preferences.hints = vec!["large".into()];
    provider.sample(other).await.unwrap();
    let (none, fifty, half) = (Value::Null, json!(50), json!(0.5));
    let with = [fifty.clone(), none.clone(), half];
    let without = [fifty, none.clone(), none];
    assert_eq!(wishes(&endpoint), [with.clone(), with.clone(), without, with]);
    assert_eq!(endpoint.seen()[3].body["model"], "large-2");
}

/// Messages API: current models reject `temperature`, and say so only in the error text.
#[tokio::test]
async fn messages_without_a_temperature() {
    let deprecated = || {
        let error = json!({ "type": "invalid_request_error", "message": "`temperature` is deprecated for this model." });
        Reply::Json(400, json!({ "type": "error", "error": error }))
    };
    let message = || Reply::Json(200, json!({ "content": [{ "type": "text", "text": "x" }] }));
    let endpoint = Endpoint::new([deprecated(), message(), message()]).await;
    let asks = provider(SamplingApi::Anthropic, &endpoint, |_| {});
    asks.sample(wish()).await.unwrap();
    asks.sample(wish()).await.unwrap();
    let sent: Vec<_> = endpoint.seen().iter().map(|seen| seen.body["temperature"].clone()).collect();
    assert_eq!(sent, [json!(0.5), Value::Null, Value::Null]);

    // The word appears in another complaint: leaving it out does not help and is not remembered.
    let endpoint = Endpoint::new([deprecated(), deprecated(), message()]).await;
    let asks = provider(SamplingApi::Anthropic, &endpoint, |_| {});
    failed(asks.sample(wish()).await);
    asks.sample(wish()).await.unwrap();
    let sent: Vec<_> = endpoint.seen().iter().map(|seen| seen.body["temperature"].clone()).collect();
    assert_eq!(sent, [json!(0.5), Value::Null, json!(0.5)]);

    // Nothing to leave out: nothing is retried.
    let endpoint = Endpoint::new([deprecated()]).await;
    failed(provider(SamplingApi::Anthropic, &endpoint, |_| {}).sample(hello()).await);
    assert_eq!(endpoint.seen().len(), 1);
}

/// SA-03: a reply above the token limit is logged.
#[tokio::test]
async fn sa_03_an_answer_above_the_limit_is_logged() {
    for (length, told) in [(50, false), (51, true)] {
        for api in SamplingApi::ALL {
            let answer = match api {
                SamplingApi::OpenAi => {
                    json!({ "choices": [{ "message": { "content": "x" } }], "usage": { "completion_tokens": length } })
                }
                SamplingApi::Anthropic => json!({ "content": [], "usage": { "output_tokens": length } }),
            };
            let endpoint = Endpoint::new([Reply::Json(200, answer)]).await;
            let (log, _guard) = super::log();
            provider(api, &endpoint, |_| {}).sample(hello()).await.unwrap();
            assert_eq!(log().contains("more tokens than it was allowed"), told, "{api}: {}", log());
        }
    }
}
