//! Makes up arguments that fit a tool's input schema, to be shown as an example.

use bowline::Json;
use serde_json::{Map, Value, json};

use super::check::{ArgumentCheck, check_arguments};
use super::example_words::write_words;
use super::typing::resolve;

/// How deep objects and arrays are filled in.
const MAX_DEPTH: usize = 6;
/// Most elements that are made up for one array.
const MAX_ELEMENTS: u64 = 8;

/// The words of an example: a value for every required parameter, as it is typed after the name of
/// the tool. `None` if no values were found that fit the schema, or no words that stand for them.
pub(crate) fn example_arguments(schema: &Json) -> Option<Vec<String>> {
    let root = schema.decode::<Value>().ok()?;
    let example = example_object(&root, &root, 0);
    let arguments = Value::Object(example.clone());
    if matches!(check_arguments(&root, &arguments), ArgumentCheck::Invalid(_)) {
        return None;
    }
    write_words(&root, &example)
}

/// An object with the required members of a schema.
fn example_object(root: &Value, schema: &Value, depth: usize) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let members = required.filter_map(Value::as_str).map(|name| {
        let property = schema.get("properties").and_then(|properties| properties.get(name));
        let value =
            property.map_or_else(|| json!("text"), |property| example_value(root, property, depth + 1));
        (name.to_owned(), value)
    });
    members.collect()
}

/// A value that fits a schema, as far as a person would find one at a glance.
fn example_value(root: &Value, schema: &Value, depth: usize) -> Value {
    let schema = resolve(root, schema);
    let first = |name: &str| schema.get(name).and_then(Value::as_array).and_then(|all| all.first());
    let given = [schema.get("const"), first("enum"), first("examples"), schema.get("default")];
    if let Some(given) = given.into_iter().flatten().find(|value| !value.is_null()) {
        return given.clone();
    }
    if depth >= MAX_DEPTH {
        return Value::Null;
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = first(several) {
            return example_value(root, first, depth + 1);
        }
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        kind => kind.and_then(Value::as_str),
    };
    match kind {
        Some("integer" | "number") => example_number(schema),
        Some("boolean") => Value::Bool(true),
        Some("null") => Value::Null,
        Some("array") => {
            let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, MAX_ELEMENTS);
            let element = example_value(root, schema.get("items").unwrap_or(&Value::Null), depth + 1);
            Value::Array((0..count).map(|_| element.clone()).collect())
        }
        Some("object") => Value::Object(example_object(root, schema, depth)),
        _ if schema.get("properties").is_some() => Value::Object(example_object(root, schema, depth)),
        _ => example_text(schema),
    }
}

fn example_number(schema: &Value) -> Value {
    let bound = |name: &str| schema.get(name).filter(|bound| bound.is_number()).cloned();
    if let Some(bound) = bound("minimum").or_else(|| bound("maximum")) {
        return bound;
    }
    let above = schema.get("exclusiveMinimum").and_then(Value::as_i64).map(|bound| bound.saturating_add(1));
    above.map_or_else(|| json!(1), Value::from)
}

fn example_text(schema: &Value) -> Value {
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-01-31",
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("time") => "12:00:00Z",
        Some("email") => "name@example.com",
        Some("uri" | "url") => "https://example.com/",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        _ => "text",
    };
    let shortest = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0).min(MAX_TEXT_CHARS);
    let longest = schema.get("maxLength").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let mut text: String = text.chars().take(usize::try_from(longest).unwrap_or(usize::MAX)).collect();
    while (text.len() as u64) < shortest {
        text.push('x');
    }
    Value::String(text)
}

/// Longest text that is made up.
const MAX_TEXT_CHARS: u64 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn example(schema: &Value) -> Option<String> {
        example_arguments(&Json::encode(schema).unwrap()).map(|words| words.join(" "))
    }

    #[test]
    fn every_required_parameter_gets_a_value_that_fits() {
        let schema = json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"}, "day": {"type": "string", "format": "date"},
                "count": {"type": "integer", "minimum": 3}, "more": {"exclusiveMinimum": 7, "type": "number"},
                "mode": {"enum": ["fast", "slow"]}, "same": {"default": "as before"},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
                "place": {"$ref": "#/$defs/place"}, "maybe": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
                "long": {"type": "string", "minLength": 6}, "optional": {"type": "string"},
            },
            "required": ["text", "day", "count", "more", "mode", "same", "tags", "place", "maybe", "long"],
            "$defs": {"place": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}}},
        });
        assert_eq!(
            example(&schema).unwrap(),
            "count=3 day=2026-01-31 long=textxx maybe=true mode=fast more=8 place={\"x\":1} same=as before \
             tags=text tags=text text=text"
        );
    }

    #[test]
    fn there_is_no_example_where_none_fits() {
        let none = json!({"properties": {"code": {"type": "string", "pattern": "^[0-9]{4}$"}}, "required": ["code"]});
        assert_eq!(example(&none), None);
        assert_eq!(example(&json!({})), Some(String::new()));
        // A schema without an end.
        let endless = json!({
            "properties": {"child": {"$ref": "#/$defs/node"}}, "required": ["child"],
            "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}, "required": ["child"]}},
        });
        assert_eq!(example(&endless), None);
    }
}
