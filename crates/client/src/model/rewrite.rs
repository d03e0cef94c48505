//! Rewrites a tool's input schema for a provider.
//!
//! Providers accept a subset of JSON Schema, and a single unsupported tool fails the whole request.
//! So a schema is rebuilt from the keywords that are known to be accepted, instead of having the
//! others removed. Losing a constraint on the way (a `not`, a condition, exclusive members) is no
//! loss of safety: arguments are checked against the original.
//!
//! The number of steps is limited; a schema that needs more is an error.
//!
//! For the rest of the crate:
//!
//! ```text
//! for_provider(schema: &Json, api: ModelApi) -> Result<(Value, KeyMap), RewriteError>
//! KeyMap::to_server(&self, arguments: &Json) -> Json  arguments of the model, server's names
//! KeyMap::to_model(&self, arguments: &Json) -> Json   arguments of the server, model's names
//! ```

mod flat;
mod gemini;
mod keys;
mod pattern;
mod plain;
mod strict;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use bowline_proto::wire::Json;
use serde_json::{Map, Value, json};

pub(crate) use self::keys::KeyMap;

use self::flat::{FlatSchema, ObjectUnion};
use super::options::ModelApi;
#[cfg(feature = "sampling")]
use super::options::ModelOptions;
use super::text;
use crate::schema::{ParsedSchema, SchemaError, Targets};

/// The schema rules of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// JSON Schema with `$defs`; no composition at the root; arrays need `items`. Strict mode where
    /// possible.
    OpenAi { strict: bool },
    /// JSON Schema as for OpenAI; member names have a fixed alphabet.
    Anthropic,
    /// The subset of OpenAPI 3.0 that `parameters` accepts, without references.
    Gemini,
}

impl Rules {
    pub(super) fn for_api(api: ModelApi, strict: bool) -> Self {
        match api {
            ModelApi::OpenAi | ModelApi::OpenAiResponses => Self::OpenAi { strict },
            ModelApi::Anthropic => Self::Anthropic,
            ModelApi::Gemini => Self::Gemini,
        }
    }
}

/// A schema in a provider's dialect.
pub(super) struct RewrittenSchema {
    /// `None` if there are no arguments and the provider requires it to be left out.
    pub(super) parameters: Option<Value>,
    /// Members that were renamed.
    pub(super) keys: KeyMap,
    /// Whether it is in the strict form, which the provider enforces.
    pub(super) strict: bool,
    /// Text for the model about conditions that the dialect cannot express.
    pub(super) note: Option<String>,
}

/// Why a schema cannot be rewritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RewriteError {
    #[error("{0}")]
    Schema(#[from] SchemaError),
    #[error("its arguments are not an object")]
    NotAnObject,
    #[error("its arguments are recursive, which the provider cannot express")]
    Recursive,
    #[error("its schema is nested too deeply")]
    TooDeep,
    #[error("its schema is too large")]
    TooLarge,
}

/// Rewrites `schema` for a provider, without strict mode. Returns the schema and the renamed
/// members.
///
/// The schema is an object, except for a Gemini tool without arguments: there it is null, and
/// `parameters` must be left out.
#[cfg(feature = "sampling")]
pub(crate) fn for_provider(schema: &Json, api: ModelApi) -> Result<(Value, KeyMap), RewriteError> {
    let most = ModelOptions::new(api).max_description;
    let RewrittenSchema { parameters, keys, .. } = rewrite(schema, Rules::for_api(api, false), most)?;
    Ok((parameters.unwrap_or(Value::Null), keys))
}

