//! JSON Schemas of servers: supported dialects, bounds, and that nothing is fetched (group JS,
//! TL-06).

use std::io::ErrorKind;
use std::net::TcpListener;

use bowline::schema::{OutputCheck, Schema, SchemaError, SchemaVerdict, check_output};
use bowline::types::{CallToolResult, ListItem as _, Tool};
use bowline::{Json, Revision};
use serde_json::{Value, json};

fn text(value: &Value) -> Json {
    Json::encode(value).unwrap()
}

fn compile(schema: &Value) -> Schema {
    Schema::compile(&text(schema)).unwrap_or_else(|error| panic!("{error}: {schema:.200}"))
}

fn compile_error(schema: &Value) -> SchemaError {
    Schema::compile(&text(schema)).expect_err("it was accepted")
}

/// Returns the paths at which the value does not fit.
fn error_paths(schema: &Value, value: &Value) -> Vec<String> {
    match compile(schema).check(&text(value)) {
        Ok(()) => Vec::new(),
        Err(violations) => violations.into_iter().map(|violation| violation.at).collect(),
    }
}

/// JS-01: the default is 2020-12; an explicit `$schema` is respected; an unknown one is an error.
#[test]
fn js_01_dialects() {
    let tuple = json!({ "prefixItems": [{ "type": "string" }], "items": { "type": "integer" } });
    assert_eq!(error_paths(&tuple, &json!(["a", 1, 2])), Vec::<String>::new());
    assert_eq!(error_paths(&tuple, &json!([1, "a", 2])), ["/0", "/1"]);
    // Draft-07 has no `prefixItems`; its tuple is an array in `items`.
    let old = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "prefixItems": [{ "type": "string" }],
        "items": [{ "type": "integer" }],
        "additionalItems": false,
    });
    assert_eq!(error_paths(&old, &json!([1])), Vec::<String>::new());
    assert_eq!(error_paths(&old, &json!(["a"])), ["/0"]);
    assert_eq!(error_paths(&old, &json!([1, 2])), [""]);
    for name in [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-04/schema#",
    ] {
        assert_eq!(error_paths(&json!({ "$schema": name, "type": "string" }), &json!(1)), [""], "{name}");
    }
    for name in [
        json!("https://example.com/my-dialect"),
        json!("http://json-schema.org/draft-03/schema#"),
        json!(""),
        json!(7),
    ] {
        let error = compile_error(&json!({ "$schema": name }));
        assert!(matches!(error, SchemaError::Dialect(_)), "{error}");
        assert!(error.to_string().contains(name.as_str().unwrap_or("7")), "{error}");
    }
    let mixed = json!({ "properties": { "a": { "$schema": "http://json-schema.org/draft-07/schema#" } } });
    assert!(matches!(compile_error(&mixed), SchemaError::Dialect(_)));
}

/// JS-03: an external reference is refused by name and never fetched.
#[test]
fn js_03_nothing_is_fetched() {
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let url = format!("http://{}/schema.json", canary.local_addr().unwrap());
    for schema in [
        json!({ "$ref": url }),
        json!({ "$dynamicRef": format!("{url}#node") }),
        json!({ "properties": { "a": { "items": { "$ref": format!("{url}#/$defs/x") } } } }),
        json!({ "$id": url, "properties": { "a": { "$ref": "other.json" } } }),
        json!({ "$defs": { "unused": { "$ref": url } } }),
        json!({ "$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": url }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "definitions": { "a": { "$ref": url } } }),
        json!({ "$ref": "other.json" }),
        json!({ "$ref": "//127.0.0.1/x" }),
        json!({ "$ref": "file:///etc/passwd" }),
        json!({ "$ref": "http://[" }),
        json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" }),
    ] {
        let error = compile_error(&schema);
        let SchemaError::Remote(reference) = &error else { panic!("{schema}: {error}") };
        assert!(schema.to_string().contains(&**reference), "{error}");
        assert!(error.to_string().contains(&**reference), "{error}");
    }
    let dialect = compile_error(&json!({ "$schema": url }));
    assert!(matches!(dialect, SchemaError::Dialect(_)), "{dialect}");
    let nobody = canary.accept().map(drop).unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock, "somebody came");
    // A `$ref` inside a value is no reference.
    let data =
        json!({ "const": { "$ref": url }, "default": { "$ref": url }, "examples": [{ "$id": "http://[" }] });
    assert_eq!(error_paths(&data, &json!({ "$ref": url })), Vec::<String>::new());
}

