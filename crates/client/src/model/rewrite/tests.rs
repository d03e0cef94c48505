//! Tests of schema rewriting, against a model of what each provider accepts.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

const OPEN_AI: Rules = Rules::OpenAi { strict: false };
const ALL: [Rules; 4] = [OPEN_AI, Rules::OpenAi { strict: true }, Rules::Anthropic, Rules::Gemini];

fn rewritten(schema: &Value, rules: Rules) -> Result<RewrittenSchema, RewriteError> {
    rewrite(&Json::encode(schema).unwrap(), rules, 100)
}

fn parameters(schema: &Value, rules: Rules) -> Value {
    rewritten(schema, rules).unwrap_or_else(|error| panic!("{error}: {schema}")).parameters.unwrap()
}

/// Judges a schema as its provider would.
fn judge(schema: &Value, rules: Rules) -> Result<(), String> {
    if rules == Rules::Gemini {
        return gemini(schema);
    }
    let root = schema.as_object().ok_or("the root is no object")?;
    for banned in ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"] {
        if root.contains_key(banned) {
            return Err(format!("{banned} at the root"));
        }
    }
    if root.get("type") != Some(&json!("object")) || !root.contains_key("properties") {
        return Err("the root is of no object".to_owned());
    }
    plain(schema, schema, rules, true)
}

fn plain(schema: &Value, root: &Value, rules: Rules, at_root: bool) -> Result<(), String> {
    const TAKEN: [&str; 24] = [
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "multipleOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "uniqueItems",
    ];
    let members = schema.as_object().ok_or_else(|| format!("no schema: {schema}"))?;
    for (keyword, value) in members {
        match keyword.as_str() {
            "$defs" if at_root => {
                for schema in value.as_object().ok_or("$defs")?.values() {
                    plain(schema, root, rules, false)?;
                }
            }
            "properties" => {
                for (name, schema) in value.as_object().ok_or("properties")? {
                    let fits = rules != Rules::Anthropic
                        || (name.len() <= 64
                            && !name.is_empty()
                            && name
                                .bytes()
                                .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)));
                    if !fits {
                        return Err(format!("a member is called {name:?}"));
                    }
                    plain(schema, root, rules, false)?;
                }
            }
            "items" => plain(value, root, rules, false)?,
            "additionalProperties" if value.is_object() => plain(value, root, rules, false)?,
            "anyOf" => {
                let choices = value.as_array().filter(|choices| !choices.is_empty()).ok_or("anyOf")?;
                choices.iter().try_for_each(|choice| plain(choice, root, rules, false))?;
            }
            "$ref" => {
                let name = value.as_str().and_then(|to| to.strip_prefix("#/$defs/")).ok_or("$ref")?;
                if root.get("$defs").and_then(|defs| defs.get(name)).is_none() {
                    return Err(format!("{value} leads nowhere"));
                }
            }
            keyword if TAKEN.contains(&keyword) => {}
            keyword => return Err(format!("{keyword} is not taken")),
        }
    }
    let says = |kind: &str| match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    };
    if says("array") && !members.contains_key("items") {
        return Err("array schema missing items".to_owned());
    }
    required(schema)
}