/// Rewrites `schema`. Texts in it have at most `max_text_chars` characters.
pub(super) fn rewrite(
    schema: &Json,
    rules: Rules,
    max_text_chars: usize,
) -> Result<RewrittenSchema, RewriteError> {
    let read = ParsedSchema::parse(schema)?;
    let mut rewriter = Rewriter {
        targets: read.targets()?,
        rules,
        max_text_chars,
        steps_left: MAX_STEPS,
        patterns: pattern::PatternBudget::default(),
        keys: KeyMap::for_schema(&read.value, rules),
        in_progress: Vec::new(),
        names: HashMap::new(),
        defs: BTreeMap::new(),
    };
    let mut root = rewriter.root(&read.value)?;
    let form = (rules == Rules::OpenAi { strict: true }).then(|| strict::strict_form(&root)).flatten();
    let strict = form.is_some();
    root = form.unwrap_or(root);
    let empty = rules == Rules::Gemini && root.get("properties").is_none();
    let parameters = if empty { None } else { Some(root) };
    Ok(RewrittenSchema { parameters, keys: rewriter.keys, strict, note: unsupported_conditions(&read.value) })
}

/// Maximum number of parts and values written; repeated ones count each time.
const MAX_STEPS: usize = 20_000;
/// Maximum nesting of parts, with references followed.
const MAX_DEPTH: usize = 64;
/// Maximum size of the text about conditions, in bytes.
const MAX_NOTE_BYTES: usize = 300;

struct Rewriter<'s> {
    targets: Targets<'s>,
    rules: Rules,
    max_text_chars: usize,
    steps_left: usize,
    patterns: pattern::PatternBudget,
    keys: KeyMap,
    /// Parts that are being written.
    in_progress: Vec<*const Value>,
    /// Parts that others refer to, with their names in `$defs`.
    names: HashMap<*const Value, String>,
    defs: BTreeMap<String, Value>,
}

impl<'s> Rewriter<'s> {
    /// Rewrites the root, which is always an object.
    fn root(&mut self, schema: &'s Value) -> Result<Value, RewriteError> {
        let union = ObjectUnion::from_schema(self, schema)?;
        if !union.may_be_object() {
            return Err(RewriteError::NotAnObject);
        }
        let mut root = self.object(&union, 0)?;
        if self.rules == Rules::Gemini {
            return Ok(Value::Object(root));
        }
        if !root.contains_key("properties") {
            root.insert("properties".to_owned(), json!({}));
        }
        if !self.defs.is_empty() {
            let defs = std::mem::take(&mut self.defs);
            root.insert("$defs".to_owned(), Value::Object(defs.into_iter().collect()));
        }
        Ok(Value::Object(root))
    }

    /// Writes `type`, `properties` and `required` of an object.
    fn object(&mut self, union: &ObjectUnion<'s>, depth: usize) -> Result<Map<String, Value>, RewriteError> {
        let gemini = self.rules == Rules::Gemini;
        let mut out = Map::new();
        out.insert("type".to_owned(), json!(if gemini { "OBJECT" } else { "object" }));
        let mut properties = Map::new();
        for (&name, alternatives) in &union.properties {
            // The member can never be present.
            if alternatives.iter().all(|nodes| nodes.iter().any(|node| **node == Value::Bool(false))) {
                continue;
            }
            let mut written: Vec<Value> = Vec::new();
            for nodes in alternatives {
                let value = self.schema(nodes, depth + 1)?;
                flat::push_unique(&mut written, if gemini { gemini::as_member(value) } else { value });
            }
            let value = match written.len() {
                1 => written.remove(0),
                _ if gemini => gemini::any_of(written),
                _ => json!({ "anyOf": written }),
            };
            properties.insert(self.keys.model_name(name).to_owned(), value);
        }
        let required = union.required.iter().map(|name| self.keys.model_name(name));
        let required: Vec<&str> = required.filter(|name| properties.contains_key(*name)).collect();
        if !required.is_empty() {
            out.insert("required".to_owned(), json!(required));
        }
        if !properties.is_empty() {
            out.insert("properties".to_owned(), Value::Object(properties));
        }
        if let Some(rest) = union.rest.filter(|_| !gemini) {
            let rest = if rest.is_boolean() { rest.clone() } else { self.schema(&[rest], depth + 1)? };
            out.insert("additionalProperties".to_owned(), rest);
        }
        Ok(out)
    }

