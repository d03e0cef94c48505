//! Owns what a gateway exposes of a server: which tools, under which names, with which descriptions.

use std::collections::BTreeMap;

/// What a gateway exposes of a server. What is not exposed cannot be reached through it either.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Exposure {
    /// The tools that are exposed, by the server's own names for them; `None` exposes all.
    pub enabled_tools: Option<Vec<ToolPattern>>,
    /// The tools that are not exposed, also if `enabled_tools` names them.
    pub disabled_tools: Vec<ToolPattern>,
    /// Whether prompts are exposed (default: they are).
    pub prompts: bool,
    /// Whether resources and resource templates are exposed (default: they are).
    pub resources: bool,
    /// New names of tools, by the server's own names for them.
    pub tool_names: BTreeMap<String, String>,
    /// New descriptions of tools, by the server's own names for them.
    pub tool_descriptions: BTreeMap<String, String>,
}

/// A name of a tool, or the names that it stands for: `*` is any number of any characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolPattern(String);

impl Exposure {
    /// Whether the tool with this name of the server is exposed.
    pub fn exposes_tool(&self, name: &str) -> bool {
        let is_in = |patterns: &[ToolPattern]| patterns.iter().any(|pattern| pattern.matches(name));
        self.enabled_tools.as_deref().is_none_or(is_in) && !is_in(&self.disabled_tools)
    }
}

impl Default for Exposure {
    fn default() -> Self {
        Self {
            enabled_tools: None,
            disabled_tools: Vec::new(),
            prompts: true,
            resources: true,
            tool_names: BTreeMap::new(),
            tool_descriptions: BTreeMap::new(),
        }
    }
}

impl ToolPattern {
    /// Creates a pattern.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Whether the pattern stands for one name only.
    pub(crate) fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether a name is one of those that the pattern stands for.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let mut middle: Vec<&str> = parts.collect();
        let Some(last) = middle.pop() else { return rest.is_empty() };
        for part in middle {
            // The first place leaves most for the parts after it.
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("read", "read", true),
            ("read", "reads", false),
            ("read", "Read", false),
            ("read_*", "read_", true),
            ("read_*", "read_file", true),
            ("read_*", "unread_file", false),
            ("*_file", "read_file", true),
            ("*", "", true),
            ("*", "anything", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("*é*", "café au lait", true),
            ("", "", true),
            ("", "x", false),
            ("**x", "yx", true),
        ] {
            assert_eq!(ToolPattern::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_disabled_tool_is_not_exposed() {
        let all = |patterns: &[&str]| patterns.iter().copied().map(ToolPattern::new).collect::<Vec<_>>();
        let some = Exposure { enabled_tools: Some(all(&["read*", "list"])), ..Exposure::default() };
        assert!(some.exposes_tool("read_file") && some.exposes_tool("list") && !some.exposes_tool("write"));
        let others = Exposure { disabled_tools: all(&["read_secret"]), ..some };
        assert!(others.exposes_tool("read_file") && !others.exposes_tool("read_secret"));
        assert!(Exposure::default().exposes_tool(""));
        let none = Exposure { enabled_tools: Some(Vec::new()), ..Exposure::default() };
        assert!(!none.exposes_tool("a"));
    }
}