fn gemini(schema: &Value) -> Result<(), String> {
    let members = schema.as_object().ok_or_else(|| format!("no schema: {schema}"))?;
    if let Some(choices) = members.get("anyOf") {
        let choices = choices.as_array().filter(|choices| choices.len() > 1).ok_or("anyOf")?;
        if members.len() > 1 {
            return Err(format!("other fields alongside any_of: {schema}"));
        }
        return choices.iter().try_for_each(gemini);
    }
    for (keyword, value) in members {
        match keyword.as_str() {
            "properties" => {
                let properties = value.as_object().filter(|all| !all.is_empty()).ok_or("no properties")?;
                for (name, schema) in properties {
                    let mut bytes = name.bytes();
                    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
                    if !first
                        || name.len() > 64
                        || bytes.any(|byte| !byte.is_ascii_alphanumeric() && byte != b'_')
                    {
                        return Err(format!("a member is called {name:?}"));
                    }
                    gemini(schema)?;
                }
            }
            "items" => gemini(value)?,
            "enum" => {
                let listed = value.as_array().filter(|values| !values.is_empty()).ok_or("enum")?;
                if listed.iter().any(|value| value.as_str().is_none_or(str::is_empty)) {
                    return Err(format!("enum {value}"));
                }
            }
            "type" | "description" | "nullable" | "format" | "pattern" | "minLength" | "maxLength"
            | "minimum" | "maximum" | "minItems" | "maxItems" | "required" => {}
            keyword => return Err(format!("Unknown name {keyword}")),
        }
    }
    let kind = schema["type"].as_str().ok_or("no type")?;
    if !["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"].contains(&kind) {
        return Err(format!("type {kind}"));
    }
    if (kind == "ARRAY") != members.contains_key("items") {
        return Err(format!("items of {kind}"));
    }
    required(schema)
}

fn required(schema: &Value) -> Result<(), String> {
    let Some(required) = schema.get("required") else { return Ok(()) };
    let missing = |name: &&Value| schema["properties"].get(name.as_str().unwrap_or_default()).is_none();
    match required.as_array().ok_or("required")?.iter().find(missing) {
        Some(name) => Err(format!("required {name} is not defined")),
        None => Ok(()),
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(false)),
        (-3_i64..300).prop_map(|number| json!(number)),
        Just(json!(1.5)),
        Just(json!("")),
        Just(json!("a\u{202e}b")),
        Just(json!(["a", "a"])),
        Just(json!({ "a": { "type": "string" } })),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]".prop_map(String::from),
        Just("$top".to_owned()),
        Just("filter[id]".to_owned()),
        Just("9".to_owned()),
        Just(String::new()),
        Just("x".repeat(70)),
        Just("properties".to_owned()),
        Just("anyOf".to_owned()),
        Just("a.b-c".to_owned()),
    ]
}

/// Generates anything that might pass for a schema: valid and invalid values, positions and
/// references.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        prop::sample::select(vec![
            "string", "integer", "number", "boolean", "null", "array", "object", "odd"
        ])
        .prop_map(|kind| json!({ "type": kind, "title": "t" })),
        Just(json!({ "type": ["string", "null"], "format": "date-time", "pattern": "^a", "minLength": 1 })),
        Just(json!({ "enum": ["a", 1, null, ""], "description": "d\u{1b}" })),
        Just(json!({ "enum": ["a", "b"] })),
        Just(json!({ "const": "c" })),
        Just(json!({ "$ref": "#/$defs/a", "description": "beside" })),
        Just(json!({ "$ref": "#/$defs/b" })),
        Just(json!({ "$ref": "#" })),
        Just(json!({ "$ref": "#named" })),
        Just(json!({ "minimum": 1, "exclusiveMinimum": true, "x-mcp-header": "H" })),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let several = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array);
        let members = prop::collection::btree_map(name(), inner.clone(), 0..4).prop_map(|all| json!(all));
        let one = prop::sample::select(vec![
            "not",
            "if",
            "then",
            "else",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
            "additionalItems",
            "contentSchema",
        ]);
        let many = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems", "items"]);
        let keyed = prop::sample::select(vec!["properties", "patternProperties", "dependentSchemas"]);
        let word = prop::sample::select(vec![
            "type",
            "title",
            "description",
            "default",
            "enum",
            "const",
            "required",
            "minimum",
            "maxItems",
            "uniqueItems",
            "exclusiveMaximum",
            "multipleOf",
            "properties",
            "items",
            "anyOf",
            "$comment",
        ]);
        let keyword = prop_oneof![
            2 => (one.prop_map(str::to_owned), inner),
            2 => (many.prop_map(str::to_owned), several),
            3 => (keyed.prop_map(str::to_owned), members),
            2 => (word.prop_map(str::to_owned), scalar()),
            1 => Just(("type".to_owned(), json!("object"))),
            1 => Just(("required".to_owned(), json!(["a", "filter[id]", "zzz"]))),
        ];
        prop::collection::vec(keyword, 0..5)
            .prop_map(|keywords| Value::Object(keywords.into_iter().collect()))
    })
}

