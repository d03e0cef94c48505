//! Turns the words of the command line into a tool's arguments.
//!
//! `key=value` is text unless the tool's input schema asks for something else; `key=@path` is the text
//! of a file, `key:=json` is JSON, and `key:=@path` the JSON in a file.
//! The result is checked against the schema before anything is sent.

mod check;
mod example;
mod example_words;
mod form_fields;
mod parameters;
mod typing;

use std::io::Read;
use std::path::Path;

use bowline_config::closest_name;
use bowline_settings::describe_io_error;
use serde_json::{Map, Value};

pub(crate) use check::{ArgumentCheck, check_arguments, find_violation};
pub(crate) use example::example_arguments;
pub(crate) use example_words::is_portable_word;
pub(crate) use form_fields::{form_fields, missing_names, text_field};
pub(crate) use parameters::{Parameter, ParameterKind, read_parameters, tool_signature};

use crate::failure::{Failure, Outcome};

/// Arguments as they were typed, before the schema is known.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RawArguments {
    object: Map<String, Value>,
    pairs: Vec<Pair>,
}

#[derive(Debug, PartialEq)]
struct Pair {
    key: String,
    value: PairValue,
}

/// The value of one `key=value` or `key:=json`.
#[derive(Debug, PartialEq)]
enum PairValue {
    /// Text; the schema decides its type.
    Text(String),
    /// JSON that was given as such.
    Json(Value),
}

impl RawArguments {
    /// Parses `key=value` and `key:=json`, which override the members of `whole`.
    pub(crate) fn parse(whole: Option<&str>, words: Vec<String>) -> Outcome<Self> {
        let whole = match whole {
            Some(text) => parse_object(text)?,
            None => Map::new(),
        };
        if words.iter().filter(|word| split_pair(word).is_some_and(|(_, value)| value == "@-")).count() > 1 {
            return Err(Failure::usage("stdin can be the value of one argument only"));
        }
        let pairs = words.into_iter().map(Pair::parse).collect::<Outcome<_>>()?;
        Ok(Self { object: whole, pairs })
    }

    /// Converts the arguments to the types in `schema`; without a schema, text stays text.
    pub(crate) fn into_typed(self, schema: &Value) -> Outcome<Map<String, Value>> {
        let Self { object: mut whole, pairs } = self;
        let mut seen: Map<String, Value> = Map::new();
        for Pair { key, value } in pairs {
            let value = match value {
                PairValue::Json(value) => value,
                PairValue::Text(text) => match typing::parse_value(schema, &key, &text) {
                    typing::TypedValue::Value(value) => value,
                    // An array may be given one element at a time.
                    typing::TypedValue::Element(element) => match seen.get_mut(&key) {
                        Some(Value::Array(elements)) => {
                            elements.push(element);
                            continue;
                        }
                        _ => Value::Array(vec![element]),
                    },
                },
            };
            if seen.insert(key.clone(), value).is_some() {
                return Err(repeated_argument_failure(&key, &format!("for a list, write {key}:='[…]'")));
            }
        }
        whole.extend(seen);
        Ok(whole)
    }
}

/// Builds the failure for an argument that is given twice. `otherwise` says how to give several values.
pub(crate) fn repeated_argument_failure(key: &str, otherwise: &str) -> Failure {
    Failure::usage_hint(format!("`{key}` is given twice"), format!("write {key}=… once; {otherwise}"))
}

/// Splits `key=value`, whose key is not empty. The value may be.
pub(crate) fn split_pair(word: &str) -> Option<(&str, &str)> {
    word.split_once('=').filter(|(key, _)| !key.is_empty())
}

/// Splits `key=value`, or fails with the word.
pub(crate) fn parse_pair(word: &str) -> Outcome<(&str, &str)> {
    split_pair(word).ok_or_else(|| Failure::usage(format!("`{word}` is not key=value")))
}

/// The parts of a word `key=value` or `key:=json`, before anything is read.
struct PairWord<'a> {
    key: &'a str,
    is_json: bool,
    /// The text after `=`.
    value: &'a str,
    /// The path after `@`, or `-` for stdin, if the value is in a file.
    file: Option<&'a str>,
}

impl<'a> PairWord<'a> {
    fn parse(word: &'a str) -> Outcome<Self> {
        let (key, value) = parse_pair(word)?;
        let (key, is_json) = key.strip_suffix(':').map_or((key, false), |key| (key, true));
        if key.is_empty() {
            return Err(Failure::usage(format!("`{word}` has no key before `=`")));
        }
        let file = value.strip_prefix('@').filter(|path| !path.is_empty());
        Ok(Self { key, is_json, value, file })
    }
}

