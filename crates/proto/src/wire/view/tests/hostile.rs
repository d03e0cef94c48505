//! Tests of views with input that no server should send.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Decodes `json` with every view and every accessor, to check that none of them panics.
fn decode_everything(json: &Json) {
    let described = |titles: [Option<String>; 2], icons: &[Icon]| {
        drop(titles);
        for icon in icons {
            drop((icon.mime_type(), icon.sizes(), icon.theme()));
        }
    };
    let content = |content: &Content| drop((content.annotations(), content.meta(), content.json().clone()));
    for tool in Page::<Tool>::decode(json).into_iter().flat_map(|page| page.items) {
        described([tool.title(), tool.description()], &tool.icons());
        drop((tool.display_name(), tool.meta(), tool.task_support()));
        let _ = crate::wire::mirror::HeaderAnnotations::from_schema(&tool.input_schema);
    }
    for resource in Page::<Resource>::decode(json).into_iter().flat_map(|page| page.items) {
        described([resource.title(), resource.description()], &resource.icons());
        drop((resource.size(), resource.mime_type(), resource.annotations()));
    }
    for template in Page::<ResourceTemplate>::decode(json).into_iter().flat_map(|page| page.items) {
        drop((template.mime_type(), template.annotations()));
    }
    for prompt in Page::<Prompt>::decode(json).into_iter().flat_map(|page| page.items) {
        prompt.arguments().iter().for_each(|argument| drop((argument.title(), argument.description())));
    }
    for task in Page::<Task>::decode(json).into_iter().flat_map(|page| page.items) {
        drop((task.result(), task.error(), task.input_requests().is_ok(), task.status_message()));
    }
    if let Ok(result) = CallToolResult::decode(json) {
        result.content.iter().for_each(content);
        drop(result.text());
    }
    if let Ok(result) = GetPromptResult::decode(json) {
        result.messages.iter().for_each(|message| content(&message.content));
    }
    if let Ok(read) = ReadResourceResult::decode(json) {
        read.contents.iter().for_each(|part| drop((part.mime_type(), part.meta())));
    }
    if let Ok(result) = InitializeResult::decode(json) {
        drop((result.instructions(), result.capabilities.extension("x")));
    }
    if let Ok(Elicitation::Form(form)) = Elicitation::decode(json) {
        drop(form.defaults());
    }
    drop((DiscoverResult::decode(json), Completion::decode(json), InputRequired::decode(json)));
    drop((
        Progress::decode(json),
        LogMessage::decode(json),
        Cancellation::decode(json),
        ResourceUpdate::decode(json),
    ));
    drop((
        SubscriptionAcknowledgment::decode(json),
        ElicitationCompletion::decode(json),
        ElicitResult::decode(json),
    ));
    drop((UrlElicitation::from_error_data(json), subscription_id(json), result_type(json)));
    drop((
        Task::decode_created(json, TaskDialect::Extension),
        Task::decode_created(json, TaskDialect::Experiment),
    ));
}

#[test]
fn half_a_surrogate_pair() {
    let text = r#"{"content":[{"type":"text","text":"a\ud800\\b"}]}"#;
    assert_eq!(CallToolResult::decode(&json(text)).unwrap().text(), "a\u{fffd}\\b");
    // A name must be sent back unchanged, so such a tool is dropped.
    let text = r#"{"tools":[{"name":"\ud800","inputSchema":{}}]}"#;
    assert_eq!(Page::<Tool>::decode(&json(text)).unwrap().dropped.len(), 1);
}

#[test]
fn members_that_stand_twice() {
    let text = r#"{"tools":[{"name":"a","name":"b","inputSchema":{},"inputSchema":{"x":1}}],"nextCursor":"1","nextCursor":"2"}"#;
    let page = Page::<Tool>::decode(&json(text)).unwrap();
    assert_eq!((&*page.items[0].name, page.next_cursor.as_deref()), ("b", Some("2")));
}

