//! Optional parameters that a model rejects are found out by trying, and left out from then on.

use bowline::config::SamplingApi;
use bowline::host::{Sample as _, SampleRequest};
use serde_json::{Value, json};

use super::{Endpoint, Reply, completion, failure_message, minimal_request, provider};

fn unsupported_parameter(param: &str, code: &str) -> Reply {
    Reply::Json(400, json!({ "error": { "message": "no", "param": param, "code": code } }))
}

fn request_with_parameters() -> SampleRequest {
    let mut request = minimal_request();
    request.request.temperature = Some(0.5);
    request
}

fn sent_parameters(endpoint: &Endpoint) -> Vec<[Value; 3]> {
    let members = ["max_tokens", "max_completion_tokens", "temperature"];
    endpoint.requests().iter().map(|seen| members.map(|name| seen.body[name].clone())).collect()
}

/// A parameter that the endpoint names as unsupported is left out of the retry and of later
/// requests.
#[tokio::test]
async fn unsupported_parameters_are_left_out() {
    let replies = [
        unsupported_parameter("max_tokens", "unsupported_parameter"),
        unsupported_parameter("temperature", "unsupported_value"),
        completion("a"),
        completion("b"),
        unsupported_parameter("temperature", "unsupported_value"),
    ];
    let endpoint = Endpoint::new(replies).await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |_| {});
    provider.sample(request_with_parameters()).await.unwrap();
    provider.sample(request_with_parameters()).await.unwrap();
    let wishes = sent_parameters(&endpoint);
    let (none, fifty, half) = (Value::Null, json!(50), json!(0.5));
    assert_eq!(wishes[0], [fifty.clone(), none.clone(), half.clone()]);
    assert_eq!(wishes[1], [none.clone(), fifty.clone(), half]);
    assert_eq!(wishes[2], [none.clone(), fifty, none]);
    assert_eq!(wishes[3], wishes[2]);
    // A complaint about a parameter that was already left out is not retried.
    failure_message(provider.sample(request_with_parameters()).await);
    assert_eq!(endpoint.requests().len(), 5);
}

/// A rejected value is no unsupported parameter, and another model may accept what one rejects.
#[tokio::test]
async fn a_refused_value_is_no_unsupported_parameter() {
    let replies = [
        unsupported_parameter("max_tokens", "invalid_value"),
        unsupported_parameter("temperature", "unsupported_value"),
        completion("a"),
        completion("b"),
    ];
    let endpoint = Endpoint::new(replies).await;
    let provider =
        provider(SamplingApi::OpenAi, &endpoint, |settings| settings.models.push("large-2".to_owned()));
    failure_message(provider.sample(request_with_parameters()).await);
    provider.sample(request_with_parameters()).await.unwrap();
    let mut other = request_with_parameters();
    other.request.preferences.hints = vec!["large".into()];
    provider.sample(other).await.unwrap();
    let (none, fifty, half) = (Value::Null, json!(50), json!(0.5));
    let with = [fifty.clone(), none.clone(), half];
    let without = [fifty, none.clone(), none];
    assert_eq!(sent_parameters(&endpoint), [with.clone(), with.clone(), without, with]);
    assert_eq!(endpoint.requests()[3].body["model"], "large-2");
}

/// Messages API: current models reject `temperature`, and say so only in the error text.
#[tokio::test]
async fn messages_api_omits_an_unsupported_temperature() {
    let deprecated = || {
        let error = json!({ "type": "invalid_request_error", "message": "`temperature` is deprecated for this model." });
        Reply::Json(400, json!({ "type": "error", "error": error }))
    };
    let message = || Reply::Json(200, json!({ "content": [{ "type": "text", "text": "x" }] }));
    let endpoint = Endpoint::new([deprecated(), message(), message()]).await;
    let asks = provider(SamplingApi::Anthropic, &endpoint, |_| {});
    asks.sample(request_with_parameters()).await.unwrap();
    asks.sample(request_with_parameters()).await.unwrap();
    let sent: Vec<_> = endpoint.requests().iter().map(|seen| seen.body["temperature"].clone()).collect();
    assert_eq!(sent, [json!(0.5), Value::Null, Value::Null]);

    // The word appears in another complaint: leaving it out does not help and is not remembered.
    let endpoint = Endpoint::new([deprecated(), deprecated(), message()]).await;
    let asks = provider(SamplingApi::Anthropic, &endpoint, |_| {});
    failure_message(asks.sample(request_with_parameters()).await);
    asks.sample(request_with_parameters()).await.unwrap();
    let sent: Vec<_> = endpoint.requests().iter().map(|seen| seen.body["temperature"].clone()).collect();
    assert_eq!(sent, [json!(0.5), Value::Null, json!(0.5)]);

    // Nothing to leave out: nothing is retried.
    let endpoint = Endpoint::new([deprecated()]).await;
    failure_message(provider(SamplingApi::Anthropic, &endpoint, |_| {}).sample(minimal_request()).await);
    assert_eq!(endpoint.requests().len(), 1);
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
            let (log, _guard) = super::capture_log();
            provider(api, &endpoint, |_| {}).sample(minimal_request()).await.unwrap();
            assert_eq!(log().contains("more tokens than it was allowed"), told, "{api}: {}", log());
        }
    }
}
