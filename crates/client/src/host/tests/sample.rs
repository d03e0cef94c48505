//! Tests of sampling: what is refused, and what is sent.

use std::time::Duration;

use bowline_proto::wire::view::{IncludeContext, SamplingBlock};
use bowline_testkit::with;

use super::*;

const SAMPLING: &str = method::SAMPLING;

fn hello() -> Value {
    json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }], "maxTokens": 10 })
}

fn with(name: &str, value: Value) -> Value {
    let mut params = hello();
    params[name] = value;
    params
}

/// SA-06, TA-06: the answer is sent, and `task` is ignored.
#[tokio::test]
async fn sa_06_the_model_answers() {
    let (model, mut seen) = Model::says(Ok(SamplingResult::text("m-1", "hello")));
    let host = Host::new().sampling(model);
    let params = with("task", json!({ "ttl": 60_000 }));
    let answer = host.handle(request("test", SAMPLING, &params).with_purpose("tools/call t")).await.unwrap();
    let expected = json!({ "role": "assistant", "content": { "type": "text", "text": "hello" }, "model": "m-1", "stopReason": "endTurn" });
    assert_eq!(answer.decode::<Value>().unwrap(), expected);
    let asked = seen.try_recv().unwrap();
    assert_eq!((&*asked.server, asked.purpose.as_deref()), ("test", Some("tools/call t")));
    assert_eq!(asked.request.max_tokens, 10);
}

/// SA-04, SA-05: invalid requests are refused before the model is asked.
#[tokio::test]
async fn sa_04_undeclared_tools_and_unbalanced_turns() {
    let (model, mut seen) = Model::says(Ok(SamplingResult::text("m", "x")));
    let host = Host::new().sampling(model);
    let tool = json!({ "name": "t", "inputSchema": { "type": "object" } });
    let used = json!([{ "role": "assistant", "content": { "type": "tool_use", "id": "1", "name": "t", "input": {} } }]);
    for params in [
        with("tools", json!([tool])),
        with("tools", json!([])),
        with("toolChoice", json!({ "mode": "none" })),
        with("messages", used.clone()),
        with("maxTokens", json!("many")),
        json!({}),
    ] {
        assert_eq!(ask(&host, SAMPLING, params.clone()).await, Err(code::INVALID_PARAMS), "{params}");
    }
    assert!(seen.try_recv().is_err(), "no model call");

    let (model, mut seen) = Model::says(Ok(SamplingResult::text("m", "x")));
    let host = Host::new().sampling(Model { tools: true, ..model });
    assert_eq!(ask(&host, SAMPLING, with("messages", used)).await, Err(code::INVALID_PARAMS));
    assert!(seen.try_recv().is_err(), "no model call");
    ask(&host, SAMPLING, with("tools", json!([tool]))).await.unwrap();
    assert_eq!(seen.try_recv().unwrap().request.tools.len(), 1);
}

/// SA-01: undeclared context is not requested.
#[tokio::test]
async fn sa_01_context_without_the_flag_is_none() {
    for (context, expected) in [(false, IncludeContext::None), (true, IncludeContext::ThisServer)] {
        let (model, mut seen) = Model::says(Ok(SamplingResult::text("m", "x")));
        let host = Host::new().sampling(Model { context, ..model });
        ask(&host, SAMPLING, with("includeContext", json!("thisServer"))).await.unwrap();
        assert_eq!(seen.try_recv().unwrap().request.include_context, expected);
    }
}

/// SA-07: each refusal has its error code.
#[tokio::test]
async fn sa_07_refusals() {
    for (refusal, code, message) in [
        (SamplingRefusal::Declined, -1, "User rejected sampling request"),
        (SamplingRefusal::Limited("too fast".into()), code::INTERNAL_ERROR, "too fast"),
        (SamplingRefusal::Failed("no model".into()), code::INTERNAL_ERROR, "no model"),
    ] {
        let host = Host::new().sampling(Model::says(Err(refusal)).0);
        let error = host.handle(request("test", SAMPLING, &hello())).await.unwrap_err();
        assert_eq!((error.code, &*error.message), (code, message));
    }
}

/// SA-06: parallel tool uses need an array, which old revisions do not have.
#[tokio::test]
async fn sa_06_an_answer_fits_the_revision() {
    let uses = ["1", "2"].map(|id| SamplingBlock::tool_use(id, "t", &Json::empty_object()));
    let says = with!(SamplingResult::new("m", uses.into()), stop_reason: Some("toolUse".into()));
    let host = Host::new().sampling(Model { tools: true, ..Model::says(Ok(says)).0 });
    let answer = ask(&host, SAMPLING, hello()).await.unwrap();
    assert_eq!((answer["content"].as_array().unwrap().len(), &answer["stopReason"]), (2, &json!("toolUse")));
    let old = ServerRequest::new("test", Revision::V2025_06_18, SAMPLING, json_of(&hello()));
    assert_eq!(host.handle(old).await.unwrap_err().code, code::INTERNAL_ERROR);
}

/// A model that never answers runs into the timeout.
#[tokio::test(start_paused = true)]
async fn a_silent_model_is_given_up() {
    struct Silent;
    impl Sample for Silent {
        fn sample(&self, _: SampleRequest) -> HostFuture<'_, Result<SamplingResult, SamplingRefusal>> {
            Box::pin(std::future::pending())
        }
    }
    let answer_timeout = Duration::from_secs(5);
    let host = Host::new()
        .sampling(Silent)
        .questions(QuestionLimits { answer_timeout, ..QuestionLimits::default() });
    assert_eq!(ask(&host, SAMPLING, hello()).await, Err(code::INTERNAL_ERROR));
}
