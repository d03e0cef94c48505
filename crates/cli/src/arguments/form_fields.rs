//! Makes the fields of a form from a tool's input schema.
//!
//! Members of nested objects become fields of their own, up to a depth; what a form has no field for is
//! typed as JSON and checked against its part of the schema. The schema comes from a server, so only a
//! bounded part of it is read.

use std::sync::Arc;

use bowline::Json;
use bowline::types::{Elicitation, Field};
use serde_json::{Map, Value, json};

use super::check::{ArgumentCheck, check_arguments};
use super::parameters::read_parameters;
use super::typing::{TypedValue, parse_value, resolve};
use crate::dialog::{FieldInput, FormField, ValueField};

/// How deep nested objects become fields of their own. Deeper ones are typed as JSON.
const MAX_DEPTH: usize = 4;
/// Most fields of a form. Further members of nested objects are typed as JSON.
const MAX_FIELDS: usize = 100;
/// How often alternatives and references are followed to find out what a property is.
const MAX_STEPS: usize = 8;

/// Returns the fields for the arguments of a tool, required ones first.
pub(crate) fn form_fields(schema: &Json) -> Vec<FormField> {
    let Ok(root) = schema.decode::<Value>() else { return Vec::new() };
    let mut fields = Vec::new();
    for parameter in read_parameters(schema).into_iter().take(MAX_FIELDS) {
        let Some(property) = root.get("properties").and_then(|all| all.get(&parameter.name)) else {
            continue;
        };
        let path = vec![parameter.name];
        let place = Place { path, is_required: parameter.is_required, is_in_item: false };
        add_fields(&root, property, place, &mut fields);
    }
    fields
}

/// Returns a field for an argument that takes any text.
pub(crate) fn text_field(name: &str, description: Option<String>, is_required: bool) -> Option<FormField> {
    let property = json!({ "type": "string", "description": description.unwrap_or_default() });
    let field = plain_field(name, &property, is_required)?;
    let path = vec![name.to_owned()];
    Some(FormField { path, input: FieldInput::Plain(field), is_optional: !is_required })
}

/// Where a property is.
struct Place {
    path: Vec<String>,
    /// Whether it is required, and all objects that it is in.
    is_required: bool,
    /// Whether it belongs to an item of a list. Lists of objects in it are typed as JSON.
    is_in_item: bool,
}

fn add_fields(root: &Value, property: &Value, place: Place, out: &mut Vec<FormField>) {
    let property = normalize(root, property);
    if let Some(members) = nested_members(&property, &place, out.len()) {
        let required = property.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let is_required = |name: &str| required.iter().any(|required| required == name);
        let (needed, others): (Vec<_>, Vec<_>) = members.iter().partition(|(name, _)| is_required(name));
        for (name, member) in needed.into_iter().chain(others) {
            let mut path = place.path.clone();
            path.push(name.clone());
            let is_required = place.is_required && is_required(name);
            add_fields(root, member, Place { path, is_required, is_in_item: place.is_in_item }, out);
        }
        return;
    }
    let Some(name) = place.path.last() else { return };
    let text = |keyword| property.get(keyword).and_then(Value::as_str).map(ToOwned::to_owned);
    let value_field = || ValueField {
        title: text("title"),
        description: text("description"),
        default: property.get("default").and_then(|default| Json::encode(default).ok()),
        expected: describe_expected(root, &property).to_owned(),
        parse: Box::new(parser(root, name, &property)),
    };
    let input = match (plain_field(name, &property, place.is_required), enumerated(&property)) {
        (Some(field), _) => FieldInput::Plain(field),
        (None, Some(values)) => FieldInput::Choice(value_field(), values),
        (None, None) => match item_fields(root, &property, &place) {
            members if members.is_empty() => FieldInput::Value(value_field()),
            members => FieldInput::Items(value_field(), members),
        },
    };
    let is_optional = !place.is_required;
    out.push(FormField { path: place.path, input, is_optional });
}

