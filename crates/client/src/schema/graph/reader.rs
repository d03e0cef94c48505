//! Reads the parts of a schema: which keywords hold schemas, and what each is applied to.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::references::{ReferenceTable, Resource};
use super::{Anchors, DynamicRef, Node, NodeId};
use crate::schema::{MAX_PARTS, SchemaError, dialect, pattern, truncate_display};

/// A schema that is being read.
pub(super) struct Reader<'s> {
    pub(super) nodes: Vec<Node>,
    pub(super) anchors: Anchors,
    dialect: Draft,
    table: ReferenceTable<'s>,
    /// Parts by their address in memory: the schema does not move while it is read.
    known: HashMap<*const Value, NodeId>,
    /// References, resolved once all names are known.
    references: Vec<Reference<'s>>,
    /// The target of each schema with a reference.
    pub(super) targets: HashMap<*const Value, &'s Value>,
    /// Number of states of all patterns.
    pub(super) states: u64,
}

struct Reference<'s> {
    from: NodeId,
    within: &'s Value,
    to: &'s str,
    dynamic: bool,
}

/// Maximum number of compiled parts; those compiled repeatedly count each time. Without nested
/// `$id`s this has no effect; with two, parts count five times; with six, two thousand times.
const MAX_COMPILED: usize = 50_000;
/// The name that `$recursiveRef` looks up, which no anchor can have.
const RECURSIVE: &str = "#";

impl<'s> Reader<'s> {
    pub(super) fn read(schema: &'s Value, dialect: Draft) -> Result<Self, SchemaError> {
        let mut reader = Self {
            nodes: Vec::new(),
            anchors: HashMap::new(),
            dialect,
            table: ReferenceTable::new(schema),
            known: HashMap::new(),
            references: Vec::new(),
            targets: HashMap::new(),
            states: 0,
        };
        reader.read_part(schema, 0)?;
        // A target may be outside the known keywords and have references of its own.
        while let Some(reference) = reader.references.pop() {
            reader.resolve(&reference)?;
        }
        if reader.compile_orders().saturating_mul(reader.nodes.len()) > MAX_COMPILED {
            return Err(SchemaError::TooManyParts);
        }
        Ok(reader)
    }

    /// The number of orders in which resources can be entered. The validator compiles a part for
    /// each, since a dynamic reference may resolve differently.
    fn compile_orders(&self) -> usize {
        let others = self.table.resources() - 1;
        // One for no resource, then the number of orders of one, of two, and so on.
        let orders = (0..others).scan(1_usize, |orders, entered| {
            *orders = orders.saturating_mul(others - entered);
            Some(*orders)
        });
        orders.fold(1, usize::saturating_add)
    }

    /// Reads a part and its subschemas. Recurses as deeply as the schema is nested.
    fn read_part(&mut self, schema: &'s Value, outer: Resource) -> Result<NodeId, SchemaError> {
        if let Some(&known) = self.known.get(&std::ptr::from_ref(schema)) {
            return Ok(known);
        }
        if self.nodes.len() >= MAX_PARTS {
            return Err(SchemaError::TooManyParts);
        }
        let id = self.nodes.len();
        self.nodes.push(Node { weight: 1, resource: outer, ..Node::default() });
        self.known.insert(schema, id);
        let Value::Object(members) = schema else { return Ok(id) };
        let resource = self.register_names(id, schema, members, outer)?;
        let mut node = Node { resource, weight: 1 + members.len() as u64, ..Node::default() };
        for (keyword, value) in members {
            self.read_keyword((id, schema), &mut node, keyword, value)?;
        }
        self.nodes[id] = node;
        Ok(id)
    }