/// Whatever a server sends, the provider accepts the rewritten schema, or the tool is left out.
#[test]
fn rewritten_schemas_fit_the_dialect() {
    let (said, all) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(400));
    let ran = runner.run(&(schema(), schema(), schema()), |(root, a, b)| {
        let mut root = if root.is_object() { root } else { json!({}) };
        root["$defs"] = json!({ "a": a, "b": b, "named": { "$anchor": "named", "type": "string" } });
        for rules in ALL {
            all.set(all.get() + 1);
            if let Ok(RewrittenSchema { parameters: Some(parameters), .. }) = rewritten(&root, rules) {
                said.set(said.get() + 1);
                let judged = judge(&parameters, rules);
                prop_assert!(judged.is_ok(), "{rules:?}: {judged:?}\n{parameters}\nfrom {root}");
            }
        }
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(said.get() > all.get() / 4, "only {} of {} were said", said.get(), all.get());
}

/// Recursion is kept by two providers and impossible for the third.
#[test]
fn recursion_is_kept_where_it_can_be() {
    let tree = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "children": { "type": "array", "items": { "$ref": "#" } },
        },
        "required": ["name"],
    });
    for rules in [OPEN_AI, Rules::Anthropic] {
        let said = parameters(&tree, rules);
        judge(&said, rules).unwrap();
        let children = json!({ "$ref": "#/$defs/d2" });
        assert_eq!(said["properties"]["children"], children);
        assert_eq!(said["$defs"]["d2"], json!({ "type": "array", "items": { "$ref": "#/$defs/d1" } }));
        assert_eq!(said["$defs"]["d1"]["properties"]["children"], children);
    }
    assert_eq!(rewritten(&tree, Rules::Gemini).err(), Some(RewriteError::Recursive));
    // Through an `allOf`, where the reference itself is flattened.
    let within = json!({
        "type": "object",
        "properties": { "a": { "allOf": [{ "$ref": "#/$defs/n" }], "description": "first" } },
        "$defs": { "n": { "type": "object", "properties": { "b": { "allOf": [{ "$ref": "#/$defs/n" }], "title": "next" } } } },
    });
    for rules in [OPEN_AI, Rules::Anthropic] {
        judge(&parameters(&within, rules), rules).unwrap();
    }
    assert_eq!(rewritten(&within, Rules::Gemini).err(), Some(RewriteError::Recursive));
}

