//! Tests of inputs, tasks and elicitations.

use std::time::Duration;

use super::*;

/// MR-01, MR-04: the requested inputs in order, and the state byte for byte.
#[test]
fn mr_04_input_required() {
    let text = r#"{"resultType":"input_required","inputRequests":{"k2":{"method":"roots/list"},
        "k1":{"method":"elicitation/create","params":{"mode":"form" }}},"requestState":"{\"a\": 1}\u0041"}"#;
    let wanted = InputRequired::decode(&json(text)).unwrap();
    let keys: Vec<_> = wanted.requests.iter().map(|(key, request)| (&**key, &*request.method)).collect();
    assert_eq!(keys, [("k2", "roots/list"), ("k1", "elicitation/create")]);
    assert_eq!(wanted.requests[0].1.params, None);
    assert_eq!(wanted.requests[1].1.params.as_ref().unwrap().as_str(), r#"{"mode":"form" }"#);
    assert!(!format!("{wanted:?}").contains("u0041"), "the state is not shown");
    assert_eq!(wanted.state.unwrap().as_str(), r#""{\"a\": 1}\u0041""#);

    let state_only = InputRequired::decode(&json(r#"{"requestState":""}"#)).unwrap();
    assert!(state_only.requests.is_empty() && state_only.state.is_some());
    for bad in ["{}", r#"{"inputRequests":{}}"#, r#"{"inputRequests":[]}"#, r#"{"inputRequests":{"k":{}}}"#] {
        assert!(InputRequired::decode(&json(bad)).is_err(), "{bad}");
    }
    let error = InputRequired::decode(&json(r#"{"inputRequests":{"k":{"method":1}}}"#)).unwrap_err();
    assert_eq!(error.to_string(), "inputRequests.k.method: expected a string, found a number");
}

/// TA-02, TN-03, TN-10: the two dialects of tasks are similar but not compatible.
#[test]
fn tn_10_tasks_in_both_forms() {
    let text = r#"{"task":{"taskId":"t","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":61000,"pollInterval":500}}"#;
    let old = Task::decode_created(&json(text), TaskDialect::Experiment).unwrap();
    assert_eq!((&*old.id, old.status), ("t", TaskStatus::Working));
    assert_eq!(
        (old.ttl, old.poll_interval),
        (Some(Duration::from_secs(61)), Some(Duration::from_millis(500)))
    );
    assert_eq!(old.created_at().as_deref(), Some("c"));
    assert!(Task::decode_created(&json(text), TaskDialect::Extension).is_err());

    let text = r#"{"resultType":"task","taskId":"t","status":"input_required","statusMessage":"m","ttlMs":null,"pollIntervalMs":250,
        "inputRequests":{"k":{"method":"roots/list"}}}"#;
    let new = Task::decode_created(&json(text), TaskDialect::Extension).unwrap();
    assert_eq!((new.ttl, new.poll_interval), (None, Some(Duration::from_millis(250))));
    assert_eq!(new.status_message().as_deref(), Some("m"));
    assert_eq!(new.input_requests().unwrap().len(), 1);
    assert!(Task::decode_created(&json(text), TaskDialect::Experiment).is_err());

    // TN-04: the outcome comes with the state.
    let done = r#"{"taskId":"t","status":"completed","result":{"content":[],"isError":true}}"#;
    let done = Task::decode(&json(done), TaskDialect::Extension).unwrap();
    assert!(done.status.is_terminal() && done.error().is_none());
    assert!(CallToolResult::decode(&done.result().unwrap()).unwrap().is_error);
    assert!(Task::decode(&json(r#"{"taskId":"t","status":"paused"}"#), TaskDialect::Extension).is_err());

    let list = r#"{"tasks":[{"taskId":"a","status":"failed"},{"status":"failed"}],"nextCursor":"n"}"#;
    let list = Page::<Task>::decode(&json(list)).unwrap();
    assert_eq!((list.items.len(), list.dropped.len()), (1, 1));
}

fn form(properties: &str, required: &str) -> Result<Form, ViewError> {
    let text = format!(
        r#"{{"message":"m","requestedSchema":{{"type":"object","properties":{properties},"required":{required}}}}}"#
    );
    match Elicitation::decode(&json(text))? {
        Elicitation::Form(form) => Ok(form),
        Elicitation::Url(_) => panic!("EL-02: no mode means a form"),
    }
}

/// EL-02, EL-04, EL-06: the simple fields and their defaults.
#[test]
fn el_06_fields_and_defaults() {
    let form = form(
        r#"{"z":{"type":"string","title":"Z","description":"d","minLength":1,"maxLength":9,"format":"email","pattern":"x","default":"q"},
            "a":{"type":"integer","minimum":18,"maximum":99.5,"default":20},
            "n":{"type":"number","default":"no number"},
            "b":{"type":"boolean","default":false}}"#,
        r#"["a"]"#,
    )
    .unwrap();
    let names: Vec<_> = form.fields.iter().map(|field| (&*field.name, field.required)).collect();
    assert_eq!(names, [("z", false), ("a", true), ("n", false), ("b", false)]);
    assert_eq!(form.fields[0].title().as_deref(), Some("Z"));
    assert_eq!(
        form.fields[0].kind,
        FieldKind::Text {
            min_length: Some(1),
            max_length: Some(9),
            format: Some("email".into()),
            pattern: Some("x".into())
        }
    );
    assert_eq!(
        form.fields[1].kind,
        FieldKind::Number { integer: true, minimum: Some(18.0), maximum: Some(99.5) }
    );
    assert_eq!(form.fields[2].default, None, "a default of the wrong type is none");
    let defaults: serde_json::Value = form.defaults().decode().unwrap();
    assert_eq!(defaults, serde_json::json!({"z": "q", "a": 20, "b": false}));
}

/// EL-05: every way to write a choice.
#[test]
fn el_05_choices() {
    let form = form(
        r#"{"e":{"type":"string","enum":["x","y"],"default":"y"},
            "n":{"type":"string","enum":["x","y"],"enumNames":["X"]},
            "o":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y"}]},
            "m":{"type":"array","items":{"type":"string","enum":["x"]},"minItems":1,"maxItems":2,"default":["x"]},
            "t":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}}}"#,
        "[]",
    )
    .unwrap();
    let option = |value: &str, title: &str| ChoiceOption { value: value.into(), title: title.into() };
    let kinds: Vec<_> = form.fields.iter().map(|field| field.kind.clone()).collect();
    assert_eq!(kinds[0], FieldKind::Choice(vec![option("x", "x"), option("y", "y")]));
    assert_eq!(kinds[1], FieldKind::Choice(vec![option("x", "X"), option("y", "y")]));
    assert_eq!(kinds[2], FieldKind::Choice(vec![option("x", "X"), option("y", "y")]));
    let some = |title: &str, min_items, max_items| FieldKind::Choices {
        options: vec![option("x", title)],
        min_items,
        max_items,
    };
    assert_eq!(kinds[3], some("x", Some(1), Some(2)));
    assert_eq!(kinds[4], some("X", None, None));
    assert_eq!(form.fields[3].default.as_ref().unwrap().as_str(), r#"["x"]"#);
}

/// EL-04: a field that is not understood is refused.
#[test]
fn el_04_forms_to_be_declined() {
    for (properties, path) in [
        (r#"{"v":{"type":"object","properties":{}}}"#, "requestedSchema.properties.v.type"),
        (r#"{"v":{}}"#, "requestedSchema.properties.v.type"),
        (r#"{"v":{"type":["string","null"]}}"#, "requestedSchema.properties.v.type"),
        (r#"{"v":{"type":"array","items":{"type":"string"}}}"#, "requestedSchema.properties.v.items.enum"),
        (r#"{"v":{"type":"string","enum":[1]}}"#, "requestedSchema.properties.v.enum"),
        (r#"{"v":true}"#, "requestedSchema.properties.v"),
        ("[]", "requestedSchema.properties"),
        (
            r#"{"v":{"type":"string","default":"ab"},"v":{"type":"string","enum":["a"]}}"#,
            "requestedSchema.properties.v",
        ),
        (r#"{"v":{"type":"string","allOf":[]}}"#, "requestedSchema.properties.v.allOf"),
        (r#"{"v":{"type":"string","not":{"const":""}}}"#, "requestedSchema.properties.v.not"),
        (r##"{"v":{"type":"string","$ref":"#/x"}}"##, "requestedSchema.properties.v.$ref"),
        (r#"{"v":{"type":"integer","enum":[1,2]}}"#, "requestedSchema.properties.v.enum"),
        (r#"{"v":{"type":"boolean","oneOf":[{"const":true}]}}"#, "requestedSchema.properties.v.oneOf"),
        (
            r#"{"v":{"type":"array","items":{"enum":["x"]},"contains":{}}}"#,
            "requestedSchema.properties.v.contains",
        ),
        // Draft 4 has a boolean here, which is neither a number nor absent.
        (
            r#"{"v":{"type":"number","minimum":1,"exclusiveMinimum":true}}"#,
            "requestedSchema.properties.v.exclusiveMinimum",
        ),
        (r#"{"v":{"type":"number","minimum":"1"}}"#, "requestedSchema.properties.v.minimum"),
        (r#"{"v":{"type":"number","multipleOf":0}}"#, "requestedSchema.properties.v.multipleOf"),
        (
            r#"{"v":{"type":"array","items":{"enum":["x"]},"uniqueItems":1}}"#,
            "requestedSchema.properties.v.uniqueItems",
        ),
    ] {
        assert_eq!(form(properties, "[]").unwrap_err().path, path, "{properties}");
    }
}

/// EL-04: conditions on the form as a whole are refused.
#[test]
fn el_04_a_form_is_a_flat_object() {
    for (schema, path) in [
        ("{}", "requestedSchema.type"),
        (r#"{"properties":{"v":{"type":"string"}}}"#, "requestedSchema.type"),
        (r#"{"type":"string"}"#, "requestedSchema.type"),
        (r#"{"type":["object","null"]}"#, "requestedSchema.type"),
        (r##"{"type":"object","$ref":"#/$defs/a"}"##, "requestedSchema.$ref"),
        (r#"{"type":"object","allOf":[]}"#, "requestedSchema.allOf"),
        (r#"{"type":"object","anyOf":[]}"#, "requestedSchema.anyOf"),
        (r#"{"type":"object","oneOf":[{"required":["a"]}]}"#, "requestedSchema.oneOf"),
        (r#"{"type":"object","not":{}}"#, "requestedSchema.not"),
        (r#"{"type":"object","if":{}}"#, "requestedSchema.if"),
        (r#"{"type":"object","minProperties":1}"#, "requestedSchema.minProperties"),
        (r#"{"type":"object","required":["a"]}"#, "requestedSchema.required"),
        (r#"{"type":"object","required":[1]}"#, "requestedSchema.required"),
        (r#"{"type":"object","required":true}"#, "requestedSchema.required"),
    ] {
        let text = format!(r#"{{"message":"m","requestedSchema":{schema}}}"#);
        assert_eq!(Elicitation::decode(&json(text)).unwrap_err().path, path, "{schema}");
    }
    // Keywords that say nothing about the content are ignored.
    let plain = r#"{"$schema":"x","title":"T","type":"object","$defs":{},"additionalProperties":false}"#;
    let text = format!(r#"{{"message":"m","requestedSchema":{plain}}}"#);
    assert!(Elicitation::decode(&json(text)).is_ok());
}

/// EL-08, EL-10, EL-11, EL-12
#[test]
fn el_11_pages_and_answers() {
    let text = r#"{"mode":"url","message":"m","url":"https://srv.example/connect","elicitationId":"e"}"#;
    let page = UrlElicitation {
        message: "m".into(),
        url: "https://srv.example/connect".into(),
        id: Some("e".into()),
    };
    assert_eq!(Elicitation::decode(&json(text)), Ok(Elicitation::Url(page.clone())));
    let data = json(format!(r#"{{"elicitations":[{text},{{"mode":"url"}}]}}"#));
    assert_eq!(UrlElicitation::from_error_data(&data), [page]);
    for mode in ["\"voice\"", "5"] {
        assert!(Elicitation::decode(&json(format!(r#"{{"mode":{mode},"message":"m"}}"#))).is_err());
    }
    for answer in [
        ElicitResult::Accept(Some(json(r#"{"a": 1}"#))),
        ElicitResult::Accept(None),
        ElicitResult::Decline,
        ElicitResult::Cancel,
    ] {
        assert_eq!(ElicitResult::decode(&answer.to_json()), Ok(answer));
    }
    assert!(ElicitResult::decode(&json(r#"{"action":"maybe"}"#)).is_err());
}

/// EL-06: an integer default may be written with a fraction or exponent.
#[test]
fn el_06_a_whole_default_is_kept() {
    for (default, kept) in [("3", true), ("3.0", true), ("3e2", true), ("3.5", false), ("\"3\"", false)] {
        let params = format!(
            r#"{{"message":"m","requestedSchema":{{"type":"object","properties":{{"n":{{"type":"integer","default":{default}}}}}}}}}"#
        );
        let Ok(Elicitation::Form(form)) = Elicitation::decode(&Json::parse(params).unwrap()) else {
            panic!("a form")
        };
        assert_eq!(form.fields[0].default.is_some(), kept, "{default}");
    }
}
