//! Reads the parameters of a tool from its input schema, for people.
//!
//! The schema comes from a server and may be recursive, huge or nonsense, so only a bounded part of it
//! is read.

use std::fmt;

use bowline::Json;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::typing::resolve;

/// A parameter of a tool, or a member of its result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) kind: ParameterKind,
    pub(crate) is_required: bool,
    /// Its description, as the server wrote it.
    pub(crate) about: String,
    /// What else the schema says: a default, and bounds.
    pub(crate) limits: Vec<String>,
}

/// What a parameter takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParameterKind {
    /// One of these values, as they are typed.
    Choice(Vec<String>),
    /// A value of this kind, such as `text` or `date`.
    Value(&'static str),
    /// Any number of elements, which can be given one by one.
    List(Box<Self>),
}

/// Most parameters that are read.
const MAX_PARAMETERS: usize = 200;
/// Most alternatives and values of an enumeration that are read.
const MAX_CHOICES: usize = 100;
/// How many values of an enumeration are shown on a line.
const MAX_SHOWN_CHOICES: usize = 8;
/// How deep alternatives and lists are followed.
const MAX_DEPTH: usize = 4;

/// Reads the parameters of a schema: required ones first, otherwise in the order of the schema.
pub(crate) fn read_parameters(schema: &Json) -> Vec<Parameter> {
    let Ok(root) = schema.decode::<Value>() else { return Vec::new() };
    let Some(Value::Object(properties)) = root.get("properties") else { return Vec::new() };
    let required = root.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let names = schema.member("properties").map(|properties| member_names(&properties)).unwrap_or_default();
    let mut parameters: Vec<_> = names
        .into_iter()
        .filter_map(|name| {
            let property = properties.get(&name)?;
            let described = resolve(&root, property);
            // A reference may have a description beside it.
            let about =
                [property, described].into_iter().find_map(|schema| schema.get("description")?.as_str());
            Some(Parameter {
                kind: ParameterKind::of(&root, property, 0),
                is_required: required.iter().any(|required| *required == *name),
                about: about.unwrap_or_default().to_owned(),
                limits: limits(property, described),
                name,
            })
        })
        .collect();
    parameters.sort_by_key(|parameter| !parameter.is_required);
    parameters
}

/// The default and the bounds of a value.
fn limits(property: &Value, described: &Value) -> Vec<String> {
    let find = |name| property.get(name).or_else(|| described.get(name)).filter(|value| !value.is_null());
    let mut limits = Vec::new();
    if let Some(default) = find("default") {
        limits.push(format!("default {}", as_typed(default)));
    }
    let bounds = [("minimum", "at least"), ("exclusiveMinimum", "more than"), ("maximum", "at most")];
    for (name, words) in bounds.into_iter().chain([("exclusiveMaximum", "less than")]) {
        if let Some(bound @ Value::Number(_)) = find(name) {
            limits.push(format!("{words} {bound}"));
        }
    }
    let lengths = [
        ("minLength", "at least", "character"),
        ("maxLength", "at most", "character"),
        ("minItems", "at least", "element"),
        ("maxItems", "at most", "element"),
    ];
    for (name, words, unit) in lengths {
        if let Some(bound @ Value::Number(_)) = find(name) {
            let ending = if bound.as_u64() == Some(1) { "" } else { "s" };
            limits.push(format!("{words} {bound} {unit}{ending}"));
        }
    }
    if let Some(pattern) = find("pattern").and_then(Value::as_str) {
        limits.push(format!("matches {pattern}"));
    }
    limits
}

/// A value the way it is typed after `key=`.
pub(super) fn as_typed(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// The names of the members of an object, in their order.
fn member_names(object: &Json) -> Vec<String> {
    struct Names;
    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut names: Vec<String> = Vec::new();
            while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                if names.len() < MAX_PARAMETERS && !names.contains(&name) {
                    names.push(name);
                }
            }
            Ok(names)
        }
    }
    serde_json::Deserializer::from_slice(object.as_bytes()).deserialize_map(Names).unwrap_or_default()
}

