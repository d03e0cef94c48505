//! Approval of sampling, and limits on its cost.

use bowline::config::{Sampling, SamplingApi, SamplingPolicy};
use bowline::host::{HostFuture, Sample as _, SampleRequest, SamplingRefusal};
use bowline::sampling::{Approve, Decision, Provider, ProviderErrorKind, SamplingPlan};
use bowline::types::{SamplingRequest, SamplingResult};
use bowline::{Config, Server};
use bowline_testkit::with;
use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::{API_KEY, Endpoint, Person, completion, conversation, minimal_request, provider, sample_request};
use crate::support::TEST_TIMEOUT;

/// SA-02: without a person sampling is refused, unless the configuration allows it.
#[tokio::test]
async fn sa_02_sampling_needs_approval_or_configuration() {
    let endpoint = Endpoint::new([completion("a"), completion("b")]).await;
    let settings = || Sampling::new(SamplingApi::OpenAi, &endpoint.url, "m").unwrap();
    let by_default = Provider::new(settings()).unwrap();
    assert_eq!(by_default.sample(minimal_request()).await, Err(SamplingRefusal::Declined));
    let denied = by_default.clone().server_policy("test", SamplingPolicy::Deny).approver(Person::default());
    assert_eq!(denied.sample(minimal_request()).await, Err(SamplingRefusal::Declined));
    assert!(endpoint.requests().is_empty());
    let allowed = by_default.server_policy("test", SamplingPolicy::Allow);
    allowed.sample(minimal_request()).await.unwrap();
    let mut other = minimal_request();
    other.server = "other".into();
    assert_eq!(
        allowed.sample(other).await,
        Err(SamplingRefusal::Declined),
        "what holds for one holds for one"
    );
    assert_eq!(endpoint.requests().len(), 1);
}

#[tokio::test]
async fn sampling_is_configured_per_server() {
    let settings = Sampling::new(SamplingApi::OpenAi, "http://127.0.0.1:9/", "m").unwrap();
    let server = |name: &str| Server::stdio(name, "x").build().unwrap();
    let config = with!(Config::default(), sampling: Some(settings))
        .with_server(server("a").with_sampling(SamplingPolicy::Deny))
        .and_then(|config| config.with_server(server("b")))
        .unwrap();
    let provider = Provider::from_config(&config).unwrap().unwrap();
    assert_eq!(provider.policy("a"), SamplingPolicy::Deny);
    assert_eq!(provider.policy("b"), SamplingPolicy::Ask);
    assert!(Provider::from_config(&Config::default()).unwrap().is_none());
}

/// An unset key variable is an error before the first request.
#[tokio::test]
async fn a_missing_api_key_is_an_error() {
    let settings = Sampling::new(SamplingApi::OpenAi, "http://127.0.0.1:9/", "m").unwrap();
    let settings = settings.with_key_env("BOWLINE_TEST_NO_SUCH_KEY").unwrap();
    assert_eq!(Provider::new(settings).unwrap_err().kind(), &ProviderErrorKind::KeyMissing);
}

/// SA-02: the person can edit or refuse the request and the result.
#[tokio::test]
async fn sa_02_a_person_edits_and_refuses() {
    let ask = |endpoint: &Endpoint, person: &Person| {
        provider(SamplingApi::OpenAi, endpoint, |settings| settings.policy = SamplingPolicy::Ask)
            .approver(person.clone())
    };
    let mut edited = sample_request(
        json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "Hello" } }], "maxTokens": 20 }),
    );
    edited.request.max_tokens = 5_000_000;
    let endpoint = Endpoint::new([completion("raw")]).await;
    let person = Person {
        new_request: Some(edited.request),
        new_result: Some(SamplingResult::text("small-1", "polished")),
        ..Person::default()
    };
    let result = ask(&endpoint, &person).sample(minimal_request()).await.unwrap();
    assert_eq!(result, SamplingResult::text("small-1", "polished"));
    let body = endpoint.only_request().body;
    assert_eq!(body["messages"], json!([{ "role": "user", "content": "Hello" }]));
    // SA-03: not even a person can exceed the server's token limit.
    assert_eq!(body["max_tokens"], 50);

    let endpoint = Endpoint::new([completion("raw")]).await;
    let person = Person { refuse_result: true, ..Person::default() };
    assert_eq!(ask(&endpoint, &person).sample(minimal_request()).await, Err(SamplingRefusal::Declined));
    assert_eq!((person.seen().len(), endpoint.requests().len()), (2, 1));
}

