//! Flattens composed schemas: `$ref` and `allOf` apply together, `anyOf` and `oneOf` are
//! alternatives.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{RewriteError, Rewriter};

/// Everything that applies to one value.
#[derive(Default)]
pub(super) struct FlatSchema<'s> {
    /// Keywords and their values; of two layers, the outer one counts.
    keywords: BTreeMap<&'s str, &'s Value>,
    /// Members, with all schemas that apply to each.
    pub(super) properties: BTreeMap<&'s str, Vec<&'s Value>>,
    pub(super) required: BTreeSet<&'s str>,
    /// Lists of alternatives, of which one each applies.
    pub(super) choices: Vec<&'s [Value]>,
    layers: usize,
}

/// An object with the members of all its alternatives.
pub(super) struct ObjectUnion<'s> {
    /// Members, with their alternatives.
    pub(super) properties: BTreeMap<&'s str, Vec<Vec<&'s Value>>>,
    /// Members that every alternative requires.
    pub(super) required: BTreeSet<&'s str>,
    /// The schema of other members, if there is only one layer.
    pub(super) rest: Option<&'s Value>,
    kind: Option<&'s Value>,
}

/// Keywords whose values are copied or read in at least one dialect.
const COPIED_KEYWORDS: [&str; 18] = [
    "type",
    "title",
    "description",
    "default",
    "enum",
    "const",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
];

impl<'s> FlatSchema<'s> {
    /// Collects all layers of these schemas, which apply together. Cycles were refused before; the
    /// step limit bounds the rest.
    pub(super) fn collect(rewriter: &mut Rewriter<'s>, nodes: &[&'s Value]) -> Result<Self, RewriteError> {
        let mut flat = Self::default();
        let mut waiting: Vec<&'s Value> = nodes.iter().rev().copied().collect();
        while let Some(node) = waiting.pop() {
            rewriter.enter(0)?;
            let Value::Object(members) = node else { continue };
            flat.layers += 1;
            for (keyword, value) in members {
                rewriter.spend(flat.keyword(keyword, value))?;
            }
            if let Some(Value::Array(all)) = members.get("allOf") {
                waiting.extend(all.iter().rev());
            }
            waiting.extend(rewriter.target(node));
        }
        Ok(flat)
    }

    /// Collects a keyword and returns its cost in steps.
    fn keyword(&mut self, keyword: &'s str, value: &'s Value) -> usize {
        match (keyword, value) {
            ("properties", Value::Object(members)) => {
                for (name, schema) in members {
                    self.properties.entry(name).or_default().push(schema);
                }
                members.len()
            }
            ("required", Value::Array(names)) => {
                self.required.extend(names.iter().filter_map(Value::as_str));
                names.len()
            }
            ("anyOf" | "oneOf", Value::Array(choices)) if !choices.is_empty() => {
                self.choices.push(choices);
                1
            }
            // Subschemas cost when they are written.
            ("items" | "prefixItems" | "additionalProperties", _) => {
                self.keywords.entry(keyword).or_insert(value);
                1
            }
            _ if COPIED_KEYWORDS.contains(&keyword) => {
                self.keywords.entry(keyword).or_insert(value);
                copy_cost(value)
            }
            _ => 0,
        }
    }

    pub(super) fn get(&self, keyword: &str) -> Option<&'s Value> {
        self.keywords.get(keyword).copied()
    }

    pub(super) fn text(&self, keyword: &str) -> Option<&'s str> {
        self.get(keyword).and_then(Value::as_str)
    }

    /// Copies those of the keywords whose value fits.
    pub(super) fn copy(
        &self,
        keywords: &[&str],
        fits: impl Fn(&Value) -> bool,
        out: &mut Map<String, Value>,
    ) {
        for keyword in keywords {
            if let Some(value) = self.get(keyword).filter(|value| fits(value)) {
                out.insert((*keyword).to_owned(), value.clone());
            }
        }
    }

    /// The known types that it declares.
    pub(super) fn types(&self) -> Vec<&'static str> {
        types(self.get("type"))
    }

    /// The schemas of its elements: one, or alternatives for a tuple.
    pub(super) fn elements(&self) -> Vec<&'s Value> {
        let tuple = |keyword| self.get(keyword).and_then(Value::as_array);
        if let Some(tuple) = tuple("prefixItems").or_else(|| tuple("items")) {
            return tuple.iter().collect();
        }
        self.get("items").filter(|items| items.is_object()).into_iter().collect()
    }

    /// The schema of members that are not named. With several layers there is none, since no layer
    /// knows the members of the others.
    pub(super) fn rest(&self) -> Option<&'s Value> {
        let rest = self.get("additionalProperties").filter(|rest| rest.is_object() || rest.is_boolean());
        rest.filter(|_| self.layers == 1)
    }

    /// The object without the members of its choices.
    pub(super) fn union(&self) -> ObjectUnion<'s> {
        let alone = |(name, schemas): (&&'s str, &Vec<&'s Value>)| (*name, vec![schemas.clone()]);
        ObjectUnion {
            properties: self.properties.iter().map(alone).collect(),
            required: self.required.clone(),
            rest: self.rest(),
            kind: self.get("type"),
        }
    }
}

