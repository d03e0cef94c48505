//! Tests of the results of calls, reads, prompts and completions.

use super::*;

/// TL-04: blocks of every type, including an unknown one.
#[test]
fn tl_04_blocks_of_all_kinds() {
    let text = r#"{"content":[
        {"type":"text","text":"a\nb","annotations":{"audience":["assistant"]},"_meta":{"m":1}},
        {"type":"image","data":"aGk=","mimeType":"image/png"},
        {"type":"audio","data":"a\/Gk","mimeType":"audio/wav"},
        {"type":"resource_link","uri":"file:///x","name":"x","description":"d"},
        {"type":"resource","resource":{"uri":"file:///y","mimeType":"text/plain","text":"t"}},
        {"type":"hologram","x":1},
        {"type":"text"}, {"text":"no type"}, {"type":"resource","resource":{"uri":"z"}}, 5
    ],"isError":true}"#;
    let result = CallToolResult::decode(&json(text)).unwrap();
    let [
        Content::Text(plain),
        Content::Image(image),
        Content::Audio(audio),
        Content::ResourceLink(link),
        Content::Resource(resource),
        Content::Unknown(unknown),
    ] = &result.content[..]
    else {
        panic!("{:?}", result.content)
    };
    assert_eq!(plain.text.get(), "a\nb");
    assert_eq!((&*image.data.get(), &*image.mime_type), ("aGk=", "image/png"));
    assert!(matches!(image.data.get(), std::borrow::Cow::Borrowed(_)), "Base64 is not copied");
    assert_eq!(audio.data.get(), "a/Gk");
    assert_eq!((&*link.uri, link.description().as_deref()), ("file:///x", Some("d")));
    assert!(matches!(&resource.resource.body, ResourceBody::Text(text) if text.get() == "t"));
    assert_eq!(unknown.as_str(), r#"{"type":"hologram","x":1}"#);
    assert_eq!(result.content[0].annotations().audience, [Role::Assistant]);
    assert_eq!(result.content[0].meta().unwrap().as_str(), r#"{"m":1}"#);
    assert_eq!(result.text(), "a\nb");
    assert!(result.is_error);
    assert_eq!(
        reasons(&result.dropped),
        [
            "content[6].text: expected a string, found nothing",
            "content[7].type: expected a string, found nothing",
            "content[8].resource.text: expected a string, or one as `blob`, found nothing",
            "content[9]: expected an object, found a number",
        ]
    );
}

/// TL-05: structured content counts if it is present, even if it is `null`.
#[test]
fn tl_05_structured_content_by_presence() {
    let structured =
        |text: &str| CallToolResult::decode(&json(text)).unwrap().structured.map(|json| json.to_string());
    for value in ["null", "false", "0", "\"\"", "[]", r#"{"a": 1}"#] {
        let text = format!(r#"{{"content":[],"structuredContent":{value}}}"#);
        assert_eq!(structured(&text).as_deref(), Some(value));
    }
    assert_eq!(structured(r#"{"content":[]}"#), None);
    // Structured content alone is enough.
    assert!(structured(r#"{"structuredContent":{}}"#).is_some());
}

#[test]
fn a_call_result_must_be_an_object() {
    for (text, error) in [
        ("null", "expected an object, found null"),
        (r#"{"content":"done"}"#, "content: expected an array, found a string"),
    ] {
        assert_eq!(CallToolResult::decode(&json(text)).unwrap_err().to_string(), error);
    }
    assert!(!CallToolResult::decode(&json(r#"{"content":null,"isError":"no"}"#)).unwrap().is_error);
}

/// RS-01, RS-02
#[test]
fn rs_01_contents_of_a_resource() {
    let text = r#"{"contents":[{"uri":"file:///d/a","text":"x","mimeType":"text/plain"},{"uri":"file:///d/b","blob":"AA=="},{"uri":"c"}],
        "ttlMs":5,"cacheScope":"private"}"#;
    let read = ReadResourceResult::decode(&json(text)).unwrap();
    assert_eq!(read.contents.len(), 2);
    assert_eq!(read.contents[0].mime_type().as_deref(), Some("text/plain"));
    assert!(matches!(&read.contents[1].body, ResourceBody::Blob(blob) if blob.get() == "AA=="));
    assert_eq!((read.dropped.len(), read.cache.ttl_ms), (1, 5));
    assert!(ReadResourceResult::decode(&json(r#"{"contents":[]}"#)).unwrap().contents.is_empty());
    assert!(ReadResourceResult::decode(&json("{}")).is_err());
}

/// PM-01
#[test]
fn pm_01_messages_of_a_prompt() {
    let text = r#"{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"hi"}},
        {"role":"assistant","content":{"type":"image"}},{"content":{"type":"text","text":"x"}},{"role":"system","content":{"type":"new"}}]}"#;
    let prompt = GetPromptResult::decode(&json(text)).unwrap();
    assert_eq!(prompt.description().as_deref(), Some("d"));
    let roles: Vec<_> = prompt.messages.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["user", "system"]);
    assert!(matches!(prompt.messages[1].content, Content::Unknown(_)));
    assert_eq!(
        reasons(&prompt.dropped),
        [
            "messages[1].content.data: expected a string, found nothing",
            "messages[2].role: expected a string, found nothing"
        ]
    );
}

/// CP-03
#[test]
fn cp_03_completions() {
    let text = r#"{"completion":{"values":["a","b\u0021",3],"total":200,"hasMore":true}}"#;
    let completion = Completion::decode(&json(text)).unwrap();
    assert_eq!(completion.values, ["a".into(), Box::<str>::from("b!")]);
    assert_eq!((completion.total, completion.has_more), (Some(200), true));
    assert_eq!(reasons(&completion.dropped), ["values[2]: expected a string, found a number"]);
    assert!(Completion::decode(&json("{}")).is_err());
}

/// BM-05
#[test]
fn bm_05_result_types() {
    for (text, expected) in [
        ("{}", ResultType::Complete),
        (r#"{"resultType":null}"#, ResultType::Complete),
        (r#"{"content":[],"resultType":"complete"}"#, ResultType::Complete),
        (r#"{"resultType":"input_required"}"#, ResultType::InputRequired),
        (r#"{"a":1,"resultType":"task","b":2}"#, ResultType::Task),
        (r#"{ "a" : 1, "resultType" : "input_required" }"#, ResultType::InputRequired),
        (r#"{"resultType":"banana"}"#, ResultType::Unknown("banana".into())),
        (r#"{"resultType":5}"#, ResultType::Unknown("5".into())),
        // Not at the top level, or not a name.
        (r#"{"structuredContent":{"resultType":"banana"}}"#, ResultType::Complete),
        (r#"{"content":[{"type":"text","text":"resultType"}],"a":"resultType"}"#, ResultType::Complete),
        (r#"["resultType"]"#, ResultType::Complete),
    ] {
        assert_eq!(result_type(&json(text)), expected, "{text}");
    }
    let long = json(format!(r#"{{"resultType":"{}"}}"#, "é".repeat(1000)));
    assert_eq!(result_type(&long), ResultType::Unknown("é".repeat(40)));
}
