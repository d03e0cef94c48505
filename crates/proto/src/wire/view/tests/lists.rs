//! Tests of lists and their elements.

use super::*;

/// BM-08, JS-05: a malformed tool is dropped without failing the list, and unknown members are
/// kept.
#[test]
fn bm_08_a_bad_tool_costs_itself() {
    let text = r#"{"tools":[
        {"name":"a","inputSchema":{"type":"object" , "x-":1.50},"x-vendor":[1]},
        {"name":7,"inputSchema":{}},
        {"inputSchema":{}},
        {"name":"d"},
        {"name":"e","inputSchema":null},
        "f", null, 7, [],
        {"name":"j","inputSchema":{},"annotations":"bad","title":[],"description":3,"_meta":1,"outputSchema":true}
    ],"nextCursor":"","ttlMs":60000,"cacheScope":"public","_meta":{"a":1}}"#;
    let page = Page::<Tool>::decode(&json(text)).unwrap();
    let names: Vec<_> = page.items.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["a", "j"]);
    // JS-05: byte for byte.
    assert_eq!(page.items[0].input_schema.as_str(), r#"{"type":"object" , "x-":1.50}"#);
    assert!(page.items[0].json.as_str().contains(r#""x-vendor":[1]"#));
    // An invalid optional member counts as absent.
    let odd = &page.items[1];
    assert_eq!(
        (odd.title(), odd.description(), odd.meta(), odd.output_schema.clone()),
        (None, None, None, None)
    );
    assert_eq!(odd.annotations, ToolAnnotations::default());
    assert_eq!(
        reasons(&page.dropped),
        [
            "tools[1].name: expected a string, found a number",
            "tools[2].name: expected a string, found nothing",
            "tools[3].inputSchema: expected an object, found nothing",
            "tools[4].inputSchema: expected an object, found null",
            "tools[5]: expected an object, found a string",
            "tools[6]: expected an object, found null",
            "tools[7]: expected an object, found a number",
            "tools[8]: expected an object, found an array",
        ]
    );
    assert_eq!(page.dropped[0].index, 1);
    // PA-02: an empty cursor is valid.
    assert_eq!(page.next_cursor.as_deref(), Some(""));
    assert_eq!(page.cache, CacheHint { ttl_ms: 60_000, scope: CacheScope::Public });
    assert_eq!(page.meta.unwrap().as_str(), r#"{"a":1}"#);
}

#[test]
fn a_result_without_its_list_is_no_page() {
    for (text, error) in [
        ("{}", "tools: expected an array, found nothing"),
        (r#"{"tools":null}"#, "tools: expected an array, found null"),
        (r#"{"tools":{"a":1}}"#, "tools: expected an array, found an object"),
        (r#"{"tools":"x"}"#, "tools: expected an array, found a string"),
        ("[]", "expected an object, found an array"),
    ] {
        assert_eq!(Page::<Tool>::decode(&json(text)).unwrap_err().to_string(), error, "{text}");
    }
    assert!(Page::<Tool>::decode(&json(r#"{"tools":[]}"#)).unwrap().items.is_empty());
}

/// PA-01, PA-02, CA-01, CA-03
#[test]
fn ca_01_cursors_and_cache_hints() {
    let page = |rest: &str| Page::<Prompt>::decode(&json(format!(r#"{{"prompts":[]{rest}}}"#))).unwrap();
    assert_eq!(page(r#","nextCursor":"a\"\u00e9""#).next_cursor.as_deref(), Some("a\"é"));
    for end in ["", r#","nextCursor":null"#] {
        assert_eq!(page(end).next_cursor, None);
    }
    for (rest, ttl_ms) in [
        ("", 0),
        (r#","ttlMs":-5"#, 0),
        (r#","ttlMs":1.0"#, 1),
        (r#","ttlMs":1.5"#, 0),
        (r#","ttlMs":"5""#, 0),
        (r#","ttlMs":1e99"#, u64::MAX),
    ] {
        assert_eq!(page(rest).cache.ttl_ms, ttl_ms, "{rest}");
    }
    for rest in ["", r#","cacheScope":"private""#, r#","cacheScope":"world""#, r#","cacheScope":null"#] {
        assert_eq!(page(rest).cache.scope, CacheScope::Private, "{rest}");
    }
}

/// TL-02, TL-03: the displayed title, and the defaults of the hints.
#[test]
fn tl_03_titles_and_hints() {
    let tool = |rest: &str| {
        <Tool as ListItem>::decode(&json(format!(r#"{{"name":"Get","inputSchema":{{}}{rest}}}"#))).unwrap()
    };
    let plain = tool("");
    assert_eq!(plain.display_name(), "Get");
    assert!(
        !plain.is_read_only() && plain.is_destructive() && !plain.is_idempotent() && plain.is_open_world()
    );
    let titled = tool(r#","annotations":{"title":"Second"}"#);
    assert_eq!(titled.display_name(), "Second");
    assert_eq!(tool(r#","title":"First","annotations":{"title":"Second"}"#).display_name(), "First");
    let reader = tool(r#","annotations":{"readOnlyHint":true,"destructiveHint":true}"#);
    assert!(reader.is_read_only() && !reader.is_destructive() && reader.is_idempotent());
    let safe =
        tool(r#","annotations":{"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}"#);
    assert!(!safe.is_destructive() && safe.is_idempotent() && !safe.is_open_world());
    // A hint that is not a boolean is ignored.
    assert!(!tool(r#","annotations":{"readOnlyHint":"true"}"#).is_read_only());
}

/// TA-01, IC-01: the remaining members of a tool.
#[test]
fn ta_01_what_else_a_tool_says() {
    let text = r#"{"name":"t","title":"T","description":"does\n","inputSchema":{},"outputSchema":{"type":"array"},
        "execution":{"taskSupport":"required"},"_meta":{"k":1},
        "icons":[{"src":"https://x/a.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"},{"mimeType":"x"},3]}"#;
    let tool = <Tool as ListItem>::decode(&json(text)).unwrap();
    assert_eq!(tool.description().unwrap(), "does\n");
    assert_eq!(tool.output_schema.as_ref().unwrap().as_str(), r#"{"type":"array"}"#);
    assert_eq!(tool.task_support(), TaskSupport::Required);
    assert_eq!(tool.meta().unwrap().as_str(), r#"{"k":1}"#);
    let icons = tool.icons();
    assert_eq!(icons.len(), 1);
    assert_eq!((&*icons[0].src, icons[0].sizes()), ("https://x/a.png", vec!["48x48".to_owned()]));
    assert_eq!(
        (icons[0].mime_type().unwrap(), icons[0].theme().unwrap()),
        ("image/png".into(), "dark".into())
    );
}

/// RS-05, RS-06, PM-01
#[test]
fn rs_06_resources_templates_and_prompts() {
    let text = r#"{"resources":[{"uri":"file:///a","name":"a","size":12,"mimeType":"text/plain",
        "annotations":{"audience":["user","robot"],"priority":0.5,"lastModified":"2025-01-01T00:00:00Z"}},{"uri":"b:"},{"name":"c"}]}"#;
    let page = Page::<Resource>::decode(&json(text)).unwrap();
    let [first, second] = &page.items[..] else { panic!() };
    assert_eq!((first.size(), first.mime_type().as_deref()), (Some(12), Some("text/plain")));
    let hints = first.annotations();
    // An unknown audience does not invalidate the rest.
    assert_eq!(hints.audience, [Role::User, Role::Other("robot".into())]);
    assert_eq!((hints.priority, hints.last_modified.as_deref()), (Some(0.5), Some("2025-01-01T00:00:00Z")));
    // A missing name is replaced by the URI.
    assert_eq!(&*second.name, "b:");
    assert_eq!(reasons(&page.dropped), ["resources[2].uri: expected a string, found nothing"]);

    let text = r#"{"resourceTemplates":[{"uriTemplate":"file:///{+path}","name":"t"}]}"#;
    let page = Page::<ResourceTemplate>::decode(&json(text)).unwrap();
    assert_eq!(&*page.items[0].uri_template, "file:///{+path}");

    let text = r#"{"prompts":[{"name":"p","arguments":[{"name":"x","required":true,"description":"d"},{"required":true},{"name":"y"}]}]}"#;
    let arguments = Page::<Prompt>::decode(&json(text)).unwrap().items[0].arguments();
    let short: Vec<_> = arguments.iter().map(|argument| (&*argument.name, argument.required)).collect();
    assert_eq!(short, [("x", true), ("y", false)]);
    assert_eq!(arguments[0].description().as_deref(), Some("d"));
}

/// The views of a long list are slices of its buffer.
#[test]
fn a_long_list_costs_little_beside_its_buffer() {
    let schema = format!(r#"{{"type":"object","description":"{}"}}"#, "x".repeat(1100));
    let tools: Vec<_> = (0..830)
        .map(|n| format!(r#"{{"name":"tool_{n}","description":"d","inputSchema":{schema}}}"#))
        .collect();
    let list = json(format!(r#"{{"tools":[{}]}}"#, tools.join(",")));
    let page = Page::<Tool>::decode(&list).unwrap();
    assert_eq!(page.items.len(), 830);
    let buffer = list.as_bytes().as_ptr_range();
    for tool in &page.items {
        assert!(buffer.contains(&tool.json.as_bytes().as_ptr()));
        assert!(buffer.contains(&tool.input_schema.as_bytes().as_ptr()));
    }
    assert!(size_of::<Tool>() <= 136, "{}", size_of::<Tool>());
}
