//! Owns what a model calls the members of a tool's arguments, where the provider does not take their names.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::Rules;
use crate::model::names::Hash;

/// Members with names that the provider refuses, each with another. One name means the same everywhere in
/// a tool's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::model) struct Keys {
    said: HashMap<String, String>,
    meant: HashMap<String, String>,
}

/// The most characters in a name, with both providers that say so.
const MAX_KEY: usize = 64;

impl Keys {
    pub(super) fn of(schema: &Value, rules: Rules) -> Self {
        let fits: fn(&str) -> bool = match rules {
            Rules::OpenAi { .. } => return Self::default(),
            Rules::Anthropic => |name| {
                (1..=MAX_KEY).contains(&name.len())
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
            },
            Rules::Gemini => |name| {
                (1..=MAX_KEY).contains(&name.len())
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    && !name.as_bytes()[0].is_ascii_digit()
            },
        };
        let mut names = HashSet::new();
        collect(schema, &mut names);
        let mut odd: Vec<&str> = names.iter().copied().filter(|name| !fits(name)).collect();
        odd.sort_unstable();
        let mut keys = Self::default();
        for name in odd {
            let mut tries = (0_u32..).map(|salt| other(name, salt));
            let other = tries.find(|other| !names.contains(&**other) && !keys.meant.contains_key(other));
            let other = other.expect("there are more names than members");
            keys.meant.insert(other.clone(), name.to_owned());
            keys.said.insert(name.to_owned(), other);
        }
        keys
    }

    /// What the model calls it.
    pub(super) fn said<'a>(&'a self, name: &'a str) -> &'a str {
        self.said.get(name).map_or(name, String::as_str)
    }

    /// The arguments with the names that the server gave.
    pub(in crate::model) fn meant(&self, value: Value) -> Value {
        if self.meant.is_empty() {
            return value;
        }
        match value {
            Value::Object(members) => {
                let mut out = Map::new();
                for (name, member) in members {
                    let name = self.meant.get(&name).cloned().unwrap_or(name);
                    out.insert(name, self.meant(member));
                }
                Value::Object(out)
            }
            Value::Array(elements) => {
                Value::Array(elements.into_iter().map(|element| self.meant(element)).collect())
            }
            other => other,
        }
    }
}

/// The names of all members of `properties`, wherever they are.
fn collect<'s>(schema: &'s Value, names: &mut HashSet<&'s str>) {
    match schema {
        Value::Object(members) => {
            for (keyword, value) in members {
                if let ("properties", Value::Object(properties)) = (keyword.as_str(), value) {
                    names.extend(properties.keys().map(String::as_str));
                }
                collect(value, names);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, names)),
        _ => {}
    }
}

fn other(name: &str, salt: u32) -> String {
    let mut hash = Hash::new();
    hash.add(name.as_bytes());
    if salt > 0 {
        hash.add(&salt.to_be_bytes());
    }
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let mut out: String = name.chars().map(plain).take(MAX_KEY - 10).collect();
    if !out.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        out.insert(0, '_');
    }
    write!(out, "_{:08x}", hash.short()).expect("writing to a string");
    out
}
