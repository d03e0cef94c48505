//! Owns the check of arguments against a tool's input schema, before they are sent.
//!
//! The schema is a server's. Nothing it refers to is fetched, its patterns run in linear time, and
//! one that cannot be used is no reason to refuse the call: the server checks too.

use std::fmt::Write as _;

use jsonschema::PatternOptions;
use jsonschema::error::ValidationError;
use serde_json::Value;

/// What the check found.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// They fit.
    Fits,
    /// They do not: why, one sentence each, the first few.
    Misfits(Vec<String>),
    /// The schema cannot be used: why.
    Unusable(String),
}

/// Checks `arguments` against `schema` (2020-12, unless it names another draft).
pub(crate) fn check(schema: &Value, arguments: &Value) -> Verdict {
    if let Some(why) = endless(schema) {
        return Verdict::Unusable(why.to_owned());
    }
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex()).offline();
    let validator = match options.build(schema) {
        Ok(validator) => validator,
        Err(error) => return Verdict::Unusable(short(&error.to_string())),
    };
    let misfits: Vec<String> =
        validator.iter_errors(arguments).take(MOST).map(|error| tell(&error)).collect();
    if misfits.is_empty() { Verdict::Fits } else { Verdict::Misfits(misfits) }
}

/// How many misfits are told.
const MOST: usize = 10;
/// How much of one is told: the sentence may quote a whole argument.
const LONGEST: usize = 300;

/// `limit: "five" is not of type "integer"`
fn tell(error: &ValidationError<'_>) -> String {
    let path = dotted(error.instance_path().as_str());
    let sentence = short(&error.to_string());
    if path.is_empty() { sentence } else { format!("{path}: {sentence}") }
}

/// `/a/0/b` as `a[0].b`.
fn dotted(pointer: &str) -> String {
    let mut out = String::new();
    for part in pointer.split('/').skip(1) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty() {
            write!(out, "[{part}]").expect("writing to a string");
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&part.replace("~1", "/").replace("~0", "~"));
        }
    }
    out
}

fn short(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let cut: String = text.chars().take(LONGEST).collect();
    format!("{cut}…")
}

/// Why a schema could be followed for ever, if it could.
///
/// One that leads to itself without going down into the arguments on the way has no end, and the
/// validator would follow it until the stack is gone. Only references by place can be seen through
/// here, so a schema with any other kind is not used at all: the server checks too.
fn endless(root: &Value) -> Option<&'static str> {
    let mut refs = 0;
    let mut all = vec![root];
    let mut named = false;
    while let Some(value) = all.pop() {
        match value {
            Value::Object(members) => {
                // Below another `$id`, `#` is another place.
                named |= !std::ptr::eq(value, root) && members.get("$id").is_some_and(Value::is_string);
                if members.contains_key("$dynamicRef") || members.contains_key("$recursiveRef") {
                    return Some(NOT_BY_PLACE);
                }
                if let Some(Value::String(reference)) = members.get("$ref") {
                    refs += 1;
                    if target(root, reference).is_none() {
                        return Some(NOT_BY_PLACE);
                    }
                    if refs > MOST_REFS || leads_back(root, value) {
                        return Some("it refers to itself without end");
                    }
                }
                all.extend(members.values());
            }
            Value::Array(elements) => all.extend(elements),
            _ => {}
        }
    }
    (named && refs > 0).then_some(NOT_BY_PLACE)
}

const NOT_BY_PLACE: &str = "it refers to something other than a place within itself";

/// What a reference by place means.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// References looked at before a schema counts as unusable: each costs a walk.
const MOST_REFS: usize = 2_000;
/// Places visited in one walk.
const MOST_PLACES: usize = 2_000;