/// SA-03: the token limit is the smaller of the server's and the user's.
#[tokio::test]
async fn sa_03_the_answer_has_a_limit() {
    for (asked_for, cap, sent) in [(50, 4096, 50), (50, 20, 20), (1_000_000_000_000_u64, 4096, 4096)] {
        for api in SamplingApi::ALL {
            let answer = match api {
                SamplingApi::OpenAi => completion("x"),
                SamplingApi::Anthropic => super::Reply::Json(200, json!({ "content": [] })),
            };
            let endpoint = Endpoint::new([answer]).await;
            let mut request = minimal_request();
            request.request.max_tokens = asked_for;
            let provider = provider(api, &endpoint, |settings| settings.max_tokens = cap);
            provider.sample(request).await.unwrap();
            assert_eq!(endpoint.only_request().body["max_tokens"], sent, "{api}");
        }
    }
    let endpoint = Endpoint::new([]).await;
    let mut request = minimal_request();
    request.request.max_tokens = 0;
    super::failure_message(provider(SamplingApi::OpenAi, &endpoint, |_| {}).sample(request).await);
}

/// SA-03: the first hint that is part of a model's name decides; the default is the first model.
#[tokio::test]
async fn sa_03_hints_choose_among_the_models() {
    for (hints, model) in [
        (json!([{ "name": "nowhere" }, { "name": "LARGE" }, { "name": "small" }]), "large-2"),
        (json!([{ "name": "nowhere" }]), "small-1"),
        (json!([]), "small-1"),
    ] {
        let endpoint = Endpoint::new([completion("x")]).await;
        let provider =
            provider(SamplingApi::OpenAi, &endpoint, |settings| settings.models.push("large-2".to_owned()));
        let preferences = json!({ "hints": hints, "intelligencePriority": 1.0 });
        let params = json!({ "messages": [], "maxTokens": 1, "modelPreferences": preferences });
        provider.sample(sample_request(params)).await.unwrap();
        assert_eq!(endpoint.only_request().body["model"], model);
    }
}

/// SA-07: loops of tool calls are bounded. The count comes from the conversation; no state is kept.
#[tokio::test]
async fn sa_07_a_loop_of_tools_is_bounded() {
    let endpoint = Endpoint::new([completion("x")]).await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |settings| settings.tool_rounds = 2);
    let rounds = |count: usize| {
        let mut params = conversation();
        let turns: Vec<Value> = params["messages"].as_array().unwrap()[1..].to_vec();
        let messages = params["messages"].as_array_mut().unwrap();
        messages.truncate(1);
        messages.extend((0..count).flat_map(|_| turns.clone()));
        sample_request(params)
    };
    provider.sample(rounds(2)).await.unwrap();
    let limited = Err(SamplingRefusal::Limited("3 rounds of tool calls; 2 are allowed".to_owned()));
    assert_eq!(provider.sample(rounds(3)).await, limited);
    // The server writes the whole conversation, so one more message does not restart the count.
    let mut spoken = rounds(3);
    spoken.request.messages.push(minimal_request().request.messages.remove(0));
    assert_eq!(provider.sample(spoken).await, limited);
    assert_eq!(endpoint.requests().len(), 1);
}

