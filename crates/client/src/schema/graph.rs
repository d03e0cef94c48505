//! The graph of a schema: its parts, and which part applies which to what.
//!
//! Every reference is resolved here, before the validator sees the schema; one that points outside
//! is an error (JS-03).

mod reader;
mod references;

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::Value;

use super::SchemaError;

/// The parts of a schema.
pub(super) struct Graph {
    nodes: Vec<Node>,
    anchors: Anchors,
}

/// The target of a `$dynamicRef`, by name and resource.
type Anchors = HashMap<Box<str>, HashMap<u32, NodeId>>;

/// Index of a part.
pub(super) type NodeId = usize;

/// The schema as a whole.
pub(super) const ROOT: NodeId = 0;

/// One schema, with what it applies to the value, its elements and its members.
#[derive(Default)]
pub(super) struct Node {
    /// Its own cost.
    pub(super) weight: u64,
    /// The resource (`$id`) that it belongs to.
    pub(super) resource: u32,
    /// Parts applied to the same value: `$ref`, `allOf` and the like.
    pub(super) in_place: Vec<NodeId>,
    /// A part applied to the same value that is resolved during the walk.
    pub(super) dynamic: Option<DynamicRef>,
    /// Whether it has `unevaluatedProperties` or `unevaluatedItems`.
    pub(super) unevaluated: bool,
    pub(super) properties: HashMap<Box<str>, NodeId>,
    /// The number of states of each pattern, and the part that it applies.
    pub(super) patterns: Vec<(u64, NodeId)>,
    /// The part applied to the name of each member.
    pub(super) names: Option<NodeId>,
    pub(super) each_member: Vec<NodeId>,
    pub(super) prefix: Vec<NodeId>,
    pub(super) each_element: Vec<NodeId>,
    /// How often each byte of a string is read.
    pub(super) steps_per_byte: u64,
    /// Whether its elements must be unique.
    pub(super) unique: bool,
}

/// A `$dynamicRef` or `$recursiveRef`.
pub(super) struct DynamicRef {
    /// The name that is looked up in the entered resources, outermost first.
    name: Box<str>,
    /// The part if no resource has the name.
    fallback: NodeId,
}

/// Maximum number of states of all patterns of a schema: compiling takes time, and up to 400 bytes
/// per state.
const MAX_STATES: u64 = 50_000;

/// The target of each schema with a reference, by its address in memory.
pub(crate) type Targets<'s> = HashMap<*const Value, &'s Value>;

impl Graph {
    /// Reads `schema`, whose nesting is bounded by the parser.
    pub(super) fn build(schema: &Value, dialect: Draft) -> Result<Self, SchemaError> {
        let (graph, _, states) = Self::read(schema, dialect)?;
        if states > MAX_STATES { Err(SchemaError::Patterns) } else { Ok(graph) }
    }

    /// The targets of its references. Patterns may have any size, since nothing is compiled.
    #[cfg(feature = "model")]
    pub(super) fn targets(schema: &Value, dialect: Draft) -> Result<Targets<'_>, SchemaError> {
        Self::read(schema, dialect).map(|(_, targets, _)| targets)
    }

    fn read(schema: &Value, dialect: Draft) -> Result<(Self, Targets<'_>, u64), SchemaError> {
        let read = reader::Reader::read(schema, dialect)?;
        let graph = Self { nodes: read.nodes, anchors: read.anchors };
        if graph.is_endless() { Err(SchemaError::Endless) } else { Ok((graph, read.targets, read.states)) }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Resolves a dynamic reference with the entered resources.
    pub(super) fn resolve(&self, dynamic: &DynamicRef, scope: &[u32]) -> NodeId {
        let named = self.anchors.get(&dynamic.name);
        let found = named.and_then(|named| scope.iter().find_map(|resource| named.get(resource)));
        found.copied().unwrap_or(dynamic.fallback)
    }

    /// Whether a part is applied to the same value again without end. A dynamic reference counts as
    /// one to all its possible targets.
    fn is_endless(&self) -> bool {
        // A name is a node after the parts, with edges to all parts that have it.
        let names: HashMap<&str, NodeId> =
            self.anchors.keys().enumerate().map(|(at, name)| (&**name, self.nodes.len() + at)).collect();
        let mut edges = vec![Vec::new(); self.nodes.len() + names.len()];
        for (node, edges) in self.nodes.iter().zip(&mut edges) {
            edges.extend_from_slice(&node.in_place);
            if let Some(dynamic) = &node.dynamic {
                edges.push(dynamic.fallback);
                edges.extend(names.get(&*dynamic.name));
            }
        }
        for (name, targets) in &self.anchors {
            edges[names[&**name]].extend(targets.values());
        }
        // Remove nodes without incoming edges; only a cycle remains.
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