/// JS-01, JS-03: references within the schema work, by path, by anchor and by `$id`, including
/// cycles that descend into the value.
#[test]
fn js_03_references_within() {
    let tree = json!({
        "$defs": { "a b": { "type": "integer" } },
        "properties": {
            "children": { "items": { "$ref": "#" } },
            "n": { "$ref": "#/$defs/a%20b" },
        },
    });
    let value = json!({ "n": 1, "children": [{ "n": 2, "children": [{ "n": "x" }] }, { "n": "y" }] });
    assert_eq!(error_paths(&tree, &value), ["/children/0/children/0/n", "/children/1/n"]);
    let named = json!({
        "$id": "https://example.com/root",
        "properties": { "a": { "$ref": "#number" }, "b": { "$ref": "part" }, "c": { "$ref": "/part#/$defs/flag" } },
        "$defs": {
            "number": { "$anchor": "number", "type": "number" },
            "part": { "$id": "part", "type": "string", "$defs": { "flag": { "type": "boolean" } } },
        },
    });
    assert_eq!(error_paths(&named, &json!({ "a": 1, "b": "", "c": true })), Vec::<String>::new());
    assert_eq!(error_paths(&named, &json!({ "a": "", "b": 1, "c": 1 })), ["/a", "/b", "/c"]);
    let dynamic = json!({
        "$id": "https://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": false,
        "$defs": { "tree": {
            "$id": "tree",
            "$dynamicAnchor": "node",
            "properties": { "data": true, "children": { "items": { "$dynamicRef": "#node" } } },
        } },
    });
    assert_eq!(error_paths(&dynamic, &json!({ "children": [{ "data": 1 }] })), Vec::<String>::new());
    assert_eq!(error_paths(&dynamic, &json!({ "children": [{ "daat": 1 }] })), ["/children/0"]);
    let recursive = json!({
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": true,
        "properties": { "a": { "$recursiveRef": "#" }, "b": { "type": "null" } },
        "additionalProperties": false,
    });
    assert_eq!(error_paths(&recursive, &json!({ "a": { "a": { "b": 1 } } })), ["/a/a/b"]);
    let error = compile_error(&json!({ "$ref": "#/$defs/nothing" }));
    assert_eq!(error.to_string(), "the schema refers to #/$defs/nothing, which it does not have");
}

/// JS-04: a cycle that does not descend is refused, in any notation.
#[test]
fn js_04_circles_are_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [{ "$ref": "#/$defs/a" }] } } }),
        json!({ "dependentSchemas": { "x": { "if": { "$ref": "#" } } } }),
        json!({ "$anchor": "a", "$ref": "#a" }),
        json!({ "$dynamicAnchor": "a", "not": { "$dynamicRef": "#a" } }),
        json!({ "$schema": "https://json-schema.org/draft/2019-09/schema", "not": { "$recursiveRef": "#" } }),
        json!({ "$id": "http://h/", "$ref": "http://h/" }),
        json!({ "properties": { "x": { "$id": "y", "$ref": "#" } } }),
        json!({ "x-own": { "y": { "$ref": "#/x-own/y" } }, "$ref": "#/x-own/y" }),
    ] {
        assert_eq!(compile_error(&schema), SchemaError::Endless, "{schema}");
    }
}

/// JS-04: bytes, nesting and the number of parts are bounded before compilation.
#[test]
fn js_04_huge_schemas_are_refused() {
    let huge = json!({ "description": "x".repeat(10 << 20) });
    assert!(matches!(compile_error(&huge), SchemaError::TooLarge(bytes) if bytes > 10 << 20));
    let many: serde_json::Map<_, _> = (0..20_000).map(|n| (n.to_string(), json!(true))).collect();
    assert_eq!(compile_error(&json!({ "properties": many })), SchemaError::TooManyParts);
    let mut deep = r#"{"allOf":["#.repeat(100_000);
    deep.push_str("{}");
    deep.push_str(&"]}".repeat(100_000));
    let deep = Json::parse(deep).unwrap();
    assert!(matches!(Schema::compile(&deep), Err(SchemaError::TooLarge(_))));
    let mut deep = r#"{"not":"#.repeat(10_000);
    deep.push_str("{}");
    deep.push_str(&"}".repeat(10_000));
    let deep = Json::parse(deep).unwrap();
    assert!(matches!(Schema::compile(&deep), Err(SchemaError::Unreadable(_))));
}

