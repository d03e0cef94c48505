//! What [`Host::from_config`] answers by itself.

use bowline_config::{Config, ElicitationPolicy};
use bowline_testkit::with;

use super::*;

/// A root that is no absolute folder is left out.
#[tokio::test]
async fn configured_roots_are_offered() {
    let folder = tempfile::tempdir().unwrap();
    let roots = vec![folder.path().to_owned(), "relative".into()];
    let host = Host::from_config(&with!(Config::default(), roots: Some(roots))).unwrap();
    let by_hand = Host::new().roots(Roots::new([Root::folder(folder.path()).unwrap()]));
    let offered = ask(&host, "roots/list", json!({})).await;
    assert_eq!(offered, ask(&by_hand, "roots/list", json!({})).await);
    assert_eq!(offered.unwrap()["roots"].as_array().unwrap().len(), 1);
    assert_eq!(Host::from_config(&Config::default()).unwrap().capabilities().as_str(), "{}");
}

/// Declining and canceling need no person; where the policy is to ask, the host adds one.
#[tokio::test]
async fn elicitation_policy_answers_without_a_person() {
    for (policy, action) in [(ElicitationPolicy::Decline, "decline"), (ElicitationPolicy::Cancel, "cancel")] {
        let host = Host::from_config(&with!(Config::default(), elicitation: Some(policy))).unwrap();
        let city = form(json!({ "city": { "type": "string" } }));
        for params in [city, url_params("https://srv.example/in")] {
            assert_eq!(ask(&host, "elicitation/create", params).await, Ok(json!({ "action": action })));
        }
    }
    let asks = with!(Config::default(), elicitation: Some(ElicitationPolicy::Ask));
    assert_eq!(Host::from_config(&asks).unwrap().capabilities().as_str(), "{}");
}

/// A model whose key is missing is an error, unless nobody may use it without being asked.
#[cfg(feature = "sampling")]
#[test]
fn allowed_model_without_its_key_is_refused() {
    use bowline_config::{Sampling, SamplingApi, SamplingPolicy};

    let with_policy = |policy| {
        let model = Sampling::new(SamplingApi::OpenAi, "https://model.example", "m-1").unwrap();
        let model = with!(model, policy: policy, key_env: Some("BOWLINE_TEST_UNSET_KEY".to_owned()));
        Host::from_config(&with!(Config::default(), sampling: Some(model)))
    };
    let refused = with_policy(SamplingPolicy::Allow).map(drop).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "servers cannot be offered the configured model: \
         the model cannot be used: the environment variable that `key_env` names is not set"
    );
    for policy in [SamplingPolicy::Ask, SamplingPolicy::Deny] {
        assert_eq!(with_policy(policy).unwrap().capabilities().as_str(), "{}");
    }
}