#[test]
fn ten_thousand_levels() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let text = format!(
        r#"{{"content":[{{"type":"text","text":"t","x":{deep}}},{deep}],"structuredContent":{deep}}}"#
    );
    let result = CallToolResult::decode(&json(&text)).unwrap();
    assert_eq!((result.content.len(), result.dropped.len()), (1, 1));
    assert_eq!(result.structured.unwrap().as_str(), deep);
    decode_everything(&json(&text));
    let deep_schema = r#"{"properties":{"v":"#.repeat(5000) + "1" + &"}}".repeat(5000);
    decode_everything(&json(format!(r#"{{"tools":[{{"name":"n","inputSchema":{deep_schema}}}]}}"#)));
    decode_everything(&json(format!(r#"{{"message":"m","requestedSchema":{deep_schema}}}"#)));
}

/// The number of reported invalid elements is bounded, and so is the number of views.
#[test]
fn long_lists_of_nothing() {
    let zeros = json(format!(r#"{{"tools":[{}0]}}"#, "0,".repeat(1_000_000)));
    let page = Page::<Tool>::decode(&zeros).unwrap();
    assert_eq!((page.items.len(), page.dropped.len()), (0, read::MAX_DROPPED));
    let tiny = json(format!(r#"{{"content":[{}{{"type":""}}]}}"#, r#"{"type":""},"#.repeat(150_000)));
    let result = CallToolResult::decode(&tiny).unwrap();
    assert_eq!((result.content.len(), result.dropped.len()), (100_000, read::MAX_DROPPED));
    assert_eq!(result.dropped[0].index, 100_000);
    let wide = json(format!(r#"{{"tools":[],{}"nextCursor":"late"}}"#, r#""a":0,"#.repeat(1_000_000)));
    assert_eq!(Page::<Tool>::decode(&wide).unwrap().next_cursor, None);
}

/// An error names the place and repeats no more than 80 bytes of what the server wrote.
#[test]
fn errors_repeat_little() {
    let name = "é".repeat(10_000);
    let error = InputRequired::decode(&json(format!(r#"{{"inputRequests":{{"{name}":5}}}}"#))).unwrap_err();
    assert_eq!(error.path, format!("inputRequests.{}", "é".repeat(40)));
    let secret = "s".repeat(5000);
    let error =
        Progress::decode(&json(format!(r#"{{"progressToken":1,"progress":"{secret}"}}"#))).unwrap_err();
    assert_eq!(error.to_string(), "progress: expected a number, found a string");
    let control = InputRequired::decode(&json(r#"{"inputRequests":{"\u001b[2J":5}}"#)).unwrap_err();
    assert!(!control.to_string().contains('\u{1b}'));
}

/// Generates JSON from the names that the views look for.
fn shapes() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 48] = [
        "tools",
        "resources",
        "resourceTemplates",
        "prompts",
        "tasks",
        "task",
        "content",
        "contents",
        "messages",
        "name",
        "uri",
        "uriTemplate",
        "inputSchema",
        "outputSchema",
        "annotations",
        "title",
        "description",
        "icons",
        "src",
        "sizes",
        "type",
        "text",
        "data",
        "blob",
        "mimeType",
        "resource",
        "role",
        "completion",
        "values",
        "inputRequests",
        "requestState",
        "method",
        "params",
        "message",
        "requestedSchema",
        "properties",
        "items",
        "enum",
        "oneOf",
        "anyOf",
        "const",
        "taskId",
        "status",
        "arguments",
        "_meta",
        "capabilities",
        "x-mcp-header",
        "resultType",
    ];
    const WORDS: [&str; 9] =
        ["text", "image", "resource", "resource_link", "string", "array", "working", "url", ""];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((prop::sample::select(&NAMES[..]), inner), 0..6).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    /// No shape causes a panic.
    #[test]
    fn any_shape_can_be_looked_at(shape in shapes()) {
        decode_everything(&Json::encode(&shape).unwrap());
    }

    /// Every element of a list is either decoded or reported as dropped.
    #[test]
    fn nothing_is_lost_silently(elements in proptest::collection::vec(shapes(), 0..20)) {
        let page = Page::<Tool>::decode(&Json::encode(&serde_json::json!({"tools": elements})).unwrap()).unwrap();
        prop_assert_eq!(page.items.len() + page.dropped.len(), elements.len());
        for dropped in &page.dropped {
            let named = elements[dropped.index].get("name").is_some_and(Value::is_string);
            let described = elements[dropped.index].get("inputSchema").is_some_and(Value::is_object);
            prop_assert!(!(named && described));
        }
    }
}