impl ParameterKind {
    fn of(root: &Value, schema: &Value, depth: usize) -> Self {
        let schema = resolve(root, schema);
        if let Some(choices) = choices(root, schema, depth) {
            return Self::Choice(choices);
        }
        for several in ["anyOf", "oneOf", "allOf"] {
            let alternatives = alternatives(root, schema, several);
            // What may be left out is often written as a value or null.
            if depth < MAX_DEPTH
                && let [only] = &alternatives[..]
            {
                return Self::of(root, only, depth + 1);
            }
        }
        let is = |name: &str| match schema.get("type") {
            Some(Value::String(only)) => only == name,
            Some(Value::Array(names)) => names.iter().any(|one| one == name),
            _ => false,
        };
        match schema.get("format").and_then(Value::as_str) {
            Some("date") if is("string") => Self::Value("date"),
            Some("date-time") if is("string") => Self::Value("time"),
            Some("email") if is("string") => Self::Value("email"),
            Some("uri") if is("string") => Self::Value("url"),
            _ if is("string") => Self::Value("text"),
            _ if is("integer") && !is("number") => Self::Value("integer"),
            _ if is("number") => Self::Value("number"),
            _ if is("boolean") => Self::Choice(vec!["true".into(), "false".into()]),
            _ if is("array") => {
                let items = schema.get("items").unwrap_or(&Value::Null);
                let element =
                    if depth < MAX_DEPTH { Self::of(root, items, depth + 1) } else { Self::Value("value") };
                match element {
                    Self::List(_) => Self::List(Box::new(Self::Value("array"))),
                    element => Self::List(Box::new(element)),
                }
            }
            _ if is("object") || schema.get("properties").is_some() => Self::Value("object"),
            _ => Self::Value("value"),
        }
    }
}

/// The values that a schema enumerates, if it allows no others.
fn choices(root: &Value, schema: &Value, depth: usize) -> Option<Vec<String>> {
    let typed = |values: &[Value]| -> Vec<String> {
        values.iter().filter(|value| !value.is_null()).take(MAX_CHOICES).map(as_typed).collect()
    };
    if let Some(listed) = schema.get("enum").and_then(Value::as_array) {
        return Some(typed(listed)).filter(|choices| !choices.is_empty());
    }
    if let Some(only) = schema.get("const") {
        return Some(typed(std::slice::from_ref(only))).filter(|choices| !choices.is_empty());
    }
    if depth >= MAX_DEPTH {
        return None;
    }
    ["anyOf", "oneOf"].into_iter().find_map(|several| {
        let alternatives = alternatives(root, schema, several);
        if alternatives.is_empty() {
            return None;
        }
        let each: Option<Vec<_>> =
            alternatives.iter().map(|schema| choices(root, schema, depth + 1)).collect();
        each.map(|each| each.into_iter().flatten().take(MAX_CHOICES).collect())
    })
}

/// The alternatives of a schema, apart from null.
fn alternatives<'a>(root: &'a Value, schema: &'a Value, keyword: &str) -> Vec<&'a Value> {
    let listed = schema.get(keyword).and_then(Value::as_array).into_iter().flatten().take(MAX_CHOICES);
    let resolved = listed.map(|schema| resolve(root, schema));
    resolved.filter(|schema| schema.get("type").and_then(Value::as_str) != Some("null")).collect()
}

impl ParameterKind {
    /// All values of an enumeration that has more of them than are shown on a line.
    pub(crate) fn shortened_choices(&self) -> Option<&[String]> {
        match self {
            Self::Choice(choices) => Some(&**choices).filter(|choices| choices.len() > MAX_SHOWN_CHOICES),
            Self::Value(_) => None,
            Self::List(element) => element.shortened_choices(),
        }
    }
}

/// The kind in short: `<text>`, `red|blue`, `<number>...` for a list.
impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choice(choices) => {
                let shown = &choices[..choices.len().min(MAX_SHOWN_CHOICES)];
                f.write_str(&shown.join("|"))?;
                if shown.len() < choices.len() { f.write_str("|…") } else { Ok(()) }
            }
            Self::Value(name) => write!(f, "<{name}>"),
            Self::List(element) => write!(f, "{element}..."),
        }
    }
}

/// A parameter as it is typed: `a=<number>`, in brackets if it may be left out.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, .. } = self;
        if self.is_required { write!(f, "{name}={kind}") } else { write!(f, "[{name}={kind}]") }
    }
}

