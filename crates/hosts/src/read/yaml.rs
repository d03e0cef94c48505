//! Parses YAML into the tree of `bowline-config`. Offsets are not known.

use std::fmt;

use bowline_config::tree::{Key, Node, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;

/// Why a text cannot be read: the line, if it is known, and the reason, which does not quote the text.
pub(super) struct YamlError {
    pub(super) line: Option<usize>,
}

pub(super) fn parse_yaml(text: &str) -> Result<Node, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(node(Value::Table(Vec::new())));
    }
    let parsed: Result<YamlNode, _> = serde_saphyr::from_str_with_options(text, limits());
    parsed.map(|parsed| parsed.0).map_err(|error| {
        let line = error.location().and_then(|location| usize::try_from(location.line()).ok());
        YamlError { line }
    })
}

/// Parser limits, far above what the file of a host needs. Aliases are limited, since a little YAML can
/// expand to very much by them.
fn limits() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 1_000_000,
            max_nodes: 500_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_depth: 64,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        strict_booleans: true,
        with_snippet: false,
    }
}

fn node(value: Value) -> Node {
    Node { offset: 0, value }
}

struct YamlNode(Node);

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor).map(|value| Self(node(value)))
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        YamlNode::deserialize(deserializer).map(|inner| inner.0.value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(YamlNode(item)) = items.next_element()? {
            nodes.push(item);
        }
        Ok(Value::Array(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((YamlNode(key), YamlNode(value))) = entries.next_entry()? {
            if let Value::String(name) | Value::Number(name) = key.value {
                fields.push((Key { offset: 0, name }, value));
            }
        }
        Ok(Value::Table(fields))
    }
}