impl Pair {
    fn parse(word: String) -> Outcome<Self> {
        let parts = PairWord::parse(&word)?;
        match parts.file {
            Some(path) => Self::new(parts.key, parts.is_json, read_value(parts.key, path)?),
            None => Self::new(parts.key, parts.is_json, parts.value.to_owned()),
        }
    }

    fn new(key: &str, is_json: bool, text: String) -> Outcome<Self> {
        let value = if is_json {
            let parsed = serde_json::from_str(&text).map_err(|error| {
                let message = format!("`{key}` is not JSON: {error}");
                Failure::usage_hint(message, format!("for text, write {key}=…"))
            });
            PairValue::Json(parsed?)
        } else {
            PairValue::Text(text)
        };
        Ok(Self { key: key.to_owned(), value })
    }
}

/// Reads the value of an argument from a file, or from stdin if the path is `-`.
fn read_value(key: &str, path: &str) -> Outcome<String> {
    let read = if path == "-" {
        read_bounded(std::io::stdin().lock())
    } else {
        std::fs::File::open(path).and_then(read_bounded)
    };
    read.map_err(|error| {
        let message = format!("`{key}` cannot be read from {path}: {}", describe_io_error(&error));
        Failure::usage_hint(message, format!("for the text itself, write {key}:='\"@{path}\"'"))
    })
}

/// The names of arguments that no parameter has, each with the parameter that may be meant. There are
/// none if the schema allows any.
pub(crate) fn find_unknown_names<'a>(
    schema: &'a Value,
    arguments: &'a Map<String, Value>,
) -> Vec<(&'a str, Option<&'a str>)> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Vec::new() };
    let is_open =
        |keyword| schema.get(keyword).is_some_and(|allowed| allowed.is_object() || *allowed == true);
    // A schema without parameters often stands for one that nobody wrote.
    if properties.is_empty() || is_open("additionalProperties") || is_open("patternProperties") {
        return Vec::new();
    }
    let unknown = arguments.keys().filter(|name| !properties.contains_key(*name));
    unknown.map(|name| (&**name, closest_name(name, properties.keys().map(String::as_str)))).collect()
}

/// The parameters that were not given, and that an argument with an unknown name may be meant for: the
/// required ones, or any if the schema allows no other names.
pub(crate) fn find_misspelled_names<'a>(schema: &'a Value, arguments: &Map<String, Value>) -> Vec<&'a str> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Vec::new() };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut candidates: Vec<&str> = required.filter_map(Value::as_str).collect();
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        candidates.extend(properties.keys().map(String::as_str));
    }
    candidates.retain(|name| !arguments.contains_key(*name));
    let unknown = arguments.keys().filter(|name| !properties.contains_key(*name));
    let mut meant: Vec<&str> =
        unknown.filter_map(|name| closest_name(name, candidates.iter().copied())).collect();
    meant.sort_unstable();
    meant.dedup();
    meant
}

/// Returns the JSON object from `--args`, or reads it from a file or stdin.
pub(crate) fn read_arguments_object(args: Option<String>, file: Option<&Path>) -> Outcome<Option<String>> {
    let Some(path) = file else { return Ok(args) };
    if path == Path::new("-") {
        let text = read_bounded(std::io::stdin().lock());
        return text.map(Some).map_err(|error| Failure::usage(format!("cannot read stdin: {error}")));
    }
    // The path may name a pipe, so the file is not required to be regular.
    let text = std::fs::File::open(path).and_then(read_bounded);
    text.map(Some).map_err(|error| Failure::file(path, &error.to_string()))
}

/// Reads `source` to its end, and fails beyond [`MAX_ARGUMENTS_BYTES`].
fn read_bounded(source: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    source.take(MAX_ARGUMENTS_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_ARGUMENTS_BYTES {
        return Err(std::io::Error::other(format!(
            "larger than {} MiB",
            MAX_ARGUMENTS_BYTES / (1024 * 1024)
        )));
    }
    Ok(text)
}

const MAX_ARGUMENTS_BYTES: u64 = 64 * 1024 * 1024;

fn parse_object(text: &str) -> Outcome<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => {
            let given = match other {
                Value::Array(_) => "an array",
                Value::String(_) => "a text",
                Value::Number(_) => "a number",
                Value::Bool(_) => "a boolean",
                Value::Null | Value::Object(_) => "null",
            };
            let message = format!("the arguments must be a JSON object, but are {given}");
            Err(Failure::usage_hint(message, OBJECT_HINT))
        }
        Err(error) => Err(Failure::usage_hint(format!("the arguments are not JSON: {error}"), OBJECT_HINT)),
    }
}

