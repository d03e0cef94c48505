//! Fuzzes JSON Schemas of a server: whatever they say, they are compiled and evaluated in bounded
//! time.
//!
//! Half of the inputs are two texts, a schema and a value. The others are built from the keywords
//! of JSON Schema, so that most of them are valid schemas.
#![no_main]

use arbitrary::Unstructured;
use bowline::schema::{Schema, SchemaVerdict};
use bowline_fuzz::parts;
use bowline_proto::wire::Json;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

fuzz_target!(|input: &[u8]| {
    let [kind, rest @ ..] = input else { return };
    let pair = if kind % 2 == 0 { written(rest) } else { made(rest) };
    let Some((schema, value)) = pair else { return };
    let Ok(schema) = Schema::compile(&schema) else { return };
    match schema.verdict(&value) {
        SchemaVerdict::Fits => assert!(schema.check(&value).is_ok()),
        SchemaVerdict::Violations(violations) => assert!(!violations.is_empty(), "it is said why"),
        _ => {}
    }
});

fn written(input: &[u8]) -> Option<(Json, Json)> {
    let mut texts = parts(input).map(|part| Json::parse(Bytes::copy_from_slice(part)).ok());
    Some((texts.next()??, texts.next().flatten().unwrap_or_else(Json::empty_object)))
}

fn made(input: &[u8]) -> Option<(Json, Json)> {
    let mut bytes = Unstructured::new(input);
    let schema = schema(&mut bytes, 0).ok()?;
    let value = value(&mut bytes, 0).ok()?;
    Some((Json::encode(&schema).ok()?, Json::encode(&value).ok()?))
}

/// Maximum nesting depth.
const DEPTH: usize = 6;

fn schema(bytes: &mut Unstructured<'_>, depth: usize) -> arbitrary::Result<Value> {
    if depth == DEPTH || bytes.is_empty() {
        return Ok(Value::Bool(true));
    }
    let mut members = Map::new();
    for _ in 0..bytes.int_in_range(0..=5)? {
        let name = *bytes.choose(KEYWORDS)?;
        let value = match name {
            "type" => json!(bytes.choose(TYPES)?),
            "$ref" | "$dynamicRef" => json!(bytes.choose(REFERENCES)?),
            "$id" => json!(bytes.choose(&["https://a.example/s", "#x", "b", "#/$defs/a"])?),
            "$anchor" | "$dynamicAnchor" => json!(bytes.choose(&["a", "b", "x"])?),
            "$schema" => json!(bytes.choose(DRAFTS)?),
            "pattern" => json!(bytes.choose(PATTERNS)?),
            "format" => json!(bytes.choose(&["email", "uri", "date-time", "regex", "ipv4", "uuid"])?),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
            | "minimum" | "maximum" | "multipleOf" | "minContains" | "maxContains" => {
                json!(bytes.arbitrary::<i32>()?)
            }
            "enum" => Value::Array((0..3).map(|_| value(bytes, depth + 1)).collect::<Result<_, _>>()?),
            "const" | "default" => value(bytes, depth + 1)?,
            "required" => json!(["a", "b"]),
            "uniqueItems" => json!(bytes.arbitrary::<bool>()?),
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let mut below = Map::new();
                for _ in 0..bytes.int_in_range(0..=3)? {
                    below.insert(
                        (*bytes.choose(&["a", "b", "^a", "x"])?).to_owned(),
                        schema(bytes, depth + 1)?,
                    );
                }
                Value::Object(below)
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let count = bytes.int_in_range(1..=4)?;
                Value::Array((0..count).map(|_| schema(bytes, depth + 1)).collect::<Result<_, _>>()?)
            }
            _ => schema(bytes, depth + 1)?,
        };
        members.insert(name.to_owned(), value);
    }
    Ok(Value::Object(members))
}

fn value(bytes: &mut Unstructured<'_>, depth: usize) -> arbitrary::Result<Value> {
    if depth == DEPTH {
        return Ok(Value::Null);
    }
    Ok(match bytes.int_in_range(0..=6)? {
        0 => Value::Null,
        1 => json!(bytes.arbitrary::<bool>()?),
        2 => json!(bytes.arbitrary::<i64>()?),
        3 => json!(bytes.arbitrary::<f32>()?),
        4 => json!(bytes.arbitrary::<&str>()?),
        5 => {
            let count = bytes.int_in_range(0..=4)?;
            Value::Array((0..count).map(|_| value(bytes, depth + 1)).collect::<Result<_, _>>()?)
        }
        _ => {
            let mut members = Map::new();
            for _ in 0..bytes.int_in_range(0..=3)? {
                members.insert((*bytes.choose(&["a", "b", "aa", "x"])?).to_owned(), value(bytes, depth + 1)?);
            }
            Value::Object(members)
        }
    })
}

const KEYWORDS: &[&str] = &[
    "type",
    "$ref",
    "$dynamicRef",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$schema",
    "pattern",
    "format",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "multipleOf",
    "minContains",
    "maxContains",
    "enum",
    "const",
    "default",
    "required",
    "uniqueItems",
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "prefixItems",
    "not",
    "if",
    "then",
    "else",
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const TYPES: &[&str] = &["object", "array", "string", "number", "integer", "boolean", "null"];
const REFERENCES: &[&str] = &[
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/definitions/a",
    "#a",
    "#x",
    "#/properties/a",
    "b",
    "https://a.example/s",
    "https://elsewhere.example/",
    "file:///etc/passwd",
    "#/allOf/0",
];
const DRAFTS: &[&str] = &[
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-04/schema#",
    "https://elsewhere.example/schema",
];
const PATTERNS: &[&str] = &[
    "a",
    "^(a+)+$",
    "(a|aa)*b",
    "\\d{1,1000}",
    "[\\w\\s]{200}{200}",
    "(?=a)a",
    "\\p{L}+",
    "(((((a?){9}){9}){9}){9})",
];
