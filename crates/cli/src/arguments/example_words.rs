//! Writes arguments as words of an example command that is safe to paste.
//!
//! Names and values come from a server. A word is used only if the parser of the command line reads the
//! argument itself from it: no option, and no file.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::parameters::as_typed;
use super::{Pair, PairWord, RawArguments, parse_object};
use crate::print::escape;

/// Returns the words that stand for the arguments: `key=value` for each, `key:=json` where that would be
/// read as something else, or `--args` with all of them if a name cannot be typed before `=`. `None` if they
/// would be read as something else in any form.
pub(super) fn write_words(schema: &Value, arguments: &Map<String, Value>) -> Option<Vec<String>> {
    let pairs = arguments.iter().map(|(name, value)| write_pair(schema, name, value));
    if let Some(pairs) = pairs.collect::<Option<Vec<_>>>() {
        return Some(pairs.concat());
    }
    let text = shell_json(&Value::Object(arguments.clone()));
    let is_read_back = is_portable_word(&text) && parse_object(&text).is_ok_and(|read| read == *arguments);
    is_read_back.then(|| vec!["--args".to_owned(), text])
}

/// Returns the words for one argument, if it can be given on its own.
fn write_pair(schema: &Value, name: &str, value: &Value) -> Option<Vec<String>> {
    if name.is_empty() || name.starts_with('-') || name.ends_with(':') || name.contains('=') {
        return None;
    }
    let plain = match value {
        // A word of a list stands for one element.
        Value::Array(elements) if !elements.is_empty() && elements.iter().all(is_scalar) => {
            elements.iter().map(|element| format!("{name}={}", as_typed(element))).collect()
        }
        value => vec![format!("{name}={}", as_typed(value))],
    };
    let json = vec![format!("{name}:={}", shell_json(value))];
    let is_read_back = |words: &Vec<String>| {
        read_words(schema, words).is_some_and(|read| read.len() == 1 && read.get(name) == Some(value))
    };
    [plain, json].into_iter().find(is_read_back)
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// Reads words as `bowline call` does. `None` if one is no literal argument, or shells do not agree on it.
fn read_words(schema: &Value, words: &[String]) -> Option<Map<String, Value>> {
    let read_word = |word: &String| {
        let parts = PairWord::parse(word).ok()?;
        let is_literal = parts.file.is_none() && is_portable_word(word);
        is_literal.then(|| Pair::new(parts.key, parts.is_json, parts.value.to_owned()).ok())?
    };
    let pairs = words.iter().map(read_word).collect::<Option<Vec<_>>>()?;
    RawArguments { object: Map::new(), pairs }.into_typed(schema).ok()
}

/// Returns whether a word can be shown as it is, and means itself in single quotes in every shell. In those
/// of fish, a backslash escapes a quote and itself.
pub(crate) fn is_portable_word(word: &str) -> bool {
    let follows = |at: usize| word[at + 1..].chars().next();
    let is_escape = |(at, _): (usize, &str)| matches!(follows(at), None | Some('\\' | '\''));
    !word.contains(escape::is_active) && !word.match_indices('\\').any(is_escape)
}

/// Formats JSON as a portable word: quotes of shells, backslashes and what a terminal does not show are
/// escaped.
fn shell_json(value: &Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            // Outside of strings, there are no backslashes, quotes or invisible characters.
            '\\' => match chars.next() {
                Some('\\') | None => push_escaped(&mut out, '\\'),
                Some(escaped) => out.extend(['\\', escaped]),
            },
            c if c == '\'' || escape::is_active(c) => push_escaped(&mut out, c),
            c => out.push(c),
        }
    }
    out
}

/// Appends a character as JSON writes it in ASCII: in UTF-16.
fn push_escaped(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(out, "\\u{unit:04x}").expect("writing to a string");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(property: Value, name: &str, value: Value) -> String {
        let schema = json!({ "properties": { name: property } });
        let arguments = Map::from_iter([(name.to_owned(), value)]);
        write_words(&schema, &arguments).unwrap().join(" ")
    }

    #[test]
    fn values_that_mean_something_else_are_json() {
        let text = || json!({"type": "string"});
        for (property, value, written) in [
            (text(), json!("@/home/me/.ssh/id"), r#"q:="@/home/me/.ssh/id""#),
            (text(), json!("@-"), r#"q:="@-""#),
            (text(), json!("@"), "q=@"),
            (text(), json!("-"), "q=-"),
            (text(), json!("--save=x"), "q=--save=x"),
            (text(), json!(":=1"), "q=:=1"),
            (text(), json!("5"), "q=5"),
            (text(), json!("it's"), "q=it's"),
            (text(), json!(r"\d+"), r"q=\d+"),
            (text(), json!(r"\'; x; '"), r#"q:="\u005c\u0027; x; \u0027""#),
            (text(), json!(r"C:\"), r#"q:="C:\u005c""#),
            (text(), json!("\u{1b}[31m\n\u{9b}\u{e0041}"), r#"q:="\u001b[31m\n\u009b\udb40\udc41""#),
            (json!({"default": 5}), json!(5), "q:=5"),
            (json!({"type": "integer"}), json!(5), "q=5"),
            (json!({"type": "array"}), json!(["a", "b"]), "q=a q=b"),
            (json!({"type": "array"}), json!(["@/x", "b"]), r#"q:=["@/x","b"]"#),
            (json!({"type": "array"}), json!(["[1]"]), r#"q:=["[1]"]"#),
            (json!({"type": "object"}), json!({"a": "'"}), r#"q={"a":"'"}"#),
        ] {
            assert_eq!(words(property.clone(), "q", value), written, "{property}");
        }
    }

    #[test]
    fn names_that_mean_something_else_are_members_of_one_object() {
        for (name, written) in [
            ("--config", r#"--args {"--config":"/tmp/evil.toml"}"#),
            ("--json", r#"--args {"--json":"/tmp/evil.toml"}"#),
            ("-v", r#"--args {"-v":"/tmp/evil.toml"}"#),
            ("-", r#"--args {"-":"/tmp/evil.toml"}"#),
            ("a:", r#"--args {"a:":"/tmp/evil.toml"}"#),
            ("a=b", r#"--args {"a=b":"/tmp/evil.toml"}"#),
            ("", r#"--args {"":"/tmp/evil.toml"}"#),
            ("\u{1b}'", r#"--args {"\u001b\u0027":"/tmp/evil.toml"}"#),
            ("a:b", "a:b=/tmp/evil.toml"),
            ("@a", "@a=/tmp/evil.toml"),
            ("a-b", "a-b=/tmp/evil.toml"),
        ] {
            assert_eq!(words(json!({}), name, json!("/tmp/evil.toml")), written);
        }
    }
}