fn leads_back(root: &Value, start: &Value) -> bool {
    let mut visited: Vec<*const Value> = Vec::new();
    let mut waiting = vec![start];
    while let Some(schema) = waiting.pop() {
        if visited.len() > MOST_PLACES {
            return true;
        }
        for next in same_value(root, schema) {
            if std::ptr::eq(next, start) {
                return true;
            }
            if !visited.contains(&std::ptr::from_ref(next)) {
                visited.push(next);
                waiting.push(next);
            }
        }
    }
    false
}

/// The schemas that are applied to the same value as this one.
fn same_value<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let mut next = Vec::new();
    next.extend(schema.get("$ref").and_then(Value::as_str).and_then(|reference| target(root, reference)));
    for one in ["not", "if", "then", "else"] {
        next.extend(schema.get(one));
    }
    for several in ["allOf", "anyOf", "oneOf"] {
        next.extend(schema.get(several).and_then(Value::as_array).into_iter().flatten());
    }
    for keyed in ["dependentSchemas", "dependencies"] {
        let schemas = schema.get(keyed).and_then(Value::as_object);
        next.extend(schemas.into_iter().flat_map(serde_json::Map::values));
    }
    next
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn misfits_name_their_place() {
        let schema = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "limit": {"type": "integer"},
                "list": {"type": "array", "items": {"properties": {"x": {"type": "string"}}}},
            },
            "required": ["query"],
            "additionalProperties": false,
        });
        let arguments = json!({"limit": "five", "list": [{}, {"x": 1}], "extra": 1});
        let Verdict::Misfits(mut misfits) = check(&schema, &arguments) else { panic!("it fits") };
        misfits.sort_unstable();
        let expected = [
            "\"query\" is a required property",
            "Additional properties are not allowed ('extra' was unexpected)",
            "limit: \"five\" is not of type \"integer\"",
            "list[1].x: 1 is not of type \"string\"",
        ];
        assert_eq!(misfits, expected);
        assert_eq!(check(&schema, &json!({"query": "q"})), Verdict::Fits);
    }

    #[test]
    fn nothing_is_fetched() {
        for elsewhere in ["http://127.0.0.1:9/schema", "file:///etc/passwd"] {
            let verdict = check(&json!({"$ref": elsewhere}), &json!({}));
            assert!(matches!(verdict, Verdict::Unusable(_)), "{verdict:?}");
        }
    }

    #[test]
    fn a_schema_that_is_none_is_no_obstacle() {
        for schema in [json!({"type": 1}), json!({"pattern": "("}), json!({"properties": 1})] {
            let verdict = check(&schema, &json!({}));
            assert!(matches!(verdict, Verdict::Unusable(_)), "{schema}: {verdict:?}");
        }
    }

    #[test]
    fn a_schema_without_end_is_not_followed() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
            json!({"dependentSchemas": {"x": {"if": {"$ref": "#"}}}}),
            json!({"$anchor": "a", "$ref": "#a"}),
            json!({"$dynamicAnchor": "a", "$dynamicRef": "#a"}),
            json!({"$id": "http://h/", "$ref": "http://h/"}),
            json!({"$defs": {"a b": {"$ref": "#/$defs/a%20b"}}, "$ref": "#/$defs/a%20b"}),
            json!({"properties": {"x": {"$id": "y", "$ref": "#"}}}),
        ] {
            let verdict = check(&schema, &json!({"x": 1}));
            assert!(matches!(verdict, Verdict::Unusable(_)), "{schema}: {verdict:?}");
        }
        // A tree is none of these: every step goes down into the arguments.
        let tree = json!({"properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}});
        let verdict = check(&tree, &json!({"child": {"child": {"n": "x"}}}));
        assert_eq!(verdict, Verdict::Misfits(vec!["child.child.n: \"x\" is not of type \"integer\"".into()]));
    }

    #[test]
    fn patterns_cannot_run_for_ever() {
        let schema = json!({"properties": {"s": {"pattern": "^(a+)+$"}}});
        let arguments = json!({"s": format!("{}b", "a".repeat(10_000))});
        assert!(matches!(check(&schema, &arguments), Verdict::Misfits(_)));
    }
}
