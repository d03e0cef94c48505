//! Checks arguments against a tool's input schema before they are sent.
//!
//! The schema comes from the server. A schema that cannot be used does not stop the call, since the
//! server validates the arguments too.

use std::fmt::Write as _;

use bowline::Json;
use bowline::schema::{self, Schema, Violation};
use serde_json::Value;

/// Result of checking arguments against an input schema.
#[derive(Debug, PartialEq)]
pub(crate) enum ArgumentCheck {
    Valid,
    /// The arguments are invalid; one sentence for each of the first violations.
    Invalid(Vec<String>),
    /// The schema cannot be used, with the reason.
    SchemaUnusable(String),
}

/// Checks `arguments` against `schema` (2020-12, unless it names another draft).
pub(crate) fn check_arguments(schema: &Value, arguments: &Value) -> ArgumentCheck {
    let json = |value| Json::encode(value).expect("a tree of JSON is JSON");
    let schema = match Schema::compile(&json(schema)) {
        Ok(schema) => schema,
        Err(error) => return ArgumentCheck::SchemaUnusable(error.to_string()),
    };
    match schema.verdict(&json(arguments)) {
        schema::SchemaVerdict::Fits => ArgumentCheck::Valid,
        schema::SchemaVerdict::Violations(violations) => {
            ArgumentCheck::Invalid(violations.iter().take(MAX_VIOLATIONS).map(describe_violation).collect())
        }
        schema::SchemaVerdict::Unchecked(why) => ArgumentCheck::SchemaUnusable(why.to_owned()),
        _ => ArgumentCheck::SchemaUnusable("the verdict is unknown".to_owned()),
    }
}

/// Returns where the first violation is, as a JSON pointer, and what is wrong. A schema that cannot be used is
/// no violation.
pub(crate) fn find_violation(schema: &Value, arguments: &Value) -> Option<(String, String)> {
    let json = |value| Json::encode(value).expect("a tree of JSON is JSON");
    match Schema::compile(&json(schema)).ok()?.verdict(&json(arguments)) {
        schema::SchemaVerdict::Violations(violations) => {
            violations.first().map(|violation| (violation.at.clone(), describe_violation(violation)))
        }
        _ => None,
    }
}

/// How many violations are reported.
const MAX_VIOLATIONS: usize = 10;

/// Formats a violation, such as `limit: "five" is not of type "integer"`.
fn describe_violation(violation: &Violation) -> String {
    let path = dotted_path(&violation.at);
    if path.is_empty() { violation.what.clone() } else { format!("{path}: {}", violation.what) }
}

/// Converts a JSON pointer such as `/a/0/b` to `a[0].b`.
fn dotted_path(pointer: &str) -> String {
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
        let ArgumentCheck::Invalid(mut misfits) = check_arguments(&schema, &arguments) else {
            panic!("it fits")
        };
        misfits.sort_unstable();
        let expected = [
            "\"query\" is a required property",
            "Additional properties are not allowed ('extra' was unexpected)",
            "limit: \"five\" is not of type \"integer\"",
            "list[1].x: 1 is not of type \"string\"",
        ];
        assert_eq!(misfits, expected);
        assert_eq!(check_arguments(&schema, &json!({"query": "q"})), ArgumentCheck::Valid);
    }

    #[test]
    fn nothing_is_fetched() {
        for elsewhere in ["http://127.0.0.1:9/schema", "file:///etc/passwd"] {
            let verdict = check_arguments(&json!({"$ref": elsewhere}), &json!({}));
            assert!(matches!(verdict, ArgumentCheck::SchemaUnusable(_)), "{verdict:?}");
        }
    }

    #[test]
    fn a_schema_that_is_none_is_no_obstacle() {
        for schema in [json!({"type": 1}), json!({"pattern": "("}), json!({"properties": 1})] {
            let verdict = check_arguments(&schema, &json!({}));
            assert!(matches!(verdict, ArgumentCheck::SchemaUnusable(_)), "{schema}: {verdict:?}");
        }
    }

    #[test]
    fn a_schema_without_end_is_not_followed() {
        let verdict = check_arguments(&json!({"allOf": [{"$ref": "#"}]}), &json!({"x": 1}));
        assert!(matches!(verdict, ArgumentCheck::SchemaUnusable(_)), "{verdict:?}");
        // The recursion ends: every step descends into the arguments.
        let tree = json!({"properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}});
        let verdict = check_arguments(&tree, &json!({"child": {"child": {"n": "x"}}}));
        assert_eq!(
            verdict,
            ArgumentCheck::Invalid(vec!["child.child.n: \"x\" is not of type \"integer\"".into()])
        );
    }
}