/// Makes a chain of definitions, each of which applies the next one twice.
fn bomb(levels: usize, apply: impl Fn(Value) -> Value) -> Value {
    let mut parts = serde_json::Map::new();
    for level in 0..levels {
        parts.insert(level.to_string(), apply(json!({ "$ref": format!("#/$defs/{}", level + 1) })));
    }
    parts.insert(levels.to_string(), json!({ "type": "integer" }));
    json!({ "$defs": parts, "$ref": "#/$defs/0" })
}

/// JS-04: a small schema that means 2^n applications is refused.
#[test]
fn js_04_exponential_schemas_are_refused() {
    type Apply = fn(Value) -> Value;
    let bombs: [(&str, Apply); 6] = [
        ("allOf", |next| json!({ "allOf": [next, next] })),
        ("anyOf", |next| json!({ "anyOf": [next, next] })),
        ("oneOf", |next| json!({ "oneOf": [next, { "not": next }] })),
        ("if", |next| json!({ "if": next, "then": next, "else": next })),
        ("unevaluated", |next| json!({ "allOf": [next], "unevaluatedProperties": false })),
        ("dependent", |next| json!({ "dependentSchemas": { "a": next, "b": next } })),
    ];
    for (name, apply) in bombs {
        let schema = bomb(60, apply);
        let verdict = compile(&schema).verdict(&text(&json!({ "a": 1, "b": 1 })));
        assert!(matches!(verdict, SchemaVerdict::Unchecked(_)), "{name}: {verdict:?}");
        // A small one is checked normally.
        let verdict = compile(&bomb(4, apply)).verdict(&text(&json!("x")));
        assert!(matches!(verdict, SchemaVerdict::Fits | SchemaVerdict::Violations(_)), "{name}: {verdict:?}");
    }
    // Also refused: two branches at each level of the value.
    let down = json!({
        "properties": { "a": { "allOf": [{ "$ref": "#" }, { "$ref": "#" }] } },
        "type": "object",
    });
    let mut value = json!(1);
    for _ in 0..100 {
        value = json!({ "a": value });
    }
    let verdict = compile(&down).verdict(&text(&value));
    assert!(matches!(verdict, SchemaVerdict::Unchecked(_)), "{verdict:?}");
    // A long chain is deep on the stack without being wide.
    let chain = bomb(5_000, |next| next);
    let verdict = compile(&chain).verdict(&text(&json!(1)));
    assert!(matches!(verdict, SchemaVerdict::Unchecked(_)), "{verdict:?}");
    let down = json!({ "$ref": "#/$defs/0", "$defs": (0..300).map(|n| (n.to_string(), if n < 299 {
        json!({ "$ref": format!("#/$defs/{}", n + 1) })
    } else {
        json!({ "properties": { "a": { "$ref": "#" } } })
    })).collect::<serde_json::Map<_, _>>() });
    let verdict = compile(&down).verdict(&text(&value));
    assert!(matches!(verdict, SchemaVerdict::Unchecked(_)), "{verdict:?}");
}

/// JS-04: resources with ids that refer to each other can be reached in factorially many orders,
/// each of which would be compiled.
#[test]
fn js_04_mutually_referring_resources_are_bounded() {
    let all = |count: usize| {
        let part = |n: usize| {
            let mut properties: serde_json::Map<_, _> =
                (0..count).map(|to| (to.to_string(), json!({ "$ref": format!("r{to}") }))).collect();
            properties.insert("any".into(), json!({ "$dynamicRef": "#node" }));
            json!({ "$id": format!("r{n}"), "$dynamicAnchor": "node", "properties": properties })
        };
        let parts: serde_json::Map<_, _> = (0..count).map(|n| (n.to_string(), part(n))).collect();
        json!({ "$id": "https://example.com/", "$ref": "r0", "$defs": parts })
    };
    assert_eq!(compile_error(&all(8)), SchemaError::TooManyParts);
    assert_eq!(compile_error(&all(90)), SchemaError::TooManyParts);
    assert_eq!(error_paths(&all(3), &json!({ "1": { "2": {} } })), Vec::<String>::new());
}

