//! Writes the subset of OpenAPI 3.0 that Gemini accepts as `parameters`.
//!
//! Gemini also has `parametersJsonSchema`. `parameters` is used because every version of the API
//! and every service in front of it accepts it, and because its keywords are a closed list: an
//! unknown keyword fails the request, so it is known beforehand whether a schema is accepted.

use serde_json::{Map, Value, json};

use super::flat::{FlatSchema, ObjectUnion, push_unique};
use super::{RewriteError, Rewriter};

/// Maximum size of a list of values in a description, in bytes.
const MAX_LIST_BYTES: usize = 200;

impl<'s> Rewriter<'s> {
    pub(super) fn gemini(&mut self, flat: &FlatSchema<'s>, depth: usize) -> Result<Value, RewriteError> {
        let mut types = flat.types();
        let listed = EnumValues::from_schema(flat);
        let mut nullable = listed.null;
        if types.contains(&"null") {
            types.retain(|kind| *kind != "null");
            nullable = true;
        }
        if types.is_empty() {
            types = guess_types(flat, &listed);
        }
        let mut choices: Vec<Value> = Vec::new();
        // Alternatives must stand alone. Other keywords beside them take precedence; an object
        // takes the members of all alternatives.
        if let (Some(alternatives), true) = (flat.choices.first(), types.is_empty()) {
            for alternative in *alternatives {
                let choice = self.schema(&[alternative], depth + 1)?;
                if choice == null_placeholder() {
                    nullable = true;
                } else {
                    push_unique(&mut choices, choice);
                }
            }
        } else if types.is_empty() && nullable {
            return Ok(null_placeholder());
        } else {
            // Any value. Arrays and objects are left out, since they would have to declare their
            // contents.
            let types = if types.is_empty() { vec!["string", "number", "boolean"] } else { types };
            for kind in types {
                choices.push(self.gemini_typed(kind, flat, &listed, depth)?);
            }
        }
        if choices.is_empty() {
            return Ok(null_placeholder());
        }
        let mut words =
            flat.text("description").or_else(|| flat.text("title")).unwrap_or_default().to_owned();
        if let Some(list) = &listed.description {
            words = format!("{words} {list}");
        }
        let words = self.text(&words);
        for choice in &mut choices {
            decorate(choice, &words, nullable);
        }
        Ok(any_of(choices))
    }

    fn gemini_typed(
        &mut self,
        kind: &str,
        flat: &FlatSchema<'s>,
        listed: &EnumValues<'_>,
        depth: usize,
    ) -> Result<Value, RewriteError> {
        let mut out = Map::new();
        match kind {
            "object" => {
                let union = ObjectUnion::with_choices(self, flat, depth + 1)?;
                out = self.object(&union, depth)?;
            }
            "array" => {
                let mut items: Vec<Value> = Vec::new();
                for element in flat.elements() {
                    let item = self.schema(&[element], depth + 1)?;
                    let item = if item == null_placeholder() { any_value_schema() } else { item };
                    push_unique(&mut items, item);
                }
                let items = if items.is_empty() { any_value_schema() } else { any_of(items) };
                out.insert("items".to_owned(), items);
                flat.copy(&["minItems", "maxItems"], Value::is_u64, &mut out);
            }
            "string" => {
                if let Some(values) = &listed.strings {
                    out.insert("enum".to_owned(), json!(values));
                } else {
                    flat.copy(&["minLength", "maxLength"], Value::is_u64, &mut out);
                    if let Some(pattern) =
                        flat.text("pattern").filter(|pattern| self.patterns.accepts(pattern))
                    {
                        out.insert("pattern".to_owned(), pattern.into());
                    }
                    if flat.text("format") == Some("date-time") {
                        out.insert("format".to_owned(), "date-time".into());
                    }
                }
            }
            "integer" | "number" => flat.copy(&["minimum", "maximum"], Value::is_number, &mut out),
            _ => {}
        }
        out.insert("type".to_owned(), kind.to_ascii_uppercase().into());
        Ok(Value::Object(out))
    }
}

