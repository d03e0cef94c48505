//! Owns how much work it is to check a value against a schema, found out before it is done.
//!
//! What could make a check run for ever, or nearly, is the number of times that schemas are applied: with
//! references a schema of a few hundred bytes is applied 2^n times, or as often as the value is deep. So the
//! same way is gone first, without looking at any outcome, and with a budget. Where the budget ends there
//! is no check. Going the way costs less than checking does, and at most the budget.

use serde_json::Value;

use super::graph::{Graph, Node, NodeId, ROOT};

/// How much work a check is: less than the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    units: u64,
    /// Bytes of the longest way to a value, and of names that a reason may list.
    longest: u64,
}

impl Cost {
    /// Whether all reasons can be collected: at most one for each unit, and each says where.
    pub(super) fn is_small(self) -> bool {
        self.units <= SMALL && self.units.saturating_mul(self.longest) <= SMALL_BYTES
    }
}

/// A unit is about one keyword applied to one value: some 50 ns. In all, a quarter of a second.
const BUDGET: u64 = 5_000_000;
/// Up to here reasons are collected; they take memory.
const SMALL: u64 = 100_000;
/// The same in bytes of places: a server may call a member by a name of megabytes.
const SMALL_BYTES: u64 = 64 << 20;
/// How deeply schemas may be applied within each other. The validator recurses the same way, on the stack.
const MAX_DEPTH: usize = 400;
/// Steps of a pattern that are one unit.
const STEPS: u64 = 32;

/// What a check would cost. `None`: too much, or too deep.
pub(super) fn of(graph: &Graph, value: &Value) -> Option<Cost> {
    let mut walk = Walk { graph, left: BUDGET, scope: Vec::new(), path: 0, longest: 0 };
    walk.apply(ROOT, value, 0)?;
    Some(Cost { units: BUDGET - walk.left, longest: walk.longest })
}

/// Goes the way of a check. Bounded by three things: `left`, which every step takes from; the depth; and
/// the graph, whose parts are as many as the schema has.
///
/// It may take more steps than the check will (both sides of an `if`, all of an `anyOf`), never fewer.
struct Walk<'g> {
    graph: &'g Graph,
    left: u64,
    /// The resources that were entered and not left: where `$dynamicRef` looks.
    scope: Vec<u32>,
    /// Bytes of the names on the way to where it is.
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
        // `unevaluated…` asks again what the schemas beside it have looked at.
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
        // Each is looked up, whether or not it is there.
        self.take(node.properties.len() as u64)?;
        let before = self.path;
        if !node.each_member.is_empty() {
            // A reason may list all members that should not be there.
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

    /// Patterns and formats look at every byte, some of them many times.
    fn text(&mut self, node: &Node, text: &str) -> Option<()> {
        self.take((text.len() as u64).saturating_mul(node.steps_per_byte) / STEPS)
    }

    /// Elements that must differ are compared whole.
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