    /// Registers the names of a part. Returns the resource that it belongs to.
    fn register_names(
        &mut self,
        id: NodeId,
        schema: &'s Value,
        members: &'s Map<String, Value>,
        outer: Resource,
    ) -> Result<Resource, SchemaError> {
        let text = |keyword: &str| members.get(keyword).and_then(Value::as_str);
        if let Some(named) = text("$schema")
            && dialect::by_name(named).is_none_or(|(draft, _)| draft != self.dialect)
        {
            // A part in another dialect would follow other rules.
            return Err(SchemaError::Dialect(truncate_display(&named)));
        }
        let old = matches!(self.dialect, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
        let own = text(if self.dialect == Draft::Draft4 { "id" } else { "$id" });
        // Old dialects ignore everything beside a `$ref`.
        let own = own.filter(|_| !(old && members.contains_key("$ref")));
        let resource = match own {
            Some(name) if old && name.starts_with('#') => {
                self.table.anchor(outer, &name[1..], schema)?;
                outer
            }
            Some(name) => self.table.resource(outer, name, schema)?,
            None => outer,
        };
        if let Some(anchor) = text("$anchor") {
            self.table.anchor(resource, anchor, schema)?;
        }
        if let Some(anchor) = text("$dynamicAnchor") {
            self.table.anchor(resource, anchor, schema)?;
            self.anchors.entry(anchor.into()).or_default().insert(resource, id);
        }
        if members.get("$recursiveAnchor").and_then(Value::as_bool) == Some(true) {
            self.anchors.entry(RECURSIVE.into()).or_default().insert(resource, id);
        }
        Ok(resource)
    }

    fn read_keyword(
        &mut self,
        (from, within): (NodeId, &'s Value),
        node: &mut Node,
        keyword: &str,
        value: &'s Value,
    ) -> Result<(), SchemaError> {
        let resource = node.resource;
        match (keyword, value) {
            ("$ref", Value::String(to)) => {
                self.references.push(Reference { from, within, to, dynamic: false });
            }
            ("$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                self.references.push(Reference { from, within, to, dynamic: true });
            }
            ("not" | "if" | "then" | "else", _) => node.in_place.push(self.read_part(value, resource)?),
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                for schema in schemas {
                    node.in_place.push(self.read_part(schema, resource)?);
                }
            }
            ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                for schema in schemas.values().filter(|schema| !schema.is_array()) {
                    node.in_place.push(self.read_part(schema, resource)?);
                }
            }
            ("properties", Value::Object(schemas)) => {
                for (name, schema) in schemas {
                    let at = self.read_part(schema, resource)?;
                    node.properties.insert(name.as_str().into(), at);
                }
            }
            ("patternProperties", Value::Object(schemas)) => {
                for (pattern, schema) in schemas {
                    let states = self.pattern(pattern);
                    node.patterns.push((states, self.read_part(schema, resource)?));
                }
            }
            ("propertyNames", _) => node.names = Some(self.read_part(value, resource)?),
            ("additionalProperties", _) => node.each_member.push(self.read_part(value, resource)?),
            ("unevaluatedProperties", _) => {
                node.unevaluated = true;
                node.each_member.push(self.read_part(value, resource)?);
            }
            ("prefixItems" | "items", Value::Array(schemas)) => {
                for schema in schemas {
                    node.prefix.push(self.read_part(schema, resource)?);
                }
            }
            ("items" | "additionalItems" | "contains", _) => {
                node.each_element.push(self.read_part(value, resource)?);
            }
            ("unevaluatedItems", _) => {
                node.unevaluated = true;
                node.each_element.push(self.read_part(value, resource)?);
            }
            // Applied only where something refers to them.
            ("$defs" | "definitions", Value::Object(schemas)) => {
                for schema in schemas.values() {
                    self.read_part(schema, resource)?;
                }
            }
            ("contentSchema", _) => drop(self.read_part(value, resource)?),
            ("pattern", Value::String(pattern)) => {
                node.steps_per_byte = node.steps_per_byte.saturating_add(self.pattern(pattern));
            }
            ("format" | "contentMediaType" | "contentEncoding", _) => node.steps_per_byte += 16,
            ("minLength" | "maxLength", _) => node.steps_per_byte += 1,
            ("uniqueItems", Value::Bool(true)) => node.unique = true,
            ("enum" | "const" | "required" | "dependentRequired", _) => node.weight += size(value),
            _ => {}
        }
        Ok(())
    }

    fn resolve(&mut self, reference: &Reference<'s>) -> Result<(), SchemaError> {
        let from = self.nodes[reference.from].resource;
        let target = self.table.find(from, reference.to, |schema| {
            let known = self.known.get(&std::ptr::from_ref(schema));
            known.map(|&id| self.nodes[id].resource)
        })?;
        self.targets.insert(reference.within, target.schema);
        let to = self.read_part(target.schema, target.resource)?;
        if reference.dynamic {
            let name = if self.dialect == Draft::Draft201909 {
                Some(RECURSIVE)
            } else {
                reference.to.rsplit_once('#').map(|(_, name)| name)
            };
            // A dynamic reference is an ordinary one, unless its first target is a dynamic anchor.
            let resource = self.nodes[to].resource;
            let anchored = name.filter(|&name| {
                self.anchors.get(name).and_then(|named| named.get(&resource)).is_some_and(|&at| at == to)
            });
            if let Some(name) = anchored {
                self.nodes[reference.from].dynamic = Some(DynamicRef { name: name.into(), fallback: to });
                return Ok(());
            }
        }
        self.nodes[reference.from].in_place.push(to);
        Ok(())
    }

    fn pattern(&mut self, pattern: &str) -> u64 {
        let states = pattern::states(pattern);
        self.states = self.states.saturating_add(states);
        states
    }
}

/// The number of values within a value, including itself.
fn size(value: &Value) -> u64 {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(size).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<u64>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}