/// The allowed values of an `enum` or `const`. Gemini supports only strings.
struct EnumValues<'a> {
    strings: Option<Vec<&'a str>>,
    /// Whether `null` is among them.
    null: bool,
    /// A description of the values if they are not strings.
    description: Option<String>,
    first: Option<&'a Value>,
}

impl<'a> EnumValues<'a> {
    fn from_schema(flat: &FlatSchema<'a>) -> Self {
        let listed = flat.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty());
        let values: Vec<&'a Value> = match (listed, flat.get("const")) {
            (_, Some(only)) => vec![only],
            (Some(values), None) => values.iter().collect(),
            (None, None) => Vec::new(),
        };
        let null = values.iter().any(|value| value.is_null());
        let some: Vec<&'a Value> = values.into_iter().filter(|value| !value.is_null()).collect();
        let first = some.first().copied();
        // An empty string is refused too.
        let strings: Option<Vec<&str>> =
            some.iter().map(|value| value.as_str().filter(|text| !text.is_empty())).collect();
        let strings = strings.filter(|strings| !strings.is_empty());
        let list = json!(some).to_string();
        let tell = !some.is_empty() && strings.is_none() && list.len() <= MAX_LIST_BYTES;
        Self { strings, null, description: tell.then(|| format!("One of {list}.")), first }
    }
}

/// Guesses the type of a schema that does not declare it.
fn guess_types(flat: &FlatSchema<'_>, listed: &EnumValues<'_>) -> Vec<&'static str> {
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| flat.get(keyword).is_some());
    let guess = match listed.first {
        Some(Value::String(_)) => "string",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(number)) if number.is_f64() => "number",
        Some(Value::Number(_)) => "integer",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
        Some(Value::Null) | None => {
            if !flat.properties.is_empty() || has(&["additionalProperties"]) {
                "object"
            } else if has(&["items", "prefixItems", "minItems", "maxItems", "uniqueItems"]) {
                "array"
            } else if has(&["pattern", "minLength", "maxLength"]) {
                "string"
            } else if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) {
                "number"
            } else {
                return Vec::new();
            }
        }
    };
    vec![guess]
}

/// Adds the description and `nullable` to each alternative, since nothing else may stand beside
/// `anyOf`.
fn decorate(schema: &mut Value, words: &str, nullable: bool) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::Array(alternatives)) = members.get_mut("anyOf") {
        for alternative in alternatives {
            decorate(alternative, words, nullable);
        }
        return;
    }
    if nullable {
        members.insert("nullable".to_owned(), true.into());
    }
    if !words.is_empty() && !members.contains_key("description") {
        members.insert("description".to_owned(), words.into());
    }
}

/// Joins alternatives into one `anyOf`, without nested ones.
pub(super) fn any_of(schemas: Vec<Value>) -> Value {
    let mut flat: Vec<Value> = Vec::new();
    for mut schema in schemas {
        let inner = match schema.get_mut("anyOf") {
            Some(Value::Array(inner)) => std::mem::take(inner),
            _ => vec![schema],
        };
        for one in inner {
            push_unique(&mut flat, one);
        }
    }
    if flat.len() == 1 { flat.remove(0) } else { json!({ "anyOf": flat }) }
}

fn any_value_schema() -> Value {
    json!({ "anyOf": [{ "type": "STRING" }, { "type": "NUMBER" }, { "type": "BOOLEAN" }] })
}

/// A placeholder for `null`, which Gemini has no type for. Among alternatives it makes the others
/// nullable.
fn null_placeholder() -> Value {
    json!({ "type": "NULL" })
}

/// Replaces the placeholder for `null` in a member.
pub(super) fn as_member(schema: Value) -> Value {
    if schema == null_placeholder() { json!({ "type": "STRING", "nullable": true }) } else { schema }
}
