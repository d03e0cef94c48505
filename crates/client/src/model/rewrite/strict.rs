//! Decides whether a schema can use OpenAI's strict mode, in which the provider enforces it.
//!
//! Strict mode requires every member, allows no others, and accepts few keywords. A tool with an
//! optional member does not use it: the usual workaround, a required member that may be null,
//! produces arguments that the server never asked for.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keywords of strict mode. Bounds are left out: only some models accept them, and they are checked
/// anyway.
const STRICT_KEYWORDS: [&str; 12] = [
    "type",
    "title",
    "description",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "$ref",
    "$defs",
];
/// The limits first published; later ones are wider.
const MAX_LEVELS: usize = 5;
const MAX_MEMBERS: usize = 100;

/// Returns the schema in strict form, if it has one.
pub(super) fn strict_form(schema: &Value) -> Option<Value> {
    let mut members = 0;
    strict_node(schema, 0, &mut members).filter(|_| members <= MAX_MEMBERS)
}

fn strict_node(schema: &Value, level: usize, count: &mut usize) -> Option<Value> {
    let given = schema.as_object().filter(|_| level <= MAX_LEVELS)?;
    let mut out = Map::new();
    if let Some(reference) = given.get("$ref") {
        // Nothing may stand beside a `$ref`.
        out.insert("$ref".to_owned(), reference.clone());
        return Some(Value::Object(out));
    }
    let says_something =
        ["type", "anyOf", "enum", "const"].iter().any(|keyword| given.contains_key(*keyword));
    if !says_something {
        return None;
    }
    for (keyword, value) in given.iter().filter(|(keyword, _)| STRICT_KEYWORDS.contains(&keyword.as_str())) {
        let value = match (keyword.as_str(), value) {
            ("properties" | "$defs", Value::Object(schemas)) => {
                let inner = if keyword == "$defs" { 1 } else { level + 1 };
                let all = schemas
                    .iter()
                    .map(|(name, schema)| Some((name.clone(), strict_node(schema, inner, count)?)));
                Value::Object(all.collect::<Option<_>>()?)
            }
            ("anyOf", Value::Array(schemas)) => Value::Array(
                schemas.iter().map(|schema| strict_node(schema, level, count)).collect::<Option<_>>()?,
            ),
            ("items", _) => strict_node(value, level, count)?,
            // Members of any name cannot be expressed.
            ("additionalProperties", Value::Bool(true) | Value::Object(_)) => return None,
            _ => value.clone(),
        };
        out.insert(keyword.clone(), value);
    }
    // An `enum` needs a type.
    if !given.contains_key("type") && !given.contains_key("anyOf") {
        let listed = given.get("enum").and_then(Value::as_array);
        let values = given.get("const").map_or(listed.map_or(&[][..], Vec::as_slice), std::slice::from_ref);
        out.insert("type".to_owned(), value_type(values)?);
    }
    let is_object = match given.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => false,
    };
    if is_object {
        let names = given.get("properties").and_then(Value::as_object).map_or(0, Map::len);
        let required = given.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        // Required names are unique and are members, so equal counts mean that all are required.
        if names != required || (names == 0 && level > 0) {
            return None;
        }
        *count += names;
        out.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        out.insert("additionalProperties".to_owned(), false.into());
    }
    Some(Value::Object(out))
}

/// The type of the values. `None` for arrays, objects, or an empty list.
fn value_type(values: &[Value]) -> Option<Value> {
    let mut kinds = BTreeSet::new();
    for value in values {
        kinds.insert(match value {
            Value::String(_) => "string",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::Bool(_) => "boolean",
            Value::Null => "null",
            Value::Array(_) | Value::Object(_) => return None,
        });
    }
    if kinds.contains("number") {
        kinds.remove("integer");
    }
    match kinds.len() {
        0 => None,
        1 => kinds.first().map(|only| (*only).into()),
        _ => Some(kinds.into_iter().collect()),
    }
}
