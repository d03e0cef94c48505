//! Tests of requested input: what may be asked, and what the answers are.

use serde_json::{Value, json};

use super::*;
use crate::wire::RpcError;
use crate::wire::view::{InputRequired, ResultType, result_type};

fn json(value: &Value) -> Json {
    Json::encode(value).unwrap()
}

fn question(method: &str, params: &Value) -> InputRequest {
    InputRequest { method: method.into(), params: Some(json(params)).filter(|params| !params.is_null()) }
}

fn form() -> InputRequest {
    question(
        "elicitation/create",
        &json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}}),
    )
}

fn url() -> InputRequest {
    question("elicitation/create", &json!({"mode": "url", "message": "m", "url": "https://x"}))
}

fn sampling() -> InputRequest {
    question("sampling/createMessage", &json!({"messages": [], "maxTokens": 9}))
}

fn sampling_with(member: &str, value: Value) -> InputRequest {
    let mut params = json!({"messages": [], "maxTokens": 9});
    params[member] = value;
    question("sampling/createMessage", &params)
}

fn roots() -> InputRequest {
    question("roots/list", &json!(null))
}

/// Asks these questions under the keys `k0`, `k1` and so on.
fn ask(questions: &[InputRequest], capabilities: &Value) -> Result<Json, InputError> {
    input_required(&keyed(questions), Some("s"), &json(capabilities))
}

fn keyed(questions: &[InputRequest]) -> InputRequests {
    questions.iter().enumerate().map(|(at, question)| (format!("k{at}").into(), question.clone())).collect()
}