/// JS-04: the deepest allowed schema fits on the stack of a worker thread.
#[test]
fn js_04_the_deepest_that_is_checked_fits_on_the_stack() {
    type Apply = fn(Value) -> Value;
    let chains: [Apply; 6] = [
        |next| json!({ "allOf": [next] }),
        |next| json!({ "anyOf": [next, { "const": 7 }] }),
        |next| json!({ "oneOf": [next] }),
        |next| json!({ "if": next, "then": true }),
        |next| json!({ "not": { "not": next } }),
        |next| json!({ "properties": { "a": true }, "$ref": next["$ref"], "additionalProperties": true }),
    ];
    let work = move || {
        for (at, apply) in chains.into_iter().enumerate() {
            // Find the largest number of levels that is still checked.
            let (mut levels, mut too_many) = (1_usize, 400);
            while too_many - levels > 1 {
                let middle = levels.midpoint(too_many);
                let verdict = compile(&bomb(middle, apply)).verdict(&text(&json!(1)));
                let half =
                    if matches!(verdict, SchemaVerdict::Unchecked(_)) { &mut too_many } else { &mut levels };
                *half = middle;
            }
            assert!(levels > 100, "chain {at}: {levels}");
        }
        let tree = json!({ "properties": { "a": { "items": { "allOf": [{ "anyOf": [{ "$ref": "#" }, { "type": "null" }] }] } } } });
        let mut value = json!({ "a": 1 });
        for _ in 0..60 {
            value = json!({ "a": [value] });
        }
        compile(&tree).verdict(&text(&value))
    };
    let small = std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap();
    assert_eq!(small.join().unwrap(), SchemaVerdict::Fits);
}

/// JS-04: patterns run in linear time, and large ones are refused.
#[test]
fn js_04_patterns_run_in_linear_time() {
    let long = format!("{}b", "a".repeat(100_000));
    for pattern in ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*a){3}$"] {
        let schema = json!({ "pattern": pattern });
        let verdict = compile(&schema).verdict(&text(&json!(long)));
        assert!(matches!(verdict, SchemaVerdict::Violations(_)), "{pattern}: {verdict:?}");
    }
    let names =
        json!({ "propertyNames": { "pattern": "^(x+)+$" }, "patternProperties": { "^(a+)+$": false } });
    let mut members = serde_json::Map::new();
    members.insert(long.clone(), json!(1));
    assert_eq!(error_paths(&names, &Value::Object(members)).len(), 1);
    for pattern in ["((a{1,100}){1,100}){1,100}", "(((((a{9}){9}){9}){9}){9}){9}", "a{999999999}"] {
        assert_eq!(compile_error(&json!({ "pattern": pattern })), SchemaError::Patterns, "{pattern}");
    }
    let letters: serde_json::Map<_, _> =
        (0..3_000).map(|n| (n.to_string(), json!({ "pattern": format!("^[\\p{{L}}]{n}") }))).collect();
    assert_eq!(compile_error(&json!({ "properties": letters })), SchemaError::Patterns);
    // Fourteen kilobytes that expand to a gigabyte: a repetition multiplies a whole class.
    let names: serde_json::Map<_, _> =
        (0..400).map(|n| (n.to_string(), json!({ "pattern": format!("^\\p{{L}}{{50}}{n}") }))).collect();
    assert_eq!(compile_error(&json!({ "properties": names })), SchemaError::Patterns);
    // Ignored white space would hide what is repeated.
    assert_eq!(compile_error(&json!({ "pattern": "(?x)\\p{L} {50}" })), SchemaError::Patterns);
    // Each shorthand costs a pass over the whole pattern.
    assert_eq!(compile_error(&json!({ "pattern": "\\d".repeat(10_000) })), SchemaError::Patterns);
    assert_eq!(
        error_paths(&json!({ "pattern": "^[\\p{L}\\p{N} ]{1,64}$" }), &json!("Ærø 7")),
        Vec::<String>::new()
    );
    // The cost is text length times states: here 1e9.
    let schema = json!({ "pattern": "(?:a|b|ab|ba){1,1000}c" });
    let verdict = compile(&schema).verdict(&text(&json!("ab".repeat(100_000))));
    assert!(matches!(verdict, SchemaVerdict::Unchecked(_)), "{verdict:?}");
    // A check beyond the budget is refused.
    let error = compile_error(&json!({ "pattern": "^(?!x)(a+)\\1$" }));
    assert!(matches!(error, SchemaError::Invalid(_)), "{error}");
}

