//! The frontmatter of a `SKILL.md`: finds its end and compares it with the descriptor.

use bowline_proto::wire::Json;
use serde_json::{Number, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

/// Whether `text` begins with YAML that equals `listed`, field by field.
///
/// YAML that cannot be parsed to its end does not match.
pub(super) fn matches_entry(text: &str, listed: &Json) -> bool {
    let Some((yaml, _)) = split(text).filter(|(yaml, _)| yaml.len() <= MAX_FRONTMATTER_BYTES) else {
        return false;
    };
    let Ok(listed) = listed.decode::<Value>() else { return false };
    let written: Result<Value, _> = serde_saphyr::from_str_with_options(yaml, limits());
    written.is_ok_and(|written| written.is_object() && is_same_value(&written, &listed))
}

/// Splits the text into the frontmatter and the rest.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let after_fence = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| after_fence(line))?;
    let mut end = first.len();
    for line in lines {
        if after_fence(line) {
            return Some((&text[first.len()..end], &text[end + line.len()..]));
        }
        end += line.len();
    }
    None
}

/// Whether two values are equal. Numbers are compared by value, since one side is YAML and the
/// other JSON.
fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => is_same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_value(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let found = |(key, value)| other.get(key).is_some_and(|found| is_same_value(value, found));
            one.len() == other.len() && one.iter().all(found)
        }
        _ => one == other,
    }
}

fn is_same_number(one: &Number, other: &Number) -> bool {
    // Integers are compared as integers: as floats, large ones that differ could be equal.
    let whole = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.as_f64() == other.as_f64(),
    }
}

/// Parser limits, far above what frontmatter needs. Aliases, by which a little YAML can expand to
/// very much, are nearly excluded.
fn limits() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_nodes: 10_000,
            max_aliases: 64,
            max_anchors: 64,
            max_depth: 32,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Maximum size of a frontmatter, in bytes.
const MAX_FRONTMATTER_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(yaml: &str, listed: Value) -> bool {
        matches_entry(&format!("---\n{yaml}\n---\nbody"), &Json::encode(&listed).unwrap())
    }

    #[test]
    fn frontmatter_ends_at_the_closing_fence() {
        assert_eq!(split("---\na: 1\n---\nbody\n---\n"), Some(("a: 1\n", "body\n---\n")));
        assert_eq!(split("---\r\na: 1\r\n---\r\nbody"), Some(("a: 1\r\n", "body")));
        assert_eq!(split("\u{feff}---\n---"), Some(("", "")));
        for none in ["", "---", "---\na: 1", "a: 1\n---\n", " ---\n---\n", "----\n---\n", "\n---\n---\n"] {
            assert_eq!(split(none), None, "{none:?}");
        }
    }

    #[test]
    fn frontmatter_is_compared_field_by_field() {
        let yaml = "name: a\ndescription: >-\n  two\n  lines\nmetadata: {version: 2.0, tags: [x, \"1\"], n: null}\nok: true";
        let listed = json!({
            "ok": true, "description": "two lines", "name": "a",
            "metadata": { "version": 2, "tags": ["x", "1"], "n": null },
        });
        assert!(fits(yaml, listed.clone()));
        for (path, value) in [
            ("/name", json!("b")),
            ("/ok", json!("true")),
            ("/metadata/version", json!("2.0")),
            ("/metadata/version", json!(2.5)),
            ("/metadata/tags/1", json!(1)),
            ("/metadata/tags", json!(["x"])),
            ("/metadata/n", json!(0)),
        ] {
            let mut other = listed.clone();
            *other.pointer_mut(path).unwrap() = value;
            assert!(!fits(yaml, other.clone()), "{other}");
        }
        let mut more = listed.clone();
        more["extra"] = json!(1);
        assert!(!fits(yaml, more), "a field that is only listed");
        assert!(!fits(&format!("{yaml}\nextra: 1"), listed), "a field that is only written");
        // Older YAML read `yes` as a boolean; here it is a string.
        assert!(fits("a: yes", json!({ "a": "yes" })));
        assert!(fits("a: 9007199254740993", json!({ "a": 9_007_199_254_740_993_u64 })));
        assert!(!fits("a: 9007199254740993", json!({ "a": 9_007_199_254_740_992_u64 })));
    }

    #[test]
    fn damaged_or_hostile_frontmatter_never_matches() {
        for yaml in ["", "- a", "a", "a: [", "a: 1\na: 1", "a: *b", "\"a", "a: \u{0}"] {
            assert!(!fits(yaml, json!({})), "{yaml:?}");
        }
        let level = |n: usize| format!("a{n}: &a{n} [{}]", vec![format!("*a{}", n - 1); 10].join(","));
        let levels: Vec<_> = (1..10).map(level).collect();
        let bomb = format!("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n{}", levels.join("\n"));
        assert!(!fits(&bomb, json!({})));
        let deep = format!("a: {}{}", "[".repeat(5_000), "]".repeat(5_000));
        assert!(!fits(&deep, json!({})));
        assert!(!fits(&format!("a: {}", "x".repeat(70_000)), json!({ "a": "x".repeat(70_000) })));
    }
}
