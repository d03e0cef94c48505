//! Renames members of a tool's arguments whose names the provider does not accept.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use bowline_proto::wire::Json;
use bowline_proto::wire::object::quote;
use serde_json::Value;

use super::Rules;
use bowline_proto::stable_hash::StableHash;

/// Renamed members, in both directions. A name means the same everywhere in a tool's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyMap {
    model_names: HashMap<String, String>,
    server_names: HashMap<String, String>,
}

/// Maximum length of a name, for the providers that limit it.
const MAX_KEY_CHARS: usize = 64;

impl KeyMap {
    pub(super) fn for_schema(schema: &Value, rules: Rules) -> Self {
        let fits: fn(&str) -> bool = match rules {
            Rules::OpenAi { .. } => return Self::default(),
            Rules::Anthropic => |name| {
                (1..=MAX_KEY_CHARS).contains(&name.len())
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
            },
            Rules::Gemini => |name| {
                (1..=MAX_KEY_CHARS).contains(&name.len())
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    && !name.as_bytes()[0].is_ascii_digit()
            },
        };
        let mut names = HashSet::new();
        collect_names(schema, &mut names);
        let mut odd: Vec<&str> = names.iter().copied().filter(|name| !fits(name)).collect();
        odd.sort_unstable();
        let mut keys = Self::default();
        for name in odd {
            let mut tries = (0_u32..).map(|salt| safe_name(name, salt));
            let other =
                tries.find(|other| !names.contains(&**other) && !keys.server_names.contains_key(other));
            let other = other.expect("there are more names than members");
            keys.server_names.insert(other.clone(), name.to_owned());
            keys.model_names.insert(name.to_owned(), other);
        }
        keys
    }

    pub(super) fn model_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.model_names.get(name).map_or(name, String::as_str)
    }

    /// Converts arguments of the model to the server's names. Everything else stays byte for byte.
    pub(crate) fn to_server(&self, arguments: &Json) -> Json {
        rename_keys(arguments, &self.server_names)
    }

    /// Converts arguments with the server's names to the model's names, for earlier calls in a
    /// conversation.
    #[cfg(feature = "sampling")]
    pub(crate) fn to_model(&self, arguments: &Json) -> Json {
        rename_keys(arguments, &self.model_names)
    }
}

/// Renames members at any depth in the JSON text. The text is not parsed into a tree, which would
/// change large numbers.
fn rename_keys(json: &Json, names: &HashMap<String, String>) -> Json {
    if names.is_empty() {
        return json.clone();
    }
    let text = json.as_str();
    let mut out = String::with_capacity(text.len());
    // Number of bytes already copied, and where to look for the next string.
    let (mut written, mut at) = (0, 0);
    while let Some(start) = text[at..].find('"').map(|found| at + found) {
        at = end_of_string(text, start);
        // In JSON, a string before a colon is a name, and only there.
        if !text[at..].trim_start().starts_with(':') {
            continue;
        }
        // A name that is not valid Unicode was not in the schema.
        let name = serde_json::from_str::<String>(&text[start..at]).ok();
        if let Some(other) = name.and_then(|name| names.get(&name)) {
            out.push_str(&text[written..start]);
            out.push_str(&quote(other));
            written = at;
        }
    }
    if written == 0 {
        return json.clone();
    }
    out.push_str(&text[written..]);
    Json::parse(out).expect("one name for another leaves JSON as valid as it was")
}

/// The end of the string that begins at `start`.
fn end_of_string(text: &str, start: usize) -> usize {
    let mut bytes = text.as_bytes().iter().enumerate().skip(start + 1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Collects the names of all members of `properties`, at any depth.
fn collect_names<'s>(schema: &'s Value, names: &mut HashSet<&'s str>) {
    match schema {
        Value::Object(members) => {
            for (keyword, value) in members {
                if let ("properties", Value::Object(properties)) = (keyword.as_str(), value) {
                    names.extend(properties.keys().map(String::as_str));
                }
                collect_names(value, names);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect_names(element, names)),
        _ => {}
    }
}

fn safe_name(name: &str, salt: u32) -> String {
    let mut hash = StableHash::new();
    hash.add(name.as_bytes());
    if salt > 0 {
        hash.add(&salt.to_be_bytes());
    }
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let mut out: String = name.chars().map(plain).take(MAX_KEY_CHARS - 10).collect();
    if !out.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        out.insert(0, '_');
    }
    write!(out, "_{:08x}", hash.to_u32()).expect("writing to a string");
    out
}
