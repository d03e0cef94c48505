//! Tests of the views of sampling.

use serde_json::{Value, json};

use super::*;

fn decode(params: Value) -> Result<SamplingRequest, ViewError> {
    SamplingRequest::decode(&Json::encode(&params).unwrap())
}

fn user(content: Value) -> Value {
    json!({ "role": "user", "content": content })
}

fn assistant(content: Value) -> Value {
    json!({ "role": "assistant", "content": content })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn used(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "t", "input": {} })
}

fn result(id: &str) -> Value {
    json!({ "type": "tool_result", "toolUseId": id, "content": [] })
}

/// SA-03, SA-04: a request with all members, and content as one block or many.
#[test]
fn sa_03_a_whole_request() {
    let request = decode(json!({
        "messages": [user(text("hi")), assistant(json!([text("a"), { "type": "image", "data": "AA==", "mimeType": "image/png" }]))],
        "maxTokens": 100.0,
        "modelPreferences": { "hints": [{ "name": "sonnet" }, {}, { "name": "gpt" }], "costPriority": 0.25, "speedPriority": 2, "intelligencePriority": 1 },
        "systemPrompt": "s",
        "includeContext": "allServers",
        "temperature": 0.5,
        "stopSequences": ["x", 1, "y"],
        "metadata": { "k": 1 },
        "tools": [{ "name": "t", "inputSchema": { "type": "object" } }],
        "toolChoice": { "mode": "required" },
    }))
    .unwrap();
    assert_eq!(request.messages.len(), 2);
    assert_eq!(request.messages[0].role, Role::User);
    assert_eq!(request.messages[0].content[0].as_text().as_deref(), Some("hi"));
    assert_eq!(request.messages[1].content.len(), 2);
    assert_eq!(request.max_tokens, 100);
    assert_eq!(
        request.preferences,
        ModelPreferences {
            hints: vec!["sonnet".into(), "gpt".into()],
            cost: Some(0.25),
            speed: None,
            intelligence: Some(1.0)
        }
    );
    assert_eq!(request.include_context, IncludeContext::AllServers);
    assert_eq!((request.system_prompt.as_deref(), request.temperature), (Some("s"), Some(0.5)));
    assert_eq!(request.stop_sequences, ["x".into(), "y".into()]);
    assert_eq!(request.metadata.as_ref().unwrap().as_str(), r#"{"k":1}"#);
    assert_eq!((request.tools.len(), request.tool_choice), (1, Some(ToolChoice::Required)));
    assert!(request.uses_tools());

    let least = decode(json!({ "messages": [], "maxTokens": 1, "includeContext": "galaxy" })).unwrap();
    assert_eq!((least.include_context, least.tool_choice), (IncludeContext::None, None));
    assert!(!least.uses_tools() && least.tools.is_empty());
}

/// One invalid part fails the whole request.
#[test]
fn what_cannot_be_read_fails_the_request() {
    for (params, path) in [
        (json!({ "maxTokens": 1 }), "messages"),
        (json!({ "messages": {}, "maxTokens": 1 }), "messages"),
        (json!({ "messages": [] }), "maxTokens"),
        (json!({ "messages": [], "maxTokens": -1 }), "maxTokens"),
        (json!({ "messages": [], "maxTokens": 1.5 }), "maxTokens"),
        (json!({ "messages": [], "maxTokens": "9" }), "maxTokens"),
        (json!({ "messages": [5], "maxTokens": 1 }), "messages[0]"),
        (json!({ "messages": [user(json!(5))], "maxTokens": 1 }), "messages[0].content"),
        (
            json!({ "messages": [user(text("a")), { "role": "system", "content": text("b") }], "maxTokens": 1 }),
            "messages[1].role",
        ),
        (
            json!({ "messages": [user(json!([text("a"), { "type": "text" }]))], "maxTokens": 1 }),
            "messages[0].content[1].text",
        ),
        (
            json!({ "messages": [user(json!({ "type": "tool_use", "id": "1", "name": "n", "input": 3 }))], "maxTokens": 1 }),
            "messages[0].content.input",
        ),
        (json!({ "messages": [], "maxTokens": 1, "tools": [{ "name": "t" }] }), "tools[0].inputSchema"),
        (json!({ "messages": [], "maxTokens": 1, "toolChoice": { "mode": "perhaps" } }), "toolChoice.mode"),
        (json!({ "messages": [], "maxTokens": 1, "toolChoice": 5 }), "toolChoice"),
    ] {
        assert_eq!(decode(params.clone()).unwrap_err().path, path, "{params}");
    }
    let long = vec![user(text("a")); MAX_MESSAGES + 1];
    assert!(decode(json!({ "messages": long, "maxTokens": 1 })).is_err());
    let wide = vec![text("a"); MAX_BLOCKS + 1];
    assert!(decode(json!({ "messages": [user(json!(wide))], "maxTokens": 1 })).is_err());
}

/// SA-04: an empty list of tools counts as an offer, and so do tool uses in the conversation.
#[test]
fn sa_04_what_has_to_do_with_tools() {
    for params in [
        json!({ "messages": [], "maxTokens": 1, "tools": [] }),
        json!({ "messages": [], "maxTokens": 1, "toolChoice": {} }),
        json!({ "messages": [assistant(used("1"))], "maxTokens": 1 }),
        json!({ "messages": [user(result("1"))], "maxTokens": 1 }),
    ] {
        assert!(decode(params.clone()).unwrap().uses_tools(), "{params}");
    }
    assert!(!decode(json!({ "messages": [], "maxTokens": 1, "tools": null })).unwrap().uses_tools());
}

/// SA-05: tool uses and results are balanced, turn by turn.
#[test]
fn sa_05_turns() {
    let turns = |messages: Vec<Value>| {
        let request = decode(json!({ "messages": messages, "maxTokens": 1 })).unwrap();
        request.check_turns().map_err(|error| error.index)
    };
    let two = || assistant(json!([text("let me see"), used("1"), used("2")]));
    let both = || user(json!([result("2"), result("1")]));
    assert_eq!(turns(vec![]), Ok(()));
    assert_eq!(turns(vec![user(text("q")), two(), both(), assistant(text("a"))]), Ok(()));
    // A later turn may reuse the ids of an earlier one.
    assert_eq!(turns(vec![two(), both(), two(), both()]), Ok(()));
    for (messages, index) in [
        (vec![two(), user(json!([result("1"), result("2"), text("x")]))], 1), // mixed
        (vec![two(), user(json!([result("1")]))], 1),                         // one is missing
        (vec![two(), user(text("x")), both()], 1),                            // not at once
        (vec![two(), user(json!([]))], 1),
        (vec![two()], 0),                                            // never
        (vec![user(result("1"))], 0),                                // of nothing
        (vec![two(), both(), user(result("1"))], 2),                 // twice
        (vec![two(), user(json!([result("1"), result("1")]))], 1),   // twice in one turn
        (vec![user(used("1")), user(result("1"))], 0),               // not the user's to use
        (vec![assistant(used("1")), assistant(result("1"))], 1),     // not the assistant's to answer
        (vec![assistant(json!([used("1"), used("1")])), both()], 0), // same id
    ] {
        assert_eq!(turns(messages.clone()), Err(index), "{messages:?}");
    }
}

/// SA-03: the first hint that is part of a name decides, whatever else is there.
#[test]
fn sa_03_hints_choose_in_order() {
    let wanted = |hints: &[&str]| ModelPreferences {
        hints: hints.iter().map(|hint| (*hint).into()).collect(),
        cost: Some(1.0),
        ..ModelPreferences::default()
    };
    let models = ["claude-haiku-4", "claude-sonnet-5", "gpt-6"];
    assert_eq!(wanted(&["gemini", "Sonnet", "gpt"]).choose(&models), Some("claude-sonnet-5"));
    assert_eq!(wanted(&["claude"]).choose(&models), Some("claude-haiku-4"));
    assert_eq!(wanted(&["gemini"]).choose(&models), None);
    assert_eq!(wanted(&[""]).choose(&models), None, "no hint, not any model");
    assert_eq!(wanted(&[]).choose(&models.map(String::from)), None);
}

/// SA-06: an array if the revision has arrays, else one block; `_meta` is kept.
#[test]
fn sa_06_results_by_revision() {
    let written = |result: &SamplingResult, revision: Revision| -> Option<Value> {
        result.to_json(revision).map(|json| json.decode().unwrap())
    };
    let one = SamplingResult::text("m", "a \"b\"\n");
    for revision in Revision::ALL {
        let whole = json!({ "role": "assistant", "content": text("a \"b\"\n"), "model": "m", "stopReason": "endTurn" });
        assert_eq!(written(&one, revision), Some(whole), "{revision}");
    }
    let kept = r#"{"type":"tool_use", "id":"1","name":"t","input":{"b":1.0,"a":2},"_meta":{"x":  [1]}}"#;
    let parallel = SamplingResult {
        content: vec![
            SamplingBlock::decode(&Json::parse(kept).unwrap()).unwrap(),
            SamplingBlock::tool_use("2", "u", &Json::parse(r#"{"c":3}"#).unwrap()),
        ],
        model: "m".into(),
        stop_reason: Some("toolUse".into()),
    };
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let json = parallel.to_json(revision).unwrap();
        let (content, reason) = (json.member("content").unwrap(), json.member("stopReason").unwrap());
        assert!(content.as_str().starts_with(&format!("[{kept},")), "{content}");
        assert_eq!(reason.as_str(), r#""toolUse""#);
    }
    assert_eq!(written(&parallel, Revision::V2025_06_18), None);
    let texts = SamplingResult {
        content: vec![SamplingBlock::text("a"), SamplingBlock::text("b")],
        model: "m".into(),
        stop_reason: None,
    };
    let joined = json!({ "role": "assistant", "content": text("a\nb"), "model": "m" });
    assert_eq!(written(&texts, Revision::V2025_06_18), Some(joined));
    assert_eq!(written(&texts, Revision::V2025_11_25).unwrap()["content"], json!([text("a"), text("b")]));
}
