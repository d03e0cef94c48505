//! Estimates the work of checking a value against a schema before it is done.
//!
//! A check can take nearly forever because of how often schemas are applied: with references, a
//! small schema can be applied 2^n times, or as often as the value is deep. So the same steps are
//! walked first without evaluating anything, up to a budget. Beyond the budget there is no check.
//! The walk costs less than the check.

use serde_json::Value;

use super::graph::{Graph, Node, NodeId, ROOT};

/// The cost of a check, within the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    units: u64,
    /// Size of the longest path to a value, and of the names that a reason may list, in bytes.
    max_path_bytes: u64,
}

impl Cost {
    /// Whether all reasons can be collected: at most one per unit, each with its path.
    pub(super) fn is_small(self) -> bool {
        self.units <= MAX_COLLECTED_UNITS
            && self.units.saturating_mul(self.max_path_bytes) <= MAX_COLLECTED_BYTES
    }
}

/// Maximum cost of a check. A unit is about one keyword applied to one value, some 50 ns, so a
/// check takes up to a quarter of a second.
const MAX_UNITS: u64 = 5_000_000;
/// Maximum cost up to which reasons are collected, since they take memory.
const MAX_COLLECTED_UNITS: u64 = 100_000;
/// Maximum size of all paths in the reasons, in bytes: a member's name may have megabytes.
const MAX_COLLECTED_BYTES: u64 = 64 << 20;
/// Maximum nesting of applied schemas. The validator recurses in the same way, on the stack.
const MAX_DEPTH: usize = 400;
/// Pattern steps per unit.
const STEPS_PER_UNIT: u64 = 32;

/// The cost of a check. `None` if it exceeds the budget or the maximum depth.
pub(super) fn estimate(graph: &Graph, value: &Value) -> Option<Cost> {
    let mut walk = CostWalk { graph, left: MAX_UNITS, scope: Vec::new(), path: 0, max_path_bytes: 0 };
    walk.apply(ROOT, value, 0)?;
    Some(Cost { units: MAX_UNITS - walk.left, max_path_bytes: walk.max_path_bytes })
}

/// Walks the steps of a check. It is bounded by `left`, which every step spends; by the depth; and
/// by the size of the graph.
///
/// It may take more steps than the check (both sides of an `if`, all of an `anyOf`), never fewer.
struct CostWalk<'g> {
    graph: &'g Graph,
    left: u64,
    /// The resources that were entered, which `$dynamicRef` searches.
    scope: Vec<u32>,
    /// Size of the names on the current path, in bytes.
    path: u64,
    max_path_bytes: u64,
}

impl CostWalk<'_> {
    fn apply(&mut self, id: NodeId, value: &Value, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let graph = self.graph;
        let node = graph.node(id);
        self.spend(node.weight)?;
        let entered = self.scope.last() != Some(&node.resource);
        if entered {
            self.scope.push(node.resource);
        }
        // `unevaluated…` evaluates the schemas beside it again.
        for _ in 0..=u8::from(node.unevaluated) {
            for &same in &node.in_place {
                self.apply(same, value, depth + 1)?;
            }
            if let Some(dynamic) = &node.dynamic {
                self.spend(self.scope.len() as u64)?;
                self.apply(graph.resolve(dynamic, &self.scope), value, depth + 1)?;
            }
        }
        match value {
            Value::String(text) => self.spend_text(node, text)?,
            Value::Array(elements) => self.elements(node, elements, depth)?,
            Value::Object(members) => self.members(node, members, depth)?,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if node.unique {
            self.spend_comparison(value)?;
        }
        if entered {
            self.scope.pop();
        }
        Some(())
    }

    fn elements(&mut self, node: &Node, elements: &[Value], depth: usize) -> Option<()> {
        for (index, element) in elements.iter().enumerate() {
            if let Some(&at) = node.prefix.get(index) {
                self.apply(at, element, depth + 1)?;
            }
            for &each in &node.each_element {
                self.apply(each, element, depth + 1)?;
            }
        }
        Some(())
    }

    fn members(&mut self, node: &Node, members: &serde_json::Map<String, Value>, depth: usize) -> Option<()> {
        // Each property is looked up, present or not.
        self.spend(node.properties.len() as u64)?;
        let before = self.path;
        if !node.each_member.is_empty() {
            // A reason may list all unexpected members.
            let names: u64 = members.keys().map(|name| name.len() as u64).sum();
            self.max_path_bytes = self.max_path_bytes.max(before + names);
        }
        for (name, member) in members {
            self.path = before + name.len() as u64;
            self.max_path_bytes = self.max_path_bytes.max(self.path);
            for &(states, pattern) in &node.patterns {
                self.spend(1 + name.len() as u64 * states / STEPS_PER_UNIT)?;
                self.apply(pattern, member, depth + 1)?;
            }
            if let Some(names) = node.names {
                self.apply(names, &Value::String(name.clone()), depth + 1)?;
            }
            if let Some(&named) = node.properties.get(&**name) {
                self.apply(named, member, depth + 1)?;
            }
            for &each in &node.each_member {
                self.apply(each, member, depth + 1)?;
            }
        }
        self.path = before;
        Some(())
    }

    /// Spends the cost of patterns and formats, which read every byte, some of them many times.
    fn spend_text(&mut self, node: &Node, text: &str) -> Option<()> {
        self.spend((text.len() as u64).saturating_mul(node.steps_per_byte) / STEPS_PER_UNIT)
    }

    /// Spends the cost of comparing whole elements for uniqueness.
    fn spend_comparison(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::String(text) => self.spend(1 + text.len() as u64 / STEPS_PER_UNIT),
            Value::Array(elements) => elements.iter().try_for_each(|element| self.spend_comparison(element)),
            Value::Object(members) => members.values().try_for_each(|member| self.spend_comparison(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.spend(1),
        }
    }

    fn spend(&mut self, units: u64) -> Option<()> {
        self.left = self.left.checked_sub(units)?;
        Some(())
    }
}