impl<'s> ObjectUnion<'s> {
    pub(super) fn from_schema(rewriter: &mut Rewriter<'s>, schema: &'s Value) -> Result<Self, RewriteError> {
        let flat = FlatSchema::collect(rewriter, &[schema])?;
        Self::with_choices(rewriter, &flat, 0)
    }

    /// The object with the members of all choices.
    pub(super) fn with_choices(
        rewriter: &mut Rewriter<'s>,
        flat: &FlatSchema<'s>,
        depth: usize,
    ) -> Result<Self, RewriteError> {
        rewriter.enter(depth)?;
        let mut union = flat.union();
        for choices in &flat.choices {
            union.rest = None;
            let mut common: Option<BTreeSet<&'s str>> = None;
            for choice in *choices {
                let within = FlatSchema::collect(rewriter, &[choice])?;
                let chosen = Self::with_choices(rewriter, &within, depth + 1)?;
                if !chosen.may_be_object() {
                    continue;
                }
                common = Some(match common {
                    None => chosen.required,
                    Some(common) => common.intersection(&chosen.required).copied().collect(),
                });
                for (name, alternatives) in chosen.properties {
                    // Members that always apply are included already.
                    if !flat.properties.contains_key(name) {
                        union.properties.entry(name).or_default().extend(alternatives);
                    }
                }
            }
            union.required.extend(common.unwrap_or_default());
        }
        Ok(union)
    }

    pub(super) fn may_be_object(&self) -> bool {
        self.kind.is_none() || types(self.kind).contains(&"object")
    }
}

fn types(kind: Option<&Value>) -> Vec<&'static str> {
    const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];
    let is = |value: &Value, name: &str| value.as_str() == Some(name);
    let given = |name: &&str| match kind {
        Some(Value::Array(several)) => several.iter().any(|one| is(one, name)),
        Some(one) => is(one, name),
        None => false,
    };
    TYPES.into_iter().filter(given).collect()
}

/// Adds an alternative, unless there is an equal one.
pub(super) fn push_unique(alternatives: &mut Vec<Value>, new: Value) {
    if !alternatives.contains(&new) {
        alternatives.push(new);
    }
}

/// The cost of copying a value: a step for each value in it, and for each 64 bytes.
fn copy_cost(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / 64,
        Value::Array(elements) => 1 + elements.iter().map(copy_cost).sum::<usize>(),
        Value::Object(members) => {
            1 + members.iter().map(|(name, member)| name.len() / 64 + copy_cost(member)).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// Whether a schema is only a reference, apart from descriptive keywords.
pub(super) fn only_refers(node: &Value) -> bool {
    const WORDS: [&str; 12] = [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
    ];
    node.as_object().is_some_and(|members| members.keys().all(|keyword| WORDS.contains(&keyword.as_str())))
}