/// SA-07: earlier requests are not sent along.
#[tokio::test]
async fn sa_07_nothing_is_kept_between_requests() {
    let endpoint = Endpoint::new([completion("x"), completion("y")]).await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |_| {});
    provider.sample(sample_request(conversation())).await.unwrap();
    provider.sample(minimal_request()).await.unwrap();
    assert_eq!(endpoint.requests()[1].body["messages"], json!([{ "role": "user", "content": "Hi" }]));
}

/// SA-02: while a person considers one server's requests, other servers can use the model and the
/// budget.
#[tokio::test]
async fn sa_02_a_pending_approval_does_not_block_other_servers() {
    /// Never decides.
    struct PendingApproval;
    impl Approve for PendingApproval {
        fn request<'a>(
            &'a self,
            _: &'a SampleRequest,
            plan: &'a SamplingPlan,
        ) -> HostFuture<'a, Decision<SamplingRequest>> {
            assert_eq!(plan.max_tokens, 50, "what could be had is shown");
            Box::pin(std::future::pending())
        }

        fn result<'a>(
            &'a self,
            _: &'a SampleRequest,
            _: &'a SamplingResult,
        ) -> HostFuture<'a, Decision<SamplingResult>> {
            panic!("nothing was agreed to")
        }
    }
    let endpoint = Endpoint::new([completion("x")]).await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |settings| {
        settings.policy = SamplingPolicy::Ask;
        settings.concurrent = 1;
        settings.per_minute = 100;
        settings.tokens_per_hour = Some(60);
    });
    let provider = provider.approver(PendingApproval).server_policy("other", SamplingPolicy::Allow);
    let mut waiting: Vec<_> = (0..8).map(|_| provider.sample(minimal_request())).collect();
    for request in &mut waiting {
        assert!(request.now_or_never().is_none());
    }
    let full = Err(SamplingRefusal::Limited("more than 8 requests are open".to_owned()));
    assert_eq!(provider.sample(minimal_request()).now_or_never(), Some(full));
    let mut other = minimal_request();
    other.server = "other".into();
    tokio::time::timeout(TEST_TIMEOUT, provider.sample(other)).await.expect("nobody is in its way").unwrap();
    assert_eq!(endpoint.only_request().body["max_tokens"], 50);
    // Canceled requests free their slots.
    drop(waiting.pop());
    assert!(provider.sample(minimal_request()).now_or_never().is_none());
}

/// SA-02: a server that samples too often is refused before anybody is asked.
#[tokio::test]
async fn sa_02_requests_are_limited() {
    let endpoint = Endpoint::new([completion("a"), completion("b"), completion("c")]).await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |settings| settings.per_minute = 2);
    provider.sample(minimal_request()).await.unwrap();
    provider.clone().sample(minimal_request()).await.unwrap();
    let refused = Err(SamplingRefusal::Limited("more than 2 requests in a minute".to_owned()));
    assert_eq!(provider.sample(minimal_request()).await, refused);
    let mut other = minimal_request();
    other.server = "other".into();
    provider.sample(other).await.unwrap();
}

/// The budget uses the token count of the endpoint.
#[tokio::test]
async fn tokens_of_an_hour_are_limited() {
    let endpoint = Endpoint::new([completion("a"), completion("b")]).await;
    let provider = provider(SamplingApi::OpenAi, &endpoint, |settings| settings.tokens_per_hour = Some(20));
    for left in [20, 10] {
        provider.sample(minimal_request()).await.unwrap();
        assert_eq!(endpoint.requests().last().unwrap().body["max_tokens"], left);
    }
    let refused = Err(SamplingRefusal::Limited("the tokens of this hour are used up".to_owned()));
    assert_eq!(provider.sample(minimal_request()).await, refused);
}

#[tokio::test]
async fn debug_shows_no_key() {
    let endpoint = Endpoint::new([]).await;
    let shown = format!("{:?}", provider(SamplingApi::Anthropic, &endpoint, |_| {}));
    assert!(!shown.contains(API_KEY) && shown.contains("small-1"), "{shown}");
}
