//! Owns what a schema consists of: its parts, and which is applied to what by which.
//!
//! Every reference is resolved here, before the validator sees the schema. One that leads out of it ends
//! there (JS-03).

mod places;
mod read;

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::Value;

use super::SchemaError;

/// The parts of a schema.
pub(super) struct Graph {
    nodes: Vec<Node>,
    anchors: Anchors,
}

/// By name, and then by resource, the part that a `$dynamicRef` means there.
type Anchors = HashMap<Box<str>, HashMap<u32, NodeId>>;

/// The place of a part among all parts.
pub(super) type NodeId = usize;

/// The schema as a whole.
pub(super) const ROOT: NodeId = 0;

/// One schema, with what it applies to the value, to its elements and to its members.
#[derive(Default)]
pub(super) struct Node {
    /// What it costs by itself.
    pub(super) weight: u64,
    /// The `$id` it is under.
    pub(super) resource: u32,
    /// Applied to the same value: `$ref`, `allOf` and the like.
    pub(super) same: Vec<NodeId>,
    /// Applied to the same value, found on the way.
    pub(super) dynamic: Option<Dynamic>,
    /// It has `unevaluatedProperties` or `unevaluatedItems`.
    pub(super) unevaluated: bool,
    pub(super) properties: HashMap<Box<str>, NodeId>,
    /// States of the pattern, and what it leads to.
    pub(super) patterns: Vec<(u64, NodeId)>,
    /// Applied to the name of each member.
    pub(super) names: Option<NodeId>,
    pub(super) each_member: Vec<NodeId>,
    pub(super) prefix: Vec<NodeId>,
    pub(super) each_element: Vec<NodeId>,
    /// How often each byte of a text is looked at.
    pub(super) steps_per_byte: u64,
    /// Its elements must differ.
    pub(super) unique: bool,
}

/// A `$dynamicRef` or `$recursiveRef`.
pub(super) struct Dynamic {
    /// What is looked for in the resources that were entered, outermost first.
    name: Box<str>,
    /// What is meant where none has it.
    otherwise: NodeId,
}

/// States of all patterns of a schema together: compiling them takes time, and up to 400 bytes each.
const MAX_STATES: u64 = 50_000;

/// What each schema with a reference refers to, by where it is in memory.
pub(crate) type Targets<'s> = HashMap<*const Value, &'s Value>;

impl Graph {
    /// Reads `schema`, whose nesting the parser has bounded.
    pub(super) fn of(schema: &Value, dialect: Draft) -> Result<Self, SchemaError> {
        let (graph, _, states) = Self::read(schema, dialect)?;
        if states > MAX_STATES { Err(SchemaError::Patterns) } else { Ok(graph) }
    }

    /// What its references mean. Its patterns may be of any size: nothing is compiled.
    pub(super) fn targets(schema: &Value, dialect: Draft) -> Result<Targets<'_>, SchemaError> {
        Self::read(schema, dialect).map(|(_, targets, _)| targets)
    }

    fn read(schema: &Value, dialect: Draft) -> Result<(Self, Targets<'_>, u64), SchemaError> {
        let read = read::Reader::read(schema, dialect)?;
        let graph = Self { nodes: read.nodes, anchors: read.anchors };
        if graph.is_endless() { Err(SchemaError::Endless) } else { Ok((graph, read.targets, read.states)) }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What a dynamic reference means where these resources were entered.
    pub(super) fn resolve(&self, dynamic: &Dynamic, scope: &[u32]) -> NodeId {
        let named = self.anchors.get(&dynamic.name);
        let found = named.and_then(|named| scope.iter().find_map(|resource| named.get(resource)));
        found.copied().unwrap_or(dynamic.otherwise)
    }

    /// Whether a part is applied to the value that it is being applied to. A dynamic reference counts as
    /// one to all that it could mean.
    fn is_endless(&self) -> bool {
        // A name has a place behind the parts, from where it leads to all that have it.
        let names: HashMap<&str, NodeId> =
            self.anchors.keys().enumerate().map(|(at, name)| (&**name, self.nodes.len() + at)).collect();
        let mut edges = vec![Vec::new(); self.nodes.len() + names.len()];
        for (node, edges) in self.nodes.iter().zip(&mut edges) {
            edges.extend_from_slice(&node.same);
            if let Some(dynamic) = &node.dynamic {
                edges.push(dynamic.otherwise);
                edges.extend(names.get(&*dynamic.name));
            }
        }
        for (name, targets) in &self.anchors {
            edges[names[&**name]].extend(targets.values());
        }
        // What nothing leads to any more is taken away. A circle stays.
        let mut leading = vec![0_usize; edges.len()];
        for &target in edges.iter().flatten() {
            leading[target] += 1;
        }
        let mut free: Vec<NodeId> = (0..edges.len()).filter(|&id| leading[id] == 0).collect();
        let mut taken = 0;
        while let Some(id) = free.pop() {
            taken += 1;
            for &target in &edges[id] {
                leading[target] -= 1;
                if leading[target] == 0 {
                    free.push(target);
                }
            }
        }
        taken < edges.len()
    }
}