/// Returns the fields for an item of a list of objects. There are none if items are not plain objects.
fn item_fields(root: &Value, property: &Value, place: &Place) -> Vec<FormField> {
    let items = property.get("items").filter(|_| !place.is_in_item && type_of(property) == Some("array"));
    let mut fields = Vec::new();
    if let Some(items) = items {
        let item = Place { path: Vec::new(), is_required: true, is_in_item: true };
        add_fields(root, items, item, &mut fields);
    }
    fields
}

/// Returns the members of a nested object that become fields of their own.
fn nested_members<'a>(property: &'a Value, place: &Place, count: usize) -> Option<&'a Map<String, Value>> {
    let members =
        property.get("properties").and_then(Value::as_object).filter(|members| !members.is_empty())?;
    let is_plain = ["anyOf", "oneOf", "allOf", "not", "if", "patternProperties"]
        .iter()
        .all(|keyword| property.get(keyword).is_none());
    let fits = place.path.len() < MAX_DEPTH && count + members.len() <= MAX_FIELDS;
    (is_plain && fits && type_of(property) == Some("object")).then_some(members)
}

/// Follows references, and leaves out `null` and an `allOf` or `anyOf` of one, as generators write them.
fn normalize(root: &Value, property: &Value) -> Value {
    let mut found = property.clone();
    for _ in 0..MAX_STEPS {
        let inner = match &found {
            Value::Object(object) if object.contains_key("$ref") => {
                let target = resolve(root, &found);
                if *target == found {
                    break;
                }
                target.clone()
            }
            Value::Object(object) => {
                let one = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|keyword| {
                    let listed = object.get(keyword)?.as_array()?;
                    let mut real = listed.iter().filter(|schema| type_of(schema) != Some("null"));
                    real.next().filter(|_| real.next().is_none())
                });
                match one {
                    Some(inner) => inner.clone(),
                    None => break,
                }
            }
            _ => break,
        };
        // What stands beside the reference is about this use of it.
        let Value::Object(mut merged) = inner else { break };
        for keyword in ["title", "description", "default"] {
            if let Some(own) = found.get(keyword) {
                merged.insert(keyword.to_owned(), own.clone());
            }
        }
        found = Value::Object(merged);
    }
    found
}

/// Returns the type of a schema, if it names one apart from `null`.
fn type_of(schema: &Value) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => Some(name),
        Some(Value::Array(names)) => {
            let mut real = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            real.next().filter(|_| real.next().is_none())
        }
        _ if schema.get("properties").is_some() => Some("object"),
        _ => None,
    }
}

/// Returns the values that a schema enumerates.
fn enumerated(property: &Value) -> Option<Vec<Json>> {
    let listed = property.get("enum").and_then(Value::as_array).cloned();
    let listed = listed.or_else(|| property.get("const").map(|only| vec![only.clone()]))?;
    let values = listed.iter().filter(|value| !value.is_null()).filter_map(|value| Json::encode(value).ok());
    Some(values.collect()).filter(|values: &Vec<Json>| !values.is_empty())
}

/// Keywords that mean the same in a form and in a tool's schema. Others are checked with the whole.
const FIELD_KEYWORDS: [&str; 17] = [
    "title",
    "description",
    "default",
    "enum",
    "enumNames",
    "oneOf",
    "minLength",
    "maxLength",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];

/// Makes a field as elicitations have them, if the property is of such a kind.
fn plain_field(name: &str, property: &Value, is_required: bool) -> Option<Field> {
    let is_text = |value: &Value| value.is_string();
    let texts = property.get("enum").and_then(Value::as_array).is_some_and(|all| all.iter().all(is_text));
    let kind = type_of(property).or_else(|| texts.then_some("string"))?;
    let mut schema = Map::from_iter([("type".to_owned(), Value::from(kind))]);
    for keyword in FIELD_KEYWORDS {
        if let Some(value) = property.get(keyword) {
            schema.insert(keyword.to_owned(), value.clone());
        }
    }
    if let (Some(items), "array") = (property.get("items"), kind) {
        schema.insert("items".to_owned(), items.clone());
    }
    let required: &[&str] = if is_required { &[name] } else { &[] };
    let requested = json!({ "type": "object", "properties": { name: schema }, "required": required });
    let params = Json::encode(&json!({ "message": "", "requestedSchema": requested })).ok()?;
    match Elicitation::decode(&params).ok()? {
        Elicitation::Form(mut form) => form.fields.pop(),
        _ => None,
    }
}

