//! Decides which JSON type a typed word gets from the tool's input schema. The schema comes from a
//! server and may be recursive, huge or nonsense, so only a bounded part of it is inspected.

use serde_json::Value;

/// Result of converting one word.
#[derive(Debug, PartialEq)]
pub(super) enum TypedValue {
    /// The value of the property.
    Value(Value),
    /// One element of a property that is an array.
    Element(Value),
}

/// Converts `text` to the type of property `key` in `schema`. Text that does not convert stays
/// text, and the schema check reports what was expected.
pub(super) fn parse_value(schema: &Value, key: &str, text: &str) -> TypedValue {
    let Some(property) = find_property(schema, key) else { return TypedValue::Value(text.into()) };
    let wanted = JsonTypes::from_schema(schema, property);
    // A property that allows text gets text: a postcode of digits stays as it was typed.
    if wanted.string || wanted == JsonTypes::default() {
        return TypedValue::Value(text.into());
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) if wanted.allows(&value) => TypedValue::Value(value),
        _ if wanted.array && !text.trim_start().starts_with('[') => {
            let items = find_items(schema, property);
            let wanted = JsonTypes::from_schema(schema, items);
            let parsed = serde_json::from_str::<Value>(text).ok().filter(|value| wanted.allows(value));
            TypedValue::Element(match parsed {
                Some(value) if !wanted.string => value,
                _ => text.into(),
            })
        }
        _ => TypedValue::Value(text.into()),
    }
}

fn find_property<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(key));
    named.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
}

fn find_items<'a>(root: &'a Value, property: &'a Value) -> &'a Value {
    let resolved = resolve(root, property);
    resolved.get("items").unwrap_or(&Value::Null)
}

/// Follows `$ref` within the document, at most [`MAX_REF_DEPTH`] times.
pub(super) fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..MAX_REF_DEPTH {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// The JSON types that a schema allows. If all are false, the schema does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of the kinds of JSON")]
struct JsonTypes {
    string: bool,
    number: bool,
    boolean: bool,
    null: bool,
    array: bool,
    object: bool,
}

/// Bounds on following references, and on the subschemas inspected for one property.
const MAX_REF_DEPTH: usize = 8;
const MAX_SUBSCHEMAS: usize = 64;

impl JsonTypes {
    fn from_schema(root: &Value, schema: &Value) -> Self {
        let mut wanted = Self::default();
        let mut waiting = vec![schema];
        for _ in 0..MAX_SUBSCHEMAS {
            let Some(schema) = waiting.pop() else { break };
            let schema = resolve(root, schema);
            match schema.get("type") {
                Some(Value::String(name)) => wanted.add_name(name),
                Some(Value::Array(names)) => {
                    names.iter().filter_map(Value::as_str).for_each(|name| wanted.add_name(name));
                }
                _ => {
                    let listed = schema.get("enum").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                    listed.iter().chain(schema.get("const")).for_each(|value| *wanted.flag(value) = true);
                    for several in ["anyOf", "oneOf", "allOf"] {
                        waiting.extend(schema.get(several).and_then(Value::as_array).into_iter().flatten());
                    }
                }
            }
        }
        wanted
    }

    fn add_name(&mut self, name: &str) {
        match name {
            "string" => self.string = true,
            "number" | "integer" => self.number = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "array" => self.array = true,
            "object" => self.object = true,
            _ => {}
        }
    }

    fn allows(mut self, value: &Value) -> bool {
        *self.flag(value)
    }

    fn flag(&mut self, value: &Value) -> &mut bool {
        match value {
            Value::String(_) => &mut self.string,
            Value::Number(_) => &mut self.number,
            Value::Bool(_) => &mut self.boolean,
            Value::Null => &mut self.null,
            Value::Array(_) => &mut self.array,
            Value::Object(_) => &mut self.object,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_as(property: Value, text: &str) -> Value {
        let schema = json!({
            "properties": {"key": property},
            "$defs": {"count": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}},
        });
        match parse_value(&schema, "key", text) {
            TypedValue::Value(value) => value,
            TypedValue::Element(element) => json!([element]),
        }
    }

    #[test]
    fn the_schema_decides() {
        for (property, text, value) in [
            (json!({"type": "string"}), "5", json!("5")),
            (json!({"type": "integer"}), "5", json!(5)),
            (json!({"type": "number"}), "-1.5", json!(-1.5)),
            (json!({"type": "boolean"}), "true", json!(true)),
            (json!({"type": "object"}), r#"{"a": 1}"#, json!({"a": 1})),
            (json!({"type": "array"}), "[1]", json!([1])),
            (json!({"type": "array", "items": {"type": "number"}}), "1", json!([1])),
            (json!({"type": "array", "items": {"type": "string"}}), "1", json!(["1"])),
            (json!({"type": ["integer", "null"]}), "null", json!(null)),
            (json!({"type": ["string", "integer"]}), "5", json!("5")),
            (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), "5", json!(5)),
            (json!({"enum": [1, 2]}), "2", json!(2)),
            (json!({"enum": ["1", "2"]}), "2", json!("2")),
            (json!({"$ref": "#/$defs/count"}), "5", json!(5)),
            (json!({"$ref": "#/$defs/loop"}), "5", json!("5")),
            (json!({"$ref": "http://elsewhere/"}), "5", json!("5")),
            (json!({}), "5", json!("5")),
            (json!(true), "5", json!("5")),
        ] {
            assert_eq!(read_as(property.clone(), text), value, "{property} {text}");
        }
    }

    #[test]
    fn what_does_not_fit_stays_text() {
        assert_eq!(read_as(json!({"type": "integer"}), "five"), json!("five"));
        assert_eq!(read_as(json!({"type": "integer"}), "true"), json!("true"));
        assert_eq!(read_as(json!({"type": "array"}), "[1"), json!("[1"));
    }

    #[test]
    fn keys_without_a_property() {
        let open = json!({"additionalProperties": {"type": "integer"}});
        assert_eq!(parse_value(&open, "any", "5"), TypedValue::Value(json!(5)));
        assert_eq!(parse_value(&json!(null), "any", "5"), TypedValue::Value(json!("5")));
    }

    #[test]
    fn a_wide_schema_is_looked_at_in_part() {
        let mut schema = json!({"type": "integer"});
        for _ in 0..12 {
            schema = json!({"anyOf": [schema.clone(), schema]});
        }
        read_as(schema, "5");
    }
}