    /// Rewrites one part, or several that apply together.
    fn schema(&mut self, nodes: &[&'s Value], depth: usize) -> Result<Value, RewriteError> {
        self.enter(depth)?;
        let &[node] = nodes else { return self.body(nodes, depth) };
        let place = std::ptr::from_ref(node);
        let refers = self.rules != Rules::Gemini;
        if refers && let Some(name) = self.names.get(&place) {
            return Ok(reference(name));
        }
        if refers
            && flat::only_refers(node)
            && let Some(&target) = self.targets.get(&place)
        {
            let mut reference = self.definition(target, depth)?;
            // A description next to the reference is specific to this member.
            if let Some(words) = node.get("description").and_then(Value::as_str) {
                self.spend(1 + words.len() / 64)?;
                let words = self.text(words);
                if !text::is_blank(&words) {
                    reference["description"] = words.into();
                }
            }
            return Ok(reference);
        }
        if self.in_progress.contains(&place) {
            if !refers {
                return Err(RewriteError::Recursive);
            }
            // The part contains itself, so it becomes a definition.
            return Ok(reference(&self.name(node)));
        }
        self.in_progress.push(place);
        let body = self.body(nodes, depth)?;
        self.in_progress.pop();
        let Some(name) = self.names.get(&place) else { return Ok(body) };
        self.defs.insert(name.clone(), body);
        Ok(reference(name))
    }

    /// Returns a reference to `target`, and writes the definition if needed.
    fn definition(&mut self, target: &'s Value, depth: usize) -> Result<Value, RewriteError> {
        if let Some(name) = self.names.get(&std::ptr::from_ref(target)) {
            return Ok(reference(name));
        }
        let name = self.name(target);
        let body = self.body(&[target], depth + 1)?;
        self.defs.insert(name.clone(), body);
        Ok(reference(&name))
    }

    /// Names are numbered, since those of the schema may be anything.
    fn name(&mut self, node: &'s Value) -> String {
        let name = format!("d{}", self.names.len() + 1);
        self.names.insert(node, name.clone());
        name
    }

    fn body(&mut self, nodes: &[&'s Value], depth: usize) -> Result<Value, RewriteError> {
        self.enter(depth)?;
        let flat = FlatSchema::collect(self, nodes)?;
        match self.rules {
            Rules::Gemini => self.gemini(&flat, depth),
            Rules::OpenAi { .. } | Rules::Anthropic => self.plain(&flat, depth),
        }
    }

    fn enter(&mut self, depth: usize) -> Result<(), RewriteError> {
        if depth > MAX_DEPTH {
            return Err(RewriteError::TooDeep);
        }
        self.spend(1)
    }

    fn spend(&mut self, steps: usize) -> Result<(), RewriteError> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(RewriteError::TooLarge)?;
        Ok(())
    }

    /// The target of a schema with a reference.
    fn target(&self, node: &Value) -> Option<&'s Value> {
        self.targets.get(&std::ptr::from_ref(node)).copied()
    }

    fn text(&self, text: &str) -> String {
        text::sanitize_trimmed(text, self.max_text_chars)
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Describes conditions on the arguments as a whole, which no dialect supports, for the model.
fn unsupported_conditions(root: &Value) -> Option<String> {
    const LOST: [&str; 9] =
        ["anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependencies", "minProperties"];
    let lost: Map<String, Value> = LOST
        .into_iter()
        .filter_map(|keyword| Some((keyword.to_owned(), root.get(keyword)?.clone())))
        .collect();
    if lost.is_empty() {
        return None;
    }
    let text = Value::Object(lost).to_string();
    // A reference would have no target in this text.
    let readable = text.len() <= MAX_NOTE_BYTES && !text.contains("$ref");
    readable.then(|| format!("The arguments must also fit this JSON Schema: {text}"))
}