/// JS-02: composition at the root becomes one object with the members of all alternatives.
#[test]
fn js_02_a_composed_root_becomes_one_object() {
    let schema = json!({
        "type": "object",
        "properties": { "id": { "type": "integer" } },
        "required": ["id"],
        "allOf": [{ "properties": { "all": { "type": "boolean" } }, "required": ["all"] }],
        "oneOf": [
            { "properties": { "kind": { "const": "a" }, "x": { "type": "string" } }, "required": ["kind", "x"] },
            { "properties": { "kind": { "const": "b" }, "id": { "const": 7 } }, "required": ["kind"] },
        ],
        "not": { "required": ["y"] },
    });
    let said = parameters(&schema, Rules::Anthropic);
    judge(&said, Rules::Anthropic).unwrap();
    assert_eq!(
        said,
        json!({
            "type": "object",
            "properties": {
                "all": { "type": "boolean" },
                "id": { "type": "integer" },
                "kind": { "anyOf": [{ "const": "a" }, { "const": "b" }] },
                "x": { "type": "string" },
            },
            "required": ["all", "id", "kind"],
        })
    );
    assert_eq!(parameters(&schema, OPEN_AI), said);
    let pair = json!({ "type": "object", "properties": { "a": {}, "b": {} }, "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] });
    let note = rewritten(&pair, Rules::Anthropic).unwrap().note.unwrap();
    assert_eq!(
        note,
        r#"The arguments must also fit this JSON Schema: {"oneOf":[{"required":["a"]},{"required":["b"]}]}"#
    );
    let string = json!({ "type": "string" });
    assert_eq!(rewritten(&string, OPEN_AI).err(), Some(RewriteError::NotAnObject));
}

#[test]
fn gemini_schema_uses_supported_keywords() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "when": { "type": ["string", "null"], "format": "date-time", "description": "when" },
            "level": { "enum": [1, 2, 3], "description": "how much" },
            "mode": { "type": "string", "enum": ["r", "w"], "default": "r" },
            "pair": { "type": "array", "items": [{ "type": "number" }, { "type": "number" }], "minItems": 2 },
            "either": { "anyOf": [{ "type": "string" }, { "type": "integer", "exclusiveMinimum": 0 }, { "type": "null" }] },
            "shared": { "$ref": "#/definitions/point" },
            "max-size": { "type": "integer", "minimum": 1, "multipleOf": 2 },
            "map": { "type": "object", "additionalProperties": { "type": "string" } },
        },
        "required": ["max-size", "mode", "gone"],
        "definitions": { "point": { "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"] } },
    });
    let said = parameters(&schema, Rules::Gemini);
    gemini(&said).unwrap();
    let size = said["required"][0].as_str().unwrap().to_owned();
    assert!(size.starts_with("max_size_"), "{size}");
    assert_eq!(
        said,
        json!({
            "type": "OBJECT",
            "properties": {
                "when": { "type": "STRING", "format": "date-time", "description": "when", "nullable": true },
                "level": { "type": "INTEGER", "description": "how much One of [1,2,3]." },
                "mode": { "type": "STRING", "enum": ["r", "w"] },
                "pair": { "type": "ARRAY", "items": { "type": "NUMBER" }, "minItems": 2 },
                "either": { "anyOf": [{ "type": "STRING", "nullable": true }, { "type": "INTEGER", "nullable": true }] },
                "shared": { "type": "OBJECT", "properties": { "x": { "type": "NUMBER" } }, "required": ["x"] },
                (size.as_str()): { "type": "INTEGER", "minimum": 1 },
                "map": { "type": "OBJECT" },
            },
            "required": [size, "mode"],
        })
    );
    assert!(rewritten(&json!({ "type": "object" }), Rules::Gemini).unwrap().parameters.is_none());
}