/// The parameters of a tool on one line: `a=<number> [note=<text>]`.
pub(crate) fn tool_signature(schema: &Json) -> String {
    let parameters = read_parameters(schema);
    parameters.iter().map(Parameter::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(schema: &str) -> String {
        tool_signature(&Json::parse(schema.to_owned()).unwrap())
    }

    #[test]
    fn required_parameters_come_first_in_the_order_of_the_schema() {
        let schema = r#"{"properties": {"z": {"type": "string"}, "b": {"type": "integer"}, "c": {}, "a": {}},
            "required": ["c", "b", "missing"]}"#;
        assert_eq!(signature(schema), "b=<integer> c=<value> [z=<text>] [a=<value>]");
        for none in ["{}", "true", r#"{"properties": 7}"#] {
            assert_eq!(signature(none), "");
        }
    }

    #[test]
    fn kinds_are_said_in_short() {
        for (property, kind) in [
            (r#"{"type": "string"}"#, "<text>"),
            (r#"{"type": "string", "format": "date"}"#, "<date>"),
            (r#"{"type": "string", "format": "date-time"}"#, "<time>"),
            (r#"{"type": "string", "format": "uri"}"#, "<url>"),
            (r#"{"type": "number"}"#, "<number>"),
            (r#"{"type": ["integer", "number"]}"#, "<number>"),
            (r#"{"type": ["integer", "null"]}"#, "<integer>"),
            (r#"{"type": "boolean"}"#, "true|false"),
            (r#"{"enum": ["red", "blue", null]}"#, "red|blue"),
            (r#"{"enum": [1, 2.5, true]}"#, "1|2.5|true"),
            (r#"{"const": "fixed"}"#, "fixed"),
            (r#"{"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}"#, "a|b"),
            (r#"{"anyOf": [{"enum": ["a"]}, {"type": "string"}]}"#, "<value>"),
            (r#"{"anyOf": [{"type": "integer"}, {"type": "null"}]}"#, "<integer>"),
            (r##"{"allOf": [{"$ref": "#/$defs/color"}]}"##, "red|green"),
            (r##"{"$ref": "#/$defs/color"}"##, "red|green"),
            (r#"{"type": "array", "items": {"type": "string"}}"#, "<text>..."),
            (r##"{"type": "array", "items": {"$ref": "#/$defs/color"}}"##, "red|green..."),
            (r#"{"type": "array", "items": {"type": "array"}}"#, "<array>..."),
            (r#"{"type": "array"}"#, "<value>..."),
            (r#"{"type": "object"}"#, "<object>"),
            (r#"{"properties": {}}"#, "<object>"),
            (r##"{"$ref": "#/$defs/loop"}"##, "<value>"),
            (r##"{"$ref": "#/$defs/nested"}"##, "<value>..."),
            ("true", "<value>"),
        ] {
            let schema = format!(
                r##"{{"properties": {{"key": {property}}}, "required": ["key"], "$defs": {{
                    "color": {{"enum": ["red", "green"]}},
                    "loop": {{"anyOf": [{{"$ref": "#/$defs/loop"}}]}},
                    "nested": {{"type": "array", "items": {{"$ref": "#/$defs/loop"}}}}}}}}"##
            );
            assert_eq!(signature(&schema), format!("key={kind}"), "{property}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let values: Vec<_> = (0..500).map(|n| n.to_string()).collect();
        let schema = serde_json::json!({"properties": {"key": {"enum": values}}}).to_string();
        assert_eq!(signature(&schema), "[key=0|1|2|3|4|5|6|7|…]");
        let many: serde_json::Map<_, _> = (0..500).map(|n| (format!("k{n}"), Value::Bool(true))).collect();
        let schema = serde_json::json!({ "properties": many }).to_string();
        assert_eq!(read_parameters(&Json::parse(schema).unwrap()).len(), MAX_PARAMETERS);
    }

    #[test]
    fn defaults_and_bounds() {
        let schema = r##"{"properties": {
            "n": {"type": "integer", "default": 10, "minimum": 1, "maximum": 50, "description": "How many"},
            "s": {"$ref": "#/$defs/s", "description": "Its own words"},
            "l": {"type": "array", "minItems": 1}},
            "$defs": {"s": {"type": "string", "default": "x y", "maxLength": 9, "description": "Others"}}}"##;
        let parameters = read_parameters(&Json::parse(schema).unwrap());
        let said: Vec<_> = parameters.iter().map(|one| (&*one.about, one.limits.join(", "))).collect();
        assert_eq!(
            said,
            [
                ("How many", "default 10, at least 1, at most 50".to_owned()),
                ("Its own words", "default x y, at most 9 characters".to_owned()),
                ("", "at least 1 element".to_owned()),
            ]
        );
    }
}