/// Says what can be typed.
fn describe_expected(root: &Value, property: &Value) -> &'static str {
    match type_of(property) {
        Some("array") if has_scalar_items(root, property) => "a list: values with commas between, or JSON",
        Some("array") => "a list, as JSON",
        Some("object") => "an object, as JSON",
        Some(_) => "a value",
        None => "text or JSON",
    }
}

fn has_scalar_items(root: &Value, property: &Value) -> bool {
    let items = property.get("items").map(|items| normalize(root, items));
    let kind = items.as_ref().and_then(type_of);
    !matches!(kind, Some("array" | "object"))
}

/// Returns what parses the text of a field, as `key=value` would be, and checks it.
fn parser(root: &Value, name: &str, property: &Value) -> impl Fn(&str) -> Result<Json, String> + use<> {
    let mut schema = json!({ "properties": { name: property } });
    for shared in ["$defs", "definitions", "$schema"] {
        if let Some(definitions) = root.get(shared) {
            schema[shared] = definitions.clone();
        }
    }
    let (schema, name) = (Arc::new(schema), name.to_owned());
    let (is_list, is_object) = (type_of(property) == Some("array"), type_of(property) == Some("object"));
    let has_scalars = has_scalar_items(root, property);
    move |text| {
        let text = text.trim();
        let value = if is_list && has_scalars && !text.starts_with('[') {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            let elements = parts.map(|part| match parse_value(&schema, &name, part) {
                TypedValue::Value(value) | TypedValue::Element(value) => value,
            });
            Value::Array(elements.collect())
        } else if is_list || is_object {
            serde_json::from_str(text).map_err(|error| format!("must be JSON: {error}"))?
        } else {
            match parse_value(&schema, &name, text) {
                TypedValue::Value(value) | TypedValue::Element(value) => value,
            }
        };
        let json = Json::encode(&value).map_err(|error| error.to_string())?;
        match check_arguments(&schema, &json!({ &*name: value })) {
            ArgumentCheck::Invalid(misfits) => Err(misfits.into_iter().next().unwrap_or_default()),
            ArgumentCheck::Valid | ArgumentCheck::SchemaUnusable(_) => Ok(json),
        }
    }
}

