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
    longest: u64,
}

impl Cost {
    /// Whether all reasons can be collected: at most one per unit, each with its path.
    pub(super) fn is_small(self) -> bool {
        self.units <= SMALL && self.units.saturating_mul(self.longest) <= SMALL_BYTES
    }
}

/// Maximum cost of a check. A unit is about one keyword applied to one value, some 50 ns, so a
/// check takes up to a quarter of a second.
const BUDGET: u64 = 5_000_000;
/// Maximum cost up to which reasons are collected, since they take memory.
const SMALL: u64 = 100_000;
/// Maximum size of all paths in the reasons, in bytes: a member's name may have megabytes.
const SMALL_BYTES: u64 = 64 << 20;
/// Maximum nesting of applied schemas. The validator recurses in the same way, on the stack.
const MAX_DEPTH: usize = 400;
/// Pattern steps per unit.
const STEPS: u64 = 32;

/// The cost of a check. `None` if it exceeds the budget or the maximum depth.
pub(super) fn of(graph: &Graph, value: &Value) -> Option<Cost> {
    let mut walk = Walk { graph, left: BUDGET, scope: Vec::new(), path: 0, longest: 0 };
    walk.apply(ROOT, value, 0)?;
    Some(Cost { units: BUDGET - walk.left, longest: walk.longest })
}

/// Walks the steps of a check. It is bounded by `left`, which every step spends; by the depth; and
/// by the size of the graph.
///
/// It may take more steps than the check (both sides of an `if`, all of an `anyOf`), never fewer.
struct Walk<'g> {
    graph: &'g Graph,
    left: u64,
    /// The resources that were entered, which `$dynamicRef` searches.
    scope: Vec<u32>,
    /// Size of the names on the current path, in bytes.
    path: u64,
    longest: u64,
}

impl Walk<'_> {
    fn apply(&mut self, id: NodeId, value: &Value, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let graph = self.graph;
        let node = graph.node(id);
        self.take(node.weight)?;
        let entered = self.scope.last() != Some(&node.resource);
        if entered {
            self.scope.push(node.resource);
        }
        // `unevaluated…` evaluates the schemas beside it again.
        for _ in 0..=u8::from(node.unevaluated) {
            for &same in &node.same {
                self.apply(same, value, depth + 1)?;
            }
            if let Some(dynamic) = &node.dynamic {
                self.take(self.scope.len() as u64)?;
                self.apply(graph.resolve(dynamic, &self.scope), value, depth + 1)?;
            }
        }
        match value {
            Value::String(text) => self.text(node, text)?,
            Value::Array(elements) => self.elements(node, elements, depth)?,
            Value::Object(members) => self.members(node, members, depth)?,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if node.unique {
            self.whole(value)?;
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
        self.take(node.properties.len() as u64)?;
        let before = self.path;
        if !node.each_member.is_empty() {
            // A reason may list all unexpected members.
            let names: u64 = members.keys().map(|name| name.len() as u64).sum();
            self.longest = self.longest.max(before + names);
        }
        for (name, member) in members {
            self.path = before + name.len() as u64;
            self.longest = self.longest.max(self.path);
            for &(states, pattern) in &node.patterns {
                self.take(1 + name.len() as u64 * states / STEPS)?;
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
    fn text(&mut self, node: &Node, text: &str) -> Option<()> {
        self.take((text.len() as u64).saturating_mul(node.steps_per_byte) / STEPS)
    }

    /// Spends the cost of comparing whole elements for uniqueness.
    fn whole(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::String(text) => self.take(1 + text.len() as u64 / STEPS),
            Value::Array(elements) => elements.iter().try_for_each(|element| self.whole(element)),
            Value::Object(members) => members.values().try_for_each(|member| self.whole(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.take(1),
        }
    }

    fn take(&mut self, units: u64) -> Option<()> {
        self.left = self.left.checked_sub(units)?;
        Some(())
    }
}
