//! Tests of elicitation: forms, URLs, and what is declined.

use super::*;

const ELICIT: &str = method::ELICIT;

fn accept(content: &Value) -> Reply {
    Reply::Accept(Some(json_of(content)))
}

/// EL-02, EL-03, MR-08, TA-06: without a mode it is a form; the person sees the server and the
/// purpose; `task` is ignored.
#[tokio::test]
async fn el_02_a_form_is_shown_and_answered() {
    let (person, mut seen) = Person::new(Modes::FORM, [accept(&json!({ "city": "Oslo" }))]);
    let host = Host::new().elicitation(person);
    let mut params = form(json!({ "city": { "type": "string" } }));
    params["task"] = json!({ "ttl": 60_000 });
    let answer = host.handle(request("test", ELICIT, &params).with_purpose("tools/call book")).await.unwrap();
    assert_eq!(answer.as_str(), r#"{"action":"accept","content":{"city":"Oslo"}}"#);
    assert_eq!(
        seen.try_recv(),
        Ok(DialogEvent::Form("test".into(), Some("tools/call book".into()), "?".into()))
    );
}

/// EL-06, EL-07: defaults are added, and invalid content is not sent.
#[tokio::test]
async fn el_07_invalid_content_is_never_sent() {
    let replies = [
        Reply::Accept(None),
        accept(&json!({ "age": 17 })),
        accept(&json!({ "age": "20" })),
        accept(&json!([])),
        accept(&json!({ "age": 30, "other": 1 })),
    ];
    let (person, _seen) = Person::new(Modes::FORM, replies);
    let host = Host::new().elicitation(person);
    let params = form(json!({ "age": { "type": "integer", "minimum": 18, "default": 20 } }));
    let answer = ask(&host, ELICIT, params.clone()).await;
    assert_eq!(answer, Ok(json!({ "action": "accept", "content": { "age": 20 } })));
    for _ in 0..4 {
        assert_eq!(ask(&host, ELICIT, params.clone()).await, Err(code::INTERNAL_ERROR));
    }
}

/// EL-08: there are three answers, and only one has content.
#[tokio::test]
async fn el_08_decline_and_cancel_are_said() {
    let (person, _seen) =
        Person::new(Modes::BOTH, [Reply::Decline, Reply::Cancel, Reply::Decline, Reply::Cancel]);
    let host = Host::new().elicitation(person);
    for params in [form(json!({})), url_params("https://a.example/")] {
        assert_eq!(ask(&host, ELICIT, params.clone()).await, Ok(json!({ "action": "decline" })));
        assert_eq!(ask(&host, ELICIT, params).await, Ok(json!({ "action": "cancel" })));
    }
}

/// EL-04: an unsupported form is declined without asking; an invalid request is an error.
#[tokio::test]
async fn el_04_forms_beyond_the_subset_are_declined() {
    let (person, mut seen) = Person::new(Modes::BOTH, []);
    let host = Host::new().elicitation(person);
    let many: serde_json::Map<_, _> =
        (0..501).map(|n| (n.to_string(), json!({ "type": "string" }))).collect();
    for properties in [
        json!({ "a": { "type": "object", "properties": {} } }),
        json!({ "a": { "type": "array", "items": { "type": "object" } } }),
        json!({ "a": { "$ref": "#/a" } }),
        json!(5),
        json!(many),
    ] {
        assert_eq!(ask(&host, ELICIT, form(properties)).await, Ok(json!({ "action": "decline" })));
    }
    for schema in [
        json!({ "type": "object", "required": ["a"] }),
        json!({ "type": "object", "oneOf": [] }),
        json!({ "properties": {} }),
    ] {
        let params = json!({ "message": "?", "requestedSchema": schema });
        assert_eq!(ask(&host, ELICIT, params).await, Ok(json!({ "action": "decline" })), "{schema}");
    }
    for params in [
        json!({}),
        json!([]),
        json!({ "message": 5, "requestedSchema": { "type": "object" } }),
        json!({ "message": "?", "requestedSchema": [] }),
        json!({ "mode": "voice", "message": "?" }),
        json!({ "mode": "url", "message": "?" }),
    ] {
        assert_eq!(ask(&host, ELICIT, params.clone()).await, Err(code::INVALID_PARAMS), "{params}");
    }
    assert!(seen.try_recv().is_err(), "nobody was asked");
}

/// EL-12: a mode that was not declared is refused.
#[tokio::test]
async fn el_12_undeclared_modes() {
    let (forms, mut seen) = Person::new(Modes::FORM, []);
    let host = Host::new().elicitation(forms);
    for params in [url_params("https://a.example/"), json!({ "mode": "url" })] {
        assert_eq!(ask(&host, ELICIT, params).await, Err(code::INVALID_PARAMS));
    }
    assert!(seen.try_recv().is_err());
    let (pages, mut seen) = Person::new(Modes::URL, []);
    let host = Host::new().elicitation(pages);
    for properties in [json!({}), json!({ "a": { "type": "object" } })] {
        assert_eq!(ask(&host, ELICIT, form(properties)).await, Err(code::INVALID_PARAMS));
    }
    assert!(seen.try_recv().is_err());
}

/// EL-08, EL-09, EL-10: only the consent is sent, and only http and https are accepted.
#[tokio::test]
async fn el_10_a_url_gets_consent_only() {
    let (person, mut seen) = Person::new(Modes::BOTH, [accept(&json!({ "secret": 1 }))]);
    let host = Host::new().elicitation(person);
    for url in ["javascript:alert(1)", "file:///etc/passwd", "vscode://x", "no url", "https://a\n.example"] {
        assert_eq!(ask(&host, ELICIT, url_params(url)).await, Ok(json!({ "action": "decline" })), "{url}");
    }
    assert!(seen.try_recv().is_err(), "nobody was asked");
    let answer = ask(&host, ELICIT, url_params("https://a.example/x")).await;
    assert_eq!(answer, Ok(json!({ "action": "accept" })));
    assert_eq!(seen.try_recv(), Ok(DialogEvent::Page("test".into(), "https://a.example/x".into())));
}

/// EL-11: a completion counts once, for an accepted URL, from the server that requested it.
#[tokio::test]
async fn el_11_only_pending_urls_are_completed() {
    let (person, mut seen) = Person::new(Modes::BOTH, [Reply::Accept(None), Reply::Decline]);
    let host = Host::new().elicitation(person);
    host.url_elicitation_completed("test", "e1");
    ask(&host, ELICIT, url_params("https://a.example/")).await.unwrap();
    assert!(matches!(seen.try_recv(), Ok(DialogEvent::Page(..))), "no stray completion before it");
    host.url_elicitation_completed("other", "e1");
    host.url_elicitation_completed("test", "e2");
    assert!(seen.try_recv().is_err());
    host.url_elicitation_completed("test", "e1");
    host.url_elicitation_completed("test", "e1");
    assert_eq!(seen.try_recv(), Ok(DialogEvent::Completed("e1".into())));
    assert!(seen.try_recv().is_err(), "once");
    ask(&host, ELICIT, url_params("https://a.example/")).await.unwrap();
    seen.try_recv().unwrap();
    host.url_elicitation_completed("test", "e1");
    assert!(seen.try_recv().is_err(), "nobody went there");
}

/// EL-11: pending URLs are bounded.
#[tokio::test]
async fn el_11_pending_urls_are_bounded() {
    let (person, mut seen) = Person::new(Modes::URL, vec![Reply::Accept(None); 300]);
    let host = Host::new()
        .elicitation(person)
        .questions(QuestionLimits { per_minute: 300, ..QuestionLimits::default() });
    for n in 0..300 {
        let params = json!({ "mode": "url", "message": "?", "url": "https://a.example/", "elicitationId": n.to_string() });
        ask(&host, ELICIT, params).await.unwrap();
        seen.try_recv().unwrap();
    }
    host.url_elicitation_completed("test", "0");
    assert!(seen.try_recv().is_err());
    host.url_elicitation_completed("test", "299");
    assert_eq!(seen.try_recv(), Ok(DialogEvent::Completed("299".into())));
}