/// Members with unsupported names are renamed, and renamed back.
#[test]
fn renamed_members_are_restored() {
    let schema = json!({ "type": "object", "properties": {
        "filter[id]": { "type": "object", "properties": { "$top": { "type": "integer" } } },
        "plain": {},
    }, "required": ["filter[id]"] });
    for rules in [Rules::Anthropic, Rules::Gemini] {
        let RewrittenSchema { parameters, keys, .. } = rewritten(&schema, rules).unwrap();
        let said = parameters.unwrap();
        judge(&said, rules).unwrap();
        let outer = said["required"][0].as_str().unwrap();
        let inner = said["properties"][outer]["properties"].as_object().unwrap().keys().next().unwrap();
        let arguments = json!({ (outer): { (inner.as_str()): 1 }, "plain": [{ (outer): 1 }] });
        let meant = json!({ "filter[id]": { "$top": 1 }, "plain": [{ "filter[id]": 1 }] });
        assert_eq!(
            keys.to_server(&Json::encode(&arguments).unwrap()).decode::<Value>().unwrap(),
            meant,
            "{rules:?}"
        );
        assert_eq!(
            keys.to_model(&Json::encode(&meant).unwrap()).decode::<Value>().unwrap(),
            arguments,
            "{rules:?}"
        );
        // Everything else stays as it was: large numbers, white space, strings.
        let text = |name: &str| {
            format!(
                r#"{{ {name} : 123456789012345678901234, "plain":"{outer}\\", "a":[1.0,"{outer}"], "\ud800":{{"b\"":1e400}} }}"#
            )
        };
        let escaped = format!("\"\\u{:04x}{}\"", u32::from(outer.as_bytes()[0]), &outer[1..]);
        for name in [format!("\"{outer}\""), escaped] {
            let back = keys.to_server(&Json::parse(text(&name)).unwrap());
            assert_eq!(back.as_str(), text(r#""filter[id]""#), "{rules:?}");
        }
        // A member that is named like the replacement of another.
        let mut taken = schema.clone();
        taken["properties"][outer] = json!({});
        let other = rewritten(&taken, rules).unwrap().parameters.unwrap();
        assert_eq!(other["properties"].as_object().unwrap().len(), 3, "{rules:?}");
    }
}

/// Strict mode is used only if the tool stays the same.
#[test]
fn strict_where_nothing_is_optional() {
    let strict = Rules::OpenAi { strict: true };
    let good = json!({ "type": "object", "properties": {
        "a": { "type": "string", "minLength": 3 },
        "b": { "type": "object", "properties": { "c": { "enum": [1, 2] } }, "required": ["c"] },
    }, "required": ["a", "b"] });
    let RewrittenSchema { parameters, strict: is_strict, .. } = rewritten(&good, strict).unwrap();
    assert!(is_strict);
    assert_eq!(
        parameters.unwrap(),
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "a": { "type": "string" },
                "b": { "type": "object", "additionalProperties": false, "properties": { "c": { "type": "integer", "enum": [1, 2] } }, "required": ["c"] },
            },
            "required": ["a", "b"],
        })
    );
    for (why, change) in [
        ("optional", json!({ "required": ["a"] })),
        ("open", json!({ "additionalProperties": true })),
        ("anything", json!({ "properties": { "a": {}, "b": {} } })),
        (
            "map",
            json!({ "properties": { "a": { "type": "object", "additionalProperties": {} }, "b": { "type": "null" } } }),
        ),
    ] {
        let mut schema = good.clone();
        for (keyword, value) in change.as_object().unwrap() {
            schema[keyword] = value.clone();
        }
        let loose = rewritten(&schema, strict).unwrap();
        assert!(!loose.strict, "{why}");
        assert_eq!(loose.parameters.unwrap(), parameters_of(&schema), "{why}");
    }
}

/// Strict mode requires a type beside an `enum`.
#[test]
fn strict_values_have_a_type() {
    let strict = Rules::OpenAi { strict: true };
    let schema =
        |member: &Value| json!({ "type": "object", "properties": { "a": member }, "required": ["a"] });
    for (member, kind) in [
        (json!({ "enum": ["x", "y"] }), json!("string")),
        (json!({ "enum": ["x", null] }), json!(["null", "string"])),
        (json!({ "enum": [1, 1.5] }), json!("number")),
        (json!({ "const": true }), json!("boolean")),
    ] {
        let RewrittenSchema { parameters, strict, .. } = rewritten(&schema(&member), strict).unwrap();
        assert!(strict, "{member}");
        assert_eq!(parameters.unwrap()["properties"]["a"]["type"], kind, "{member}");
    }
    for member in [json!({ "enum": [["x"]] }), json!({ "const": {} })] {
        assert!(!rewritten(&schema(&member), strict).unwrap().strict, "{member}");
    }
}