/// JS-04: large values are bounded in bytes, nesting and errors.
#[test]
fn js_04_large_values() {
    let strings = json!({ "items": { "type": "string" } });
    let violations = compile(&strings).check(&text(&json!(vec![1; 1_000]))).unwrap_err();
    assert_eq!(violations.len(), 20);
    let long = compile(&json!({ "type": "string" })).check(&text(&json!(["x".repeat(1 << 20)]))).unwrap_err();
    assert!(long[0].what.chars().count() <= 301, "{}", long[0].what.len());
    let verdict = compile(&strings).verdict(&text(&json!(vec![1; 1_000_000])));
    let SchemaVerdict::Violations(violations) = verdict else { panic!("{verdict:?}") };
    assert_eq!(violations.len(), 1, "no million reasons in memory");
    let verdict = compile(&strings).verdict(&text(&json!("x".repeat(9 << 20))));
    assert!(matches!(verdict, SchemaVerdict::Unchecked(_)));
    let deep = Json::parse("[".repeat(10_000) + &"]".repeat(10_000)).unwrap();
    assert!(matches!(compile(&strings).verdict(&deep), SchemaVerdict::Unchecked(_)));
    // Many possible members are looked up in many values.
    let many: serde_json::Map<_, _> = (0..5_000).map(|n| (n.to_string(), json!(true))).collect();
    let verdict =
        compile(&json!({ "items": { "properties": many } })).verdict(&text(&json!(vec![json!({}); 10_000])));
    assert!(matches!(verdict, SchemaVerdict::Unchecked(_)), "{verdict:?}");
    let equal = json!({ "items": { "uniqueItems": true }, "uniqueItems": true });
    let verdict = compile(&equal).verdict(&text(&json!([vec![0; 100_000]])));
    assert!(matches!(verdict, SchemaVerdict::Violations(_)), "{verdict:?}");
}

/// JS-04: long error paths are truncated to their end, or dropped where they would use too much
/// memory.
#[test]
fn js_04_long_names_of_members() {
    let schema =
        json!({ "additionalProperties": { "properties": { "last": { "items": { "type": "string" } } } } });
    let value = |length: usize, elements: usize| {
        let mut members = serde_json::Map::new();
        members.insert("é".repeat(length), json!({ "last": vec![1; elements] }));
        text(&Value::Object(members))
    };
    let violations = compile(&schema).check(&value(5_000, 30)).unwrap_err();
    assert_eq!(violations.len(), 20);
    for violation in &violations {
        assert_eq!(violation.at.chars().count(), 301, "{}", violation.at.len());
        assert!(violation.at.starts_with("…é") && violation.at.contains("é/last/"), "{}", violation.at);
    }
    assert_eq!(
        compile(&schema).check(&value(10, 1)).unwrap_err()[0].at,
        format!("/{}/last/0", "é".repeat(10))
    );
    // Each error would take two megabytes, and there would be ten thousand.
    let violations = compile(&schema).check(&value(1 << 20, 10_000)).unwrap_err();
    assert_eq!((violations.len(), &*violations[0].at), (1, ""));
    assert!(violations[0].what.contains("too large to say where"), "{violations:?}");
    let same = json!({ "allOf": vec![json!({ "additionalProperties": false }); 1_000] });
    let violations = compile(&same).check(&value(1 << 20, 0)).unwrap_err();
    assert!(violations[0].what.contains("too large to say where"), "{}", violations.len());
}