#[test]
fn result_is_what_a_client_reads() {
    // GW-07
    let questions = [form(), url(), sampling(), roots()];
    let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    let result = ask(&questions, &all).unwrap();
    assert_eq!(result_type(&result), ResultType::InputRequired);
    let read = InputRequired::decode(&result).unwrap();
    assert_eq!(read.requests, keyed(&questions));
    assert_eq!(read.state.unwrap().as_str(), r#""s""#);
    let stateless = input_required(&keyed(&[roots()]), None, &json(&all)).unwrap();
    assert_eq!(
        stateless.as_str(),
        r#"{"resultType":"input_required","inputRequests":{"k0":{"method":"roots/list"}}}"#
    );
    let waiting = input_required(&Vec::new(), Some("a\"b"), &json(&all)).unwrap();
    assert_eq!(waiting.as_str(), r#"{"resultType":"input_required","requestState":"a\"b"}"#);
    assert_eq!(input_required(&Vec::new(), None, &json(&all)), Err(InputError::NothingToAsk));
}

// GW-04: only declared kinds and modes are asked, and -32021 names the others.
#[test]
fn undeclared_questions_are_refused_with_what_they_require() {
    for (asked, capabilities, required) in [
        (vec![form()], json!({}), Some(r#"{"elicitation":{"form":{}}}"#)),
        (vec![form()], json!({"elicitation": {}}), None),
        (vec![form()], json!({"elicitation": {"form": {}}}), None),
        (vec![form()], json!({"elicitation": {"url": {}}}), Some(r#"{"elicitation":{"form":{}}}"#)),
        (vec![form()], json!({"elicitation": null}), Some(r#"{"elicitation":{"form":{}}}"#)),
        (vec![url()], json!({"elicitation": {}}), Some(r#"{"elicitation":{"url":{}}}"#)),
        (vec![url()], json!({"elicitation": {"form": {}}}), Some(r#"{"elicitation":{"url":{}}}"#)),
        (vec![url()], json!({"elicitation": {"url": {}}}), None),
        (vec![sampling()], json!({"elicitation": {}}), Some(r#"{"sampling":{}}"#)),
        (vec![sampling()], json!({"sampling": {}}), None),
        (
            vec![sampling_with("tools", json!([]))],
            json!({"sampling": {}}),
            Some(r#"{"sampling":{"tools":{}}}"#),
        ),
        (
            vec![sampling_with("toolChoice", json!({"mode": "none"}))],
            json!({}),
            Some(r#"{"sampling":{"tools":{}}}"#),
        ),
        (vec![sampling_with("tools", json!([]))], json!({"sampling": {"tools": {}}}), None),
        // A conversation that cannot be read still has to be refused for its tools.
        (
            vec![question("sampling/createMessage", &json!({"tools": 7}))],
            json!({"sampling": {}}),
            Some(r#"{"sampling":{"tools":{}}}"#),
        ),
        (vec![roots()], json!({"sampling": {}}), Some(r#"{"roots":{}}"#)),
        (vec![roots()], json!({"roots": {}}), None),
        (
            vec![form(), url(), sampling(), roots()],
            json!({}),
            Some(r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#),
        ),
        (vec![form(), roots()], json!({"elicitation": {}}), Some(r#"{"roots":{}}"#)),
    ] {
        let outcome = ask(&asked, &capabilities);
        let Some(required) = required else {
            assert!(outcome.is_ok(), "{asked:?} {capabilities}");
            continue;
        };
        let refusal = outcome.unwrap_err().refusal();
        assert_eq!((refusal.status, refusal.error.code), (400, -32021), "{asked:?} {capabilities}");
        let named = refusal.error.data.unwrap().member("requiredCapabilities").unwrap();
        assert_eq!(named.as_str(), required, "{asked:?} {capabilities}");
    }
}

#[test]
fn unknown_questions_are_refused() {
    let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    for unknown in [
        question("ping", &json!({})),
        question("elicitation/create", &json!({"mode": "voice"})),
        question("elicitation/create", &json!({"mode": 7})),
    ] {
        let error = ask(&[form(), unknown], &all).unwrap_err();
        assert_eq!(error, InputError::UnknownQuestion("k1".into()));
        assert_eq!(error.refusal().error.code, -32603);
    }
}

#[test]
fn context_is_requested_only_where_it_is_declared() {
    // SA-01
    let asked = [sampling_with("includeContext", json!("thisServer"))];
    let with = ask(&asked, &json!({"sampling": {"context": {}}})).unwrap();
    assert_eq!(InputRequired::decode(&with).unwrap().requests, keyed(&asked));
    let without = ask(&asked, &json!({"sampling": {}})).unwrap();
    assert_eq!(InputRequired::decode(&without).unwrap().requests, keyed(&[sampling()]));
}

// GW-16
#[test]
fn legacy_requests_become_questions() {
    let params = json(&json!({
        "mode": "url", "elicitationId": "e", "url": "https://x", "task": {"ttl": 1},
        "_meta": {"progressToken": 1, "io.modelcontextprotocol/related-task": {"taskId": "1"}, "a/b": 1},
    }));
    let asked = question_from_request("elicitation/create", Some(&params));
    assert_eq!(&*asked.method, "elicitation/create");
    let left: Value = asked.params.unwrap().decode().unwrap();
    assert_eq!(left, json!({"mode": "url", "url": "https://x", "_meta": {"a/b": 1}}));
    let hop = json(&json!({"_meta": {"progressToken": 1}}));
    let bare = question_from_request("roots/list", Some(&hop)).params.unwrap();
    assert_eq!(bare.as_str(), "{}");
    assert_eq!(question_from_request("roots/list", None).params, None);
    assert_eq!(question_from_request("roots/list", Some(&json(&json!([])))).params, None);
}

// GW-16
#[test]
fn url_errors_become_questions() {
    let data = json!({"elicitations": [
        {"mode": "url", "elicitationId": "e", "url": "https://x", "message": "m"},
        {"mode": "url", "message": "no page"},
        {"mode": "url", "elicitationId": "f", "url": "https://y", "message": "n"},
    ]});
    let error = |code, data: &Value| RpcError { code, message: String::new(), data: Some(json(data)) };
    let questions = url_questions(&error(-32042, &data), "url-").unwrap();
    let keys: Vec<&str> = questions.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["url-0", "url-1"]);
    assert_eq!(
        questions[1].1.params.as_ref().unwrap().as_str(),
        r#"{"mode":"url","message":"n","url":"https://y"}"#
    );
    assert!(input_required(&questions, None, &json(&json!({"elicitation": {"url": {}}}))).is_ok());
    assert_eq!(url_questions(&error(-32602, &data), "url-"), None);
    assert_eq!(url_questions(&error(-32042, &json!({})), "url-"), None);
    assert_eq!(url_questions(&RpcError::new(-32042, ""), "url-"), None);
}

fn retry(params: &Value) -> Result<Option<InputRetry>, Refusal> {
    InputRetry::parse(Some(&json(params)))
}

#[test]
fn retries_are_recognized() {
    // GW-07
    assert_eq!(InputRetry::parse(None), Ok(None));
    assert_eq!(retry(&json!({"name": "t"})), Ok(None));
    assert_eq!(retry(&json!({"requestState": null, "inputResponses": null})), Ok(None));
    let both = retry(&json!({"requestState": "s\"", "inputResponses": {"k": {}}})).unwrap().unwrap();
    assert_eq!((both.state.as_deref(), both.responses.as_str()), (Some("s\""), r#"{"k":{}}"#));
    let state_only = retry(&json!({"requestState": "s"})).unwrap().unwrap();
    assert_eq!(state_only.responses, Json::empty_object());
    let answers_only = retry(&json!({"inputResponses": {}})).unwrap().unwrap();
    assert_eq!(answers_only.state, None);
    for invalid in [json!({"requestState": 7}), json!({"inputResponses": []}), json!({"requestState": {}})] {
        assert_eq!(retry(&invalid).unwrap_err().error.code, -32602, "{invalid}");
    }
}

#[test]
fn retry_is_not_printed() {
    let secret = retry(&json!({"requestState": "s", "inputResponses": {"k": 1}})).unwrap().unwrap();
    assert_eq!(format!("{secret:?}"), "InputRetry { .. }");
}

// GW-07: missing answers are asked again.
#[test]
fn answers_are_found_by_key_and_missing_ones_are_asked_again() {
    let questions = keyed(&[form(), url(), sampling(), roots()]);
    let brought = retry(&json!({"inputResponses": {
        "k3": {"roots": []},
        "k0": {"action": "accept", "content": {"city": "Oslo"}},
        "k2": null,
        "other": {"action": "cancel"},
    }}));
    let answers = brought.unwrap().unwrap().answers(&questions);
    let given: Vec<_> =
        answers.given.iter().map(|(key, answer)| (&**key, answer.as_ref().unwrap().as_str())).collect();
    assert_eq!(
        given,
        [("k0", r#"{"action":"accept","content":{"city":"Oslo"}}"#), ("k3", r#"{"roots":[]}"#)]
    );
    assert_eq!(answers.missing, questions[1..3]);
    let capabilities = json(&json!({"elicitation": {"url": {}}, "sampling": {}}));
    let again = input_required(&answers.missing, Some("s2"), &capabilities).unwrap();
    assert_eq!(InputRequired::decode(&again).unwrap().requests, questions[1..3]);
}

#[test]
fn last_of_two_answers_counts() {
    let params = Json::try_from(r#"{"inputResponses":{"k0":{"roots":7},"k0":{"roots":[]}}}"#).unwrap();
    let answers = InputRetry::parse(Some(&params)).unwrap().unwrap().answers(&keyed(&[roots()]));
    assert_eq!(answers.given, [("k0".into(), Ok(json(&json!({"roots": []}))))]);
}

#[test]
fn answers_must_be_results_of_their_method() {
    // MR-02
    let message = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}});
    let blocks = json!({"role": "assistant", "model": "m", "content": []});
    for (asked, response, is_valid) in [
        (form(), json!({"action": "decline"}), true),
        (form(), json!({"action": "cancel", "content": null}), true),
        (url(), json!({"action": "accept"}), true),
        (form(), json!({"action": "accept", "content": {}}), true),
        (form(), json!({"action": "accept", "content": []}), false),
        (form(), json!({"action": "maybe"}), false),
        (form(), json!({}), false),
        (form(), json!("accept"), false),
        (sampling(), message, true),
        (sampling(), blocks, true),
        (sampling(), json!({"role": "assistant", "model": "m"}), false),
        (sampling(), json!({"role": "assistant", "content": []}), false),
        (sampling(), json!({"model": "m", "content": []}), false),
        (roots(), json!({"roots": []}), true),
        (roots(), json!({"roots": {}}), false),
        (roots(), json!([]), false),
    ] {
        let brought = retry(&json!({"inputResponses": { "k0": response }})).unwrap().unwrap();
        let answers = brought.answers(&keyed(&[asked]));
        assert!(answers.missing.is_empty());
        let answer = &answers.given[0].1;
        assert_eq!(answer.is_ok(), is_valid, "{response}");
        if let Err(invalid) = answer {
            assert_eq!(invalid.refusal().error.code, -32602);
        }
    }
}