/// A description beside a reference is kept.
#[test]
fn descriptions_beside_a_reference_are_kept() {
    let schema = json!({
        "type": "object",
        "properties": {
            "from": { "$ref": "#/$defs/p", "description": "where it begins" },
            "to": { "$ref": "#/$defs/p", "description": " where it ends " },
            "via": { "$ref": "#/$defs/p", "description": " " },
        },
        "required": ["from", "to", "via"],
        "$defs": { "p": { "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"], "description": "a point" } },
    });
    for rules in [OPEN_AI, Rules::Anthropic] {
        let said = parameters(&schema, rules);
        judge(&said, rules).unwrap();
        let properties = &said["properties"];
        assert_eq!(properties["from"], json!({ "$ref": "#/$defs/d1", "description": "where it begins" }));
        assert_eq!(properties["to"], json!({ "$ref": "#/$defs/d1", "description": "where it ends" }));
        assert_eq!(properties["via"], json!({ "$ref": "#/$defs/d1" }));
    }
    let said = rewritten(&schema, Rules::OpenAi { strict: true }).unwrap();
    assert!(said.strict);
    // Strict mode allows nothing beside a reference.
    assert_eq!(said.parameters.unwrap()["properties"]["from"], json!({ "$ref": "#/$defs/d1" }));
}

/// The interface for the rest of the crate, by dialect.
#[test]
fn a_schema_for_a_provider() {
    let schema = Json::parse(r#"{"type":"object","properties":{"a b":{"pattern":"(?=x)"}}}"#).unwrap();
    for api in [ModelApi::OpenAi, ModelApi::OpenAiResponses, ModelApi::Anthropic, ModelApi::Gemini] {
        let (said, keys) = for_provider(&schema, api).unwrap();
        let name = said["properties"].as_object().unwrap().keys().next().unwrap();
        assert!(said["properties"][name].get("pattern").is_none());
        let arguments = Json::encode(&json!({ (name.as_str()): 1 })).unwrap();
        let meant = keys.to_server(&arguments);
        assert_eq!(meant.as_str(), r#"{"a b":1}"#);
        assert_eq!(keys.to_model(&meant), arguments);
    }
    let none = Json::empty_object();
    assert_eq!(
        for_provider(&none, ModelApi::Anthropic).unwrap().0,
        json!({ "type": "object", "properties": {} })
    );
    assert_eq!(for_provider(&none, ModelApi::Gemini).unwrap().0, Value::Null);
}

fn parameters_of(schema: &Value) -> Value {
    parameters(schema, OPEN_AI)
}

/// JS-04: a small schema that would expand 2^n times is refused.
#[test]
fn js_04_bombs_are_not_written_out() {
    let mut all = Map::new();
    let mut any = Map::new();
    for level in 0..60 {
        let next = json!({ "$ref": format!("#/$defs/{}", level + 1) });
        all.insert(level.to_string(), json!({ "allOf": [next, next] }));
        any.insert(level.to_string(), json!({ "type": "object", "properties": { "a": next, "b": next } }));
    }
    for defs in [&mut all, &mut any] {
        defs.insert("60".to_owned(), json!({ "type": "string" }));
    }
    let all = json!({ "type": "object", "$defs": all, "properties": { "x": { "$ref": "#/$defs/0" } } });
    let any = json!({ "type": "object", "$defs": any, "properties": { "x": { "$ref": "#/$defs/0" } } });
    for rules in ALL {
        assert!(matches!(rewritten(&all, rules).err(), Some(RewriteError::TooLarge)), "{rules:?}");
    }
    assert!(rewritten(&any, Rules::Gemini).is_err());
    let large = json!({ "type": "object", "properties": (0..200).map(|n| (n.to_string(), json!({ "$ref": "#/$defs/a" }))).collect::<Map<_, _>>(), "$defs": { "a": { "enum": vec!["x".repeat(100); 1000] } } });
    assert_eq!(rewritten(&large, Rules::Gemini).err(), Some(RewriteError::TooLarge));
    assert!(rewritten(&large, Rules::Anthropic).is_ok(), "a definition is written once");
}

/// JS-03: a schema with an external reference is refused.
#[test]
fn js_03_external_references_are_refused() {
    let far = json!({ "type": "object", "properties": { "a": { "$ref": "https://example.com/a" } } });
    for rules in ALL {
        let error = rewritten(&far, rules).err().unwrap();
        assert!(error.to_string().contains("https://example.com/a"), "{error}");
    }
}