#[test]
fn invalid_schemas_are_refused() {
    for schema in
        [json!({ "type": 1 }), json!({ "pattern": "(" }), json!({ "properties": 1 }), json!([]), json!("x")]
    {
        let error = compile_error(&schema);
        assert!(matches!(error, SchemaError::Invalid(_)), "{schema}: {error}");
    }
    assert_eq!(error_paths(&json!(true), &json!(1)), Vec::<String>::new());
    assert_eq!(error_paths(&json!(false), &json!(1)), [""]);
}

fn tool(output: &Value) -> Tool {
    let tool = json!({ "name": "t", "inputSchema": { "type": "object" }, "outputSchema": output });
    Tool::decode(&text(&tool)).unwrap()
}

fn result(result: &Value) -> CallToolResult {
    CallToolResult::decode(&text(result)).unwrap()
}

/// TL-05, TL-06: `structuredContent` counts if present; a failed tool needs none; before 2026 only
/// objects are valid.
#[test]
fn tl_06_structured_content_is_checked() {
    let modern = Revision::V2026_07_28;
    let legacy = Revision::V2025_11_25;
    let object =
        tool(&json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] }));
    let good = result(&json!({ "content": [], "structuredContent": { "n": 1 } }));
    let bad = result(&json!({ "content": [], "structuredContent": { "n": "1" } }));
    for revision in [legacy, modern] {
        assert_eq!(check_output(&object, &good, revision), OutputCheck::Fits);
        let OutputCheck::Violations(why) = check_output(&object, &bad, revision) else { panic!("it fits") };
        assert_eq!(why[0].to_string(), "/n: \"1\" is not of type \"integer\"");
        let none = result(&json!({ "content": [] }));
        assert_eq!(check_output(&object, &none, revision), OutputCheck::Missing);
        let failed = result(&json!({ "content": [], "isError": true, "structuredContent": 1 }));
        assert_eq!(check_output(&object, &failed, revision), OutputCheck::NoSchema);
        let far = tool(&json!({ "type": "object", "$ref": "http://127.0.0.1:9/x" }));
        let OutputCheck::Unusable(why) = check_output(&far, &good, revision) else {
            panic!("it was fetched")
        };
        assert!(why.contains("http://127.0.0.1:9/x"), "{why}");
    }
    let plain = Tool::decode(&text(&json!({ "name": "t", "inputSchema": {} }))).unwrap();
    assert_eq!(check_output(&plain, &good, modern), OutputCheck::NoSchema);
    // Any JSON value is valid from 2026 on, only objects before.
    let falsy = [
        ("null", json!(null)),
        ("boolean", json!(false)),
        ("integer", json!(0)),
        ("string", json!("")),
        ("array", json!([])),
    ];
    for (kind, value) in falsy {
        let (tool, result) = (tool(&json!({ "type": kind })), result(&json!({ "structuredContent": value })));
        assert_eq!(check_output(&tool, &result, modern), OutputCheck::Fits, "{kind}");
        assert!(matches!(check_output(&tool, &result, legacy), OutputCheck::Unusable(_)), "{kind}");
        let misfit = check_output(&self::tool(&json!({ "description": "any" })), &result, legacy);
        assert!(matches!(misfit, OutputCheck::Violations(_)), "{kind}: {misfit:?}");
    }
}

/// JS-05: a schema is kept byte for byte.
#[test]
fn js_05_schemas_are_kept_as_they_came() {
    let schema = concat!(
        r##"{ "type":"object", "$defs" : {"a":{"$anchor":"x","type":"string"}},"##,
        r##" "properties":{"b":{"$ref":"#x"}, "a":{"x-mcp-header":"H","x-own":[1.0, 1e2]}},"##,
        r##" "if":{"required":["b"]},"then":{ }, "oneOf":[true],"additionalProperties":false }"##,
    );
    let tool = format!(r#"{{"name":"t","inputSchema":{schema},"outputSchema":{schema}}}"#);
    let tool = Tool::decode(&Json::parse(tool).unwrap()).unwrap();
    assert_eq!(tool.input_schema.as_str(), schema);
    assert_eq!(tool.output_schema.as_ref().unwrap().as_str(), schema);
    assert!(Schema::compile(&tool.input_schema).is_ok());
}