/// How arguments are written as an object.
const OBJECT_HINT: &str = r#"write each as key=value, or all as an object: --args '{"key": "value"}'"#;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed(whole: Option<&str>, words: &[&str], schema: &Value) -> Outcome<Value> {
        let words = words.iter().map(ToString::to_string).collect();
        RawArguments::parse(whole, words)?.into_typed(schema).map(Value::Object)
    }

    #[test]
    fn words_are_laid_over_the_whole() {
        let schema = json!({"properties": {"n": {"type": "integer"}}});
        let arguments = typed(Some(r#"{"n": 1, "kept": true}"#), &["n=2", "s=3", "j:=[1]"], &schema);
        assert_eq!(arguments.ok().unwrap(), json!({"n": 2, "kept": true, "s": "3", "j": [1]}));
    }

    #[test]
    fn elements_of_an_array_add_up() {
        let schema = json!({"properties": {"tags": {"type": "array", "items": {"type": "string"}}}});
        let arguments = typed(None, &["tags=a", "tags=b"], &schema).ok().unwrap();
        assert_eq!(arguments, json!({"tags": ["a", "b"]}));
        let arguments = typed(None, &[r#"tags=["a","b"]"#], &schema).ok().unwrap();
        assert_eq!(arguments, json!({"tags": ["a", "b"]}));
    }

    #[test]
    fn a_value_may_hold_the_separators() {
        let arguments = typed(None, &["url=http://h/?a:=b&c=d", "empty="], &json!({})).ok().unwrap();
        assert_eq!(arguments, json!({"url": "http://h/?a:=b&c=d", "empty": ""}));
    }

    #[test]
    fn a_value_can_be_the_text_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        std::fs::write(&path, "one\ntwo").unwrap();
        let word = format!("text=@{}", path.display());
        assert_eq!(
            typed(None, &[&word, "at=@"], &json!({})).ok().unwrap(),
            json!({"text": "one\ntwo", "at": "@"})
        );
        assert!(typed(None, &[&format!("{word}.none")], &json!({})).is_err());
        std::fs::write(&path, "{\"a\": [1]}").unwrap();
        let word = format!("object:=@{}", path.display());
        assert_eq!(typed(None, &[&word], &json!({})).ok().unwrap(), json!({"object": {"a": [1]}}));
        assert!(typed(None, &["a=@-", "b=@-"], &json!({})).is_err(), "stdin has one value");
    }

    #[test]
    fn names_that_no_parameter_has() {
        let Value::Object(arguments) = json!({"serch": 1, "limit": 2, "zzz": 3}) else { unreachable!() };
        let schema = json!({"properties": {"search": {}, "limit": {}}});
        assert_eq!(find_unknown_names(&schema, &arguments), [("serch", Some("search")), ("zzz", None)]);
        let any = json!({"properties": {"limit": {}}, "additionalProperties": true});
        for open in [json!({}), json!({"properties": {}}), any] {
            assert_eq!(find_unknown_names(&open, &arguments), []);
        }
    }

    #[test]
    fn missing_parameters_that_an_unknown_name_resembles() {
        let meant = |schema: &Value, arguments: Value| {
            let Value::Object(arguments) = arguments else { unreachable!() };
            find_misspelled_names(schema, &arguments).join(" ")
        };
        let properties = json!({"path": {}, "query": {}, "limit": {}});
        let schema = json!({"properties": properties, "required": ["path", "query"]});
        assert_eq!(meant(&schema, json!({"pth": 1, "Query": 1})), "path query");
        assert_eq!(meant(&schema, json!({"pth": 1, "pathh": 1, "query": 1})), "path");
        assert_eq!(meant(&schema, json!({"pth": 1, "path": 1})), "", "it is not missing");
        assert_eq!(meant(&schema, json!({"limi": 1, "zzz": 1})), "");
        let closed = json!({"properties": properties, "additionalProperties": false});
        assert_eq!(meant(&closed, json!({"limi": 1})), "limit");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [&["a=1", "a=2"][..], &["a:=x"], &["=1"], &[":=1"], &[":=@x"], &["a"]] {
            assert!(typed(None, words, &json!({})).is_err(), "{words:?}");
        }
        for whole in ["[]", "{", "1"] {
            assert!(typed(Some(whole), &[], &json!({})).is_err(), "{whole}");
        }
    }
}