/// Returns the required parameters of a tool that were not given, as they are typed.
pub(crate) fn missing_names(fields: &[FormField], given: &Map<String, Value>) -> Vec<String> {
    let is_missing = |field: &&FormField| {
        let mut names = field.path.iter();
        let first = names.next().and_then(|name| given.get(name));
        !field.is_optional && names.try_fold(first, |value, name| Some(value?.get(name))).flatten().is_none()
    };
    fields.iter().filter(is_missing).map(|field| field.path.join(".")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(schema: Value) -> Vec<FormField> {
        form_fields(&Json::encode(&schema).unwrap())
    }

    fn kinds(schema: Value) -> Vec<String> {
        let kind = |field: &FormField| {
            let kind = match &field.input {
                FieldInput::Plain(field) => {
                    format!("{:?}", field.kind).split([' ', '(']).next().unwrap().to_owned()
                }
                FieldInput::Choice(_, values) => format!("one of {}", values.len()),
                FieldInput::Value(field) => field.expected.clone(),
                FieldInput::Items(_, members) => format!("items of {} members", members.len()),
            };
            let mark = if field.is_optional { "" } else { "*" };
            format!("{}{mark}: {kind}", field.path.join("."))
        };
        fields(schema).iter().map(kind).collect()
    }

    #[test]
    fn every_property_has_a_field() {
        let schema = json!({
            "properties": {
                "text": {"type": "string", "format": "date"},
                "count": {"type": ["integer", "null"]},
                "deep": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
                "color": {"$ref": "#/$defs/color", "description": "Which"},
                "level": {"enum": [1, 2, null]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "many": {"type": "array", "items": {"enum": ["a", "b"]}},
                "rows": {"type": "array", "items": {"type": "object"}},
                "tree": {"type": "array", "items": {"$ref": "#/$defs/branch"}},
                "map": {"type": "object"},
                "any": {},
                "mixed": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "where": {"type": "object", "required": ["city"], "properties": {
                    "street": {"type": "string"},
                    "city": {"type": "string"},
                    "geo": {"type": "object", "properties": {"lat": {"type": "number"}}},
                }},
                "node": {"$ref": "#/$defs/node"},
            },
            "required": ["text", "where"],
            "$defs": {
                "color": {"type": "string", "enum": ["red", "blue"]},
                "branch": {"type": "object", "properties": {
                    "name": {"type": "string"}, "branches": {"type": "array", "items": {"$ref": "#/$defs/branch"}},
                }},
                "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
            },
        });
        let expected = [
            "text*: Text",
            "where.city*: Text",
            "where.geo.lat: Number",
            "where.street: Text",
            "any: text or JSON",
            "color: Choice",
            "count: Number",
            "deep: Boolean",
            "level: one of 2",
            "many: Choices",
            "map: an object, as JSON",
            "mixed: text or JSON",
            "node.next.next.next: an object, as JSON",
            "rows: a list, as JSON",
            "tags: a list: values with commas between, or JSON",
            "tree: items of 2 members",
        ];
        assert_eq!(kinds(schema), expected);
    }

    #[test]
    fn text_is_parsed_and_checked_by_its_part_of_the_schema() {
        let schema = json!({
            "properties": {
                "numbers": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
                "points": {"type": "array", "items": {"$ref": "#/$defs/point"}},
                "size": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            "$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
        });
        let all = fields(schema);
        let parse = |name: &str, text: &str| {
            let field = all.iter().find(|field| field.path == [name]).unwrap();
            let (FieldInput::Value(field) | FieldInput::Items(field, _)) = &field.input else {
                panic!("{name} is not typed as JSON")
            };
            (field.parse)(text).map(|json| json.as_str().to_owned())
        };
        assert_eq!(parse("numbers", "1, 2,3"), Ok("[1,2,3]".to_owned()));
        assert_eq!(parse("numbers", "[1]"), Ok("[1]".to_owned()));
        assert_eq!(parse("numbers", "1,x"), Err("numbers[1]: \"x\" is not of type \"integer\"".to_owned()));
        assert_eq!(parse("points", r#"[{"x": 1}]"#), Ok(r#"[{"x":1}]"#.to_owned()));
        assert_eq!(parse("points", "[{}]"), Err("points[0]: \"x\" is a required property".to_owned()));
        assert!(parse("points", "x=1").unwrap_err().starts_with("must be JSON: "));
        assert_eq!(
            parse("size", r#"{"a": "b"}"#),
            Err("size.a: \"b\" is not of type \"integer\"".to_owned())
        );
    }

    #[test]
    fn a_hostile_schema_has_bounded_fields() {
        let wide: Map<String, Value> =
            (0..1000).map(|n| (format!("k{n}"), json!({"type": "string"}))).collect();
        let nested = json!({"type": "object", "properties": wide.clone()});
        assert_eq!(kinds(json!({"properties": {"in": nested}})), ["in: an object, as JSON"]);
        assert!(fields(json!({"properties": wide})).len() <= MAX_FIELDS);
        assert_eq!(kinds(json!({"properties": {"a": {"$ref": "#/properties/a"}}})), ["a: text or JSON"]);
        assert!(fields(json!({"properties": 1})).is_empty());
    }

    #[test]
    fn missing_parameters_are_named_with_their_objects() {
        let schema = json!({
            "properties": {"a": {"type": "string"}, "in": {"type": "object", "required": ["b"], "properties": {"b": {}}}},
            "required": ["a", "in"],
        });
        let Value::Object(given) = json!({"a": "x", "in": {}}) else { unreachable!() };
        assert_eq!(missing_names(&fields(schema.clone()), &given), ["in.b"]);
        assert_eq!(missing_names(&fields(schema), &Map::new()), ["a", "in.b"]);
    }
}
